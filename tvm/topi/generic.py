"""``tvm.topi.generic``, and ``x86``: schedules of operators, which are the compiler's own here."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ... import te
from ..absent import refuse_name


def _schedule(outs: te.Tensor | Sequence[te.Tensor]) -> te.Schedule:
    """A schedule of outputs whose stages are all left to the compiler."""
    outputs = [outs] if isinstance(outs, te.Tensor) else list(outs)
    schedule = te.create_schedule([each.op for each in outputs])
    schedule.auto()
    return schedule


def __getattr__(name: str) -> Callable[..., te.Schedule]:
    if name.startswith("schedule_"):
        return _schedule
    refuse_name("topi.generic", name, ["schedule_injective", "schedule_conv2d_nchw", "schedule_ of others"])
