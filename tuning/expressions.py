"""Tensor expressions as what can be tuned: with schedules that the compiler chooses."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ..core.errors import ExpressionError
from ..te.computation import Computation
from ..te.schedule import Schedule, create_schedule
from ..te.tensor import ComputeOp, PlaceholderOp, Tensor


def make_computation(function: Callable[..., Any] | Schedule, args: Sequence[Any], name: str = "") -> Computation:
    """A tensor expression to be tuned.

    Args:
        function: is called with ``args``: tensors, of which it returns what it computes, or anything else, of which it
            returns all tensors, inputs first, as functions for TVM's auto_scheduler do. Or a schedule of the compiler's
            own (``auto()``), whose ``args`` are its tensors.
        name: what records call it; the function's own by default.

    Raises ExpressionError for what is no such function, and for a schedule with loops of its own.
    """
    if isinstance(function, Schedule):
        for stage in function.stages:
            if isinstance(stage.op, ComputeOp) and not stage.automatic and not stage.inline:
                raise ExpressionError(f"'{stage.name}' has loops of its own: tuning chooses them where it has auto()")
        return Computation.of(function, list(args), name or "main")
    made = function(*args)
    tensors = list(made) if isinstance(made, list | tuple) else [made]
    if not tensors or not all(isinstance(each, Tensor) for each in tensors):
        raise ExpressionError(f"'{_name_of(function)}' returns no tensors: return what it computes")
    inputs = [each for each in (*args, *tensors) if isinstance(each, Tensor) and isinstance(each.op, PlaceholderOp)]
    outputs = [each for each in tensors if not isinstance(each.op, PlaceholderOp)]
    schedule = create_schedule(outputs)
    for stage in schedule.stages:
        if isinstance(stage.op, ComputeOp):
            schedule[stage.op].auto()
    return Computation.of(schedule, [*dict.fromkeys(inputs), *outputs], name or _name_of(function))


def _name_of(function: Callable[..., Any]) -> str:
    return getattr(function, "__name__", type(function).__name__)
