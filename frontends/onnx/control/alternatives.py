"""Ways of which the run takes one, where the inputs' shapes may fit one alone."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TypeVar

from ....core.errors import ModelError, UnsupportedError
from ....dialects import cf, ir, scalars
from ..state.context import Context
from ..values.tensor import Tensor
from .control_flow import emit_branches

Way = Callable[[], list[Tensor]]
Alternative = TypeVar("Alternative")


class _MisfitError(Exception):
    """A way that cannot be run on inputs of the given shapes, by its name, and why."""

    def __init__(self, way: str, reason: str) -> None:
        super().__init__(reason)
        self.way = way


def in_each(
    ctx: Context,
    cases: Sequence[Alternative],
    has: Callable[[Alternative], ir.Value],
    convert: Callable[[Alternative], list[Tensor]],
    words: Callable[[Sequence[Alternative]], str],
    expected: bool = False,
) -> list[Tensor]:
    """What ``convert`` makes in the one of these cases that the run has: where ``has`` (an i1) holds, in branches.

    ``words`` say what is done in some of the cases, as messages call it; ``expected`` is as in ``convert_either``.
    """
    first, *others = cases
    if not others:
        return convert(first)
    condition = has(first)
    ways = {
        words([first]): partial(convert, first),
        words(others): partial(in_each, ctx, others, has, convert, words, expected),
    }
    return convert_either(ctx, condition, ways, partial(emit_branches, ctx, condition), expected)


def convert_either(
    ctx: Context,
    condition: ir.Value,
    ways: Mapping[str, Way],
    convert: Callable[[Sequence[Way]], list[Tensor]],
    expected: bool = False,
) -> list[Tensor]:
    """What ``convert`` makes of two ways, by what messages call them; the first is taken where the condition holds.

    Where the inputs' shapes fit one of them alone, that one is converted in place, and the program refuses a run that
    takes the other; the user is told so, unless it was ``expected``. ModelError where they fit neither.
    """
    before = ctx.graph.refusals.copy()
    try:
        return convert([partial(_try_way, name, way) for name, way in ways.items()])
    except _MisfitError as misfit:
        ctx.graph.refusals.restore(before)  # what was said of that way does not count
        return _other(ctx, condition, ways, misfit, expected)


def _try_way(name: str, way: Way) -> list[Tensor]:
    try:
        return way()
    except UnsupportedError:
        raise
    except (ModelError, ValueError) as error:  # shapes for one of the ways are often none for the other
        raise _MisfitError(name, str(error)) from error


def _other(
    ctx: Context, condition: ir.Value, ways: Mapping[str, Way], misfit: _MisfitError, expected: bool
) -> list[Tensor]:
    """The way that fits, in place; the program stops where it is not taken."""
    if ctx.graph.in_kernel:
        ctx.unsupported(f"{misfit.way} cannot be run ({misfit}), and a kernel cannot tell")
    first, second = ways
    words = f"{misfit.way} cannot be run on inputs of these shapes: {misfit}"
    fits = scalars.invert(condition) if misfit.way == first else condition
    cf.assert_(fits, f"({ctx.node.op_type}): {words}")
    try:
        made = _try_way(second, ways[second]) if misfit.way == first else _try_way(first, ways[first])
    except _MisfitError:
        ctx.invalid(f"{misfit.way} cannot be run: {misfit}")
    if not expected:
        ctx.note(f"node '{ctx.name}': {words}; the program refuses a run that takes it")
    return made
