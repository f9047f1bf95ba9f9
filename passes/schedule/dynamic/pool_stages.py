"""A pool of images of open sizes as two stages: what its windows have in each column, and the windows along a row."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ....dialects import func, ir, linalg, tensor
from ....dialects.builders import element_of, index_constant
from ....dialects.walk import defining_op
from ...analysis.classify import classify_op
from ...analysis.kinds import Pooling
from ...analysis.size_classes import SizeClasses
from ...ir.edit import splat_of
from ...ir.kernel import list_functions
from ...ir.structure import loop_extents, loops_along, shape_of, terminator_of
from ..families.family import find_anchors
from ..separate_windows import combine_columns, combine_rows, has_rows_and_columns, initial_of
from ..tiles.axes import result_axis
from ..tiles.regions import NotSchedulable
from ..tiles.structured import capture_scalar
from ..tiling.dynamic_border import is_dynamic_padding
from ..tiling.pool_windows import Window, combines_elements, combines_parts, find_row_window, windows_of
from .dynamic_rows import copy_inner, stage_module


@dataclass(frozen=True)
class PoolStages:
    """A pool taken apart.

    modules: functions of the kernel's arguments: the combined rows, without padding, and the result of these, with the
    padding beside them. data: the number of the argument that is pooled. window: how windows move along a row, and
    ``span`` the elements of one there. step: how far they move along the axis of rows. low: the padding before each
    axis, and ``padding`` the number there. clipped: the windows of the first stage along axes that may be padded, by
    their loops.
    """

    modules: tuple[ir.Module, ir.Module]
    data: int
    window: Window
    span: int
    step: int
    low: tuple[int, ...]
    padding: float | int
    clipped: Mapping[int, Window]


def separate_pool(function: func.FuncOp) -> PoolStages:
    """The two stages of a pool. Raises NotSchedulable for all other kernels."""
    module, result = copy_inner(function)
    copied = list_functions(module)[0]
    op, kind, window = _find_pool(copied, result)
    data, low = op.operands[kind.data], tuple([0] * len(shape_of(op.operands[kind.data])))
    pad = defining_op(data)
    if pad is None and (loop_extents(op)[window.k] - 1) * window.dilation < window.stride:
        raise NotSchedulable("windows that share no column")
    if pad is not None and not _leaves_out(op, kind, pad):
        raise NotSchedulable("what is made in the kernel is pooled")
    if pad is not None:
        data, low = pad.operands[0], tuple(ir.DenseI64ArrayAttr(pad.attributes["static_offsets"]))
    with ir.InsertionPoint(op), op.location:
        sizes, width = _sizes_of_result(op), tensor.DimOp(data, index_constant(window.axis)).result
        first = combine_rows(op, kind, window, data, _fill(op, [*sizes[:-1], width]))
        beside = _fill(op, [*sizes[:-1], tensor.DimOp(data, index_constant(window.axis)).result])
        pooled = combine_columns(op, kind, window, beside, _fill(op, sizes))
    rows = defining_op(first)
    assert rows is not None  # a pool too
    stage, padded = classify_op(rows), _find_padded_axes(function) - {window.axis}
    clipped = {w.k: w for w in windows_of(rows, stage) if w.axis in padded} if isinstance(stage, Pooling) else {}
    if {w.axis for w in clipped.values()} != padded:
        raise NotSchedulable("padding along an axis that no window moves along")
    op.results[0].replace_all_uses_with(pooled)
    modules = stage_module(copied, first, []), stage_module(copied, terminator_of(copied).operands[0], [beside])
    span, number = loop_extents(op)[window.k], list(copied.arguments).index(data)
    [step, _], padding = kind.strides[-2:], splat_of(initial_of(op)) if pad is not None else None
    return PoolStages(modules, number, window, span, step, low, padding or 0, clipped)


def _find_padded_axes(function: func.FuncOp) -> set[int]:
    """The axes of what the pool of a kernel reads that may be padded, as far as the kernel knows its sizes."""
    [(op, kind)] = find_anchors(function)
    assert isinstance(kind, Pooling)  # as the stages are made of one
    pad = defining_op(op.operands[kind.data])
    if pad is None:
        return set()
    known = SizeClasses(function)
    low = list(ir.DenseI64ArrayAttr(pad.attributes["static_offsets"]))
    sizes = zip(low, known.of(pad.results[0]), known.of(pad.operands[0]), strict=True)
    return {axis for axis, (before, whole, inner) in enumerate(sizes) if before or whole != inner}


def _find_pool(function: func.FuncOp, result: ir.Value) -> tuple[ir.Operation, Pooling, Window]:
    """The one anchor of a function, a pool of images of open sizes, and its window along rows.

    Raises NotSchedulable where there is no such pool.
    """
    anchors = find_anchors(function)
    op, kind = anchors[0] if len(anchors) == 1 else (None, None)
    if op is None or not isinstance(kind, Pooling) or not combines_parts(op):
        raise NotSchedulable("no pool")
    window, made = find_row_window(op, kind), shape_of(op.results[0])
    if window is None or not has_rows_and_columns(op, kind, window) or max(made[-2:]) >= 0:
        raise NotSchedulable("no pool of images of open sizes")
    place = loops_along(op, -1).index(window.o)
    axes = [result_axis(op, loop, result) for loop in loops_along(op, -1) if loop is not None]
    if place != len(made) - 1 or window.axis != place or axes != list(range(len(shape_of(result)))):
        raise NotSchedulable("rows that are no last axis")
    return op, kind, window


def _sizes_of_result(op: ir.Operation) -> list[int | ir.Value]:
    """The sizes of what a pool makes, of which it is given a filled tensor."""
    out = defining_op(op.operands[2])
    assert out is not None  # as where parts can be combined
    return _sizes_of(out)


def _sizes_of(filled: ir.Operation) -> list[int | ir.Value]:
    """The sizes of a filled tensor, values where only the run knows them."""
    made = defining_op(filled.operands[1])
    if made is None or made.name != "tensor.empty":
        raise NotSchedulable("sizes that are made with no tensor")
    given = iter(made.operands)
    return [next(given) if n < 0 else n for n in shape_of(made.results[0])]


def _fill(op: ir.Operation, sizes: Sequence[int | ir.Value]) -> ir.Value:
    """A tensor that has a pool's initial value everywhere."""
    out = tensor.EmptyOp(sizes, element_of(op.results[0])).result
    return linalg.fill(capture_scalar(initial_of(op)), out)


def _leaves_out(op: ir.Operation, kind: Pooling, pad: ir.Operation) -> bool:
    """Return whether what is pooled is an argument with padding that changes no sum."""
    if not is_dynamic_padding(pad) or defining_op(pad.operands[0]) is not None or not combines_elements(op, kind.data):
        return False
    around = defining_op(pad.operands[1])
    assert around is not None  # filled, as of what is padded
    value = splat_of(around.operands[0])
    return value is not None and value == splat_of(initial_of(op))
