"""Operators of a user's that are written as tensor expressions (``tw.register_op(..., compute=...)``)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ..core import custom_ops
from ..core.custom_ops import CustomOperator, Operand
from ..core.errors import ExpressionError, ModelError, ScheduleError
from ..core.sizes import symbols_of
from .arguments import list_sizes, split_args
from .computation import Computation
from .regions import each_read, is_inside
from .schedule import Schedule, create_schedule
from .tensor import PlaceholderOp, Tensor


def write_operator(name: str, operands: Sequence[Operand | None], attributes: Mapping[str, Any]) -> Computation:
    """What a registered operator computes of inputs like these; it is asked of the process of its user.

    Raises a ModelError of one line if the user's function raises anything, or gives anything but tensors.
    """
    operator = custom_ops.find(name)
    assert operator is not None and operator.compute is not None
    inputs = [None if each is None else _make_input(name, number, each) for number, each in enumerate(operands)]
    try:
        made = operator.compute(*inputs, **attributes)
    except Exception as error:
        reason = f"{type(error).__name__}: {error}"
        raise ModelError(f"the computation of operator '{name}' failed: {reason}") from error
    outputs = list(made) if isinstance(made, tuple | list) else [made]
    if not outputs or not all(isinstance(each, Tensor) for each in outputs):
        raise ModelError(f"the computation of operator '{name}' gives {made!r}: give a te.Tensor, or a tuple of them")
    if any(isinstance(each.op, PlaceholderOp) for each in outputs):
        raise ModelError(f"the computation of operator '{name}' gives an input as it is: give what te.compute makes")
    known = [each for each in inputs if each is not None]
    if operator.schedule is None:
        schedule = create_schedule(list(outputs))
        schedule.auto()
    else:
        schedule = _ask_schedule(operator, name, outputs)
    for stage in schedule.stages:
        if stage.is_placeholder and stage.op.output(0) not in known:
            raise ModelError(f"the computation of operator '{name}' reads '{stage.name}', which is none of its inputs")
    bound = {symbol for each in known for extent in each.shape for symbol in symbols_of(extent)}
    if new := next((size for stage in schedule.stages for size in list_sizes(stage.op) if size not in bound), None):
        raise ModelError(f"the computation of operator '{name}' has the size '{new}', which none of its inputs has")
    if operator.schedule is not None:
        _check_schedule(schedule, [*known, *outputs], name)
    return Computation(schedule, (*known, *outputs), name, operator.schedule is not None)


def _ask_schedule(operator: CustomOperator, name: str, outputs: Sequence[Tensor]) -> Schedule:
    """What a user's function makes of the computation."""
    assert operator.schedule is not None
    try:
        made = operator.schedule(list(outputs))
    except Exception as error:
        raise ModelError(f"the schedule of operator '{name}' failed: {type(error).__name__}: {error}") from error
    if not isinstance(made, Schedule):
        raise ModelError(f"the schedule of operator '{name}' gives {made!r}: give the te.Schedule of its outputs")
    return made


def _check_schedule(schedule: Schedule, args: Sequence[Tensor], name: str) -> None:
    """Raise ModelError for a schedule of something else, and for what a network has no place for."""
    try:
        split_args(schedule, args)
    except (ExpressionError, ScheduleError) as error:
        raise ModelError(f"the schedule of operator '{name}' is not that of its outputs: {error}") from error
    for stage in schedule.stages:
        reads = [found for each in getattr(stage.op, "body", ()) for found in each_read(each)]
        for read, guarded in reads:
            if not guarded and not all(map(is_inside, read.indices, read.tensor.shape)):
                raise ModelError(
                    f"operator '{name}' reads at '{read}', which may lie outside of the tensor: hold the index inside,"
                    " as by te.min and te.max, or give no schedule"
                )


def _make_input(name: str, number: int, operand: Operand) -> Tensor:
    if operand.shape is None or any(extent is None for extent in operand.shape):
        raise ModelError(f"input {number} of operator '{name}' is no tensor of numbers, which it computes with")
    shape = tuple(extent for extent in operand.shape if extent is not None)
    return PlaceholderOp(f"x{number}", shape, (operand.dtype,)).output(0)
