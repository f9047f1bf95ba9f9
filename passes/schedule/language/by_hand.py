"""Schedules that a user, or a tuner, gives for kernels: ``PassContext(config={"schedules": {kernel: schedule}})``."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

from ....core.errors import ScheduleError
from ...infra.context import SCHEDULES
from .schedule import Schedule

_SHOWN = 4


def find_schedule(config: Mapping[str, Any], kernel: str) -> Schedule | None:
    """The schedule that a context's config has for a kernel, as it is or as JSON; None for none."""
    schedules = config.get(SCHEDULES, {})
    if not isinstance(schedules, Mapping):
        raise ScheduleError(
            f"config '{SCHEDULES}' is a {type(schedules).__name__}: give a schedule for each kernel's name"
        )
    if kernel not in schedules:
        return None
    found = schedules[kernel]
    if isinstance(found, Schedule):
        return found
    try:
        return Schedule.from_json(found)
    except ScheduleError as error:
        raise ScheduleError(f"the schedule of kernel '{kernel}': {error}") from error


def key_text(config: Mapping[str, Any], kernels: Iterable[str] | None = None) -> str:
    """The schedules' part of the cache key: those of the kernels, or all; "" for none."""
    names = config.get(SCHEDULES, {}) if kernels is None else kernels
    found = {name: find_schedule(config, name) for name in sorted(names)}
    return (
        json.dumps({name: schedule.to_json() for name, schedule in found.items() if schedule})
        if any(found.values())
        else ""
    )


def check_names(config: Mapping[str, Any], kernels: Iterable[str]) -> None:
    """Raise ScheduleError for a schedule of a kernel that the model does not have."""
    there = sorted(kernels)
    for name in config.get(SCHEDULES, {}):
        find_schedule(config, name)
        if name not in there:
            more = f" and {len(there) - _SHOWN} more" if len(there) > _SHOWN else ""
            raise ScheduleError(
                f"config '{SCHEDULES}': the model has no kernel '{name}'; it has {', '.join(there[:_SHOWN])}{more}"
                " (`tilewright explain --all` shows them)"
            )
