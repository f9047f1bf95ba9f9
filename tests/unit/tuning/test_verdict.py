"""What a network accepts of what won alone, and what compilations find of that."""

from __future__ import annotations

import itertools
import json
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest

from tilewright.core.program import Kernel
from tilewright.core.target import Target
from tilewright.passes.schedule.language.schedule import Schedule
from tilewright.records.database import Database
from tilewright.records.trial import Winner, target_key
from tilewright.tuning.laboratory import Prepared
from tilewright.tuning.measuring.bench import Setup
from tilewright.tuning.measuring.contest import Contest
from tilewright.tuning.measuring.racing import UNCHANGED, RatioInterval
from tilewright.tuning.progress import TaskProgress
from tilewright.tuning.search.table import make_search
from tilewright.tuning.spaces.nest_space import NestSpace
from tilewright.tuning.spaces.space import list_neighbours
from tilewright.tuning.task import Task
from tilewright.tuning.verdict import NetworkVerdict, settle_schedules, settle_winners
from tilewright.tuning.winners import find_schedules, keep_winners, try_winners

TARGET = target_key(Target.parse("x86"))
Factors = Mapping[str, float]


class Judged:
    """A network in which each change is the factor by which it changes the time."""

    def __init__(self, wrong: str = "") -> None:
        self.wrong, self.contests = wrong, list[tuple[str, str]]()

    def contest(self, changes: Factors, seconds: float) -> Contest:
        return self.contest_sets(changes, {}, seconds)

    def contest_sets(self, changes: Factors, others: Factors, seconds: float) -> Contest:
        self.contests.append(("".join(changes), "".join(others)))
        ratio = float(np.prod([*changes.values()]) / np.prod([*others.values()]))
        noise = np.random.default_rng(len(self.contests)).normal(1, 0.002, (2, 40))
        return Contest(tuple(ratio * noise[0]), tuple(noise[1]), 0, 0.0, "odd" if self.wrong in changes else "")


def settle_all(network: Judged, factors: Factors, is_over: bool = False) -> NetworkVerdict:
    return settle_winners(network, factors, dict.fromkeys(factors, 1.0), 1.0, lambda: is_over)


def test_a_network_takes_all_where_it_is_faster() -> None:
    verdict = settle_all(network := Judged(), {"a": 0.9, "b": 0.95})
    assert set(verdict.accepted) == {"a", "b"} and network.contests == [("ab", "")]
    assert verdict.ratio.high < 1 and verdict.ratio.ratio == pytest.approx(0.855, abs=0.01)


def test_a_network_leaves_out_what_makes_it_slower() -> None:
    verdict = settle_all(Judged(), {"a": 0.9, "b": 1.3, "c": 0.95, "d": 0.97})
    assert "b" not in verdict.accepted and "a" in verdict.accepted and verdict.ratio.high < 1


@pytest.mark.parametrize("factors", [{}, {"a": 1.0}, {"a": 1.1, "b": 1.2}, {"a": 1.0, "b": 1.0, "c": 1.0}])
def test_a_network_takes_nothing_that_does_not_make_it_faster(factors: Factors) -> None:
    verdict = settle_all(Judged(), factors)
    assert verdict.accepted == () and verdict.ratio.ratio == 1


def test_a_network_tries_no_halves_where_the_time_is_over() -> None:
    verdict = settle_all(network := Judged(), {"a": 0.9, "b": 1.3}, is_over=True)
    assert (verdict.accepted, network.contests) == ((), [("ab", "")])


def test_halves_that_wait_are_not_tried_once_the_time_is_over() -> None:
    over, factors = itertools.chain([False, False], itertools.repeat(True)), {"a": 0.9, "b": 1.3}
    verdict = settle_winners(network := Judged(), factors, {"a": 2.0, "b": 1.0}, 1.0, lambda: next(over))
    assert (verdict.accepted, network.contests) == (("a",), [("ab", ""), ("a", "")])


def test_a_network_takes_nothing_that_is_wrong() -> None:
    verdict = settle_all(Judged(wrong="a"), {"a": 0.5, "b": 0.9})
    assert verdict.accepted == ("b",) and verdict.wrong == "odd"


HIDDEN = {"a": 0.85, "b": 1.04, "c": 0.95, "d": 1.02}
GAINS = {"a": 4.0, "b": 2.0, "c": 3.0, "d": 1.0}


def test_what_hides_in_a_set_that_is_faster_is_left_out() -> None:
    verdict = settle_schedules(network := Judged(), HIDDEN, GAINS, {}, 1.0)
    assert set(verdict.accepted) == {"a", "c"} and verdict.ratio.ratio == pytest.approx(0.85 * 0.95, abs=0.01)
    assert network.contests[:3] == [("acbd", ""), ("acb", "acbd"), ("ac", "acb")], "what saves least comes first"
    assert network.contests[-1] == ("ac", ""), "what is left is held against the program without"
    assert [held.others for held in verdict.contests][1] == ("a", "c", "b", "d")


def test_nothing_is_left_out_when_the_time_is_over() -> None:
    over = itertools.chain([False], itertools.repeat(True))
    verdict = settle_schedules(network := Judged(), HIDDEN, GAINS, {}, 1.0, lambda: next(over))
    assert set(verdict.accepted) == {"a", "b", "c"} and len(network.contests) == 3


BEFORE = {"a": 0.9, "x": 0.97}


