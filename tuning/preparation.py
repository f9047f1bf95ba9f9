"""The kernels of a network before their search: measured, with a space, a search, and what is known of others."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Sequence

from ..core.errors import FleetError, ScheduleError, TilewrightError
from ..driver.machine import Rates
from ..passes.schedule.language.schedule import Schedule
from ..records.database import Database
from ..records.trial import Trial, target_key
from ..workers.process import Limits
from .laboratory import Laboratory, Prepared
from .progress import TaskProgress
from .search.table import make_search
from .spaces.form_space import make_space
from .spaces.space import Point, Space
from .task import Task

# Of a task's share of the program's time: less is not worth a trial.
_LEAST_SHARE = 0.002
_REST_SECONDS = 60  # seconds in which a kernel that is not tuned is to be measured
_NEAREST = 3  # schedules of other kernels that a search begins with


def prepare_tasks(
    tasks: Sequence[Task], laboratory: Laboratory, database: Database, search: str, seed: int
) -> list[TaskProgress]:
    """Measure the kernels, and begin a search for each that is worth it; the most expensive first."""
    tunable = [task for task in tasks if task.default is not None]
    before = laboratory.measure_rates()
    prepared = laboratory.prepare(tunable)
    rest = _prepare_rest([task for task in tasks if task.default is None], laboratory)
    total = sum(each.seconds * each.task.calls for each in (*prepared, *rest))
    rates = before.join(laboratory.measure_rates())
    found = []
    for each in sorted(prepared, key=lambda p: -p.seconds * p.task.calls):
        share = each.seconds * each.task.calls / total
        task = each.task
        assert task.default is not None
        space = make_space(task.default, task.others, task.target)
        if share < _LEAST_SHARE or not space.knobs:
            continue
        made = TaskProgress(each, space, make_search(search, space, seed), share, _bound_share(each, rates))
        others = (space.find(schedule) for schedule in task.others)
        made.suggested.extend(point for point in others if point is not None)
        made.suggested.extend(_list_nearest(task, space, database))
        found.append(made)
    return found


def _prepare_rest(tasks: Sequence[Task], laboratory: Laboratory) -> list[Prepared]:
    """Measure the kernels that are not tuned, of which the program's time is a part; none where that cannot be.

    Such a kernel may be a loop that ends by what it computes, and have no end on numbers that are drawn.
    """
    try:
        return laboratory.prepare(tasks, Limits(timeout=_REST_SECONDS, cpu_seconds=_REST_SECONDS, bundles=False))
    except FleetError:  # of the machine, and not of a kernel
        raise
    except TilewrightError:
        return []


def _bound_share(prepared: Prepared, rates: Rates) -> float:
    """How near a kernel's default is to what the machine can do; 0 where that is not known.

    That is where several threads share it, and where it took less time than it can: something else had slowed down what
    the machine's rates were measured by. These are those of vectors: what matrices in registers can do is not known.
    """
    task = prepared.task
    matrices = task.default is not None and any(stage.splits for stage in task.default.stages)
    share = rates.least_seconds(0 if matrices else task.flops, task.bytes) / prepared.seconds
    return share if task.threads == 1 and share <= 1 else 0.0


def _list_nearest(task: Task, space: Space, database: Database) -> list[Point]:
    """The points like the best schedules of other kernels whose loops have the same names, the most alike first."""
    assert task.default is not None
    shape = _loop_extents(task.default)
    found: list[tuple[float, Schedule]] = []
    for trial in _list_best(database, task):
        with contextlib.suppress(ScheduleError):
            schedule = Schedule.from_json(trial.schedule)
            other = _loop_extents(schedule)
            if other.keys() == shape.keys():
                distance = sum(abs(math.log2(max(shape[n], 1)) - math.log2(max(other[n], 1))) for n in shape)
                found.append((distance, schedule))
    points = []
    for _, schedule in sorted(found, key=lambda pair: pair[0])[:_NEAREST]:
        with contextlib.suppress(ScheduleError):
            point = space.find(schedule)
            points += [point] if point is not None and point != space.default and point not in points else []
    return points


def _list_best(database: Database, task: Task) -> list[Trial]:
    """The best trial of each other kernel of the target that was made faster."""
    best: dict[str, Trial] = {}
    for trial in database.trials(target=target_key(task.target), threads=task.threads):
        if trial.kernel != task.name and trial.ratio < min(
            1.0, best[trial.kernel].ratio if trial.kernel in best else 1.0
        ):
            best[trial.kernel] = trial
    return list(best.values())


def _loop_extents(schedule: Schedule) -> dict[str, int]:
    axes = (axis for value in schedule.values for axis in (*value.axes, *value.sums))
    return {axis.name: axis.extent for axis in axes if isinstance(axis.extent, int)}
