"""One physical layout for convolutions and what lies between them, decided on values, then applied.

A layout is the order in which the dims of a value lie in memory: ``(0, 2, 3, 1)`` is channels last for a value whose
dims are ``(n, c, h, w)``. Deciding (``rewriting/layouts.py``) and applying are apart.
"""

from __future__ import annotations

from collections.abc import Sequence, Set
from dataclasses import dataclass
from typing import ClassVar

from ...core.errors import CompileError
from ...core.target import Target, detect_host
from ...dialects import builders, extents, func, ir
from ...dialects.types import DYNAMIC
from ...dialects.walk import defining_op
from ..infra.base import Pass
from ..ir.edit import erase_dead, list_programs, node_names
from ..ir.maps import order_loops, permute, reassociation_of, set_maps
from ..ir.structure import (
    dims_in,
    indexing_maps,
    is_static,
    is_tensor,
    iterator_types,
    list_ops,
    num_inputs,
    shape_of,
)
from ..ir.uses import find_captures, nested_ops
from .rewriting.layouts import DIM_LISTS, Layouts, Order, keeps_order, same_places
from .rewriting.pixel_columns import multiply_pixels


@dataclass(frozen=True)
class ConvertLayout(Pass):
    """Give the values around convolutions channels last; conversions remain where the graph needs another layout.

    Before::

        %y = linalg.generic {(n,f,h,w,c,i,j) -> (n,c,h+i,w+j), (f,c,i,j), (n,f,h,w)} ins(%x, %weight)
        %z = linalg.generic {relu, (n,f,h,w), (n,f,h,w)} ins(%y)

    After::

        %t = linalg.generic {transpose} ins(%x)                       // at the border
        %y = linalg.generic {(n,h,w,f,i,j,c) -> (n,h+i,w+j,c), (f,c,i,j), (n,h,w,f)} ins(%t, %weight)
        %z = linalg.generic {relu, (n,h,w,f), (n,h,w,f)} ins(%y)
        %u = linalg.generic {transpose} ins(%z)                       // at the border

    A convolution by single pixels takes the layout of what is around it; where that is channels first, it becomes a
    product whose columns are the pixels.

    A program's input of a few channels (an image) stays as it is: a convolution reads it element by element anyhow. So
    does the program's result where such a convolution alone makes it.

    Options:
        desired: ``channels-last``, or ``none`` to leave everything as it is.
        conv2d: ``NHWC`` or ``NCHW`` forces the layout of 2-D convolutions; CompileError says which one cannot have it,
            and why. The default is channels last wherever it can be.
        target: the machine; None is this one.
    """

    name: ClassVar[str] = "convert-layout"
    opt_level: ClassVar[int] = 1
    desired: str = "channels-last"
    conv2d: str = ""
    target: Target | None = None

    def apply(self, module: ir.Module) -> None:
        """Convert all programs of the module."""
        if self.desired not in ("channels-last", "none"):
            raise CompileError(f"pass '{self.name}': desired is '{self.desired}', not 'channels-last' or 'none'")
        if self.conv2d not in ("", "NHWC", "NCHW"):
            raise CompileError(f"pass '{self.name}': conv2d is '{self.conv2d}', not 'NHWC' or 'NCHW'")
        if self.desired == "none":
            return
        for function in list_programs(module):
            _own_initial_values(function)
            decided = Layouts(function, self.target or detect_host(), self.conv2d)
            layouts = decided.decide()
            if (refused := decided.find_refused(layouts)) is not None:
                op, why = refused
                node = ", ".join(node_names(op.location)) or "without a name"
                raise CompileError(f"pass '{self.name}': node {node} cannot be {self.conv2d}: {why}")
            rewriter = _Rewriter(layouts, decided.weights)
            for op in list_ops(function) if layouts else []:
                rewriter.rewrite(op)
            multiply_pixels(function)
            erase_dead(function)


def _own_initial_values(function: func.FuncOp) -> None:
    """Give each user of an empty or filled tensor one of its own: its layout is then the user's affair."""
    for op in reversed(list_ops(function)):
        if op.name not in ("tensor.empty", "linalg.fill"):
            continue
        for use in list(op.results[0].uses)[1:]:
            with ir.InsertionPoint(op):
                copy = op.clone()
            use.owner.operation.operands[use.operand_number] = copy.results[0]


