"""Templates, and tasks: a template with arguments, whose configs are tried."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

from ...core.errors import ExpressionError
from ...te.schedule import Schedule
from ...te.tensor import Tensor, placeholder
from ..target import Target
from . import dispatcher
from .dispatcher import ApplyConfig
from .features import NestRow, read_nests
from .flops import compute_flop
from .space import Config, ConfigSpace

Template = Callable[..., Any]
TASK_TABLE: dict[str, Template] = {}


class Task:
    """A template's name and its arguments, with the configs that it may have.

    ``func`` is the template; ``flop`` counts the floating point operations of a call.
    """

    def __init__(self, name: str, args: Sequence[Any], target: Any = None, target_host: Any = None) -> None:
        self.name, self.args, self.kwargs = name, tuple(args), {}
        self.func = TASK_TABLE.get(name, functools.partial(_refuse_missing, name))
        self.config_space: ConfigSpace = ConfigSpace()
        self.flop: float = 0
        self.target = Target.of(target)
        self.target_host = self.target if target_host is None else Target(target_host)

    @property
    def workload(self) -> tuple[Any, ...]:
        """What records are found by: the name and the arguments."""
        return (self.name, *serialize_args(self.args))

    def instantiate(self, config: Config) -> tuple[Schedule, list[Tensor]]:
        """The schedule of a config, and its arguments. Raises ScheduleError for a config that makes none."""
        config.flop = 0.0
        made = call_template(self, config)
        if not self.flop:
            self.flop = config.flop or compute_flop(made[0].outputs)
        return made

    def read_nests(self, point: Sequence[int]) -> list[NestRow]:
        """The loops of the config of a point; none where it makes no schedule."""
        index = self.config_space.knob2point(point)
        if not self.config_space.is_index_valid(index):
            return []
        try:
            return read_nests(call_template(self, self.config_space.get(index))[0])
        except Exception:  # what its measurement will say
            return []

    def __repr__(self) -> str:
        return f"Task(func_name={self.name}, args={self.args}, kwargs={self.kwargs}, workload={self.workload})"


def call_template(task: Task, config: Config) -> tuple[Schedule, list[Tensor]]:
    """What a template gives with a config. Raises ExpressionError where that is no schedule with its arguments."""
    with task.target, ApplyConfig(config):
        made = task.func(*deserialize_args(task.args))
    if not (isinstance(made, tuple | list) and len(made) == 2 and isinstance(made[0], Schedule)):
        raise ExpressionError(f"template '{task.name}' must give its schedule and its arguments: return s, [A, B, C]")
    return made[0], list(made[1])


def template(task_name: str, func: Template | None = None) -> Any:
    """Make a function a template, whose schedule depends on ``autotvm.get_config()``: ``@autotvm.template("matmul")``.

    It gives its schedule and its arguments; called, it takes the config of the ``with`` around.
    """

    def decorate(function: Template) -> Template:
        TASK_TABLE[task_name] = function

        @functools.wraps(function)
        def call(*args: Any, **kwargs: Any) -> Any:
            if kwargs:
                raise ExpressionError(
                    f"template '{task_name}' takes its arguments by position, not {', '.join(kwargs)}"
                )
            with ApplyConfig(dispatcher.query(Target.current(), (task_name, *serialize_args(args)))):
                return function(*args)

        return call

    return decorate(func) if func else decorate


def create(task_name: str, args: Sequence[Any], target: Any, target_host: Any = None) -> Task:
    """The task of a template, with its space: the template is called once, and defines its knobs.

    Raises ExpressionError for a name that no template has, and what the template raises.
    """
    made = Task(task_name, serialize_args(args), target, target_host)
    schedule, tensors = call_template(made, made.config_space)
    if opened := next((each for each in tensors if not all(isinstance(n, int) for n in each.shape)), None):
        raise ExpressionError(f"'{opened}' of template '{task_name}' has a size that only the run knows: give numbers")
    made.flop = made.config_space.flop or compute_flop(schedule.outputs)
    return made


def get_config() -> Config:
    """The config that the template under way has."""
    return dispatcher.query(Target.current(), None)


def serialize_args(args: Sequence[Any]) -> tuple[Any, ...]:
    """Arguments of a template as plain data. Raises ExpressionError for what a log cannot have."""
    return tuple(map(_serialize, args))


def _serialize(value: Any) -> Any:
    if isinstance(value, Tensor):
        return ("TENSOR", tuple(value.shape), value.dtype)
    if isinstance(value, list | tuple):
        return tuple(map(_serialize, value))
    if value is None or isinstance(value, str | int | float | bool):
        return value
    if hasattr(value, "__index__"):  # numpy's numbers
        return int(value)
    raise ExpressionError(f"an argument of a template is a number, a text, a tensor or a list of these, not {value!r}")


def deserialize_args(args: Sequence[Any]) -> list[Any]:
    """The inverse of ``serialize_args``; tensors are placeholders."""
    return [
        placeholder(each[1], each[2], f"placeholder_{number}" if number else "placeholder")
        if isinstance(each, tuple) and each[:1] == ("TENSOR",)
        else each
        for number, each in enumerate(args)
    ]


def args_to_workload(args: Sequence[Any], task_name: str | None = None) -> tuple[Any, ...]:
    """What records of a template with arguments are found by."""
    made = serialize_args(args)
    return made if task_name is None else (task_name, *made)


def _refuse_missing(name: str, *args: Any) -> Any:
    raise ExpressionError(f"there is no template '{name}': @autotvm.template('{name}') makes a function one")
