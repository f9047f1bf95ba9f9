"""Reductions as tiles: matmuls and windows step by step, rows as vectors of partial results."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from ....dialects import arith, ir, linalg, tw
from ....dialects.builders import element_of, index_constant
from ....dialects.walk import defining_op
from ...analysis.block_sums import find_block_sum
from ...analysis.classify import classify_op
from ...analysis.kinds import Contraction, Conv, Pooling
from ...ir.structure import dim_of, indexing_maps, iterator_types, loop_extents, shape_of
from ..tiles.axes import NARROWEST, power_ceil
from ..tiles.lanes import find_lanes
from ..tiles.loops import for_each_between, for_each_chunk
from ..tiles.regions import ROW, Interval, Linear, NotSchedulable, Region
from ..tiles.structured import (
    Tile,
    find_row_loop,
    loop_along,
    make_generic,
    steps_apart,
    walks_diagonal,
)
from .dot_product import dot_products
from .gather import gather_sum, reads_at_indices
from .grouped_sums import grouped_loop
from .matrix_products import TileProduct
from .pool_windows import SAVED, Bounds, Window, amounts_of, combiner_of, find_skipped_padding, windows_of
from .row_reduction import reduce_row
from .rows import materialize_shared
from .split_products import SplitProduct
from .tiler import (
    Form,
    Tiler,
    locate_within,
    loop_intervals,
    make_empty_tile,
    needed_region,
    packed_dims,
    part_of,
    tile_op,
)

# A mark on the matmuls that a nest leaves, "contract2x4": the number of their parallel loops, and the steps of k that
# are taken at once. `vectorize` steps through their k.
CONTRACT = "contract"  # a value of `tw.ROLE`, followed by its form


# A sum of floats in one chain of n additions has an error that grows with n: so many are added before a sum of sums.
_CHAIN = 32

# What a step from an offset on, of a size, makes of a total.
_Step = Callable[[Linear, int, ir.Value], ir.Value]


def compute_reduction(tiler: Tiler, op: ir.Operation, region: Region, dest: ir.Value | None) -> Tile:
    """Accumulate over the reduction loops: all of them step by step but the one that a vector or a matmul walks."""
    if reads_at_indices(op):
        if tiler.form.sums_to_length(op):
            raise NotSchedulable("a sum at computed places whose length only the run knows")
        return gather_sum(tiler, op, region, dest)
    wide = _whole_blocks(op, region)
    if wide != region:
        return _compute_within(tiler, op, region, wide)
    loops = loop_intervals(op, region)
    form = tiler.form if tiler.form.anchor is not None and op == tiler.form.anchor else Form()
    if form.dot is not None:
        product = TileProduct.of(tiler, op, region)
        return product.compute(tiler, region, dest) if product else dot_products(tiler, op, region, dest)
    if (split := SplitProduct.of(tiler, op, region)) is not None:
        return split.compute(tiler, region, dest)
    serial, inside, contracted = _divide_reductions(op, loops, form)
    if tiler.form.across:
        materialize_shared(tiler, op, loops)
    lengths = {**form.lengths, **_rows_across(tiler, loops, serial)}
    if any(loops[loop].size < 0 and loop not in lengths for loop in serial):
        raise NotSchedulable("a sum over an open axis, step by step")
    if inside is not None and not contracted:
        if inside in form.lengths or inside in _find_clipped(tiler, op)[1]:  # of the first, a last tile of one element
            serial, inside = [*serial, inside], None
        else:
            return reduce_row(tiler, op, loops, inside, serial, region)
    init = tiler.compute(op.operands[len(op.operands) - 1], region, dest)
    combiner, clipped = combiner_of(op), {**_clip_windows(tiler, op, loops), **form.clipped}
    in_chains = not contracted and combiner is not None and combiner.name == "arith.addf"
    extents = {loop: loops[loop].size for loop in serial}
    if inside is not None and inside in form.lengths:
        loops[inside] = Interval(Linear(), ROW)
    role = f"{CONTRACT}{len(init.dims)}x{form.at_once}" if inside is not None else ""
    steps = _Steps(tiler, op, region, form, loops, init.dims, extents, lengths, clipped, in_chains, role)
    return Tile(steps.accumulate(serial, init.value), init.dims)


@dataclass(frozen=True)
class _Steps:
    """The loops of a reduction that go one by one, around a tile of its op with the axes ``dims``.

    loops: the part of each loop that a step takes. extents: the steps of loops that have as many always; lengths: of
    those whose number only the run knows; clipped: the first and last of those that leave out padding.
    in_chains: whether long sums are sums of chains. role: the mark of the op in the tile.
    """

    tiler: Tiler
    op: ir.Operation
    region: Region
    form: Form
    loops: list[Interval]
    dims: tuple[int, ...]
    extents: Mapping[int, int]
    lengths: Mapping[int, ir.Value]
    clipped: Mapping[int, Bounds]
    in_chains: bool
    role: str

    def accumulate(self, serial: Sequence[int], acc: ir.Value) -> ir.Value:
        """Go through these loops, the first one outermost, and add what they lead to to ``acc``."""
        if not serial:
            return self._compute_tile(acc)
        loop, deeper, form = serial[0], serial[1:], self.form
        parts = form.at_once if form.apart and not deeper else 1
        at_once = 1 if deeper or form.outer_product or form.apart else form.at_once
        extent = 0 if loop in self.lengths else self.extents[loop] // parts

        def step(offset: Linear, size: int, total: ir.Value) -> ir.Value:
            self.loops[loop] = Interval(offset, size)
            return self.accumulate(deeper, total)

        def step_in_parts(offset: Linear, size: int, total: ir.Value) -> ir.Value:
            for i in range(parts):
                total = step(offset + Linear(i * extent), size, total)
            return total

        def add_chain(start: Linear, length: int, total: ir.Value) -> ir.Value:
            none = self._zeros()
            made = for_each_chunk(length, 1, none, lambda at, n, part: step_in_parts(start + at, n, part), at_once)
            return _add(made, total)

        if loop in self.lengths:
            return self._add_up(self.lengths[loop], acc, step, add_chain)
        if loop in self.clipped:
            return for_each_between(*self.clipped[loop], acc, lambda offset, total: step(offset, 1, total))
        if self.in_chains and self.extents[loop] > _CHAIN:
            return for_each_chunk(extent, _CHAIN // parts, acc, add_chain)
        return for_each_chunk(extent, 1, acc, step_in_parts, at_once)

    def _compute_tile(self, acc: ir.Value) -> ir.Value:
        tile = tile_op(self.tiler.scope(), self.op, self.loops, self.region, None, Tile(acc, self.dims))
        if self.role:
            made = defining_op(tile.value)
            assert made is not None
            made.attributes[tw.ROLE] = ir.StringAttr.get(self.role)
        return tile.value

    def _add_up(self, length: ir.Value, total: ir.Value, step: _Step, add_chain: _Step) -> ir.Value:
        """Go through a loop whose steps only the run knows: in whole chains, and what is left in one more."""
        zero, whole = index_constant(0), arith.divui(length, index_constant(_CHAIN))
        if not self.in_chains:
            return for_each_between(zero, length, total, lambda offset, value: step(offset, 1, value))
        made = for_each_between(zero, whole, total, lambda start, value: add_chain(start * _CHAIN, _CHAIN, value))
        none, rest = self._zeros(), arith.muli(whole, index_constant(_CHAIN))
        return _add(for_each_between(rest, length, none, lambda offset, value: step(offset, 1, value)), made)

    def _zeros(self) -> ir.Value:
        made = make_empty_tile(self.op.results[0], self.region)
        return linalg.fill(arith.ConstantOp(element_of(made), 0.0).result, made)


def compute_blocks_ahead(tiler: Tiler, result: ir.Value, region: Region) -> None:
    """Compute the sums of a tile as whole blocks of a packed weight, of which what its pieces need are then parts."""
    anchor = tiler.form.anchor
    if anchor is None or grouped_loop(anchor, classify_op(anchor)) is not None:
        return
    part = needed_region(result, region, anchor.results[0])
    wide = _whole_blocks(anchor, part)
    if wide != part:
        _compute_within(tiler, anchor, part, wide)


def compute_matrices_ahead(tiler: Tiler, result: ir.Value, region: Region) -> bool:
    """Compute the sums of a tile as matrices, in memory, for what is made of them; return whether it has such sums."""
    anchor = tiler.form.anchor
    if anchor is None or not (tiler.form.dot or tiler.split) or anchor.results[0] == result:
        return False
    try:
        sums = _whole_blocks(anchor, needed_region(result, region, anchor.results[0]))
    except NotSchedulable:  # of readers that need different parts each computes its own
        return False
    product = SplitProduct.of(tiler, anchor, sums) or TileProduct.of(tiler, anchor, sums)
    if product is None:
        return False
    tiler.share(anchor.results[0], sums, product.compute(tiler, sums, None))
    return True


def _compute_within(tiler: Tiler, op: ir.Operation, region: Region, wide: Region) -> Tile:
    """The part ``region`` of a tile of whole blocks of a packed weight."""
    part = locate_within(region, wide, shape_of(op.results[0]))
    if part is None:
        raise NotSchedulable("a tile that lies in two blocks of a packed weight")
    if _leaves(wide, op.results[0]) and not _is_filled(op.operands[len(op.operands) - 1]):
        raise NotSchedulable("a sum that begins with a tensor, which has no padding as a packed weight does")
    return part_of(tiler.compute(op.results[0], wide), part)


def _rows_across(tiler: Tiler, loops: Sequence[Interval], serial: Sequence[int]) -> dict[int, ir.Value]:
    """The length of the rows of a tile that are summed up element by element, by their loop."""
    if not tiler.form.across or tiler.form.length is None:
        return {}
    return {loop: tiler.form.length for loop in serial if loops[loop].size < 0}


def _clip_windows(tiler: Tiler, op: ir.Operation, loops: Sequence[Interval]) -> dict[int, Bounds]:
    """The first and the end of the steps over windows that lie outside of padding, which is then not looked at."""
    pad, clipped = _find_clipped(tiler, op)
    stored = _leave_out_columns(op, loops)
    if pad is None or not clipped:
        return stored
    tiler.unpadded.add(pad.results[0])
    amounts, shape = amounts_of(pad), shape_of(pad.operands[0])
    return stored | {
        loop: window.bounds(loops[window.o], loops[loop].size, amounts[window.axis][0], Linear(shape[window.axis]))
        for loop, window in clipped.items()
    }


def _leave_out_columns(op: ir.Operation, loops: Sequence[Interval]) -> dict[int, Bounds]:
    """The first and the end of the steps along windows' rows that read more than stored padding, in any of a tile's."""
    if tw.IMAGE_COLUMNS not in op.attributes or not isinstance(kind := classify_op(op), Conv):
        return {}
    window, (low, extent) = windows_of(op, kind)[-1], ir.DenseI64ArrayAttr(op.attributes[tw.IMAGE_COLUMNS])
    place, size = loops[window.o], loops[window.k].size
    if size < 2 or place.size < 1 or window.count_idle(loop_extents(op), place.size, low, extent) < SAVED:
        return {}
    return {window.k: window.bounds(place, size, low, Linear(extent), stored=True)}


def _find_clipped(tiler: Tiler, op: ir.Operation) -> tuple[ir.Operation | None, dict[int, Window]]:
    """The padding that is not looked at, and the windows, by their loops, along whose axes it is."""
    pad = find_skipped_padding(op)
    if pad is None or tiler.has_some(pad.results[0]):
        return None, {}
    kind, amounts = classify_op(op), amounts_of(pad)
    assert isinstance(kind, Pooling | Conv)
    return pad, {window.k: window for window in windows_of(op, kind) if any(amounts[window.axis])}


def _add(part: ir.Value, total: ir.Value) -> ir.Value:
    """The sum of two tiles, in the second's place."""
    rank = len(shape_of(total))
    identity = ir.AffineMap.get_identity(rank)
    made, block = make_generic([part], [total], [identity, identity], ["parallel"] * rank)
    with ir.InsertionPoint(block):
        linalg.YieldOp([arith.addf(block.arguments[1], block.arguments[0])])
    return made.results[0]


