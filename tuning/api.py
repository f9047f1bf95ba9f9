"""``tune``: from a model to schedules that make it faster, kept where compilations find them."""

from __future__ import annotations

import contextlib
import json
import math
import signal
import tempfile
import threading
import time as clock
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any

from ..core.dims import InputShapes
from ..core.errors import InputError, ScheduleError
from ..core.target import Target
from ..driver import api
from ..driver.compilation import Compilation, CompilationSource
from ..driver.jobs import Planned
from ..driver.machine import Rates
from ..driver.options import Options
from ..passes.schedule.language.schedule import Schedule as KernelSchedule
from ..records.database import Database
from ..records.lookup import user_file
from ..records.trial import Trial, Winner, target_key
from ..records.tuned import TunedSchedules
from ..te.computation import Computation
from ..te.schedule import Schedule
from .budget import Budget, parse_seconds
from .engine import Engine
from .expressions import make_computation
from .fleet.address import Fleet
from .fleet.client import reach_fleet
from .fleet.engine import FleetEngine
from .fleet.laboratory import FleetLaboratory, FleetNetwork
from .laboratory import Laboratory, Prepared
from .measuring.racing import UNCHANGED
from .network import NetworkVerdict, TunedNetwork, settle_winners
from .plan_choices import NetworkPlan, SettledPlan, join_ratios, make_winners, settle_plan
from .plan_trials import PlanTrials
from .progress import TaskProgress, estimate_ratio
from .result import TaskResult, TuningResult
from .search.table import SEARCHES, make_search
from .spaces.nest_space import NestSpace
from .spaces.space import Point
from .task import Task
from .tasks import begin_compilation, make_tasks, plan_network

_DEFAULT_SECONDS = 300.0
# Of a task's share of the program's time: less is not worth a trial.
_LEAST_SHARE = 0.002
# Seconds of a contest of programs in one process: a part of the search's, between bounds.
_CONTEST_PART, _LEAST_CONTEST, _MOST_CONTEST = 0.03, 3.0, 12.0
# Of halves of the winners, which are tried where all of them are not faster: a part of the search's, or what is enough
# for a few of them.
_PART_OF_HALVES, _LEAST_OF_HALVES = 0.5, 30.0
# Of a search: in less there is no time for other plans, which count as this part of it at most.
_LEAST_OF_PLANS, _PART_OF_PLANS = 30.0, 0.5
# Of a search that has no other end than its time: when nothing gets better for so long, and in so many trials, that is
# the end, too.
_PART_OF_FLAT, _FLAT_TRIALS = 0.25, 60
# Why a kernel has had no search: as a rule, and where none has.
_UNWORTHY = "it takes too little of the time, or has nothing to choose"
_UNTRIED = f"{_UNWORTHY}, or the search was interrupted before"
_NEAREST = 3  # schedules of other kernels that a search begins with


@dataclass
class Tuning:
    """Tuning under way, as ``progress`` sees it: in which ``stage`` it is, and what is known of each task.

    ``notes`` are lines about machines that measure, as they come.
    """

    name: str
    stage: str
    tasks: Sequence[TaskProgress]
    budget: Budget
    notes: Sequence[str] = ()

    @property
    def estimate(self) -> float:
        """The program's time over the default's, by the kernels' own times."""
        return estimate_ratio(list(self.tasks))


TuningListener = Callable[[Tuning], object]


