"""A schedule as a value: the loops of a kernel, made from plain ones by primitives, without IR.

It is decided in data (by a family, or by hand), can be printed, compared, hashed, written down (``notation.py``),
and is carried out by ``nest.py`` (the loops around tiles) and ``vectorize.py`` (what is in a tile).
"""

from __future__ import annotations

import functools
import inspect
import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Concatenate, ParamSpec

from ...ir.matrix_registers import ROWS
from . import checks
from .checks import refuse
from .loopnest import ARGUMENT, INTRINSICS, MAX_PHASES, MAX_TILE, Block, KernelValue, Loop, Nest, Part
from .notation import Step, join_names, loop_text, read_schedule, values_to_json

P = ParamSpec("P")
Primitive = Callable[Concatenate["Schedule", P], "Schedule"]
PRIMITIVES: dict[str, Callable[..., Schedule]] = {}


def primitive(method: Primitive[P]) -> Primitive[P]:
    """A method of Schedule that notes its name and arguments in ``steps``."""
    signature, name = inspect.signature(method), method.__name__

    @functools.wraps(method)
    def applied(self: Schedule, *args: P.args, **kwargs: P.kwargs) -> Schedule:
        step = (name, *signature.bind(self, *args, **kwargs).args[1:])
        return replace(method(self, *args, **kwargs), steps=(*self.steps, step))

    PRIMITIVES[name] = applied
    return applied


