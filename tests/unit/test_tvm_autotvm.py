"""Templates in TVM's spellings: their configs, and the search for the fastest; indices and lines are TVM 0.19's."""

from __future__ import annotations

import io
import json
import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tilewright as tw
import tilewright.tvm as tvm
from tilewright.tvm import autotvm, te
from tilewright.tvm.autotvm.space import FallbackConfigEntity
from tilewright.tvm.autotvm.tuner import DropletTuner, GATuner, GridSearchTuner, RandomTuner, XGBTuner
from tilewright.tvm.autotvm.tuner import tuner as tuner_module

WRONG: Any = 5
SHAPE = (32, 16, 64, "float32")
OPTION = {
    "builder": autotvm.LocalBuilder(timeout=60),
    "runner": autotvm.LocalRunner(number=1, repeat=1, cooldown_interval=0, timeout=60),
}
# A line that TVM 0.19 has written, of a 128 x 128 x 128 product.
LINE = (
    '{"input": ["llvm -keys=cpu -mtriple=x86_64-unknown-linux-gnu", "tutorial/matmul", [128, 128, 128, "float32"], {}],'
    ' "config": {"index": 44, "code_hash": null, "entity": [["tile_y", "sp", [-1, 16]], ["tile_x", "sp", [-1, 32]]]},'
    ' "result": [[9.9e-05, 9.8e-05], 0, 0.25, 1795725892.4], "version": 0.2, "tvm_version": "0.19.0"}\n'
)


@autotvm.template("tutorial/matmul")
def matmul(n: int, length: int, m: int, dtype: str) -> Any:
    a, b = te.placeholder((n, length), dtype, "A"), te.placeholder((length, m), dtype, "B")
    k = te.reduce_axis((0, length), name="k")
    c = te.compute((n, m), lambda i, j: te.sum(a[i, k] * b[k, j], axis=k), name="C")
    s = te.create_schedule(c.op)
    y, x = s[c].op.axis
    cfg = autotvm.get_config()
    cfg.define_split("tile_y", y, num_outputs=2)
    cfg.define_split("tile_x", x, num_outputs=2)
    yo, yi = cfg["tile_y"].apply(s, c, y)
    xo, xi = cfg["tile_x"].apply(s, c, x)
    s[c].reorder(yo, xo, s[c].op.reduce_axis[0], yi, xi)
    return s, [a, b, c]


@autotvm.template("tests/knobs")
def knobs(n: int) -> Any:
    a = te.placeholder((n, n), name="A")
    b = te.compute((n, n), lambda i, j: te.exp(a[i, j]) + 1.0, name="B")
    s = te.create_schedule(b.op)
    i, j = b.op.axis
    cfg = autotvm.get_config()
    cfg.define_split("i", i, num_outputs=2, policy="candidate", candidate=[[-1, 4], [-1, 1 << 20]])
    io, ii = cfg["i"].apply(s, b, i)
    cfg.define_annotate("run", [ii, j], "try_unroll_vec")
    cfg["run"].apply(s, b, [ii, j], [4, n], max_unroll=8, vec_size=[16, 32], cfg=cfg)
    cfg.define_knob("parallel", [True, False])
    if cfg["parallel"].val:
        s[b].parallel(io)
    cfg.add_flop(2 * n * n)
    return s, [a, b]


def make_task(args: Any = SHAPE) -> Any:
    return autotvm.task.create("tutorial/matmul", args=args, target="llvm")


def test_what_tvm_prints():
    task = make_task((128, 128, 128, "float32"))
    assert str(task) == (
        "Task(func_name=tutorial/matmul, args=(128, 128, 128, 'float32'), kwargs={}, "
        "workload=('tutorial/matmul', 128, 128, 128, 'float32'))"
    )
    assert str(task.config_space) == (
        "ConfigSpace (len=64, range_length=64, space_map=\n"
        "   0 tile_y: Split(policy=factors, product=128, num_outputs=2) len=8\n"
        "   1 tile_x: Split(policy=factors, product=128, num_outputs=2) len=8\n)"
    )
    assert task.flop == 2 * 128**3
    assert str(task.config_space.get(40)) == "[('tile_y', [-1, 1]), ('tile_x', [-1, 32])],None,40"
    entity = [["tile_y", "sp", [-1, 8]], ["tile_x", "sp", [-1, 2]]]
    assert task.config_space.get(11).to_json_dict() == {"index": 11, "code_hash": None, "entity": entity}


