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
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from ....core.target import Target
from ....dialects import arith, ir, scf, vector
from ....dialects.builders import element_of, index_constant
from ....dialects.loops import branch
from ....dialects.walk import defining_op, integer_of
from ...analysis.classify import classify_op
from ...analysis.kinds import Transform
from ...ir.structure import iterator_types, shape_of
from ..language.loopnest import RESULT, Loop, Nest, Part
from ..language.schedule import Schedule
from ..tiles.axes import vector_axis
from ..tiles.lanes import find_vector_axis
from ..tiles.loops import for_each_chunk, powers_of_two
from ..tiles.regions import (
    Interval,
    Linear,
    NotSchedulable,
    Region,
    full_region,
    kept_dims,
    relative_to,
)
from ..tiles.structured import (
    Tile,
    copy_part,
    copy_tile,
    extract,
    insert,
    make_empty,
    read_vector,
    store,
    write_vector,
)
from .border import Border, place_in_phases
from .forms import TileForm
from .gather import gather_tile, reads_at_indices
from .heavy_tiles import is_heavy, tile_by_rows
from .linear_transform import transform_tile
from .padded_rows import copy_padded_rows
from .pool_windows import Bounds
from .reduction import compute_blocks_ahead, compute_matrices_ahead, compute_reduction
from .rows import compute_row, in_chunks
from .rows_across import compute_across, goes_across, write_across
from .split_products import split_operand
from .tiler import (
    Form,
    StoreTile,
    Tiler,
    constant_tile,
    empty_tile,
    fill_tile,
    loop_intervals,
    needed_region,
    slice_tile,
    tile_op,
    unpack_tile,
)
from .values import value_called
from .wide_rows import find_wide_row, widen_row

# Rows of a tile in memory that one step of a loop takes.
_ROWS_AT_ONCE = 4


def build_nest(
    schedule: Schedule,
    result: ir.Value,
    dest: ir.Value,
    lo: ir.Value,
    hi: ir.Value,
    arguments: dict[ir.Value, ir.Value],
    target: Target,
    lengths: Mapping[int, ir.Value] | None = None,
    clipped: Mapping[int, Bounds] | None = None,
    phases: Mapping[ir.Value, int] | None = None,
    store_tile: StoreTile | None = None,
) -> ir.Value:
    """Emit the loops at the insertion point; returns the tensor that ``dest`` has become.

    Args:
        result: the value that the whole-tensor function returns; its producers are cloned tile by tile.
        dest: a tensor of the result's type, squeezed, to write into.
        lo, hi: the part of the parallel axis to compute.
        arguments: the tensors, squeezed, to use for the function's arguments.
        target: has the instruction for sums of products of bytes, and vectors of some length.
        lengths: how far the loops of the result's sums go, where that differs from the extents of the function.
        clipped: their first steps and the ends of these, where others are left out.
        phases: the arguments that are given in rows of every so many elements (``Tile``), with that number.
        store_tile: what stores the result's tiles, of which ``dest`` then has none.
    """
    border = Border.of(result)
    owner = defining_op(result)
    assert owner is not None  # a kernel computes its result
    if any(stage.splits for stage in schedule.stages) and not target.multiplies_matrices(16):
        raise NotSchedulable("the CPU has no registers of matrices of bfloat16 (AMX), which split operands are for")
    staged = [(stage, value_called(stage.value.name, owner.block)) for stage in schedule.stages]
    overwritten = [argument for argument, value in arguments.items() if value == dest]
    form = TileForm.of(schedule.result).apply(border.inner, RESULT, target.lanes, target)
    wide = find_wide_row(schedule.result, border.inner, [value for stage, value in staged if stage.value.read])
    form = replace(form, lengths=lengths or {}, clipped=clipped or {}, wide=wide, masked=target.stores_by_masks)
    form = replace(form, store=store_tile)
    tiler = Tiler(arguments, HANDLERS, form, overwritten=overwritten)
    for argument, count in (phases or {}).items():
        whole = full_region(shape_of(argument))
        tiler.share(argument, whole, Tile(arguments[argument], kept_dims(whole), count))
    loops = _Loops(schedule.result, border.inner, staged)

    def tile(scope: Tiler, region: Region, dest: ir.Value) -> ir.Value:
        return write_tile(scope, border.inner, region, dest, border.place)

    loops.stage("", tiler)
    parallel = schedule.result.parallel
    filled = border.fill(dest, (lo, hi), parallel.steps if parallel else 0, arguments)
    depth = 1 if parallel else 0
    return loops.loop_over_joined(parallel, (lo, hi), filled, lambda dest: loops.inner(depth, tiler, dest, tile))