class _Rewriter:
    """Rewrites ops in program order; converts a value where an op needs the other form of it, once for each form."""

    def __init__(self, layouts: dict[ir.Value, Order], weights: Set[ir.Value]) -> None:
        self.layouts, self.weights = layouts, weights
        self.converted: set[ir.Value] = set()  # those whose own type now has the layout
        self.copies: dict[tuple[ir.Value, bool], ir.Value] = {}

    def rewrite(self, op: ir.Operation) -> None:
        """Permute what the op says about dims, or give it and its users the forms that they need."""
        if op.name == "tensor.dim" or not any(
            v in self.layouts for v in (*op.operands, *op.results, *find_captures(op))
        ):
            return
        with ir.InsertionPoint(op), op.location:
            if op.name == "linalg.generic" and not keeps_order(op):
                self._generic(op)
            elif op.name in DIM_LISTS and self._agrees(op):
                self._dim_lists(op)
            elif not self._view(op):
                self._leave(op)

    def _form(self, value: ir.Value, in_layout: bool) -> ir.Value:
        """The value in its layout or in the order of its dims; a copy where it is not what the value itself has."""
        order = self.layouts.get(value)
        if order is None or (value in self.converted) == in_layout:
            return value
        if (value, in_layout) not in self.copies:
            self.copies[value, in_layout] = builders.transpose(value, order if in_layout else _inverse(order))
        return self.copies[value, in_layout]

    def _convert_results(self, op: ir.Operation) -> None:
        for result in op.results:
            if order := self.layouts.get(result):
                shape = shape_of(result)
                result.set_type(ir.RankedTensorType.get([shape[d] for d in order], builders.element_of(result)))
                _renumber_sizes(result, order)
                self.converted.add(result)

    def _leave(self, op: ir.Operation) -> None:
        """The op keeps the order of dims: it reads values in that order."""
        for user in (op, *nested_ops(op)):
            for i, operand in enumerate(user.operands):
                if operand in self.layouts:
                    user.operands[i] = self._form(operand, in_layout=False)

    def _generic(self, op: ir.Operation) -> None:
        maps = indexing_maps(op)
        weight_orders = self._weight_orders(op, maps)
        for i, operand in enumerate(op.operands):
            if order := self.layouts.get(operand):
                maps[i] = permute(maps[i], order)
                op.operands[i] = self._form(operand, in_layout=True)
            elif order := weight_orders.get(i):
                maps[i] = permute(maps[i], order)
                op.operands[i] = builders.transpose(operand, order)
        for inner in nested_ops(op):
            self._body_op(inner)
        self._convert_results(op)
        set_maps(op, maps)
        _interchange(op, maps)

    def _weight_orders(self, op: ir.Operation, maps: Sequence[ir.AffineMap]) -> dict[int, Order]:
        """Operands that have no layout but go with the result's: weights of an elementwise op, initial values."""
        order, inputs = self.layouts.get(op.results[0]), num_inputs(op)
        if order is None:
            return {}
        result = maps[inputs]
        elementwise = "reduction" not in iterator_types(op)
        joined = {
            i: order
            for i, (value, m) in enumerate(list(zip(op.operands, maps, strict=True))[:inputs])
            if elementwise and value in self.weights and is_static(value) and same_places(m, result)
        }
        return joined | {inputs + i: o for i, r in enumerate(op.results) if (o := self.layouts.get(r))}

    def _body_op(self, op: ir.Operation) -> None:
        order = self.layouts.get(op.operands[0]) if op.name == "tensor.extract" else None
        if order is None:
            return self._leave(op)
        indices = list(op.operands)[1:]
        op.operands[0] = self._form(op.operands[0], in_layout=True)
        for i, d in enumerate(order):
            op.operands[1 + i] = indices[d]
        return None

    def _agrees(self, op: ir.Operation) -> bool:
        """Return whether all tensors of an op of one rank have one layout, and no block of it counts their dims."""
        tensors = [v for v in (*op.operands, *op.results) if is_tensor(v)]
        if len({self.layouts.get(v) for v in tensors}) != 1:
            return False
        return not any(True for r in op.regions for b in r.blocks for a in b.arguments for _ in a.uses) or (
            op.name == "linalg.fill"
        )

    def _dim_lists(self, op: ir.Operation) -> None:
        order = self.layouts[op.results[0]]
        for i, operand in enumerate(op.operands):
            op.operands[i] = self._form(operand, in_layout=True)
        _permute_lists(op, order)
        if op.name == "tensor.concat":
            dim = ir.IntegerAttr(op.attributes["dim"])
            op.attributes["dim"] = ir.IntegerAttr.get(dim.type, order.index(dim.value))
        self._convert_results(op)

    def _view(self, op: ir.Operation) -> bool:
        """A reshape that splits or joins dims which lie together in both layouts (channels into groups) stays one."""
        if op.name == "tensor.cast" and self.layouts.get(op.operands[0]) == self.layouts.get(op.results[0]):
            op.operands[0] = self._form(op.operands[0], in_layout=True)
            self._convert_results(op)
            return True
        if op.name not in ("tensor.expand_shape", "tensor.collapse_shape"):
            return False
        source, result = op.operands[0], op.results[0]
        if source not in self.layouts or result not in self.layouts:
            return False
        groups = reassociation_of(op)
        narrow, wide = (source, result) if op.name == "tensor.expand_shape" else (result, source)
        moved = [groups[d] for d in self.layouts[narrow]]
        if [d for group in moved for d in group] != list(self.layouts[wide]):
            return False
        op.operands[0] = self._form(source, in_layout=True)
        op.attributes["reassociation"] = _renumber(moved)
        if op.name == "tensor.expand_shape":
            self._output_shape(op)
        self._convert_results(op)
        return True

    def _output_shape(self, op: ir.Operation) -> None:
        """Permute the sizes that an expansion gives its result's dims, numbers and values."""
        shape, order = shape_of(op.results[0]), self.layouts[op.results[0]]
        given = iter(list(op.operands)[1:])
        sizes = [next(given) if n < 0 else None for n in shape]
        for i, value in enumerate([sizes[d] for d in order if shape[d] < 0]):
            op.operands[1 + i] = value
        op.attributes["static_output_shape"] = ir.DenseI64ArrayAttr.get([shape[d] for d in order])


