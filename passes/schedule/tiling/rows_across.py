"""Several whole rows in a tile, side by side: an element of all of them is one step, each in a lane of a vector.

Short rows go so: a vector of one of them would be mostly rests, and what is computed of a row one element. Rows are
turned in registers where their length is known::

    %x = the rows, as columns               // 16 rows of 7 elements: 7 vectors
    %max = the greatest of the columns      // a vector
    %e = exp of each column minus that
    the result, as rows                     // of the columns of %e, each divided by their sum
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace

from ....dialects import ir, vector
from ....dialects.builders import element_of, index_constant
from ....dialects.walk import defining_op
from ...ir.structure import iterator_types, shape_of
from ...ir.uses import readers_of
from ..tiles.axes import NARROWEST, ROW_VECTORS, power_ceil, power_floor
from ..tiles.loops import for_each_between, for_each_chunk
from ..tiles.regions import Interval, Linear, NotSchedulable, Region, full_region, in_row, kept_dims
from ..tiles.structured import Tile, copy_tile, extract, insert, make_empty, read_vector, store, write_vector
from .rows import is_computed_again, materialize_shared
from .tiler import Tiler, loop_intervals, needed_region, tile_op

# Rows of up to so many elements are turned whole, of longer ones parts whose lengths are powers of two.
_TURNED_WHOLE = 6
# Columns of the largest matrix that is turned at once.
_SIDE = 16


def goes_across(tiler: Tiler, region: Region) -> bool:
    """Return whether a region is several whole rows, whose elements are computed one after another."""
    return tiler.form.across and len(kept_dims(region)) == 2


def compute_across(tiler: Tiler, op: ir.Operation, region: Region) -> Tile:
    """An elementwise op on several rows, into memory where those elements of all rows lie together that a step has."""
    materialize_shared(tiler, op, loop_intervals(op, region))

    def compute(part: Region, dest: ir.Value) -> ir.Value:
        return tile_op(tiler.scope(), op, loop_intervals(op, part), part, dest).value

    return _hold_across(tiler, op.results[0], region, compute)


def copy_across(tiler: Tiler, value: ir.Value) -> None:
    """Let all read a copy of several rows of an argument, where those elements lie together that a step has.

    Elements that lie apart are put together once so, which is worth it where they are read more than once.
    """
    region = full_region(in_row(shape_of(value)))
    if not goes_across(tiler, region) or not _is_read_again(value, region):
        return

    def copy(part: Region, dest: ir.Value) -> ir.Value:
        return copy_tile(tiler.compute(value, part), dest)

    tiler.share(value, region, _hold_across(tiler, value, region, copy))


def _is_read_again(value: ir.Value, region: Region) -> bool:
    """Return whether several loops along rows read a value, or what is computed of it for each of its readers."""
    users = readers_of(value)
    if len(users) != 1:
        return len(users) > 1
    maps_elements = users[0].name == "linalg.generic" and "reduction" not in iterator_types(users[0])
    return maps_elements and is_computed_again(users[0], region, True) and _is_read_again(users[0].results[0], region)


def _hold_across(
    tiler: Tiler, value: ir.Value, region: Region, compute: Callable[[Region, ir.Value], ir.Value]
) -> Tile:
    """Memory for several rows of a value, in which ``compute(part, dest)`` makes that of a step."""
    along, rows = _split_axes(region)
    count, length = region[rows].size, region[along].size
    target, begin = make_empty([length, count], element_of(value), tiler.form.length), region[along].offset

    def step(place: Linear, made: ir.Value) -> ir.Value:
        part = tuple(Interval(begin + place, 1) if axis == along else each for axis, each in enumerate(region))
        where = (Interval(place, 1), Interval(Linear(), count))
        return insert(compute(part, extract(made, where).value), made, where)

    if length >= 0:
        made = for_each_chunk(length, 1, target, lambda place, _, made: step(place, made))
    else:
        assert tiler.form.length is not None  # as rows of any length have it
        made = for_each_between(index_constant(0), tiler.form.length, target, step)
    return Tile(made, (along, rows))


def _split_axes(region: Region) -> tuple[int, int]:
    """The axis of several rows that lies along them, of open size or the last one, and the other."""
    first, last = kept_dims(region)
    return (first, last) if region[first].size < 0 else (last, first)


def write_across(
    scope: Tiler, value: ir.Value, region: Region, dest: ir.Value, place: Callable[[Region], Region]
) -> ir.Value:
    """Write several rows of a kernel's result, or what is made of each; one by one where they fill no vector."""
    along = scope.form.row_axis
    rows = next((axis for axis in kept_dims(region) if axis != along), None)
    count = region[rows].size if rows is not None else 1
    if rows is None or count < NARROWEST or count != power_floor(count):
        return _write_rows(scope, value, region, dest, place)
    _turn_read(scope, value, region)
    if along is None:
        made = scope.compute(value, region, extract(dest, place(region)).value)
        return store(made.value, dest, place(region))
    made = scope.compute(value, region)
    if made.dims != (along, rows):
        raise NotSchedulable("several rows whose elements do not become columns")
    for start, size in _list_pieces(region[along].size):
        part = _replace_axis(region, along, Interval(region[along].offset + Linear(start), size))
        columns, into = read_vector(made.value, [size, count], [start, 0]), extract(dest, place(part)).value
        dest = insert(write_vector(_turn(columns), into), dest, place(part))
    return dest