def write_tile(
    scope: Tiler, value: ir.Value, region: Region, dest: ir.Value, place: Callable[[Region], Region]
) -> ir.Value:
    """Compute a region of a kernel's result into ``dest``, in which a part of it lies at its ``place``."""
    if scope.form.across:
        return write_across(scope, value, region, dest, place)
    if scope.form.store is not None:
        scope.form.store(region, read_vector(scope.compute(value, region).value))
        return dest
    vector = find_vector_axis(value, scope.form.anchor)
    if compute_matrices_ahead(scope, value, region):
        return _write_by_rows(scope, value, region, vector, dest, place)
    if scope.form.wide:
        computed = scope.compute(value, widen_row(region, vector, scope.form.wide))
        if scope.form.masked:
            made = write_vector(read_vector(computed.value), extract(dest, place(region)).value)
            return store(made, dest, place(region))
    pieces = _vector_pieces(region, vector, scope.form)
    if len(pieces) > 1:
        compute_blocks_ahead(scope, value, region)
    return _write_pieces(scope, value, pieces, dest, place)


def _write_pieces(
    scope: Tiler, value: ir.Value, pieces: Sequence[Region], dest: ir.Value, place: Callable[[Region], Region]
) -> ir.Value:
    for piece in pieces:
        into = extract(dest, place(piece)).value
        computed = scope.compute(value, piece, into)
        dest = store(copy_part(computed, into), dest, place(piece))
    return dest


def _write_by_rows(
    tiler: Tiler,
    value: ir.Value,
    region: Region,
    vector: int,
    dest: ir.Value,
    place: Callable[[Region], Region],
) -> ir.Value:
    """Compute a tile a few rows at a time, in loops, of sums that are in memory."""
    axes = [axis for axis, interval in enumerate(region) if interval.size > 1 and axis != vector]

    def walk(deeper: Sequence[int], part: Region, made: ir.Value) -> ir.Value:
        if not deeper:
            return _write_pieces(tiler.scope(), value, _vector_pieces(part, vector, tiler.form), made, place)
        axis, *others = deeper
        rows = 1 if others else _ROWS_AT_ONCE

        def step(offset: Linear, size: int, made: ir.Value) -> ir.Value:
            taken = Interval(part[axis].offset + offset, size)
            return walk(others, (*part[:axis], taken, *part[axis + 1 :]), made)

        return for_each_chunk(part[axis].size, rows, made, step)

    return walk(axes, region, dest)


TileBody = Callable[[Tiler, Region, ir.Value], ir.Value]
Range = tuple[ir.Value, ir.Value]


