"""``autotvm.measure``: how configs are built and measured."""

from .measuring import create_measure_batch
from .results import (
    LocalBuilder,
    LocalRunner,
    MeasureErrorNo,
    MeasureInput,
    MeasureResult,
    RPCRunner,
    measure_option,
)

__all__ = [
    "LocalBuilder",
    "LocalRunner",
    "MeasureErrorNo",
    "MeasureInput",
    "MeasureResult",
    "RPCRunner",
    "create_measure_batch",
    "measure_option",
]
