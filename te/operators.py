"""Operators of a user's that are written as tensor expressions (``tw.register_op(..., compute=...)``)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ..core import custom_ops
from ..core.custom_ops import Operand
from ..core.errors import ModelError
from ..core.sizes import symbols_of
from .arguments import list_sizes
from .computation import Computation
from .schedule import create_schedule
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
    schedule = create_schedule(list(outputs))
    known = [each for each in inputs if each is not None]
    for stage in schedule.stages:
        if not stage.is_placeholder:
            schedule[stage.op].auto()
        elif stage.op.output(0) not in known:
            raise ModelError(f"the computation of operator '{name}' reads '{stage.name}', which is none of its inputs")
    bound = {symbol for each in known for extent in each.shape for symbol in symbols_of(extent)}
    if new := next((size for stage in schedule.stages for size in list_sizes(stage.op) if size not in bound), None):
        raise ModelError(f"the computation of operator '{name}' has the size '{new}', which none of its inputs has")
    return Computation(schedule, (*known, *outputs), name)


def _make_input(name: str, number: int, operand: Operand) -> Tensor:
    if operand.shape is None or any(extent is None for extent in operand.shape):
        raise ModelError(f"input {number} of operator '{name}' is no tensor of numbers, which it computes with")
    shape = tuple(extent for extent in operand.shape if extent is not None)
    return PlaceholderOp(f"x{number}", shape, (operand.dtype,)).output(0)
