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

import itertools
from collections.abc import Callable, Sequence

from ...dialects import arith, ir, scf
from ..classify import Transform, classify, iterator_types
from .border import Border
from .gather import gather_tile, reads_at_indices
from .linear_transform import transform_tile
from .loops import chunked, powers_of_two
from .reduction import compute_reduction
from .rows import compute_row
from .schedule import Schedule, Split, Stage
from .structured import (
    Interval,
    Linear,
    NotSchedulable,
    Region,
    Tile,
    copied,
    defining_op,
    extract,
    full_region,
    index_constant,
    insert,
    kept_dims,
    shape_of,
    store,
    vector_axis,
)
from .tiler import (
    Tiler,
    constant_tile,
    empty_tile,
    fill_tile,
    fresh,
    loop_intervals,
    needed,
    relative,
    slice_tile,
    tile_op,
    unpack_tile,
)


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
        dest: a tensor of the result's type, squeezed, to write into.
        lo, hi: the part of the parallel axis to compute.
        arguments: the tensors, squeezed, to use for the function's arguments.
    """
    border = Border.of(result)
    tiler = Tiler(arguments, HANDLERS, schedule.row_chunk)
    loops = _Loops(schedule, border.inner, [_value(result, stage.value) for stage in schedule.stages])

    def tile(scope: Tiler, region: Region, target: ir.Value) -> ir.Value:
        for piece in _vector_pieces(region, loops.vector, schedule.row_chunk):
            place = border.place(piece)
            computed = scope.compute(border.inner, piece, extract(target, place).value)
            target = store(computed.value, target, place)
        return target

    loops.stage(0, tiler)
    leading = schedule.splits[: schedule.parallel]
    filled = border.fill(dest, lo)
    return _parallel(leading, lo, hi, filled, loops, lambda target: loops.inner(schedule.parallel, tiler, target, tile))


def _value(result: ir.Value, number: int) -> ir.Value:
    """A value of the kernel's function by its number."""
    owner = defining_op(result)
    assert owner is not None
    block = owner.block
    return block.arguments[~number] if number < 0 else list(block.operations)[number].operation.results[0]


Body = Callable[[Tiler, Region, ir.Value], ir.Value]


class _Loops:
    """The loops around tiles of one value, and what is computed ahead inside of them."""

    def __init__(self, schedule: Schedule, value: ir.Value, staged: Sequence[ir.Value] = ()) -> None:
        self.schedule, self.staged = schedule, staged
        shape = shape_of(value)
        self.vector = vector_axis(shape)
        self.value = value
        self.region = list(full_region(shape))  # the part that the loops so far have chosen
        # Whether the last tile of a row may begin in the one before, and computes that part twice. One of the kernel's
        # result may where the schedule says so: it may lie over an operand, read as its tile is written (may_repeat).
        self.overlap = False

    def inner(self, depth: int, tiler: Tiler, target: ir.Value, body: Body) -> ir.Value:
        """The loops from ``depth`` on, around ``body``."""
        scope = tiler.scope()
        if depth:
            self.stage(depth, scope)
        if depth == len(self.schedule.splits):
            return body(scope, tuple(self.region), target)
        split = self.schedule.splits[depth]

        def step(offset: Linear, size: int, value: ir.Value) -> ir.Value:
            self.region[split.axis] = Interval(around.offset + offset, size)
            made = self.inner(depth + 1, scope, value, body)
            self.region[split.axis] = around
            return made

        around = self.region[split.axis]
        rest = around.size % split.tile
        overlap = self.schedule.overlap or (self.overlap and split.axis == self.vector)
        if overlap and rest and around.size > split.tile:
            whole = chunked(around.size - rest, split.tile, target, step)
            return step(Linear(around.size - split.tile), split.tile, whole)
        if split.axis == self.vector:
            return chunked(around.size, split.tile, target, step)
        whole = chunked(around.size - rest, split.tile, target, step)
        return step(Linear(around.size - rest), rest, whole) if rest else whole

    def stage(self, depth: int, tiler: Tiler) -> None:
        """Compute ahead, into buffers, what the schedule wants at this depth."""
        for stage, value in zip(self.schedule.stages, self.staged, strict=True):
            if stage.depth == depth:
                part = needed(self.value, tuple(self.region), value)
                tiler.share(value, part, _computed(stage, value, part, tiler))


