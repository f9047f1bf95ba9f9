"""Sums of products of bytes, four of them at a time, or of bfloat16, two at a time, in 32 bits.

VNNI's instruction, and USDOT of AArch64, multiplies and adds four unsigned bytes of the one operand and signed ones of
the other. Where there is none, bytes become numbers of 16 bits, and an instruction adds two products of them; on
AArch64 they become signed, which SDOT takes, or numbers of 32 bits. All are exact. (One that multiplies bytes and adds
pairs in 16 bits is not: it saturates.) A weight is packed so that four steps of the sum lie together for each output
channel; four neighbours of a row of the other operand are one word, that goes to all lanes. VDPBF16PS adds two
products of bfloat16 to a float32, each rounded to nearest, with denormals as zero.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence

from ....core.target import DotProduct, Target
from ....dialects import arith, ir, vector
from ....dialects.builders import element_of, index_constant, scalar
from ....dialects.types import element_bits
from ....dialects.walk import defining_op
from ...analysis.classify import classify_op
from ...analysis.kinds import Contraction, Conv
from ...ir.dot_instructions import add_products, registers_beside, terms_of
from ...ir.maps import collapse_dims, group_run
from ...ir.structure import dim_of, indexing_maps, shape_of
from ..tiles.axes import most_register_rows
from ..tiles.loops import for_each_chunk, for_each_step
from ..tiles.regions import Interval, Linear, NotSchedulable, Region, kept_dims, operand_region
from ..tiles.structured import Tile, read_vector, write_vector
from .grouped_sums import group_of, grouped_loop
from .tiler import Tiler, loop_intervals, packed_region, read_region


def most_rows(width: int, lanes: int, dot: DotProduct | None, target: Target) -> int:
    """Rows of a register tile of ``width`` channels, whose sums ``dot`` makes, or multiply-adds of ``lanes``.

    Of vectors that are narrower than the widest there are 16 registers: AVX-512 that multiplies no numbers of 16 bits
    (BW) has no more (VL), either.
    """
    if dot is None:
        return most_register_rows(max(width // lanes, 1), target)
    columns = -(-width // dot.lanes)
    registers = target.registers if dot.lanes == target.lanes else 16
    return max((registers - registers_beside(dot, columns)) // columns, 1)


def dot_products(tiler: Tiler, op: ir.Operation, region: Region, dest: ir.Value | None) -> Tile:
    """A tile of an op's sums, which lies in whole blocks of its packed weight: four steps of the rows at a time."""
    kind, loops = classify_op(op), loop_intervals(op, region)
    grouped = grouped_loop(op, kind)
    if grouped is None or not isinstance(kind, Contraction | Conv):  # a form that a user writes may ask for it
        raise NotSchedulable("only sums of products of bytes whose weight is packed can be made of dot_product")
    extents = [interval.size for interval in loops]
    serial = [loop for loop in tiler.form.sums if loop != grouped and extents[loop] > 1]
    init = tiler.compute(op.operands[2], region, dest)

    def accumulate(acc: ir.Value) -> ir.Value:
        group = group_of(*op.operands[:2])
        whole = extents[grouped] // group * group
        at_once = tiler.form.at_once // group if whole % tiler.form.at_once == 0 else 1
        acc = for_each_chunk(whole, group, acc, step, max(at_once, 1))
        return step(Linear(whole), extents[grouped] - whole, acc) if whole < extents[grouped] else acc

    def step(offset: Linear, size: int, value: ir.Value) -> ir.Value:
        loops[grouped] = Interval(offset, size)
        return _dot_tile(tiler.scope(), op, kind, loops, Tile(value, init.dims)).value

    return Tile(for_each_step(serial, loops, init.value, accumulate), init.dims)


def _dot_tile(tiler: Tiler, op: ir.Operation, kind: Contraction | Conv, loops: list[Interval], acc: Tile) -> Tile:
    """Add the products of a group, four of bytes, to each sum of a tile, fewer at the end of the rows.

    Args:
        loops: the op's intervals; the one that is grouped has at most a group's steps.
        acc: the sums so far, whose last dim is that of the weight's blocks.
    """
    grouped = grouped_loop(op, kind)
    assert grouped is not None  # what the schedule relies on
    words, dot = _Words(tiler, op, 1 - kind.weight, loops, grouped), tiler.form.dot
    assert dot is not None  # of a form that has such sums
    *rows, width = shape_of(acc.value)
    if width % dot.lanes:
        raise NotSchedulable(f"sums of grouped products in vectors of {dot.lanes} lanes")
    walkers = [dim_of(e) for e in indexing_maps(op)[-1].results]
    row_loops = [walkers[d] for d in acc.dims[:-1]]
    # A packed weight has zeros past its end.
    whole = [*loops[:grouped], Interval(loops[grouped].offset, dot.group), *loops[grouped + 1 :]]
    parts = [terms_of(part, dot, signed=True) for part in _load_weight(tiler, op, kind.weight, whole, dot)]
    sums = read_vector(acc.value)
    for place in itertools.product(*map(range, rows)):
        word = terms_of(words.at(dict(zip(row_loops, place, strict=True)), dot.lanes), dot, signed=False)
        row = vector.extract(sums, [], list(place)) if place else sums
        row = _concat_parts(
            [add_products(dot, _extract_lanes(row, i, dot.lanes), word, part) for i, part in enumerate(parts)], row
        )
        sums = vector.insert(row, sums, [], list(place)) if place else row
    return Tile(write_vector(sums, acc.value), acc.dims)


