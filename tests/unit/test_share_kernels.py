"""Unrolled loops: one kernel reads the slices of all steps (``passes/graph/share_kernels.py``)."""

from __future__ import annotations

import json

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

import tilewright as tw
from tilewright.core.program import Slot
from tilewright.runtime import GraphModule
from tilewright.runtime.graph.debug_executor import DebugModule
from tilewright.runtime.module import Module

STEPS, ROWS, COLUMNS = 6, 5, 7
RANDOM = np.random.default_rng(4)
X = RANDOM.standard_normal((1, STEPS, COLUMNS), dtype=np.float32)
R = RANDOM.standard_normal((1, ROWS, 1, 1), dtype=np.float32)
W = RANDOM.standard_normal((COLUMNS, COLUMNS), dtype=np.float32)


def unrolled(kept: bool) -> onnx.ModelProto:
    """A scan over rows of ``x``, and over what is made of it: slices with gaps. ``kept``: that is a result, too."""
    nodes = [helper.make_node("Mul", ["r", "x"], ["z"]), helper.make_node("Sin", ["z"], ["y"])]
    weights = {"r": R, "w": W, "s0": np.ones((1, ROWS, COLUMNS), np.float32)}
    for step in range(STEPS):
        weights[f"t{step}"] = np.array(step)
        nodes += [
            helper.make_node("Gather", ["x", f"t{step}"], [f"x{step}"], axis=1),
            helper.make_node("Gather", ["y", f"t{step}"], [f"y{step}"], axis=2),
            helper.make_node("MatMul", [f"s{step}", "w"], [f"p{step}"]),
            helper.make_node("Mul", [f"p{step}", f"y{step}"], [f"m{step}"]),
            helper.make_node("Add", [f"m{step}", f"x{step}"], [f"a{step}"]),
            helper.make_node("Tanh", [f"a{step}"], [f"s{step + 1}"]),
        ]
    results = [helper.make_tensor_value_info(f"s{STEPS}", onnx.TensorProto.FLOAT, [1, ROWS, COLUMNS])]
    if kept:
        results.append(helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, [1, ROWS, STEPS, COLUMNS]))
    inputs = [helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, X.shape)]
    tensors = [numpy_helper.from_array(value, name) for name, value in weights.items()]
    graph = helper.make_graph(nodes, "unrolled", inputs, results, tensors)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def wanted() -> np.ndarray:
    """The last state."""
    y, state = np.sin(R * X), np.ones((1, ROWS, COLUMNS))
    for step in range(STEPS):
        state = np.tanh(state @ W * y[:, :, step] + X[:, step, None])
    return state


@pytest.fixture(scope="module")
def module() -> Module:
    return tw.compile(unrolled(kept=False), workers=0, num_threads=1, cache=False)


def test_one_kernel_for_all_steps(module: Module) -> None:
    """Each call begins at its step, in the input and in what is made of it; the first product is of weights alone."""
    calls = module.program.manifest.calls
    steps = [call for call in calls if call.kernel == calls[-1].kernel]
    assert len(steps) == STEPS - 1
    begins = [4 * COLUMNS * step for step in range(1, STEPS)]
    assert [call.args[0] for call in steps] == [Slot("input", 0, begin) for begin in begins]
    assert [call.args[1] for call in steps] == [Slot("arena", 0, begin) for begin in begins]
    np.testing.assert_allclose(module.run({"x": X})[0], wanted(), rtol=0, atol=1e-5)


def test_all_executors_agree(module: Module, monkeypatch: pytest.MonkeyPatch) -> None:
    want = module.run({"x": X})[0]
    np.testing.assert_array_equal(Module(module.program, 1, executor="graph").run({"x": X})[0], want)
    nodes = json.loads(GraphModule(module).graph_json)["nodes"]
    x = next(number for number, node in enumerate(nodes) if node["name"] == "x")
    assert [[x, 0, 0] in node["inputs"] for node in nodes[-STEPS:]] == [True] * STEPS
    np.testing.assert_array_equal(DebugModule(module).run({"x": X})[0], want)
    monkeypatch.setenv("TILEWRIGHT_DEBUG", "1")
    np.testing.assert_array_equal(Module(module.program, 1).run({"x": X})[0], want)


def test_what_the_caller_owns_is_not_read_beyond() -> None:
    """A result of the program may end where its memory does: slices of it that have gaps keep kernels of their own."""
    module = tw.compile(unrolled(kept=True), workers=0, num_threads=1, cache=False)
    calls = module.program.manifest.calls
    assert {slot.offset for call in calls for slot in call.args if slot.space == "output"} == {0}
    assert len({call.kernel for call in calls}) == len(calls)
    np.testing.assert_allclose(module.run({"x": X})[0], wanted(), rtol=0, atol=1e-5)
