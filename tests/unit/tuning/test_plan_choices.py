"""Decisions of the graph passes: what passes ask, what compilations take from records, and what tuning finds."""

from __future__ import annotations

import itertools
import math
import os
import signal
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

import tilewright as tw
from tilewright.core.choices import PREFIX, Choice, choose_option, collect_choices
from tilewright.core.target import Target
from tilewright.driver import api
from tilewright.records.database import Database
from tilewright.records.trial import Winner, target_key
from tilewright.tuning import plan_choices
from tilewright.tuning import session as tuning_session
from tilewright.tuning.measuring.contest import Contest
from tilewright.tuning.measuring.racing import RatioInterval
from tilewright.tuning.plan_choices import (
    ChoiceResult,
    NetworkPlan,
    SettledPlan,
    join_ratios,
    make_winners,
    settle_plan,
)
from tilewright.tuning.plan_trials import PlanTrials
from tilewright.tuning.session import Tuning, with_choices
from tilewright.tuning.tasks import begin_compilation, plan_network
from tilewright.tuning.verdict import NetworkVerdict

TARGET = target_key(Target.parse("x86"))
KEY = f"{PREFIX}winograd_1x9x8_12x20_3x3_1x1"


@pytest.fixture(scope="module")
def convolution() -> bytes:
    weight = np.random.default_rng(0).standard_normal((20, 12, 3, 3), np.float32) / 10
    node = helper.make_node("Conv", ["x", "w"], ["y"], "conv", pads=[1, 1, 1, 1])
    x, y = (helper.make_tensor_value_info(n, onnx.TensorProto.FLOAT, [1, c, 9, 8]) for n, c in (("x", 12), ("y", 20)))
    graph = helper.make_graph([node], "net", [x], [y], [numpy_helper.from_array(weight, "w")])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=10).SerializeToString()


def test_a_pass_asks_one_table() -> None:
    assert choose_option("plan:a", (0, 2, 4), 2) == 2  # nobody gives any
    with collect_choices({"plan:a": (4, 2), "plan:b": (3, None), "plan:c": (4, 2)}) as table:
        assert choose_option("plan:a", (0, 2, 4), 2, ["n"]) == 4 and choose_option("plan:a", (0, 2, 4), 2, ["m"]) == 4
        assert choose_option("plan:b", (0, 2), 2) == 2, "an option that the pass does not have"
        assert choose_option("plan:c", (0, 2, 4), 0) == 0, "an option that was measured beside another default"
    known = [Choice("plan:a", (0, 2, 4), 2, 4, ("n", "m")), Choice("plan:b", (0, 2), 2, 2)]
    assert [*table.asked.values()] == [*known, Choice("plan:c", (0, 2, 4), 0, 0)]


def write_records(path: Path, steps: str) -> Path:
    with Database.open(path) as database:
        database.accept([Winner(KEY, TARGET, 1, "{}", steps, 0.9, 0.9, 0.9)])
    return path


def test_compilations_take_decisions_from_records(convolution: bytes, tmp_path: Path) -> None:
    x = np.random.default_rng(1).standard_normal((1, 12, 9, 8), np.float32)
    found, cache = {}, tmp_path / "cache"
    for option in ("[0]", "[2]", "[4]", "[7]", '["no"]', "{}"):
        records = write_records(tmp_path / f"{len(found)}.sqlite", option)
        made = tw.compile(convolution, num_threads=1, records=records, cache=cache, workers=0)
        found[option] = made
    rule = tw.compile(convolution, num_threads=1, records=False, cache=cache, workers=0)
    names = {option: {row.name for row in made.manifest.kernels} for option, made in found.items()}
    assert len({frozenset(names[option]) for option in ("[0]", "[2]", "[4]")}) == 3
    own = {row.name for row in rule.manifest.kernels}
    assert all(names[option] == own for option in ("[7]", '["no"]', "{}")), "the rule's, where there is no such option"
    for option in ("[0]", "[2]", "[4]"):
        np.testing.assert_allclose(found[option].run([x])[0], rule.run([x])[0], rtol=0, atol=1e-4)
        told = any("decisions of the plan from records: 1 of 1" in note for note in found[option].report.notes)
        assert told == (names[option] != own)
    again = tw.compile(convolution, num_threads=1, records=tmp_path / "0.sqlite", cache=cache, workers=0)
    assert again.report.cached and {row.name for row in again.manifest.kernels} == names["[0]"]


