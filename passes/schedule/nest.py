"""Carry out a schedule: rebuild a kernel as loops around tile-sized structured ops.

Before, a kernel is a function on whole tensors::

    %c = linalg.generic {a convolution} ins(%x, %w) outs(%zero)
    %r = linalg.generic {bias and relu} ins(%c, %b) outs(%e)
    return %r

After, it writes its result tile by tile, and each op inside a tile is small enough to become vectors::

    scf.for %t = %lo to %hi {                                  // the parallel axis
      scf.for %ow ... {
        %acc = linalg.fill
        scf.for %kh, %kw { %acc' = linalg.generic {a small matmul} ins(slice of %x, slice of %w) outs(%acc) }
        %y = linalg.generic {bias and relu} ins(%acc, slice of %b) outs(slice of %out)
        tensor.insert_slice %y into %out

A strided window becomes a strided slice, so what is left inside a tile has indexing maps that are permutations: the
form that the vectorizer takes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ...dialects import arith, ir, linalg, scf
from ..classify import Contraction, Conv, classify, dim_of, indexing_maps, iterator_types, loop_extents
from .schedule import Schedule, Split
from .structured import (
    Interval,
    Linear,
    NotSchedulable,
    Region,
    Tile,
    clone_body,
    defining_op,
    element_of,
    empty,
    extract,
    generic,
    index_constant,
    insert,
    kept_dims,
    operand_region,
    outside,
    shape_of,
)

ROLE, CONTRACT = "tw.role", "contract"


def build_nest(
    schedule: Schedule,
    result: ir.Value,
    dest: ir.Value,
    lo: ir.Value,
    hi: ir.Value,
    arguments: dict[ir.Value, ir.Value],
) -> ir.Value:
    """Emit the loops at the insertion point; returns the tensor that ``dest`` has become.

    Args:
        result: the value that the whole-tensor function returns; its producers are cloned tile by tile.
        dest: a tensor of the result's type to write into.
        lo, hi: the part of the parallel axis to compute.
        arguments: the tensors to use for the function's arguments.
    """
    tiler = Tiler(arguments, schedule.row_chunk)
    offsets: dict[int, Interval] = {}
    leading, inner = schedule.splits[: schedule.parallel], schedule.splits[schedule.parallel :]

    rank = len(shape_of(result))

    def tile(target: ir.Value) -> ir.Value:
        scope = tiler.scope()
        for region in _vector_pieces(tuple(offsets[axis] for axis in range(rank)), schedule.row_chunk):
            computed = scope.compute(result, region, extract(target, region).value)
            target = insert(computed.value, target, region)
        return target

    def loops(splits: Sequence[Split], target: ir.Value) -> ir.Value:
        if not splits:
            return tile(target)
        split, deeper = splits[0], splits[1:]

        def step(offset: Linear, size: int, value: ir.Value) -> ir.Value:
            offsets[split.axis] = Interval(offset, size)
            return loops(deeper, value)

        if split.axis == rank - 1:
            return chunked(split.extent, split.tile, target, step)
        whole = chunked(split.whole * split.tile, split.tile, target, step)
        return step(Linear(split.whole * split.tile), split.rest, whole) if split.rest else whole

    return _parallel(leading, lo, hi, dest, offsets, lambda target: loops(inner, target))


def chunked(extent: int, tile: int, init: ir.Value, step: Callable[[Linear, int, ir.Value], ir.Value]) -> ir.Value:
    """Run ``step(offset, size, carried)`` over ``extent`` elements: whole tiles in a loop, then the rest.

    The rest goes in powers of two: LLVM takes vectors of other lengths apart into scalars.
    """
    whole, value = extent // tile, init
    if whole == 1:
        value = step(Linear(), tile, value)
    elif whole > 1:
        loop = scf.ForOp(index_constant(0), index_constant(whole), index_constant(1), [value])
        with ir.InsertionPoint(loop.body):
            offset = Linear(0, ((loop.induction_variable, tile),))
            scf.YieldOp([step(offset, tile, loop.inner_iter_args[0])])
        value = loop.results[0]
    start = whole * tile
    for size in powers_of_two(extent % tile):
        value = step(Linear(start), size, value)
        start += size
    return value


def powers_of_two(n: int) -> list[int]:
    """The binary digits of ``n`` as numbers, largest first."""
    return [1 << bit for bit in reversed(range(n.bit_length())) if n >> bit & 1]


def _parallel(
    splits: Sequence[Split],
    lo: ir.Value,
    hi: ir.Value,
    dest: ir.Value,
    offsets: dict[int, Interval],
    body: Callable[[ir.Value], ir.Value],
) -> ir.Value:
    """The loop over [lo, hi) of the joined leading axes. Only a single axis may have a smaller last tile."""
    if len(splits) > 1 and any(s.rest for s in splits):
        raise NotSchedulable("joined parallel axes must divide into whole tiles")
    steps = 1
    for split in splits:
        steps *= split.whole
    rest = splits[0].rest if splits else 0
    end = arith.minui(hi, index_constant(steps)) if rest else hi
    loop = scf.ForOp(lo, end, index_constant(1), [dest])
    with ir.InsertionPoint(loop.body):
        position = loop.induction_variable
        for split in reversed(splits):
            if split is splits[0]:
                index = position
            else:
                index = arith.remui(position, index_constant(split.whole))
                position = arith.divui(position, index_constant(split.whole))
            start = Linear() if split.whole == 1 and split.rest == 0 else Linear(0, ((index, split.tile),))
            offsets[split.axis] = Interval(start, split.tile)
        scf.YieldOp([body(loop.inner_iter_args[0])])
    if not rest:
        return loop.results[0]
    last = arith.cmpi(arith.CmpIPredicate.ugt, hi, index_constant(steps))
    branch = scf.IfOp(last, [dest.type], has_else=True)
    with ir.InsertionPoint(branch.then_block):
        offsets[splits[0].axis] = Interval(Linear(splits[0].whole * splits[0].tile), rest)
        scf.YieldOp([body(loop.results[0])])
    assert branch.else_block is not None
    with ir.InsertionPoint(branch.else_block):
        scf.YieldOp([loop.results[0]])
    return branch.results[0]


def _vector_pieces(region: Region, row_chunk: int) -> list[Region]:
    """A tile whose last axis is no power of two long, in pieces that are; a whole row stays whole."""
    if not region or row_chunk or region[-1].size in powers_of_two(region[-1].size):
        return [region]
    pieces, last, start = [], region[-1], 0
    for size in powers_of_two(last.size):
        pieces.append((*region[:-1], Interval(last.offset + Linear(start), size)))
        start += size
    return pieces


class Tiler:
    """Computes regions of a kernel's values at the insertion point, each value once in a scope."""

    def __init__(self, arguments: dict[ir.Value, ir.Value], row_chunk: int = 0, known: dict | None = None) -> None:
        self.arguments, self.row_chunk, self.known = arguments, row_chunk, dict(known or {})

    def scope(self) -> Tiler:
        """A tiler for a nested block: sees what is computed around it, keeps what it computes to itself."""
        return Tiler(self.arguments, self.row_chunk, self.known)

    def compute(self, value: ir.Value, region: Region, dest: ir.Value | None = None) -> Tile:
        """The tile of ``value`` at ``region``; written into ``dest`` (of the tile's type) where one is given."""
        if value in self.arguments:
            return extract(self.arguments[value], region)
        if (value, region) in self.known:
            return self.known[value, region]
        for (other, whole), tile in self.known.items():
            if other == value and (part := _within(region, whole)):
                return _part_of(tile, whole, part)
        if any(interval.stride != 1 for interval in region):
            raise NotSchedulable("a strided read of a value computed in the kernel")
        op = defining_op(value)
        handler = _HANDLERS.get(op.name) if op is not None else None
        if op is None or handler is None:
            raise NotSchedulable(f"no tile form of {op.name if op is not None else 'an argument'}")
        tile = handler(self, op, region, dest)
        self.known[value, region] = tile
        return tile


