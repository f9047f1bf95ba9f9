"""The compiler fails somewhere, somehow: one line that names step and node, and a bundle that shows it again."""

import os
import re
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import onnx.parser
import pytest
import worker_faults
import worker_jobs
from compile_clock import TIMEOUT, leap_over_an_inquest, leap_to_the_end, leaping
from samples import campaign
from worker_jobs import eat_memory, leap_after_leap

import tilewright as tw
from tilewright import workers
from tilewright.dialects import ir
from tilewright.dialects.context import make_context
from tilewright.driver import blame
from tilewright.passes import prefix
from tilewright.passes.ir.kernel import symbol_of
from tilewright.tools import compile as compile_tool
from tilewright.tools import opt
from tilewright.workers import crash_bundle, fork
from tilewright.workers.fork import ENDLESS, Outcome, attempt
from tilewright.workers.process import Job, Limits

MODEL = """
<ir_version: 8, opset_import: ["": 18]>
g (float[4, 8] x) => (float[4, 8] y) {
  [first] a = Sin (x)
  [second] b = Softmax (a)
  [bad] c = Softmax <axis = 0> (b)
  [last] y = Relu (c)
}
"""
OUT_OF_TIME = f"the compilation took more than its timeout of {TIMEOUT} s: it was at"
ENDS = [f"--timeout={TIMEOUT}"]


def slow(*values: object) -> Any:
    """A row of a table that takes more than a few seconds."""
    return pytest.param(*values, marks=pytest.mark.slow)


@pytest.fixture
def model(tmp_path) -> Path:
    onnx.save(onnx.parser.parse_model(MODEL), tmp_path / "m.onnx")
    return tmp_path / "m.onnx"


@pytest.fixture
def crashes(tmp_path, monkeypatch) -> Iterator[Path]:
    monkeypatch.setenv("TILEWRIGHT_CRASH_DIR", str(tmp_path / "crashes"))
    yield tmp_path / "crashes"
    workers.shutdown()


@campaign("graph pass", "kernel pass")
@pytest.mark.parametrize(
    ("place", "way", "options", "said"),
    [
        ("importer", "abort", [], r"crashed \(SIGABRT\) in node 'first' \(Sin\) of model '.*m.onnx': Assertion"),
        slow("importer", "spin", ENDS, f"{OUT_OF_TIME} node 'first' \\(Sin\\) of model '.*m.onnx'"),
        slow("importer", "memory", ["--memory-limit=1G"], r"out of memory in node 'first' \(Sin\) of model '.*m.onnx'"),
        slow(
            "graph pass", "abort", [], r"crashed \(SIGABRT\) in pass 'fuse-ops' of model '.*m.onnx' \(node bad\): Ass"
        ),
        slow("graph pass", "segfault", [], r"crashed \(SIGSEGV\) in pass 'fuse-ops' of model '.*m.onnx' \(node bad\)"),
        ("graph pass", "bug", [], r"error in pass 'fuse-ops' of model '.*m.onnx' \(node bad\): KeyError: 'nothing'"),
        slow("graph pass", "spin", ENDS, f"{OUT_OF_TIME} pass 'fuse-ops' of model '.*' \\(node bad\\)"),
        ("kernel pass", "segfault", [], r"crashed \(SIGSEGV\) in pass 'bufferize' of kernel '\w+' \(nodes? \w+.*\)"),
        slow(
            "kernel pass",
            "sleep",
            ENDS,
            f"{OUT_OF_TIME} pass 'bufferize' of kernel '\\w+' \\(nodes? ",
        ),
        slow("code generator", "abort", [], r"crashed \(SIGABRT\) in step 'emit-object' of kernel '\w+' \(node"),
        slow(
            "code generator",
            "memory",
            ["--memory-limit=1G"],
            r"out of memory in step 'emit-object' of kernel '\w+' \(node",
        ),
    ],
)
def test_a_fault_is_one_line_that_repro_shows_again(place, way, options, said, model, crashes, monkeypatch, capsys):
    worker_faults.inject(monkeypatch, place, way)
    leap_over_an_inquest(monkeypatch)
    assert compile_tool.main([str(model), "--no-cache", "--workers=1", *options]) == 2
    [line] = capsys.readouterr().err.splitlines()
    assert re.search(said, line)
    [bundle] = crashes.iterdir()
    assert line.endswith(f"; `tilewright opt --repro {bundle}` runs it again")
    leap_to_the_end(monkeypatch)
    assert opt.main(["--repro", str(bundle)]) == 2
    [again] = capsys.readouterr().err.splitlines()
    assert re.search(said, again)
    assert list(crashes.iterdir()) == [bundle]


def test_a_model_that_is_no_file_is_in_the_bundle_of_its_import(model, crashes, monkeypatch, capsys):
    worker_faults.inject(monkeypatch, "importer", "abort")
    with pytest.raises(tw.InternalError, match=r"SIGABRT\) in node 'first' \(Sin\) of the model: .*opt --repro"):
        tw.compile(model.read_bytes(), workers=1, cache=False)
    [bundle] = crashes.iterdir()
    assert (bundle / crash_bundle.MODEL).read_bytes() == model.read_bytes()
    moved = bundle.rename(crashes / "moved")
    assert opt.main(["--repro", str(moved)]) == 2
    assert re.search(r"SIGABRT\) in node 'first' \(Sin\) of the model: ", capsys.readouterr().err)


