"""``tvm.lower`` and ``tvm.build``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ...core.errors import ExpressionError
from ...driver import expressions
from ...driver.expressions import Functions
from ...te.computation import Lowered
from ...te.schedule import Schedule
from ...te.tensor import Tensor
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

    Outputs that ``args`` leave out, as scripts do that print loops, are arguments behind the others.
    """
    _refuse_binds(binds)
    given = list(_check_arguments(args))
    outputs = [op.output(number) for op in inp.outputs for number in range(op.num_outputs)]
    missing = [each for each in outputs if each not in given]
    return expressions.lower(inp, [*given, *missing], name, simple_mode)


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
        with schedule_context(getattr(inputs, "kernels", {})):
            return Module.of(expressions.build(inputs, _check_arguments(args), chosen.own, name))
    return Module.of(expressions.build(inputs, chosen.own))


def _check_arguments(args: Any) -> Sequence[Tensor]:
    if args is None:
        raise ExpressionError("a schedule is lowered with its arguments, [A, B, C]: its inputs, then its outputs")
    return args


def _refuse_binds(binds: Any) -> None:
    if binds:
        raise ExpressionError("tensors have memory of their own here: leave binds out")
