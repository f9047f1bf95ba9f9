"""The budget of pattern sets: no kernel can keep the compiler busy for ever."""

from __future__ import annotations

import numpy as np
import pytest
from kernel_runner import CompiledKernel, schedule_text

from tilewright.dialects import context, transform

COLUMN_SUMS = """func.func @k(%x: tensor<6x400xf32>) -> tensor<400xf32> {
  %z = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<400xf32>
  %f = linalg.fill ins(%z : f32) outs(%e : tensor<400xf32>) -> tensor<400xf32>
  %r = linalg.generic {
    indexing_maps = [affine_map<(j, i) -> (i, j)>, affine_map<(j, i) -> (j)>],
    iterator_types = ["parallel", "reduction"]
  } ins(%x : tensor<6x400xf32>) outs(%f : tensor<400xf32>) {
  ^bb0(%v: f32, %o: f32):
    %s = arith.addf %o, %v : f32
    linalg.yield %s : f32
  } -> tensor<400xf32>
  return %r : tensor<400xf32> }"""


def test_a_kernel_whose_rewrites_find_no_end_runs_as_plain_loops(monkeypatch: pytest.MonkeyPatch) -> None:
    x = np.arange(2400, dtype=np.float32).reshape(6, 400)
    want = x.sum(0)
    scheduled = CompiledKernel(COLUMN_SUMS)
    assert scheduled.kernel.extent > 1, schedule_text(COLUMN_SUMS)
    monkeypatch.setattr(context, "_free", [])  # they keep scripts that have their budget
    monkeypatch.setattr(transform, "MAX_ITERATIONS", 2)
    monkeypatch.setattr(transform, "MAX_REWRITES", 1)
    plain = CompiledKernel(COLUMN_SUMS)
    assert plain.kernel.extent == 1
    assert "plain loops" in plain.kernel.note and not scheduled.kernel.note
    for kernel in (scheduled, plain):
        np.testing.assert_array_equal(kernel([x], want), want)