def _within(region: Region, whole: Region) -> Region | None:
    """``region`` relative to ``whole`` where it lies in it by construction, else None."""
    part = []
    for inner, outer in zip(region, whole, strict=True):
        start = inner.offset + outer.offset * -1
        inside = 0 <= start.const <= outer.size - inner.size if not start.terms else outer.offset == Linear()
        if not inside or inner.stride != 1:
            return None
        part.append(Interval(start, inner.size))
    return tuple(part)


def _part_of(tile: Tile, whole: Region, part: Region) -> Tile:
    in_tile = tuple(part[d] for d in tile.dims)
    piece = extract(tile.value, in_tile)
    return Tile(piece.value, tuple(tile.dims[i] for i in piece.dims))


def _fill(tiler: Tiler, op: ir.Operation, region: Region, dest: ir.Value | None) -> Tile:
    value = op.results[0]
    target = dest if dest is not None else _fresh(value, region)
    return Tile(linalg.fill(outside(op.operands[0]), outs=[target]), kept_dims(region))


def _empty(tiler: Tiler, op: ir.Operation, region: Region, dest: ir.Value | None) -> Tile:
    return Tile(dest if dest is not None else _fresh(op.results[0], region), kept_dims(region))


def _fresh(value: ir.Value, region: Region) -> ir.Value:
    return empty([region[d].size for d in kept_dims(region)], element_of(value))


