"""``tilewright tune`` as a command."""

from __future__ import annotations

import json
from pathlib import Path

import onnx
import pytest
from onnx import helper

from tilewright.tools import tune


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> str:
    """``y = reduce_sum(x * x)`` along the first axis."""
    nodes = [
        helper.make_node("Mul", ["x", "x"], ["m"], "square"),
        helper.make_node("ReduceSum", ["m"], ["y"], "sum", keepdims=1, noop_with_empty_axes=0),
    ]
    x = helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, [33, 45])
    y = helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, [1, 1])
    path = str(tmp_path_factory.mktemp("tune") / "net.onnx")
    graph = helper.make_graph(nodes, "net", [x], [y])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=10), path)
    return path


def test_a_report_as_json(model: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    records = tmp_path / "r.sqlite"
    assert tune.main([model, "--trials", "3", "--threads", "1", "--records", str(records), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["threads"] == 1 and found["trials"] <= 3 and records.exists()
    assert {"ratio", "low", "high"} == set(found["ratio"]) and len(found["tasks"]) >= 1


def test_a_table_and_a_picture(model: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    picture = tmp_path / "p.svg"
    arguments = [model, "--trials", "3", "--threads", "1", "--records", str(tmp_path / "r.sqlite")]
    assert tune.main([*arguments, "--plot", str(picture)]) == 0
    out, err = capsys.readouterr()
    assert "net" in out and "trial" in out and "searching" in err
    assert "<svg" in picture.read_text()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--time", "soon"], "time is 'soon'"),
        (["--trials", "0"], "trials is 0"),
        (["--threads", "0"], "--threads is 0"),
        (["--plot", "p.gif"], "p.gif"),
        (["--target", "aarch64"], "aarch64"),
    ],
)
def test_what_cannot_be_is_refused_in_one_line(
    model: str, tmp_path: Path, arguments: list[str], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert tune.main([model, "--records", str(tmp_path / "r.sqlite"), "--trials", "1", *arguments]) == 2
    out, err = capsys.readouterr()
    assert words in err and err.count("\n") == 1 and not out


def test_open_sizes_are_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    node = helper.make_node("Relu", ["x"], ["y"], "relu")
    x, y = (helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, ["n", 4]) for name in "xy")
    made = helper.make_model(helper.make_graph([node], "open", [x], [y]), opset_imports=[helper.make_opsetid("", 18)])
    onnx.save(made, str(tmp_path / "open.onnx"))
    arguments = [str(tmp_path / "open.onnx"), "--trials", "1", "--records", str(tmp_path / "r.sqlite")]
    assert tune.main(arguments) == 2
    assert "n" in capsys.readouterr().err
    assert tune.main([*arguments, "--input-shape", "x:8,4", "--quiet"]) == 0
