"""What type checkers and people are told: types of the package as it is installed, its version, what prints itself."""

from __future__ import annotations

import json
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import helper

import tilewright as tw
from tilewright.tools import cli, inspect_artifact
from tilewright.tools import compile as compile_tool

USER = """
import tilewright as tw
from torch import nn

def use(path: str, net: nn.Module) -> None:
    reveal_type(tw.compile(path))
    reveal_type(tw.compile(net, example_inputs=()))
    reveal_type(tw.load_module(path))
    reveal_type(tw.check_model(path))
    reveal_type(tw.__version__)
    tw.compile(path, no_such_option=1)
"""


def test_a_type_checker_finds_the_package_as_it_is_installed(tmp_path: Path) -> None:
    """Outside of the repository, with nothing but the environment that it is installed into."""
    (tmp_path / "user.py").write_text(USER)
    environment = Path(sys.prefix)
    settings = {"venvPath": str(environment.parent), "venv": environment.name, "include": ["user.py"]}
    (tmp_path / "pyrightconfig.json").write_text(json.dumps(settings))
    pyright = [sys.executable, "-m", "pyright", "--outputjson"]
    done = subprocess.run(pyright, cwd=tmp_path, capture_output=True, text=True, timeout=600, check=False)
    found = json.loads(done.stdout)["generalDiagnostics"]
    revealed = [d["message"].split('"')[-2] for d in found if d["severity"] == "information"]
    assert revealed == ["Module", "TorchModule", "Module", "CheckReport", "str"]
    [error] = [d["message"] for d in found if d["severity"] == "error"]
    assert "no_such_option" in error or "No overloads" in error


def test_the_package_says_that_it_has_types() -> None:
    assert (Path(tw.__file__).parent / "py.typed").is_file()


def test_the_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert tw.__version__ == version("tilewright") and "__version__" in dir(tw)
    for command in (compile_tool.main, inspect_artifact.main):
        with pytest.raises(SystemExit, match="0"):
            command(["--version"])
        assert capsys.readouterr().out == f"tilewright {tw.__version__}\n"
    assert cli.main(["--version"]) == 0


def test_the_package_is_a_command() -> None:
    ran = [sys.executable, "-m", "tilewright", "--version"]
    done = subprocess.run(ran, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, f"tilewright {tw.__version__}\n", "")


def broadcast_model() -> onnx.ModelProto:
    """``y = (a + b) * c`` of vectors of open lengths: each is 1, or that of the others."""
    nodes = [helper.make_node("Add", ["a", "b"], ["s"], "add"), helper.make_node("Mul", ["s", "c"], ["y"], "mul")]
    inputs = [helper.make_tensor_value_info(n, onnx.TensorProto.FLOAT, [f"n{n}"]) for n in "abc"]
    output = helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, [None])
    graph = helper.make_graph(nodes, "net", inputs, [output])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=10)


def test_shapes_of_open_programs_have_short_names(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lib = tw.compile(broadcast_model(), workers=0)
    path = lib.export_library(tmp_path / "net.so")
    [size] = lib.outputs[0].shape
    assert "if_equal" in str(size) and len(repr(size)) <= 8
    for module in (lib, tw.load_module(path)):  # which knows the size's text alone
        assert f"y float32[{size!r}]" in repr(module) and "a float32[na]" in repr(module)
        assert "if_equal" not in repr(module) + repr(module.outputs) + repr(module.outputs[0].shape)
    assert inspect_artifact.main([str(path)]) == 0
    out = capsys.readouterr().out
    assert f"y float32[{size!r}]" in out and f"{size!r}: {size}" in out
    assert inspect_artifact.main([str(path), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["outputs"][0]["shape"] == [str(size)]


def test_a_program_prints_what_it_is(tmp_path: Path) -> None:
    from handmade import SHAPE, affine_module

    lib = affine_module(2)
    lines = repr(lib).splitlines()
    assert lines[0].startswith("Module 'affine'") and "2 threads" in lines[0]
    labels = [line.split()[0] for line in lines[1:]]
    assert labels == ["inputs", "outputs", "kernels", "memory", "CPU"]
    extents = ",".join(map(str, SHAPE))
    assert f"x float32[{extents}]" in lines[1] and f"y float32[{extents}]" in lines[2]
    graph = tw.runtime.GraphModule(lib)
    assert repr(graph).startswith("GraphModule 'affine'") and "to be set: x" in repr(graph)
    graph.run(x=np.zeros(SHAPE, np.float32))
    assert "has run" in repr(graph)


def test_what_was_checked_prints_itself(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    onnx.save(broadcast_model(), tmp_path / "net.onnx")
    found = tw.check_model(tmp_path / "net.onnx")
    assert cli.main(["check", str(tmp_path / "net.onnx")]) == 0
    assert capsys.readouterr().out == f"{found}\n" and str(found) == repr(found)
