"""Shape ops, constants, and shape arithmetic that folds away."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import helper, numpy_helper
from onnx_case import check_model, check_node, model_of, node_model
from reference import run_model
from samples import campaign

from tilewright.core.errors import ModelError
from tilewright.frontends import import_model

X = np.arange(24, dtype=np.float32).reshape(2, 3, 4)


def known(*numbers: int) -> np.ndarray:
    return np.array(numbers, np.int64)


def test_reshape():
    check_node("Reshape", X, known(0, -1), known=[1])
    check_node("Reshape", X, known(4, 6), known=[1])
    check_node("Reshape", X, known(1, 2, 1, 12, 1), known=[1])
    check_node("Reshape", X[:1, :1, :1], known(), known=[1])
    check_node("Flatten", X, axis=2)
    check_node("Flatten", X, axis=-1)


def test_a_reshape_that_does_not_fit_is_refused():
    model, _ = node_model("Reshape", [X, known(5, -1)], known=[1])
    model.graph.output[0].CopyFrom(helper.make_tensor_value_info("out0", 1, [5, None]))
    with pytest.raises(ModelError, match=r"a tensor of shape \[2, 3, 4\] cannot be reshaped to \[5, -1\]"):
        import_model(model)


def test_squeeze_and_unsqueeze_by_input_and_by_attribute():
    check_node("Unsqueeze", X, known(0, -1), known=[1])
    check_node("Unsqueeze", X, opset=11, axes=[1])
    check_node("Squeeze", X[:1], known(0), known=[1])
    check_node("Squeeze", X[:1], opset=11, axes=[0])
    check_node("Squeeze", X[:1, :, :1])


def test_expand_broadcasts_both_ways():
    check_node("Expand", X[:1], known(3, 1, 3, 1), known=[1])
    check_node("Expand", np.array([[1.0], [2.0]], np.float32), known(2, 80), known=[0, 1])


@pytest.mark.parametrize("upper", [0, 1])
def test_trilu_and_eye(upper):
    check_node("Trilu", X, upper=upper)
    check_node("Trilu", X, np.array(1), known=[1], upper=upper)
    check_node("Trilu", X, np.array(-1), upper=upper)
    check_node("EyeLike", X[0], k=upper)


@campaign("-4294967296", "-3", "32", "4294967296")
@pytest.mark.parametrize("k", [-(1 << 32), -4, -3, 32, 33, 1 << 32])
def test_a_diagonal_may_lie_outside(k):
    check_node("EyeLike", np.zeros((4, 33), np.float32), k=k)
    for dtype in (np.bool_, np.float16, np.float32, np.float64):
        for upper in (0, 1):
            check_node("Trilu", np.ones((2, 4, 33), dtype), np.array(k), upper=upper)
            check_node("Trilu", np.ones((4, 33), dtype), np.array(k), known=[1], upper=upper)


@pytest.mark.parametrize("shape", [(0, 5), (5, 0), (1, 1), (1, 40001), (20000, 1)])
def test_triangles_of_long_and_of_empty_matrices(shape):
    """Their places need other numbers of bits."""
    for upper in (0, 1):
        check_node("Trilu", np.ones(shape, bool), np.array(39999), upper=upper)


def test_one_hot_wraps_negative_indices():
    check_node("OneHot", np.array([[1, -1], [2, 7]]), np.array(4), np.array([0.5, 2], np.float32), known=[1], axis=0)
    check_node("OneHot", np.array([1.0, 3.0], np.float32), np.array(4), np.array([0, 1]), known=[1])


def test_constants():
    check_node("Range", np.array(10.0), np.array(1.0), np.array(-1.5), known=[0, 1, 2])
    check_node("Range", np.array(0), np.array(100), np.array(1), known=[0, 1, 2])
    check_node("ConstantOfShape", known(3, 40), known=[0])
    check_node("Shape", X, start=1)
    check_node("Size", X)
    check_node("Identity", X)


@pytest.mark.parametrize("indices", [[1, 4], [[0, 1], [1, 1]]])
def test_a_sparse_constant(indices):
    values = numpy_helper.from_array(np.array([7, 8], np.int32))
    sparse = helper.make_sparse_tensor(values, numpy_helper.from_array(np.array(indices)), [2, 3])
    node = helper.make_node("Constant", [], ["y"], sparse_value=sparse)
    got = run_model(import_model(model_of([node], {}, ["y"])), {})[0]
    np.testing.assert_array_equal(got, [[0, 7, 0], [0, 8, 0]])
    assert got.dtype == np.int32


def test_dropout_keeps_everything():
    check_node("Dropout", X, outputs=2)
    check_node("Dropout", X, opset=10)


def test_shape_arithmetic_leaves_no_op():
    nodes = [
        helper.make_node("Shape", ["x"], ["s"]),
        helper.make_node("Slice", ["s", "one", "two"], ["n"]),
        helper.make_node("Mul", ["n", "two"], ["n2"]),
        helper.make_node("Concat", ["n2", "minus"], ["t"], axis=0),
        helper.make_node("Reshape", ["x", "t"], ["y"]),
    ]
    weights = {"one": known(1), "two": known(2), "minus": known(-1)}
    model = model_of(nodes, {"x": X}, ["y"], weights)
    check_model(model, {"x": X})
    assert "arith" not in str(import_model(model).module)


def test_the_old_idiom_for_a_range_folds():
    nodes = [
        helper.make_node("ConstantOfShape", ["n"], ["ones"], value=helper.make_tensor("v", 7, [1], [1])),
        helper.make_node("NonZero", ["ones"], ["indices"]),
        helper.make_node("Transpose", ["indices"], ["column"]),
        helper.make_node("Squeeze", ["column", "one"], ["y"]),
    ]
    model = model_of(nodes, {}, ["y"], {"n": known(100), "one": known(1)})
    imported = import_model(model)
    np.testing.assert_array_equal(run_model(imported, {})[0], np.arange(100))
    assert [p.info.shape for p in imported.params.values()] == [(100,)]  # too large for the IR
