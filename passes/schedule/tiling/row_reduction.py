"""Reductions along rows: vectors of partial results over chunks of a row, and those to one."""

from __future__ import annotations

import math

from ....dialects import arith, ir, linalg, vector
from ....dialects.builders import element_of, index_constant
from ....dialects.walk import defining_op
from ...ir.structure import indexing_maps, iterator_types, shape_of, terminator_of
from ..tiles.axes import power_floor
from ..tiles.loops import Values, for_each_step_together, list_rest
from ..tiles.regions import Interval, Linear, NotSchedulable, Region, kept_dims, operand_region
from ..tiles.structured import (
    Tile,
    capture_scalar,
    clone_body,
    extract,
    insert,
    make_empty,
    make_generic,
    read_vector,
    write_vector,
)
from .gather import reads_at_indices
from .pool_windows import combiner_of
from .rows import compute_row_along, in_chunks, is_computed_again, materialize_shared, row_vector, walk_row
from .tiler import (
    Form,
    Tiler,
    tile_map,
)

# Numbers that a combiner leaves others as they are with.
_NEUTRAL = {"arith.addf": 0.0, "arith.addi": 0, "arith.mulf": 1.0, "arith.muli": 1}
_NEUTRAL |= {"arith.maximumf": -math.inf, "arith.maxnumf": -math.inf}
_NEUTRAL |= {"arith.minimumf": math.inf, "arith.minnumf": math.inf}
_NEUTRAL |= {"arith.maxui": 0, "arith.ori": 0, "arith.xori": 0, "arith.minui": -1, "arith.andi": -1}


def reduce_row(
    tiler: Tiler, op: ir.Operation, loops: list[Interval], inside: int, serial: list[int], region: Region
) -> Tile:
    """Reduce along the contiguous dim: a vector of partial results over the chunks, then those to one.

    Partial results start from the neutral element that the op's own initial value is. Chunks of each length have a
    vector of their own, which stays in registers: a part of one would be changed in memory.
    """
    if kept_dims(region):
        raise NotSchedulable("a row reduction of more than one row at a time")
    init = tiler.compute(op.operands[len(op.operands) - 1], region)
    size = loops[inside].size
    chunk = tiler.form.row_chunk or 64
    chunk = chunk if size < 0 else min(chunk, power_floor(size))
    element = element_of(op.results[0])
    width = row_vector(tiler, size)
    lengths = _list_lengths(tiler.form, size, chunk, width)
    shapes = [[length] if length > 1 else [] for length in lengths]
    partials: Values = [linalg.fill(_neutral(op), make_empty(shape, element)) for shape in shapes]

    def step(tiler: Tiler, offset: Linear, length: int, again: int | ir.Value, carried: Values) -> Values:
        loops[inside] = Interval(offset, length)
        whole = length in lengths
        number, where = lengths.index(length) if whole else 0, (Interval(Linear(), length),)
        value = carried[number]
        target = value if whole else extract(value, where).value
        combined = _combine_chunk(tiler, op, loops, inside, target, again)
        made = combined if whole else insert(combined, value, where)
        return [*carried[:number], made, *carried[number + 1 :]]

    def accumulate(values: Values) -> Values:
        return walk_row(tiler, size, chunk, width, values, lambda *part: step(tiler.scope(), *part))

    shared = _row_made_here(tiler, op, loops) if not serial else None
    if shared is not None:
        producer, row = shared
        tile, partials = compute_row_along(tiler, producer, row, None, partials, step)
        tiler.known[producer.results[0], row] = tile
    else:
        materialize_shared(tiler, op, loops)
        partials = for_each_step_together(serial, loops, partials, accumulate)
    loops[inside] = Interval(Linear(), size)
    made = init.value
    vectors = _fold_partials(op, partials, width) if tiler.form.row_chunk else partials
    for partial in vectors:
        made = _reduce_partial(op, partial, made)
    return Tile(made, ())