def test_knobs_are_counted_as_by_tvm():
    cfg = autotvm.ConfigSpace()
    x, y, z = cfg.axis(36), cfg.axis(24), cfg.axis(7)
    cfg.define_split("verbose", x, policy="verbose", num_outputs=2, filter=lambda e: e.size[-1] < 20)
    assert [each.size[1] for each in cfg.space_map["verbose"]] == [1, 2, 3, 4, 6, 8, 9, 12, 16, 18]
    assert [e.size for e in autotvm_split(x, policy="power2", num_outputs=3, max_factor=4)][:5] == [
        *([-1, 1, 1], [-1, 2, 1], [-1, 4, 1], [-1, 1, 2], [-1, 2, 2])
    ]
    xo, xi = cfg.define_split("a", x, num_outputs=2)
    yo, yi = cfg.define_split("b", y, num_outputs=2)
    cfg.define_reorder("interval", [xo, xi, yo, yi], "interval_all", interval=(1, 3))
    cfg.define_reorder("merged", [xo, yo, xi, yi, z], "interleave", spatial=[[xo, xi], [yo, yi]], reduce=[[z]])
    cfg.define_reorder("given", [xo, yo, xi], "candidate", candidate=[[xo, xi, yo], [yo, xi, xo]])
    cfg.define_annotate("where", [xo, xi, yo], "locate_cache", num_anchor=2)
    cfg.define_knob("k", [False, True, 8])
    orders = [[each.perm for each in cfg.space_map[name]] for name in ("interval", "merged", "given")]
    assert orders == [[[0, 1, 2, 3], [0, 2, 1, 3]], [[0, 1, 2, 3, 4]], [[0, 2, 1], [1, 2, 0]]]
    assert [each.anns for each in cfg.space_map["where"]] == [[0, 1], [0, 2], [1, 2]]
    point = cfg.point2knob(9999)
    assert cfg.knob2point(point) == 9999 and cfg.get(9999).get_other_option() == {
        "k": cfg["k"].val if not point[-1] else cfg.space_map["k"][point[-1]].val
    }
    read = autotvm.ConfigEntity.from_json_dict(json.loads(json.dumps(cfg.get(77).to_json_dict())))
    assert str(read) == str(cfg.get(77)) and len(read.get_flatten_feature()) == 2 * 3 + 4 + 5 + 3 + 2 * 3 + 1


def autotvm_split(axis: Any, **given: Any) -> list[Any]:
    cfg = autotvm.ConfigSpace()
    cfg.define_split("s", axis, **given)
    return list(cfg.space_map["s"])


def test_filters_of_several_knobs():
    cfg, sizes = autotvm.ConfigSpace(), [[16, 64], [32, 32], [64, 16]]
    for name in ("x", "y"):
        cfg.define_split(name, cfg.axis(1024), num_outputs=2, policy="candidate", candidate=sizes)
    cfg.multi_filter(filter=lambda e: e["x"].size[0] + e["y"].size[0] <= 64)
    assert (len(cfg), cfg.range_length) == (4, 9)
    assert [index for index in range(9) if cfg.is_index_valid(index)] == [0, 1, 3, 4]
    assert (cfg.get_next_index(1), cfg.get_next_index(8, -1), cfg.get_next_index(4)) == (3, 4, None)
    assert sorted(cfg.sample_ints(9)) == [0, 1, 3, 4] and cfg.random_walk(0) in (1, 3, 4)
    with pytest.raises(tw.ExpressionError, match="left out"):
        cfg.get(2)


def test_configs_without_a_record(caplog: pytest.LogCaptureFixture):
    with caplog.at_level(logging.WARNING, "autotvm"), tvm.target.Target("llvm"):
        s, args = matmul(8, 8, 24, "float32")
    assert "Cannot find config for target=llvm, workload=('tutorial/matmul', 8, 8, 24, 'float32')" in caplog.text
    tvm.build(s, args, "llvm")
    cfg = FallbackConfigEntity()
    cfg.define_split("tile", cfg.axis(49), num_outputs=3)
    cfg.fallback_split("tile", [-1, 8, 4])
    assert cfg["tile"].size == [7, 7, 1] and cfg.is_fallback


