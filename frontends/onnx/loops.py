"""Loops for what no structured op expresses: ``scf.for`` that carries tensors."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ...dialects import ir, scalars, scf

Values = Sequence[ir.Value]


def sequential(extents: Sequence[int], states: Values, step: Callable[[Values, Values], Values]) -> list[ir.Value]:
    """A nest of loops, the last the innermost: ``states = step(indices, states)``; gives the last states.

    A loop of one iteration is none: its index is the constant 0.
    """
    return _nest(list(extents), [], list(states), step)


def _nest(
    extents: list[int], at: list[ir.Value], states: list[ir.Value], step: Callable[[Values, Values], Values]
) -> list[ir.Value]:
    if len(at) == len(extents):
        return list(step(at, states))
    extent = extents[len(at)]
    zero = index(0)
    if extent == 1:
        return _nest(extents, [*at, zero], states, step)
    loop = scf.ForOp(zero, index(extent), index(1), states)
    with ir.InsertionPoint(loop.body):
        scf.YieldOp(_nest(extents, [*at, loop.induction_variable], list(loop.inner_iter_args), step))
    return list(loop.results)


def index(number: int) -> ir.Value:
    """An index constant."""
    return scalars.const(number, ir.IndexType.get())
