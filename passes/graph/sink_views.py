"""Elementwise ops go before the view that their operand is seen through: of rows taken apart, of groups joined."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from ...dialects import builders, ir, tensor
from ...dialects.walk import defining_op
from ..analysis.classify import classify_sum
from ..analysis.groups import is_pointwise
from ..analysis.kinds import Contraction, Conv, DepthwiseConv
from ..infra.base import Pass
from ..ir.dynamic_sizes import emit_dynamic_sizes
from ..ir.edit import body_of, erase_dead, list_programs, replace
from ..ir.maps import collapse_dims, reassociation_of
from ..ir.structure import dim_of, indexing_maps, is_dynamic, is_zero, iterator_types, list_ops, num_inputs, shape_of
from ..ir.uses import readers_of, users_of

# Ops between a sum and what reads it: a norm has a handful.
_MOST_BETWEEN = 16


@dataclass(frozen=True)
class SinkViews(Pass):
    """Compute elementwise ops on a tensor whose rows a view has taken apart on the rows as they were.

    Before::

        %y = linalg.generic {a product} : tensor<?x8xf32>                             // of batch and length together
        %e = tensor.expand_shape %y [[0, 1], [2]] : tensor<?x8xf32> into tensor<?x?x8xf32>
        %r = linalg.generic {add, (a, b, c) -> (a, b, c), (c)} ins(%e, %bias)
        %c = tensor.collapse_shape %r [[0, 1], [2]]

    After::

        %y = linalg.generic {a product}
        %r = linalg.generic {add, (r, c) -> (r, c), (c)} ins(%y, %bias)               // which fuses with the product
        %e = tensor.expand_shape %r [[0, 1], [2]]
        // readers of %c read %r

    An elementwise op on the channels of all groups of a convolution, which a view has joined, has the groups apart as
    the convolution has them, and fuses with it: ``(n, h, w, g * f)`` becomes ``(n, h, w, g, f)``, a bias ``(g, f)``.

    A tensor whose rows a view has joined for a reduction is seen through that view by what reads it with something made
    of the reduction: a norm of images is one kernel of rows.

    Other operands of the same shape are seen through a view that joins the rows. One that differs along them (a mask
    for each batch) leaves the op as it is. So does a view of known sizes that adds only dims of one element, which are
    no matter to fusion, or takes apart what is in a row, as heads are.
    """

    name: ClassVar[str] = "sink-views"
    opt_level: ClassVar[int] = 1

    def apply(self, module: ir.Module) -> None:
        """Rewrite all programs of the module."""
        for function in list_programs(module):
            for op in list_ops(function):
                if op.name == "tensor.collapse_shape":
                    _share(op)
            grouped = set[ir.Value]()
            for op in list_ops(function):
                if op.name == "linalg.generic":
                    if _has_groups(op):
                        grouped.add(op.results[0])
                    elif not _part_groups(op, grouped):
                        _sink(op)
                elif op.name == "tensor.collapse_shape":
                    _undo(op)
            erase_dead(function)


def _share(view: ir.Operation) -> None:
    """Let elementwise ops on what a view joins the rows of, and on sums of these, read it through the view too."""
    whole, groups = view.operands[0], reassociation_of(view)
    sums = {op for op in users_of(view) if op.name == "linalg.generic" and "reduction" in iterator_types(op)}
    if not sums or not is_dynamic(view) or len(groups[-1]) == 1:
        return
    readers = [op for op in readers_of(whole) if _reads_with(op, whole, sums, groups)]
    if not readers:
        return
    with ir.InsertionPoint.after(view), view.location:
        sizes = emit_dynamic_sizes(whole)
        apart = tensor.ExpandShapeOp(whole.type, view.results[0], groups, sizes, shape_of(whole)).result
    for op in readers:
        for number, operand in enumerate(op.operands):
            if operand == whole:
                op.operands[number] = apart


def _reads_with(op: ir.Operation, whole: ir.Value, sums: set[ir.Operation], groups: Sequence[Sequence[int]]) -> bool:
    """Return whether an elementwise op reads a tensor as it lies, and something that is made of one of ``sums``."""
    if not is_pointwise(op) or any(_join_map_dims(m, groups) is None for m in indexing_maps(op)):
        return False
    maps = indexing_maps(op)
    inputs = list(zip(list(op.operands)[: num_inputs(op)], maps, strict=False))
    if any(m != maps[-1] for value, m in inputs if value == whole):
        return False
    return any(_is_made_of(value, sums) for value, _ in inputs if value != whole)


def _is_made_of(value: ir.Value, sums: set[ir.Operation]) -> bool:
    """Return whether a value is one of the sums, element by element or in another view."""
    pending, seen = [value], set[ir.Operation]()
    while pending and len(seen) < _MOST_BETWEEN:
        op = defining_op(pending.pop())
        if op in sums:
            return True
        if op is None or op in seen:
            continue
        seen.add(op)
        if is_pointwise(op):
            pending += list(op.operands)[: num_inputs(op)]
        elif op.name in ("tensor.expand_shape", "tensor.collapse_shape", "tensor.cast"):
            pending.append(op.operands[0])
    return False


def _sink(op: ir.Operation) -> None:
    view = _expansion(op)
    if view is None:
        return
    groups, inputs = reassociation_of(view), list(op.operands)[: num_inputs(op)]
    maps = [_join_map_dims(m, groups) for m in indexing_maps(op)]
    found = [m for m in maps if m is not None]
    if len(found) < len(maps):
        return
    with ir.InsertionPoint(op), op.location:
        whole = list(range(len(groups)))
        values = [_collapse_value(v, view) if m == whole else v for v, m in zip(inputs, found, strict=False)]
        sizes, kind = iter(emit_dynamic_sizes(view.operands[0])), ir.RankedTensorType(view.operands[0].type)
        out = tensor.EmptyOp([next(sizes) if n < 0 else n for n in kind.shape], builders.element_of(op.results[0]))
        [made] = builders.generic(values, [out.result], found, "p" * len(groups), body_of(op))
        expanded = view.clone()
        expanded.operands[0] = made
        expanded.results[0].set_type(op.results[0].type)
        replace(op, [expanded.results[0]])


def _has_groups(op: ir.Operation) -> bool:
    """Return whether an op is a convolution with groups, or a product with a batch, of known sizes.

    One with several filters for each channel has its channels for groups.
    """
    match classify_sum(op):
        case Conv(g=groups) | DepthwiseConv(f=groups) | Contraction(batch=groups):
            return bool(groups) and not is_dynamic(op)
        case _:
            return False


def _part_groups(op: ir.Operation, grouped: set[ir.Value]) -> bool:
    """Compute an elementwise op with the groups apart of what a view has joined, which is one of ``grouped``."""
    maps = indexing_maps(op) if is_pointwise(op) and not is_dynamic(op) else []
    views = [defining_op(v) for v, m in zip(list(op.operands)[: num_inputs(op)], maps, strict=False) if m == maps[-1]]
    found = [v for v in views if v is not None and v.name == "tensor.collapse_shape" and v.operands[0] in grouped]
    if not found:
        return False
    view = found[0]
    groups, shape = reassociation_of(view), shape_of(view.operands[0])
    with ir.InsertionPoint(op), op.location:
        made = [_part_dims(v, m, groups, shape) for v, m in zip(op.operands, maps, strict=True)]
        values, parted = [value for value, _ in made[:-1]], [dims for _, dims in made]
        out = builders.empty(shape, builders.element_of(op.results[0]))
        [result] = builders.generic(values, [out], parted, "p" * len(shape), body_of(op))
        grouped.add(result)
        replace(op, [collapse_dims(result, groups)])
    return True


def _part_dims(
    value: ir.Value, m: ir.AffineMap, groups: Sequence[Sequence[int]], shape: Sequence[int]
) -> tuple[ir.Value, list[int | None]]:
    """A value whose dims are as far apart as those of ``shape`` are before groups of them are joined, and its map."""
    read = [None if is_zero(e) else dim_of(e) for e in m.results]
    parts = [[None] if dim is None else [*groups[dim]] for dim in read]
    dims = [dim for part in parts for dim in part]
    if len(dims) == len(parts):
        return value, dims
    source = defining_op(value)
    if source is not None and source.name == "tensor.collapse_shape" and shape_of(source.operands[0]) == [*shape]:
        return source.operands[0], dims
    return builders.reshape(value, [1 if dim is None else shape[dim] for dim in dims]), dims


def _expansion(op: ir.Operation) -> ir.Operation | None:
    """The view that takes apart dims of an op's operands, if the op computes each element at its place alone."""
    if not is_pointwise(op):
        return None
    maps = indexing_maps(op)
    for value, m in zip(list(op.operands)[: num_inputs(op)], maps, strict=False):
        source = defining_op(value)
        if source is not None and source.name == "tensor.expand_shape" and m == maps[-1]:
            return source if is_dynamic(op) or _parts_rows(source) else None
    return None