def _unpack(tiler: Tiler, op: ir.Operation, region: Region, dest: ir.Value | None) -> Tile:
    """A region of a packed weight is read where it lies: one block of the packed dim, in the packed order."""
    inner, tiles = packed_dims(op)
    if len(inner) != 1:
        raise NotSchedulable("a weight packed along more than one dim")
    packed, block = inner[0], tiles[0]
    order = list(ir.DenseI64ArrayAttr(op.attributes["outer_dims_perm"])) or list(range(len(region)))
    whole = region[packed]
    if whole.size > block:
        raise NotSchedulable("a tile wider than the packed block")
    outer = [Interval(whole.offset.exact_div(block), 1) if d == packed else region[d] for d in order]
    source = tiler.compute(op.operands[0], (*outer, Interval(Linear(), whole.size)))
    dims = [*order, packed]
    return Tile(source.value, tuple(dims[i] for i in source.dims))


def packed_dims(op: ir.Operation) -> tuple[list[int], list[int]]:
    """The dims that a ``linalg.unpack`` joins, and their block sizes."""
    positions = ir.DenseI64ArrayAttr(op.attributes["inner_dims_pos"])
    return list(positions), list(ir.DenseI64ArrayAttr(op.attributes["static_inner_tiles"]))


def _generic(tiler: Tiler, op: ir.Operation, region: Region, dest: ir.Value | None) -> Tile:
    if "reduction" in iterator_types(op):
        return _reduction(tiler, op, region, dest)
    loops = _loop_intervals(op, region)
    longest = max((interval.size for interval in region), default=1)
    if tiler.row_chunk and longest > tiler.row_chunk and len(kept_dims(region)) == 1:
        return _row(tiler, op, region, dest)
    return _tile_op(tiler, op, loops, region, dest)


def _loop_intervals(op: ir.Operation, region: Region) -> list[Interval]:
    """The loops' intervals that compute ``region`` of the result: reductions in full."""
    maps, rank = indexing_maps(op), indexing_maps(op)[0].n_dims
    extents = loop_extents(op)
    if any(extent < 1 for extent in extents):
        raise NotSchedulable("a loop whose extent no operand shows")
    loops = [Interval(Linear(), extents[i]) for i in range(rank)]
    for interval, expression in zip(region, maps[-1].results, strict=True):
        if not isinstance(expression, ir.AffineDimExpr):
            raise NotSchedulable("a result that is not indexed by its loops alone")
        loops[expression.position] = interval
    return loops


def _tile_op(
    tiler: Tiler,
    op: ir.Operation,
    loops: list[Interval],
    region: Region,
    dest: ir.Value | None,
    init: Tile | None = None,
) -> Tile:
    """One structured op on tiles. Loops of size 1 are gone; what is left has permutations as indexing maps."""
    kept = [i for i, interval in enumerate(loops) if interval.size > 1]
    maps, inputs, input_maps = indexing_maps(op), [], []
    count = len(op.operands) - 1
    for operand, indexing_map in zip(list(op.operands)[:count], maps[:count], strict=True):
        part, walkers = operand_region(indexing_map, loops)
        tile = tiler.compute(operand, part)
        inputs.append(tile.value)
        input_maps.append(_tile_map(kept, [walkers[d] for d in tile.dims]))
    _, walkers = operand_region(maps[-1], loops)
    if init is None:
        target = dest if dest is not None else _fresh(op.results[0], region)
        if _reads_init(op):
            target = tiler.compute(op.operands[count], region).value
        dims = kept_dims(region)
    else:
        target, dims = init.value, init.dims
    output_map = _tile_map(kept, [walkers[d] for d in dims])
    iterators = [iterator_types(op)[i] for i in kept]
    made, block = generic(inputs, [target], [*input_maps, output_map], iterators)
    clone_body(op, block, list(block.arguments), loops, kept)
    return Tile(made.results[0], dims)


def _reads_init(op: ir.Operation) -> bool:
    return any(True for _ in op.regions[0].blocks[0].arguments[len(op.operands) - 1].uses)


def _tile_map(kept: Sequence[int], walkers: Sequence[int | None]) -> ir.AffineMap:
    dims = [ir.AffineExpr.get_dim(kept.index(w)) if w is not None else ir.AffineExpr.get_constant(0) for w in walkers]
    return ir.AffineMap.get(len(kept), 0, dims)


