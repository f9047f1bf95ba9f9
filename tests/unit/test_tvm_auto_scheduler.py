"""Tasks without a template in TVM's spellings: what is printed, tuned, logged and built again."""

from __future__ import annotations

import dataclasses
import itertools
import json
import logging
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import small_network

import tilewright as tw
import tilewright.tvm as tvm
from tilewright.records.trial import Trial
from tilewright.records.tvm_lines import write_auto_scheduler
from tilewright.tvm import auto_scheduler, relay, te
from tilewright.tvm.auto_scheduler.steps import apply_steps
from tilewright.tvm.autotvm.kernels import find_schedules
from tilewright.tvm.contrib import graph_executor

WRONG: Any = 5
SHAPE = (48, 32, 64, "float32")
X, W = small_network.X, small_network.W


@auto_scheduler.register_workload
def matmul_add(n: int, length: int, m: int, dtype: str) -> list[te.Tensor]:
    a, b = te.placeholder((n, length), dtype, "A"), te.placeholder((length, m), dtype, "B")
    c = te.placeholder((n, m), dtype, "C")
    k = te.reduce_axis((0, length), name="k")
    product = te.compute((n, m), lambda i, j: te.sum(a[i, k] * b[k, j], axis=k), name="matmul")
    out = te.compute((n, m), lambda i, j: product[i, j] + c[i, j], name="out")
    return [a, b, c, out]


@pytest.fixture(scope="module")
def task() -> auto_scheduler.SearchTask:
    return auto_scheduler.SearchTask(func=matmul_add, args=SHAPE, target="llvm")


@pytest.fixture(scope="module")
def network() -> Any:
    return relay.frontend.from_onnx(small_network.network(), {"x": X.shape})


def test_what_tvm_prints(task: auto_scheduler.SearchTask):
    assert str(task.compute_dag) == (
        "A = PLACEHOLDER [48, 32]\nB = PLACEHOLDER [32, 64]\nmatmul(i, j) += (A[i, k]*B[k, j])\n"
        "C = PLACEHOLDER [48, 64]\nout(i, j) = (matmul[i, j] + C[i, j])\n"
    )
    assert task.compute_dag.flop_ct == 2 * 48 * 32 * 64 + 48 * 64
    assert task.workload_key == '["matmul_add", 48, 32, 64, "float32"]'
    a = te.placeholder((4,), name="A")
    b = te.compute((4,), lambda i: te.max(te.exp(a[i]), 0.5).astype("int32"), name="B")
    assert "B(i) = int32(max(exp(A[i]), 0.5))" in str(auto_scheduler.ComputeDAG([a, b]))


def options(trials: int, log: Path, a_round: int = 4, verbose: int = 1) -> auto_scheduler.TuningOptions:
    callbacks = [auto_scheduler.RecordToFile(str(log))]
    runner = auto_scheduler.LocalRunner(repeat=10, enable_cpu_cache_flush=True)
    made = {"num_measures_per_round": a_round, "runner": runner, "measure_callbacks": callbacks, "verbose": verbose}
    return auto_scheduler.TuningOptions(num_measure_trials=trials, **made)


def run(built: Any) -> None:
    random = np.random.default_rng(0)
    a, b, c = (random.standard_normal(shape).astype("float32") for shape in ((48, 32), (32, 64), (48, 64)))
    out = tvm.nd.empty((48, 64))
    built(a, b, c, out)
    np.testing.assert_allclose(out.numpy(), a @ b + c, rtol=1e-4, atol=1e-4)


