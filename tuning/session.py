"""A search from its plan to the network's verdict: the steps of ``tune``, and what its listener sees of them."""

from __future__ import annotations

import contextlib
import json
import signal
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

from ..core.dims import InputShapes
from ..driver.compilation import CompilationSource
from ..driver.options import Options
from ..passes.schedule.language.schedule import Schedule
from ..records.database import Database
from ..records.trial import Winner, target_key
from ..records.tuned import TunedSchedules
from .budget import Budget
from .engine import Engine
from .fleet.engine import FleetEngine
from .fleet.laboratory import FleetLaboratory, FleetNetwork
from .laboratory import Laboratory
from .network import TunedNetwork
from .plan_choices import NetworkPlan, SettledPlan, make_winners, settle_plan
from .plan_trials import PlanTrials
from .preparation import prepare_tasks
from .progress import TaskProgress, estimate_ratio
from .task import Task
from .tasks import begin_compilation, make_tasks, plan_network
from .verdict import NetworkVerdict
from .winners import find_options, own_version, try_winners

DEFAULT_SECONDS = 300.0
# Seconds of a contest of programs in one process: a part of the search's, between bounds.
_CONTEST_PART, _LEAST_CONTEST, _MOST_CONTEST = 0.03, 3.0, 12.0
# Of contests of parts of the winners: a part of the search's, or what is enough for a few of them.
_PART_OF_SETS, _LEAST_OF_SETS = 0.5, 30.0
# Of a search: in less there is no time for other plans, which count as this part of it at most.
_LEAST_OF_PLANS, _PART_OF_PLANS = 30.0, 0.4


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


@dataclass(frozen=True)
class Given:
    """What is tuned: a source, with the options of a compilation, and the ``name`` that records have for it.

    ``accepted`` is what compilations of it take from the records, by kernels and decisions.
    """

    source: CompilationSource
    input_shapes: InputShapes | None
    options: Options
    accepted: Mapping[str, Winner]
    workers: int | None = None
    name: str = ""

    def plan(self, folder: Path, choices: Mapping[str, int]) -> NetworkPlan:
        """The network as the passes plan it with these decisions; large weights go to ``folder``."""
        made = begin_compilation(self.source, self.input_shapes, with_choices(self.options, choices), self.workers)
        return NetworkPlan(made, plan_network(made, str(folder)))


def with_choices(options: Options, choices: Mapping[str, int]) -> Options:
    """The options of a compilation that takes these decisions of graph passes, and no schedules."""
    key, threads = target_key(options.target), options.threads
    found = {name: Winner(name, key, threads, "{}", json.dumps([option])) for name, option in choices.items()}
    return replace(options, records=TunedSchedules({options.target: found}))


