"""The diagnostics policy: every error of MLIR is a CompileError of one line that names the model's node."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import onnx
import pytest
from text_model import model

import tilewright as tw
from tilewright.core.errors import CompileError
from tilewright.dialects import PassManager, context, ir
from tilewright.dialects.context import diagnostics, make_context, node_name

WRONG_RETURN = """func.func @f(%x: tensor<4xf32>) -> tensor<5xf32> { return %x : tensor<4xf32> loc("conv1") }"""


def test_a_verifier_error_names_the_node():
    with make_context(), pytest.raises(CompileError) as caught, diagnostics("parsing"):
        ir.Module.parse(WRONG_RETURN)
    assert str(caught.value).startswith("parsing failed at node 'conv1': type of return operand 0")
    assert "\n" not in str(caught.value)


def test_an_unknown_pass_is_one_line_too():
    with make_context(), pytest.raises(CompileError) as caught, diagnostics("lowering"):
        PassManager.parse("builtin.module(nope)")
    assert "'nope' does not refer" in str(caught.value)
    assert "\n" not in str(caught.value)


def test_an_error_that_nobody_raises_raises():
    with make_context(), pytest.raises(CompileError, match="stage failed at node 'n': quiet"), diagnostics("stage"):
        ir.Location.name("n").emit_error("quiet")


def test_nothing_is_caught_outside():
    with make_context(), diagnostics("stage"):
        assert not list(ir.Module.parse("module {}").body.operations)


def test_node_names_of_compound_locations():
    with make_context():
        a, b = ir.Location.name("a"), ir.Location.name("b")
        assert node_name(ir.Location.fused([ir.Location.unknown(), a, b])) == "a"
        assert node_name(ir.Location.callsite(b, [a])) == "b"
        assert node_name(ir.Location.unknown()) == ""


def test_a_context_is_used_again_but_not_by_two_at_once_nor_after_an_error(monkeypatch):
    monkeypatch.setattr(context, "_free", [])
    with context.reused_context() as first, context.reused_context() as second:
        assert first is not second
    with context.reused_context() as again, pytest.raises(CompileError), context.reused_context() as other:
        assert {again, other} == {first, second}
        raise CompileError("it failed")
    with context.reused_context() as kept:
        assert kept is again


def test_an_import_joins_the_context_of_its_job():
    with context.reused_context() as used:
        assert context.join_context() is used
        with context.make_context():
            assert context.join_context() is not used
    assert context.join_context() is not used


def test_a_file_is_planned_in_a_context_that_is_used_again(monkeypatch, tmp_path):
    """To make one, with the patterns and pipelines that it keeps, takes a twentieth of a small compilation."""
    monkeypatch.setattr(context, "_free", [])
    path, made, make = tmp_path / "model.onnx", [], context.make_context
    monkeypatch.setattr(context, "make_context", lambda: made.append(make()) or made[-1])
    onnx.save(model("float[2, 3] y", "y = Relu(x)", {"x": np.zeros((2, 3), np.float32)}), path)
    for _ in range(2):
        tw.compile(path, workers=0, num_threads=1, cache=False)
    assert len(made) == 1


def test_a_context_is_not_used_for_ever(monkeypatch):
    monkeypatch.setattr(context, "_free", [])
    monkeypatch.setattr(context, "_MOST_USES", 3)
    used = []
    for _ in range(4):
        with context.reused_context() as one:
            used.append(one)
    assert used[0] is used[1] is used[2] is not used[3]


def test_what_a_worker_needs_is_there_once_and_no_more():
    """Upstream's module for linalg runs a language of its own, and support is code that all programs share."""
    code = (
        "import sys\n"
        "from tilewright.driver import jobs\n"
        "from tilewright.core.target import detect_host\n"
        "from tilewright.passes.lower import entry\n"
        "jobs.warm_up()\n"
        "assert 'mlir.dialects.linalg' not in sys.modules\n"
        "assert entry.emit_support() is entry.emit_support(detect_host())\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
