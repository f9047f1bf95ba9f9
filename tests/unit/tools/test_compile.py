"""``compile.py``: what it writes and says, and how it refuses."""

import json
import os
import re
import subprocess
import sys

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

import tilewright as tw
from tilewright.tools import _options
from tilewright.tools import compile as compile_tool

W = np.arange(128, dtype=np.float32).reshape(8, 16)


def model(extent: "int | str" = 8) -> onnx.ModelProto:
    """``y = relu(x + w)``; the input is named as exporters do."""
    nodes = [helper.make_node("Add", ["in/x:0", "w"], ["s"], "add"), helper.make_node("Relu", ["s"], ["y"], "relu")]
    x = helper.make_tensor_value_info("in/x:0", onnx.TensorProto.FLOAT, [extent, 16])
    y = helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, [extent, 16])
    graph = helper.make_graph(nodes, "net", [x], [y], [numpy_helper.from_array(W, "w")])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)])


@pytest.fixture
def path(tmp_path) -> str:
    onnx.save(model(), tmp_path / "net.onnx")
    return str(tmp_path / "net.onnx")


def check(lib: tw.Module) -> None:
    x = np.random.default_rng(0).standard_normal((8, 16), np.float32)
    np.testing.assert_array_equal(lib.run({"in/x:0": x})[0], np.maximum(x + W, 0))


