"""The border around what a kernel computes, for readers that want it padded or its rows apart.

A kernel may end in a ``tensor.pad`` of what it computes. Its tiles are then written at an offset, and each range of
steps fills its share of the border. Or it ends in a ``tensor.insert_slice`` into an empty tensor: nobody
reads what is around it then, and nothing is filled. Or into an argument (`store-concat`): then the result lies over
that, or what is around it is copied in such shares; which of the two is known when the kernel runs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

from ....dialects import arith, ir, linalg, memref
from ....dialects.builders import element_of, index_constant
from ....dialects.loops import branch
from ....dialects.types import element_bits
from ....dialects.walk import defining_op
from ...ir.kernel import LINE
from ...ir.structure import shape_of, terminator_of
from ..tiles.axes import power_floor, vector_axis
from ..tiles.loops import for_each_between, for_each_chunk
from ..tiles.regions import (
    Interval,
    Linear,
    NotSchedulable,
    Region,
    in_phase,
    kept_dims,
    relative_to,
    split_phases,
    without_unit_dims,
)
from ..tiles.structured import capture_scalar, copy_tile, extract, insert
from .dynamic_border import is_dynamic_insertion

# What a kernel's result may end in, and the attribute that says where what it computes lies in it.
BORDERS = {"tensor.pad": "static_low", "tensor.insert_slice": "static_offsets"}
# Elements of the vectors that fill a border.
_FILL = 64


@dataclass(frozen=True)
class Border:
    """``inner`` is what the tiles are parts of; it lies at ``low`` in the kernel's ``result``, which ``op`` makes."""

    inner: ir.Value
    result: ir.Value
    low: tuple[int, ...]
    op: ir.Operation | None

    @staticmethod
    def of(result: ir.Value) -> Border:
        """The border of a kernel's result; one of no width where none of the two ops makes it."""
        op = defining_op(result)
        if op is None or op.name not in BORDERS:
            return Border(result, result, (0,) * len(shape_of(result)), None)
        return Border(op.operands[0], result, tuple(ir.DenseI64ArrayAttr(op.attributes[BORDERS[op.name]])), op)

    def place(self, region: Region) -> Region:
        """Where a region of ``inner`` lies in the squeezed result."""
        return without_unit_dims(self.move(region), shape_of(self.result))[0]

    def move(self, region: Region) -> Region:
        """Where a region of ``inner`` lies in the result."""
        return tuple(replace(i, offset=i.offset + Linear(low)) for i, low in zip(region, self.low, strict=True))

    def find_inside(self, part: Region) -> Region:
        """What a part of the result has of ``inner``. NotSchedulable where steps have different parts of it.

        The part may reach out of the result (``wide_rows.py``).
        """
        found = []
        for interval, low, extent, whole in zip(
            part, self.low, shape_of(self.inner), shape_of(self.result), strict=True
        ):
            start = interval.offset + Linear(-low)
            if extent == whole and (start.terms or start.const + interval.size <= extent):
                found.append(Interval(start, interval.size))
                continue
            first, end = (min(max(n, 0), extent) for n in (start.const, start.const + interval.size))
            if start.terms or first == end:
                raise NotSchedulable("a part of a padding that has nothing of what is padded, or not in each step")
            found.append(Interval(Linear(first), end - first))
        return tuple(found)

    def surround(self, dest: ir.Value, part: Region, phases: int = 1) -> ir.Value:
        """``dest``, which holds what a part of the padded result has of ``inner``, with what it has of the border.

        ``phases`` are those of its rows.
        """
        if self.op is None:
            return dest
        inner = relative_to(self.move(self.find_inside(part)), part)
        starts = [0 if interval.offset.terms else interval.offset.const for interval in inner]
        for start, sizes in cut_slabs([p.size for p in part], starts, [p.size for p in inner]):
            slab = tuple(map(Interval, map(Linear, start), sizes))
            for box in place_in_phases(slab, kept_dims(part), phases):
                dest = fill_box(self.value(), dest, box)
        return dest

    def fill(
        self, dest: ir.Value, steps: tuple[ir.Value, ir.Value], count: int, arguments: Mapping[ir.Value, ir.Value]
    ) -> ir.Value:
        """Fill a range's share of the border; returns the tensor that ``dest`` has become.

        ``steps`` are the range's first and its end, of ``count``, which is 0 where that is not known: the range that
        begins at 0 has all then.
        """
        if self.op is None:
            return dest
        around = None if self.op.name == "tensor.pad" else arguments.get(self.op.operands[1])
        if self.op.name != "tensor.pad" and around is None:
            return dest
        box = partial(_fill_box, self.value()) if around is None else partial(_copy_box, around)
        first, end = _emit_rows(shape_of(dest), steps, count)

        def fill() -> ir.Value:
            filled = dest
            for slab in self._slabs():
                place = without_unit_dims(slab, shape_of(self.result))[0]
                filled = _rows_of_box(box, filled, place, first, end)
            return filled

        if around is None:
            return fill()
        return branch(_emit_is_apart(around, dest), dest.type, fill, lambda: dest)

    def _slabs(self) -> list[Region]:
        """The border in boxes that do not overlap."""
        boxes = cut_slabs(shape_of(self.result), self.low, shape_of(self.inner))
        return [tuple(map(Interval, map(Linear, start), sizes)) for start, sizes in boxes]

    def value(self) -> ir.Value:
        """The scalar that is all around."""
        assert self.op is not None
        return terminator_of(self.op).operands[0]