def _computed(stage: Stage, value: ir.Value, part: Region, tiler: Tiler) -> ir.Value:
    """A part of a value in a buffer of its own, tile by tile."""
    loops = _Loops(Schedule(stage.splits, 0), value)
    loops.region, loops.overlap = list(part), not _reads_blocks(value)

    def tile(scope: Tiler, region: Region, target: ir.Value) -> ir.Value:
        for piece in _vector_pieces(region, loops.vector, stage.row_chunk):
            place = tuple(relative(piece, part)[d] for d in kept_dims(part))
            into = extract(target, place).value
            made = scope.compute(value, piece, into)
            target = insert(copied(made, into) if _is_read(value) else made.value, target, place)
        return target

    scope = tiler.scope()
    scope.row_chunk = stage.row_chunk
    return loops.inner(0, scope, fresh(value, part), tile)


def _is_read(value: ir.Value) -> bool:
    """Whether the value lies in memory already: an argument, or a slice of one."""
    op = defining_op(value)
    return op is None or op.name == "tensor.extract_slice"


def _reads_blocks(value: ir.Value) -> bool:
    """Whether a packed weight makes the value: its tiles begin where blocks do."""
    op = defining_op(value)
    sources = [defining_op(operand) for operand in op.operands] if op is not None else []
    return any(source is not None and source.name == "linalg.unpack" for source in sources)


def _parallel(
    splits: Sequence[Split],
    lo: ir.Value,
    hi: ir.Value,
    dest: ir.Value,
    loops: _Loops,
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
            loops.region[split.axis] = Interval(start, split.tile)
        scf.YieldOp([body(loop.inner_iter_args[0])])
    if not rest:
        return loop.results[0]
    last = arith.cmpi(arith.CmpIPredicate.ugt, hi, index_constant(steps))
    branch = scf.IfOp(last, [dest.type], has_else=True)
    with ir.InsertionPoint(branch.then_block):
        size = splits[0].tile if loops.schedule.overlap and splits[0].whole else rest
        loops.region[splits[0].axis] = Interval(Linear(splits[0].extent - size), size)
        scf.YieldOp([body(loop.results[0])])
    assert branch.else_block is not None
    with ir.InsertionPoint(branch.else_block):
        scf.YieldOp([loop.results[0]])
    return branch.results[0]


def _vector_pieces(region: Region, vector: int, row_chunk: int) -> list[Region]:
    """A tile whose vector axis is no power of two long, in pieces that are; a whole row stays whole.

    A piece one element wide is taken apart into its elements: as a column it would be a transposed vector.
    """
    if not region or row_chunk:
        return [region]
    pieces, start = [], region[vector].offset
    for size in powers_of_two(region[vector].size):
        part = (*region[:vector], Interval(start, size), *region[vector + 1 :])
        pieces += [part] if size > 1 else _single_elements(part)
        start = start + Linear(size)
    return pieces


def _single_elements(region: Region) -> list[Region]:
    choices = [[Interval(i.offset + Linear(n), 1) for n in range(i.size)] for i in region]
    return list(itertools.product(*choices))


def _generic(tiler: Tiler, op: ir.Operation, region: Region, dest: ir.Value | None) -> Tile:
    if len(op.results) != 1:
        raise NotSchedulable("an op with more than one result")
    if "reduction" in iterator_types(op):
        if isinstance(kind := classify(op), Transform):
            return transform_tile(tiler, op, kind, region, dest)
        return compute_reduction(tiler, op, region, dest)
    if reads_at_indices(op):
        return gather_tile(tiler, op, region, dest)
    loops = loop_intervals(op, region)
    longest = max((interval.size for interval in region), default=1)
    whole = longest <= tiler.row_chunk and longest & (longest - 1) == 0  # in one power of two
    if tiler.row_chunk and not whole and len(kept_dims(region)) == 1:
        return compute_row(tiler, op, region, dest)
    return tile_op(tiler, op, loops, region, dest)


HANDLERS = {
    "arith.constant": constant_tile,
    "linalg.fill": fill_tile,
    "tensor.empty": empty_tile,
    "tensor.extract_slice": slice_tile,
    "linalg.unpack": unpack_tile,
    "linalg.generic": _generic,
}
