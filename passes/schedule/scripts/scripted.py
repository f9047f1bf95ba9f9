"""Kernels whose loops a script of the transform dialect makes: one that an op of the kernel has (``tw.script``)."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from ....core.target import Target
from ....dialects import arith, func, ir, tensor, transform, tw
from ....dialects.builders import element_of, index_constant
from ....dialects.context import keep
from ....dialects.transform import INIT, STORE
from ....dialects.types import element_bits
from ....dialects.walk import collect, defining_op, integer_of
from ...analysis.cache_sets import count_fitting_rows
from ...ir.dynamic_sizes import operand_segment
from ...ir.kernel import integer_attr, is_dynamic_kernel, list_functions, run_upstream, symbol_of
from ...ir.structure import indexing_maps, is_static, iterator_types, list_ops, shape_of, terminator_of
from ..dynamic.part_loops import share_range
from ..loop_plan import PARALLEL_WORK, STEPS, LoopsWithoutSchedule, estimate_work, threads_pay
from ..tiles.regions import Interval, Linear, full_region
from ..tiles.structured import clone_body, extract, make_generic
from ..tiling.border import copy_box
from ..tiling.destination_passing import destination_passing
from ..tiling.plain_loops import copy_ops


@dataclass
class ScriptPlan(LoopsWithoutSchedule):
    """The loops of a script. ``extent`` is known when they are built."""

    script: transform.Script
    extent: int = 1

    def build(self, function: func.FuncOp, target: Target) -> ir.Module:
        """The loops, around vectors, scalars, or what only the run knows the size of."""
        root = next(_stage_of(op) for op in list_ops(function) if tw.SCRIPT in op.attributes)
        made = destination_passing(function, lambda *given: copy_ops(function, *given))
        [rebuilt] = list_functions(made)
        transform.apply(self.script, rebuilt)
        run_upstream(made, ("sccp",))  # sizes of tiles become numbers; `canonicalize` would fold copies away
        transform.apply(keep(_empty_script, _empty_script), rebuilt)
        for number, op in enumerate(collect(rebuilt, lambda op: tw.TILE_SHAPE in op.attributes)):
            _bound_memory(op, root, number)
        for op in collect(rebuilt, lambda op: tw.STAGE in op.attributes, "linalg.generic"):
            if _is_store(op):
                _write_out(op) if _rows_share_sets(op) else _drop(op)
            elif tw.INTRINSIC not in op.attributes:
                _rebuild(op)
        self.extent = _share_loop(rebuilt)
        run_upstream(made, ("canonicalize", "cse"))
        written = ir.StringAttr.get(transform.print_sequence(self.script, symbol_of(function)))
        rebuilt.attributes[tw.PARTS] = rebuilt.attributes[tw.SCRIPT] = written
        rebuilt.attributes[tw.SCRIPTED] = ir.UnitAttr.get()
        return made

    def parallel_from(self, function: func.FuncOp) -> int | None:
        """From how many elements of the result on threads pay; None for never."""
        if not is_dynamic_kernel(function):
            return threads_pay(function, self.extent)
        elements = math.prod(n for n in shape_of(terminator_of(function).operands[0]) if n > 0)  # of one open step
        return PARALLEL_WORK * elements // max(1, estimate_work(function)) if self.extent > 1 else None


def _empty_script() -> transform.Script:
    """Parts of new tensors become new tensors: each tile has memory of its own."""
    with transform.sequence() as made:
        transform.apply_patterns(made.root, "tensor.fold_tensor_empty")
    return made


def _stage_of(op: ir.Operation) -> str:
    """The name of the stage that an op computes, begins or stores."""
    return ir.StringAttr(op.attributes[tw.STAGE]).value.removesuffix(INIT).removesuffix(STORE)


def _bound_memory(op: ir.Operation, root: str, number: int) -> None:
    """Let new tensors of an op, whose sizes depend on loops, be parts of such as have the most elements.

    What a loop hands on to the op is such a tensor, too; the ``root``'s is the kernel's result.
    """
    shape = list(ir.DenseI64ArrayAttr(op.attributes[tw.TILE_SHAPE]))
    del op.attributes[tw.TILE_SHAPE]
    for operand in list(op.operands)[len(op.operands) - len(op.results) :]:
        source = _find_memory(operand) if _stage_of(op) != root else defining_op(operand)
        if source is None or source.name != "tensor.empty" or not len(source.operands):
            continue
        kind = ir.RankedTensorType(source.results[0].type)
        most = [max(own, extent) for own, extent in zip(shape, kind.shape, strict=True)]
        with ir.InsertionPoint(source), source.location:
            whole = tensor.EmptyOp(most, kind.element_type).result
            whole.owner.attributes[tw.MEMORY] = integer_attr(number)
            zeros, ones = [0] * kind.rank, [1] * kind.rank
            made = tensor.ExtractSliceOp(kind, whole, [], list(source.operands), [], zeros, list(kind.shape), ones)
        source.results[0].replace_all_uses_with(made.result)
        source.erase()


_LIES_IN = {"tensor.extract_slice": 0, "tensor.insert_slice": 1}  # the operand that such an op's result lies in


def _find_memory(value: ir.Value) -> ir.Operation | None:
    """What makes the tensor that a tile is a part of, through slices and loops that hand it on; None for arguments."""
    while True:
        if isinstance(value, ir.BlockArgument):
            argument = ir.BlockArgument(value)
            loop, number = argument.owner.owner.operation, argument.arg_number
            if loop.name != "scf.for" or not number:
                return None
            value = list(loop.operands)[2 + number]
            continue
        op = defining_op(value)
        if op is not None and op.name == "scf.for":
            value = list(op.operands)[3 + ir.OpResult(value).result_number]
        elif op is not None and op.name in _LIES_IN:
            value = op.operands[_LIES_IN[op.name]]
        else:
            return op


def _is_store(op: ir.Operation) -> bool:
    """Return whether an op copies what a reduction has made; only its loops were wanted."""
    return ir.StringAttr(op.attributes[tw.STAGE]).value.endswith(STORE)


def _drop(op: ir.Operation) -> None:
    """Exchange copies for what they copy, which begins, and is written, where they are.

    What a reduction begins with would be the same in all steps, be made once, and copied for each of them, if it lay in
    memory of its own.
    """
    name = ir.StringAttr(op.attributes[tw.STAGE]).value.removesuffix(STORE) + INIT
    fills = [f for f in op.block.operations if _is_named(f.operation, name)]
    results = len(op.results)
    for result, source, place in zip(op.results, op.operands, list(op.operands)[-results:], strict=False):
        number = ir.OpResult(result).result_number
        if len(fills) == results and fills[number].results[0].type == place.type:
            fill, made = fills[number].operation, defining_op(place)
            if made is not None and made.name == "tensor.extract_slice" and _is_before(made.operands, fill):
                made.move_before(fill)
                fill.operands[1] = place
        result.replace_all_uses_with(source)
    op.erase()


def _rows_share_sets(op: ir.Operation) -> bool:
    """Return whether the rows of the place that an op copies a tile to do not fit into the first cache together.

    A reduction whose loops are outside of those over rows goes over all of them again and again. Rows of 4 kB lie in
    the same set: a tile of 32 x 32 of a product of 1024 x 1024 by 1024 x 1024 took five times as long in its place.
    """
    place = op.operands[len(op.operands) - 1]
    memory, tile = _find_memory(place), shape_of(place)
    long = [axis for axis, extent in enumerate(tile) if extent != 1]
    if memory is None or len(long) < 2 or len(op.results) > 1 or not all(map(is_static, (place, memory.results[0]))):
        return False
    apart = math.prod(shape_of(memory.results[0])[long[-2] + 1 :]) * element_bits(element_of(place)) // 8
    return apart > 0 and tile[long[-2]] > count_fitting_rows(apart)


def _write_out(op: ir.Operation) -> None:
    """Let a tile be made in memory of its own; a copy by vectors, which does not fold, brings it to its place."""
    source, place = op.operands
    with ir.InsertionPoint(op), op.location:
        made = copy_box(source, place, full_region(shape_of(place)))
    op.results[0].replace_all_uses_with(made)
    op.erase()


def _is_before(values: Iterable[ir.Value], op: ir.Operation) -> bool:
    """Return whether values are known before an op, in whose block or around which they are made."""
    made = [defining_op(value) for value in values]
    return all(each is None or each.block != op.block or each.is_before_in_block(op) for each in made)


def _is_named(op: ir.Operation, name: str) -> bool:
    return tw.STAGE in op.attributes and ir.StringAttr(op.attributes[tw.STAGE]).value == name


def _share_loop(function: func.FuncOp) -> int:
    """Let the loop whose steps threads share go over ``lo`` to ``hi`` of them; returns their number.

    A last step that is smaller may be a loop of its own. Of steps that only the run knows, there are ``STEPS`` shares.
    """
    loops = collect(function, lambda op: tw.SHARED_LOOP in op.attributes, "scf.for")
    if not loops:
        return 1
    lo, hi = list(function.arguments)[-2:]
    ends = [integer_of(loop.operands[1]) for loop in loops]
    step, end = loops[0].operands[2], loops[-1].operands[1]
    size, high = integer_of(step), ends[-1]
    assert size is not None
    dynamic = None in ends or high is None
    for loop in loops:
        del loop.attributes[tw.SHARED_LOOP]
        low, own = list(loop.operands)[:2]
        with ir.InsertionPoint(loop):
            first, last = lo, hi
            if dynamic:
                steps = arith.ceildivsi(end, index_constant(size))
                first, last = share_range(lo, hi)(steps)
            begin = arith.maxsi(arith.muli(first, index_constant(size)), low)
            finish = arith.minsi(arith.muli(last, index_constant(size)), own)
        loop.operands[0], loop.operands[1] = begin, finish
    return STEPS if dynamic or high is None else -(-high // size)


def _rebuild(op: ir.Operation) -> None:
    """Make a tile one op on a vector, or scalars; one of open size stays, and becomes loops."""
    extents = _loop_extents(op)
    kept = [number for number, extent in enumerate(extents) if extent != 1]
    vector = tw.TILE in op.attributes
    if any(extents[number] is None for number in kept) or len(kept) > vector:
        if vector:
            del op.attributes[tw.TILE]
        return
    loops = [Interval(Linear(), extent or 1) for extent in extents]
    regions = [_region(m, loops) for m in indexing_maps(op)]
    if any(sum(interval.size > 1 for interval in region) > 1 for region in regions):
        del op.attributes[tw.TILE]  # a row that goes through several blocks of an operand
        return
    with ir.InsertionPoint(op), op.location:
        made = _as_vector(op, loops, kept, regions) if kept else _as_scalars(op, regions)
    for old, new in zip(op.results, made, strict=True):
        old.replace_all_uses_with(new)
    op.erase()


def _loop_extents(op: ir.Operation) -> list[int | None]:
    """The extents of an op's loops; None for those that are no numbers."""
    extents: list[int | None] = [None] * len(iterator_types(op))
    for operand, indexing_map in zip(op.operands, indexing_maps(op), strict=True):
        for axis, result in enumerate(indexing_map.results):
            if isinstance(result, ir.AffineDimExpr) and extents[result.position] is None:
                extents[result.position] = _extent_of(operand, axis)
    return extents