def place_in_phases(region: Region, dims: Sequence[int], phases: int) -> list[Region]:
    """Where a region lies in a tensor of ``dims``, the last of which is a row for each of several ``phases``."""
    if phases == 1:
        return [tuple(region[d] for d in dims)]
    parts = split_phases(region, dims[-1], phases)
    return [(*(part[d] for d in dims[:-1]), *in_phase(part[dims[-1]], phases)) for part in parts]


def cut_slabs(
    shape: Sequence[int], low: Sequence[int], inner: Sequence[int]
) -> list[tuple[tuple[int, ...], tuple[int, ...]]]:
    """(start, sizes) of boxes that do not overlap: all of a tensor but the box of ``inner`` elements at ``low``."""
    made = []
    for axis, before in enumerate(low):
        end = before + inner[axis]
        for start, size in ((0, before), (end, shape[axis] - end)):
            if size:
                made.append(
                    ((*low[:axis], start, *[0] * (len(shape) - axis - 1)), (*inner[:axis], size, *shape[axis + 1 :]))
                )
    return made


def can_border(op: ir.Operation) -> bool:
    """Return whether a kernel can write this ``tensor.pad`` or ``tensor.insert_slice`` around what it computes.

    A constant around all but the axis that vectors lie along, after which it fills whole lines of the cache; or
    anything, if the rest is empty or there already.
    """
    if op.name not in BORDERS:
        return False
    if not ir.RankedTensorType(op.results[0].type).has_static_shape:
        return is_dynamic_insertion(op)
    if op.name == "tensor.insert_slice":
        return _inserts_at_known_place(op)
    value = defining_op(terminator_of(op).operands[0])
    inner, outer = shape_of(op.operands[0]), shape_of(op.results[0])
    axis, line = vector_axis(outer), LINE * 8 // element_bits(element_of(op.results[0]))
    after = list(ir.DenseI64ArrayAttr(op.attributes["static_high"]))[axis] == outer[axis] - inner[axis]
    whole = after and (outer[axis] - inner[axis]) % line == 0
    return len(op.operands) == 1 and value is not None and value.name == "arith.constant" and whole