def _whole_blocks(op: ir.Operation, region: Region) -> Region:
    """Widen the region to whole blocks of a packed weight: the padding's lanes are computed and not stored.

    Of the last block, whose place is known, only as many vectors are whole as have something that is stored. Sums of
    products of bytes take whole blocks.
    """
    if not _is_contraction(op) and find_block_sum(op) is None:
        return region
    maps, wide = indexing_maps(op), list(region)
    in_fours = grouped_loop(op, classify_op(op)) is not None
    for operand, indexing_map in zip(list(op.operands)[:2], maps[:2], strict=True):
        unpack = defining_op(operand)
        if unpack is None or unpack.name != "linalg.unpack":
            continue
        (packed, *_), (block, *_) = packed_dims(unpack)
        for axis, expression in enumerate(maps[-1].results):
            if expression == indexing_map.results[packed]:
                offset = region[axis].offset
                start = Linear(offset.const - offset.const % block, offset.terms)
                left = block if offset.terms or in_fours else shape_of(op.results[0])[axis] - start.const
                wide[axis] = Interval(start, min(block, max(NARROWEST, power_ceil(left))))
    return tuple(wide)


def _leaves(region: Region, value: ir.Value) -> bool:
    """Return whether a region reaches out of a value."""
    ends = zip(region, shape_of(value), strict=True)
    return any(not part.offset.terms and part.offset.const + part.size > extent for part, extent in ends)


