"""``tilewright bench``: what it tells, and how it refuses."""

import json

import onnx
import pytest
from onnx import helper

import tilewright as tw
from tilewright.tools import _rivals, bench

SHAPE = ("--input-shape", "x:2,16")
FEW = ("--rounds", "2")


@pytest.fixture(autouse=True)
def short_rounds(monkeypatch):
    monkeypatch.setattr(bench, "SLICE_SECONDS", 0.0)


@pytest.fixture
def path(tmp_path) -> str:
    nodes = [helper.make_node("Relu", ["x"], ["y"], "relu"), helper.make_node("Cast", ["i"], ["z"], "cast", to=1)]
    inputs = [
        helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, ["n", 16]),
        helper.make_tensor_value_info("i", onnx.TensorProto.INT64, [8]),
    ]
    shapes = {"y": ["n", 16], "z": [8]}
    outputs = [helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, shape) for name, shape in shapes.items()]
    graph = helper.make_graph(nodes, "net", inputs, outputs)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=10)
    onnx.save(model, tmp_path / "net.onnx")
    return str(tmp_path / "net.onnx")


class Wrong(_rivals.OnnxRuntime):
    """A rival whose answers differ."""

    def run(self, inputs):
        return [output + 1 for output in super().run(inputs)]


def test_compares_with_another_runtime(path, capsys):
    assert bench.main([path, "--compare", "onnxruntime", *SHAPE, *FEW, "--json"]) == 0
    record = json.loads(capsys.readouterr().out)
    [rival] = record["rivals"]
    assert (record["threads"], record["rounds"], rival["name"]) == (1, 2, "onnxruntime")
    assert rival["outputs"] == [{"name": "y", "error": 0.0}, {"name": "z", "error": 0.0}]
    assert record["compile"]["peak_bytes"] > 10 << 20
    assert record["compile"]["seconds"] >= sum(record["compile"]["stages"].values()) > 0
    for spread in (record["seconds"], rival["seconds"], rival["ratio"]):
        assert 0 < spread["low"] <= spread["median"] <= spread["high"]


def test_says_so_in_a_table(path, capsys):
    assert bench.main([path, "--compare", "onnxruntime", *SHAPE, *FEW]) == 0
    out, err = capsys.readouterr()
    lines = out.splitlines()
    assert lines[0].endswith("net.onnx: 1 thread, 2 rounds")
    assert lines[1].startswith("compiled in ")
    assert lines[2].split() == [word for cell in bench._HEAD for word in cell.split()]
    assert lines[3].startswith("tilewright ")
    assert lines[4].startswith("onnxruntime ") and lines[4].endswith("agree")
    assert err == ""


def test_other_answers_are_a_failure(path, capsys, monkeypatch):
    monkeypatch.setitem(_rivals.RIVALS, "onnxruntime", Wrong)
    assert bench.main([path, "--compare", "onnxruntime", *SHAPE, *FEW]) == bench.DISAGREE
    assert capsys.readouterr().out.endswith("DIFFER\n")
    assert bench.main([path, "--compare", "onnxruntime", *SHAPE, *FEW, "--quiet"]) == bench.DISAGREE
    assert capsys.readouterr().out == ""


def test_takes_a_compiled_program(path, capsys):
    program = path.replace(".onnx", ".so")
    tw.compile(path, input_shapes={"x": (2, 16)}).export_library(program)
    assert bench.main([program, *FEW]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].endswith("net.so: 1 thread, 2 rounds")
    assert lines[1].split() == ["runtime", "ms", "quartiles"]
    assert bench.main([program, "--compare", "onnxruntime", *FEW]) == 0


@pytest.mark.parametrize(
    "words, message",
    [
        (["--rounds", "0"], "--rounds is 0"),
        (["--threads", "0"], "num_threads"),
        ([], "--input-shape x:"),
        (["--compare", "openvino"], "pip install absent_package"),
    ],
)
def test_refuses_in_one_line(words, message, path, capsys, monkeypatch):
    monkeypatch.setattr(_rivals.OpenVino, "package", "absent_package")
    assert bench.main([path, *words]) == 2
    out, err = capsys.readouterr()
    assert out == "" and err.count("\n") == 1
    assert message in err


def test_a_program_without_its_model_has_no_rival(path, tmp_path, capsys):
    assert bench.main([str(tmp_path / "other.so"), "--compare", "onnxruntime"]) == 2
    assert "give the ONNX file instead" in capsys.readouterr().err


def test_a_rival_that_refuses_the_model_is_one_line(path):
    with (
        pytest.raises(tw.ModelError, match=r"^onnxruntime cannot run 'm': no such"),
        _rivals.refusals("onnxruntime", "m"),
    ):
        raise RuntimeError("no such\nthing")


def test_every_rival_is_of_the_table():
    assert all(issubclass(rival, _rivals.Rival) for rival in _rivals.RIVALS.values())
    with pytest.raises(SystemExit):
        bench.main(["x.onnx", "--compare", "unheard"])


def test_help_fits_a_screen(capsys):
    with pytest.raises(SystemExit):
        bench.main(["--help"])
    assert len(capsys.readouterr().out.splitlines()) <= 24