class _Loops:
    """The loops around tiles of one value, and what is computed ahead inside of them."""

    def __init__(self, nest: Nest, value: ir.Value, staged: Sequence[tuple[Nest, ir.Value]] = ()) -> None:
        self.outer, self.staged = nest.outer, staged
        shape = shape_of(value)
        self.axes = {axis.name: i for i, axis in enumerate(nest.value.axes)}
        self.vector = vector_axis(shape)
        self.value = value
        self.region = list(full_region(shape))  # the part that the loops so far have chosen
        # Whether the last tile of a row may begin in the one before, and computes that part twice. One of the kernel's
        # result may where the schedule says so: it may lie over an operand, read as its tile is written (may_repeat).
        self.overlap = False

    def inner(self, depth: int, tiler: Tiler, target: ir.Value, body: TileBody) -> ir.Value:
        """The loops from ``depth`` on, around ``body``."""
        scope = tiler.scope()
        if depth:
            self.stage(self.outer[depth - 1].name, scope)
        if depth == len(self.outer):
            return body(scope, tuple(self.region), target)
        loop = self.outer[depth]
        part, *more = loop.parts
        if more:
            whole = (index_constant(0), index_constant(loop.steps))
            return self.loop_over_joined(loop, whole, target, lambda value: self.inner(depth + 1, scope, value, body))
        overlap = loop.overlap or (self.overlap and self.axes[part.axis] == self.vector)
        return self._loop_over_part(part, overlap, target, lambda value: self.inner(depth + 1, scope, value, body))

    def _loop_over_part(
        self, part: Part, overlap: bool, target: ir.Value, body: Callable[[ir.Value], ir.Value]
    ) -> ir.Value:
        """A loop over all steps of a part, the last of which may be smaller, or overlap the one before."""
        axis = self.axes[part.axis]
        around = self.region[axis]

        def step(offset: Linear, size: int, value: ir.Value) -> ir.Value:
            self.region[axis] = Interval(around.offset + offset, size)
            made = body(value)
            self.region[axis] = around
            return made

        rest = around.size % part.step
        whole = for_each_chunk(around.size - rest, part.step, target, step)
        last = part.step if overlap and around.size > part.step else rest
        return step(Linear(around.size - last), last, whole) if rest else whole

    def loop_over_joined(
        self, joined: Loop | None, steps: Range, dest: ir.Value, body: Callable[[ir.Value], ir.Value]
    ) -> ir.Value:
        """One loop over a range of the steps of several parts; one behind it if the outermost's last step is smaller.

        All steps of several parts are a loop each: nothing is divided to tell where a step is.
        """
        parts = list(joined.parts) if joined else []
        if joined and len(parts) > 1 and tuple(map(integer_of, steps)) == (0, joined.steps):
            return self._loop_over_parts(joined, parts, dest, body)
        if joined is None or not parts[0].rest:
            return self._loop_over_range(parts, Linear(), steps, dest, body)
        (lo, hi), first, inner = steps, parts[0], parts[1:]
        count = first.size // first.step
        whole = index_constant(count * math.prod(part.steps for part in inner))
        size = first.step if joined.overlap and count else first.rest
        before, after = (lo, arith.minui(hi, whole)), (arith.maxui(lo, whole), hi)
        most = replace(first, extent=count * first.step)
        made = self._loop_over_range([most, *inner], Linear(), before, dest, body)
        last, begin = replace(first, extent=size, step=size), Linear(first.size - size)
        if inner:
            return self._loop_over_range([last, *inner], begin, after, made, body)
        # Of a loop all that is computed could go before it, and each call would compute it: its place is a number.
        some = arith.cmpi(arith.CmpIPredicate.ult, *after)
        return branch(some, dest.type, lambda: self._take_steps([(last, begin, hi)], made, body), lambda: made)

    def _loop_over_range(
        self,
        parts: Sequence[Part],
        begin: Linear,
        steps: Range,
        dest: ir.Value,
        body: Callable[[ir.Value], ir.Value],
    ) -> ir.Value:
        """One loop over a range of steps; those of the outermost part are whole, and begin at ``begin``."""
        loop = scf.ForOp(*steps, index_constant(1), [dest])
        with ir.InsertionPoint(loop.body):
            position, chosen = loop.induction_variable, []
            for part in reversed(parts[1:]):
                chosen.append((part, Linear(), arith.remui(position, index_constant(part.steps))))
                position = arith.divui(position, index_constant(part.steps))
            chosen += [(part, begin, position) for part in parts[:1]]
            scf.YieldOp([self._take_steps(chosen[::-1], loop.inner_iter_args[0], body)])
        return loop.results[0]

    def _take_steps(
        self,
        chosen: Sequence[tuple[Part, Linear, ir.Value]],
        target: ir.Value,
        body: Callable[[ir.Value], ir.Value],
    ) -> ir.Value:
        """What ``body`` makes in one step of each part (where these begin, and its number); a smaller one is a case."""
        if not chosen:
            return body(target)
        (part, begin, number), *more = chosen
        axis = self.axes[part.axis]
        around = self.region[axis]

        def take(start: Linear, size: int) -> ir.Value:
            self.region[axis] = Interval(around.offset + begin + start, size)
            made = self._take_steps(more, target, body)
            self.region[axis] = around
            return made

        start = Linear(0, ((number, part.step),)) if part.size > part.step else Linear()
        if not part.rest:
            return take(start, part.step)
        last = arith.cmpi(arith.CmpIPredicate.eq, number, index_constant(part.steps - 1))
        rest = Linear(part.size - part.rest)
        return branch(last, target.type, lambda: take(rest, part.rest), lambda: take(start, part.step))

    def _loop_over_parts(
        self, joined: Loop, parts: Sequence[Part], dest: ir.Value, body: Callable[[ir.Value], ir.Value]
    ) -> ir.Value:
        """Loops over all steps of the parts, the first outermost."""
        if not parts:
            return body(dest)
        part, *inner = parts
        return self._loop_over_part(
            part, joined.overlap, dest, lambda value: self._loop_over_parts(joined, inner, value, body)
        )

    def stage(self, at: str, tiler: Tiler) -> None:
        """Compute ahead, into buffers, what the schedule wants inside of a loop."""
        for stage, value in self.staged:
            if stage.at == at and stage.splits:
                value = _find_operand(value)
                tiler.split[value] = split_operand(tiler, value, self.value, tuple(self.region), stage.matrix_rows)
            elif stage.at == at:
                part = needed_region(self.value, widen_row(self.region, self.vector, tiler.form.wide), value)
                tiler.share(value, part, _compute(stage, value, part, tiler))


