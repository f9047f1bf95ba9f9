"""Loops of a schedule as ops of the transform dialect: what all schedules, by hand or by a family, are written with."""

from __future__ import annotations

from collections.abc import Sequence

from . import ir, transform, tw


def tile_parts(
    op: transform.Handle, rank: int, parts: Sequence[tuple[int, int]]
) -> tuple[transform.Handle, list[transform.Handle]]:
    """Loops over steps of some of an op's loops, outermost first, each the only one in another, around the op.

    Args:
        rank: of the op's iteration space.
        parts: the number of a loop, and how many of its elements a step takes. Each is named once.
    """
    places = [place for place, _ in parts]
    sizes = [0] * rank  # 0 leaves a loop whole
    for place, size in parts:
        sizes[place] = size
    order = None if places == sorted(places) else [*places, *(i for i in range(rank) if i not in places)]
    made, *loops = transform.tile_using_for(op, sizes, order)
    return made, loops


def finish_loops(
    loops: Sequence[transform.Handle], shared: bool = False, at_once: int = 0, uneven: bool = False
) -> None:
    """Make one loop of those that ``tile_parts`` has made, and say how it runs. What is in them must be done.

    Args:
        shared: whether threads share its steps.
        at_once: how many steps are written out; 0 for none.
        uneven: whether the last step may be smaller: it is then taken out of the loop, which must be the only one.
    """
    loop = loops[0] if len(loops) == 1 else transform.coalesce(loops[0])
    if shared:
        transform.annotate(loop, tw.SHARED_LOOP, ir.UnitAttr.get())
    if at_once:
        transform.annotate(loop, tw.UNROLL, ir.IntegerAttr.get(ir.IntegerType.get_signless(64), at_once))
    if uneven:
        transform.peel(loop)