def _extent_of(value: ir.Value, axis: int) -> int | None:
    """The extent of a tensor along an axis, if that is a number, in its type or where it is cut out."""
    extent = shape_of(value)[axis]
    if extent >= 0:
        return extent
    op = defining_op(value)
    if op is None or op.name not in ("tensor.extract_slice", "linalg.fill", "linalg.generic", "tensor.empty"):
        return None
    if op.name.startswith("linalg."):
        number = ir.OpResult(value).result_number
        return _extent_of(op.operands[len(op.operands) - len(op.results) + number], axis)
    dynamic = sum(n < 0 for n in shape_of(value)[:axis])
    if op.name == "tensor.empty":
        return integer_of(op.operands[dynamic])
    return integer_of(operand_segment(op, 2)[dynamic])


def _as_vector(
    op: ir.Operation, loops: Sequence[Interval], kept: Sequence[int], regions: Sequence[Sequence[Interval]]
) -> list[ir.Value]:
    """The op on slices that are one row, or one element, each; its results put back into what it writes over."""
    operands, outs = list(op.operands), len(op.results)
    pieces = [extract(value, tuple(region)) for value, region in zip(operands, regions, strict=True)]
    own = [ir.AffineMap.get(1, 0, [ir.AffineExpr.get_dim(0)] if piece.dims else []) for piece in pieces]
    inputs, dests = [p.value for p in pieces[:-outs]], [p.value for p in pieces[-outs:]]
    made, block = make_generic(inputs, dests, own, ["parallel"])
    clone_body(op, block, list(block.arguments), loops, kept, tables=_find_captured(op))
    made.attributes[tw.TILE] = ir.UnitAttr.get()
    return [
        _put_back(piece, dest, region)
        for piece, dest, region in zip(made.results, operands[-outs:], regions[-outs:], strict=True)
    ]


