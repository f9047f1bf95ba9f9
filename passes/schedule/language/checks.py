"""Checks of a schedule's primitives. Each error is one line: which loop, why, and what would work."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import NoReturn

from ....core.errors import ScheduleError
from .loopnest import RESULT, KernelValue, Loop, Nest, Part
from .notation import join_names

# The most steps of a sum at once: longer code no longer pays.
MAX_STEPS = 16


def refuse(problem: str) -> NoReturn:
    """Raise ScheduleError."""
    raise ScheduleError(problem)


def count(number: int, least: int, most: int, what: str, of: str) -> None:
    """Refuse what is no number from ``least`` to ``most``."""
    if not isinstance(number, int) or isinstance(number, bool) or not least <= number <= most:
        refuse(f"cannot {what} {number!r}: give a number from {least} to the {most} {of}")


def whole(nest: Nest, loop: Loop, verb: str) -> None:
    """Refuse to put into a tile what is no loop over single elements."""
    if not loop.whole:
        inside = [other.name for other in nest.loops if other.axis == loop.axis and other.whole]
        refuse(
            f"cannot {verb} '{loop.name}': it goes in steps, and a tile has single elements; see {join_names(inside)}"
        )


def at_once(nest: Nest, loop: Loop, factor: int) -> None:
    """Refuse to take several steps at once of what is not the innermost loop of a sum, or of a number that is none."""
    name = loop.name
    if nest.inner[-1:] != (loop,):
        refuse(f"cannot unroll '{name}': only the innermost loop of a sum can be, here '{nest.inner[-1].name}'")
    count(factor, 2, min(loop.steps, MAX_STEPS), f"take steps of '{name}' at once:", "that can be")
    if loop.steps % factor:
        refuse(f"cannot take {factor} steps of '{name}' at once: {loop.steps} steps do not divide by that")


def joinable(nest: Nest, loops: Sequence[Loop]) -> None:
    """Refuse to join loops that are no neighbours in this order, or not around tiles, or parts of one axis."""
    names, parts = [loop.name for loop in nest.loops], [part for loop in loops for part in loop.parts]
    for before, after in itertools.pairwise(loop.name for loop in loops):
        if after not in names[names.index(before) + 1 :][:1]:
            refuse(f"cannot fuse '{before}' and '{after}': they are not neighbours; the order is {join_names(names)}")
    for i, part in enumerate(parts):
        if nest.value.is_sum(part.axis) or part.axis == nest.value.row:
            refuse(f"cannot fuse '{part.name}': only loops around tiles can be joined")
        if part.axis in [other.axis for other in parts[:i]]:
            refuse(f"cannot fuse two parts of axis '{part.axis}': leave it unsplit")
    for part in parts:
        _divides(nest, part)


def _divides(nest: Nest, part: Part) -> None:
    """Refuse to join a part that lies in steps not all of which are whole."""
    for around in (p for other in nest.loops for p in other.parts if p.axis == part.axis and p.step >= part.step):
        if around.rest and around is not part:
            refuse(f"cannot fuse '{part.name}': '{around.name}' is {around}; a factor that divides would do")


def order(nest: Nest, loops: Sequence[Loop]) -> None:
    """Refuse a part that comes outside of the part that it lies in, and what must stay where it is."""
    parts = [part for loop in loops for part in loop.parts]
    for i, part in enumerate(parts):
        for after in parts[i + 1 :]:
            if after.axis == part.axis and (after.step, after.size) > (part.step, part.size):
                refuse(f"cannot reorder: '{part.name}' lies in a step of '{after.name}' and must be inside of it")
    if nest.parallel and loops[0] is not nest.parallel:
        refuse(f"cannot reorder: '{nest.parallel.name}' is parallel and must stay outermost")
    for loop in loops[:-1]:
        if loop.kind == "vectorize":
            refuse(f"cannot reorder: '{loop.name}' is vectorized and must stay innermost")


def stageable(values: Sequence[KernelValue], name: str, read: bool) -> KernelValue:
    """The value to be copied (``read``) or computed ahead; refuse what is not there, or is the other."""
    found = [value for value in values if value.name == name != RESULT]
    if not found:
        refuse(f"cannot stage '{name}'; there are {join_names(value.name for value in values if value.name != RESULT)}")
    if found[0].read != read:
        what, verb = ("computed", "cache_write") if read else ("read from memory", "cache_read")
        refuse(f"'{name}' is {what}: {verb}('{name}', ...) stages it")
    return found[0]


def overlaps(nest: Nest, loop: Loop) -> None:
    """Refuse to let steps overlap that are all whole, whose elements may be computed once, or that are no tiles."""
    name = loop.name
    part = loop.parts[0]
    if loop not in nest.outer:
        refuse(f"cannot overlap steps of '{name}': only those of loops around tiles can")
    if nest.value.once:
        refuse(f"cannot overlap steps of '{name}': {nest.value.name} may lie over an argument that it is made from")
    for block in nest.value.packed:
        if block.axis == part.axis:
            refuse(f"cannot overlap steps of '{name}': {block}, and tiles begin where blocks do")
    if not part.rest:
        refuse(f"cannot overlap steps of '{name}': it goes in {part}, and no step is smaller")