def tune(
    source: Any,
    args: Sequence[Any] | None = None,
    target: str | Target = "x86",
    input_shapes: InputShapes | None = None,
    num_threads: int | None = None,
    *,
    time: str | float | None = None,
    trials: int | None = None,
    until_flat: str | float | None = None,
    search: str = "pattern",
    records: str | Path | None = None,
    seed: int = 0,
    workers: int | None = None,
    name: str = "",
    fleet: str | Fleet | None = None,
    progress: TuningListener = lambda tuning: None,
) -> TuningResult:
    """Search for faster schedules of a model's kernels, and keep those with which the model is faster for certain.

    Args:
        source: an ONNX model, as ``compile`` takes it; or with ``args`` a tensor expression: a function that is called
            with these, or a schedule whose stages have ``auto()`` and whose tensors these are. Such a function returns
            what it computes from the tensors that it is given; of other arguments it makes its tensors, and returns
            them all.
        target, input_shapes, num_threads: as for ``compile``, which finds the schedules for the same of these.
        time: how long to search, as "5m" or in seconds; five minutes where no other end is given.
        trials: how many schedules to measure at most.
        until_flat: the search ends when the program's time has not improved for so long; for a quarter of ``time``, and
            in 60 trials, where neither this nor ``trials`` is given.
        search: "pattern", "random", "grid", "genetic", "evolution", "annealing" (which needs xgboost), "tpe" or "cmaes"
            (which need optuna).
        records: the file that keeps what was measured; by default the user's own.
        seed: of the searches. workers: processes that compile. name: of what is tuned, in records.
        fleet: the scheduler of machines that measure in place of this one, as "tls://host:port" or a ``Fleet``.
        progress: is called after each trial.

    The same call goes on where an earlier one ended, however it did: what was measured is not measured again. Ctrl-C
    ends the search, and what it found until then is tried in the network; one then leaves it at what was tried. Two in
    a row end the call.

    Raises InputError for what is no time or search, RecordError for a file that has no records, FleetError where no
    machine of a fleet can measure, and as ``compile``.
    """
    if search not in SEARCHES:
        raise InputError(f"search is '{search}': choose from {', '.join(SEARCHES)}")
    budget = _make_budget(time, trials, until_flat)
    machines = reach_fleet(fleet) if fleet is not None else None
    path = Path(records) if records is not None else user_file()
    options = api.make_options(target, num_threads, records=False)  # what is tuned are the compiler's own schedules
    with contextlib.ExitStack() as stack:
        database = stack.enter_context(Database.open(path))
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="tilewright-")))
        given = _settle_source(source, args, name)

        def replan(choices: Mapping[str, int]) -> NetworkPlan:
            made = begin_compilation(given, input_shapes, _with_choices(options, choices), workers)
            return NetworkPlan(made, plan_network(made, str(folder)))

        plan = replan({})
        label, target, threads = name or plan.planned.name, plan.compilation.options.target, options.threads
        laboratory = stack.enter_context(_open_laboratory(machines, target, threads, workers))

        def listen(stage: str, found: Sequence[TaskProgress]) -> None:
            progress(Tuning(label, stage, found, budget, laboratory.notes))

        def make_network(plan: NetworkPlan) -> TunedNetwork:
            own = Path(tempfile.mkdtemp(dir=folder))
            return _make_network(laboratory, plan.compilation, plan.planned, own)

        def is_planned() -> bool:
            return budget.interrupted or planning.is_over

        most = (budget.seconds or _DEFAULT_SECONDS) * _PART_OF_PLANS
        settled, planning = SettledPlan(plan), Budget(most)
        with _end_on_interrupt(budget.interrupt):
            if plan.planned.choices and (budget.seconds is None or budget.seconds >= _LEAST_OF_PLANS):
                listen("trying other plans of the network", [])
                known = PlanTrials(database, target, threads, _own_version())
                settled = settle_plan(plan, replan, laboratory, make_network, _LEAST_CONTEST, known, is_planned)
                _keep_choices(database, label, plan, settled)
            used = min(planning.used_seconds, most)
            tasks = make_tasks(settled.plan.compilation, settled.plan.planned.plan)
            listen("measuring the kernels", [])
            found = [] if budget.interrupted else _prepare_tasks(tasks, laboratory, database, search, seed)
            kind = FleetEngine if machines else Engine
            engine = kind(laboratory, found, database, budget, _own_version(), lambda e: listen("searching", e.tasks))
            budget.start(used)
            engine.run()
        listen("trying the winners in the network", found)
        network = make_network(settled.plan)
        seconds = min(max(_LEAST_CONTEST, _CONTEST_PART * budget.used_seconds), _MOST_CONTEST)
        halves = Budget(max(_LEAST_OF_HALVES, _PART_OF_HALVES * budget.used_seconds))
        with _end_on_interrupt(halves.interrupt):
            verdict = _settle(network, found, seconds, lambda: halves.is_over)
        accepted = _keep(database, label, found, verdict)
        wrong = [*_describe_wrong(database, found), *([verdict.wrong] if verdict.wrong else [])]
        return TuningResult(
            label,
            str(target),
            threads,
            _list_results(tasks, found, set(verdict.accepted), _UNWORTHY if found else _UNTRIED),
            join_ratios(settled.verdict.ratio, verdict.ratio),
            estimate_ratio(found),
            (*settled.verdict.contests, *verdict.contests),
            budget.used_trials,
            budget.used_seconds,
            str(path),
            accepted,
            tuple(wrong),
            tuple(laboratory.notes),
            settled.results,
            engine.end,
        )


