"""``tilewright check``: its text, its JSON, its exit codes, and that it neither compiles nor reads the weights."""

import dataclasses
import json
import subprocess
import sys

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

import tilewright as tw
from tilewright.tools import check, networks


def network(op: str = "Relu", extent: "int | str" = 4, opset: int = 18, ir: int = 10) -> onnx.ModelProto:
    """``y = op(x w)``"""
    nodes = [helper.make_node("MatMul", ["x", "w"], ["s"], "product"), helper.make_node(op, ["s"], ["y"], "last")]
    x, y = (helper.make_tensor_value_info(n, onnx.TensorProto.FLOAT, [extent, k]) for n, k in (("x", 8), ("y", 16)))
    weight = numpy_helper.from_array(np.arange(128, dtype=np.float32).reshape(8, 16), "w")
    graph = helper.make_graph(nodes, "net", [x], [y], [weight])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=ir)


def saved(tmp_path, model: onnx.ModelProto) -> str:
    onnx.save(model, tmp_path / "net.onnx")
    return str(tmp_path / "net.onnx")


def test_says_what_the_model_needs(tmp_path, capsys):
    assert check.main([saved(tmp_path, network())]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].endswith("net.onnx: can be compiled; 2 nodes: 2 compiled")
    assert lines[1:] == [
        "inputs      x float32[4,8]",
        "outputs     y float32[4,16]",
        "opsets      ai.onnx 18 (IR version 10)",
        "operators   MatMul, Relu",
        "types       float32",
        "weights     128 numbers in 1 tensor, 512 B",
        "work        1.09 kFLOP, a multiply-add counted as two",
        "memory      about 896 B at its peak: weights 512 B, activations 384 B",
    ]


def test_a_line_for_each_problem_and_exit_code_2(tmp_path, capsys):
    assert check.main([saved(tmp_path, network("Invented"))]) == 2
    out, err = capsys.readouterr()
    assert "cannot be compiled: 1 problem; 2 nodes: 1 compiled, 1 unsupported" in out and err == ""
    [line] = [line for line in out.splitlines() if line.startswith("unsupported ")]
    assert line.startswith("unsupported Invented (last): no converter at opset 18; ONNX has no operator")


def test_nodes_on_the_host_are_named(tmp_path, capsys):
    text = """<ir_version: 9, opset_import: ["": 20]> net (float[5000, 3] x) => (float y)
    { r = Relu(x)  u, a, b, n = Unique<axis = 0>(r)  y = Exp(u) }"""
    model = onnx.parser.parse_model(text)
    model.graph.node[1].name = "distinct"
    path = saved(tmp_path, model)
    assert check.main([path]) == 0
    out = capsys.readouterr().out
    assert "3 nodes: 2 compiled, 1 host" in out and "on the host distinct\n" in out
    assert check.main([path, "--json"]) == 0
    record = json.loads(capsys.readouterr().out)
    assert [node["verdict"] for node in record["nodes"]] == ["compiled", "host", "compiled"]
    assert record["operators"][2] == {"op": "Unique", "count": 1, "verdicts": {"host": 1}}


def test_many_nodes_are_named_only_if_wanted(tmp_path, capsys):
    nodes = [helper.make_node("Invented", [f"v{i}"], [f"v{i + 1}"], f"n{i}") for i in range(8)]
    first, last = (helper.make_tensor_value_info(n, onnx.TensorProto.FLOAT, [2]) for n in ("v0", "v8"))
    graph = helper.make_graph(nodes, "net", [first], [last])
    path = saved(tmp_path, helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=10))
    check.main([path])
    assert "(n0, n1, n2, n3, n4 and 3 more)" in capsys.readouterr().out
    check.main([path, "--all"])
    assert "(n0, n1, n2, n3, n4, n5, n6, n7)" in capsys.readouterr().out


def test_open_shapes_say_what_to_give(tmp_path, capsys):
    path = saved(tmp_path, network(extent="batch"))
    assert check.main([path]) == 0
    out = capsys.readouterr().out
    assert "x float32[batch,8]" in out and "--input-shape x:1,8" in out and "FLOP" not in out
    assert check.main([path, "--input-shape", "x:4,8"]) == 0
    assert "1.09 kFLOP" in capsys.readouterr().out


