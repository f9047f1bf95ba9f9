"""Transposes of vectors in registers: as rounds of interleaving pairs of rows, or, of equal rows, as broadcasts."""

from __future__ import annotations

import math
from collections.abc import Sequence

from ...dialects import arith, func, ir, memref, vector
from ...dialects.builders import index_constant
from ...dialects.types import element_bits
from ...dialects.walk import collect, defining_op

_LANE = 128  # bits of a register that instructions shuffle apart from the others
_SHORT = 6  # elements of rows whose columns are put together of all vectors one by one, where these are no power of two


def interleave_transposes(function: func.FuncOp) -> None:
    """Rewrite each transpose of a matrix whose extents are powers of two.

    Before::

        %t = vector.transpose %v, [1, 0] : vector<4x4xf32> to vector<4x4xf32>

    After, with rows ``a b c d`` of ``%v``::

        %ac = vector.shuffle %a, %c [0, 4, 1, 5]      // and [2, 6, 3, 7]; the same of b and d
        %abcd = vector.shuffle %ac, %bd [0, 4, 1, 5]  // and [2, 6, 3, 7]; the same of the second halves

    An element's number in all rows together has the bits of its row and then those of its column. A round moves the
    first of them to the end; as many rounds as the row has bits exchange row and column. Where rows are longer than the
    128 bits that x86 shuffles in one instruction, that happens within these, and then they change places.
    """
    for op in collect(function, _is_transpose, "vector.transpose"):
        with ir.InsertionPoint(op), op.location:
            op.results[0].replace_all_uses_with(_transpose(op.operands[0]))
        op.erase()


def store_interleaved(function: func.FuncOp) -> None:
    """Store a transpose whose rows lie one after another as whole vectors, not row by row.

    Before, with ``%r`` of rows of two::

        %t = vector.transpose %v, [1, 0] : vector<2x16xf32> to vector<16x2xf32>
        vector.transfer_write %t, %r[%i, %j, 0] : vector<16x2xf32>, memref<8x40x2xf32>

    After::

        %p = vector.shuffle %a, %b [0, 16, 1, 17, ...]  // and the second halves; %a, %b are the rows of %v
        %f = memref.collapse_shape %r [[0], [1, 2]] : memref<8x40x2xf32> into memref<8x80xf32>
        vector.store %p, %f[%i, %j * 2]                 // and the second after it
    """
    for op in collect(function, _writes_joined_rows, "vector.transfer_write"):
        with ir.InsertionPoint(op), op.location:
            _store_rows(op)
        op.erase()


def load_interleaved(function: func.FuncOp) -> None:
    """Load a matrix of short rows that lie one after another, of which a transpose is made, as whole vectors.

    Before, with ``%r`` of rows of two::

        %v = vector.transfer_read %r[%i, %j, 0] : memref<8x40x2xf32>, vector<16x2xf32>
        %t = vector.transpose %v, [1, 0] : vector<16x2xf32> to vector<2x16xf32>

    After::

        %f = memref.collapse_shape %r [[0], [1, 2]] : memref<8x40x2xf32> into memref<8x80xf32>
        %a = vector.load %f[%i, %j * 2]                 // and %b after it
        %p = vector.shuffle %a, %b [0, 2, 4, ...]       // the first row of %t, and [1, 3, 5, ...] the second
    """
    for op in collect(function, _transposes_joined_rows, "vector.transpose"):
        with ir.InsertionPoint(op), op.location:
            rows = _load_rows(op.operands[0].owner.operation)
            op.results[0].replace_all_uses_with(_of_rows(rows, ir.VectorType(op.results[0].type)))
        op.erase()


def _transposes_joined_rows(op: ir.Operation) -> bool:
    read = defining_op(op.operands[0]) if _turns_short_rows(op) else None
    return read is not None and read.name == "vector.transfer_read" and _moves_joined_rows(read)


