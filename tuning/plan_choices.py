"""Decisions of the graph passes, as Winograd's algorithm or a direct sum: those that make a network faster for certain.

They decide which kernels a network has, so they come before these are tuned. By the times of the kernels alone a few
decisions are found that may be better, and the network has the last word, as on schedules.
"""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from ..core.choices import Choice
from ..core.program import Call
from ..driver.compilation import Compilation
from ..driver.jobs import Planned
from ..records.trial import Trial, Winner, target_key
from .laboratory import Laboratory, Prepared
from .measuring.contest import Contest
from .measuring.racing import UNCHANGED, RatioInterval
from .network import TunedNetwork
from .plan_trials import PlanTrials, name_network
from .tasks import make_tasks
from .verdict import IsOver, NetworkVerdict, settle_winners

# Of the time of the kernels that a decision is about: an option has to take less to be tried in the network.
_WORTH = 0.98
# Of all kernels of two plans, in which each is measured; and where there is no time for so many.
_PLAN_ROUNDS, _LEAST_ROUNDS = 6, 2
# Of a run's time: a decision about kernels that take less is not worth a plan.
_LEAST_PART = 0.005
# Of the time for other plans, the contests' part, of which one takes a ninth, but no less than a second: it is three
# processes that may take three times as long each.
_PART_OF_CONTESTS, _PART_OF_CONTEST, _LEAST_CONTEST = 0.4, 1 / 9, 1.0
_UNTIMELY, _UNWORTHY = "there was no time left for them", "their kernels take too little of the time"


@dataclass(frozen=True)
class NetworkPlan:
    """A network as its graph passes leave it."""

    compilation: Compilation
    planned: Planned


# A network's plan with options in place of the rules', by the keys of decisions.
Replan = Callable[[Mapping[str, int]], NetworkPlan]
# The seconds that are left for other plans.
SecondsLeft = Callable[[], float]


@dataclass(frozen=True)
class ChoiceResult:
    """What came of a decision: its ``key``, the ``nodes`` that it is about, and the rule's option.

    option: the one whose kernels take the least time, ``ratio`` of what the rule's take. accepted: whether the network
    has taken it. untried: the options that were not measured, for this ``reason``.
    """

    key: str
    nodes: tuple[str, ...]
    default: int
    option: int
    ratio: float
    accepted: bool
    untried: tuple[int, ...] = ()
    reason: str = ""


@dataclass(frozen=True)
class SettledPlan:
    """The plan with the decisions that the network has accepted, and what came of all of them."""

    plan: NetworkPlan
    results: tuple[ChoiceResult, ...] = ()
    verdict: NetworkVerdict = field(default_factory=lambda: NetworkVerdict((), UNCHANGED))


def settle_plan(
    base: NetworkPlan,
    replan: Replan,
    laboratory: Laboratory,
    make_network: Callable[[NetworkPlan], TunedNetwork],
    seconds: float,
    trials: PlanTrials,
    seconds_left: SecondsLeft = lambda: math.inf,
) -> SettledPlan:
    """Find the decisions with which a network is faster for certain; ``seconds`` are those of a contest at most.

    What ``trials`` have is not measured again. When no ``seconds_left`` are there, nothing is measured any more but all
    that seems faster together, in the network.
    """
    choices = base.planned.choices
    found, small = _measure_options(base, replan, laboratory, trials, seconds_left)
    ratios = {c.key: {c.default: 1.0} | {o: trial.ratio for o, trial in found[c.key].items()} for c in choices}
    best = {key: min(tried, key=tried.__getitem__) for key, tried in ratios.items()}
    worth = {key: option for key, option in best.items() if ratios[key][option] < _WORTH}
    gains = {key: found[key][o].default_seconds[0] * (1 - ratios[key][o]) for key, o in worth.items()}
    seconds = min(seconds, max(_LEAST_CONTEST, seconds_left() * _PART_OF_CONTEST))
    contests = _PlanContests(base, replan, make_network, trials)
    verdict = settle_winners(contests, worth, gains, seconds, lambda: seconds_left() <= 0)
    accepted = {key: worth[key] for key in verdict.accepted}
    results = []
    for choice in choices:
        key, untried = choice.key, tuple(o for o in choice.options if o not in ratios[choice.key])
        reason = (_UNWORTHY if key in small else _UNTIMELY) if untried else ""
        option = best[key]
        results.append(
            ChoiceResult(
                key, choice.nodes, choice.default, option, ratios[key][option], key in accepted, untried, reason
            )
        )
    return SettledPlan(replan(accepted) if accepted else base, tuple(results), verdict)


