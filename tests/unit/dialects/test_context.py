"""The diagnostics policy: every error of MLIR is a CompileError of one line that names the model's node."""

from __future__ import annotations

import pytest

from tilewright.dialects import PassManager, ir
from tilewright.dialects.context import diagnostics, make_context, node_name
from tilewright.errors import CompileError

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
        ir.Module.parse("module {}")


def test_node_names_of_compound_locations():
    with make_context():
        a, b = ir.Location.name("a"), ir.Location.name("b")
        assert node_name(ir.Location.fused([ir.Location.unknown(), a, b])) == "a"
        assert node_name(ir.Location.callsite(b, [a])) == "b"
        assert node_name(ir.Location.unknown()) == ""