def _reduction(tiler: Tiler, op: ir.Operation, region: Region, dest: ir.Value | None) -> Tile:
    """Accumulate over the reduction loops: all of them step by step but the one that a vector or a matmul walks."""
    wide = _whole_blocks(op, region)
    if wide != region:
        part = _within(region, wide)
        assert part is not None
        return _part_of(tiler.compute(op.results[0], wide), wide, part)
    loops = _loop_intervals(op, region)
    serial, inside, contracted = _divide_reductions(op, loops)
    if inside is not None and not contracted:
        return _row_reduction(tiler, op, loops, inside, serial, region)
    init = tiler.compute(op.operands[len(op.operands) - 1], region, dest)

    def accumulate(remaining: Sequence[int], acc: ir.Value) -> ir.Value:
        if not remaining:
            tile = _tile_op(tiler.scope(), op, loops, region, None, Tile(acc, init.dims))
            if inside is not None:
                made = defining_op(tile.value)
                assert made is not None
                made.attributes[ROLE] = ir.StringAttr.get(f"{CONTRACT}{len(init.dims)}")
            return tile.value
        loop, deeper = remaining[0], remaining[1:]

        def step(offset: Linear, size: int, value: ir.Value) -> ir.Value:
            loops[loop] = Interval(offset, size)
            return accumulate(deeper, value)

        return chunked(extents[loop], 1, acc, step)

    extents = {loop: loops[loop].size for loop in serial}
    return Tile(accumulate(serial, init.value), init.dims)


def _whole_blocks(op: ir.Operation, region: Region) -> Region:
    """Widen the region to whole blocks of a packed weight: the padding's lanes are computed and not stored."""
    if not _is_contraction(op):
        return region
    maps, wide = indexing_maps(op), list(region)
    for operand, indexing_map in zip(list(op.operands)[:2], maps[:2], strict=True):
        unpack = defining_op(operand)
        if unpack is None or unpack.name != "linalg.unpack":
            continue
        (packed,), (block,) = packed_dims(unpack)
        for axis, expression in enumerate(maps[2].results):
            if expression == indexing_map.results[packed]:
                offset = region[axis].offset
                start = Linear(offset.const - offset.const % block, offset.terms)
                wide[axis] = Interval(start, block)
    return tuple(wide)


def _is_contraction(op: ir.Operation) -> bool:
    return isinstance(classify(op), Contraction | Conv)


def _divide_reductions(op: ir.Operation, loops: list[Interval]) -> tuple[list[int], int | None, bool]:
    """Which reduction loops go one by one, which one stays inside a tile, and whether that is a matmul's k.

    A contraction of tiles keeps its last reduction loop; a reduction to a scalar keeps the one that walks its operands'
    last dims. Where a parallel loop walks that dim (pooling in channels last), vectors lie along it, and all reductions
    go one by one.
    """
    reductions = [i for i, kind in enumerate(iterator_types(op)) if kind == "reduction" and loops[i].size > 1]
    tiled = [i for i, interval in enumerate(loops) if interval.size > 1 and i not in reductions]
    maps = indexing_maps(op)[:-1]
    if _is_contraction(op) and tiled:
        both = [i for i in reductions if all(i in map(dim_of, m.results) for m in maps)]
        inside = both[-1] if both else None
        if inside is not None and inside < max(tiled):
            raise NotSchedulable("a contraction whose reduction loops are not its last ones")
        return [i for i in reductions if i != inside], inside, True
    last = {dim_of(m.results[len(m.results) - 1]) for m in maps if len(m.results)} & set(reductions)
    inside = last.pop() if len(last) == 1 and not tiled else None
    return [i for i in reductions if i != inside], inside, False


def _row(tiler: Tiler, op: ir.Operation, region: Region, dest: ir.Value | None) -> Tile:
    """An elementwise op on a long row, chunk by chunk into a row of its own."""
    axis = kept_dims(region)[0]
    _materialize_shared(tiler, op, _loop_intervals(op, region))
    target = dest if dest is not None else _fresh(op.results[0], region)
    base = region[axis].offset

    def step(start: Linear, length: int, row: ir.Value) -> ir.Value:
        part = tuple(Interval(base + start, length) if d == axis else r for d, r in enumerate(region))
        where = (Interval(start, length),)
        tile = _tile_op(tiler.scope(), op, _loop_intervals(op, part), part, extract(row, where).value)
        return insert(tile.value, row, where)

    return Tile(chunked(region[axis].size, tiler.row_chunk, target, step), (axis,))