def _measure_options(
    base: NetworkPlan, replan: Replan, laboratory: Laboratory, trials: PlanTrials, seconds_left: SecondsLeft
) -> tuple[dict[str, dict[int, Trial]], set[str]]:
    """The trials of options other than the rule's, by key and option, and the keys that are not worth one.

    Decisions of one kind are tried together, since each has kernels of its own; others stay as the rules have them.
    Those come first whose kernels take most of the time, and none of which the last one's time would be too much.
    """
    choices, clock = base.planned.choices, _PlanClock(laboratory)
    found = {choice.key: trials.find_options(choice) for choice in choices}
    groups = list[tuple[int, list[Choice]]]()
    for kind, option in sorted({(choice.kind, option) for choice in choices for option in choice.options}):
        alike = [c for c in choices if c.kind == kind and option in c.options and option != c.default]
        asked = [c for c in alike if option not in found[c.key]]
        groups += [(option, asked)] if asked else []
    if not groups or (total := seconds_left()) <= 0:
        return found, set()
    began = time.monotonic()
    parts = clock.measure_parts(base, [c for c in choices if any(c in asked for _, asked in groups)])
    small = {key for key, part in parts.items() if part < _LEAST_PART}
    groups = [(option, [c for c in asked if c.key not in small]) for option, asked in groups]
    groups.sort(key=lambda group: -sum(parts[c.key] for c in group[1]))
    last, kept = time.monotonic() - began, _PART_OF_CONTESTS * total if total < math.inf else 0.0
    for option, asked in groups:
        if not asked or seconds_left() < last + kept:
            break
        began = time.monotonic()
        plan = replan(dict.fromkeys([choice.key for choice in asked], option))
        times = clock.compare(plan, base, asked, lambda: seconds_left() < kept)
        for choice in asked:
            found[choice.key][option] = trials.keep_option(choice, option, *times[choice.key])
        last = time.monotonic() - began
    return found, small