def _writes_joined_rows(op: ir.Operation) -> bool:
    return op.name == "vector.transfer_write" and _is_interleaved(op.operands[0]) and _moves_joined_rows(op)


def _is_interleaved(value: ir.Value) -> bool:
    """Return whether a matrix is a transpose, or a choice between such for each column."""
    made = defining_op(value)
    if made is None or made.name != "arith.select":
        return made is not None and _turns_short_rows(made)
    mask = defining_op(made.operands[0])
    if mask is None or mask.name != "vector.broadcast" or not isinstance(mask.operands[0].type, ir.VectorType):
        return False
    return ir.VectorType(mask.operands[0].type).rank == 1 and all(map(_is_interleaved, list(made.operands)[1:]))


def _moves_joined_rows(op: ir.Operation, rank: int = 2) -> bool:
    """Return whether an op reads or writes matrices, each as all of its buffer's short rows between two places."""
    reads = op.name == "vector.transfer_read"
    value, buffer = (op.results[0], op.operands[0]) if reads else (op.operands[0], op.operands[1])
    if not isinstance(buffer.type, ir.MemRefType) or ir.VectorType(value.type).rank != rank:
        return False
    kind, (count, short) = ir.MemRefType(buffer.type), ir.VectorType(value.type).shape[-2:]
    if kind.rank < rank or len(op.operands) != kind.rank + 2:  # a mask is one more
        return False
    strides, _ = kind.get_strides_and_offset()
    inside = all(ir.BoolAttr(inside).value for inside in ir.ArrayAttr(op.attributes["in_bounds"]))
    whole = kind.shape[-1] == short < count and strides[-2:] == [short, 1]
    minor = ir.AffineMap.get_minor_identity(kind.rank, rank)
    return inside and whole and ir.AffineMapAttr(op.attributes["permutation_map"]).value == minor


def _store_rows(op: ir.Operation) -> None:
    value, buffer, *outer, row, _ = op.operands
    short = ir.VectorType(value.type).shape[-1]
    place, flat = arith.muli(row, index_constant(short)), join_rows(buffer)
    for made in _in_order(value):
        vector.store(made, flat, [*outer, place])
        place = arith.addi(place, index_constant(ir.VectorType(made.type).shape[0]))


def _in_order(value: ir.Value) -> list[ir.Value]:
    """The elements of what ``_is_interleaved`` in order, in vectors as long as its columns."""
    made = value.owner.operation
    if made.name != "arith.select":
        matrix = made.operands[0]
        return _interleave(matrix) if _is_transpose(made) else _merge_columns(matrix)
    flags = made.operands[0].owner.operands[0]
    short, count = ir.VectorType(flags.type).shape[0], ir.VectorType(value.type).shape[0]
    mask = vector.shuffle(flags, flags, [i % short for i in range(count)])
    chosen, other = (_in_order(operand) for operand in list(made.operands)[1:])
    return [arith.select(mask, a, b) for a, b in zip(chosen, other, strict=True)]


def _load_rows(read: ir.Operation) -> list[ir.Value]:
    """The columns of the matrix that is read."""
    buffer, *outer, row, _, _ = read.operands
    kind = ir.VectorType(read.results[0].type)
    count, short = kind.shape
    place, flat = arith.muli(row, index_constant(short)), join_rows(buffer)
    wide = ir.VectorType.get([count], kind.element_type)
    places = [arith.addi(place, index_constant(i * count)) for i in range(short)]
    rows: list[ir.Value] = [vector.load(wide, flat, [*outer, place]) for place in places]
    if short & (short - 1):
        every = range(0, count * short, short)
        return [_gather_lanes(rows, [first + place for place in every]) for first in range(short)]
    for _ in range(short.bit_length() - 1):  # each round moves the last bit of an element's number to its front
        pairs = list(zip(rows[::2], rows[1::2], strict=True))
        rows = [vector.shuffle(a, b, list(range(odd, 2 * count, 2))) for odd in (0, 1) for a, b in pairs]
    return rows