class Clocks:
    """A laboratory in which each kernel takes a known time: those of ``fast`` in their names less."""

    def __init__(self, fast: str) -> None:
        self.fast, self.measured, self.rounds = fast, 0, 0

    def prepare(self, tasks: Sequence[Any]) -> list[Any]:
        self.measured += len(tasks)
        return [SimpleNamespace(task=task) for task in tasks]

    def time_again(self, prepared: Sequence[Any]) -> list[float]:
        self.rounds += 1
        return [1.0 if self.fast in each.task.name else 3.0 for each in prepared]


class Parts(Clocks):
    """A laboratory in which each kernel takes the seconds that it is given by name."""

    def __init__(self, seconds: Mapping[str, float]) -> None:
        super().__init__("")
        self.seconds = seconds

    def time_again(self, prepared: Sequence[Any]) -> list[float]:
        return [self.seconds[each.task.name] for each in prepared]


class Judge:
    """A network with other decisions, which takes so much of the time of the one without."""

    def __init__(self, ratio: float) -> None:
        self.ratio, self.contests, self.seconds = ratio, 0, 0.0

    def contest_plan(self, other: object, seconds: float) -> Contest:
        self.contests, self.seconds = self.contests + 1, seconds
        noise = np.random.default_rng(0).normal(1, 0.002, (2, 40))
        return Contest(tuple(self.ratio * noise[0]), tuple(noise[1]), 0, 0.0)


def plan_convolution(convolution: bytes, folder: Path, choices: Mapping[str, int]) -> NetworkPlan:
    options = api.make_options(num_threads=1, records=False)
    made = begin_compilation(convolution, None, with_choices(options, choices), 0)
    return NetworkPlan(made, plan_network(made, str(folder)))


def settle_with(
    base: NetworkPlan, replan: Any, laboratory: Any, judge: Any, database: Database, left: Sequence[float] = (math.inf,)
) -> SettledPlan:
    """Settle a plan; ``left`` are the seconds that are left each time when that is asked, the last ones from then on."""
    asked = itertools.chain(left, itertools.repeat(left[-1]))
    trials = PlanTrials(database, Target.parse("x86"), 1, "1")
    return settle_plan(base, replan, laboratory, lambda plan: judge, 3.0, trials, lambda: next(asked))


def test_plans_are_measured_until_their_time_is_over_and_go_on_from_there(convolution: bytes, tmp_path: Path) -> None:
    replan = partial(plan_convolution, convolution, tmp_path)
    base = replan({})
    [choice] = base.planned.choices
    assert len(choice.options) > 2
    with Database.open(tmp_path / "records.sqlite") as database:
        none = settle_with(base, replan, clocks := Clocks("conv"), judge := Judge(0.9), database, [0.0])
        assert (clocks.measured, judge.contests, none.plan) == (0, 0, base)
        assert none.results[0].untried == choice.options[1:] and "no time" in none.results[0].reason
        late = [1e6, 1e6, 0.0]  # from the second round of the first option on
        settle_with(base, replan, clocks := Clocks("transform"), judge := Judge(0.9), database, late)
        assert clocks.rounds == 3, (
            "one of all kernels, to know what takes most of the time, and two of the first option"
        )
        first = [trial.steps for trial in database.trials(kernel=KEY)]
        assert len(first) == 1 and judge.contests == 1, "what was found until then goes to the network"
        settle_with(base, replan, Clocks("transform"), Judge(0.9), database)
        assert [trial.steps for trial in database.trials(kernel=KEY)][:1] == first
        assert len(database.trials(kernel=KEY)) == len(choice.options) - 1
        done = settle_with(base, replan, clocks := Clocks("conv"), judge := Judge(1.0), database)
        assert (clocks.measured, judge.contests) == (0, 0) and done.verdict.accepted == (KEY,)
        other = PlanTrials(database, Target.parse("x86"), 1, "2")
        assert other.find_options(choice) == {}, "another version measures by itself"


def test_contests_of_plans_take_a_part_of_the_time_that_is_left(convolution: bytes, tmp_path: Path) -> None:
    replan = partial(plan_convolution, convolution, tmp_path)
    for left, seconds in ((1e6, 3.0), (18.0, 2.0), (0.0, 1.0)):
        with Database.open(tmp_path / f"{left}.sqlite") as database:
            settle_with(replan({}), replan, Clocks("transform"), judge := Judge(0.9), database, [1e6, 1e6, left])
        assert judge.contests == 1 and judge.seconds == pytest.approx(seconds)


