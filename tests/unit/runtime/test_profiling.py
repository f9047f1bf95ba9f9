"""Counted calls: exact numbers, the same results, one set of counters for each context."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import onnx
import pytest
from handmade import SHAPE, affine, affine_module
from onnx import numpy_helper

import tilewright as tw
from tilewright.runtime.executors.counters import Counters, Tally
from tilewright.runtime.profile.profiler import Report

W = np.random.default_rng(0).standard_normal((16, 8), np.float32)


def x(seed: int = 1) -> np.ndarray:
    return np.random.default_rng(seed).random(SHAPE, np.float32)


def dense() -> onnx.ModelProto:
    """``y = softmax(relu(x @ w))`` for any number of rows."""
    text = """<ir_version: 10, opset_import: ["": 18]> g (float[n, 16] x) => (float[n, 8] y)
    { m = MatMul(x, w) r = Relu(m) y = Softmax(r) }"""
    made = onnx.parser.parse_model(text)
    for node in made.graph.node:
        node.name = node.op_type.lower()
    made.graph.initializer.append(numpy_helper.from_array(W, "w"))
    return made


def compiled(source: Any, **options: Any) -> tw.Module:
    return tw.compile(source, workers=0, num_threads=1, cache=False, **options)


def rows(n: int) -> np.ndarray:
    return np.random.default_rng(n).standard_normal((n, 16), np.float32)


def counts(report: Report) -> list[int]:
    return [row.count for row in report.rows]


@pytest.mark.parametrize("executor", ["objects", "engine"])
def test_an_entry_with_a_profile_counts_its_runs(executor):
    module, plain = affine_module(2, executor, profile=True), affine_module(2, executor)
    for seed in range(5):
        np.testing.assert_array_equal(module(x(seed))[0], plain(x(seed))[0])
    report = module.profiler.report()
    assert (report.runs, counts(report), report.executor) == (5, [5, 5], "ahead of time")
    assert [row.nodes for row in report.rows] == [("first",), ("second",)]
    assert sum(map(report.share, report.rows)) == pytest.approx(1)
    for row in report.rows:
        assert 0 <= row.least <= row.mean <= row.most and row.flops == 5 * 64 * 128
        assert row.inputs == ("64x128xf32", "64x128xf32") and row.results == ("64x128xf32",)
    assert len(report.trace) == 10 and {event.thread for event in report.trace} == {threading.get_ident()}
    assert all(event.duration >= 0 for event in report.trace)


def test_a_call_that_is_refused_is_not_counted():
    module = affine_module(1, profile=True)
    with pytest.raises(tw.InputError):
        module["main"](x().astype(np.float64), x())
    assert module.profiler.report().runs == 0


def test_counting_can_be_switched_off_and_begun_again():
    module = affine_module(1, profile=True)
    assert module.profiler.on
    module(x())
    module.profiler.on = False
    np.testing.assert_allclose(module(x())[0], affine(x()), rtol=1e-6)
    assert not module.profiler.on and module.profiler.report().runs == 1
    module.profiler.on = True
    module(x())
    assert module.profiler.report().runs == 2
    module.profiler.reset()
    report = module.profiler.report()
    assert (report.runs, counts(report), report.trace) == (0, [0, 0], ())
    module(x())
    assert counts(module.profiler.report()) == [1, 1]


def test_concurrent_calls_are_all_counted():
    module, threads, runs = affine_module(2, profile=True), 8, 25
    barrier = threading.Barrier(threads)

    def call(seed: int) -> int:
        barrier.wait()
        for _ in range(runs):
            np.testing.assert_allclose(module(x(seed))[0], affine(x(seed)), rtol=1e-6)
        return threading.get_ident()

    with ThreadPoolExecutor(threads) as pool:
        callers = set(pool.map(call, range(threads)))
    report = module.profiler.report()
    assert (report.runs, counts(report)) == (threads * runs, [threads * runs] * 2)
    assert {event.thread for event in report.trace} <= callers and len(report.trace) == 2 * 16
    assert all(row.least <= row.mean <= row.most for row in report.rows)


def test_copies_of_a_program_have_counters_of_their_own(tmp_path):
    path = affine_module(1, profile=True).export_library(tmp_path / "net.so")
    first, second = tw.load_module(path, 1), tw.load_module(path, 1)
    for _ in range(3):
        first(x())
    second(x())
    assert (first.profiler.report().runs, second.profiler.report().runs) == (3, 1)
    assert first.manifest.profile


def test_the_counters_live_as_long_as_main():
    main, out = affine_module(1, profile=True)["main"], np.empty(SHAPE, np.float32)
    for _ in range(3):
        main(x(), out)
    np.testing.assert_allclose(out, affine(x()), rtol=1e-6)


@pytest.mark.parametrize("profiled, executor", [(True, "ahead of time"), (False, "kernel by kernel")])
@pytest.mark.parametrize("threads", [1, 2])
def test_profile_measures_runs_of_its_own(profiled, executor, threads):
    module = affine_module(threads, profile=profiled)
    report = module.profile({"x": x()}, rounds=4)
    assert (report.runs, counts(report), report.executor) == (4, [4, 4], executor)
    assert report.device["threads"] == threads and report.rates is None
    assert report.elapsed is not None and report.elapsed >= report.total
    if profiled:
        assert module.profiler.report().runs == 0


def test_profile_does_not_count_what_others_call_meanwhile():
    module, stop = affine_module(1, profile=True), threading.Event()

    def call() -> None:
        while not stop.is_set():
            module(x())

    with ThreadPoolExecutor(1) as pool:
        other = pool.submit(call)
        assert module.profile({"x": x()}, rounds=20).runs == 20
        stop.set()
        other.result()


def test_a_program_without_a_profile_says_so():
    module = affine_module(1)
    assert not module.profiler.on
    module.profiler.on = False
    with pytest.raises(tw.InputError, match="'affine' counts no calls: compile it with --profile"):
        module.profiler.report()
    with pytest.raises(tw.InputError, match="'affine' was compiled to run without being timed"):
        module.profiler.on = True


@pytest.mark.parametrize("rounds", [0, -1])
def test_profile_refuses_no_rounds_and_wrong_inputs(rounds):
    module = affine_module(1)
    with pytest.raises(tw.InputError, match=f"rounds is {rounds}"):
        module.profile({"x": x()}, rounds=rounds)
    with pytest.raises(tw.InputError, match="input 'x' is missing"):
        module.profile({})


def test_an_open_program_is_counted_by_the_runtime():
    module, plain = compiled(dense(), profile=True), compiled(dense())
    for n in (3, 5, 3):
        np.testing.assert_array_equal(module(rows(n))[0], plain(rows(n))[0])
    report = module.profiler.report()
    assert report.runs == 3 and set(counts(report)) == {3}
    assert report.executor == "kernel by kernel"
    assert {node for row in report.rows for node in row.nodes} == {"matmul", "relu", "softmax"}
    assert len(report.trace) == 3 * len(report.rows)


def test_an_open_program_can_be_counted_when_it_is_wanted():
    module = compiled(dense())
    module(rows(2))
    module.profiler.on = True
    module(rows(2))
    module.profiler.on = False
    module(rows(2))
    assert module.profiler.report().runs == 1
    assert module.profile({"x": rows(4)}, rounds=6).runs == 6
    assert module.profiler.report().runs == 1


@pytest.mark.parametrize("profiled", [True, False])
def test_a_specialized_program_is_profiled_for_its_sizes(profiled):
    module = compiled(dense(), specialize=[{"x": (4, 16)}], profile=profiled)
    special, other = (module.profile({"x": rows(n)}, rounds=3) for n in (4, 5))
    assert {row.program for row in special.rows} == set(module.manifest.specializations)
    assert {row.program for row in other.rows} == {""}
    assert set(counts(special)) == set(counts(other)) == {3}
    assert special.executor == ("ahead of time" if profiled else "kernel by kernel")
    if profiled:
        module(rows(4))
        module(rows(5))
        module(rows(4))
        made = module.profiler.report()
        assert made.runs == 3 and sorted({(row.program, row.count) for row in made.rows}) == [("", 1), ("x:4,16", 2)]


def test_calls_in_loops_and_of_the_host_are_counted(monkeypatch):
    text = """<ir_version: 9, opset_import: ["": 20]> net (float[n] x) => (float[m] y) { u = Unique(x) y = Exp(u) }"""
    made = onnx.parser.parse_model(text)
    made.graph.node[0].name = "distinct"
    report = compiled(made).profile({"x": np.array([1, 2, 1], np.float32)}, rounds=3)
    [host] = [row for row in report.rows if row.host]
    assert (host.name, host.nodes, host.count, host.inputs) == ("Unique", ("distinct",), 3, ())
    assert sum(map(report.share, report.rows)) == pytest.approx(1)


def test_a_tally_that_is_off_counts_nothing():
    tally = Tally(2)
    tally.note(1, 10, 14)
    tally.note(1, 20, 22)
    tally.end_run()
    tally.on = False
    tally.note(0, 1, 2)
    tally.end_run()
    assert tally.times.runs == 1
    assert [(c.count, c.total, c.least, c.most) for c in tally.times.calls] == [(0, 0, 0, 0), (2, 6, 2, 4)]


def test_a_tally_traces_no_more_than_some_runs():
    tally = Tally(1)
    for start in range(100):
        tally.note(0, start, start + 1)
    assert tally.times.calls[0].count == 100 and len(tally.times.trace) == 16


def test_a_run_whose_trace_is_not_all_there_is_left_out():
    counters = Counters(2, traced_runs=2)
    counters.words[1] = 2
    counters.words[9:13] = 7, 100, 150, 175
    assert [(e.call, e.start, e.duration, e.thread) for e in counters.times.trace] == [(0, 100, 50, 7), (1, 150, 25, 7)]