def _keep_choices(database: Database, name: str, plan: NetworkPlan, settled: SettledPlan) -> None:
    """Let compilations find the decisions that the network has accepted, and no others of these."""
    options = plan.compilation.options
    database.reject([choice.key for choice in plan.planned.choices], target_key(options.target), options.threads)
    database.accept(make_winners(settled, name, _own_version()))


def _with_choices(options: Options, choices: Mapping[str, int]) -> Options:
    """The options of a compilation that takes these decisions of graph passes, and no schedules."""
    key, threads = target_key(options.target), options.threads
    found = {name: Winner(name, key, threads, "{}", json.dumps([option])) for name, option in choices.items()}
    return replace(options, records=TunedSchedules({options.target: found}))


def _make_budget(time: str | float | None, trials: int | None, until_flat: str | float | None) -> Budget:
    """The user's ends of a search, or the default one. Raises InputError for what is none."""
    seconds = None if time is None else _seconds(time, "time")
    flat = None if until_flat is None else _seconds(until_flat, "until_flat")
    if trials is not None and trials < 1:
        raise InputError(f"trials is {trials}: give a number from 1 on")
    if (flat, trials) != (None, None):
        return Budget(seconds, trials, flat)
    seconds = seconds or _DEFAULT_SECONDS
    return Budget(seconds, None, seconds * _PART_OF_FLAT, _FLAT_TRIALS)


def _open_laboratory(fleet: Fleet | None, target: Target, threads: int, workers: int | None) -> Laboratory:
    return FleetLaboratory(fleet, target, threads, workers) if fleet else Laboratory(target, threads, workers)


def _make_network(laboratory: Laboratory, compilation: Compilation, planned: Planned, folder: Path) -> TunedNetwork:
    """The network, whose programs run where its kernels do."""
    kind = partial(FleetNetwork, laboratory=laboratory) if isinstance(laboratory, FleetLaboratory) else TunedNetwork
    return kind(compilation, planned, folder, laboratory.threads, laboratory.measuring_cpus)


def _settle_source(source: Any, args: Sequence[Any] | None, name: str) -> CompilationSource:
    """A model, or a tensor expression. Raises InputError for what is neither, ExpressionError as in the first."""
    if isinstance(source, Computation):
        return (source,)
    if isinstance(source, Schedule) or (callable(source) and args is not None):
        return (make_computation(source, args or (), name),)
    if args is not None:
        raise InputError("args are those of a tensor expression: give a function or a schedule with them")
    return api.settled_source(source)


def _seconds(given: str | float, what: str) -> float:
    return parse_seconds(given if isinstance(given, str) else f"{given:g}", what)


def _prepare_tasks(
    tasks: Sequence[Task], laboratory: Laboratory, database: Database, search: str, seed: int
) -> list[TaskProgress]:
    """Measure the kernels, and begin a search for each that is worth it; the most expensive first."""
    tunable = [task for task in tasks if task.default is not None]
    before = laboratory.measure_rates()
    prepared = laboratory.prepare(tunable)
    total = sum(each.seconds * each.task.calls for each in prepared)
    rates = before.join(laboratory.measure_rates())
    found = []
    for each in sorted(prepared, key=lambda p: -p.seconds * p.task.calls):
        share = each.seconds * each.task.calls / total
        task = each.task
        assert task.default is not None
        space = NestSpace(task.default, task.target)
        if share < _LEAST_SHARE or not space.knobs:
            continue
        made = TaskProgress(each, space, make_search(search, space, seed), share, _bound_share(each, rates))
        made.suggested.extend(_list_nearest(task, space, database))
        found.append(made)
    return found


def _bound_share(prepared: Prepared, rates: Rates) -> float:
    """How near a kernel's default is to what the machine can do; 0 where that is not known.

    That is where several threads share it, and where it took less time than it can: something else had slowed down what
    the machine's rates were measured by.
    """
    task = prepared.task
    share = rates.least_seconds(task.flops, task.bytes) / prepared.seconds
    return share if task.threads == 1 and share <= 1 else 0.0


