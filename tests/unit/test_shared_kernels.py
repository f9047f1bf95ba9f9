"""Kernels that tests share: whose loops are the same, whatever the nodes are called that they are for."""

from __future__ import annotations

import pytest
import shared_kernels
from kernel_runner import bytecode
from shared_kernels import find_or_compile

from tilewright.core.target import detect_host


def kernel(op: str, node: str) -> bytes:
    return bytecode(f"""
        func.func @k(%x: tensor<37xf32>) -> tensor<37xf32> {{
          %e = tensor.empty() : tensor<37xf32>
          %y = linalg.generic {{indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>],
            iterator_types = ["parallel"]}} ins(%x : tensor<37xf32>) outs(%e : tensor<37xf32>) {{
          ^bb0(%a: f32, %b: f32):
            %r = {op} %a : f32 loc("{node}")
            linalg.yield %r : f32
          }} -> tensor<37xf32> loc("{node}")
          return %y : tensor<37xf32>
        }}""")


@pytest.mark.shares_kernels
def test_a_kernel_is_that_of_nodes_with_other_names(monkeypatch: pytest.MonkeyPatch) -> None:
    one, other, target = kernel("arith.negf", "first"), kernel("arith.negf", "second"), detect_host()
    assert one != other
    made = find_or_compile(one, target)
    monkeypatch.setattr(shared_kernels, "compile_kernel", lambda *given: pytest.fail("it is compiled again"))
    assert find_or_compile(other, target) == made


@pytest.mark.shares_kernels
def test_another_op_is_another_kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    target = detect_host()
    made = find_or_compile(kernel("arith.negf", "node"), target)
    assert find_or_compile(kernel("math.absf", "node"), target).object != made.object
