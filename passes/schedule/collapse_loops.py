"""Loops of a kernel that all tensors walk together become one."""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from ...dialects import arith, func, ir, linalg, tensor
from ...dialects.builders import element_of
from ...dialects.walk import defining_op, is_constant
from ..analysis.classify import classify_op
from ..analysis.kinds import Broadcast, Contraction, Elementwise, Injective, Reduction
from ..analysis.seams import AxisWalk, Seams
from ..infra.base import Pass
from ..ir.kernel import copy_marks, find_script, is_dynamic_kernel, list_functions, symbol_of
from ..ir.structure import (
    body_ops,
    dim_of,
    indexing_maps,
    is_zero,
    iterator_types,
    list_ops,
    loop_extents,
    num_inputs,
    shape_of,
)
from .tiles.regions import full_region
from .tiles.structured import capture_scalar, clone_body, make_empty, make_generic


@dataclass(frozen=True)
class CollapseLoops(Pass):
    """Rebuild a kernel of elementwise ops, reductions or products by pixels, if its tensors have dims to collapse.

    Before::

        func @k(%a: tensor<1x64x7x7xf32>, %s: tensor<1x64x1x1xf32>) -> tensor<1x64x7x7xf32>   // s at (0, c, 0, 0)

    After::

        func @k(%a: tensor<64x49xf32>, %s: tensor<64xf32>) -> tensor<64x49xf32>               // s at (c)

    A kernel's buffers are bare pointers, so a change of its tensors' shapes is free. Long rows make whole vectors where
    short ones (7) would be rests only. Of a slice of an argument those axes are joined that it has whole, and the one
    before them: a part of an image in channels last is rows of pixels and channels.
    """

    name: ClassVar[str] = "collapse-loops"

    def apply(self, module: ir.Module) -> None:
        """Rebuild those functions of the module that can be."""
        for function in list_functions(module):
            kept = is_dynamic_kernel(function) or find_script(function) is not None  # a script names the loops
            ops = [] if kept else _collect_structured(function)
            if not ops:
                continue
            walks = [_Walk.of(op) for op in ops]
            walked = {value for walk in walks for value, _ in walk.tensors}
            cut = (op for op in list_ops(function) if op.name == "tensor.extract_slice")
            parts = [_Part.of(op) for op in cut if op.results[0] in walked]
            joins = _joins(walks, parts)
            fewer = any(len(_heads(walk, joins)) < len(walk.extents) for walk in walks)
            if fewer if len(ops) == 1 else any(map(any, joins.values())):
                _rebuild(function, walks, parts, joins)


@dataclass(frozen=True)
class _Walk:
    """An op, its loops, and for each tensor that it reads or makes the loops of more than one step that walk it."""

    op: ir.Operation
    extents: list[int]
    tensors: list[tuple[ir.Value, list[int]]]
    init: list[int]

    @staticmethod
    def of(op: ir.Operation) -> _Walk:
        extents = loop_extents(op)
        loops = [[d for d in map(dim_of, m.results) if d is not None and extents[d] > 1] for m in indexing_maps(op)]
        tensors = list(zip([*list(op.operands)[:-1], op.results[0]], loops, strict=True))
        return _Walk(op, extents, tensors, loops[-1])


@dataclass(frozen=True)
class _Part:
    """A slice of an argument: ``value``, of ``source``, and where it lies there."""

    value: ir.Value
    source: ir.Value
    offsets: list[int]
    strides: list[int]

    @staticmethod
    def of(op: ir.Operation) -> _Part:
        numbers = (list(ir.DenseI64ArrayAttr(op.attributes[f"static_{name}"])) for name in ("offsets", "strides"))
        return _Part(op.results[0], op.operands[0], *numbers)

    def list_apart(self) -> list[tuple[ir.Value, int]]:
        """The seams between its axes of more than one element that memory has something else in."""
        sizes, whole = shape_of(self.value), shape_of(self.source)
        large = [axis for axis, n in enumerate(sizes) if n != 1]
        return [
            (self.value, number)
            for number, (first, second) in enumerate(itertools.pairwise(large))
            if self.strides[first] != 1
            or sizes[first + 1 : second + 1] != whole[first + 1 : second + 1]
            or self.strides[second] != 1
        ]

    def group_axes(self, joined: Sequence[bool]) -> list[list[int]]:
        """The axes of the source that become one, those of one element left out."""
        groups: list[list[int]] = []
        large = [axis for axis, n in enumerate(shape_of(self.value)) if n != 1]
        for axis, goes_on in zip(large, [False, *joined], strict=True):
            if goes_on:
                groups[-1].append(axis)
            else:
                groups.append([axis])
        return groups

    def collapse_source(self, joined: Sequence[bool]) -> ir.RankedTensorType:
        """The type of the source in groups of axes."""
        whole = shape_of(self.source)
        shape = [math.prod(whole[axis] for axis in group) for group in self.group_axes(joined)]
        return ir.RankedTensorType.get(shape, element_of(self.source))

    def emit(self, source: ir.Value, joined: Sequence[bool]) -> ir.Value:
        """The slice of the source in groups of axes, at the insertion point."""
        groups, whole = self.group_axes(joined), shape_of(self.source)
        offsets = [self.offsets[group[0]] * math.prod(whole[axis] for axis in group[1:]) for group in groups]
        kind = _collapse_type(self.value, joined)
        strides = [self.strides[group[0]] for group in groups]
        return tensor.ExtractSliceOp(kind, source, [], [], [], offsets, list(kind.shape), strides).result


