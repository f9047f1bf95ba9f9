"""``tune``: from a model to schedules that make it faster, kept where compilations find them."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ..core.dims import InputShapes
from ..core.errors import InputError
from ..core.scratch import scratch_folder
from ..core.target import Target
from ..driver import api
from ..driver.compilation import CompilationSource
from ..records.database import Database
from ..records.lookup import find_winners, user_file
from ..records.trial import target_key
from ..te.computation import Computation
from ..te.schedule import Schedule
from .budget import Budget, parse_seconds
from .expressions import make_computation
from .fleet.address import Fleet
from .fleet.client import reach_fleet
from .fleet.laboratory import FleetLaboratory
from .laboratory import Laboratory
from .measuring.racing import UNCHANGED
from .plan_choices import SettledPlan, join_ratios
from .progress import TaskProgress, estimate_ratio
from .result import TaskResult, TuningResult
from .search.table import SEARCHES
from .session import DEFAULT_SECONDS, Given, Session, TuningListener
from .task import Task
from .verdict import NetworkVerdict
from .winners import keep_winners

# Of a search that has no other end than its time: when nothing gets better for so long, and in so many trials, that is
# the end, too.
_PART_OF_FLAT, _FLAT_TRIALS = 0.25, 60
# Why a kernel has had no search: as a rule, and where none has.
_UNWORTHY = "it takes too little of the time, or has nothing to choose"
_UNTRIED = f"{_UNWORTHY}, or the search was interrupted before"


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
        folder = Path(stack.enter_context(scratch_folder()))
        accepted = find_winners(options.target, options.threads, None if records is None else [path])
        given = Given(_settle_source(source, args, name), input_shapes, options, accepted, workers, name)
        base = given.plan(folder, {})
        laboratory = stack.enter_context(_open_laboratory(machines, options.target, options.threads, workers))
        session = Session(given, base, database, laboratory, budget, folder, progress)
        settled = session.settle_plan()
        session.search(settled.plan, search, seed)
        verdict, taken = session.settle_winners(settled.plan)
        schedules = keep_winners(database, session.name, session.found, verdict, taken, accepted)
        return _make_result(session, settled, verdict, schedules)


def _make_budget(time: str | float | None, trials: int | None, until_flat: str | float | None) -> Budget:
    """The user's ends of a search, or the default one. Raises InputError for what is none."""
    seconds = None if time is None else _seconds(time, "time")
    flat = None if until_flat is None else _seconds(until_flat, "until_flat")
    if trials is not None and trials < 1:
        raise InputError(f"trials is {trials}: give a number from 1 on")
    if (flat, trials) != (None, None):
        return Budget(seconds, trials, flat)
    seconds = seconds or DEFAULT_SECONDS
    return Budget(seconds, None, seconds * _PART_OF_FLAT, _FLAT_TRIALS)


def _open_laboratory(fleet: Fleet | None, target: Target, threads: int, workers: int | None) -> Laboratory:
    return FleetLaboratory(fleet, target, threads, workers) if fleet else Laboratory(target, threads, workers)


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


def _make_result(
    session: Session, settled: SettledPlan, verdict: NetworkVerdict, schedules: dict[str, Any]
) -> TuningResult:
    """What came of a search, of its plan and of the winners in the network."""
    found, budget, options = session.found, session.budget, session.given.options
    wrong = [*_describe_wrong(session.database, found), *([verdict.wrong] if verdict.wrong else [])]
    return TuningResult(
        session.name,
        str(options.target),
        options.threads,
        _list_results(session.tasks, found, set(verdict.accepted), _UNWORTHY if found else _UNTRIED),
        join_ratios(settled.verdict.ratio, verdict.ratio),
        estimate_ratio(found),
        (*settled.verdict.contests, *verdict.contests),
        budget.used_trials,
        session.seconds,
        str(session.database.path),
        schedules,
        tuple(wrong),
        tuple(session.laboratory.notes),
        settled.results,
        session.end,
        verdict.stays,
    )


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
