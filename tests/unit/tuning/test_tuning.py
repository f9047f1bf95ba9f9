"""Tuning as a whole: what it measures, keeps, finds again after any end, and lets the network decide."""

from __future__ import annotations

import json
import math
import os
import random
import signal
import subprocess
import sys
import time
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

import tilewright as tw
from tilewright import te
from tilewright.core.choices import PREFIX
from tilewright.core.program import Kernel
from tilewright.core.target import Target
from tilewright.records.database import Database
from tilewright.records.trial import Trial, Winner, target_key
from tilewright.tuning import api, session
from tilewright.tuning.budget import Budget, parse_seconds
from tilewright.tuning.compiling import Candidate
from tilewright.tuning.engine import Engine
from tilewright.tuning.laboratory import Compiling, Prepared
from tilewright.tuning.measuring.bench import Measured, Setup
from tilewright.tuning.measuring.racing import UNCHANGED
from tilewright.tuning.progress import TaskProgress
from tilewright.tuning.search.table import make_search
from tilewright.tuning.session import Tuning
from tilewright.tuning.spaces.nest_space import NestSpace
from tilewright.tuning.spaces.space import list_neighbours
from tilewright.tuning.task import Task
from tilewright.tuning.verdict import NetworkVerdict

TARGET = target_key(Target.parse("x86"))


def trials_of(path: Path) -> list[Trial]:
    with Database.open(path, readonly=True) as database:
        return list(database.trials())


@pytest.fixture(scope="module")
def tuned(network: bytes, tmp_path_factory: pytest.TempPathFactory) -> tuple[tw.TuningResult, Path]:
    path = tmp_path_factory.mktemp("tuned") / "records.sqlite"
    return tw.tune(network, num_threads=1, trials=10, records=path, name="net"), path


def test_each_trial_is_in_the_records(tuned: tuple[tw.TuningResult, Path], tasks: list[Task]) -> None:
    result, path = tuned
    trials = [trial for trial in trials_of(path) if not trial.kernel.startswith(PREFIX)]  # of kernels, not of plans
    assert result.trials == 10 == len([trial for trial in trials if trial.error != "refused"])
    assert {trial.kernel for trial in trials} <= {task.name for task in tasks}
    for trial in trials:
        assert (trial.target, trial.threads) == (TARGET, 1) and trial.version == tw.__version__
        assert len(trial.seconds) == len(trial.default_seconds) and trial.process.count(":") == 2
        tw.Schedule.from_json(trial.schedule).check()


def test_the_result_says_what_became_of_each_kernel(tuned: tuple[tw.TuningResult, Path], tasks: list[Task]) -> None:
    result, path = tuned
    assert {task.name for task in result.tasks} == {task.name for task in tasks}
    searched = [task for task in result.tasks if not task.skipped]
    assert sum(task.trials for task in searched) == 10
    assert sum(task.share for task in result.tasks) == pytest.approx(1, abs=0.1)
    assert all(len(task.history) == task.trials for task in searched)
    assert result.records == str(path) and "net" in str(result)
    assert json.loads(json.dumps(result.to_json()))["trials"] == 10 and result.end == "all its trials were made"


def test_kernels_that_are_not_tuned_have_their_share_of_the_time(tmp_path: Path) -> None:
    """Those of a recurrent layer are a product, which is tuned, and a loop that takes most of the time."""
    random, (steps, columns, hidden) = np.random.default_rng(0), (60, 8, 48)
    shapes = {"w": (1, 4 * hidden, columns), "r": (1, 4 * hidden, hidden), "b": (1, 8 * hidden)}
    weights = [numpy_helper.from_array(random.standard_normal(s, np.float32) / 9, n) for n, s in shapes.items()]
    node = helper.make_node("LSTM", ["x", *shapes], ["", "y"], "lstm", hidden_size=hidden)
    ends = (("x", [steps, 1, columns]), ("y", [1, 1, hidden]))
    x, y = (helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, shape) for name, shape in ends)
    graph = helper.make_graph([node], "net", [x], [y], weights)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=10)
    options: dict[str, Any] = {"num_threads": 1, "trials": 1, "records": tmp_path / "r.sqlite"}
    result = tw.tune(model.SerializeToString(), **options)
    shares = [task.share for task in result.tasks if not task.skipped]
    assert shares and sum(shares) < 0.8