def _materialize_shared(tiler: Tiler, op: ir.Operation, loops: Sequence[Interval]) -> None:
    """Compute what the chunks of a row share before their loop: reductions, and values with more than one user."""
    for operand, indexing_map in zip(list(op.operands)[:-1], indexing_maps(op)[:-1], strict=True):
        producer = defining_op(operand)
        if producer is None or producer.name != "linalg.generic":
            continue
        part, _ = operand_region(indexing_map, loops)
        if len(list(operand.uses)) > 1 or "reduction" in iterator_types(producer):
            tiler.compute(operand, part)
        else:
            _materialize_shared(tiler, producer, _loop_intervals(producer, part))


def _row_reduction(
    tiler: Tiler, op: ir.Operation, loops: list[Interval], inside: int, serial: list[int], region: Region
) -> Tile:
    """Reduce along the contiguous dim: a vector of partial results over the chunks, then those to one.

    Partial results start from the neutral element that the op's own initial value is.
    """
    if kept_dims(region):
        raise NotSchedulable("a row reduction of more than one row at a time")
    init = tiler.compute(op.operands[len(op.operands) - 1], region)
    size = loops[inside].size
    chunk = min(tiler.row_chunk or 64, 1 << (size.bit_length() - 1))
    _materialize_shared(tiler, op, loops)
    element = element_of(op.results[0])
    neutral = defining_op(op.operands[len(op.operands) - 1])
    if neutral is None or neutral.name != "linalg.fill":
        raise NotSchedulable("a row reduction whose initial value is not filled")
    partial = linalg.fill(outside(neutral.operands[0]), outs=[empty([chunk], element)])
    sizes = {loop: loops[loop].size for loop in serial}

    def accumulate(remaining: Sequence[int], acc: ir.Value) -> ir.Value:
        if remaining:
            loop, deeper = remaining[0], remaining[1:]

            def walk(offset: Linear, length: int, value: ir.Value) -> ir.Value:
                loops[loop] = Interval(offset, length)
                return accumulate(deeper, value)

            return chunked(sizes[loop], 1, acc, walk)

        def step(offset: Linear, length: int, value: ir.Value) -> ir.Value:
            loops[inside] = Interval(offset, length)
            where = (Interval(Linear(), length),)
            target = value if length == chunk else extract(value, where).value
            combined = _combine(tiler.scope(), op, loops, inside, target)
            return combined if length == chunk else insert(combined, value, where)

        return chunked(size, chunk, acc, step)

    partial = accumulate(serial, partial)
    loops[inside] = Interval(Linear(), size)
    return Tile(_reduce_partial(op, partial, init.value), ())


def _combine(tiler: Tiler, op: ir.Operation, loops: list[Interval], inside: int, acc: ir.Value) -> ir.Value:
    """acc[i] = body(x[i], acc[i]) for one chunk: the reduction as an elementwise op on partial results."""
    maps, inputs, input_maps = indexing_maps(op), [], []
    kept = [inside] if loops[inside].size > 1 else []
    for operand, indexing_map in zip(list(op.operands)[:-1], maps[:-1], strict=True):
        part, walkers = operand_region(indexing_map, loops)
        tile = tiler.compute(operand, part)
        inputs.append(tile.value)
        input_maps.append(_tile_map(kept, [walkers[d] for d in tile.dims]))
    identity = ir.AffineMap.get_identity(len(kept))
    made, block = generic(inputs, [acc], [*input_maps, identity], ["parallel"] * len(kept))
    clone_body(op, block, list(block.arguments), loops, kept)
    return made.results[0]


def _reduce_partial(op: ir.Operation, partial: ir.Value, init: ir.Value) -> ir.Value:
    """Combine the partial results with the body's own combiner: the op that takes the accumulator."""
    body = op.regions[0].blocks[0]
    accumulator = body.arguments[len(body.arguments) - 1]
    users = [use.owner for use in accumulator.uses]
    if len(users) != 1 or users[0].results[0] != list(body.operations)[-1].operands[0]:
        raise NotSchedulable("a reduction whose body is more than a combiner at its end")
    identity, scalar = ir.AffineMap.get_identity(1), ir.AffineMap.get(1, 0, [])
    made, block = generic([partial], [init], [identity, scalar], ["reduction"])
    with ir.InsertionPoint(block):
        combine = users[0].operation.clone()
        for i, operand in enumerate(users[0].operands):
            combine.operands[i] = block.arguments[1] if operand == accumulator else block.arguments[0]
        linalg.YieldOp([combine.results[0]])
    return made.results[0]


_HANDLERS: dict[str, Callable[[Tiler, ir.Operation, Region, ir.Value | None], Tile]] = {
    "linalg.fill": _fill,
    "tensor.empty": _empty,
    "linalg.unpack": _unpack,
    "linalg.generic": _generic,
}
