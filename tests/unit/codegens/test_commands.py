"""Commands and code generators of users."""

from __future__ import annotations

from pathlib import Path

import onnx
import pytest
from codegen_case import block, compiled, register_c

from tilewright.core import codegens
from tilewright.tools import check, compile, explain, inspect_artifact, run

pytestmark = pytest.mark.shares_kernels


REGISTERS = """
import numpy as np, tilewright as tw
tw.register_codegen("py", lambda s: s.nodes[0].op_type == "Exp", lambda s: tw.HostCode(b""), load=lambda payload: np.exp)
"""


def test_commands_run_a_file_that_registers_code_generators(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    registers, model, program = tmp_path / "registers.py", tmp_path / "block.onnx", tmp_path / "block.so"
    registers.write_text(REGISTERS)
    onnx.save(block(), model)
    own = ["--register", str(registers)]
    assert compile.main([str(model), "-o", str(program), *own]) == 0
    codegens._CODEGENS.clear()
    assert run.main([str(program), "--fill", "random"]) == 2
    assert "tw.register_codegen('py', load=...)" in capsys.readouterr().err
    assert run.main([str(program), "--fill", "random", *own]) == 0
    codegens._CODEGENS.clear()
    assert explain.main([str(model), "--rounds", "1", *own]) == 0
    assert "codegen_py (Exp_0)" in capsys.readouterr().out
    codegens._CODEGENS.clear()
    assert check.main([str(model), *own]) == 0
    assert "by code generators" in capsys.readouterr().out
    codegens._CODEGENS.clear()
    failing = tmp_path / "failing.py"
    failing.write_text(REGISTERS.replace('tw.HostCode(b"")', "1 / 0"))
    assert compile.main([str(model), "-o", str(tmp_path / "none.so"), "--register", str(failing)]) == 2
    assert "code generator 'py', subgraph 'py_0' (node 'Exp_0'): ZeroDivisionError" in capsys.readouterr().err
    assert not (tmp_path / "none.so").exists()


def test_explain_and_inspect_show_native_code(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    register_c()
    onnx.save(block(), tmp_path / "block.onnx")
    assert explain.main([str(tmp_path / "block.onnx"), "--rounds", "1"]) == 0
    shown = capsys.readouterr().out
    assert "code of code generators: 1 of the kernels" in shown and "code of the code generator 'c', which" in shown
    path = compiled(block()).export_library(tmp_path / "m.so")
    assert inspect_artifact.main([str(path)]) == 0
    assert (
        "code generators, those in Python to be registered before it is loaded: c (native)" in capsys.readouterr().out
    )