def _write_rows(
    scope: Tiler, value: ir.Value, region: Region, dest: ir.Value, place: Callable[[Region], Region]
) -> ir.Value:
    """Write rows one after another."""
    form, along = scope.form, scope.form.row_axis
    [rows] = [axis for axis in kept_dims(region) if axis != along] or [0]

    def step(offset: Linear, _: int, dest: ir.Value) -> ir.Value:
        inner, part = scope.scope(), _replace_axis(region, rows, Interval(region[rows].offset + offset, 1))
        inner.form = replace(form, across=False, row_chunk=ROW_VECTORS * form.lanes)
        made = inner.compute(value, part, extract(dest, place(part)).value)
        return store(made.value, dest, place(part))

    return for_each_chunk(region[rows].size, 1, dest, step)


def _replace_axis(region: Region, axis: int, by: Interval) -> Region:
    return (*region[:axis], by, *region[axis + 1 :])


def _turn_read(tiler: Tiler, result: ir.Value, region: Region) -> None:
    """Let all read copies of what several rows of the result are made of, in which a step's elements lie together."""
    last = defining_op(result)
    assert last is not None  # a kernel computes its result
    generics = [op for op in last.block.operations if op.operation.name == "linalg.generic"]
    read = [operand for op in generics for operand in list(op.operation.operands)[:-1] if _is_read(tiler, operand)]
    for value in dict.fromkeys(read):
        with suppress(NotSchedulable):
            part = needed_region(result, region, value)
            kept = kept_dims(part)
            if len(kept) == 2 and part[kept[1]].size == shape_of(value)[kept[1]]:
                tiler.share(value, part, _turn_rows(tiler, value, part))


def _is_read(tiler: Tiler, value: ir.Value) -> bool:
    """Return whether a value lies in memory: an argument, or a slice of one."""
    op = defining_op(value)
    if op is not None and op.name == "tensor.extract_slice":
        return _is_read(tiler, op.operands[0])
    return value in tiler.arguments


def _turn_rows(tiler: Tiler, value: ir.Value, region: Region) -> Tile:
    """A copy of several rows as columns."""
    rows, along = kept_dims(region)
    count, length = region[rows].size, region[along].size
    made, lanes = make_empty([length, count], element_of(value)), Interval(Linear(), count)
    for start, size in _list_pieces(length):
        part = _replace_axis(region, along, Interval(region[along].offset + Linear(start), size))
        columns, where = _turn(read_vector(tiler.compute(value, part).value)), (Interval(Linear(start), size), lanes)
        made = insert(write_vector(columns, extract(made, where).value), made, where)
    return Tile(made, (along, rows))


def _list_pieces(length: int) -> list[tuple[int, int]]:
    """Parts of rows that are turned in registers, by where they begin: the last may begin in the one before."""
    if length <= _TURNED_WHOLE:
        return [(0, length)]
    pieces, start = [], 0
    while start < length:
        size = min(power_floor(length), max(power_ceil(length - start), 2), _SIDE)
        pieces.append((min(start, length - size), size))
        start += size
    return pieces


def _turn(matrix: ir.Value) -> ir.Value:
    kind = ir.VectorType(matrix.type)
    return vector.transpose(ir.VectorType.get(kind.shape[::-1], kind.element_type), matrix, [1, 0])
