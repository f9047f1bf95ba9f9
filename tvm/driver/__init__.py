"""``tvm.lower`` and ``tvm.build``."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from typing import Any

from ...core.errors import ExpressionError
from ...driver import expressions
from ...driver.expressions import Functions
from ...te.computation import Lowered
from ...te.schedule import Schedule
from ...te.stage import Stage
from ...te.tensor import ComputeOp, Tensor
from ..autotvm.kernels import schedule_context
from ..runtime import Module
from ..target import Target


def lower(
    inp: Schedule,
    args: Sequence[Tensor] | None = None,
    name: str = "main",
    binds: Mapping[Tensor, Any] | None = None,
    simple_mode: bool = False,
) -> Lowered:
    """The loops of a schedule in ``simple_mode``, else its MLIR; ``build`` takes both.

    Outputs that ``args`` leave out, as scripts do that print loops, are arguments behind the others. In
    ``simple_mode`` those are left out that are computed in the loops of others, and never there as a whole.
    """
    _refuse_binds(binds)
    schedule = _give_stages(inp, _check_arguments(args))
    given = [each for each in args or () if not simple_mode or not _lies_in_loops(schedule, each)]
    outputs = [op.output(number) for op in schedule.outputs for number in range(op.num_outputs)]
    missing = [each for each in outputs if each not in given]
    return expressions.lower(schedule, [*given, *missing], name, simple_mode)


def build(
    inputs: Schedule | Functions,
    args: Sequence[Tensor] | None = None,
    target: str | Target | None = None,
    target_host: str | Target | None = None,
    runtime: Any = None,
    name: str = "default_function",
    binds: Mapping[Tensor, Any] | None = None,
) -> Module:
    """Compile a schedule, or what ``lower`` has given, for a target: by default that of the ``with`` around.

    The host of a target is the CPU that it is itself; ``runtime`` is always the one here.
    """
    _refuse_binds(binds)
    chosen = Target.of(target)
    if isinstance(inputs, Schedule):
        given = _check_arguments(args)
        with schedule_context(getattr(inputs, "kernels", {})):
            return Module.of(expressions.build(_give_stages(inputs, given), given, chosen.own, name))
    return Module.of(expressions.build(inputs, chosen.own))


def _give_stages(schedule: Schedule, args: Sequence[Tensor]) -> Schedule:
    """The schedule, of which the stages on the way that are among the arguments are outputs, too."""
    between = [
        stage
        for stage in schedule.stages
        if isinstance(stage.op, ComputeOp) and stage.origin not in schedule.outputs
        if any(getattr(each, "op", None) in (stage.op, stage.origin) for each in args)
    ]
    made = copy.copy(schedule)
    made.outputs = [*schedule.outputs, *(stage.origin for stage in between if not _is_within(stage))]
    return made


def _is_within(stage: Stage) -> bool:
    """Return whether a stage is computed where others need it."""
    return stage.inline or stage.at is not None


def _lies_in_loops(schedule: Schedule, arg: Any) -> bool:
    """Return whether an argument is what a stage computes where others need it."""
    own = (stage for stage in schedule.stages if getattr(arg, "op", None) in (stage.op, stage.origin))
    return any(_is_within(stage) for stage in own)


def _check_arguments(args: Any) -> Sequence[Tensor]:
    if args is None:
        raise ExpressionError("a schedule is lowered with its arguments, [A, B, C]: its inputs, then its outputs")
    return args


def _refuse_binds(binds: Any) -> None:
    if binds:
        raise ExpressionError("tensors have memory of their own here: leave binds out")