def test_the_json_is_the_report_and_its_keys_stay(tmp_path, capsys):
    path = saved(tmp_path, network("Invented", "batch"))
    assert check.main([path, "--json"]) == 2
    record = json.loads(capsys.readouterr().out)
    assert record == json.loads(json.dumps(dataclasses.asdict(tw.check_model(path))))
    assert list(record) == [
        "model", "supported", "ir_version", "opsets", "inputs", "outputs", "operators", "nodes", "dtypes", "parameters",
        "problems", "give", "work", "notes", "specializations",
    ]  # fmt: skip
    assert record["inputs"] == [{"name": "x", "dtype": "float32", "shape": ["batch", 8]}]
    assert record["operators"][0] == {"op": "Invented", "count": 1, "verdicts": {"unsupported": 1}}
    assert record["nodes"][0] == {"name": "product", "op": "MatMul", "where": "", "verdict": "compiled"}
    assert record["parameters"] == {"tensors": 1, "elements": 128, "bytes": 512}
    [problem] = record["problems"]
    assert list(problem) == ["op", "kind", "reason", "nodes", "remedy"] and problem["nodes"] == ["last"]
    assert record["give"] == ["--input-shape x:1,8"] and record["work"] is None
    onnx.save(network(), path)
    check.main([path, "--json"])
    work = json.loads(capsys.readouterr().out)["work"]
    assert work == {"flops": 1088, "weight_bytes": 512, "activation_bytes": 384, "peak_bytes": 896}


def without_data() -> onnx.ModelProto:
    model = network()
    [weight] = model.graph.initializer
    weight.ClearField("raw_data")
    weight.data_location = onnx.TensorProto.EXTERNAL
    weight.external_data.add(key="location", value="gone.bin")
    return model


def circle() -> onnx.ModelProto:
    model = network()
    model.graph.node[0].input[0] = "y"
    return model


@pytest.mark.parametrize(
    "model, words",
    [
        (network(opset=999), "has opset 999"),
        (network(ir=99), "IR version 99"),
        (without_data(), "gone.bin' of tensor 'w' is missing"),
        (circle(), "depends on its own output 'y': the graph has a cycle"),
        (onnx.ModelProto(), "is empty"),
        (b"no model at all", "is not an ONNX model"),
        (None, "is a folder"),
    ],
)
def test_what_is_no_model_is_one_line(model, words, tmp_path, capsys):
    path = tmp_path if model is None else tmp_path / "bad.onnx"
    if model is not None:
        path.write_bytes(model if isinstance(model, bytes) else model.SerializeToString())
    assert check.main([str(path)]) == 2
    out, err = capsys.readouterr()
    assert out == "" and err.count("\n") == 1 and err.startswith("error: ") and words in err


@pytest.mark.parametrize(
    "words, message", [(["none.onnx"], "no such file"), (["NET", "--input-shape", "q:1"], "has no input 'q'")]
)
def test_wrong_arguments_are_one_line(words, message, tmp_path, capsys):
    path = saved(tmp_path, network())
    assert check.main([path if word == "NET" else word for word in words]) == 2
    err = capsys.readouterr().err
    assert message in err and err.count("\n") == 1


def test_a_network_of_the_zoo():
    """torchvision gives SqueezeNet 1.1 0.35 G multiply-adds and 1,235,496 parameters."""
    report = tw.check_model(networks.build("squeezenet1_1"))
    assert report.supported and report.work is not None
    assert report.work.flops == pytest.approx(2 * 0.35e9, rel=0.02)
    assert report.parameters.elements == 1_235_496 and report.work.weight_bytes == 4 * 1_235_496
    assert {node.verdict for node in report.nodes} == {"compiled"}
    # The image is there all the time; the first convolution's result and the pooling after it are there together.
    assert report.work.activation_bytes == 4 * (3 * 224 * 224 + 64 * (111 * 111 + 55 * 55))


def test_weights_are_not_read(tmp_path):
    """400 MB of zeros that the file does not even hold on disk: reading them would put them into memory."""
    path, rows, columns = tmp_path / "large.onnx", 10_000, 10_000
    model = network()
    weight = onnx.TensorProto(name="w", data_type=onnx.TensorProto.FLOAT, dims=[rows, columns])
    weight.data_location = onnx.TensorProto.EXTERNAL
    weight.external_data.add(key="location", value="large.bin")
    model.graph.initializer[0].CopyFrom(weight)
    for info, extent in ((model.graph.input[0], rows), (model.graph.output[0], columns)):
        info.type.tensor_type.shape.dim[1].dim_value = extent
    path.write_bytes(model.SerializeToString())
    with open(tmp_path / "large.bin", "wb") as file:
        file.truncate(4 * rows * columns)
    done = subprocess.run([sys.executable, "-c", _CHILD, str(path)], check=True, capture_output=True, text=True)
    nbytes, kilobytes = map(int, done.stdout.split())
    assert nbytes == 4 * rows * columns
    assert kilobytes * 1024 < nbytes


_CHILD = """
import re, sys, tilewright as tw
report = tw.check_model(sys.argv[1])
print(report.parameters.bytes, re.search(r"VmHWM:\\s*(\\d+)", open("/proc/self/status").read())[1])
"""