# For each tensor whether each of its dims of more than one element goes on in the next.
_Joins = dict[ir.Value, list[bool]]


def _collect_structured(function: func.FuncOp) -> list[ir.Operation]:
    """The kernel's structured ops, if their operands are the arguments and each other, and their loops are plain.

    What is read at computed places is an argument that no loop walks.
    """
    ops = list_ops(function)
    known = {v for v in function.arguments if isinstance(v.type, ir.RankedTensorType)}
    found: list[ir.Operation] = []
    for op in ops[:-1]:
        # Other constant tensors are resources, as torch-mlir writes them, which have no elements to put in order.
        if op.name == "arith.constant" and isinstance(op.attributes["value"], ir.DenseElementsAttr):
            known.add(op.results[0])
        if op.name in ("arith.constant", "tensor.empty", "linalg.fill"):
            continue
        if op.name == "tensor.extract_slice" and _is_part(op):
            known.add(op.results[0])
            continue
        if op.name != "linalg.generic" or not _has_plain_loops(op, known):
            return []
        found.append(op)
        known.add(op.results[0])
    whole = len(ops[-1].operands) == 1 and found and ops[-1].operands[0] == found[-1].results[0]
    walked = {v for op in found for v in op.operands}
    if any(table in walked for op in found for table in _list_tables(op)):
        return []
    return found if whole and len(function.arguments) == sum(isinstance(v, ir.BlockArgument) for v in known) else []


def _is_part(op: ir.Operation) -> bool:
    """Return whether an op is a slice of an argument that nothing else reads, along axes of more than one element."""
    source, result = op.operands[0], op.results[0]
    alone = isinstance(source, ir.BlockArgument) and sum(1 for _ in source.uses) == 1
    if not alone or len(op.operands) != 1 or len(shape_of(source)) != len(shape_of(result)):
        return False
    return all(n > 1 or (n == 1 and whole == 1) for n, whole in zip(shape_of(result), shape_of(source), strict=True))


def _has_plain_loops(op: ir.Operation, known: set[ir.Value]) -> bool:
    """Return whether separate loops walk each dim of an op's tensors, in any order, and its body sees elements only."""
    kind = classify_op(op)
    light = isinstance(kind, Elementwise | Broadcast | Injective | Reduction)
    if len(op.results) != 1 or not (light or (isinstance(kind, Contraction) and _has_several_columns(op, kind))):
        return False
    *inputs, init = op.operands
    if any(v not in known for v in inputs) or any(extent < 1 for extent in loop_extents(op)) or not _is_new(op, init):
        return False
    for value, m in zip(op.operands, indexing_maps(op), strict=True):
        loops = [dim_of(e) for e in m.results]
        large = [d for d, n in zip(loops, shape_of(value), strict=True) if n != 1]
        if any(d is None and not is_zero(e) for d, e in zip(loops, m.results, strict=True)):
            return False
        if None in large or len(set(large)) < len(large):
            return False
    inside = {r for o in body_ops(op) for r in o.results} | set(op.regions[0].blocks[0].arguments)
    tables = _list_tables(op)
    captured = [v for o in list_ops(op) for v in o.operands if v not in inside and v not in tables]
    if not all(map(is_constant, captured)) or (tables and not _is_look_up(op, tables)):
        return False
    return not any(o.name == "linalg.index" or o.regions for o in body_ops(op))


def _is_look_up(op: ir.Operation, tables: Sequence[ir.Value]) -> bool:
    """Return whether an op reads arguments at computed places, and not what it writes over, as sums of one term do."""
    before = op.regions[0].blocks[0].arguments[num_inputs(op)]
    return all(isinstance(table, ir.BlockArgument) for table in tables) and not any(True for _ in before.uses)


def _list_tables(op: ir.Operation) -> list[ir.Value]:
    """The tensors that an op's body reads at places that it computes."""
    return [o.operands[0] for o in body_ops(op) if o.name == "tensor.extract"]


def _has_several_columns(op: ir.Operation, kind: Contraction) -> bool:
    """Return whether the columns of a product are those of several axes, pixels of rows."""
    return sum(loop_extents(op)[loop] > 1 for loop in kind.n) > 1


def _is_new(op: ir.Operation, init: ir.Value) -> bool:
    """Return whether an initial value is a filled tensor, or one that nobody reads."""
    source = defining_op(init)
    arguments = op.regions[0].blocks[0].arguments
    unread = not any(True for _ in arguments[len(arguments) - 1].uses)
    if source is None or source.name not in ("tensor.empty", "linalg.fill"):
        return False
    return unread or (source.name == "linalg.fill" and is_constant(source.operands[0]))