def _compute(nest: Nest, value: ir.Value, part: Region, tiler: Tiler) -> Tile:
    """A part of a value in a buffer of its own, tile by tile; of a padded value, with the border around them."""
    border, dims, phases = Border.of(value), kept_dims(part), nest.phases
    loops = _Loops(nest, border.inner)
    if phases > 1 and dims[-1:] != (loops.vector,):
        raise NotSchedulable("a copy in phases of which one element of each row is needed")
    if nest.value.read and (rows := copy_padded_rows(tiler, border, part, phases)) is not None:
        return rows
    loops.region, loops.overlap = list(border.find_inside(part)), not _reads_blocks(value)

    def tile(scope: Tiler, region: Region, target: ir.Value) -> ir.Value:
        for piece in _split_few(_vector_pieces(region, loops.vector, scope.form), loops.vector, phases):
            places = place_in_phases(relative_to(border.move(piece), part), dims, phases)
            if len(places) > 1:
                rows = vector.deinterleave(read_vector(scope.compute(border.inner, piece).value))
                for row, place in zip(rows, places, strict=True):
                    target = insert(write_vector(row, extract(target, place).value), target, place)
                continue
            into = extract(target, places[0]).value
            made = scope.compute(border.inner, piece, into)
            target = insert(copy_tile(made, into) if nest.value.read else made.value, target, places[0])
        return target

    scope = tiler.scope()
    form = TileForm.of(nest).apply(border.inner, nest.value.name, scope.form.lanes, scope.form.target)
    scope.form = replace(form, matrices=False)
    # The border comes after: before, it would be the same in all steps, made once, and copied for each of them.
    sizes = [part[d].size for d in dims]
    rows = [*sizes[:-1], phases, -(-sizes[-1] // phases)] if phases > 1 else sizes
    made = loops.inner(0, scope, make_empty(rows, element_of(value)), tile)
    return Tile(border.surround(made, part, phases), dims, phases)


def _find_operand(value: ir.Value) -> ir.Value:
    """What a packed weight makes, which is the operand; any other value is one itself."""
    users = [use.owner for use in value.uses]
    unpack = next((user for user in users if user.name == "linalg.unpack"), None)
    return unpack.operation.results[0] if unpack is not None else value


def _reads_blocks(value: ir.Value) -> bool:
    """Return whether a packed weight makes the value: its tiles begin where blocks do."""
    op = defining_op(value)
    sources = [defining_op(operand) for operand in op.operands] if op is not None else []
    return any(source is not None and source.name == "linalg.unpack" for source in sources)


def _vector_pieces(region: Region, vector: int, form: Form) -> list[Region]:
    """A tile whose vector axis is no power of two long, in pieces that are; a whole row stays whole.

    A piece one element wide is taken apart into its elements: as a column it would be a transposed vector. Sums of
    products of bytes are vectors in any case, and one row's would wait for each other.
    """
    if not region or form.row_chunk:
        return [region]
    pieces, start = [], region[vector].offset
    for size in powers_of_two(region[vector].size):
        part = (*region[:vector], Interval(start, size), *region[vector + 1 :])
        pieces += [part] if size > 1 or form.dot is not None else _single_elements(part)
        start = start + Linear(size)
    return pieces


def _split_few(pieces: Sequence[Region], vector: int, phases: int) -> list[Region]:
    """Pieces without those of which rows of each phase would have one element: these become single elements."""
    few = [phases > 1 and piece[vector].size <= phases for piece in pieces]
    parts = [_single_elements(piece) if alone else [piece] for piece, alone in zip(pieces, few, strict=True)]
    return list(itertools.chain.from_iterable(parts))


def _single_elements(region: Region) -> list[Region]:
    choices = [[Interval(i.offset + Linear(n), 1) for n in range(i.size)] for i in region]
    return list(itertools.product(*choices))


def _generic(tiler: Tiler, op: ir.Operation, region: Region, dest: ir.Value | None) -> Tile:
    if len(op.results) != 1:
        raise NotSchedulable("an op with more than one result")
    if "reduction" in iterator_types(op):
        if isinstance(kind := classify_op(op), Transform):
            return transform_tile(tiler, op, kind, region, dest)
        return compute_reduction(tiler, op, region, dest)
    if reads_at_indices(op):
        return gather_tile(tiler, op, region, dest)
    if in_chunks(tiler, region):
        return compute_row(tiler, op, region, dest)
    if goes_across(tiler, region):
        return compute_across(tiler, op, region)
    loops = loop_intervals(op, region)
    return (tile_by_rows if is_heavy(tiler, op, loops, region) else tile_op)(tiler, op, loops, region, dest)


HANDLERS = {
    "arith.constant": constant_tile,
    "linalg.fill": fill_tile,
    "tensor.empty": empty_tile,
    "tensor.extract_slice": slice_tile,
    "linalg.unpack": unpack_tile,
    "linalg.generic": _generic,
}