def test_what_was_accepted_before_gives_way_to_what_is_faster_than_that() -> None:
    verdict = settle_schedules(network := Judged(), {"a": 0.8}, {"a": 1.0}, BEFORE, 1.0)
    assert (verdict.accepted, verdict.stays) == (("a",), False)
    assert network.contests == [("a", ""), ("a", "ax")]


@pytest.mark.parametrize("factor", [0.9, 0.96, 1.0, 1.1])
def test_what_was_accepted_before_stays_where_nothing_is_faster(factor: float) -> None:
    verdict = settle_schedules(Judged(), {"a": factor}, {"a": 1.0}, BEFORE, 1.0, lambda: True)
    assert verdict.stays and verdict.accepted == ("a", "x")
    assert verdict.ratio.ratio == pytest.approx(0.9 * 0.97, abs=0.01)


def test_what_was_accepted_before_is_tried_once() -> None:
    faster = settle_schedules(network := Judged(), BEFORE, {"a": 1.0, "x": 1.0}, BEFORE, 1.0, lambda: True)
    assert not faster.stays and set(faster.accepted) == {"a", "x"} and network.contests == [("ax", "")]
    same = {"a": 1.0, "x": 1.0}
    kept = settle_schedules(network := Judged(), same, same, same, 1.0, lambda: True)
    assert kept.stays and set(kept.accepted) == {"a", "x"} and network.contests == [("ax", "")]


@pytest.mark.parametrize("before, wrong", [({"a": 1.1}, ""), ({"a": 0.8}, "a")])
def test_what_was_accepted_before_and_is_slower_or_wrong_is_out(before: Factors, wrong: str) -> None:
    verdict = settle_schedules(Judged(wrong), {}, {}, before, 1.0)
    assert (verdict.accepted, verdict.stays, verdict.ratio) == ((), False, UNCHANGED)
    assert verdict.wrong == ("odd" if wrong else "")


# ---- what compilations find


def make_progress(task: Task, points: int) -> TaskProgress:
    """A task whose best schedule is the neighbour of its default with that number, 0.9 of its time; 0 for none."""
    assert task.default is not None
    space = NestSpace(task.default, task.target)
    prepared = Prepared(task, Setup(task.name, (), (), (), 0, ()), Kernel(task.name, b"", 1, False), 1e-6)
    made = TaskProgress(prepared, space, make_search("random", space, 0), 0.5)
    if points:
        points_around = itertools.islice(list_neighbours(space, space.default), points, None)
        made.note(next(points_around), RatioInterval(0.9, 0.89, 0.91), "")
    return made


def run_search(path: Path, tasks: list[TaskProgress], network: str, ratio: float) -> dict[str, str]:
    """Settle a search whose winners take so much of the network's time; the steps of the winners in the records then."""
    with Database.open(path) as database:
        accepted = {winner.kernel: winner for winner in database.winners()}
        verdict, taken = try_winners(Uniform(ratio), tasks, accepted, 1.0, lambda: True)
        keep_winners(database, network, tasks, verdict, taken, accepted)
        return {winner.kernel: winner.steps for winner in database.winners()}


class Uniform:
    """A network in which all changes together have one ratio, and are as fast as any others."""

    def __init__(self, ratio: float) -> None:
        self.ratio, self._judged = ratio, Judged()

    def contest(self, changes: Mapping[str, Schedule], seconds: float) -> Contest:
        return self._judged.contest({"all": self.ratio}, seconds)

    def contest_sets(self, changes: Mapping[str, Schedule], others: Mapping[str, Schedule], seconds: float) -> Contest:
        return self._judged.contest({"all": 1.0}, seconds)


def test_winners_of_one_search_stay_until_another_is_faster(tasks: list[Task], tmp_path: Path) -> None:
    path, (first, second) = tmp_path / "r.sqlite", tasks
    found = run_search(path, [make_progress(first, 1), make_progress(second, 0)], "net", 0.9)
    assert [*found] == [first.name]
    again = run_search(path, [make_progress(first, 2), make_progress(second, 1)], "net", 0.9)
    assert again == found, "another set that is as fast changes nothing"
    slower = run_search(path, [make_progress(first, 0), make_progress(second, 0)], "net", 1.1)
    assert slower == {}


def test_winners_of_another_network_stay_unless_this_one_is_slower_with_them(tasks: list[Task], tmp_path: Path) -> None:
    path, (first, second) = tmp_path / "r.sqlite", tasks
    run_search(path, [make_progress(first, 1), make_progress(second, 0)], "other", 0.9)
    assert run_search(path, [make_progress(first, 0), make_progress(second, 0)], "net", 1.0) != {}
    assert run_search(path, [make_progress(first, 0), make_progress(second, 0)], "net", 1.1) == {}


def test_a_winner_beside_another_default_is_not_what_compilations_take(tasks: list[Task]) -> None:
    progress = make_progress(tasks[0], 1)
    schedule = progress.space.schedule(progress.best_point) if progress.best_point else None
    assert schedule is not None
    data, name = schedule.to_json(), tasks[0].name
    texts = json.dumps(data["values"]), json.dumps(data["steps"])
    for default, there in (("", True), (tasks[0].default_steps, True), ('[["split", "m", 2]]', False)):
        winner = Winner(name, TARGET, 1, *texts, 0.9, 0.9, 0.9, default_steps=default)
        assert ([*find_schedules({name: winner}, [progress])] == [name]) == there
    stranger = Winner(name, TARGET, 1, texts[0].replace("53", "54"), texts[1], 0.9, 0.9, 0.9)
    assert find_schedules({name: stranger}, [progress]) == {}