def _put_back(piece: ir.Value, dest: ir.Value, region: Sequence[Interval]) -> ir.Value:
    starts, sizes = [i.offset.const for i in region], [i.size for i in region]
    return tensor.InsertSliceOp(piece, dest, [], [], [], starts, sizes, [i.stride for i in region]).result


def _as_scalars(op: ir.Operation, regions: Sequence[Sequence[Interval]]) -> list[ir.Value]:
    """The body on one element of each operand."""
    operands, outs = list(op.operands), len(op.results)
    places = [[index_constant(interval.offset.const) for interval in region] for region in regions]
    body = op.regions[0].blocks[0]
    mapping: dict[ir.Value, ir.Value] = {}
    for argument, operand, place in zip(body.arguments, operands, places, strict=True):
        if any(True for _ in argument.uses):
            mapping[argument] = tensor.ExtractOp(operand, place).result
    *ops, end = [each.operation for each in body.operations]
    for inner in ops:
        if inner.name == "linalg.index":
            mapping[inner.results[0]] = index_constant(0)
            continue
        copy = inner.clone()
        for number, value in enumerate(copy.operands):
            copy.operands[number] = mapping.get(value, value)
        mapping.update(zip(inner.results, copy.results, strict=True))
    return [
        tensor.InsertOp(mapping.get(value, value), dest, place).result
        for value, dest, place in zip(end.operands, operands[-outs:], places[-outs:], strict=True)
    ]


