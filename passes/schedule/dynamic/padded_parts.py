"""Parts of a tensor with padding around it that nobody writes: a block's part is read in place, or padded by itself.

A pool whose input has other readers, or is the program's, would have a padded copy of all of it made. Most blocks lie
inside of what is padded. The part that another one reads goes to scratch memory, with the padding, in vectors.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence

from ....core.target import Target
from ....dialects import arith, ir, memref, scf, vector
from ....dialects.builders import index_constant
from ....dialects.walk import defining_op
from ...analysis.classify import classify_op
from ...analysis.kinds import Pooling
from ...analysis.size_classes import SizeClasses
from ...ir.edit import splat_of
from ...ir.uses import users_of
from ..tiles.buffers import buffer_of, tensor_of, view_of
from ..tiles.regions import Interval, Linear, NotSchedulable, Region, kept_dims
from ..tiles.structured import capture_scalar
from ..tiling.pool_windows import ignores_padding


def whole_padding(op: ir.Operation, region: Region, known: SizeClasses) -> Region | None:
    """The part of what is padded that a region of a padded tensor has, with the padding around it; None of others.

    A block of whole images, whose sizes are known, is padded by its own kernel, or leaves the padding out. In steps of
    two, it may read less than all of that. A pool whose sums the padding changes does neither.
    """
    readers, value = ((each, classify_op(each)) for each in users_of(op)), splat_of(op.operands[1])
    if any(isinstance(kind, Pooling) and not ignores_padding(each, kind, value) for each, kind in readers):
        return None
    source, inner = known.of(op.operands[0]), []
    low = list(ir.DenseI64ArrayAttr(op.attributes["static_offsets"]))
    for interval, extent, made, before in zip(region, source, known.of(op.results[0]), low, strict=True):
        begins = extent >= 0 and interval.offset == Linear() and interval.stride == 1 and interval.size > before
        if not begins and (before or extent != made or interval.size < 0):
            return None
        inner.append(Interval(Linear(), min(extent, interval.size - before)) if begins else interval)
    return tuple(inner)


def padded_source(op: ir.Operation, region: Region) -> ir.Value:
    """The tensor that a region of a padded one is read from.

    Raises NotSchedulable for one that is made in the kernel, and for a region of open sizes or with steps.
    """
    source = op.operands[0]
    if defining_op(source) is not None or any(i.size < 0 or i.stride != 1 for i in region):
        raise NotSchedulable("a padding around what the kernel makes, or all of one")
    return source


def padded_part(op: ir.Operation, region: Region, source: ir.Value, target: Target) -> ir.Value:
    """A region of a padded tensor, squeezed: a view of ``source`` where it lies inside of that, else scratch memory."""
    buffer, kept = buffer_of(source), kept_dims(region) or [len(region) - 1]
    low = list(ir.DenseI64ArrayAttr(op.attributes["static_offsets"]))
    moved = tuple(Interval(i.offset + Linear(-n), i.size) for i, n in zip(region, low, strict=True))
    starts = [interval.offset.as_value() for interval in moved]
    extents = [memref.DimOp(buffer, index_constant(axis)).result for axis in range(len(region))]
    around = defining_op(op.operands[1])
    assert around is not None  # what is padded lies in a filled tensor
    copied = _Copy(buffer, starts, extents, [i.size for i in region], kept, target.lanes)
    inside = copied.lies_inside()
    scratch = copied.allocate()
    branch = scf.IfOp(arith.xori(inside, arith.constant(inside.type, 1)))
    with ir.InsertionPoint(branch.then_block):
        copied.fill(scratch, capture_scalar(around.operands[0]))
        scf.YieldOp([])
    kind = copied.view_type()
    views = [memref.CastOp(kind, view).result for view in (view_of(buffer, moved), copied.trim(scratch))]
    return tensor_of(arith.select(inside, *views))


class _Copy:
    """A box of a buffer, some of which may lie outside, as vectors along its last axis."""

    def __init__(
        self,
        buffer: ir.Value,
        starts: Sequence[ir.Value],
        extents: Sequence[ir.Value],
        sizes: Sequence[int],
        kept: Sequence[int],
        lanes: int,
    ) -> None:
        self.buffer, self.starts, self.extents, self.sizes = buffer, starts, extents, sizes
        self.kept, self.lanes, self.element = kept, lanes, ir.MemRefType(buffer.type).element_type

    @property
    def _rows(self) -> list[int]:
        """The axes of the scratch memory before the last one, which a box of one column has too."""
        return [axis for axis in self.kept if axis != len(self.sizes) - 1]

    def lies_inside(self) -> ir.Value:
        """Whether all of the box lies in the buffer."""
        zero, flags = index_constant(0), []
        for start, extent, size in zip(self.starts, self.extents, self.sizes, strict=True):
            end = arith.addi(start, index_constant(size))
            flags.append(arith.cmpi(arith.CmpIPredicate.sge, start, zero))
            flags.append(arith.cmpi(arith.CmpIPredicate.sle, end, extent))
        return functools.reduce(arith.andi, flags)

    @property
    def _shape(self) -> list[int]:
        """Of the scratch memory: rows of whole vectors."""
        return [*(self.sizes[axis] for axis in self._rows), -(-self.sizes[-1] // self.lanes) * self.lanes]

    def allocate(self) -> ir.Value:
        """Memory for the box."""
        return memref.alloc(ir.MemRefType.get(self._shape, self.element), [], [])

    def view_type(self) -> ir.Type:
        """A box in the buffer or in scratch memory."""
        open_, shape = ir.ShapedType.get_dynamic_stride_or_offset(), [self.sizes[axis] for axis in self.kept]
        step = 1 if self.kept[-1] == len(self.sizes) - 1 else open_
        layout = ir.StridedLayoutAttr.get(open_, [*[open_] * (len(shape) - 1), step])
        return ir.MemRefType.get(shape, self.element, layout)

    def trim(self, scratch: ir.Value) -> ir.Value:
        """The box in scratch memory, without what is behind its rows."""
        shape = [*(self.sizes[axis] for axis in self._rows), self.sizes[-1]]
        return view_of(scratch, tuple(Interval(Linear(), n) for n in shape))

    def fill(self, scratch: ir.Value, padding: ir.Value) -> None:
        """Read what lies in the buffer, and put the padding where nothing does.

        A row's elements that lie there are so many from a column on; of narrow numbers, as masks of AVX2 are made of.
        """
        last, narrow = len(self.sizes) - 1, ir.IntegerType.get_signless(32)
        kind, counts = (ir.VectorType.get([self.lanes], t) for t in (self.element, narrow))
        zero, width, start = index_constant(0), index_constant(self._shape[-1]), self.starts[last]
        begin = arith.minsi(arith.maxsi(arith.subi(zero, start), zero), width)
        end = arith.minsi(arith.maxsi(arith.subi(self.extents[last], start), begin), width)
        first, count = arith.index_cast(narrow, begin), arith.index_cast(narrow, arith.subi(end, begin))
        lanes = arith.index_cast(counts, vector.step(ir.VectorType.get([self.lanes], ir.IndexType.get())))
        spread, columns = vector.broadcast(kind, padding), []
        for number in range(0, self._shape[-1], self.lanes):
            before = arith.subi(first, arith.constant(narrow, number))
            columns.append(arith.subi(lanes, vector.broadcast(counts, before)))

        def copy_row(chosen: Mapping[int, ir.Value], place: Sequence[ir.Value]) -> None:
            within, at = self._find_row(chosen)
            taken = vector.broadcast(counts, arith.select(within, count, arith.constant(narrow, 0)))
            for number, behind in enumerate(columns):
                inside = arith.cmpi(arith.CmpIPredicate.ult, behind, taken)
                column = index_constant(number * self.lanes)
                row = vector.maskedload(kind, self.buffer, [*at, arith.addi(start, column)], inside, spread)
                vector.store(row, scratch, [*place, column])

        self._loop_rows(copy_row, self._rows, {}, [])

    def _loop_rows(
        self,
        copy_row: Callable[[Mapping[int, ir.Value], Sequence[ir.Value]], None],
        axes: Sequence[int],
        chosen: Mapping[int, ir.Value],
        place: Sequence[ir.Value],
    ) -> None:
        if not axes:
            copy_row(chosen, place)
            return
        axis, *inner = axes
        loop = scf.ForOp(index_constant(0), index_constant(self.sizes[axis]), index_constant(1))
        with ir.InsertionPoint(loop.body):
            number = loop.induction_variable
            self._loop_rows(copy_row, inner, {**chosen, axis: number}, [*place, number])
            scf.YieldOp([])

    def _find_row(self, chosen: Mapping[int, ir.Value]) -> tuple[ir.Value, list[ir.Value]]:
        """Whether a row lies in the buffer, and where: somewhere in it, if not."""
        zero, one = index_constant(0), index_constant(1)
        within, at = arith.constant(ir.IntegerType.get_signless(1), 1), list[ir.Value]()
        for axis in range(len(self.sizes) - 1):
            index = arith.addi(self.starts[axis], chosen.get(axis, zero))
            within = arith.andi(within, arith.cmpi(arith.CmpIPredicate.ult, index, self.extents[axis]))
            most = arith.maxsi(arith.subi(self.extents[axis], one), zero)
            at.append(arith.maxsi(arith.minsi(index, most), zero))
        return within, at
