"""Matrix products against onnxruntime, einsum against numpy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx import helper
from onnx_case import check_node, node_model
from reference import run_model

from tilewright.core.errors import ModelError, UnsupportedError
from tilewright.frontends import import_model

RANDOM = np.random.default_rng(0)


def normal(*shape: int) -> np.ndarray:
    return RANDOM.standard_normal(shape).astype(np.float32)


def main_of(op: str, *arrays: np.ndarray, **attributes: Any) -> str:
    """The IR of a node."""
    return str(import_model(node_model(op, arrays, **attributes)[0]).module)


@pytest.mark.parametrize(
    ("left", "right"),
    [
        ([4], [4]),
        ([4], [4, 5]),
        ([3, 4], [4]),
        ([3, 4], [4, 5]),
        ([2, 3, 4], [4, 5]),
        ([2, 3, 4], [4]),
        ([2, 3, 4], [1, 4, 5]),
        ([4], [2, 4, 5]),
        ([3, 4], [2, 4, 5]),
        ([2, 1, 3, 4], [6, 4, 5]),
        ([1, 6, 3, 4], [2, 1, 4, 5]),
    ],
)
def test_ranks_and_batches(left, right):
    check_node("MatMul", normal(*left), normal(*right))


@pytest.mark.parametrize("dtype", [np.int32, np.int64, np.uint32, np.float64])
def test_other_dtypes(dtype):
    a, b = (RANDOM.integers(0, 100, shape).astype(dtype) for shape in ([2, 3], [3, 4]))
    check_node("MatMul", a, b)


def test_half_precision_accumulates_in_single():
    ones = np.ones((1, 5000), np.float16)
    model, inputs = node_model("MatMul", [ones, ones.T.copy()])
    assert run_model(import_model(model), inputs)[0].item() == 5000  # in half precision it would stop at 2048


def test_leading_dims_are_rows_of_one_product():
    assert "tensor<6x5xf32>" in main_of("MatMul", normal(2, 3, 4), normal(4, 5))


def test_shapes_that_do_not_fit_are_refused():
    model, _ = node_model("MatMul", [normal(3, 4), normal(4, 5)])
    model.graph.input[1].type.tensor_type.shape.dim[0].dim_value = 1  # must not broadcast
    with pytest.raises(ModelError, match=r"the_MatMul.*\[3, 4\].*\[1, 5\]"):
        import_model(model)


@pytest.mark.parametrize("flip_a", [0, 1])
@pytest.mark.parametrize("flip_b", [0, 1])
def test_gemm_transposed(flip_a, flip_b):
    a, b = normal(*[(3, 4), (4, 3)][flip_a]), normal(*[(4, 5), (5, 4)][flip_b])
    check_node("Gemm", a, b, transA=flip_a, transB=flip_b)
    check_node("Gemm", a, b, normal(5), transA=flip_a, transB=flip_b, alpha=0.5, beta=2.0)


@pytest.mark.parametrize("shape", [[], [1], [5], [3, 1], [1, 5], [3, 5]])
def test_gemm_adds_what_broadcasts(shape):
    check_node("Gemm", normal(3, 4), normal(4, 5), normal(*shape))
    check_node("Gemm", normal(3, 4), normal(4, 5), normal(*shape), beta=0.0)


def test_gemm_reads_transposed_weights_as_they_lie():
    assert main_of("Gemm", normal(3, 4), normal(5, 4), transB=1).count("linalg.generic") == 1


def test_gemm_of_integers_takes_whole_factors():
    arrays = [np.full((2, 3), 5, np.int32), np.full((3, 2), 7, np.int32)]
    model, inputs = node_model("Gemm", arrays, alpha=2.0)
    np.testing.assert_array_equal(run_model(import_model(model), inputs)[0], np.full((2, 2), 210))
    model.graph.node[0].attribute[0].f = 0.5
    with pytest.raises(UnsupportedError, match=r"alpha 0.5.*int32"):
        import_model(model)


EQUATIONS = {
    "ij,jk->ik": [(2, 3), (3, 4)],
    "ij,jk": [(2, 3), (3, 4)],
    "bhqd,bhkd->bhqk": [(2, 3, 4, 5), (2, 3, 6, 5)],
    "bqhd,bkhd->bhqk": [(2, 4, 3, 5), (2, 6, 3, 5)],
    "ij,ij->ij": [(2, 3), (2, 3)],
    "i,j->ji": [(2,), (3,)],
    "ij->ji": [(2, 3)],
    "ij->": [(2, 3)],
    "ij->j": [(2, 3)],
    "ii->i": [(3, 3)],
    "ii": [(3, 3)],
    "iij,jk->ki": [(3, 3, 2), (2, 4)],
    "ij,k->i": [(2, 3), (4,)],
    "ij,jk,kl->il": [(2, 3), (3, 4), (4, 5)],
    "bi,bi->b": [(2, 3), (2, 3)],
    "i,i,i->i": [(3,), (3,), (3,)],
    "...ij,...jk->...ik": [(2, 1, 3, 4), (5, 4, 6)],
    "...ij,jk": [(2, 3, 4), (4, 5)],
    "i...->...": [(2, 3, 4)],
    "a b , b c -> a c": [(2, 3), (3, 4)],
}


@pytest.mark.parametrize("equation", EQUATIONS)
def test_einsum(equation):
    arrays = [normal(*shape) for shape in EQUATIONS[equation]]
    want = np.einsum(equation, *arrays)
    model, inputs = node_model("Einsum", arrays, equation=equation)
    model.graph.output[0].CopyFrom(helper.make_tensor_value_info("out0", 1, want.shape))  # onnx infers not all
    [got] = run_model(import_model(model), inputs)
    assert got.shape == want.shape
    np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-5)


def test_a_product_without_a_sum_is_elementwise():
    assert "linalg.fill" not in main_of("Einsum", normal(2, 3), normal(2, 3), equation="ij,ij->ij")


@pytest.mark.parametrize(
    ("equation", "reason"),
    [("ij,jk->ix", "does not fit"), ("ij,jk,kl->il", "3 terms for 2 inputs"), ("ij,j->i", "does not fit")],
)
def test_equations_that_do_not_fit_are_refused(equation, reason):
    model, _ = node_model("Einsum", [normal(2, 3), normal(3, 4)], equation="ij,jk->ik")
    model.graph.node[0].attribute[0].s = equation.encode()
    with pytest.raises(ModelError, match=reason):
        import_model(model)


def test_einsum_extents_that_differ_are_refused():
    model, _ = node_model("Einsum", [normal(2, 3), normal(3, 4)], equation="ij,jk->ik")
    model.graph.input[1].type.tensor_type.shape.dim[0].dim_value = 5
    with pytest.raises(ModelError, match="'j'"):
        import_model(model)
