"""Contractions whose dims are not simply rows, columns and one k."""

from __future__ import annotations

import numpy as np
import pytest
from kernel_runner import CompiledKernel, schedule_text
from kernel_texts import einsum

RNG = np.random.default_rng(0)


@pytest.mark.parametrize("equation", ["k,kmn->mn", "bk,bkmn->bmn", "kb,bkmn->bmn", "bckl,bcklmn->bcmn"])
@pytest.mark.parametrize("n", [8, 7, 40])
def test_a_row_times_a_matrix(equation: str, n: int) -> None:
    extents = {"b": 5, "c": 2, "k": 16, "l": 3, "m": 6, "n": n}
    text = einsum(equation, extents)
    left, right, _ = equation.replace("->", ",").split(",")
    a, b = (RNG.standard_normal([extents[x] for x in term], dtype=np.float32) for term in (left, right))
    want = np.einsum(equation, a, b)
    kernel = CompiledKernel(text)
    assert kernel.kernel.extent > 1, f"plain loops instead of {schedule_text(text)}"
    np.testing.assert_allclose(kernel([a, b], want, 2), want, rtol=0, atol=2e-5)


def test_a_result_narrower_than_its_packed_block() -> None:
    text = einsum("mk,kn->mn", {"m": 4, "k": 10, "n": 8}).replace("%b: tensor<10x8xf32>", "%wide: tensor<1x10x16xf32>")
    unpacked = """%be = tensor.empty() : tensor<10x8xf32>
      %b = linalg.unpack %wide outer_dims_perm = [1, 0] inner_dims_pos = [1] inner_tiles = [16] into %be
        : tensor<1x10x16xf32> -> tensor<10x8xf32>
      %z ="""
    a, b = RNG.standard_normal((4, 10), dtype=np.float32), RNG.standard_normal((10, 8), dtype=np.float32)
    packed = np.zeros((1, 10, 16), np.float32)
    packed[0, :, :8] = b
    want = a @ b
    kernel = CompiledKernel(text.replace("%z =", unpacked, 1))
    np.testing.assert_allclose(kernel([a, packed], want), want, rtol=0, atol=2e-5)