def _renumber_sizes(value: ir.Value, order: Order) -> None:
    """Let what asks for the sizes of a value that now has a layout ask for the dims where they are."""
    extents.forget(value)
    for use in list(value.uses):
        op = use.owner.operation
        if op.name == "tensor.dim" and (axis := defining_op(op.operands[1])) is not None:
            with ir.InsertionPoint(op), op.location:
                dim = ir.IntegerAttr(axis.attributes["value"]).value
                op.operands[1] = builders.index_constant(order.index(dim))


def _permute_lists(op: ir.Operation, order: Order) -> None:
    """Permute an op's lists over dims; what only the run knows of them is among the operands."""
    if op.name == "tensor.empty":
        shape, given = shape_of(op.results[0]), iter(list(op.operands))
        sizes = [next(given) if n < 0 else None for n in shape]
        for i, value in enumerate(sizes[d] for d in order if sizes[d] is not None):
            op.operands[i] = value
        return
    segments = list(ir.DenseI32ArrayAttr(op.attributes["operandSegmentSizes"])) if DIM_LISTS[op.name] else []
    at = sum(segments[: len(segments) - len(DIM_LISTS[op.name])])
    for name in DIM_LISTS[op.name]:
        old = list(ir.DenseI64ArrayAttr(op.attributes[name]))
        given = iter(list(op.operands)[at:])
        values = [next(given) if n == DYNAMIC else None for n in old]
        moved = [value for d in order if (value := values[d]) is not None]
        op.attributes[name] = ir.DenseI64ArrayAttr.get([old[d] for d in order])
        for i, value in enumerate(moved):
            op.operands[at + i] = value
        at += len(moved)


def _renumber(groups: list[list[int]]) -> ir.ArrayAttr:
    """Groups of the same sizes with dims in order."""
    i64, at, result = ir.IntegerType.get_signless(64), 0, []
    for group in groups:
        result.append(ir.ArrayAttr.get([ir.IntegerAttr.get(i64, at + i) for i in range(len(group))]))
        at += len(group)
    return ir.ArrayAttr.get(result)


def _inverse(order: Order) -> Order:
    return tuple(order.index(d) for d in range(len(order)))


def _interchange(op: ir.Operation, maps: Sequence[ir.AffineMap]) -> None:
    """Order the loops as the result's dims, then the reductions as the first operand's."""
    kinds = iterator_types(op)
    walked = [d for m in (maps[num_inputs(op)], *maps) for e in m.results for d in sorted(dims_in(e))]
    every = list(dict.fromkeys((*walked, *range(len(kinds)))))
    order = [d for d in every if kinds[d] == "parallel"] + [d for d in every if kinds[d] != "parallel"]
    if order == sorted(order):
        return
    set_maps(op, maps)
    order_loops(op, order)
