"""Sums of products of float32 as sums of products of bfloat16, whose tiles are matrices in registers (AMX).

A float32 has 24 bits, and is the sum of three bfloat16 of 8 bits each: ``a = a0 + a1 + a2`` with ``|a1| <= 2^-8 |a0|``
and ``|a2| <= 2^-8 |a1|``. Of the nine products of such parts the three smallest are left out, ``a1*b2``, ``a2*b1`` and
``a2*b2``: at most 2^-23 of the product, as much as rounding it would. Both operands are copied in parts ahead
(``Schedule.cache_split``): in matrices, so that each is one piece of memory.

Of infinities, NaN, and the numbers that would be rounded to an infinity, the first two parts are zero and the third is
all of it. It is multiplied with the largest part of the other number, so that a product with an infinity is one.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from ....dialects import arith, ir, linalg, tw, vector
from ....dialects.builders import element_of, index_constant, reshape
from ....dialects.walk import defining_op
from ...analysis.classify import classify_op
from ...analysis.kinds import Contraction, Conv
from ...ir.matrix_registers import COLUMNS, MOST_ROW_MATRICES, PARTS, PARTS_STEP, SPLIT_WIDTH
from ...ir.structure import dims_in, indexing_maps, iterator_types, shape_of
from ..tiles.loops import for_each_chunk
from ..tiles.regions import (
    Interval,
    Linear,
    NotSchedulable,
    Region,
    cover,
    kept_dims,
    linear_coefficients,
    operand_region,
    relative_to,
)
from ..tiles.structured import Tile, extract, insert, make_empty, make_generic, write_vector
from .matrix_products import begins_at_zero
from .tiler import SplitOperand, Tiler, WindowWalk, loop_intervals, needed_region

_PAIR = 2  # steps of a sum that lie together
_PAIRS = PARTS_STEP // _PAIR
# What is added before the lower half of a float's bits is left out, which rounds it; the sign; the first number, as
# bits, that is rounded to an infinity.
_HALF, _UPPER, _UNSIGNED, _LARGE = 0x8000, -0x10000, 0x7FFFFFFF, 0x7F7F8000


@dataclass(frozen=True)
class SplitProduct:
    """A tile of the sums of an op whose operands are both copied in parts.

    sizes: of the tile's axes of rows. matrices: which ones of the data. columns: which tile of the weight. block: which
    block of the packed weight, where each is split for itself.
    """

    op: ir.Operation
    sizes: list[int]
    data: SplitOperand
    weight: SplitOperand
    matrices: Region
    columns: Interval
    block: Linear

    @staticmethod
    def of(tiler: Tiler, op: ir.Operation, region: Region) -> SplitProduct | None:
        """The product; None where the operands are not split."""
        kind = classify_op(op)
        if not tiler.split or not isinstance(kind, Contraction | Conv):
            return None
        numbers = (1 - kind.weight, kind.weight)
        data, weight = (tiler.split.get(op.operands[number]) for number in numbers)
        if data is None or weight is None or not data.rows or weight.rows:
            raise NotSchedulable("both operands of a sum of products have to be split, the left one in rows")
        if not begins_at_zero(op):
            raise NotSchedulable("only sums that begin at zero are made of split operands")
        maps, loops = indexing_maps(op), loop_intervals(op, region)
        part, _ = operand_region(maps[kind.weight], loops)
        *outer, along = _locate_rows(data, maps[1 - kind.weight], loops)
        last = Interval(along.offset.exact_div(data.rows), -(-along.size // data.rows))
        [columns] = relative_to(part[weight.axis : weight.axis + 1], weight.region[weight.axis : weight.axis + 1])
        if columns.size > SPLIT_WIDTH or columns.size % COLUMNS:
            raise NotSchedulable("a tile of other columns than those that are split together")
        if math.prod(interval.size for interval in (*outer, last)) > MOST_ROW_MATRICES:
            raise NotSchedulable(f"a tile of more rows than {MOST_ROW_MATRICES} matrices of split operands have")
        sizes, number = [*(interval.size for interval in outer), along.size], columns.offset.exact_div(SPLIT_WIDTH)
        block = part[weight.axis].offset.exact_div(SPLIT_WIDTH)
        return SplitProduct(op, sizes, data, weight, (*outer, last), Interval(number, columns.size), block)

    def compute(self, tiler: Tiler, region: Region, dest: ir.Value | None) -> Tile:
        """The tile at ``region`` of the op's result, in memory: at ``dest``, or of its own where that is None."""
        rows, width = self.data.rows, self.columns.size
        *outer, count = self.sizes
        *_, matrices = self.matrices
        whole = [n for n in (*outer, matrices.size * rows) if n != 1]
        fits = count == matrices.size * rows
        sums = dest if dest is not None and fits else make_empty([*whole, width], ir.F32Type.get())
        made = self._multiply(reshape(sums, [*outer, matrices.size, rows, width // COLUMNS, COLUMNS]))
        made = reshape(made, [*whole, width])
        if not fits:
            sizes = [size for size, n in zip((*outer, count), (*outer, matrices.size * rows), strict=True) if n != 1]
            made = extract(made, tuple(Interval(Linear(), n) for n in (*sizes, width))).value
        return Tile(made, kept_dims(region))

    def _multiply(self, sums: ir.Value) -> ir.Value:
        """The op of a tile: for each matrix, row, block of columns and column a sum over taps, steps, parts, pairs."""
        taps, outer = self._taps, len(self.matrices)
        rank = outer + 3 + len(taps) + 5
        dims = [ir.AffineExpr.get_dim(i) for i in range(rank)]
        where, (row, block, column), walked = dims[:outer], dims[outer : outer + 3], dims[outer + 3 : -5]
        step, left, right, pair, one = dims[-5:]
        maps: list[list[ir.AffineExpr]] = [
            [*self._place_data(where, row, walked, (step, left)), pair, one],
            [*walked, step, right, block, pair, column, one],
            [*where, row, block, column],
        ]
        inputs = [self._read_data(), self._read_weight()]
        if (ahead := self._read_ahead()) is not None:
            inputs.append(ahead)
            maps.insert(2, [*walked, step, ir.AffineExpr.get_constant(0)])
        kinds = ["parallel"] * (outer + 3) + ["reduction"] * (len(taps) + 5)
        made, body = make_generic(inputs, [sums], [ir.AffineMap.get(rank, 0, m) for m in maps], kinds)
        made.attributes[tw.SPLIT_PRODUCT] = ir.UnitAttr.get()
        number, factor, *_, total = body.arguments
        with ir.InsertionPoint(body):
            product = arith.mulf(arith.extf(total.type, number), arith.extf(total.type, factor))
            linalg.YieldOp([arith.addf(total, product)])
        return made.results[0]

    @property
    def _taps(self) -> list[int]:
        """The extents of windows along the axes of rows, where these are more than one."""
        return [walk.taps for walk in self.data.walks if walk.taps > 1]

    @property
    def _steps(self) -> list[int]:
        """The steps of the sum: those of taps, and of the channels of each."""
        taps = self._taps
        return [*taps, shape_of(self.weight.value)[1] // math.prod(taps)]

    def _place_data(
        self,
        where: Sequence[ir.AffineExpr],
        row: ir.AffineExpr,
        walked: Sequence[ir.AffineExpr],
        inner: Sequence[ir.AffineExpr],
    ) -> list[ir.AffineExpr]:
        """Where a row of a matrix lies, by matrix, row, tap, and the dims of a step and of a part."""
        if not self.data.walks:
            return [*where, *inner, row]
        *outer, matrix = where
        taps, places = iter(walked), list[ir.AffineExpr]()
        for walk, place in zip(self.data.walks, [*outer, matrix * self.data.rows + row], strict=True):
            made = place * walk.stride
            places.append(made + next(taps) * walk.dilation if walk.taps > 1 else made)
        return [*places[:-1], *inner, places[-1]]

    def _read_data(self) -> ir.Value:
        """The matrices of the data, or all that windows read: ``[..., steps, part, rows, 16, 2]``."""
        sizes, outer = shape_of(self.data.value), len(self.matrices)
        taken = list(self.matrices)
        rows = Interval(Linear(), sizes[-2])
        if self.data.walks:
            *walks, along = self.data.walks
            *places, last = self.matrices
            taken = [Interval(i.offset * w.stride, w.extent(i.size)) for i, w in zip(places, walks, strict=True)]
            taken.append(Interval(Linear(), 1))
            rows = Interval(last.offset * (self.data.rows * along.stride), along.extent(last.size * self.data.rows))
        steps, parts, _, length = sizes[outer:]
        whole = (*taken, Interval(Linear(), steps), Interval(Linear(), parts), rows, Interval(Linear(), length))
        lead = [i.size for i in (taken[:-1] if self.data.walks else taken)]
        return reshape(extract(self.data.value, whole).value, [*lead, steps, parts, rows.size, length // _PAIR, _PAIR])

    def _read_weight(self) -> ir.Value:
        _, _, parts, _, pairs, length = sizes = shape_of(self.weight.value)
        sizes[0], sizes[3] = 1, self.columns.size // COLUMNS
        starts = [self.columns.offset, *(Linear() for _ in sizes[1:])]
        made = extract(self.weight.value, tuple(map(Interval, starts, sizes))).value
        return reshape(made, [*self._steps, parts, sizes[3], pairs, length // _PAIR, _PAIR])

    def _read_ahead(self) -> ir.Value | None:
        """This tile's share of the block that is split next, in rows for each step: it is asked for meanwhile.

        None where there is no next block that is split behind this one.
        """
        packed = self.weight.packed
        if packed is None or shape_of(self.weight.value)[0] > 1:
            return None
        blocks, length, width = shape_of(packed)
        steps, counts = shape_of(self.weight.value)[1], self._count_matrices()
        tiles = math.prod(counts) // math.prod(interval.size for interval in self.matrices)
        rows = -(-length // (steps * max(tiles, 1)))
        if blocks == 1 or rows * steps > length:
            return None
        place = Linear()
        for count, interval in zip(counts, self.matrices, strict=True):
            place = place * count + interval.offset
        first = arith.divui((place * length).as_value(), index_constant(math.prod(counts)))
        start = arith.minui(first, index_constant(length - rows * steps))
        following = arith.minui((self.block + Linear(2)).as_value(), index_constant(blocks - 1))
        offsets = (Linear(0, ((following, 1),)), Linear(0, ((start, 1),)), Linear())
        made = extract(packed, tuple(map(Interval, offsets, (1, rows * steps, width)))).value
        return reshape(made, [*self._steps, rows * width])

    def _count_matrices(self) -> list[int]:
        """The matrices that the data have, along each axis."""
        if not self.data.walks:
            return shape_of(self.data.value)[: len(self.matrices)]
        sizes = [self.data.region[dim].size for dim in kept_dims(self.data.region)[:-1]]
        *outer, along = (walk.count(size) for walk, size in zip(self.data.walks, sizes, strict=True))
        return [*outer, -(-along // self.data.rows)]


def split_operand(tiler: Tiler, value: ir.Value, result: ir.Value, region: Region, rows: int) -> SplitOperand:
    """Copy what a region of a kernel's result needs of an operand of float32, in parts of bfloat16.

    A left operand's has the dims ``[..., matrices, steps, part, rows, 32]``, with so many ``rows`` in each matrix; a
    right one's (``rows`` is 0) ``[tiles, steps, part, 2, 16, 32]``: for each 32 columns two matrices, which have 16
    pairs of steps, of each those of 16 columns.
    """
    if not isinstance(element_of(value), ir.F32Type):
        raise NotSchedulable("only operands of float32 can be split into parts of bfloat16")
    reader = _find_reader(value)
    number = list(reader.operands).index(value)
    loops = loop_intervals(reader, needed_region(result, region, reader.results[0]))
    kinds, places = iterator_types(reader), indexing_maps(reader)[number].results
    if rows and _has_windows(places, kinds, loops):
        return _split_windows(tiler, value, indexing_maps(reader)[number], kinds, loops, rows)
    part, _ = operand_region(indexing_maps(reader)[number], loops)
    summed = [_walks_sum(places[dim], kinds) for dim in kept_dims(part)]
    if rows:
        if len(summed) < 2 or any(summed[:-1]) or not summed[-1]:
            raise NotSchedulable("a left operand that does not lie along the sum cannot be split")
        return SplitOperand(part, _split_rows(tiler.compute(value, part).value, rows), rows)
    if summed.count(False) != 1 or summed.count(True) < 1:
        raise NotSchedulable("a right operand with other axes than columns and those of its sum cannot be split")
    axis = kept_dims(part)[summed.index(False)]
    return SplitOperand(
        part, _split_columns(tiler, value, part, axis), axis=axis, packed=_find_packed(tiler, value, part, axis)
    )


def _split_windows(
    tiler: Tiler,
    value: ir.Value,
    places: ir.AffineMap,
    kinds: Sequence[str],
    loops: Sequence[Interval],
    rows: int,
) -> SplitOperand:
    """Copy what the windows of a convolution read: rows of each line of pixels lie together, where ``rows`` of them
    that are a window's stride apart are a matrix.
    """
    part = tuple(cover(expression, loops) for expression in places.results)
    dims = kept_dims(part)
    if len(dims) < 2 or not _walks_sum(places.results[dims[-1]], kinds):
        raise NotSchedulable("a left operand that does not lie along the sum cannot be split")
    walks = tuple(_find_walk(places.results[dim], kinds, loops) for dim in dims[:-1])
    count = walks[-1].count(part[dims[-2]].size)
    length = walks[-1].extent(-(-count // rows) * rows)
    return SplitOperand(part, _split_rows(tiler.compute(value, part).value, length), rows, walks=walks)


def _has_windows(places: Sequence[ir.AffineExpr], kinds: Sequence[str], loops: Sequence[Interval]) -> bool:
    """Return whether an operand's map adds several taps to the places of windows."""
    walked = [dims_in(place) for place in places if isinstance(place, ir.AffineAddExpr)]
    return any(kinds[loop] == "reduction" and loops[loop].size > 1 for dims in walked for loop in dims)


def _find_walk(place: ir.AffineExpr, kinds: Sequence[str], loops: Sequence[Interval]) -> WindowWalk:
    """How windows move along an axis, whose places are a sum of one of windows and one of taps."""
    _, coefficients = linear_coefficients(place, len(loops))
    walked = [loop for loop, coefficient in enumerate(coefficients) if coefficient]
    windows = [loop for loop in walked if kinds[loop] == "parallel"]
    taps = [loop for loop in walked if kinds[loop] == "reduction" and loops[loop].size > 1]
    if len(windows) != 1 or len(taps) > 1:
        raise NotSchedulable("a left operand that windows do not walk along its rows cannot be split")
    [window] = windows
    if not taps:
        return WindowWalk(coefficients[window])
    return WindowWalk(coefficients[window], loops[taps[0]].size, coefficients[taps[0]])


def _locate_rows(data: SplitOperand, places: ir.AffineMap, loops: Sequence[Interval]) -> list[Interval]:
    """Which rows of split data a tile of loops has, along each axis of them."""
    dims = kept_dims(data.region)
    if not data.walks:
        part, _ = operand_region(places, loops)
        inside = relative_to(part, data.region)
        return [_without_stride(inside[dim], data.region[dim].stride) for dim in dims[:-1]]
    part = tuple(cover(expression, loops) for expression in places.results)
    inside = relative_to(part, data.region)
    found = zip(data.walks, (inside[dim] for dim in dims), strict=False)
    return [Interval(place.offset.exact_div(walk.stride), walk.count(place.size)) for walk, place in found]


def _find_packed(tiler: Tiler, value: ir.Value, part: Region, axis: int) -> ir.Value | None:
    """The packed weight that an operand is, in memory, as ``[blocks, steps, 32]``; None for others, or one block.

    None also where it has a weight for each of several groups, of which a ``part`` is one.
    """
    if any(p.size != n for d, (p, n) in enumerate(zip(part, shape_of(value), strict=True)) if d != axis):
        return None
    unpack = defining_op(value)
    if unpack is None or unpack.name != "linalg.unpack" or shape_of(unpack.operands[0])[0] == 1:
        return None
    packed = tiler.arguments.get(unpack.operands[0])
    if packed is None:
        return None
    blocks, *steps, width = shape_of(packed)
    return reshape(packed, [blocks, math.prod(steps), width])


def _find_reader(value: ir.Value) -> ir.Operation:
    readers = [use.owner.operation for use in value.uses if use.owner.name == "linalg.generic"]
    sums = [op for op in readers if isinstance(classify_op(op), Contraction | Conv)]
    if len(sums) != 1:
        raise NotSchedulable("only what one sum of products reads can be split")
    return sums[0]


def _without_stride(interval: Interval, stride: int) -> Interval:
    """Where elements lie in what only has such as are a stride apart, of which one alone has none."""
    return Interval(interval.offset.exact_div(stride), interval.size)


def _walks_sum(expression: ir.AffineExpr, kinds: Sequence[str]) -> bool:
    return isinstance(expression, ir.AffineDimExpr) and kinds[expression.position] == "reduction"


def _split_rows(source: ir.Value, rows: int) -> ir.Value:
    """The parts of rows of floats, in matrices of so many rows."""
    *outer, count, length = shape_of(source)
    whole, rest = divmod(length, PARTS_STEP)
    made = make_empty([*outer, -(-count // rows), -(-length // PARTS_STEP), PARTS, rows, PARTS_STEP], ir.BF16Type.get())

    def walk(sizes: Sequence[int], at: Sequence[Linear], made: ir.Value) -> ir.Value:
        if sizes:
            return for_each_chunk(sizes[0], 1, made, lambda start, _, value: walk(sizes[1:], [*at, start], value))

        def matrix(first: Linear, size: int, made: ir.Value) -> ir.Value:
            into = [*at, first.exact_div(rows)]

            def step(number: Linear, _: int, made: ir.Value) -> ir.Value:
                return for_each_chunk(
                    size, 1, made, lambda row, _, value: split([*at, first + row], [*into, number], row, value)
                )

            # A matrix after the other: each row of all of them would lie in as many pages.
            made = for_each_chunk(whole, 1, made, step)
            return step(Linear(whole), 1, made) if rest else made

        made = for_each_chunk(count - count % rows, rows, made, matrix)
        return matrix(Linear(count - count % rows), count % rows, made) if count % rows else made

    def split(at: Sequence[Linear], into: Sequence[Linear], row: Linear, made: ir.Value) -> ir.Value:
        starts = [into[-1] * PARTS_STEP + Linear(half) for half in (0, COLUMNS)]
        halves = [_split_bits(_load_bits(source, [*at, start], length)) for start in starts]
        for part, pair in enumerate(zip(*halves, strict=True)):
            made = _write(_pack_halves(*pair), made, [*into, Linear(part), row])
        return made

    return walk(outer, [], made)


def _split_columns(tiler: Tiler, value: ir.Value, part: Region, axis: int) -> ir.Value:
    """The parts of the columns of floats, which lie along ``axis``."""
    width, length = part[axis].size, math.prod(i.size for d, i in enumerate(part) if d != axis)
    if width % COLUMNS or length % _PAIR:
        raise NotSchedulable("a right operand is split in blocks of 16 columns and of two steps of its sum")
    steps, blocks = -(-length // PARTS_STEP), min(width, SPLIT_WIDTH) // COLUMNS
    made = make_empty([-(-width // SPLIT_WIDTH), steps, PARTS, blocks, _PAIRS, PARTS_STEP], ir.BF16Type.get())

    def tile(start: Linear, size: int, made: ir.Value) -> ir.Value:
        taken = Interval(part[axis].offset + start, size)
        read = tiler.scope().compute(value, (*part[:axis], taken, *part[axis + 1 :]))
        if read.dims[-1] != axis:
            raise NotSchedulable("a right operand that does not lie along its columns cannot be split")
        return _split_tile(reshape(read.value, [length, size]), start.exact_div(SPLIT_WIDTH), made)

    return for_each_chunk(width, SPLIT_WIDTH, made, tile)


def _split_tile(source: ir.Value, number: Linear, made: ir.Value) -> ir.Value:
    """The parts of a tile's columns."""
    length, width = shape_of(source)
    whole, rest = divmod(length // _PAIR, _PAIRS)

    def split(step: Linear, pairs: int, made: ir.Value) -> ir.Value:
        def take(pair: Linear, _: int, made: ir.Value) -> ir.Value:
            for block in range(width // COLUMNS):
                first = step * PARTS_STEP + pair * _PAIR
                rows = [_load_bits(source, [first + Linear(n), Linear(block * COLUMNS)], width) for n in range(_PAIR)]
                for part, both in enumerate(zip(*map(_split_bits, rows), strict=True)):
                    made = _write(_pack_pairs(*both), made, [number, step, Linear(part), Linear(block), pair])
            return made

        return for_each_chunk(pairs, 1, made, take)

    made = for_each_chunk(whole, 1, made, lambda step, _, value: split(step, _PAIRS, value))
    if whole > 1 and not rest and shape_of(made)[0] == 1:
        loop = defining_op(made)
        assert loop is not None
        loop.attributes[tw.SPLIT_AHEAD] = ir.UnitAttr.get()
    return _clear(split(Linear(whole), rest, made), number, whole, rest) if rest else made


def _clear(made: ir.Value, number: Linear, step: int, first: int) -> ir.Value:
    """Zeros from a pair of a step on: what the left operand has there is zero, and must not be multiplied by a NaN."""
    _, _, _, blocks, pairs, _ = shape_of(made)
    sizes = [1, 1, PARTS, blocks, pairs - first, PARTS_STEP]
    starts = [number, Linear(step), Linear(), Linear(), Linear(first), Linear()]
    zero = arith.ConstantOp(ir.BF16Type.get(), 0.0).result
    kept = [size for size in sizes if size != 1]
    return insert(linalg.fill(zero, make_empty(kept, ir.BF16Type.get())), made, tuple(map(Interval, starts, sizes)))


def _write(words: ir.Value, made: ir.Value, place: Sequence[Linear]) -> ir.Value:
    where = (*(Interval(at, 1) for at in place), Interval(Linear(), PARTS_STEP))
    return insert(write_vector(words, extract(made, where).value), made, where)


def _split_bits(bits: ir.Value) -> list[ir.Value]:
    """The parts of 16 floats, as bits of float32 of which the upper halves count."""
    known = arith.cmpi(arith.CmpIPredicate.ult, arith.andi(bits, _splat_bits(_UNSIGNED)), _splat_bits(_LARGE))
    zero, parts = _splat_bits(0), []
    for _ in range(PARTS - 1):
        rounded = arith.andi(arith.addi(bits, _splat_bits(_HALF)), _splat_bits(_UPPER))
        part = arith.select(known, rounded, zero)
        parts.append(part)
        left = arith.subf(_as_floats(bits), _as_floats(part))
        bits = arith.bitcast(_words_type(), left)
    return [*parts, bits]


def _pack_halves(first: ir.Value, second: ir.Value) -> ir.Value:
    """The upper halves of the bits of 16 floats and of 16 more."""
    narrow = ir.VectorType.get([2 * COLUMNS], ir.IntegerType.get_signless(16))
    odd = list(range(1, 4 * COLUMNS, 2))
    return vector.bitcast(
        _pairs_type(), vector.shuffle(vector.bitcast(narrow, first), vector.bitcast(narrow, second), odd)
    )


def _pack_pairs(first: ir.Value, second: ir.Value) -> ir.Value:
    """The upper halves of the bits of 16 floats, each beside that of one of 16 more."""
    low = arith.shrui(first, _splat_bits(_HALF.bit_length()))
    return vector.bitcast(_pairs_type(), arith.ori(low, arith.andi(second, _splat_bits(_UPPER))))


def _load_bits(source: ir.Value, place: Sequence[Linear], end: int) -> ir.Value:
    """16 floats as bits; those behind the ``end`` of the last axis, which a known place may leave, are zero."""
    start = place[-1]
    if not start.terms and start.const >= end:
        return _splat_bits(0)
    inside = bool(start.terms) or start.const + COLUMNS <= end
    made = vector.transfer_read(
        ir.VectorType.get([COLUMNS], ir.F32Type.get()),
        source,
        [at.as_value() for at in place],
        ir.AffineMap.get_minor_identity(len(place), 1),
        arith.ConstantOp(ir.F32Type.get(), 0.0).result,
        [inside],
    )
    return arith.bitcast(_words_type(), made)


def _words_type() -> ir.VectorType:
    return ir.VectorType.get([COLUMNS], ir.IntegerType.get_signless(32))


def _pairs_type() -> ir.VectorType:
    return ir.VectorType.get([PARTS_STEP], ir.BF16Type.get())


def _as_floats(bits: ir.Value) -> ir.Value:
    return arith.bitcast(ir.VectorType.get([COLUMNS], ir.F32Type.get()), bits)


def _splat_bits(number: int) -> ir.Value:
    kind = _words_type()
    return arith.constant(kind, ir.DenseElementsAttr.get_splat(kind, ir.IntegerAttr.get(kind.element_type, number)))