def run(built: Any) -> None:
    a, b = (np.random.default_rng(0).standard_normal(shape).astype("float32") for shape in ((32, 16), (16, 64)))
    np.testing.assert_allclose(built(a, b)[0], a @ b, rtol=1e-4, atol=1e-5)


def test_random_tuning_and_the_best_of_a_log(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    task, log, seen = make_task(), tmp_path / "matmul.log", autotvm.tuner.callback.Monitor()
    tuner = RandomTuner(task)
    bar = autotvm.callback.progress_bar(4, prefix="[Task  1/ 1] ")
    tuner.tune(n_trial=4, measure_option=OPTION, callbacks=[bar, autotvm.callback.log_to_file(str(log)), seen])
    last = capsys.readouterr().out.split("\r")[-1]
    assert last.startswith("[Task  1/ 1]  Current/Best: ") and " GFLOPS | Progress: (4/4) | " in last
    assert last.endswith(" s Done.\n")
    records = list(autotvm.record.load_from_file(log))
    assert [result.error_no for _, result in records] == [0] * 4 and min(seen.trial_scores()) > 0
    best = min(records, key=lambda pair: pair[1].costs)[0].config
    assert str(tuner.best_config) == str(best) and tuner.best_flops > 0
    autotvm.record.pick_best(log, tmp_path / "best.log")
    with autotvm.apply_history_best(str(tmp_path / "best.log")) as held:
        with tvm.target.Target("llvm"):
            s, args = matmul(*SHAPE)
        assert len({id(each) for each in held.best.values()}) == 1
    y, x = best["tile_y"].size[-1], best["tile_x"].size[-1]
    extents = [loop.dom.extent for loop in s[args[-1]].leaf_iter_vars]
    assert extents == [32 // y, 64 // x, 16, y, x]
    run(tvm.build(s, args, "llvm"))


def test_configs_are_measured_by_hand():
    task = make_task()
    measure = autotvm.measure.create_measure_batch(task, OPTION)
    inputs = [autotvm.measure.MeasureInput(task.target, task, task.config_space.get(index)) for index in (0, 3)]
    assert [result.error_no for result in measure(inputs)] == [0, 0]


@pytest.mark.parametrize("kind", [DropletTuner, GATuner, XGBTuner, GridSearchTuner])
def test_tuners_try_each_config_once(kind: Any, monkeypatch: pytest.MonkeyPatch):
    """All of a small space; times are made up, so that nothing is built."""
    if kind is XGBTuner:
        pytest.importorskip("xgboost")
    task = make_task((4, 16, 8, "float32"))
    options: dict[str, Any] = {GATuner: {"pop_size": 4}, XGBTuner: {"plan_size": 4}}.get(kind, {})

    def measure(inputs: Any) -> list[Any]:
        costs = [1e-5 * (1 + abs(each.config["tile_x"].size[-1] - 4)) for each in inputs]
        return [autotvm.MeasureResult((cost,), 0, 0.1, 0.0) for cost in costs]

    monkeypatch.setattr(tuner_module, "create_measure_batch", lambda task, option: measure)
    tuner, tried = kind(task, **options), list[int]()
    tuner.tune(100, OPTION, callbacks=[lambda _, inputs, results: tried.extend(e.config.index for e in inputs)])
    assert tuner.best_config is not None
    assert sorted(tried) == list(range(12)) and tuner.best_config["tile_x"].size == [-1, 4]
    again, tried = kind(task, **options), list[int]()
    again.tune(100, OPTION, early_stopping=3, callbacks=[lambda _, inputs, results: tried.append(len(inputs))])
    assert sum(tried) < 12


@pytest.mark.parametrize("feature_type", ["itervar", "knob", "curve"])
def test_what_trees_see_of_a_config(feature_type: str):
    pytest.importorskip("xgboost")
    task = make_task()
    tuner = XGBTuner(task, feature_type=feature_type, loss_type="rank")
    rows = [np.array(tuner.describe(tuple(task.config_space.point2knob(index)))) for index in (3, 9)]
    assert rows[0].shape == rows[1].shape and (rows[0] != rows[1]).any() and np.isfinite(rows).all()


def test_what_goes_wrong_costs_its_own_trial(caplog: pytest.LogCaptureFixture, capsys: pytest.CaptureFixture[str]):
    task = autotvm.task.create("tests/knobs", [64], target="llvm")
    assert (task.flop, len(task.config_space)) == (2 * 64 * 64, 2 * 8 * 2)
    found: dict[int, list[Any]] = {}
    with caplog.at_level(logging.DEBUG, "autotvm"):
        tuner = GridSearchTuner(task, range_idx=(16, 21))
        tuner.tune(6, OPTION, callbacks=[lambda _, i, r: [found.setdefault(x.error_no, []).append(x) for x in r]])
    errors = found[autotvm.MeasureErrorNo.INSTANTIATION_ERROR]
    assert any("Wrong size of lanes" in str(each) for each in errors), found
    assert found[0] and "GFLOPS: " in caplog.text and "No: 6\tG" in caplog.text
    line = autotvm.record.encode(autotvm.MeasureInput(task.target, task, task.config_space.get(0)), errors[0])
    assert json.loads(line)["result"][:2] == [[1e9], 1]


@autotvm.template("tests/open")
def open_sizes() -> Any:
    autotvm.get_config().add_flop(1)
    a = te.placeholder((te.var("n"),), name="A")
    b = te.compute(a.shape, lambda i: a[i] + 1.0, name="B")
    return te.create_schedule(b.op), [a, b]


@autotvm.template("tests/wrong")
def wrong(n: int) -> Any:
    """A template whose second config computes something else."""
    cfg = autotvm.get_config()
    cfg.define_knob("by", [2.0, 3.0])
    a = te.placeholder((n,), name="A")
    b = te.compute((n,), lambda i: a[i] * cfg["by"].val, name="B")
    return te.create_schedule(b.op), [a, b]


def test_a_wrong_result_is_no_result():
    task = autotvm.task.create("tests/wrong", [16], target="llvm")
    found: list[Any] = []
    GridSearchTuner(task).tune(2, OPTION, callbacks=[lambda _, inputs, results: found.extend(results)])
    assert [each.error_no for each in found] == [0, autotvm.MeasureErrorNo.WRONG_ANSWER]
    assert "'B' differs by" in str(found[1].costs)


@autotvm.template("tests/faults")
def faults(n: int) -> Any:
    """A template whose kernel calls C code that aborts, or runs without an end, by its config."""
    cfg = autotvm.get_config()
    cfg.define_knob("fault", ["", "abort();", "for (volatile int i = 0;;) ;"])
    a = te.placeholder((n,), name="A")
    b = te.compute((n,), lambda i: a[i] * 2.0, name="B")
    small = te.placeholder((16,), name="a")
    c = te.compute((16,), lambda i: small[i] * 2.0, name="c")

    def write(ins: Any, outs: Any) -> Any:
        return te.call_extern("int32", "twice", outs[0].access_ptr("w"), ins[0].access_ptr("r"))

    s = te.create_schedule(b.op)
    outer, inner = s[b].split(b.op.axis[0], 16)
    s[b].tensorize(inner, te.decl_tensor_intrin(c.op, write, name="twice"))
    loop = "for (int i = 0; i < 16; ++i) c[i] = a[i] * 2.0f;"
    code = f"#include <stdlib.h>\nvoid twice(float *c, const float *a) {{ {cfg['fault'].val} {loop} }}"
    s[b].pragma(outer, "import_c", code)
    return s, [a, b]


def test_crashes_and_loops_without_an_end():
    task = autotvm.task.create("tests/faults", [64], target="llvm")
    found: list[Any] = []
    for timeout, numbers in ((60, (0, 1)), (1, (2, 2))):
        runner = autotvm.LocalRunner(number=1, repeat=1, cooldown_interval=0, timeout=timeout)
        option = autotvm.measure_option(autotvm.LocalBuilder(timeout=60), runner)
        GridSearchTuner(task, numbers).tune(2, option, callbacks=[lambda _, inputs, results: found.extend(results)])
    errors = autotvm.MeasureErrorNo
    assert [each.error_no for each in found] == [0, errors.RUNTIME_DEVICE, errors.RUN_TIMEOUT], found
    assert "the program crashed (SIGABRT)" in str(found[1].costs) and "more than 1 s" in str(found[2].costs)


def test_lines_of_tvm(caplog: pytest.LogCaptureFixture, tmp_path: Path):
    (tmp_path / "tvm.log").write_text(f"# of TVM\n{LINE}{LINE.replace('llvm ', 'cuda ')}{LINE[:90]}")
    with caplog.at_level(logging.WARNING, "autotvm"):
        [(given, result)] = autotvm.record.load_from_file(tmp_path / "tvm.log")
    assert "'cuda' is none" in caplog.text and "line 4 is cut off" in caplog.text
    assert (given.task.workload[1:], result.costs) == ((128, 128, 128, "float32"), (9.9e-05, 9.8e-05))
    wanted = {**json.loads(LINE), "tvm_version": "tilewright"}
    target = wanted["input"][0]
    assert json.loads(autotvm.record.encode(given, result)) == wanted and str(given.target) == target
    for source in (io.StringIO(LINE), [(given, result)], [[(given, result)], tmp_path / "tvm.log"]):
        with autotvm.apply_history_best(source), tvm.target.Target("llvm"):
            s, args = matmul(128, 128, 128, "float32")
        assert [loop.dom.extent for loop in s[args[-1]].leaf_iter_vars] == [8, 4, 128, 16, 32]


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: autotvm.RPCRunner("k", "host", 9190, n_parallel=4), tw.InputError, "one at a time by each worker"),
        (lambda: autotvm.RPCRunner("k", "tcp://host", 9190), tw.FleetError, "without encryption is for this machine"),
        (lambda: autotvm.LocalBuilder(build_func="ndk"), tw.InputError, "not by build_func='ndk'"),
        (lambda: autotvm.LocalRunner(number=0), tw.InputError, "number is 0"),
        (lambda: autotvm.measure_option("remote", "local"), tw.InputError, "builder is 'remote'"),
        (lambda: autotvm.task.create("nobody", [], "llvm"), tw.ExpressionError, "no template 'nobody'"),
        (lambda: autotvm.task.create("tests/open", [], "llvm"), tw.ExpressionError, "only the run knows: give numbers"),
        (lambda: make_task((WRONG, object())), tw.ExpressionError, "an argument of a template"),
        (lambda: matmul(n=3), tw.ExpressionError, "by position, not n"),
        (lambda: autotvm.get_config()["tile"], tw.ExpressionError, "no knob 'tile'"),
        (lambda: autotvm_split(autotvm.ConfigSpace.axis(8), policy="odd", num_outputs=2), tw.ExpressionError, "'odd'"),
        (lambda: autotvm_split(autotvm.ConfigSpace.axis(8)), tw.ExpressionError, "takes num_outputs"),
        (lambda: autotvm.ConfigSpace().define_annotate("a", [3], "bind_gpu"), tw.ExpressionError, "GPU's threads"),
        (lambda: XGBTuner(make_task(), optimizer="ga"), tw.InputError, "XGBTuner anneals"),
        (lambda: XGBTuner(make_task(), feature_type="ast"), tw.InputError, "feature_type is 'ast'"),
        (lambda: RandomTuner(make_task(), (0, 99)), tw.InputError, "range_idx is"),
        (lambda: list(autotvm.record.load_from_file("nowhere.log")), tw.TilewrightError, "cannot read the log"),
        (lambda: autotvm.record.decode("[]"), tw.TilewrightError, "no record of a tuning log"),
        (lambda: autotvm.callback.log_to_file("x", "pickle"), tw.TilewrightError, "logs are 'json'"),
        (lambda: autotvm.apply_history_best(WRONG), tw.TilewrightError, "records are a log's path"),
    ],
)
def test_what_has_no_meaning_here_is_refused_in_words(call: Callable[[], Any], error: type[Exception], message: str):
    with pytest.raises(error, match=message):
        call()