def _region(indexing_map: ir.AffineMap, loops: Sequence[Interval]) -> list[Interval]:
    """Where an operand is read: a number for each axis, or a row along the one loop that is left."""
    return [_reach(expr, loops) for expr in indexing_map.results]


def _reach(expr: ir.AffineExpr, loops: Sequence[Interval]) -> Interval:
    """The elements that an index goes through, from the begin of the tile on."""
    if isinstance(expr, ir.AffineConstantExpr):
        return Interval(Linear(expr.value), 1)
    if isinstance(expr, ir.AffineDimExpr):
        return Interval(Linear(), loops[expr.position].size)
    binary = ir.AffineBinaryExpr(expr)
    a, b = _reach(binary.lhs, loops), _reach(binary.rhs, loops)
    if isinstance(expr, ir.AffineAddExpr):
        longer = a if a.size > 1 else b
        return Interval(Linear(a.offset.const + b.offset.const), longer.size, longer.stride)
    if isinstance(expr, ir.AffineMulExpr):
        row, times = (a, b.offset.const) if a.size > 1 or b.size == 1 else (b, a.offset.const)
        return Interval(Linear(a.offset.const * b.offset.const), row.size, row.stride * times if row.size > 1 else 1)
    divisor = b.offset.const
    if isinstance(expr, ir.AffineFloorDivExpr):  # of tiles that lie in one block
        return Interval(Linear(a.offset.const // divisor), -(-a.size // divisor))
    return Interval(Linear(a.offset.const % divisor), min(a.size, divisor))


def _find_captured(op: ir.Operation) -> dict[ir.Value, ir.Value]:
    """The values that a body takes from outside, each of them for itself."""
    body = op.regions[0].blocks[0]
    own = {*body.arguments, *(result for inner in body.operations for result in inner.operation.results)}
    return {v: v for inner in body.operations for v in inner.operation.operands if v not in own}
