"""A few short rows as columns, and back: one block that a thread has in its own memory meanwhile."""

from __future__ import annotations

from ....dialects import arith, ir, memref
from ....dialects.builders import element_of, index_constant
from ....dialects.types import DYNAMIC, element_bits
from ...ir.structure import shape_of
from ..tiles.loops import branch_off, loop_over
from .turned_rows import TurnedRows


def can_turn(value: ir.Value) -> bool:
    """Return whether rows of a value are turned in registers: of open length, and of 16 or 32 bits an element."""
    return shape_of(value)[-1] < 0 and element_bits(element_of(value)) in (16, 32)


def turn_over(rows: ir.Value, columns: ir.Value, length: ir.Value) -> None:
    """Copy rows of ``length`` elements to a buffer, in whose rows those elements lie together that are one column."""
    [count] = ir.MemRefType(columns.type).shape[1:]
    (read, apart), (written, lanes) = map(_flatten, (rows, columns))
    _move_rows(TurnedRows((read, written), length, index_constant(count), apart, lanes, count))


def turn_back(columns: ir.Value, rows: ir.Value, length: ir.Value) -> None:
    """Copy columns to rows of ``length`` elements."""
    [count] = ir.MemRefType(columns.type).shape[1:]
    (read, lanes), (written, apart) = map(_flatten, (columns, rows))
    _move_rows(TurnedRows((read, written), index_constant(count), length, lanes, apart, count))


def _move_rows(turned: TurnedRows) -> None:
    """Move rows in registers, or one by one where they are too short for that."""
    zero, (source, dest) = index_constant(0), turned.buffers

    def move_row(row: ir.Value) -> None:
        def move(number: ir.Value) -> None:
            read = arith.addi(row, arith.muli(number, turned.along))
            written = arith.addi(arith.muli(row, turned.apart), number)
            memref.StoreOp(memref.LoadOp(source, [read]).result, dest, [written])

        loop_over(zero, turned.length, 1, move)

    branch_off(
        turned.enough,
        lambda: turned.emit(zero, turned.steps, [zero, zero]),
        lambda: loop_over(zero, turned.rows, 1, move_row),
    )


def _flatten(buffer: ir.Value) -> tuple[ir.Value, ir.Value]:
    """A buffer of two axes, of which the inner one is contiguous, as one of one axis; and how far rows lie apart."""
    element = ir.MemRefType(buffer.type).element_type
    base, offset, *sizes, stride, _ = memref.ExtractStridedMetadataOp(buffer).results
    layout = ir.StridedLayoutAttr.get(DYNAMIC, [1])
    kind = ir.MemRefType.get([DYNAMIC], element, layout)
    reach = arith.muli(sizes[0], stride)
    made = memref.ReinterpretCastOp(kind, base, [offset], [reach], [], [DYNAMIC], [DYNAMIC], [1]).result
    return made, stride
