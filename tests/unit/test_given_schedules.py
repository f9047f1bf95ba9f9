"""Schedules from the outside: the config's ``schedules``, ``compile.py --schedules``, workers, the cache."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper
from samples import campaign

import tilewright as tw
from tilewright.tools import compile as compile_tool
from tilewright.tools import explain as explain_tool

W = np.random.default_rng(0).standard_normal((32, 48), np.float32) / 8
X = np.random.default_rng(1).standard_normal((40, 32), np.float32)


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> str:
    """``y = tanh(x @ w)``"""
    nodes = [helper.make_node("MatMul", ["x", "w"], ["m"], "matmul"), helper.make_node("Tanh", ["m"], ["y"], "tanh")]
    x, y = (helper.make_tensor_value_info(n, onnx.TensorProto.FLOAT, [40, k]) for n, k in (("x", 32), ("y", 48)))
    graph = helper.make_graph(nodes, "net", [x], [y], [numpy_helper.from_array(W, "w")])
    path = str(tmp_path_factory.mktemp("given") / "net.onnx")
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=10), path)
    return path


@pytest.fixture(scope="module")
def kernel(path: str) -> dict[str, Any]:
    """The product's kernel, as `tilewright explain --json` shows it."""
    with pytest.MonkeyPatch.context() as patch:
        shown: list[dict[str, Any]] = []
        patch.setattr(explain_tool, "print_report", lambda record, *_: shown.append(json.loads(json.dumps(record))))
        assert explain_tool.main([path, "--json", "--rounds", "1", "--no-cache"]) == 0
    return next(found for found in shown[0]["kernels"] if found["name"].startswith("matmul"))


def other(kernel: dict[str, Any], rows: int = 5) -> tw.Schedule:
    """Another schedule for the kernel that `explain` shows."""
    plain = tw.Schedule.start(tw.Schedule.from_json(kernel["schedule_json"]).values)
    [block] = plain.result.value.packed
    made = plain.tile("m", rows, "n", block.size).vectorize("n.1").unroll("m.1").unroll("k", 2)
    return made.pack(block.argument, block.axis, block.size).parallel("m.0")


def is_right(lib: tw.Module) -> None:
    np.testing.assert_allclose(lib(X)[0], np.tanh(X @ W), rtol=1e-5, atol=1e-6)


def test_explain_shows_a_schedule_that_can_be_read_back(kernel: dict[str, Any]) -> None:
    made = tw.Schedule.from_json(kernel["schedule_json"])
    assert str(made) == kernel["schedule"] and made.extent == kernel["steps"]


@campaign(every=5)
@pytest.mark.parametrize("executor", ["objects", "engine"])
@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("form", ["value", "object", "text"])
def test_a_kernel_takes_it(path: str, kernel: dict[str, Any], workers: int, executor: Any, form: str) -> None:
    made = other(kernel)
    given = {"value": made, "object": made.to_json(), "text": json.dumps(made.to_json())}[form]
    with tw.PassContext(config={"schedules": {kernel["name"]: given}}):
        is_right(tw.compile(path, workers=workers, executor=executor, cache=False))


@pytest.mark.parametrize("workers", [0, 2])
def test_one_that_does_not_fit_is_refused(path: str, kernel: dict[str, Any], workers: int) -> None:
    """In one line, with the kernel and its nodes; no other schedule takes its place."""
    unfinished = tw.Schedule.start(other(kernel).values)
    with (
        tw.PassContext(config={"schedules": {kernel["name"]: unfinished}}),
        pytest.raises(tw.ScheduleError, match=r"cannot be carried out: .* is what the kernel reads: pack") as caught,
    ):
        tw.compile(path, workers=workers)
    message = str(caught.value)
    assert "\n" not in message and kernel["name"] in message and ("matmul" in message.split(kernel["name"])[-1])


@pytest.mark.parametrize(
    "schedules, words",
    [
        ({"conv_1a2b3c4d": "{}"}, 'kernel .conv_1a2b3c4d.: a schedule as JSON is {"values"'),
        ("conv", "the schedules are no JSON and no transform module with sequences for kernels"),
        (3, "config 'schedules' is a int: give a schedule for each kernel's name, or the text of a transform module"),
    ],
)
def test_what_is_no_schedule_is_refused(path: str, schedules: Any, words: str) -> None:
    with tw.PassContext(config={"schedules": schedules}), pytest.raises(tw.ScheduleError, match=words):
        tw.compile(path)


def test_an_unknown_kernel_is_refused(path: str, kernel: dict[str, Any]) -> None:
    with tw.PassContext(config={"schedules": {"conv_1a2b3c4d": other(kernel)}}):
        for cache in (False, True):
            with pytest.raises(tw.ScheduleError, match=rf"no kernel 'conv_1a2b3c4d'; it has .*{kernel['name']}"):
                tw.compile(path, cache=cache)


def test_the_cache_tells_schedules_apart(path: str, kernel: dict[str, Any], tmp_path: Path) -> None:
    def cached(schedule: tw.Schedule | None) -> tuple[bool, int]:
        config = {"schedules": {kernel["name"]: schedule}} if schedule else {}
        with tw.PassContext(config=config):
            made = tw.compile(path, cache=tmp_path)
        is_right(made)
        return made.report.cached, made.report.cached_kernels

    first, kernels = cached(None)
    assert not first and kernels == 0
    whole, kernels = cached(None)
    assert whole and kernels == 1
    whole, kernels = cached(other(kernel))
    assert not whole and kernels == 0, "the kernel of another schedule is another"
    assert cached(other(kernel))[0] and not cached(other(kernel, 4))[0] and cached(None)[0]


def test_the_command_reads_a_file(path: str, kernel: dict[str, Any], tmp_path: Path, capsys: Any) -> None:
    given, out = tmp_path / "given.json", str(tmp_path / "net.so")
    words = [path, "-o", out, "--quiet", "--schedules", str(given), "--no-cache"]
    given.write_text(json.dumps({kernel["name"]: other(kernel).to_json()}))
    assert compile_tool.main(words) == 0
    is_right(tw.load_module(out))
    for text, said in (
        ("{", "cannot read the schedules in"),
        ("[]", 'is not {"KERNEL": SCHEDULE, ...}'),
        ('{"conv": {}}', "the schedule of kernel 'conv': a schedule as JSON is"),
    ):
        given.write_text(text)
        assert compile_tool.main(words) == 2
        error = capsys.readouterr().err
        assert said in error and error.count("\n") == 1