@dataclass
class Session:
    """One search: ``settle_plan``, ``search`` and ``settle_winners``, in this order."""

    given: Given
    base: NetworkPlan
    database: Database
    laboratory: Laboratory
    budget: Budget
    folder: Path
    progress: TuningListener
    tasks: list[Task] = field(default_factory=list)
    found: list[TaskProgress] = field(default_factory=list)
    end: str = ""  # why the search ended, after so many ``seconds``
    seconds: float = 0.0
    _used: float = 0.0  # seconds of other plans
    _telling: bool = False
    _untold: str = ""

    @property
    def name(self) -> str:
        """What is tuned, as records call it."""
        return self.given.name or self.base.planned.name

    def settle_plan(self) -> SettledPlan:
        """Try other decisions of the plan, where there are any, and time for them.

        Else they are those of the records: what is tuned is what compilations take.
        """
        choices, total = self.base.planned.choices, self.budget.seconds or DEFAULT_SECONDS
        replan = partial(self.given.plan, self.folder)
        if not choices or (self.budget.seconds is not None and total < _LEAST_OF_PLANS):
            options = find_options(self.given.accepted, choices)
            return SettledPlan(replan(options) if options else self.base)
        planning = Budget(total * _PART_OF_PLANS)
        known = PlanTrials(self.database, self.given.options.target, self.laboratory.threads, own_version())

        def count_left() -> float:
            return 0.0 if self.budget.interrupted else max(0.0, total * _PART_OF_PLANS - planning.used_seconds)

        with self._end_on_interrupt(self.budget.interrupt, "what was found until now goes to the network"):
            self._listen("trying other plans of the network")
            settled = settle_plan(
                self.base, replan, self.laboratory, self._make_network, _LEAST_CONTEST, known, count_left
            )
        self._keep_options(settled)
        self._used = min(planning.used_seconds, total * _PART_OF_PLANS)
        return settled

    def _keep_options(self, settled: SettledPlan) -> None:
        """Let compilations find the decisions that the network has accepted, and no others of these.

        One that was not tried, because of an interrupt, stays as it was.
        """
        options, tried = self.given.options, [each.key for each in settled.results if not each.untried]
        self.database.reject(tried, target_key(options.target), options.threads)
        self.database.accept(make_winners(settled, self.name, own_version()))

    def search(self, plan: NetworkPlan, search: str, seed: int) -> None:
        """Measure the kernels of a plan, and search for better schedules until the budget is spent."""
        with self._end_on_interrupt(self.budget.interrupt, "what was found until now goes to the network"):
            self.tasks = make_tasks(plan.compilation, plan.planned.plan)
            if not self.budget.interrupted:
                self._listen("measuring the kernels")
                self.found = prepare_tasks(self.tasks, self.laboratory, self.database, search, seed)
            kind = FleetEngine if isinstance(self.laboratory, FleetLaboratory) else Engine
            engine = kind(
                self.laboratory,
                self.found,
                self.database,
                self.budget,
                own_version(),
                lambda _: self._listen("searching"),
            )
            self.budget.start(self._used)
            engine.run()
        self.end, self.seconds = engine.end, self.budget.used_seconds

    def settle_winners(self, plan: NetworkPlan) -> tuple[NetworkVerdict, dict[str, Schedule]]:
        """What the network says of the schedules that won, and those that it accepts."""
        seconds = min(max(_LEAST_CONTEST, _CONTEST_PART * self.budget.used_seconds), _MOST_CONTEST)
        sets = Budget(max(_LEAST_OF_SETS, _PART_OF_SETS * self.budget.used_seconds))
        with self._end_on_interrupt(sets.interrupt, "the contest under way is the last"):
            return try_winners(self._make_network(plan), self.found, self.given.accepted, seconds, lambda: sets.is_over)

    def _make_network(self, plan: NetworkPlan) -> TunedNetwork:
        """The network, whose programs run where its kernels do."""
        folder, laboratory = Path(tempfile.mkdtemp(dir=self.folder)), self.laboratory
        kind = partial(FleetNetwork, laboratory=laboratory) if isinstance(laboratory, FleetLaboratory) else TunedNetwork
        network = kind(plan.compilation, plan.planned, folder, laboratory.threads, laboratory.measuring_cpus)
        network.told = lambda what: self._listen(f"trying {what} in the network")
        return network

    def _listen(self, stage: str) -> None:
        """Let the listener see the search as it is now."""
        self._telling = True
        self.progress(Tuning(self.name, stage, self.found, self.budget, self.laboratory.notes))
        self._telling = False
        self._tell_rest()

    def _tell_rest(self) -> None:
        """Let the listener hear what came while it heard something else."""
        if self._untold and not self._telling:
            stage, self._untold = self._untold, ""
            self._listen(stage)

    @contextlib.contextmanager
    def _end_on_interrupt(self, end_soon: Callable[[], object], then: str) -> Iterator[None]:
        """Let the first Ctrl-C end what the block does by a call, in the main thread; a second one is as usual.

        The listener hears what comes ``then``: at once, or after what it is just hearing.
        """
        if threading.current_thread() is not threading.main_thread():
            yield
            return

        def end(number: int, frame: object) -> None:
            end_soon()
            signal.signal(signal.SIGINT, before)
            self._untold = f"interrupted: {then}"
            self._tell_rest()

        before = signal.signal(signal.SIGINT, end)
        try:
            yield
        finally:
            signal.signal(signal.SIGINT, before)