@dataclass
class _PlanClock:
    """How long the kernels take which decisions are about."""

    laboratory: Laboratory
    _prepared: dict[str, Prepared] = field(default_factory=dict)

    def measure_parts(self, base: NetworkPlan, choices: Sequence[Choice]) -> dict[str, float]:
        """The part of a run's time that kernels take which a decision is about, by key."""
        calls = base.planned.plan.main.calls
        every = {call.kernel for call in calls}
        self._prepare(base, every)
        timed = _Timed(calls, self._measure(every, 1))
        total = max(sum(timed.seconds[call.kernel] for call in calls), 1e-12)
        return {choice.key: timed.add_up(_follow_nodes(choice.nodes, calls)) / total for choice in choices}

    def compare(
        self, plan: NetworkPlan, base: NetworkPlan, choices: Sequence[Choice], is_late: IsOver
    ) -> dict[str, tuple[float, float]]:
        """Seconds of a run of both plans that kernels take which a decision is about, by key; fewer rounds if late.

        Those are the kernels with nodes of the decision, and with nodes of these kernels: an op that does not belong
        to one kernel any more may belong to the next, which has nodes that the decision does not know of.
        """
        calls = [*plan.planned.plan.main.calls, *base.planned.plan.main.calls]
        about = {choice.key: _follow_nodes(choice.nodes, calls) for choice in choices}
        every = set[str]().union(*about.values())
        wanted = {call.kernel for call in calls if every & {*call.nodes}}
        self._prepare(plan, wanted)
        self._prepare(base, wanted)
        times = self._measure(wanted, _PLAN_ROUNDS, is_late)
        mine, other = (_Timed(each.planned.plan.main.calls, times) for each in (plan, base))
        return {key: (mine.add_up(own), max(other.add_up(own), 1e-12)) for key, own in about.items()}

    def _prepare(self, plan: NetworkPlan, wanted: set[str]) -> None:
        if new := wanted - self._prepared.keys():
            tasks = [task for task in make_tasks(plan.compilation, plan.planned.plan) if task.name in new]
            self._prepared |= {each.task.name: each for each in self.laboratory.prepare(tasks)}

    def _measure(self, wanted: set[str], most: int, is_late: IsOver = lambda: False) -> dict[str, float]:
        """Seconds of a call of each kernel: the least of some rounds, as others may disturb whole rounds."""
        kernels, rounds = [self._prepared[name] for name in sorted(wanted)], list[list[float]]()
        while len(rounds) < most and not (len(rounds) >= _LEAST_ROUNDS and is_late()):
            rounds.append(self.laboratory.time_again(kernels))
        return {each.task.name: min(found) for each, *found in zip(kernels, *rounds, strict=True)}


@dataclass(frozen=True)
class _Timed:
    """The calls of a program, and the seconds of a call of each kernel."""

    calls: Sequence[Call]
    seconds: Mapping[str, float]

    def add_up(self, nodes: set[str]) -> float:
        """Seconds of the calls that compute some of the nodes."""
        return sum(self.seconds[call.kernel] for call in self.calls if nodes & {*call.nodes})


def _follow_nodes(nodes: Sequence[str], calls: Sequence[Call]) -> set[str]:
    """The nodes, those that calls compute together with them, and so on."""
    known, grown = set[str](), {*nodes}
    while known != grown:
        known, grown = grown, grown.union(*(call.nodes for call in calls if grown & {*call.nodes}))
    return known


@dataclass(frozen=True)
class _PlanContests:
    """A network's plans with some decisions, whose programs run against that of the rules."""

    base: NetworkPlan
    replan: Replan
    make_network: Callable[[NetworkPlan], TunedNetwork]
    trials: PlanTrials

    @cached_property
    def own(self) -> TunedNetwork:
        """The network as the rules plan it."""
        return self.make_network(self.base)

    def contest(self, winners: Mapping[str, int], seconds: float) -> Contest:
        """Run the program with these decisions against that without, unless that was done before."""
        name = name_network(self.base.planned.plan.main)
        if (found := self.trials.find_contest(name, winners)) is None:
            found = self.make_network(self.replan(winners)).contest_plan(self.own, seconds)
            self.trials.keep_contest(name, winners, found)
        return found


def make_winners(settled: SettledPlan, name: str, version: str) -> list[Winner]:
    """The records by which compilations of a network, or of another one with the same decisions, take the options."""
    options, whole = settled.plan.compilation.options, settled.verdict.ratio
    return [
        Winner(
            kernel=each.key,
            target=target_key(options.target),
            threads=options.threads,
            values=json.dumps({}),
            steps=json.dumps([each.option]),
            default_steps=json.dumps([each.default]),
            ratio=each.ratio,
            low=each.ratio,
            high=each.ratio,
            network=name,
            network_ratio=whole.ratio,
            network_low=whole.low,
            network_high=whole.high,
            version=version,
            time=time.time(),
        )
        for each in settled.results
        if each.accepted
    ]


def join_ratios(first: RatioInterval, second: RatioInterval) -> RatioInterval:
    """The ratio of two changes, one after the other."""
    return RatioInterval(first.ratio * second.ratio, first.low * second.low, first.high * second.high)
