"""Det against numpy."""

from __future__ import annotations

import numpy as np
import pytest
from kernel_runner import CompiledPlan
from onnx_case import foreign_model, node_model
from reference import run_model

from tilewright.core.errors import ModelError
from tilewright.core.target import Target
from tilewright.dialects.context import make_context
from tilewright.frontends import import_model
from tilewright.passes.pipeline import plan

RANDOM = np.random.default_rng(0)


def det(x):
    model, inputs = node_model("Det", [x], opset=22)
    return run_model(import_model(model), inputs)[0]


@pytest.mark.parametrize("shape", [(1, 1), (2, 2), (5, 5), (2, 3, 4, 4), (0, 3, 3), (2, 0, 0), (40, 40)])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_determinants(shape, dtype):
    x = RANDOM.standard_normal(shape).astype(dtype)
    got, want = det(x), np.linalg.det(x.astype(np.float64))
    assert (got.dtype, got.shape) == (dtype, want.shape)
    np.testing.assert_allclose(got, want, rtol=1e-3 if dtype == np.float32 else 1e-10)


def test_narrow_floats_are_computed_in_single_precision():
    x = np.array([[200, 300], [200, 301]], np.float16)  # whose products are no float16
    np.testing.assert_array_equal(det(x), np.float16(200))


def test_rows_are_exchanged_for_the_greatest_pivot():
    np.testing.assert_array_equal(det(np.array([[0, 2, 0], [3, 0, 0], [0, 0, 5]], np.float32)), -30)
    np.testing.assert_allclose(det(np.array([[1e-20, 1], [1, 1]], np.float32)), -1)


def test_singular_matrices_and_numbers_that_are_none():
    x = np.array([[[1, 2], [2, 4]], [[0, 0], [0, 3]], [[1, np.nan], [0, 1]], [[0, 1], [np.nan, 1]]], np.float32)
    np.testing.assert_array_equal(det(x), [0, 0, np.nan, np.nan])


@pytest.mark.parametrize("op", ["Det", "Inverse"])
def test_a_step_copies_no_more_than_rows(op: str) -> None:
    """What is given is copied once, at most; of matrices that each step copied there would be more scratch memory."""
    x = np.zeros((2, 40, 40), np.float32)
    model, _ = node_model(op, [x], opset=22) if op == "Det" else foreign_model(op, [x], "com.microsoft")
    with make_context():
        made = CompiledPlan(plan(import_model(model), Target.parse("x86 -mcpu=x86-64-v3")))
    [elimination] = [each.kernel for name, each in made.kernels.items() if name.startswith("for")]
    assert elimination.scratch_bytes < 1.5 * x.nbytes


def test_what_is_no_square_is_refused():
    model, _ = node_model("Det", [np.zeros((2, 2), np.float32)], opset=22)
    model.graph.input[0].type.tensor_type.shape.dim[1].dim_value = 3
    with pytest.raises(
        ModelError, match=r"the_Det.*x has shape \[2, 3\], it must be \[\*n m m\], but axis 1 is not m = 2"
    ):
        import_model(model)