def test_a_check_that_crashes_leaves_a_bundle(model, crashes, monkeypatch):
    worker_faults.inject(monkeypatch, "importer", "abort")
    with pytest.raises(tw.InternalError, match=r"SIGABRT\) in node 'first' \(Sin\) of the check of .*opt --repro"):
        tw.check_model(model)


def failing_from(least: int, how: str = "SIGABRT", seconds: float = 0.0) -> Any:
    """Runs that fail from a count on; each is noted in the list beside it."""
    counts: list[int] = []

    def run(count: int, limit: float) -> Outcome:
        counts.append(count)
        return Outcome(how if count >= least else "", seconds)

    return run, counts


@pytest.mark.parametrize("total", [1, 2, 7, 1000])
def test_the_least_count_that_fails_is_found(total):
    for least in {1, 2, total // 2, total - 1, total} & set(range(1, total + 1)):
        run, counts = failing_from(least)
        assert blame.first_failing(total, run, 10) == least
        assert len(counts) <= 2 * total.bit_length() + 3


def test_nothing_is_found_where_all_fail_or_none_do_or_the_time_is_up():
    assert blame.first_failing(9, failing_from(0)[0], 10) is None
    assert blame.first_failing(9, failing_from(10)[0], 10) is None
    assert blame.first_failing(0, failing_from(1)[0], 10) is None
    assert blame.first_failing(9, failing_from(9, seconds=3)[0], 10) is None


def test_a_count_that_fails_in_another_way_is_not_the_one():
    def run(count: int, limit: float) -> Outcome:
        return Outcome({9: "SIGABRT", 8: "SIGABRT"}.get(count, "KeyError"), 0)

    assert blame.first_failing(9, run, 10) == 8


def test_an_attempt_says_how_it_failed(monkeypatch):
    monkeypatch.setattr(fork, "_GROWTH_BYTES", 128 << 20)

    def leave() -> None:
        raise KeyError

    assert attempt(lambda: None, 60).how == ""
    assert attempt(leave, 60).how == "KeyError"
    assert attempt(lambda: os.kill(os.getpid(), signal.SIGSEGV), 60).how == f"signal {signal.SIGSEGV.value}"
    assert attempt(lambda: time.sleep(60), 0.2).how == ENDLESS
    assert attempt(eat_memory, 60).how == "MemoryError"


PROGRAMS = """
func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  %a = tensor.empty() : tensor<4xf32>
  %b = func.call @k(%x, %a) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %c = math.exp %b : tensor<4xf32>
  return %c : tensor<4xf32>
}
func.func private @k(%x: tensor<4xf32>, %y: tensor<4xf32>) -> tensor<4xf32> {
  %a = math.sin %x : tensor<4xf32> loc("sin")
  %b = math.cos %a : tensor<4xf32> loc(fused["cos", "tan"])
  return %b : tensor<4xf32>
}
"""


@pytest.mark.parametrize(
    ("count", "callee", "main"),
    [
        (0, None, "return"),
        (1, ["math.sin"], "return"),
        (2, ["math.sin", "math.cos"], "return"),
        (3, ["math.sin", "math.cos"], "tensor.empty"),
        (4, ["math.sin", "math.cos"], "call @k"),
        (5, ["math.sin", "math.cos"], "math.exp"),
    ],
)
def test_a_module_is_cut_behind_an_op(count, callee, main):
    """Functions that are called come first; a function that has no op left is a declaration."""
    with make_context(), ir.Location.unknown():
        module = ir.Module.parse(PROGRAMS)
        assert [prefix.nodes_of(op) for op in prefix.ops_of(module)] == [["sin"], ["cos", "tan"], [], [], []]
        prefix.cut(module, count)
        assert module.operation.verify()
        k, main_function = (function_called(module, name) for name in ("k", "main"))
        kept = None if k.is_external else [op.operation.name for op in k.entry_block][:-1]
        assert kept == callee
        assert main in str(main_function).splitlines()[-3 if count > 2 else -2]


def function_called(module: ir.Module, name: str) -> Any:
    """The one function of that name."""
    [found] = (op for op in module.body.operations if symbol_of(op) == name)
    return found


def test_a_cut_function_returns_what_nothing_reads():
    with make_context(), ir.Location.unknown():
        module = ir.Module.parse(PROGRAMS)
        prefix.cut(module, 1)
        sin, end = function_called(module, "k").entry_block.operations
        assert list(end.operands) == [sin.result]


def test_a_compilation_whose_steps_kept_changing_leaves_no_bundle(crashes, monkeypatch):
    monkeypatch.setattr(worker_jobs, "leaps", [leaping(monkeypatch).leap])
    pool, job = workers.Pool(1, Limits(timeout=TIMEOUT)), Job("kernel 'k'", leap_after_leap, (TIMEOUT / 20, 20))
    try:
        with pytest.raises(tw.CompileTimeoutError) as error:
            pool.run([job])
    finally:
        pool.shutdown()
    assert str(error.value).endswith("it was at pass 'failing' of kernel 'k'") and not crashes.exists()