def _list_nearest(task: Task, space: NestSpace, database: Database) -> list[Point]:
    """The points like the best schedules of other kernels whose loops have the same names, the most alike first."""
    assert task.default is not None
    shape = _loop_extents(task.default)
    found: list[tuple[float, KernelSchedule]] = []
    for trial in _list_best(database, task):
        with contextlib.suppress(ScheduleError):
            schedule = KernelSchedule.from_json(trial.schedule)
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


def _loop_extents(schedule: KernelSchedule) -> dict[str, int]:
    axes = (axis for value in schedule.values for axis in (*value.axes, *value.sums))
    return {axis.name: axis.extent for axis in axes if isinstance(axis.extent, int)}


def _settle(
    network: TunedNetwork, tasks: Sequence[TaskProgress], seconds: float, is_over: Callable[[], bool]
) -> NetworkVerdict:
    """Try the schedules that are faster than their defaults in the network."""
    winners, gains = {}, {}
    for task in tasks:
        if task.best_point is None or task.best.high >= 1:
            continue
        schedule = task.space.schedule(task.best_point)
        if schedule is not None:
            winners[task.name] = schedule
            gains[task.name] = task.share * (1 - task.best.ratio)
    return settle_winners(network, winners, gains, seconds, is_over)


def _keep(database: Database, name: str, tasks: Sequence[TaskProgress], verdict: NetworkVerdict) -> dict[str, Any]:
    """Let compilations find what the network has accepted; returns the schedules' JSON by kernel."""
    schedules, winners = {}, []
    for task in tasks:
        if task.name not in verdict.accepted or task.best_point is None:
            continue
        schedule = task.space.schedule(task.best_point)
        assert schedule is not None  # it is a winner
        data = schedules[task.name] = schedule.to_json()
        kernel = task.prepared.task
        winners.append(
            Winner(
                kernel=task.name,
                target=target_key(kernel.target),
                threads=kernel.threads,
                values=json.dumps(data["values"]),
                steps=json.dumps(data["steps"]),
                default_steps=kernel.default_steps,
                ratio=task.best.ratio,
                low=task.best.low,
                high=task.best.high,
                network=name,
                network_ratio=verdict.ratio.ratio,
                network_low=verdict.ratio.low,
                network_high=verdict.ratio.high,
                version=_own_version(),
                time=clock.time(),
            )
        )
    database.accept(winners)
    return schedules


def _describe_wrong(database: Database, tasks: Sequence[TaskProgress]) -> list[str]:
    """A line for each schedule that computed something else than the default."""
    lines = []
    for task in tasks:
        kernel = task.prepared.task
        trials = database.trials(kernel=task.name, target=target_key(kernel.target), threads=kernel.threads)
        lines += [f"kernel '{task.name}': {trial.reason}: {trial.steps}" for trial in trials if trial.error == "wrong"]
    return lines


def _list_results(
    tasks: Sequence[Task], found: Sequence[TaskProgress], accepted: set[str], unsearched: str
) -> tuple[TaskResult, ...]:
    """What came of each kernel: those that were searched, then the others with the reason, ``unsearched`` as a rule."""
    known = {each.name: each for each in found}
    made = []
    for each in found:
        task = each.prepared.task
        skipped = "it is at its bound" if each.is_close and not each.trials else ""
        correlation = getattr(each.search, "correlation", 0.0)
        made.append(
            TaskResult(
                each.name,
                task.nodes,
                task.calls,
                each.share,
                each.prepared.seconds,
                each.bound_share,
                each.best,
                each.change,
                each.name in accepted,
                each.trials,
                dict(each.failures),
                correlation,
                skipped,
                tuple(each.history),
                each.count_options(),
            )
        )
    for task in tasks:
        if task.name not in known:
            reason = task.reason or unsearched
            made.append(
                TaskResult(
                    task.name, task.nodes, task.calls, 0.0, 0.0, 0.0, UNCHANGED, "", False, 0, {}, skipped=reason
                )
            )
    return tuple(made)


@contextlib.contextmanager
def _end_on_interrupt(end_soon: Callable[[], object]) -> Iterator[None]:
    """Let the first Ctrl-C end what the block does by a call, in the main thread; a second one is as usual."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def end(number: int, frame: object) -> None:
        end_soon()
        signal.signal(signal.SIGINT, before)

    before = signal.signal(signal.SIGINT, end)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def _own_version() -> str:
    return version("tilewright")