def test_writes_the_program_beside_the_model_and_says_so_in_four_lines(path, capsys):
    assert compile_tool.main(["--target", "x86", path]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 4
    assert lines[0].endswith("net.so: in/x:0 float32[8,16] -> y float32[8,16]")
    assert lines[1].startswith("1 call of 1 kernel (")
    assert lines[2].startswith("compiled in ")
    assert re.fullmatch(r"wrote \S*net\.so \([\d.]+ kB\), \S*net\.safetensors \(\d+ B\)", lines[3])
    os.unlink(path)  # the program does not need it any more
    check(tw.load_module(path.replace(".onnx", ".so")))


def test_the_script_works_as_the_readme_writes_it(path):
    root = os.path.dirname(compile_tool.__file__)
    line = [sys.executable, os.path.join(root, "compile.py"), "--target", "x86", path, "--json", "--workers", "0"]
    done = subprocess.run(line, check=True, capture_output=True, text=True)
    record = json.loads(done.stdout)
    assert record["inputs"] == [{"name": "in/x:0", "shape": [8, 16], "dtype": "float32"}]
    assert (record["kernels"], record["weight_bytes"]) == (1, 512)
    assert done.stderr == ""


@pytest.mark.parametrize(
    "kind, sign",
    [("linalg", '{tw.param = "w"}'), ("kernels", "// main: program"), ("llvm", "define "), ("asm", ".text")],
)
def test_shows_what_a_stage_made(path, kind, sign, capsys):
    assert compile_tool.main([path, "--emit", kind, "-o", "-"]) == 0
    assert sign in capsys.readouterr().out
    assert compile_tool.main([path, "--emit", kind, "--quiet"]) == 0
    with open(path.replace(".onnx", compile_tool.SUFFIXES[kind])) as file:
        assert sign in file.read()


def test_an_object_can_be_linked_elsewhere(path, tmp_path):
    assert compile_tool.main([path, "--emit", "obj", "--quiet"]) == 0
    subprocess.run(["cc", "-shared", "net.o", "-o", "own.so"], cwd=tmp_path, check=True)
    (tmp_path / "net.safetensors").rename(tmp_path / "own.safetensors")
    with pytest.raises(tw.ArtifactError, match="checksum is missing"):
        tw.load_module(tmp_path / "own.so")
    check(tw.load_module(tmp_path / "own.so", sealed=False))


@pytest.mark.parametrize("kind, name, right", [("obj", "a.so", r"\.o"), ("so", "a.o", r"\.so"), ("obj", "a", r"\.o")])
def test_the_output_is_what_its_name_says(path, kind, name, right, tmp_path, capsys):
    assert compile_tool.main([path, "--emit", kind, "-o", str(tmp_path / name)]) == 2
    assert re.fullmatch(
        f"error: cannot write .*{name}: for --emit {kind} give a name .*{right}\n", capsys.readouterr().err
    )
    assert not (tmp_path / name).exists()


def test_options_on_passes_have_a_screen_of_their_own(capsys):
    with pytest.raises(SystemExit) as info:
        compile_tool.main(["--help-passes"])
    shown = capsys.readouterr().out
    assert info.value.code == 0 and len(shown.splitlines()) <= 24
    assert all(option in shown for option in ("--print-ir-after", "--dump-dir", "--config", "--schedules"))


def test_passes_can_be_watched(path, tmp_path, capfd):
    watch = ["--print-ir-after", "outline", "--dump-dir", str(tmp_path / "dump"), "--time-passes"]
    assert compile_tool.main([path, "--quiet", *watch]) == 0
    err = capfd.readouterr().err
    assert "// ----- IR after outline -----" in err
    assert " ms  fuse-ops" in err
    assert any(file.name.endswith("-outline.mlir") for file in (tmp_path / "dump").iterdir())


def test_open_extents_are_given(tmp_path):
    onnx.save(model("batch"), tmp_path / "open.onnx")
    path = str(tmp_path / "open.onnx")
    assert compile_tool.main([path, "--input-shape", "in/x:0:8,16", "--quiet"]) == 0
    check(tw.load_module(tmp_path / "open.so"))
    assert sorted(os.listdir(tmp_path)) == ["open.onnx", "open.safetensors", "open.so"]


def test_a_rank_that_the_run_decides_is_told(tmp_path, capsys):
    text = """<ir_version: 9, opset_import: ["": 18]> g (float[2,3] x, bool t) => (float[] y) {
      y = If <then_branch = yes () => (p) { p = Neg(x) }, else_branch = no () => (q) { q = ReduceSum<keepdims = 0>(x) }> (t)
    }"""
    onnx.save(onnx.parser.parse_model(text), tmp_path / "net.onnx")
    assert compile_tool.main([str(tmp_path / "net.onnx"), "--workers", "0"]) == 0
    assert "x float32[2,3], t bool[] -> y float32[*]" in capsys.readouterr().out
    assert compile_tool.main([str(tmp_path / "net.onnx"), "--workers", "0", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["outputs"] == [{"name": "y", "shape": None, "dtype": "float32"}]


@pytest.mark.parametrize(
    "arguments, message",
    [
        (["none.onnx"], "none.onnx: no such file"),
        (["MODEL", "--target", "vax"], "unknown target 'vax'"),
        (["MODEL", "--target", "x86 -mcpu=haswel"], "the known ones are haswell, "),
        (["MODEL", "--target", "x86 -O3"], "unknown option '-O3'"),
        (["MODEL", "-o", "none/net.so"], "there is no folder"),
        (["MODEL", "-o", "net.dll"], "a program's name ends with .so"),
        (["MODEL", "--threads", "0"], "num_threads is 0"),
        (["MODEL", "--print-ir-after", "all", "--workers", "-1"], "workers is -1"),
    ],
)
def test_refuses_in_one_line_and_writes_nothing(path, arguments, message, capsys):
    assert compile_tool.main([path if a == "MODEL" else a for a in arguments]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith("error: ")
    assert message in captured.err
    assert captured.err.count("\n") == 1
    assert os.listdir(os.path.dirname(path)) == ["net.onnx"]


@pytest.mark.parametrize("text", ["x", "x:", ":1,2", "x:a b,2", "x:-1,2", "x:8..1", "x:1..n", "x:n..8", "x:=2"])
def test_refuses_what_is_no_shape(path, text, capsys):
    if text == "x:":  # a scalar
        assert _options.input_shape(text) == ("x", ())
        return
    with pytest.raises(SystemExit) as info:
        compile_tool.main([path, "--input-shape", text])
    assert info.value.code == 2
    assert f"'{text}' is not NAME:EXTENT,EXTENT,..." in capsys.readouterr().err


def test_threads_are_the_programs_default(path):
    assert compile_tool.main([path, "--threads", "1", "--quiet"]) == 0
    assert tw.load_module(path.replace(".onnx", ".so")).num_threads == 1