def _is_filled(value: ir.Value) -> bool:
    op = defining_op(value)
    return op is not None and op.name == "linalg.fill"


def _is_contraction(op: ir.Operation) -> bool:
    return isinstance(classify_op(op), Contraction | Conv)


def _divide_reductions(op: ir.Operation, loops: list[Interval], form: Form) -> tuple[list[int], int | None, bool]:
    """Which reduction loops go one by one, which one stays inside a tile, and whether this is a contraction of tiles.

    One that is to be an outer product keeps its last reduction loop; a reduction to a scalar keeps the one that walks
    its operands' last dims. Where a parallel loop walks that dim (pooling in channels last), vectors lie along it, and
    all reductions go one by one. So do those of a contraction whose tile is one row: it adds rows of its right operand,
    each times a scalar, and as a matmul of one row it would read them as columns.
    """
    reductions = [i for i, kind in enumerate(iterator_types(op)) if kind == "reduction" and loops[i].size != 1]
    reductions.sort(key=lambda loop: (form.sums.index(loop) if loop in form.sums else -1, loop))
    tiled = [i for i, interval in enumerate(loops) if interval.size != 1 and i not in reductions]
    maps = indexing_maps(op)[:-1]
    if _is_contraction(op) and len(tiled) > 1:
        both = [i for i in reductions if all(i in map(dim_of, m.results) for m in maps)]
        inside = both[-1] if both and form.outer_product else None
        if inside is not None and inside < max(tiled):
            raise NotSchedulable("a contraction whose reduction loops are not its last ones")
        return [i for i in reductions if i != inside], inside, True
    if (lanes := find_lanes(op)) is not None:
        inside = lanes if lanes in reductions and not tiled else None
        return [i for i in reductions if i != inside], inside, False
    last = {loop_along(op, i) for i in range(len(maps))} & set(reductions)
    row = find_row_loop(op) if len(last) > 1 else next(iter(last), None)
    near = row is not None and (not steps_apart(op, row) or (len(last) == 1 and not walks_diagonal(op, row)))
    inside = row if near and not tiled else None
    return [i for i in reductions if i != inside], inside, False
