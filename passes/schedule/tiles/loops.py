"""Loops over tiles."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence

from ....dialects import arith, ir, scf, tw
from ....dialects.builders import index_constant
from ...ir.dynamic_sizes import hide_formula
from ...ir.kernel import integer_attr
from .regions import Interval, Linear

Values = Sequence[ir.Value]
RowStep = Callable[[Linear, int, "int | ir.Value", Values], Values]


def for_each_chunk(
    extent: int, tile: int, init: ir.Value, step: Callable[[Linear, int, ir.Value], ir.Value], at_once: int = 1
) -> ir.Value:
    """Run ``step(offset, size, carried)`` over ``extent`` elements: whole tiles in a loop, then the rest.

    The rest goes in powers of two: LLVM takes vectors of other lengths apart into scalars. ``unroll-sums`` makes one
    step of ``at_once``.
    """
    together = for_each_chunk_together(
        extent, tile, [init], lambda at, size, carried: [step(at, size, *carried)], at_once
    )
    return together[0]


def for_each_step(
    serial: Sequence[int], loops: list[Interval], init: ir.Value, step: Callable[[ir.Value], ir.Value]
) -> ir.Value:
    """Run ``step(carried)`` for each element of the loops ``serial``, one in another, with ``loops`` set to it."""
    [made] = for_each_step_together(serial, loops, [init], lambda carried: [step(carried[0])])
    return made


def for_each_step_together(
    serial: Sequence[int], loops: list[Interval], init: Values, step: Callable[[Values], Values]
) -> Values:
    """``for_each_step`` with any number of values that are carried from step to step."""
    if not serial:
        return step(init)
    loop, *deeper = serial

    def walk(offset: Linear, size: int, carried: Values) -> Values:
        loops[loop] = Interval(offset, size)
        return for_each_step_together(deeper, loops, carried, step)

    return for_each_chunk_together(loops[loop].size, 1, init, walk)


def for_each_chunk_together(
    extent: int, tile: int, init: Values, step: Callable[[Linear, int, Values], Values], at_once: int = 1
) -> Values:
    """``for_each_chunk`` with any number of values that are carried from step to step."""
    whole, values = extent // tile, init
    if whole == 1:
        values = step(Linear(), tile, values)
    elif whole > 1:
        loop = scf.ForOp(index_constant(0), index_constant(whole), index_constant(1), list(values))
        if at_once > 1:
            loop.attributes[tw.UNROLL] = integer_attr(at_once)
        with ir.InsertionPoint(loop.body):
            offset = Linear(0, ((loop.induction_variable, tile),))
            scf.YieldOp(list(step(offset, tile, list(loop.inner_iter_args))))
        values = list(loop.results)
    start = whole * tile
    for size in powers_of_two(extent % tile):
        values = step(Linear(start), size, values)
        start += size
    return values


def for_each_between(
    first: ir.Value, end: ir.Value, init: ir.Value, step: Callable[[Linear, ir.Value], ir.Value]
) -> ir.Value:
    """Run ``step(offset, carried)`` for the elements of a range that only the run knows, one by one."""
    loop = scf.ForOp(first, end, index_constant(1), [init])
    with ir.InsertionPoint(loop.body):
        scf.YieldOp([step(Linear(0, ((loop.induction_variable, 1),)), loop.inner_iter_args[0])])
    return loop.results[0]


def along_row(
    extent: int,
    tile: int,
    vector: int,
    init: Values,
    step: RowStep,
    at_once: int = 1,
) -> Values:
    """Run ``step(offset, size, again, carried)`` over a row: whole tiles in a loop, whole vectors, and a last vector.

    The last one ends where the row does, so that its first ``again`` elements are done for the second time. With a
    ``vector`` of 0 nothing is: the rest goes in powers of two.
    """
    values = for_each_chunk_together(
        extent - extent % tile, tile, init, lambda offset, size, carried: step(offset, size, 0, carried), at_once
    )
    for start, size, again in list_rest(extent, tile, vector):
        values = step(Linear(start), size, again, values)
    return values


def list_rest(extent: int, tile: int, vector: int) -> list[tuple[int, int, int]]:
    """Where the steps of a row behind its whole tiles begin, how long each is, and how much of it is done again."""
    start, steps = extent - extent % tile, []
    for size in powers_of_two(extent - start):
        if size < vector <= extent:
            return [*steps, (extent - vector, vector, vector - (extent - start))]
        steps.append((start, size, 0))
        start += size
    return steps


def along_dynamic_row(
    length: ir.Value, between: tuple[int, int], tile: int, vector: int, init: Values, step: RowStep
) -> Values:
    """``along_row`` for a row whose length only the run knows, that is ``between`` two numbers.

    Vectors behind the last tile are one loop, of which what begins behind the row's last vector is that one. Where no
    vector fits elements go one by one.
    """
    least, most = between

    def steps(start: ir.Value, end: ir.Value, size: int, carried: Values) -> Values:
        loop = scf.ForOp(start, end, index_constant(size), list(carried))
        with ir.InsertionPoint(loop.body):
            place = Linear(0, ((loop.induction_variable, 1),))
            scf.YieldOp(list(step(place, size, 0, list(loop.inner_iter_args))))
        return list(loop.results)

    def vectors(start: ir.Value, end: ir.Value, carried: Values) -> Values:
        loop = scf.ForOp(start, end, index_constant(vector), list(carried))
        with ir.InsertionPoint(loop.body):
            number = loop.induction_variable
            place = arith.minui(number, arith.subi(length, index_constant(vector)))
            part = Linear(0, ((place, 1),))
            scf.YieldOp(list(step(part, vector, arith.subi(number, place), list(loop.inner_iter_args))))
        return list(loop.results)

    start, values = index_constant(0), init
    if tile <= most:
        end = arith.muli(arith.divui(length, index_constant(tile)), index_constant(tile))
        start, values = end, steps(start, end, tile, values)
    if 0 < vector <= least:
        return vectors(start, length, values)
    if 0 < vector <= most:
        fits = arith.cmpi(arith.CmpIPredicate.uge, length, index_constant(vector))
        end = arith.select(fits, length, start)
        start, values = end, vectors(start, end, values)
    return steps(start, length, 1, values)


def powers_of_two(n: int) -> list[int]:
    """The binary digits of ``n`` as numbers, largest first."""
    return [1 << bit for bit in reversed(range(n.bit_length())) if n >> bit & 1]


def divide_steps(number: ir.Value, by: ir.Value) -> ir.Value:
    """The quotient, rounded down; 0 where ``by`` is.

    LLVM takes a quotient of which it knows no more into the addresses of the innermost loop, and divides at each step.
    """
    zero, one = index_constant(0), index_constant(1)
    quotient = arith.divui(number, arith.maxui(by, one))
    return arith.select(arith.cmpi(arith.CmpIPredicate.eq, by, zero), zero, quotient)


def loop_over(first: ir.Value, end: ir.Value, step: int, body: Callable[[ir.Value], None]) -> None:
    """A loop that hands nothing on."""
    loop = scf.ForOp(first, end, index_constant(step))
    with ir.InsertionPoint(loop.body):
        body(loop.induction_variable)
        scf.YieldOp([])


def branch_off(when: ir.Value, then: Callable[[], None], other: Callable[[], None]) -> None:
    """``then`` where a condition holds, and ``other`` elsewhere."""
    branch = scf.IfOp(when, has_else=True)
    for region, emit in zip(branch.regions, (then, other), strict=True):
        with ir.InsertionPoint(region.blocks[0]):
            emit()
            scf.YieldOp([])


def walk_part(
    counts: Values,
    strides: Sequence[Values],
    part: tuple[ir.Value, ir.Value],
    places: Values,
    emit: Callable[[ir.Value, ir.Value, Values], None],
) -> None:
    """Loops over a part of the steps of several axes, which are counted in row-major order.

    counts: the steps of each axis. strides: for each of the ``places`` how far it moves in a step of each axis. emit:
    what does the steps [first, last) of the innermost axis, from the places at which that begins.
    """
    first, last = part
    if len(counts) == 1:
        emit(first, last, places)
        return
    zero, one = index_constant(0), index_constant(1)
    beside = functools.reduce(arith.muli, counts[1:])

    def step(number: ir.Value) -> None:
        start = arith.muli(number, beside)  # in the first and the last step perhaps not all
        some = arith.maxsi(arith.subi(first, start), zero), arith.minsi(arith.subi(last, start), beside)
        moved = [arith.addi(at, arith.muli(number, own[0])) for at, own in zip(places, strides, strict=True)]
        if len(counts) == 2:
            moved = [hide_formula(place) for place in moved]  # else LLVM counts on each address that is made of it
        walk_part(counts[1:], [own[1:] for own in strides], some, moved, emit)

    behind = arith.addi(last, arith.subi(beside, one))
    loop_over(divide_steps(first, beside), divide_steps(behind, beside), 1, step)
