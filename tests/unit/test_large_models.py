"""Memory for weights: a model is compiled, and run, with little more than its weights, wherever they lie."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import tilewright as tw
from tilewright.tools._children import run_module

LAYERS, SMALL, LARGE = 8, 64, 1448  # the large model has 67 MB of weights
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


@pytest.fixture(scope="module")
def without_weights(tmp_path_factory) -> int:
    """What a compilation takes of memory whatever the weights are."""
    return most_memory(write(tmp_path_factory.mktemp("small") / "model", SMALL), "0")


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