def _merge_columns(matrix: ir.Value) -> list[ir.Value]:
    """``_interleave`` of a matrix of any number of rows."""
    short, count = ir.VectorType(matrix.type).shape
    rows = [vector.extract(matrix, [], [i]) for i in range(short)]
    order = [place % short * count + place // short for place in range(short * count)]
    return [_gather_lanes(rows, order[first : first + count]) for first in range(0, short * count, count)]


def _gather_lanes(rows: Sequence[ir.Value], places: Sequence[int]) -> ir.Value:
    """A vector of the elements at these places of several as long as it, one behind the other."""
    count, made = len(places), rows[0]
    for number, row in enumerate(rows):
        here = [number * count <= place < (number + 1) * count for place in places]
        if number == 0:
            made = vector.shuffle(row, row, [place * inside for place, inside in zip(places, here, strict=True)])
        elif any(here):  # the elements before are in their lanes
            lanes = zip(places, here, range(count), strict=True)
            made = vector.shuffle(
                made, row, [count + place % count if inside else lane for place, inside, lane in lanes]
            )
    return made


def join_rows(buffer: ir.Value) -> ir.Value:
    """A buffer, whose rows lie one after another, with its last two axes as one."""
    kind = ir.MemRefType(buffer.type)
    *outer, rows, short = kind.shape
    shape, (strides, offset) = [*outer, rows * short if rows >= 0 else rows], kind.get_strides_and_offset()
    strided = isinstance(kind.layout, ir.StridedLayoutAttr)
    layout = ir.StridedLayoutAttr.get(offset, [*strides[:-2], 1]) if strided else None
    groups = [*([axis] for axis in range(len(outer))), [len(outer), len(outer) + 1]]
    return memref.CollapseShapeOp(ir.MemRefType.get(shape, kind.element_type, layout), buffer, groups).result


def join_columns(function: func.FuncOp) -> None:
    """Turn tiles whose rows are those of two axes as matrices, and store rows that lie one after another as one.

    Before::

        %t = vector.transpose %v, [2, 0, 1] : vector<8x2x16xf32> to vector<16x8x2xf32>
        vector.transfer_write %t, %r[%i, %j, 0] : vector<16x8x2xf32>, memref<24x80x2xf32>

    After::

        %m = vector.shape_cast %v : vector<8x2x16xf32> to vector<16x16xf32>
        %t = vector.transpose %m, [1, 0] : vector<16x16xf32> to vector<16x16xf32>
        %f = memref.collapse_shape %r [[0], [1, 2]] : memref<24x80x2xf32> into memref<24x160xf32>
        vector.transfer_write %t, %f[%i, %j * 2] : vector<16x16xf32>, memref<24x160xf32>
    """
    turned = collect(function, _turns_columns, "vector.transpose")
    for op in turned:
        with ir.InsertionPoint(op), op.location:
            op.results[0].replace_all_uses_with(_turn_as_matrix(op))
        op.erase()
    for op in collect(function, _writes_columns, "vector.transfer_write") if turned else []:
        with ir.InsertionPoint(op), op.location:
            _write_joined(op)
        op.erase()


def _turns_columns(op: ir.Operation) -> bool:
    """Return whether an op moves the last of several axes to the front."""
    if op.name != "vector.transpose":
        return False
    order = list(ir.DenseI64ArrayAttr(op.attributes["permutation"]))
    return len(order) > 2 and order == [len(order) - 1, *range(len(order) - 1)]


def _turn_as_matrix(op: ir.Operation) -> ir.Value:
    kind = ir.VectorType(op.operands[0].type)
    sides = [math.prod(kind.shape[:-1]), kind.shape[-1]]
    matrix = vector.shape_cast(ir.VectorType.get(sides, kind.element_type), op.operands[0])
    turned = vector.transpose(ir.VectorType.get(sides[::-1], kind.element_type), matrix, [1, 0])
    return vector.shape_cast(op.results[0].type, turned)


def _writes_columns(op: ir.Operation) -> bool:
    """Return whether an op writes whole short rows of what was turned, which lie one after another in a buffer."""
    rank = ir.VectorType(op.operands[0].type).rank if op.name == "vector.transfer_write" else 0
    return rank > 2 and _moves_joined_rows(op, rank) and skip_unit_dims(op.operands[0]) != op.operands[0]


def _write_joined(op: ir.Operation) -> None:
    value, buffer, *outer, row, _ = op.operands
    kind, flat = ir.VectorType(value.type), join_rows(buffer)
    *axes, count, short = kind.shape
    joined = vector.shape_cast(ir.VectorType.get([*axes, count * short], kind.element_type), skip_unit_dims(value))
    place, rank = arith.muli(row, index_constant(short)), len(axes) + 1
    minor = ir.AffineMap.get_minor_identity(ir.MemRefType(flat.type).rank, rank)
    vector.transfer_write(None, joined, flat, [*outer, place], minor, [True] * rank)


def skip_unit_dims(value: ir.Value) -> ir.Value:
    """The vector of which this one has the elements, in the same order."""
    made = defining_op(value)
    if made is None or made.name not in ("vector.shape_cast", "vector.broadcast", "vector.transpose"):
        return value
    source = made.operands[0]
    kinds = [ir.VectorType(v.type).shape if isinstance(v.type, ir.VectorType) else [] for v in (source, value)]
    long = [[n for n in shape if n > 1] for shape in kinds]
    if made.name == "vector.shape_cast" or (long[0] == long[1] and _keeps_order(made)):
        return skip_unit_dims(source)
    return value


def _keeps_order(op: ir.Operation) -> bool:
    """Return whether a transpose, or a broadcast, moves no dims but those of one element."""
    if op.name != "vector.transpose":
        return True
    shape, order = ir.VectorType(op.operands[0].type).shape, list(ir.DenseI64ArrayAttr(op.attributes["permutation"]))
    long = [d for d in order if shape[d] > 1]
    return long == sorted(long)


def spread_columns(function: func.FuncOp) -> None:
    """Make each row of a matrix whose columns are all the same a broadcast of its element.

    Before::

        %b = vector.broadcast %v : vector<6xf32> to vector<64x6xf32>
        %t = vector.transpose %b, [1, 0] : vector<64x6xf32> to vector<6x64xf32>

    After::

        %e = vector.extract %v[0] : f32 from vector<6xf32>
        %r = vector.broadcast %e : f32 to vector<64xf32>  // and so on for the other rows
    """
    for op in collect(function, _is_column, "vector.transpose"):
        broadcast = op.operands[0].owner.operation
        with ir.InsertionPoint(op), op.location:
            kind = ir.VectorType(op.results[0].type)
            row = ir.VectorType.get([kind.shape[1]], kind.element_type)
            elements = (vector.extract(broadcast.operands[0], [], [i]) for i in range(kind.shape[0]))
            op.results[0].replace_all_uses_with(_of_rows([vector.broadcast(row, e) for e in elements], kind))
        op.erase()
        if not list(broadcast.results[0].uses):
            broadcast.erase()


def _is_column(op: ir.Operation) -> bool:
    source = defining_op(op.operands[0]) if _swaps_dims(op) else None
    if source is None or source.name != "vector.broadcast":
        return False
    spread = source.operands[0].type
    return isinstance(spread, ir.VectorType) and spread.rank == 1


def _swaps_dims(op: ir.Operation) -> bool:
    return op.name == "vector.transpose" and list(ir.DenseI64ArrayAttr(op.attributes["permutation"])) == [1, 0]


def _turns_short_rows(op: ir.Operation) -> bool:
    """Return whether an op ``_is_transpose``, or one of as many short rows of any length as vectors have lanes."""
    if not _swaps_dims(op):
        return False
    kind = ir.VectorType(op.results[0].type)
    short, count = sorted(kind.shape)
    return _is_transpose(op) or (not any(kind.scalable_dims) and 1 < short <= _SHORT and count & (count - 1) == 0)


def _is_transpose(op: ir.Operation) -> bool:
    if not _swaps_dims(op):
        return False
    kind = ir.VectorType(op.results[0].type)
    return not any(kind.scalable_dims) and all(n > 1 and n & (n - 1) == 0 for n in kind.shape)


def _transpose(matrix: ir.Value) -> ir.Value:
    length, count = ir.VectorType(matrix.type).shape[::-1]
    rows = _recut(_interleave(matrix), count)
    return _of_rows(rows, ir.VectorType.get([length, count], ir.VectorType(matrix.type).element_type))


def _interleave(matrix: ir.Value) -> list[ir.Value]:
    """The elements of a matrix's transpose in order, in vectors as long as the matrix's rows."""
    kind = ir.VectorType(matrix.type)
    count, length = kind.shape
    rows = [vector.extract(matrix, [], [i]) for i in range(count)]
    lane = max(_LANE // element_bits(kind.element_type), 1)
    if count != length or length <= lane:
        return _interleave_rows(rows, length)
    turned = [_interleave_rows(rows[first : first + lane], lane) for first in range(0, count, lane)]
    lanes = [_turn_lanes(list(column), lane) for column in zip(*turned, strict=True)]
    return [row for group in zip(*lanes, strict=True) for row in group]


def _interleave_rows(rows: Sequence[ir.Value], length: int) -> list[ir.Value]:
    """Rows of ``length`` elements, or of several lanes of so many, with the columns in place of the rows of a lane."""
    half, whole = length // 2, ir.VectorType(rows[0].type).shape[0]
    first = [place + begin for begin in range(0, whole, length) for i in range(half) for place in (i, i + whole)]
    second = [place + half for place in first]
    for _ in range(len(rows).bit_length() - 1):
        pairs = list(zip(rows[: len(rows) // 2], rows[len(rows) // 2 :], strict=True))
        rows = [vector.shuffle(a, b, places) for a, b in pairs for places in (first, second)]
    return list(rows)


def _turn_lanes(rows: list[ir.Value], lane: int) -> list[ir.Value]:
    """As many rows as these have lanes, the columns of lanes."""
    both = range(2 * ir.VectorType(rows[0].type).shape[0] // lane)
    for _ in range(len(rows).bit_length() - 1):
        pairs = list(zip(rows[::2], rows[1::2], strict=True))
        chosen = [[n * lane + i for n in both[odd::2] for i in range(lane)] for odd in (0, 1)]
        rows = [vector.shuffle(a, b, places) for places in chosen for a, b in pairs]
    return rows


def _of_rows(rows: Sequence[ir.Value], kind: ir.VectorType) -> ir.Value:
    """The matrix of rows."""
    made = arith.constant(kind, ir.DenseElementsAttr.get_splat(kind, _zero(kind.element_type)))
    for i, row in enumerate(rows):
        made = vector.insert(row, made, [], [i])
    return made


def _recut(rows: Sequence[ir.Value], length: int) -> list[ir.Value]:
    """The elements of all rows in order, in rows of another length."""
    have = ir.VectorType(rows[0].type).shape[0]
    if have >= length:
        starts = range(0, have, length)
        return [row if have == length else _slice_lanes(row, at, length) for row in rows for at in starts]
    joined = list(rows)
    while have < length:
        joined = [vector.shuffle(a, b, list(range(2 * have))) for a, b in zip(joined[::2], joined[1::2], strict=True)]
        have *= 2
    return joined


def _slice_lanes(row: ir.Value, start: int, length: int) -> ir.Value:
    return vector.shuffle(row, row, list(range(start, start + length)))


def _zero(element: ir.Type) -> ir.Attribute:
    return ir.FloatAttr.get(element, 0.0) if isinstance(element, ir.FloatType) else ir.IntegerAttr.get(element, 0)