def _parts_rows(view: ir.Operation) -> bool:
    """Return whether a view of known sizes takes rows apart, and not what is in each of them, such as heads."""
    *rows, last = [[size for size in sizes if size > 1] for sizes in _split_sizes(view)] or [[]]
    return len(last) < 2 and any(len(sizes) > 1 for sizes in rows)


def _split_sizes(view: ir.Operation) -> list[list[int]]:
    shape = shape_of(view.results[0])
    return [[shape[axis] for axis in group] for group in reassociation_of(view)]


def _join_map_dims(m: ir.AffineMap, groups: Sequence[Sequence[int]]) -> list[int | None] | None:
    """The dims that a map reads after dims are joined; None where it reads others beside them, or a part of them.

    ``Seams`` asks less: what has one value for each row, as a norm's means, is left beside the sum that it comes from.
    """
    place = {group[0]: i for i, group in enumerate(groups) if len(group) == 1}
    dims = [None if is_zero(e) else dim_of(e) for e in m.results]
    if dims == [d for group in groups for d in group]:
        return list(range(len(groups)))
    if any(d is None and not is_zero(e) for d, e in zip(dims, m.results, strict=True)):
        return None
    if any(d is not None and d not in place for d in dims):
        return None
    return [None if d is None else place[d] for d in dims]


def _collapse_value(value: ir.Value, view: ir.Operation) -> ir.Value:
    """A value with dims joined as before a view."""
    groups, source = reassociation_of(view), defining_op(value)
    if source is not None and source.name == "tensor.expand_shape" and reassociation_of(source) == groups:
        return source.operands[0]
    return collapse_dims(value, groups)


def _undo(op: ir.Operation) -> None:
    """Let readers of a view of a view read what is the same without both."""
    source = defining_op(op.operands[0])
    if source is None or source.name != "tensor.expand_shape" or reassociation_of(source) != reassociation_of(op):
        return
    if source.operands[0].type == op.results[0].type:
        replace(op, [source.operands[0]])