def _inserts_at_known_place(op: ir.Operation) -> bool:
    """Return whether an insertion is at a place known before, element by element, of as many dims.

    It is into an empty tensor, or one that another kernel has stored pieces into: an argument.
    """
    steps = list(ir.DenseI64ArrayAttr(op.attributes["static_strides"]))
    into = defining_op(op.operands[1])
    if len(op.operands) != 2 or len(shape_of(op.operands[0])) != len(steps) or not set(steps) <= {1}:
        return False
    return into is None or into.name in ("tensor.empty", "tensor.insert_slice")


def _emit_is_apart(source: ir.Value, dest: ir.Value) -> ir.Value:
    """Return whether two tensors, each all of a buffer, lie in different places."""
    places = (memref.extract_aligned_pointer_as_index(tensor.owner.operands[0]) for tensor in (source, dest))
    return arith.cmpi(arith.CmpIPredicate.ne, *places)


def _emit_rows(shape: Sequence[int], steps: tuple[ir.Value, ir.Value], count: int) -> tuple[ir.Value, ir.Value]:
    """The first and the end of those rows of a tensor, along its first axis, that are a range of steps' share of all.

    Threads share rows of images in the same way, so that most of what one fills is in its cache. Around 14x14 of 384
    channels there are 90 KB to fill.
    """
    rows = index_constant(shape[0])
    if not count or len(shape) == 1:
        none = index_constant(0)
        return none, arith.select(arith.cmpi(arith.CmpIPredicate.eq, steps[0], none), rows, none)
    first, end = (arith.ceildivui(arith.muli(step, rows), index_constant(count)) for step in steps)
    return first, end


def _fill_box(value: ir.Value, dest: ir.Value, box: Region) -> ir.Value:
    return insert(linalg.fill(capture_scalar(value), extract(dest, box).value), dest, box)


def _copy_box(source: ir.Value, dest: ir.Value, box: Region) -> ir.Value:
    return insert(copy_tile(extract(source, box), extract(dest, box).value), dest, box)


def fill_box(value: ir.Value, dest: ir.Value, box: Region) -> ir.Value:
    """``dest`` with a scalar constant all over a box, a vector at a time."""
    return _boxes(partial(_fill_box, value), dest, box)


def copy_box(source: ir.Value, dest: ir.Value, box: Region) -> ir.Value:
    """``dest`` with ``source``, of the box's sizes, in a box, a vector at a time."""

    def write(target: ir.Value, part: Region) -> ir.Value:
        return insert(copy_tile(extract(source, relative_to(part, box)), extract(target, part).value), target, part)

    return _boxes(write, dest, box)


def _rows_of_box(
    write: Callable[[ir.Value, Region], ir.Value], dest: ir.Value, box: Region, first: ir.Value, end: ir.Value
) -> ir.Value:
    """Write what a box has of some rows of a tensor, a vector at a time."""
    begin, behind = box[0].offset.const, box[0].offset.const + box[0].size
    if len(box) == 1:
        some = arith.cmpi(arith.CmpIPredicate.ne, first, end)  # all of the one row, or nothing
        return branch(some, dest.type, lambda: _boxes(write, dest, box), lambda: dest)
    first, end = arith.maxsi(first, index_constant(begin)), arith.minsi(end, index_constant(behind))

    def row(offset: Linear, carried: ir.Value) -> ir.Value:
        return _boxes(write, carried, (Interval(offset, 1), *box[1:]))

    return for_each_between(first, end, dest, row)


def _boxes(write: Callable[[ir.Value, Region], ir.Value], dest: ir.Value, region: Region) -> ir.Value:
    """Write a box of a tensor, a vector at a time."""

    def loops(axis: int, box: Region, target: ir.Value) -> ir.Value:
        if axis == len(region):
            return write(target, box)
        tile = min(_FILL, power_floor(region[axis].size)) if axis == len(region) - 1 else 1

        def step(offset: Linear, size: int, carried: ir.Value) -> ir.Value:
            return loops(axis + 1, (*box, Interval(region[axis].offset + offset, size)), carried)

        return for_each_chunk(region[axis].size, tile, target, step)

    return loops(0, (), dest)
