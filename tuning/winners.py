"""The schedules that a network is asked about, and what compilations find in the records afterwards."""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from importlib.metadata import version
from typing import Any

from ..core.choices import Choice
from ..core.errors import ScheduleError
from ..passes.schedule.language.schedule import Schedule
from ..records.database import Database
from ..records.trial import Winner, target_key
from .progress import TaskProgress
from .verdict import IsOver, NetworkVerdict, SetContests, settle_schedules

Schedules = Mapping[str, Schedule]


def own_version() -> str:
    """Tilewright's, which records have."""
    return version("tilewright")


def find_schedules(accepted: Mapping[str, Winner], tasks: Sequence[TaskProgress]) -> dict[str, Schedule]:
    """The schedules of tasks that compilations take, by what was ``accepted`` before: those that fit these tasks."""
    found = {}
    for task in tasks:
        winner, default = accepted.get(task.name), task.prepared.task.default
        if winner is None or default is None or winner.default_steps not in ("", task.prepared.task.default_steps):
            continue
        with contextlib.suppress(ScheduleError):
            schedule = Schedule.from_json(winner.schedule)
            found |= {task.name: schedule} if schedule.values == default.values else {}
    return found


def find_options(accepted: Mapping[str, Winner], choices: Sequence[Choice]) -> dict[str, int]:
    """The decisions of a plan that compilations take, by what was ``accepted`` before, other than the rules'."""
    found = {}
    for choice in choices:
        given = accepted[choice.key].given_option if choice.key in accepted else None
        if given is not None and given[0] in choice.options and given[1] in (None, choice.default):
            found[choice.key] = given[0]
    return found


def try_winners(
    network: SetContests[Schedule],
    tasks: Sequence[TaskProgress],
    accepted: Mapping[str, Winner],
    seconds: float,
    is_over: IsOver,
) -> tuple[NetworkVerdict, dict[str, Schedule]]:
    """Try the schedules that are faster than their defaults in the network; returns what it says, and what it accepts.

    Kernels for which this search has none have those that were ``accepted`` before.
    """
    before = find_schedules(accepted, tasks)
    winners = dict(before)
    gains = {task.name: task.share * (1 - task.best.ratio) for task in tasks}
    for task in tasks:
        schedule = _find_winner(task)
        winners |= {task.name: schedule} if schedule is not None else {}
    verdict = settle_schedules(network, winners, gains, before, seconds, is_over)
    taken = before if verdict.stays else winners
    return verdict, {name: taken[name] for name in verdict.accepted}


def _find_winner(task: TaskProgress) -> Schedule | None:
    """A task's best schedule, where it is faster than its default for certain."""
    if task.best_point is None or task.best.high >= 1:
        return None
    return task.space.schedule(task.best_point)


def keep_winners(
    database: Database,
    name: str,
    tasks: Sequence[TaskProgress],
    verdict: NetworkVerdict,
    schedules: Schedules,
    accepted: Mapping[str, Winner],
) -> dict[str, Any]:
    """Let compilations find the ``schedules`` that the network accepts now; returns their JSON by kernel.

    Of those that were ``accepted`` before the others are taken out, since nobody has measured them beside these; but
    not what another network has accepted, unless this one is slower with it.
    """
    made = {kernel: schedule.to_json() for kernel, schedule in schedules.items()}
    if verdict.stays:
        return made
    before, rows = find_schedules(accepted, tasks), list[Winner]()
    for task in tasks:
        if task.name in schedules:
            same = before.get(task.name) == schedules[task.name]
            known = accepted[task.name] if same else _make_winner(task, made[task.name])
            rows.append(_sign(known, name, verdict))
        elif task.name in before and (accepted[task.name].network == name or not schedules):
            database.reject([task.name], *_find_key(task))
    database.accept(rows)
    return made


def _make_winner(task: TaskProgress, schedule: Mapping[str, Any]) -> Winner:
    """The record of a task's best schedule."""
    texts = (json.dumps(schedule["values"]), json.dumps(schedule["steps"]))
    ratio, low, high = task.best.ratio, task.best.low, task.best.high
    return Winner(task.name, *_find_key(task), *texts, ratio, low, high, default_steps=task.prepared.task.default_steps)


def _sign(winner: Winner, name: str, verdict: NetworkVerdict) -> Winner:
    """A record with what the network says of it."""
    whole = verdict.ratio
    said = {"network_ratio": whole.ratio, "network_low": whole.low, "network_high": whole.high}
    return replace(winner, network=name, version=own_version(), time=time.time(), **said)


def _find_key(task: TaskProgress) -> tuple[str, int]:
    """The target and the number of threads that a task's records are for."""
    return target_key(task.prepared.task.target), task.prepared.task.threads
