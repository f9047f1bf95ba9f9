"""``autotvm.task``: templates with arguments, and which config they get."""

from .dispatcher import ApplyConfig, DispatchContext, FallbackContext
from .extraction import (
    extract_from_multiple_program,
    extract_from_program,
    register_topi_compute,
    register_topi_schedule,
)
from .history import ApplyHistoryBest
from .space import ConfigEntity, ConfigSpace
from .templates import Task, args_to_workload, create, deserialize_args, get_config, serialize_args, template

__all__ = [
    "ApplyConfig",
    "ApplyHistoryBest",
    "ConfigEntity",
    "ConfigSpace",
    "DispatchContext",
    "FallbackContext",
    "Task",
    "args_to_workload",
    "create",
    "deserialize_args",
    "extract_from_multiple_program",
    "extract_from_program",
    "get_config",
    "register_topi_compute",
    "register_topi_schedule",
    "serialize_args",
    "template",
]