class _Words:
    """A group of neighbours of the data, four bytes, as one word."""

    def __init__(self, tiler: Tiler, op: ir.Operation, number: int, loops: Sequence[Interval], grouped: int) -> None:
        part, walkers = operand_region(indexing_maps(op)[number], loops)
        self.tile = tiler.compute(op.operands[number], part)
        self.loops, self.grouped = [walkers[d] for d in self.tile.dims], grouped
        self.count = loops[grouped].size

    def at(self, place: Mapping[int | None, int], lanes: int) -> ir.Value:
        """The word at a place of the loops over rows, in all lanes; what is past the end of a row is zero."""
        element, word = element_of(self.tile.value), ir.IntegerType.get_signless(32)
        group = group_of(self.tile.value)
        indices = [index_constant(0 if loop == self.grouped else place[loop]) for loop in self.loops]
        read = _read_neighbours(self.tile.value, indices, self.count)
        if self.count < group:
            none = vector.broadcast(ir.VectorType.get([group], element), scalar(0, element))
            read = vector.insert_strided_slice(read, none, [0], [1])
        one = vector.extract(vector.bitcast(ir.VectorType.get([1], word), read), [], [0])
        every = vector.broadcast(ir.VectorType.get([lanes], word), one)
        return vector.bitcast(ir.VectorType.get([lanes * group], element), every)


def _read_neighbours(tile: ir.Value, indices: Sequence[ir.Value], count: int) -> ir.Value:
    """``count`` neighbours along a tile's last dim; a single one may lie in a tile that has lost that dim."""
    element, rank = element_of(tile), len(indices)
    last = [ir.AffineExpr.get_dim(rank - 1) if count > 1 else ir.AffineExpr.get_constant(0)]
    zero = scalar(0, element)
    kind = ir.VectorType.get([count], element)
    return vector.transfer_read(kind, tile, indices, ir.AffineMap.get(rank, 0, last), zero, [True])


def _load_weight(
    tiler: Tiler, op: ir.Operation, number: int, loops: Sequence[Interval], dot: DotProduct
) -> list[ir.Value]:
    """A packed weight's numbers for a block of channels, as vectors of groups, one for each lane."""
    part, _ = operand_region(indexing_maps(op)[number], loops)
    unpack = defining_op(op.operands[number])
    assert unpack is not None  # of a weight that is grouped
    if len(kept_dims(part)) != 2:
        raise NotSchedulable("a weight whose blocks have one channel")
    flat = _flat_row(tiler, unpack, part)
    count = shape_of(flat)[0]
    row, width = _read_neighbours(flat, [index_constant(0)], count), dot.lanes * dot.group
    parts = [_extract_lanes(row, i, width) for i in range(count // width)]
    if element_bits(element_of(flat)) == dot.bits:
        return parts
    wide = ir.VectorType.get([width], ir.IntegerType.get_signless(dot.bits))
    return [arith.extsi(wide, part) for part in parts]


def _flat_row(tiler: Tiler, unpack: ir.Operation, region: Region) -> ir.Value:
    """A block of a packed weight's groups as one row, a slice of the weight where that is an argument.

    As such it is a load of a whole row at a step of a loop, which ``prefetch-weights`` knows.
    """
    packed = unpack.operands[0]
    if packed not in tiler.arguments:
        return _join_last(tiler.compute(unpack.results[0], region).value)
    source = tiler.arguments[packed]
    owner = source.owner
    place = ir.InsertionPoint.at_block_begin(owner) if isinstance(owner, ir.Block) else ir.InsertionPoint.after(owner)
    with place:
        rows = _join_last(source)
    *outer, channels, group = packed_region(unpack, region)
    shape = shape_of(packed)
    return read_region(
        rows, [*shape[:-2], shape[-2] * shape[-1]], (*outer, Interval(Linear(), channels.size * group.size))
    ).value


def _join_last(value: ir.Value) -> ir.Value:
    """A tensor with its last two dims as one."""
    rank = len(shape_of(value))
    return collapse_dims(value, group_run(rank, rank - 2, 2))


def _extract_lanes(row: ir.Value, number: int, lanes: int) -> ir.Value:
    kind = ir.VectorType(row.type)
    if kind.shape == [lanes]:
        return row
    return vector.extract_strided_slice(
        ir.VectorType.get([lanes], kind.element_type), row, [number * lanes], [lanes], [1]
    )


def _concat_parts(parts: Sequence[ir.Value], row: ir.Value) -> ir.Value:
    if len(parts) == 1:
        return parts[0]
    for i, part in enumerate(parts):
        row = vector.insert_strided_slice(part, row, [i * ir.VectorType(part.type).shape[0]], [1])
    return row
