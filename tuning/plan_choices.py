"""Decisions of the graph passes, as Winograd's algorithm or a direct sum: those that make a network faster for certain.

They decide which kernels a network has, so they come before these are tuned. By the times of the kernels alone a few
decisions are found that may be better, and the network has the last word, as on schedules.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from ..core.choices import Choice
from ..driver.compilation import Compilation
from ..driver.jobs import Planned
from ..records.trial import Winner, target_key
from .laboratory import Laboratory
from .measuring.contest import Contest
from .measuring.racing import UNCHANGED, RatioInterval
from .network import NetworkVerdict, TunedNetwork, settle_winners
from .tasks import make_tasks

# Of the time of the kernels that a decision is about: an option has to take less to be tried in the network.
_WORTH = 0.98


@dataclass(frozen=True)
class NetworkPlan:
    """A network as its graph passes leave it."""

    compilation: Compilation
    planned: Planned


# A network's plan with options in place of the rules', by the keys of decisions.
Replan = Callable[[Mapping[str, int]], NetworkPlan]


@dataclass(frozen=True)
class ChoiceResult:
    """What came of a decision: its ``key``, the ``nodes`` that it is about, and the rule's option.

    option: the one whose kernels take the least time, ``ratio`` of what the rule's take. accepted: whether the network
    has taken it.
    """

    key: str
    nodes: tuple[str, ...]
    default: int
    option: int
    ratio: float
    accepted: bool


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
) -> SettledPlan:
    """Find the decisions with which a network is faster for certain; ``seconds`` are those of a contest."""
    costs = _measure_options(base.planned.choices, replan, laboratory)
    best = {choice: min(choice.options, key=lambda o: costs[choice.key, o]) for choice in base.planned.choices}
    gains = {c.key: costs[c.key, c.default] - costs[c.key, option] for c, option in best.items()}
    worth = {c.key: o for c, o in best.items() if costs[c.key, o] < _WORTH * costs[c.key, c.default]}
    verdict = settle_winners(_PlanContests(make_network(base), replan, make_network), worth, gains, seconds)
    accepted = {key: worth[key] for key in verdict.accepted}
    results = tuple(
        ChoiceResult(
            choice.key,
            choice.nodes,
            choice.default,
            option,
            costs[choice.key, option] / max(costs[choice.key, choice.default], 1e-12),
            choice.key in accepted,
        )
        for choice, option in best.items()
    )
    return SettledPlan(replan(accepted) if accepted else base, results, verdict)


def _measure_options(choices: Sequence[Choice], replan: Replan, laboratory: Laboratory) -> dict[tuple[str, int], float]:
    """Seconds of a run that kernels take in which nodes of a decision are, by key and option."""
    costs: dict[tuple[str, int], float] = {}
    times: dict[str, float] = {}
    nodes = {choice.key: set(choice.nodes) for choice in choices}
    for option in sorted({option for choice in choices for option in choice.options}):
        asked = [choice.key for choice in choices if option in choice.options]
        plan = replan(dict.fromkeys(asked, option))
        about = set().union(*(nodes[key] for key in asked))
        calls = plan.planned.plan.main.calls
        wanted = {call.kernel for call in calls if about & {*call.nodes}} - times.keys()
        tasks = [task for task in make_tasks(plan.compilation, plan.planned.plan) if task.name in wanted]
        times |= {each.task.name: each.seconds for each in laboratory.prepare(tasks)}
        for key in asked:
            costs[key, option] = sum(times[call.kernel] for call in calls if nodes[key] & {*call.nodes})
    return costs


@dataclass(frozen=True)
class _PlanContests:
    """A network's plans with some decisions, whose programs run against that of the rules."""

    base: TunedNetwork
    replan: Replan
    make_network: Callable[[NetworkPlan], TunedNetwork]

    def contest(self, winners: Mapping[str, int], seconds: float) -> Contest:
        """Run the program with these decisions against that without."""
        return self.make_network(self.replan(winners)).contest_plan(self.base, seconds)


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
