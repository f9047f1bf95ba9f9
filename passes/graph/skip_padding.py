"""Padding that convolutions need not read is left to their kernels, which do not make it."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

from ...core.target import Target, detect_host
from ...dialects import builders, ir, tw
from ...dialects.walk import defining_op
from ..analysis.classify import classify_sum
from ..analysis.kinds import Conv
from ..infra.base import Pass
from ..ir.edit import erase_dead, list_programs
from ..ir.structure import is_static, list_ops, shape_of, terminator_of
from ..ir.uses import users_of
from ..schedule.families.split_blocks import splits_windows
from ..schedule.tiles.structured import capture_scalar
from ..schedule.tiling.pool_windows import Window, amounts_of, find_clipped_windows, find_padded_columns, windows_of

# The attributes that hold the sizes of views' results.
_SIZE_LISTS = {"tensor.extract_slice": "static_sizes", "tensor.expand_shape": "static_output_shape"}


@dataclass(frozen=True)
class SkipPadding(Pass):
    """Divide the padding of a convolution in two: what its kernel need not read, and what is stored around the value.

    A kernel computes one row of pixels after the other. The elements of a window that lie above or below of the image
    would add zeros; they can be left out, a whole row of a window at a time. Done along each axis but the last where
    that leaves out enough: two in seven of all elements of a 3x3 window of rate 6 over 14 rows.

    Before::

        %p = tensor.pad %x low[6, 6, 0] high[6, 6, 0]
        %c = linalg.generic {convolution} ins(%p, %w)

    After::

        %q = tensor.pad %x low[0, 6, 0] high[0, 6, 0]
        %p = tensor.pad %q low[6, 0, 0] high[6, 0, 0]       // not written: of the convolution's kernel
        %c = linalg.generic {convolution} ins(%p, %w) {tw.image_columns = [6, 14]}

    Along the last axis a tile has several pixels, and the padding is stored; `tw.image_columns` says where the image
    begins there, and its extent. The kernel leaves out elements of a window that all of a tile has in the padding.
    A padding that has other readers stays as it is, and so does that of convolutions in parts of bfloat16 (AMX), whose
    matrices have pixels of several rows.

    Options:
        target: the machine; None is this one.
    """

    name: ClassVar[str] = "skip-padding"
    opt_level: ClassVar[int] = 1
    target: Target | None = None

    def apply(self, module: ir.Module) -> None:
        """Rewrite all programs of the module."""
        target = self.target or detect_host()
        for function in list_programs(module):
            for op in list_ops(function):
                kind = classify_sum(op)
                if isinstance(kind, Conv) and not splits_windows(op, kind, target):
                    _divide_padding(op, kind)
            erase_dead(function)


def _divide_padding(op: ir.Operation, kind: Conv) -> None:
    """Let a convolution pad what it reads itself along some axes, in place of a padding before it."""
    pad, views = _trace_padding(op, kind)
    if pad is None:
        return
    if (columns := find_padded_columns(op, kind, pad)) is not None:
        op.attributes[tw.IMAGE_COLUMNS] = ir.DenseI64ArrayAttr.get(columns)
    left_out = {window.axis for window in find_clipped_windows(op, kind, pad)}
    if not left_out:
        return
    number = terminator_of(pad).operands[0]
    with ir.InsertionPoint(pad), pad.location:
        value = _pad_axes(pad.operands[0], {a: n for a, n in enumerate(amounts_of(pad)) if a not in left_out}, number)
    with ir.InsertionPoint(op), op.location:
        for view in views:
            value = _copy_view(view, value, left_out)
        op.operands[kind.data] = _pad_axes(value, {axis: amounts_of(pad)[axis] for axis in left_out}, number)


def _pad_axes(value: ir.Value, amounts: Mapping[int, tuple[int, int]], number: ir.Value) -> ir.Value:
    low, high = ([amounts.get(axis, (0, 0))[end] for axis in range(len(shape_of(value)))] for end in (0, 1))
    return builders.pad(value, low, high, capture_scalar(number))


def _trace_padding(op: ir.Operation, kind: Conv) -> tuple[ir.Operation | None, list[ir.Operation]]:
    """The padding of what a convolution reads, with the views of it that the op reads; None if others read it too."""
    value, views, reader, windows = op.operands[kind.data], [], op, windows_of(op, kind)
    while (source := defining_op(value)) is not None and users_of(source) == [reader]:
        if source.name == "tensor.pad":
            static = len(source.operands) == 1 and is_static(source.results[0])
            return (source if static else None), views[::-1]
        if not _keeps_axes(source, windows):
            break
        views.append(source)
        value, reader = source.operands[0], source
    return None, []


def _keeps_axes(view: ir.Operation, windows: Sequence[Window]) -> bool:
    """Return whether a view leaves all dims up to the last one that windows slide over as they are."""
    if view.name not in _SIZE_LISTS or len(view.operands) != 1:
        return False
    before = windows[-1].axis + 1
    return shape_of(view.operands[0])[:before] == shape_of(view.results[0])[:before]


def _copy_view(view: ir.Operation, source: ir.Value, axes: Collection[int]) -> ir.Value:
    """The view of a source that has other extents along ``axes``."""
    copy, shape = view.clone(), shape_of(view.results[0])
    for axis in axes:
        shape[axis] = shape_of(source)[axis]
    copy.operands[0] = source
    copy.attributes[_SIZE_LISTS[view.name]] = ir.DenseI64ArrayAttr.get(shape)
    copy.results[0].set_type(builders.ranked_type(shape, builders.element_of(source)))
    return copy.results[0]