def test_decisions_about_little_get_no_plan_and_those_about_most_come_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kinds = {"small": 10.0, "large": 600.0, "tiny": 0.01}
    tasks = [SimpleNamespace(name=name) for name in kinds]
    monkeypatch.setattr(plan_choices, "make_tasks", lambda compilation, plan: tasks)
    clock, replanned = Parts(kinds), list[set[str]]()

    def replan(choices: Mapping[str, int]) -> Any:
        replanned.append({*choices})
        return base

    calls = [SimpleNamespace(kernel=name, nodes=(name,)) for name in kinds]
    choices = [Choice(f"{PREFIX}{name}_1", (0, 1), 0, 0, (name,)) for name in kinds]
    plan = SimpleNamespace(main=SimpleNamespace(calls=calls))
    base: Any = SimpleNamespace(compilation=None, planned=SimpleNamespace(choices=choices, plan=plan))
    with Database.open(tmp_path / "records.sqlite") as database:
        found = settle_with(base, replan, clock, Judge(1.0), database)
    assert replanned == [{f"{PREFIX}large_1"}, {f"{PREFIX}small_1"}]
    assert [(each.untried, bool(each.reason)) for each in found.results] == [((), False), ((), False), ((1,), True)]
    assert "too little" in found.results[2].reason


def test_an_interrupt_while_plans_are_tried_ends_the_search_with_a_result(convolution: bytes, tmp_path: Path) -> None:
    path, stages = tmp_path / "model.onnx", list[str]()
    path.write_bytes(convolution)

    def interrupt(tuning: Tuning) -> None:
        stages.append(tuning.stage)
        if tuning.stage == "trying other plans of the network":
            os.kill(os.getpid(), signal.SIGINT)

    records = tmp_path / "records.sqlite"
    result = tw.tune(str(path), num_threads=1, time=600, records=records, workers=0, progress=interrupt)
    assert result.end == "it was interrupted" and result.trials == 0 and not result.accepted
    assert "trying other plans of the network" in stages and "interrupted" in result.tasks[0].skipped
    with Database.open(records, readonly=True) as database:
        assert database.trials() == []


@pytest.mark.parametrize("ratio, accepted", [(0.9, True), (1.0, False)])
def test_the_network_has_the_last_word(convolution: bytes, tmp_path: Path, ratio: float, accepted: bool) -> None:
    """Kernels of transforms take less time here; whether that is taken is the network's to say."""
    replan = partial(plan_convolution, convolution, tmp_path)
    base, judge = replan({}), Judge(ratio)
    with Database.open(tmp_path / "records.sqlite") as database:
        settled = settle_with(base, replan, Clocks("transform"), judge, database)
        [result] = settled.results
        assert (result.key, result.default, result.accepted) == (KEY, 0, accepted) and "conv" in result.nodes
        assert judge.contests == 1 and (settled.plan is base) != accepted
        again = settle_with(base, replan, Clocks("transform"), Judge(1 / ratio), database)
    assert again.results == settled.results and again.verdict == settled.verdict, "what was measured stays"
    assert [(w.kernel, w.given_option) for w in make_winners(settled, "net", "1")] == (
        [(KEY, (result.option, 0))] if accepted else []
    )


def test_ratios_of_two_changes_multiply() -> None:
    first, second = RatioInterval(0.9, 0.8, 1.0), RatioInterval(0.5, 0.4, 0.6)
    assert join_ratios(first, second) == RatioInterval(0.9 * 0.5, 0.8 * 0.4, 0.6)


@pytest.mark.parametrize("seconds, tried", [(None, True), (20.0, False)])
def test_what_the_network_takes_is_kept(
    convolution: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seconds: float | None, tried: bool
) -> None:
    """Compilations find it after a search; one that has little time tries no other plans."""
    path, ratio = tmp_path / "model.onnx", RatioInterval(0.9, 0.88, 0.92)
    path.write_bytes(convolution)

    def settle(base: NetworkPlan, replan: Any, *others: Any) -> SettledPlan:
        found = ChoiceResult(KEY, ("conv",), 0, 2, 0.8, True)
        return SettledPlan(replan({KEY: 2}), (found,), NetworkVerdict((KEY,), ratio))

    monkeypatch.setattr(tuning_session, "settle_plan", settle)
    records = write_records(tmp_path / "records.sqlite", "[4]")
    result = tw.tune(str(path), num_threads=1, time=seconds, trials=1, records=records, workers=0)
    with Database.open(records, readonly=True) as database:
        kept = [winner.steps for winner in database.winners() if winner.kernel == KEY]
    assert kept == (["[2]"] if tried else ["[4]"])
    assert [choice.key for choice in result.choices if choice.accepted] == ([KEY] if tried else [])
    assert (result.ratio.high <= 0.92) == tried
