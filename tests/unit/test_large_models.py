"""Memory for weights: a model is compiled, and run, with little more than its weights, wherever they lie."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from refused import refused
from samples import campaign

import tilewright as tw
from tilewright.core.limits import ModelLimits, limits_for
from tilewright.core.program import Kernel
from tilewright.core.target import detect_host
from tilewright.driver import api, jobs
from tilewright.frontends import import_model
from tilewright.passes import pipeline
from tilewright.passes.lower import entry
from tilewright.tools.benchmarks.children import run_module

LAYERS, SMALL, LARGE = 32, 64, 768  # the large model has 75 MB of weights: what else a process has differs by some 15
MOST = 0.8  # of the weights: less than a copy of all of them


def write(folder: Path, size: int, external: bool = True, skip: int = 0) -> Path:
    """A chain of products with square weights, in a file beside the model's, each ``skip`` bytes behind the last one."""
    folder.mkdir()
    random, start, weights = np.random.default_rng(7), skip, []
    with open(folder / "net.data", "wb") as data:
        for i in range(LAYERS):
            weight = random.standard_normal((size, size), np.float32) / np.float32(size**0.5)
            tensor = TensorProto(name=f"w{i}", data_type=TensorProto.FLOAT, dims=weight.shape)
            if external:
                data.seek(start)
                data.write(weight.data)
                tensor.data_location = TensorProto.EXTERNAL
                for key, value in (("location", "net.data"), ("offset", start), ("length", weight.nbytes)):
                    tensor.external_data.add(key=key, value=str(value))
                start += weight.nbytes + skip
            else:
                tensor.raw_data = weight.tobytes()
            weights.append(tensor)
    nodes = [helper.make_node("MatMul", [f"h{i}", f"w{i}"], [f"h{i + 1}"]) for i in range(LAYERS)]
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [4, size]) for name in ("h0", f"h{LAYERS}")]
    graph = helper.make_graph(nodes, "net", ends[:1], ends[1:], weights)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=10)
    onnx.save(model, folder / "net.onnx")
    return folder / "net.onnx"


def most_memory(path: Path, cache: str) -> int:
    """The most bytes that a process had that compiled the model, with its workers, which share pages."""
    environment = {"TILEWRIGHT_CACHE_SIZE": cache, "TILEWRIGHT_CACHE_DIR": str(path.parent / "cache")}
    return run_module("compile", [str(path), "--json", "--workers", "1"], **environment)[1]


def several_at_a_time(elements: int, ops: Sequence[str]) -> onnx.ModelProto:
    """The sum of what unary ops make of one input: all of that is there at a time."""
    nodes = " ".join(f"[the_{op}] a_{op} = {op}(x)" for op in ops)
    total = f"y = Sum({', '.join(f'a_{op}' for op in ops)})"
    text = f'<ir_version: 9, opset_import: ["": 20]> net (float[{elements}] x) => (float[{elements}] y)'
    return onnx.parser.parse_model(f"{text} {{ {nodes} {total} }}")


def planned(model: onnx.ModelProto, untrusted: bool = False) -> jobs.Planned:
    limits = limits_for(untrusted)
    return jobs.plan_model(import_model(model), "", jobs.Settings(detect_host(), 0, None, limits))[0]


def test_an_arena_may_be_larger_than_32_bits_can_say():
    main = planned(several_at_a_time(700_000_000, ["Exp", "Sin"])).plan.main
    assert max(slot.offset for call in main.calls for slot in call.args) > 1 << 31
    kernels = {call.kernel: Kernel(call.kernel, b"", 1, False) for call in main.calls}
    assert entry.emit_entry(main, kernels, None).startswith(b"\x7fELF")


@pytest.mark.parametrize(
    "elements, ops, untrusted, most",
    [
        (250_000_000_000, ["Exp", "Sin"], False, 1 << 40),
        (1_000_000_000, ["Exp", "Sin", "Cos", "Neg", "Abs"], True, 1 << 34),
    ],
)
def test_a_program_that_needs_more_memory_than_it_may_have_is_refused(
    elements: int, ops: list[str], untrusted: bool, most: int
):
    model = several_at_a_time(elements, ops)
    needed = 4 * elements * len(ops)
    message = rf"'net' needs {needed} bytes .* more than the {most} .* tensor<{elements}xf32> of node 'the_\w+', "
    refused(lambda: planned(model, untrusted), message, tw.ModelError)


@pytest.mark.parametrize("role", ["input", "output"])
def test_an_argument_that_no_memory_holds_is_refused(role: str):
    model = import_model(several_at_a_time(8, ["Exp"]))
    wide = {f"{role}s": tuple(dataclasses.replace(info, shape=(1 << 62,)) for info in getattr(model, f"{role}s"))}
    message = rf"{role} '\w+' of shape \[{1 << 62}\] takes {1 << 64} bytes, more than the {1 << 40} that a tensor may"
    refused(lambda: pipeline.plan(dataclasses.replace(model, **wide), detect_host()), message, tw.ModelError)


def test_a_kernel_that_needs_more_memory_than_it_may_have_is_refused(monkeypatch: pytest.MonkeyPatch):
    text = '<ir_version: 9, opset_import: ["": 20]> g (float[8, 8] x) => (float y) { [one] y = Det(x) }'
    model, few = onnx.parser.parse_model(text), ModelLimits(program_bytes=8)
    monkeypatch.setattr(api, "limits_for", lambda untrusted: few)
    message = r"kernel '\w+' \(node one\) needs \d+ bytes of its own in each thread, more than the 8 that"
    refused(lambda: tw.compile(model, workers=0, cache=False), message, tw.ModelError)


@pytest.fixture(scope="module")
def without_weights(tmp_path_factory) -> int:
    """What a compilation takes of memory whatever the weights are."""
    return most_memory(write(tmp_path_factory.mktemp("small") / "model", SMALL), "0")


@campaign("external", "inline")
@pytest.mark.parametrize(
    ("form", "cache"),
    [({}, "10GB"), ({"skip": 1}, "0"), ({"external": False}, "0")],
    ids=["external", "not aligned", "inline"],
)
def test_no_compilation_has_all_weights_in_memory(tmp_path, without_weights, form, cache):
    path = write(tmp_path / "model", LARGE, **form)
    assert most_memory(path, cache) - without_weights <= MOST * LARGE**2 * 4 * LAYERS
    if form:  # the numbers are those of the file
        x = np.ones((4, LARGE), np.float32)
        want = x.astype(np.float64)
        for tensor in onnx.load(path).graph.initializer:
            want = want @ numpy_helper.to_array(tensor)
        np.testing.assert_allclose(tw.load_module(path.with_suffix(".so"))(x)[0], want, 1e-3, 1e-3)
