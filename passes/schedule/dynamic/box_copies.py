"""Kernels of open sizes that only move elements: slices, pieces of a concat, paddings, transposes.

The run joins axes (``strided_boxes.py``), so it takes a slice of channels as one row for each image, whatever the
images' sizes are. Blocks of fixed sizes would have the image's last axis alone as their rows.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass

from ....core.target import Target
from ....dialects import func, ir
from ....dialects.builders import element_of, index_constant
from ....dialects.types import element_bits
from ....dialects.walk import defining_op
from ...ir.dynamic_sizes import read_amounts
from ...ir.kernel import is_dynamic_kernel
from ...ir.maps import is_copy
from ...ir.structure import dim_of, indexing_maps, is_zero, list_ops, shape_of
from ..loop_plan import PARALLEL_WORK, STEPS, LoopsWithoutSchedule, threads_pay
from ..tiles.buffers import buffer_of
from ..tiles.regions import NotSchedulable
from ..tiling.dynamic_border import DynamicBorder, resolve_size
from ..tiling.strided_boxes import BoxRows, Place, find_extents, find_offset, find_strides, flatten_buffer
from ..tiling.turned_rows import FEW_ROWS
from .part_loops import Computation, EmitSteps, build_steps, share_range

# Elements along a known axis that are turned like those of an open one.
_LEAST_KNOWN = 32
# Elements of a few rows of known length from which on whole vectors are made of them.
_LEAST_BESIDE = 64


@dataclass(frozen=True)
class BoxCopy(LoopsWithoutSchedule):
    """A kernel that copies a box of an argument.

    axes: the argument's axis along each of the result's, None where elements are the same along that. starts: where the
    box begins in the argument. What it copies to is the kernel's result, or lies in that.
    """

    argument: ir.Value
    axes: tuple[int | None, ...]
    starts: tuple[int | ir.Value, ...]

    @property
    def extent(self) -> int:
        """Steps of the parallel axis."""
        return STEPS

    @property
    def elements(self) -> int:
        """The elements that ``work`` is that of."""
        return 1

    @property
    def work(self) -> int:
        """The bytes that are read and written of an element."""
        return 2 * element_bits(element_of(self.argument)) // 8

    def parallel_from(self, function: func.FuncOp) -> int | None:
        """From how many elements of the result on threads pay."""
        if not is_dynamic_kernel(function):
            return threads_pay(function, self.extent)
        return PARALLEL_WORK * self.elements // self.work

    def build(self, function: func.FuncOp, target: Target) -> ir.Module:
        """The function as a loop over rows. Raises NotSchedulable where there is no element to copy."""
        return build_steps(function, target, self.prepare)

    def prepare(self, computed: Computation) -> EmitSteps:
        """Join the axes; returns what emits the loops."""
        border, given, rows = DynamicBorder.of(computed.source), computed.tensors, self.join_rows(computed)

        def emit(lo: ir.Value, hi: ir.Value) -> None:
            inner = border.view(computed.buffer, given)
            share = share_range(lo, hi)
            border.fill(computed.buffer, inner, share, given, computed.target)
            rows.emit(*share(rows.count))

        return emit

    def join_rows(self, computed: Computation) -> BoxRows:
        """The rows that the run makes of the box."""
        border, given = DynamicBorder.of(computed.source), computed.tensors
        low = [index_constant(0)] * len(self.axes) if border.op is None else border.find_low(given)
        source, zero = buffer_of(given[self.argument]), index_constant(0)
        strides = find_strides(source)
        starts = [resolve_size(n, given) if isinstance(n, ir.Value) else index_constant(n) for n in self.starts]
        along = tuple(zero if axis is None else strides[axis] for axis in self.axes)
        read = Place(flatten_buffer(source), find_offset(starts, strides), along)
        extents = find_extents(border.view(computed.buffer, given))
        order = [axis for axis in self.axes if axis is not None]
        turns, repeats = order != sorted(order), None in self.axes
        places = [read, Place.of(computed.buffer, low)]
        return BoxRows(extents, places, computed.target, turns=turns, repeats=repeats)

    def __str__(self) -> str:
        return f"rows along d{len(self.axes) - 1}, and axes that go on from one to the next, copied"


def choose_few_rows(function: func.FuncOp) -> BoxCopy:
    """A kernel that brings two to four channels last, or from there, by whole vectors; other sizes may be open.

    Raises NotSchedulable for all others.
    """
    *_, end = list_ops(function)
    op = defining_op(end.operands[0]) if len(end.operands) == 1 else None
    if op is None or op.name != "linalg.generic":
        raise NotSchedulable("no structured op")
    axes, source = _read_order(op), op.operands[0]
    order = [axis for axis in axes if axis is not None]
    if not isinstance(source, ir.BlockArgument) or len(order) < len(axes) or sorted(order) != list(range(len(axes))):
        raise NotSchedulable("no transposition of an argument")
    read, inverse = shape_of(source), [order.index(axis) for axis in range(len(order))]
    if not _has_few_last(read, order) and not _has_few_last([read[axis] for axis in order], inverse):
        raise NotSchedulable("rows that no whole vectors are made of")
    return BoxCopy(source, tuple(order), (0,) * len(order))


def _has_few_last(shape: Sequence[int], order: Sequence[int]) -> bool:
    """Return whether the last axis of a tensor has a few elements, and the axes before are the last ones elsewhere.

    ``order``: the tensor's axis along each one there.
    """
    own, there = ([axis for axis in axes if shape[axis] != 1] for axes in (range(len(shape)), order))
    if len(own) < 2 or shape[own[-1]] not in FEW_ROWS:
        return False
    pairs = zip(reversed(own[:-1]), reversed(there), strict=False)
    beside = itertools.takewhile(lambda pair: pair[0] == pair[1], pairs)
    return math.prod(shape[axis] if shape[axis] >= 0 else _LEAST_BESIDE for axis, _ in beside) >= _LEAST_BESIDE


def choose_copy(function: func.FuncOp, turned: bool = False) -> BoxCopy:
    """A kernel that copies one box. Raises NotSchedulable for all others.

    ``turned``: whether it is one whose rows become columns.
    """
    border = DynamicBorder.of(function)
    value, axes = border.inner, list[int | None](range(len(shape_of(border.inner))))
    op = defining_op(value)
    if op is not None and op.name == "linalg.generic":
        axes, value = _read_order(op), op.operands[0]
    if turned:
        _demand_turned(border.inner, value)
    else:
        _demand_rows(border.inner, value, axes)
    starts: Sequence[int | ir.Value] = [0] * len(shape_of(value))
    op = defining_op(value)
    if op is not None and op.name == "tensor.extract_slice":
        starts, value = read_starts(op), op.operands[0]
    others = [each.name for each in list_ops(function)]
    known = ("linalg.generic", "tensor.extract_slice", "tensor.insert_slice", "tensor.empty", "linalg.fill")
    if defining_op(value) is not None or any(n not in (*known, "arith.constant", "func.return") for n in others):
        raise NotSchedulable("a kernel that does more than to copy a box of an argument")
    return BoxCopy(value, tuple(axes), tuple(starts))


def _read_order(op: ir.Operation) -> list[int | None]:
    """The axis of a copied tensor along each one of the copy."""
    if not is_copy(op) or len(op.results) != 1:
        raise NotSchedulable("an op that does more than to copy")
    read, made = indexing_maps(op)
    if any(dim_of(e) is None and not is_zero(e) for e in read.results):
        raise NotSchedulable("elements that are read at computed places")
    own = [dim_of(e) for e in read.results]
    return [own.index(dim) if (dim := dim_of(e)) in own else None for e in made.results]


def read_starts(op: ir.Operation) -> list[int | ir.Value]:
    """Where a slice begins along each axis."""
    steps, sizes = (list(ir.DenseI64ArrayAttr(op.attributes[f"static_{name}"])) for name in ("strides", "sizes"))
    if set(steps) != {1} or len(sizes) != len(shape_of(op.results[0])):
        raise NotSchedulable("a slice with steps, or without some of the axes")
    return read_amounts(op, "offsets")


def _demand_rows(result: ir.Value, read: ir.Value, axes: Sequence[int | None]) -> None:
    """Raises NotSchedulable where the innermost axis of the result is not that of what is read."""
    made, own = ([axis for axis, n in enumerate(shape_of(value)) if n != 1] for value in (result, read))
    if made and (not own or axes[made[-1]] != own[-1]):
        raise NotSchedulable("rows that become columns")


def _demand_turned(result: ir.Value, read: ir.Value) -> None:
    """Raises NotSchedulable where blocks fit the innermost axes better: of few known elements, or known ones only."""
    inner = [next((n for n in reversed(shape_of(value)) if n != 1), 1) for value in (result, read)]
    if min(inner) >= 0 or any(0 <= n < _LEAST_KNOWN for n in inner):
        raise NotSchedulable("columns of known number, which blocks fit")