@dataclass(frozen=True)
class Schedule:
    """The loops of a kernel.

    Each primitive is a method that gives a new schedule, and raises ScheduleError, naming the loop, where it does not
    apply. Loops are called by their names: an axis (``n``), a part of one (``n.0``), several joined (``b*n.0``).

    values: what the kernel computes and reads, the result first.
    result: its loops. stages: those of what is computed or copied ahead, in program order.
    steps: the primitives that made it from ``start``.
    """

    values: tuple[KernelValue, ...]
    result: Nest
    stages: tuple[Nest, ...] = ()
    steps: tuple[Step, ...] = field(default=(), compare=False)

    @staticmethod
    def start(values: Iterable[KernelValue]) -> Schedule:
        """Plain loops over single elements of the first of the values, the kernel's result."""
        known = tuple(values)
        return Schedule(known, Nest.start(known[0]))

    @property
    def extent(self) -> int:
        """Steps of the parallel axis."""
        return self.result.parallel.steps if self.result.parallel else 1

    def nest(self, value: str) -> Nest:
        """The loops of the result or of what is staged."""
        return next(nest for nest in (self.result, *self.stages) if nest.value.name == value)

    def check(self) -> None:
        """Raise ScheduleError unless all of it can be built as it is written."""
        for nest in (self.result, *self.stages):
            nest.check()

    def __str__(self) -> str:
        return loop_text(self.result, self.stages)

    def to_json(self) -> dict[str, Any]:
        """The values and the steps, as what ``json.dumps`` takes and ``from_json`` reads."""
        return {"values": values_to_json(self.values), "steps": [list(step) for step in self.steps]}

    @staticmethod
    def from_json(data: Mapping[str, Any] | str) -> Schedule:
        """Apply the steps of ``to_json``, or of its text. Raises ScheduleError for what is none of that."""
        return read_schedule(data, Schedule.start, PRIMITIVES)

    # ---- loops

    @primitive
    def split(self, loop: str, factor: int) -> Schedule:
        """``for n in 768 x 1`` -> ``for n.0 in 24 x 32: for n.1 in 32 x 1``; the last step may be smaller."""
        nest, found = self._plain(loop, "split")
        if nest.value.is_sum(found.axis) and found.axis != nest.value.row:
            refuse(f"cannot split '{loop}': it is summed up in order; unroll('{loop}', 4) takes 4 steps at once")
        if found.axis == nest.value.row and loop != found.axis:
            refuse(f"cannot split '{loop}': rows go in steps of one size; split '{found.axis}' once")
        self._without_stage(loop, "split")
        part, *more = found.parts
        if more:
            refuse(f"cannot split '{loop}': split its parts before they are fused")
        checks.count(factor, 2, part.steps, f"split '{loop}' by", f"of '{loop}'")
        inner = Part(f"{loop}.1", part.axis, factor * part.step, part.step)
        outer = Part(f"{loop}.0", part.axis, part.extent, inner.size)
        return self._with(nest, nest.exchange((found,), (Loop((outer,)), Loop((inner,)))))

    @primitive
    def tile(self, rows: str, row_factor: int, columns: str, column_factor: int) -> Schedule:
        """``for m: for n: for k`` -> ``for m.0: for n.0: for k: for m.1: for n.1``: the inner parts go innermost."""
        if rows == columns:
            refuse(f"cannot tile '{rows}' twice: name two axes")
        made = self.split(rows, row_factor).split(columns, column_factor)
        inner = (f"{rows}.1", f"{columns}.1")
        nest, _ = made._find(inner[0])
        return made.reorder(*(loop.name for loop in nest.loops if loop.name not in inner), *inner)

    @primitive
    def reorder(self, *loops: str) -> Schedule:
        """``for m: for n: for k`` with ``reorder("k", "m")`` -> ``for k: for n: for m``: they change places."""
        for loop in loops:
            if loops.count(loop) > 1:
                refuse(f"cannot reorder: '{loop}' is named twice")
        found = [self._find(loop) for loop in loops]
        if not found:
            refuse("cannot reorder nothing: name the loops in their new order")
        nest = found[0][0]
        if any(other is not nest for other, _ in found):
            refuse(f"cannot reorder {join_names(loops)}: they are loops of different values")
        order = iter(loop for _, loop in found)
        made = tuple(next(order) if loop.name in loops else loop for loop in nest.loops)
        checks.order(nest, made)
        return self._with(nest, made)

    @primitive
    def fuse(self, *loops: str) -> Schedule:
        """``for b in 12 x 1: for n.0 in 24 x 32`` -> ``for b*n.0 in 12 x 1, 24 x 32``: one loop of 288 steps."""
        found = [self._plain(loop, "fuse") for loop in loops]
        if len(found) < 2:
            refuse("cannot fuse one loop: name two or more neighbours, outermost first")
        nest, joined = found[0][0], [loop for _, loop in found]
        if nest is not self.result:
            refuse(f"cannot fuse {join_names(loops)}: how far '{nest.value.name}' is computed depends on its place")
        checks.joinable(nest, joined)
        for loop in joined:
            self._without_stage(loop.name, "fuse")
        parts = tuple(part for loop in joined for part in loop.parts)
        return self._with(nest, nest.exchange(joined, (Loop(parts),)))

    @primitive
    def parallel(self, loop: str) -> Schedule:
        """``for m.0 in 9 x 14`` -> ``parallel m.0 in 9 x 14``: threads share its steps."""
        nest, found = self._plain(loop, "parallelize")
        if nest is not self.result:
            refuse(f"cannot parallelize '{loop}': '{nest.value.name}' is computed by each thread for itself")
        if nest.value.is_sum(found.axis) or found.axis == nest.value.row:
            refuse(f"cannot parallelize '{loop}': its steps depend on each other; loops over the result can")
        if nest.parallel:
            refuse(f"cannot parallelize '{loop}': '{nest.parallel.name}' is parallel; fuse them before")
        if nest.loops[0] is not found:
            first = nest.loops[0].name
            refuse(f"cannot parallelize '{loop}': '{first}' is outside of it; reorder('{loop}', '{first}') before")
        return self._mark_loop(nest, found, replace(found, kind="parallel"))

    @primitive
    def vectorize(self, loop: str) -> Schedule:
        """``for n.1 in 32 x 1`` -> ``tile n.1``: the elements lie in the lanes of vectors."""
        nest, found = self._plain(loop, "vectorize")
        lies = (nest.value.contiguous, nest.value.row)
        if found.axis not in lies:
            refuse(f"cannot vectorize '{loop}': the axis that lies contiguous is '{nest.value.row or lies[0]}'")
        checks.whole(nest, found, "vectorize")
        if nest.loops[-1] is not found:
            last = nest.loops[-1].name
            refuse(f"cannot vectorize '{loop}': '{last}' is inside of it; reorder('{last}', '{loop}') before")
        return self._mark_loop(nest, found, replace(found, kind="vectorize"))

    @primitive
    def unroll(self, loop: str, factor: int = 0, apart: bool = False) -> Schedule:
        """``for m.1 in 14 x 1`` -> ``tile m.1``; ``for k in 768 x 1``, with 4 -> ``for k in 768 x 1, 4 at once``.

        Steps of a sum that are ``apart`` are one of each of ``factor`` parts: 0, 192, 384 and 576, then 1, 193, ...
        """
        nest, found = self._plain(loop, "unroll")
        if not isinstance(apart, bool):
            refuse(f"cannot unroll '{loop}' apart: {apart!r}: say true or false")
        if nest.value.is_sum(found.axis) or found.axis == nest.value.row:
            checks.at_once(nest, found, factor)
            if apart and found.axis == nest.value.row:
                refuse(f"cannot unroll '{loop}' apart: rows are read in order")
            return self._mark_loop(nest, found, replace(found, factor=factor, kind="unroll", apart=apart))
        if apart:
            refuse(f"cannot unroll '{loop}' apart: only steps of a sum can be")
        if factor:
            refuse(f"cannot unroll '{loop}' by {factor}: it is unrolled whole; split('{loop}', {factor}) before")
        if found.axis == nest.value.contiguous:
            refuse(f"cannot unroll '{loop}': it lies contiguous; vectorize('{loop}')")
        checks.whole(nest, found, "unroll")
        summed = [each.name for each in nest.loops[nest.loops.index(found) :] if nest.value.is_sum(each.axis)]
        if summed:
            refuse(f"cannot unroll '{loop}': the sum over '{summed[-1]}' is inside of it; reorder it outside before")
        return self._mark_loop(nest, found, replace(found, kind="unroll"))

    @primitive
    def overlap(self, loop: str) -> Schedule:
        """``for n.0 in 3 x 32 + 5`` -> ``for n.0 in 3 x 32 + 5, overlapping``: the last step takes the last 32."""
        nest, found = self._find(loop)
        checks.overlaps(nest, found)
        return self._with(nest, nest.exchange((found,), (replace(found, overlap=True),)))

    # ---- what is computed ahead, and with what

    @primitive
    def cache_read(self, value: str, at: str = "", phases: int = 1) -> Schedule:
        """``for m.0: ...`` -> ``stage %arg0: for %arg0.d0 ...; for m.0: ...``: an argument, or a slice, is copied.

        In two ``phases`` each row is two: of every second element, and of the others.
        """
        checks.count(phases, 1, MAX_PHASES, f"copy rows of '{value}' in phases:", "that a window may step by")
        made = self._stage_value(value, at, read=True)
        return made._exchange_nest(made.nest(value), replace(made.nest(value), phases=phases)) if phases > 1 else made

    @primitive
    def cache_split(self, value: str, at: str = "", rows: int = 0) -> Schedule:
        """``for m.0: ...`` -> ``for m.0: stage %arg0 in parts``: an operand is copied in parts of bfloat16.

        Each float32 of a sum of products is the sum of three such parts. They lie in matrices of so many ``rows``; of
        a right operand (0), of 16 columns. Both operands have to be copied so.
        """
        checks.count(rows, 0, ROWS, f"split '{value}' into matrices of rows:", "that registers have")
        made = self._stage_value(value, at, read=True)
        nest = made.nest(value)
        return made._exchange_nest(nest, replace(nest, loops=(), splits=True, matrix_rows=rows))

    @primitive
    def cache_write(self, value: str, at: str = "") -> Schedule:
        """``for m.0: ...`` -> ``for m.0: stage %5: for %5.m ...; ...``: what op 5 computes goes into a buffer there."""
        return self._stage_value(value, at, read=False)

    @primitive
    def compute_at(self, value: str, at: str = "") -> Schedule:
        """``stage %5: ...; for m.0`` -> ``for m.0: stage %5: ...``: a stage moves into a loop, "" out of all."""
        staged = [nest for nest in self.stages if nest.value.name == value]
        if not staged:
            names = join_names(nest.value.name for nest in self.stages)
            refuse(f"there is no stage '{value}' to be computed elsewhere; stages: {names}")
        self._place(at)
        stages = tuple(replace(n, at=at) if n is staged[0] else n for n in self.stages)
        return replace(self, stages=stages)

    @primitive
    def pack(self, argument: int, axis: str, block: int) -> Schedule:
        """``tile m.1 x n.1`` -> ``tile m.1 x n.1: pack %arg1 in blocks of 32 along n``: its layout is relied on."""
        wanted = Block(argument, axis, block)
        for nest in (self.result, *self.stages):
            if wanted in nest.value.packed:
                return self._exchange_nest(nest, replace(nest, packs=(*nest.packs, wanted)))
        there = join_names(str(packed) for nest in (self.result, *self.stages) for packed in nest.value.packed)
        refuse(f"cannot pack {ARGUMENT}{argument} in blocks of {block} along '{axis}'; packed are: {there}")

    @primitive
    def tensorize(self, loop: str, intrinsic: str) -> Schedule:
        """``tile m.1 x n.1`` -> ``tile m.1 x n.1: tensorize outer_product``: what the op becomes, from ``loop`` in."""
        nest, found = self._find(loop)
        if intrinsic not in tuple(INTRINSICS):
            refuse(f"cannot tensorize '{loop}' with '{intrinsic}'; there are {join_names(INTRINSICS)}")
        if intrinsic != nest.value.intrinsic:
            what = nest.value.intrinsic or "nothing as a whole"
            refuse(f"cannot tensorize '{loop}' with '{intrinsic}': {nest.value.name} can become {what}")
        if nest.tile[:1] != (found,) or (intrinsic == "outer_product" and len(nest.tile) < 2):
            refuse(
                f"cannot tensorize '{loop}': name the first loop of a tile of rows and columns; the tile is"
                f" {join_names(each.name for each in nest.tile)}"
            )
        return self._exchange_nest(nest, replace(nest, intrinsic=intrinsic))

    # ---- how they find and change loops

    def _find(self, name: str) -> tuple[Nest, Loop]:
        for nest in (self.result, *self.stages):
            for loop in nest.loops:
                if loop.name == name:
                    return nest, loop
        names = [loop.name for nest in (self.result, *self.stages) for loop in nest.loops]
        refuse(f"there is no loop '{name}'; there are {join_names(names)}")

    def _plain(self, name: str, verb: str) -> tuple[Nest, Loop]:
        nest, loop = self._find(name)
        if loop.kind != "for" or loop.overlap:
            refuse(f"cannot {verb} '{name}': it is marked {'overlapping' if loop.overlap else loop.kind} already")
        return nest, loop

    def _with(self, nest: Nest, loops: tuple[Loop, ...]) -> Schedule:
        return self._exchange_nest(nest, replace(nest, loops=loops))

    def _mark_loop(self, nest: Nest, loop: Loop, made: Loop) -> Schedule:
        changed = self._with(nest, nest.exchange((loop,), (made,)))
        tile = changed._find(loop.name)[0].tile
        if math.prod(each.steps for each in tile) > MAX_TILE:
            refuse(f"cannot {made.kind} '{loop.name}': the tile would have more than {MAX_TILE} elements; split it")
        return changed

    def _exchange_nest(self, nest: Nest, made: Nest) -> Schedule:
        if nest is self.result:
            return replace(self, result=made)
        return replace(self, stages=tuple(made if other is nest else other for other in self.stages))

    def _without_stage(self, loop: str, verb: str) -> None:
        for nest in self.stages:
            if nest.at == loop:
                refuse(f"cannot {verb} '{loop}': '{nest.value.name}' is computed at it; {verb} before it is staged")

    def _place(self, at: str) -> None:
        names = [loop.name for loop in self.result.outer]
        if at not in ("", *names):
            refuse(f"cannot compute at '{at}': the loops around tiles are {join_names(names)}")

    def _stage_value(self, name: str, at: str, read: bool) -> Schedule:
        if any(nest.value.name == name for nest in self.stages):
            refuse(f"'{name}' is staged already; compute_at('{name}', ...) moves it")
        value = checks.stageable(self.values, name, read)
        self._place(at)
        stages = sorted((*self.stages, Nest.start(value, at)), key=lambda nest: self.values.index(nest.value))
        return replace(self, stages=tuple(stages))
