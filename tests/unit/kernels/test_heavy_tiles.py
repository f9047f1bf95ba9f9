"""Activation functions on tiles of rows: row by row, with the same numbers, and code for a few rows alone."""

from __future__ import annotations

import numpy as np
import pytest
from kernel_runner import TARGET, CompiledKernel, before_schedule, block_of
from kernel_texts import BIAS_RELU, matmul, pack
from samples import campaign

from tilewright.core.target import detect_host
from tilewright.dialects import ir
from tilewright.dialects.context import reused_context
from tilewright.dialects.walk import find_named
from tilewright.passes.infra.context import PassContext
from tilewright.passes.schedule.apply_schedule import ApplySchedule

RNG = np.random.default_rng(0)
BIAS_TANH = (
    "^bb0(%u: f32, %v: f32, %o: f32): %s = arith.addf %u, %v : f32 %q = math.tanh %s : f32 linalg.yield %q : f32"
)
ROW_TANH = (
    "^bb0(%u: f32, %v: f32, %o: f32): %i = linalg.index 0 : index %j = arith.index_cast %i : index to i32 "
    "%g = arith.sitofp %j : i32 to f32 %s = arith.addf %u, %g : f32 %q = math.tanh %s : f32 linalg.yield %q : f32"
)


def product(m: int, n: int, k: int, epilogue: str) -> str:
    return matmul(m, n, k, block_of(n)).replace(BIAS_RELU, epilogue)


@campaign(every=2)
@pytest.mark.parametrize(("m", "n", "k"), [(64, 64, 8), (29, 96, 5), (13, 40, 7), (3, 32, 4), (1, 64, 9), (50, 16, 3)])
@pytest.mark.parametrize("epilogue", [BIAS_TANH, ROW_TANH])
def test_a_product_with_an_activation(m: int, n: int, k: int, epilogue: str) -> None:
    a, w, bias = (RNG.standard_normal(shape, dtype=np.float32) for shape in ((m, k), (k, n), (n,)))
    added = bias if epilogue == BIAS_TANH else np.arange(m, dtype=np.float32)[:, None]
    want = np.tanh(a.astype(np.float64) @ w + added).astype(np.float32)
    kernel = CompiledKernel(product(m, n, k, epilogue))
    np.testing.assert_allclose(kernel([a, pack(w, block_of(n)), bias], want, 2), want, rtol=0, atol=2e-6)


@pytest.mark.parametrize(("epilogue", "loops"), [(BIAS_RELU, 0), (BIAS_TANH, 1)])
def test_activations_alone_are_taken_row_by_row(epilogue: str, loops: int) -> None:
    with reused_context(), ir.Location.unknown():
        counts = []
        for text in (product(64, 64, 8, BIAS_RELU), product(64, 64, 8, epilogue)):
            module = before_schedule(text)
            PassContext().run(ApplySchedule(target=TARGET.get(detect_host())), module)
            counts.append(len(find_named(module, "scf.for")))
        assert counts[1] >= counts[0] + loops and (loops or counts[0] == counts[1])