def _fold_partials(op: ir.Operation, partials: Values, width: int) -> Values:
    """Partial results, those of several vectors combined to one: elements of one vector take as long to combine.

    Those of another number of elements than halves of halves have stay as they are. So do integers, which LLVM adds up
    in any order itself: it takes halves of products of bytes for a sum of neighbours (VPDPBUSD), and is wrong.
    """
    wide = [partial for partial in partials if _halves_to(max(shape_of(partial), default=1), width)]
    combiner = combiner_of(op)
    floats = isinstance(element_of(op.results[0]), ir.FloatType)
    if combiner is None or combiner.name not in _NEUTRAL or not wide or not floats:
        return partials
    made: ir.Value | None = None
    sizes = [shape_of(partial)[0] for partial in wide]
    for partial, least in zip(wide, [*sizes[1:], width], strict=True):
        whole = read_vector(partial)
        made = whole if made is None else _combine(combiner, made, whole)
        while (size := ir.VectorType(made.type).shape[0]) > least:
            halves = [vector.shuffle(made, made, range(at, at + size // 2)) for at in (0, size // 2)]
            made = _combine(combiner, *halves)
    assert made is not None
    whole = write_vector(made, make_empty(ir.VectorType(made.type).shape, element_of(wide[0])))
    return [whole, *(partial for partial in partials if partial not in wide)]


def _halves_to(size: int, width: int) -> bool:
    return size >= width and power_floor(size // width) * width == size


def _combine(combiner: ir.Operation, left: ir.Value, right: ir.Value) -> ir.Value:
    attributes = {name: combiner.attributes[name] for name in combiner.attributes}
    return ir.Operation.create(combiner.name, [left.type], [left, right], attributes).results[0]


def _list_lengths(form: Form, size: int, chunk: int, vector: int) -> list[int]:
    """The lengths of chunks that a row is reduced in: of more than one element where that is known."""
    if size < 0:
        of_many = [] if form.vectors or chunk > form.most else [chunk]
        of_one = [vector] if vector <= form.most else []
        return [*of_many, *of_one, *([1] if form.least < vector else [])]
    rest = list_rest(size, chunk, vector)
    return sorted({chunk, *(length for _, length, _ in rest if length > 1)}, reverse=True)


def _row_made_here(tiler: Tiler, op: ir.Operation, loops: list[Interval]) -> tuple[ir.Operation, Region] | None:
    """The op that makes the one operand of a row reduction, and the row, where others read it too and it is not made.

    Then it is reduced as it is made: softmax adds up its exponentials so, which saves a pass over the row.
    """
    if len(op.operands) != 2:
        return None
    value, producer = op.operands[0], defining_op(op.operands[0])
    if producer is None or producer.name != "linalg.generic" or len(list(value.uses)) < 2 or len(producer.results) != 1:
        return None
    row, _ = operand_region(indexing_maps(op)[0], loops)
    made = "reduction" in iterator_types(producer) or reads_at_indices(producer) or tiler.has_some(value)
    return None if made or not in_chunks(tiler, row) or is_computed_again(producer, row) else (producer, row)


def _combine_chunk(
    tiler: Tiler, op: ir.Operation, loops: list[Interval], inside: int, acc: ir.Value, again: int | ir.Value
) -> ir.Value:
    """acc[i] = body(x[i], acc[i]) for one chunk: the reduction as an elementwise op on partial results.

    The first ``again`` elements of the chunk are in the partial results already: those stay as they are.
    """
    maps, inputs, input_maps = indexing_maps(op), [], []
    kept = [inside] if loops[inside].size > 1 else []
    for operand, indexing_map in zip(list(op.operands)[:-1], maps[:-1], strict=True):
        part, walkers = operand_region(indexing_map, loops)
        tile = tiler.compute(operand, part)
        inputs.append(tile.value)
        input_maps.append(tile_map(kept, [walkers[d] for d in tile.dims]))
    identity = ir.AffineMap.get_identity(len(kept))
    made, block = make_generic(inputs, [acc], [*input_maps, identity], ["parallel"] * len(kept))
    clone_body(op, block, list(block.arguments), loops, kept, tiler.arguments)
    if again != 0:
        end = terminator_of(made)
        with ir.InsertionPoint(end):
            first = index_constant(again) if isinstance(again, int) else again
            is_new = arith.cmpi(arith.CmpIPredicate.uge, linalg.IndexOp(0).result, first)
            end.operands[0] = arith.select(is_new, end.operands[0], block.arguments[len(inputs)])
    return made.results[0]


def _neutral(op: ir.Operation) -> ir.Value:
    """The initial value of partial results: the op's own if that is a fill, otherwise the combiner's neutral one."""
    initial = op.operands[len(op.operands) - 1]
    fill, combiner = defining_op(initial), combiner_of(op)
    if fill is not None and fill.name == "linalg.fill":
        return capture_scalar(fill.operands[0])
    element = element_of(initial)
    numbers = {**_NEUTRAL, **_find_limits(element)}
    if combiner is None or combiner.name not in numbers:
        raise NotSchedulable("a row reduction whose initial value is not filled")
    number = numbers[combiner.name]
    return arith.ConstantOp(element, number if isinstance(element, ir.FloatType) else int(number)).result


def _find_limits(element: ir.Type) -> dict[str, int]:
    """The neutral numbers of the greatest and the least signed integer of a type."""
    if not isinstance(element, ir.IntegerType):
        return {}
    half = 1 << (element.width - 1)
    return {"arith.maxsi": -half, "arith.minsi": half - 1}


def _reduce_partial(op: ir.Operation, partial: ir.Value, init: ir.Value) -> ir.Value:
    """Combine the partial results with the body's own combiner: the op that takes the accumulator."""
    body = op.regions[0].blocks[0]
    accumulator = body.arguments[len(body.arguments) - 1]
    combiner = combiner_of(op)
    if combiner is None:
        raise NotSchedulable("a reduction whose body is more than a combiner at its end")
    dims = len(shape_of(partial))
    identity, scalar = ir.AffineMap.get_identity(dims), ir.AffineMap.get(dims, 0, [])
    made, block = make_generic([partial], [init], [identity, scalar], ["reduction"] * dims)
    with ir.InsertionPoint(block):
        combine = combiner.clone()
        for i, operand in enumerate(combiner.operands):
            combine.operands[i] = block.arguments[1] if operand == accumulator else block.arguments[0]
        linalg.YieldOp([combine.results[0]])
    return made.results[0]
