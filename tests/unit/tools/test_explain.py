"""``tilewright explain``: kernels with their nodes, work and time."""

import json

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

from tilewright.target import host
from tilewright.tools import _machine, explain


@pytest.fixture
def path(tmp_path):
    """``softmax(relu(x w + b))``"""
    random = np.random.default_rng(0)
    weights = {"w": random.standard_normal((32, 48)), "b": random.standard_normal(48)}
    nodes = [
        helper.make_node("Gemm", ["x", "w", "b"], ["g"], "gemm"),
        helper.make_node("Relu", ["g"], ["r"], "relu"),
        helper.make_node("Softmax", ["r"], ["y"], "softmax"),
    ]
    x, y = (helper.make_tensor_value_info(n, onnx.TensorProto.FLOAT, ["n", k]) for n, k in (("x", 32), ("y", 48)))
    initial = [numpy_helper.from_array(a.astype(np.float32), n) for n, a in weights.items()]
    graph = helper.make_graph(nodes, "net", [x], [y], initial)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)]), tmp_path / "net.onnx")
    return str(tmp_path / "net.onnx")


def test_json_has_each_kernel_with_its_nodes_and_work(path, capsys):
    assert explain.main([path, "--json", "--rounds", "2", "--input-shape", "x:16,32"]) == 0
    record = json.loads(capsys.readouterr().out)
    gemm = next(kernel for kernel in record["kernels"] if ["gemm", "relu"] in kernel["nodes"])
    assert gemm["flops"] == 16 * 48 * (2 * 32 + 2)
    assert gemm["bytes"] >= 4 * (16 * 32 + 32 * 48 + 16 * 48)  # the weight is packed in blocks
    assert gemm["schedule"].startswith("parallel")
    assert gemm["calls"] == 1
    assert sum(kernel["share"] for kernel in record["kernels"]) == pytest.approx(1)
    times = [kernel["seconds"] for kernel in record["kernels"]]
    assert times == sorted(times, reverse=True)


def test_the_table_shows_the_slowest(path, capsys):
    assert explain.main([path, "--rounds", "1", "--top", "1", "--schedules", "--input-shape", "x:16,32"]) == 0
    out = capsys.readouterr().out
    assert "2 calls of 2 kernels" in out
    assert out.count("net.onnx") == 1
    assert len([line for line in out.splitlines() if line.endswith(("relu", "softmax"))]) == 1
    assert "parallel" in out


@pytest.mark.parametrize("argv, words", [(["--rounds", "0"], "--rounds is 0"), ([], "give --input-shape x:1,32")])
def test_refuses(path, argv, words, capsys):
    assert explain.main([path, *argv]) == 2
    assert words in capsys.readouterr().err


def test_the_machine_is_measured():
    assert _machine.fma_peak(host()) > 1e8
    assert _machine.copy_bandwidth() > 1e8
