"""What primitives made a schedule, as data: their names and arguments, in which stages and loops have names."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ..core.errors import ScheduleError
from .expr import IterVar
from .intrinsic import TensorIntrin, find_intrinsic
from .stage import Stage
from .tensor import Op, Tensor

if TYPE_CHECKING:
    from .schedule import Schedule

TraceStep = tuple[str, list[Any]]


class Trace:
    """The primitives of a schedule in order, as data: ``to_json`` and ``from_json``."""

    def __init__(self, steps: Sequence[TraceStep]) -> None:
        self.steps = tuple(steps)

    def to_json(self) -> str:
        """A text that ``from_json`` reads."""
        return json.dumps([[name, given] for name, given in self.steps])

    @staticmethod
    def from_json(data: str | Sequence[Any]) -> Trace:
        """Raises ScheduleError for what is no trace."""
        try:
            read = json.loads(data) if isinstance(data, str | bytes) else data
            if not isinstance(read, list | tuple):
                raise TypeError(f"a {type(read).__name__} is no list of steps")
            return Trace([(str(name), list(given)) for name, given in read])
        except (ValueError, TypeError, RecursionError) as error:
            raise ScheduleError(f"this is no trace of a schedule ({error}): Trace.to_json writes one") from error

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Trace) and self.to_json() == other.to_json()

    def __hash__(self) -> int:
        return hash(self.to_json())

    def __iter__(self) -> Iterator[TraceStep]:
        return iter(self.steps)

    def __len__(self) -> int:
        return len(self.steps)

    def __str__(self) -> str:
        return "\n".join(f"{name}({', '.join(map(_argument_text, given))})" for name, given in self.steps)


def _argument_text(value: Any) -> str:
    if isinstance(value, Mapping):
        return str(next(iter(value.values()))) or "s"
    return f"[{', '.join(map(_argument_text, value))}]" if isinstance(value, list) else repr(value)


def to_data(schedule: Schedule, value: Any) -> Any:
    """An argument of a primitive as JSON has it."""
    if value is schedule:
        return {"schedule": ""}
    if isinstance(getattr(value, "stage", None), Stage):
        return {"stage": value.name}
    if isinstance(value, Tensor):
        return {"tensor": schedule[value].name, "number": value.value_index}
    if isinstance(value, Op):
        return {"op": schedule[value].name}
    if isinstance(value, IterVar):
        return _loop_data(schedule, value)
    if isinstance(value, TensorIntrin):
        return {"intrinsic": value.key}
    if isinstance(value, bytes):
        return {"bytes": base64.b64encode(value).decode()}
    if isinstance(value, list | tuple):
        return [to_data(schedule, each) for each in value]
    return value if isinstance(value, int | float | str) or value is None else str(value)


def _loop_data(schedule: Schedule, var: IterVar) -> Any:
    for stage in schedule.stages:
        for number, each in enumerate(stage.all_iter_vars):
            if each is var:
                return {"loop": var.name, "stage": stage.name, "number": number}
    return {"loop": var.name}


def from_data(schedule: Schedule, data: Any) -> Any:
    """The inverse of ``to_data`` for this schedule."""
    if isinstance(data, list):
        return [from_data(schedule, each) for each in data]
    if not isinstance(data, Mapping):
        return data
    if "schedule" in data:
        return schedule
    if "bytes" in data:
        return base64.b64decode(str(data["bytes"]))
    if "intrinsic" in data:
        if (found := find_intrinsic(str(data["intrinsic"]))) is None:
            raise ScheduleError(f"the trace has intrinsic '{data['intrinsic']}': declare it first, and keep it")
        return found
    for key in ("stage", "tensor", "op"):
        if key in data and "loop" not in data:
            handle = schedule.find_stage(str(data[key]))
            if key == "tensor":
                return handle.stage.op.output(int(data["number"]))
            return handle if key == "stage" else handle.stage.op
    known = schedule.find_stage(str(data.get("stage"))).stage.all_iter_vars
    number = data.get("number")
    if not isinstance(number, int) or not 0 <= number < len(known) or known[number].name != data["loop"]:
        raise ScheduleError(f"'{data.get('stage')}' has no loop '{data['loop']}': the trace is of another computation")
    return known[number]
