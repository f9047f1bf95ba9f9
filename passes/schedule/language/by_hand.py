"""Schedules that a user, or a tuner, gives for kernels: ``PassContext(config={"schedules": ...})``.

Those are a ``Schedule``, or its JSON, for each kernel by name, or one text: a module of the transform dialect whose
named sequences are called as the kernels that they are for, or by patterns of such names (``@"matmul_*"``).
"""

from __future__ import annotations

import fnmatch
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ....core.errors import ScheduleError
from ...infra.context import SCHEDULES
from .schedule import Schedule

_SHOWN = 4
_COMMENT = re.compile(r"//[^\n]*")
_SEQUENCE = re.compile(r'transform\.named_sequence\s+(private\s+)?@(?:"([^"\n]*)"|([\w$.-]+))')


@dataclass(frozen=True)
class TransformSequence:
    """A named sequence of a module of the transform dialect, which makes the loops of a kernel."""

    text: str
    name: str

    def to_json(self) -> str:
        """The module's text."""
        return self.text


GivenSchedule = Schedule | TransformSequence


def find_schedule(config: Mapping[str, Any], kernel: str) -> GivenSchedule | None:
    """The schedule that a context's config has for a kernel; None for none. Raises ScheduleError for what is none."""
    schedules = _find_given(config)
    if isinstance(schedules, str):
        return _find_sequence(schedules, kernel)
    if kernel not in schedules:
        return None
    found = schedules[kernel]
    if isinstance(found, Schedule | TransformSequence):
        return found
    try:
        if isinstance(found, str) and not found.lstrip().startswith("{"):
            if (sequence := _find_sequence(found, kernel)) is None:
                there = ", ".join(f"'@{name}'" for name in list_sequences(found)) or "none"
                raise ScheduleError(f"its text has no sequence that is called so: it has {there}")
            return sequence
        return Schedule.from_json(found)
    except ScheduleError as error:
        raise ScheduleError(f"the schedule of kernel '{kernel}': {error}") from error


def _find_given(config: Mapping[str, Any]) -> Mapping[str, Any] | str:
    """The schedules of a config."""
    schedules = config.get(SCHEDULES, {})
    if isinstance(schedules, Mapping | str):
        return schedules
    raise ScheduleError(
        f"config '{SCHEDULES}' is a {type(schedules).__name__}: give a schedule for each kernel's name, or the text of"
        " a transform module"
    )


def list_sequences(text: str) -> list[str]:
    """The names of the public sequences of a transform module: those of kernels, or patterns of them."""
    found = _SEQUENCE.findall(_COMMENT.sub("", text))
    return [quoted or plain for private, quoted, plain in found if not private]


def _find_sequence(text: str, kernel: str) -> TransformSequence | None:
    """The sequence that is called as a kernel, or the first whose pattern fits."""
    names = list_sequences(text)
    fitting = [name for name in names if fnmatch.fnmatchcase(kernel, name)]
    chosen = [kernel] if kernel in names else fitting[:1]
    return TransformSequence(text, chosen[0]) if chosen else None


def key_text(config: Mapping[str, Any], kernels: Iterable[str] | None = None) -> str:
    """The schedules' part of the cache key: those of the kernels, or all; "" for none."""
    schedules = _find_given(config)
    if kernels is None and isinstance(schedules, str):
        return schedules
    names = schedules if kernels is None else kernels
    found = {name: find_schedule(config, name) for name in sorted(names)}
    return (
        json.dumps({name: schedule.to_json() for name, schedule in found.items() if schedule})
        if any(found.values())
        else ""
    )


def check_names(config: Mapping[str, Any], kernels: Iterable[str]) -> None:
    """Raise ScheduleError for a schedule of a kernel that the model does not have."""
    there, schedules = sorted(kernels), _find_given(config)
    if isinstance(schedules, str):
        _check_sequences(list_sequences(schedules), there)
        return
    for name in schedules:
        find_schedule(config, name)
        if name not in there:
            raise ScheduleError(f"config '{SCHEDULES}': the model has no kernel '{name}'; it has {_list_some(there)}")


def _check_sequences(names: Sequence[str], kernels: Sequence[str]) -> None:
    if not names:
        raise ScheduleError(
            "the schedules are no JSON and no transform module with sequences for kernels:"
            " `transform.named_sequence @KERNEL(%kernel: !transform.any_op {transform.consumed})`"
        )
    for name in names:
        if not fnmatch.filter(kernels, name) and name not in kernels:
            raise ScheduleError(
                f"no kernel of the model is called as the sequence '@{name}'; it has {_list_some(kernels)};"
                " sequences that others include are `private`"
            )


def _list_some(kernels: Sequence[str]) -> str:
    more = f" and {len(kernels) - _SHOWN} more" if len(kernels) > _SHOWN else ""
    return f"{', '.join(kernels[:_SHOWN])}{more} (`tilewright explain --all` shows them)"