def test_what_was_measured_is_not_measured_again(tuned: tuple[tw.TuningResult, Path], network: bytes) -> None:
    _, path = tuned
    before = {(trial.kernel, trial.steps): trial.time for trial in trials_of(path)}
    tw.tune(network, num_threads=1, trials=4, records=path)
    after = {(trial.kernel, trial.steps): trial.time for trial in trials_of(path)}
    assert all(after[key] == when for key, when in before.items())
    assert len(after) >= len(before) + 4


def test_winners_are_taken_by_compilations(tasks: list[Task], network: bytes, tmp_path: Path) -> None:
    """A winner that tuning would write: the program has its schedule, and computes the same."""
    task = tasks[0]
    space = NestSpace(task.default, task.target) if task.default else None
    assert space is not None
    schedule = next(filter(None, map(space.schedule, list_neighbours(space, space.default))))
    assert schedule is not None
    data = schedule.to_json()
    winner = Winner(task.name, TARGET, 1, json.dumps(data["values"]), json.dumps(data["steps"]), 0.9, 0.89, 0.91)
    with Database.open(tmp_path / "r.sqlite") as database:
        database.accept([winner])
    x = np.random.default_rng(0).standard_normal((23, 37)).astype(np.float32)
    plain = tw.compile(network, num_threads=1, records=False)
    made = tw.compile(network, num_threads=1, records=tmp_path / "r.sqlite")
    assert "tuned schedules: 1 of 2 kernels" in made.report.notes
    np.testing.assert_allclose(made.run([x])[0], plain.run([x])[0], rtol=1e-4, atol=1e-4)


# It waits each time that it tells how far it is: else it might be ready before somebody has counted its trials.
_SCRIPT = """
import sys, time
import tilewright as tw
if __name__ == "__main__":
    def wait(tuning):
        time.sleep(0.1)
    tw.tune(sys.argv[1], num_threads=1, trials=400, records=sys.argv[2], seed=3, progress=wait)
"""


def test_nothing_is_lost_or_repeated_when_it_is_killed(network: bytes, tmp_path: Path) -> None:
    model, script, path = tmp_path / "m.onnx", tmp_path / "run.py", tmp_path / "r.sqlite"
    model.write_bytes(network)
    script.write_text(_SCRIPT)
    seen: dict[tuple[str, str], float] = {}
    for seed in range(2):
        process = subprocess.Popen([sys.executable, str(script), str(model), str(path)], start_new_session=True)
        wanted, end = len(seen) + random.Random(seed).randint(2, 6), time.monotonic() + 120
        while (not path.exists() or _count(path) < wanted) and time.monotonic() < end and process.poll() is None:
            time.sleep(0.1)  # to count reads all trials
        assert process.poll() is None
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
        now = {(trial.kernel, trial.steps): trial.time for trial in trials_of(path)}
        assert len(now) >= wanted
        assert all(now[key] == when for key, when in seen.items())  # each is there as it was
        seen = now


def _count(path: Path) -> int:
    try:
        return len(trials_of(path))
    except tw.TilewrightError:
        return 0


def test_an_interrupt_ends_the_search_and_keeps_the_rest(network: bytes, tmp_path: Path) -> None:
    stages = list[str]()

    def interrupt(tuning: Tuning) -> None:
        stages.append(tuning.stage)
        if tuning.stage == "searching" and tuning.budget.used_trials == 2:
            os.kill(os.getpid(), signal.SIGINT)

    result = tw.tune(network, num_threads=1, trials=300, records=tmp_path / "r.sqlite", progress=interrupt)
    assert 2 <= result.trials < 20 and result.end == "it was interrupted"
    assert "interrupted: what was found until now goes to the network" in stages


