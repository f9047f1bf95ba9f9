"""``autotvm.task``: templates with arguments, and which config they get."""

from .dispatcher import ApplyConfig, DispatchContext, FallbackContext
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
    "get_config",
    "serialize_args",
    "template",
]