def _joins(walks: Sequence[_Walk], parts: Sequence[_Part]) -> _Joins:
    """The most that can be joined: what one op walks apart is apart for all that read or make the tensor."""
    apart = [seam for part in parts for seam in part.list_apart()]
    seams = Seams((AxisWalk(iterator_types(walk.op), walk.tensors) for walk in walks), apart)
    tensors = {value: loops for walk in walks for value, loops in walk.tensors}
    return {value: [seams.joins(value, i) for i in range(len(loops) - 1)] for value, loops in tensors.items()}


def _heads(walk: _Walk, joins: _Joins) -> dict[int, list[int]]:
    """The loops that are joined to each one that remains, in order, itself first."""
    following = {
        first: second
        for value, loops in walk.tensors
        for first, second, joined in zip(loops, loops[1:], joins[value], strict=False)
        if joined
    }
    heads: dict[int, list[int]] = {}
    for loop, extent in enumerate(walk.extents):
        if extent == 1 or loop in following.values():
            continue
        heads[loop] = [loop]
        while heads[loop][-1] in following:
            heads[loop].append(following[heads[loop][-1]])
    return heads


def _collapse_type(value: ir.Value, joined: Sequence[bool]) -> ir.RankedTensorType:
    shape: list[int] = []
    for extent, goes_on in zip([n for n in shape_of(value) if n != 1], [False, *joined], strict=False):
        if goes_on:
            shape[-1] *= extent
        else:
            shape.append(extent)
    return ir.RankedTensorType.get(shape, element_of(value))


def _rebuild(function: func.FuncOp, walks: Sequence[_Walk], parts: Sequence[_Part], joins: _Joins) -> None:
    cut = {part.source: part.collapse_source(joins[part.value]) for part in parts}
    whole = {a: _collapse_type(a, joins[a]) for a in function.arguments if a in joins}
    inputs = [cut.get(a, whole.get(a, a.type)) for a in function.arguments]
    result = walks[-1].op.results[0]
    with ir.InsertionPoint(function), function.location:
        made = func.FuncOp(symbol_of(function), (inputs, [_collapse_type(result, joins[result])]))
    copy_marks(function, made)
    block = made.add_entry_block()
    new: dict[ir.Value, ir.Value] = dict(zip(function.arguments, block.arguments, strict=True))
    with ir.InsertionPoint(block), function.location:
        new |= {part.value: part.emit(new[part.source], joins[part.value]) for part in parts}
    for walk in walks:
        with ir.InsertionPoint(block), walk.op.location:
            for value, _ in walk.tensors[:-1]:
                if value not in new:
                    new[value] = _reshape_constant(value, _collapse_type(value, joins[value]))
            new[walk.op.results[0]] = _remade(walk, joins, new)
    with ir.InsertionPoint(block), function.location:
        func.ReturnOp([new[result]])
    function.operation.erase()


def _reshape_constant(value: ir.Value, kind: ir.RankedTensorType) -> ir.Value:
    """A constant tensor in another shape."""
    source = defining_op(value)
    assert source is not None
    numbers = source.attributes["value"]
    assert isinstance(numbers, ir.DenseElementsAttr)
    if numbers.is_splat:
        return arith.constant(kind, ir.DenseElementsAttr.get_splat(kind, numbers.get_splat_value()))
    # As text: the bindings cannot read the elements of a narrow float type.
    text = str(numbers)[len("dense<") :].rpartition(">")[0].rpartition(">")[0]
    elements = [ir.Attribute.parse(f"{n} : {kind.element_type}") for n in re.findall(r"[^][,\s]+", text)]
    return arith.constant(kind, ir.DenseElementsAttr.get(elements, kind))


def _remade(walk: _Walk, joins: _Joins, new: dict[ir.Value, ir.Value]) -> ir.Value:
    """The op with the loops that remain."""
    heads = _heads(walk, joins)
    number = {loop: i for i, loop in enumerate(heads)}
    kinds = [iterator_types(walk.op)[loop] for loop in heads]
    maps = [
        ir.AffineMap.get(len(heads), 0, [ir.AffineExpr.get_dim(number[d]) for d in loops if d in number])
        for _, loops in walk.tensors
    ]
    kind = _collapse_type(walk.op.results[0], joins[walk.op.results[0]])
    assert list(kind.shape) == [math.prod(walk.extents[d] for d in heads[loop]) for loop in walk.init if loop in heads]
    out = make_empty(kind.shape, kind.element_type)
    source = defining_op(walk.op.operands[len(walk.op.operands) - 1])
    if source is not None and source.name == "linalg.fill":
        out = linalg.fill(capture_scalar(source.operands[0]), out)
    made, body = make_generic([new[v] for v, _ in walk.tensors[:-1]], [out], maps, kinds)
    tables = {table: new[table] for table in _list_tables(walk.op)}
    clone_body(walk.op, body, list(body.arguments), full_region(walk.extents), [], tables=tables)
    return made.results[0]