def test_an_interrupt_of_what_tells_nothing_is_told_at_once(
    network: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stages, prepare = list[str](), session.prepare_tasks

    def prepare_slowly(*args: Any) -> Any:
        os.kill(os.getpid(), signal.SIGINT)
        stages.append("preparing")
        return prepare(*args)

    monkeypatch.setattr(session, "prepare_tasks", prepare_slowly)
    options: dict[str, Any] = {"num_threads": 1, "time": 600, "records": tmp_path / "r.sqlite"}
    result = tw.tune(network, progress=lambda tuning: stages.append(tuning.stage), **options)
    assert stages[stages.index("preparing") - 1].startswith("interrupted: ") and result.trials == 0


def test_an_interrupt_while_the_winners_are_tried_makes_the_next_contest_the_last(
    network: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def settle(contests: Any, tasks: Any, accepted: Any, seconds: float, is_over: Any) -> Any:
        assert not is_over()
        os.kill(os.getpid(), signal.SIGINT)
        assert is_over()
        with pytest.raises(KeyboardInterrupt):
            os.kill(os.getpid(), signal.SIGINT)
            time.sleep(1)
        return NetworkVerdict((), UNCHANGED), {}

    monkeypatch.setattr(session, "try_winners", settle)
    assert tw.tune(network, num_threads=1, trials=1, records=tmp_path / "r.sqlite").ratio == UNCHANGED


@pytest.mark.parametrize(("used", "seconds"), [(10.0, 30.0), (300.0, 150.0)])
def test_sets_of_winners_are_tried_for_half_as_long_as_the_search_took(
    network: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, used: float, seconds: float
) -> None:
    """No less than is enough for a few contests, which themselves are a part of the search's time, between bounds."""
    monkeypatch.setattr(session, "_LEAST_OF_PLANS", math.inf)  # which take a part of the time
    skipped, clock, seen = [0.0], time.monotonic, list[float]()
    begin = clock()
    monkeypatch.setattr("tilewright.tuning.budget.clock.monotonic", lambda: clock() + skipped[0])

    def settle(contests: Any, tasks: Any, accepted: Any, contest: float, is_over: Any) -> Any:
        seen.append(contest)
        skipped[0] += seconds - 3
        assert not is_over()
        skipped[0] += 3 + clock() - begin  # what the search took beside what is skipped
        assert is_over()
        return NetworkVerdict((), UNCHANGED), {}

    def skip(tuning: Tuning) -> None:
        if tuning.stage == "searching" and not skipped[0]:
            skipped[0] = used

    monkeypatch.setattr(session, "try_winners", settle)
    tw.tune(network, num_threads=1, time=used, records=tmp_path / "r.sqlite", progress=skip)
    assert seen == [pytest.approx(min(max(3, used * 0.03), 12), rel=0.2)]


def norms(rows: int, columns: int) -> list[te.Tensor]:
    a = te.placeholder((rows, columns), name="a")
    k = te.reduce_axis((0, columns), name="k")
    squares = te.compute((rows,), lambda i: te.sum(a[i, k] * a[i, k], axis=k), name="squares")
    return [a, te.compute((rows, columns), lambda i, j: a[i, j] / te.sqrt(squares[i]), name="b")]


def test_tensor_expressions_are_tuned_and_built_with_what_was_found(tmp_path: Path) -> None:
    result = tw.tune(norms, [20, 70], num_threads=1, trials=4, records=tmp_path / "r.sqlite")
    assert result.name == "norms" and 0 < result.trials <= 4
    a, b = norms(20, 70)
    schedule = te.create_schedule(b.op)
    for stage in schedule.stages:
        if not stage.is_placeholder:
            schedule[stage.op].auto()
    x = np.random.default_rng(0).standard_normal((20, 70)).astype(np.float32)
    made = tw.build(schedule, [a, b], num_threads=1, records=tmp_path / "r.sqlite").run([x])[0]
    np.testing.assert_allclose(made, x / np.sqrt((x * x).sum(1, keepdims=True)), rtol=1e-4)


def test_what_cannot_be_tuned_is_refused_in_words(network: bytes, tmp_path: Path) -> None:
    def refuse(error: type[Exception], words: str, *args: Any, **options: Any) -> None:
        with pytest.raises(error, match=words) as caught:
            tw.tune(*args, records=tmp_path / "r.sqlite", **options)
        assert "\n" not in str(caught.value)

    refuse(tw.InputError, "time is 'soon'", network, time="soon")
    refuse(tw.InputError, "trials is 0", network, trials=0)
    refuse(tw.InputError, "search is 'best'", network, search="best")
    refuse(tw.ModelError, "missing.onnx", "missing.onnx", trials=1)
    refuse(tw.InputError, "args are those of a tensor expression", network, [1], trials=1)
    refuse(tw.ExpressionError, "returns no tensors", lambda n: n, [1], trials=1)
    (tmp_path / "other.sqlite").write_text("this is no database")
    with pytest.raises(tw.TilewrightError, match=r"other\.sqlite"):
        tw.tune(network, trials=1, records=tmp_path / "other.sqlite")


@pytest.mark.parametrize(("text", "seconds"), [("90s", 90), ("5m", 300), ("1.5h", 5400), ("20", 20), ("2min", 120)])
def test_times_are_read(text: str, seconds: float) -> None:
    assert parse_seconds(text, "--time") == seconds


@pytest.mark.parametrize("text", ["", "m", "-3s", "0", "5 d", "1e9", "five"])
def test_what_is_no_time_is_refused(text: str) -> None:
    with pytest.raises(tw.InputError, match="--time is"):
        parse_seconds(text, "--time")


def test_a_budget_ends_by_trials_and_when_nothing_gets_better(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [100.0]
    monkeypatch.setattr("tilewright.tuning.budget.clock.monotonic", lambda: now[0])
    budget = Budget(None, 10, 30)
    budget.start()
    assert not budget.is_over and budget.trials_left(4) == 4
    budget.note(8, 0.9)
    assert budget.trials_left(4) == 2 and not budget.is_over
    now[0] += 29
    budget.note(1, 0.8)
    now[0] += 29
    assert not budget.is_over and not budget.end
    now[0] += 2
    assert budget.is_over and budget.end == "nothing had got better for 30 s"
    assert not Budget(5.0).is_over
    budget.note(1, 0.7)
    assert budget.end == "all its trials were made"
    budget.interrupt()
    assert budget.end == "it was interrupted"


def test_few_trials_are_not_flat(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [100.0]
    monkeypatch.setattr("tilewright.tuning.budget.clock.monotonic", lambda: now[0])
    budget = Budget(None, None, 30, 20)
    budget.note(1, 0.9)
    budget.note(19, 0.9)
    now[0] += 60
    assert not budget.is_over
    budget.note(1, 0.9)
    assert budget.is_over


@pytest.mark.parametrize(
    ("ends", "flat"),
    [((None, None, None), 75), (("60s", None, None), 15), (("60s", 9, None), None), (("60s", None, "50s"), 50)],
)
def test_a_search_ends_early_where_nothing_gets_better(ends: tuple[Any, Any, Any], flat: float | None) -> None:
    assert api._make_budget(*ends).flat == flat


class PlantedLaboratory:
    """Compiles nothing, and gives what is planted for candidates, one after another; the rest is as fast as before."""

    overlaps = False

    def __init__(self, planted: list[Measured]) -> None:
        self.planted, self.steps = planted, list[str]()

    def begin_compiling(self, task: Task, steps: list[str]) -> Compiling:
        self.steps += steps
        futures = [Future[Candidate]() for _ in steps]
        for future in futures:
            future.set_result(Candidate(Kernel(task.name, b"", 1, False)))
        return Compiling(futures)

    def race(self, prepared: Prepared, candidate: Kernel, bar: float) -> Measured:
        return self.planted.pop(0) if self.planted else Measured((1e-6,) * 3, (1e-6,) * 3)


def test_what_is_wrong_or_crashes_is_remembered_and_not_tried_again(tasks: list[Task], tmp_path: Path) -> None:
    [task, *_] = tasks
    assert task.default is not None
    space = NestSpace(task.default, task.target)
    prepared = Prepared(task, Setup(task.name, (), (), (), 0, ()), Kernel(task.name, b"", 1, False), 1e-6)
    planted = [Measured(error=word, reason=f"planted {word}") for word in ("wrong", "crash", "timeout")]
    bad = list[str]()
    with Database.open(tmp_path / "r.sqlite") as database:
        for round_ in range(2):
            made: Any = PlantedLaboratory(planted)
            progress = TaskProgress(prepared, space, make_search("random", space, 0), 1.0)
            engine = Engine(made, [progress], database, Budget(None, 8), "this version")
            engine.run()
            assert engine.budget.used_trials == 8 and not set(bad) & set(made.steps)
            trials = list(database.trials(kernel=task.name))
            bad = [trial.steps for trial in trials if trial.error]
            assert {trial.error for trial in trials} == {"", "wrong", "crash", "timeout"} and len(bad) == 3
            assert len(trials) == 8 * (round_ + 1) and progress.best_point is None
            assert all(trial.reason == f"planted {trial.error}" for trial in trials if trial.error)


def test_a_kernel_at_its_bound_gets_no_trials(tasks: list[Task]) -> None:
    task = tasks[0]
    assert task.default is not None
    space = NestSpace(task.default, task.target)
    prepared = Prepared(task, Setup(task.name, (), (), (), 0, ()), Kernel(task.name, b"", 1, False), 1e-6)
    near, far = (TaskProgress(prepared, space, make_search("random", space, 0), 0.5, bound) for bound in (0.96, 0.6))
    assert near.is_close and near.expected_gain == 0
    assert not far.is_close and far.expected_gain > 0
