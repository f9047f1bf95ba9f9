"""``tvm.autotvm``: templates whose schedules depend on configs, and the search for the fastest of these."""

from __future__ import annotations

from typing import NoReturn

from ..absent import refuse_name
from . import measure, record, task, tuner
from .measure import (
    LocalBuilder,
    LocalRunner,
    MeasureErrorNo,
    MeasureInput,
    MeasureResult,
    RPCRunner,
    measure_option,
)
from .task import (
    ApplyHistoryBest,
    ConfigEntity,
    ConfigSpace,
    DispatchContext,
    FallbackContext,
    create,
    get_config,
    template,
)
from .tuner import callback

apply_history_best = ApplyHistoryBest

__all__ = [
    "ApplyHistoryBest",
    "ConfigEntity",
    "ConfigSpace",
    "DispatchContext",
    "FallbackContext",
    "LocalBuilder",
    "LocalRunner",
    "MeasureErrorNo",
    "MeasureInput",
    "MeasureResult",
    "RPCRunner",
    "apply_history_best",
    "callback",
    "create",
    "get_config",
    "measure",
    "measure_option",
    "record",
    "task",
    "template",
    "tuner",
]


def __getattr__(name: str) -> NoReturn:
    refuse_name("autotvm", name, __all__)