def test_a_workload_is_tuned_and_built(
    task: auto_scheduler.SearchTask, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    log = tmp_path / "matmul.json"
    task.tune(options(6, log, 3, verbose=2))
    said = capsys.readouterr().out
    assert said.count("[ Measure ]") == 2 and "Get 3 programs to measure:\n" in said and "[ Done ]" in said
    assert re.search(r"^[.E]+[*ET]*$", said, re.M) and "No: 6\tGFLOPS: " in said
    trials = list(auto_scheduler.load_records(log))
    assert len(trials) == 6 and trials[0].kernel in {kernel.name for kernel in task.kernels}
    assert json.loads(log.read_text().splitlines()[0])["v"] == "v0.6"
    go_on(task, log, tmp_path / "more.json")
    chosen = keep_as_best(log, trials)
    sch, args = task.apply_best(log)
    assert {name: each.to_json()["steps"] for name, each in sch.kernels.items()} == {
        chosen.kernel: json.loads(chosen.steps)
    }
    printed = task.print_best(log)
    assert f"s = tw.Schedule.start(values)  # {chosen.kernel}" in printed and "s = s.split(" in printed
    assert "loops of the compiler's own" in tvm.lower(sch, args, simple_mode=True)
    run(tvm.build(sch, args, "llvm"))
    assert auto_scheduler.RecordReader(log).read_lines(1, 0) == [chosen]
    assert auto_scheduler.load_best_record(log) == chosen
    assert auto_scheduler.load_best_record(log, json.dumps([chosen.kernel])) == chosen
    assert auto_scheduler.load_best_record(log, json.dumps(["another"])) is None


def go_on(task: auto_scheduler.SearchTask, log: Path, more: Path) -> None:
    """A search that knows a log measures nothing of it again."""
    known, model = list(auto_scheduler.load_records(log)), auto_scheduler.XGBModel()
    model.update_from_file(log, 2)
    assert model.known == known[:2]
    held = [auto_scheduler.PreloadMeasuredStates(log)]
    policy = auto_scheduler.SketchPolicy(task, auto_scheduler.RandomModel(), init_search_callbacks=held)
    task.tune(options(2, more, 2, verbose=0), policy)
    found = {trial.steps for trial in auto_scheduler.load_records(more)}
    assert len(found) == 2 and found.isdisjoint(trial.steps for trial in known)
    with pytest.raises(tw.InputError, match="keep the log"):
        model.save("trees.json")


def keep_as_best(log: Path, trials: list[Trial], seconds: float = 0.5) -> Trial:
    """Let a log have one of its trials alone, as if that took ``seconds`` where the default takes one."""
    good = next(each for each in reversed(trials) if not each.error)
    made = dataclasses.replace(good, seconds=(seconds,) * 8, default_seconds=(1.0,) * 8)
    log.write_text(write_auto_scheduler(made) + "\n")
    return made


def test_schedules_that_were_not_faster_are_not_taken(task: auto_scheduler.SearchTask, tmp_path: Path):
    log = tmp_path / "slow.json"
    task.tune(options(1, log, 1, verbose=0))
    keep_as_best(log, list(auto_scheduler.load_records(log)), 1.1)
    assert task.apply_best(log)[0].kernels == {} and "compiler's own schedule" in task.print_best(log)
    with log.open("a") as file:
        file.write('{"i": [["cut')
    assert len(list(auto_scheduler.load_records(log))) == 1


def test_tasks_of_a_network(network: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    (mod, params), log = network, tmp_path / "net.json"
    tasks, weights = auto_scheduler.extract_tasks(mod["main"], params, "llvm")
    assert len(tasks) == len(weights) > 2 and min(weights) >= 1
    assert "PLACEHOLDER [" in str(tasks[0].compute_dag) and json.loads(tasks[0].workload_key) == [tasks[0].desc]
    tasks, weights = tasks[:2], weights[:2]
    total = tmp_path / "total_latency.tsv"
    watched = [auto_scheduler.PrintTableInfo(), auto_scheduler.LogEstimatedLatency(total)]
    scheduler = auto_scheduler.TaskScheduler(tasks, weights, callbacks=watched)
    scheduler.tune(options(6, log, 2))
    said = capsys.readouterr().out
    assert "|  ID  |                       Task Description                        | Latency (ms) | Speed" in said
    assert re.search(rf"\|    0 \| +{tasks[0].desc} \| +\d+\.\d{{3}} \| +\d+\.\d\d \| +2 \|", said), said
    assert "Estimated total latency: - ms\tTrials: 0\tUsed time : " in said and "Next ID: 0" in said
    lines = total.read_text().splitlines()
    assert re.fullmatch(r"ElapsedTime\(s\)\t\d+\tEstimatedLatency\(ms\)\t\d+\.\d{3}\tTrials\t6", lines[-1])
    counts = [0, *(int(line.rpartition("\t")[2]) for line in lines)]
    rounds = [after - before for before, after in itertools.pairwise(counts)]
    # Two a round; fewer where a space has no others left, and none once, after which its task has no more rounds.
    assert rounds[:2] == [2, 2] and set(rounds) <= {0, 1, 2} and rounds.count(0) == len(scheduler.dead_tasks)
    assert len(rounds) == 3 or 1 in rounds or 0 in rounds
    trials = list(auto_scheduler.load_records(log))
    assert len(trials) == 6 and {trial.kernel for trial in trials} == {task.desc for task in tasks}
    again = auto_scheduler.TaskScheduler(tasks, weights, load_log_file=log, strategy="round-robin", callbacks=[])
    again.tune(options(2, log, 1, verbose=0))
    trials = list(auto_scheduler.load_records(log))
    assert len(trials) == 8 == len({(trial.kernel, trial.steps) for trial in trials})  # nothing is measured again
    chosen = keep_as_best(log, trials)
    passes = tvm.transform.PassContext(opt_level=3, config={"relay.backend.use_auto_scheduler": True})
    with auto_scheduler.ApplyHistoryBest(str(log)), passes:
        found = find_schedules(tasks[0].target, chosen.threads, [task.desc for task in tasks])
        lib = relay.build(mod, "llvm", params=params)
    assert [*found] == [chosen.kernel]
    module = graph_executor.GraphModule(lib["default"](tvm.cpu()))
    module.run(x=X)
    expected = 1 / (1 + np.exp(-np.maximum(X @ W, 0)))
    np.testing.assert_allclose(module.get_output(1).numpy(), expected, rtol=1e-5)


def test_what_has_no_space_is_said(task: auto_scheduler.SearchTask, caplog: pytest.LogCaptureFixture):
    other = make()
    other.__dict__["kernels"] = [dataclasses.replace(task.kernels[0], default=None, reason="it has no loops")]
    with caplog.at_level(logging.WARNING, "auto_scheduler"):
        other.tune(auto_scheduler.TuningOptions(2, verbose=0))
    assert f"{task.workload_key} is not tuned: {task.kernels[0].name}: it has no loops" in caplog.text


def test_a_schedule_in_one_call(task: auto_scheduler.SearchTask):
    policy = auto_scheduler.SketchPolicy(task, auto_scheduler.RandomModel(), seed=3)
    tuning = auto_scheduler.TuningOptions(num_measure_trials=2, verbose=0)
    run(tvm.build(*auto_scheduler.auto_schedule(task, policy, tuning)))


def make(**given: Any) -> Any:
    return auto_scheduler.SearchTask(func=matmul_add, args=SHAPE, target="llvm", **given)


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda task: auto_scheduler.SearchTask(func="nobody", args=()), tw.ExpressionError, "no workload 'nobody'"),
        (lambda task: auto_scheduler.SearchTask(target="llvm"), tw.InputError, "a task is of a workload"),
        (lambda task: make(hardware_params=WRONG), tw.InputError, "leave hardware_params out"),
        (lambda task: make(task_inputs={"A": X}), tw.InputError, "leave task_inputs out"),
        (lambda task: auto_scheduler.register_workload("matmul_add", len), tw.ExpressionError, "override=True"),
        (lambda task: auto_scheduler.LocalRPCMeasureContext(), tw.InputError, "is for GPUs"),
        (lambda task: auto_scheduler.RPCRunner("k", "host", 9190, 3), tw.InputError, "leave priority"),
        (lambda task: auto_scheduler.LocalRunner(device=1), tw.InputError, "one CPU"),
        (lambda task: auto_scheduler.TuningOptions(builder="far"), tw.InputError, "builder is 'far'"),
        (lambda task: auto_scheduler.TaskScheduler([task], strategy="best"), tw.InputError, "strategy is 'best'"),
        (lambda task: auto_scheduler.TaskScheduler([task], [1, 2]), tw.InputError, "1 tasks, and 2 weights"),
        (lambda task: auto_scheduler.TaskScheduler([task]).tune(auto_scheduler.TuningOptions()), tw.InputError, "at"),
        (
            lambda task: task.tune(auto_scheduler.TuningOptions(1, verbose=0), "ga"),
            tw.InputError,
            "choose from default",
        ),
        (lambda task: task.apply_best("nowhere.json"), tw.TilewrightError, "cannot read the log"),
        (lambda task: task.print_best("nowhere.json", "cuda"), tw.InputError, "print_mode is 'cuda'"),
        (lambda task: auto_scheduler.RecordToFile("nowhere/log.json"), tw.TilewrightError, "there is no folder"),
        (lambda task: auto_scheduler.ApplyHistoryBest(WRONG), tw.TilewrightError, "records are a log's path"),
        (lambda task: auto_scheduler.SketchPolicy(task, params={"a": 1}), tw.InputError, "no sketches here"),
    ],
)
def test_what_has_no_meaning_here_is_refused_in_words(
    task: auto_scheduler.SearchTask,
    call: Callable[[Any], Any],
    error: type[Exception],
    message: str,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(error, match=message):
        call(task)


# Lines that TVM 0.19 has written, of products of 128 x 128 x 128: the second one has loops that cannot be here.
TVM_LINE = (
    '{"i": [["[\\"matmul_add\\", 128, 128, 128, \\"float32\\"]", "llvm -keys=cpu", [1, 64, 64, 0, 0, 0, 0, 0], "", 1,'
    ' []], [[], [["SP", 2, 0, 128, [64, 2, 1], 1], ["SP", 2, 4, 128, [1, 4, 1], 1], ["SP", 2, 8, 128, [32], 1],'
    ' ["RE", 2, [0, 4, 1, 5, 8, 2, 6, 9, 3, 7]], ["FSP", 4, 0, 0, 1], ["FSP", 4, 2, 1, 1], ["RE", 4, [0, 2, 1, 3]],'
    ' ["CA", 2, 4, 1], ["FU", 4, [0, 1]], ["AN", 4, 0, 3], ["PR", 2, 0, "auto_unroll_max_step$512"], ["AN", 2, 9, 2],'
    ' ["AN", 4, 2, 2]]]], "r": [[0.000281859], 0, 5.10112, 1795727024], "v": "v0.6"}\n'
)


def test_a_log_of_tvm(tmp_path: Path, caplog: pytest.LogCaptureFixture):
    task = auto_scheduler.SearchTask(func=matmul_add, args=(128, 128, 128, "float32"), target="llvm")
    log, other = tmp_path / "tvm.json", TVM_LINE.replace("0.000281859", "0.0001").replace('["AN", 4, 0, 3]', "%s")
    log.write_text(other % '["AN", 4, 0, 5]' + TVM_LINE)
    with caplog.at_level(logging.WARNING, "auto_scheduler"):
        sch, args = task.apply_best(log)
    assert "step 9, ['AN', 4, 0, 5], has no place in a schedule for the CPU" in caplog.text
    text = tvm.lower(sch, args, simple_mode=True)
    assert "parallel (j.outer, 0, 32)" in text and "vectorize (j.inner" in text
    tw.testing.assert_same(sch, args, "llvm")
    assert "compute_at(matmul, out" in task.print_best(log)
    log.write_text(other % '["AN", 4, 9, 3]')
    with pytest.raises(tw.TilewrightError, match="makes a schedule here: the log says why"):
        task.apply_best(log)


def test_steps_of_tvm_that_make_stages():
    """Cached results, factored reductions, stages that are inlined; and fused loops that are no neighbours here."""
    a = te.placeholder((8, 64), name="A")
    k = te.reduce_axis((0, 64), name="k")
    b = te.compute((8, 64), lambda i, j: a[i, j] + 1.0, name="B")
    c = te.compute((8,), lambda i: te.sum(b[i, k] * b[i, k], axis=k), name="C")
    steps = [
        *(["CI", 1], ["SP", 2, 1, 64, [16], 1], ["RF", 2, 2, 1], ["CHW", 3, "local"], ["CHR", 0, "global", [2]]),
        *(["SP", 5, 0, 8, [2, 4], 1], ["AN", 5, 1, 3], ["CR", 3]),
    ]
    s = te.create_schedule(c.op)
    apply_steps(s, steps)
    assert {stage.name for stage in s.stages} == {"A", "A.global", "B", "C.rf", "C.local", "C"}
    tw.testing.assert_same(s, [a, c], "llvm")
    s = te.create_schedule(b.op)
    apply_steps(
        s, [["SP", 1, 0, 8, [2, 2], 1], ["SP", 1, 3, 64, [8], 1], ["RE", 1, [0, 3, 1, 4, 2]], ["FU", 1, [0, 1, 2]]]
    )
    tw.testing.assert_same(s, [a, b], "llvm")
    for steps, message in (
        ([["XX", 1]], "has no place"),
        ([["RE", 7, [0]]], "not of this computation"),
        ([3], "not of"),
    ):
        with pytest.raises(tw.TilewrightError, match=message):
            apply_steps(te.create_schedule(b.op), steps)


def test_a_log_without_the_workload(task: auto_scheduler.SearchTask, tmp_path: Path):
    (tmp_path / "empty.json").write_text("")
    with pytest.raises(tw.TilewrightError, match="Cannot find any valid schedule for"):
        task.apply_best(tmp_path / "empty.json")
    (tmp_path / "bad.json").write_text('{"i": 3}\n')
    with pytest.raises(tw.TilewrightError, match="line 1: it is no object with"):
        task.apply_best(tmp_path / "bad.json")
