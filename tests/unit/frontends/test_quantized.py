"""Products of 8-bit integers against numpy and onnxruntime, bit for bit."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest
from exact_weights import halve
from onnx_case import check_node, node_model
from reference import run_model

from tilewright.core.errors import ModelError
from tilewright.frontends import import_model

RANDOM = np.random.default_rng(0)


def bytes_of(dtype: Any, *shape: int) -> np.ndarray:
    info = np.iinfo(dtype)
    return RANDOM.integers(info.min, info.max, shape, dtype, endpoint=True)


def run(op: str, *arrays: Any, **attributes: Any) -> np.ndarray:
    model, inputs = node_model(op, arrays, **attributes)
    return run_model(import_model(model), inputs)[0]


@pytest.mark.parametrize("left", [np.int8, np.uint8])
@pytest.mark.parametrize("right", [np.int8, np.uint8])
def test_matmul_of_every_sign(left, right):
    a, b = bytes_of(left, 3, 40), bytes_of(right, 40, 5)
    want = a.astype(np.int32) @ b.astype(np.int32)
    np.testing.assert_array_equal(run("MatMulInteger", a, b), want)
    low, high = np.array(7, left), np.array(100, right)
    want = (a.astype(np.int32) - 7) @ (b.astype(np.int32) - 100)
    np.testing.assert_array_equal(run("MatMulInteger", a, b, low, high), want)
    np.testing.assert_array_equal(run("MatMulInteger", a, b, low, high, known=[1, 2, 3]), want)


def test_zero_points_of_rows_and_columns():
    a, b = bytes_of(np.uint8, 3, 4), bytes_of(np.int8, 4, 5)
    rows, columns = bytes_of(np.uint8, 3), bytes_of(np.int8, 5)
    want = (a.astype(np.int32) - rows[:, None]) @ (b.astype(np.int32) - columns)
    np.testing.assert_array_equal(run("MatMulInteger", a, b, rows, columns), want)
    batch, each = bytes_of(np.uint8, 2, 3, 4), bytes_of(np.uint8, 2, 3, 1)
    want = (batch.astype(np.int32) - each) @ b.astype(np.int32)
    np.testing.assert_array_equal(run("MatMulInteger", batch, b, each), want)


def test_convolution_pads_with_the_zero_point():
    x, w = bytes_of(np.uint8, 2, 4, 7, 6), bytes_of(np.uint8, 6, 2, 3, 3)
    zero = np.array(128, np.uint8)
    attributes = {"group": 2, "pads": [1, 0, 2, 1], "strides": [2, 1], "dilations": [1, 2]}
    check_node("ConvInteger", x, w, zero, np.array(3, np.uint8), **attributes)
    check_node("ConvInteger", x, w, zero, known=[1, 2], **attributes)


def test_a_zero_point_for_each_filter():
    x, w, zeros = bytes_of(np.int8, 1, 2, 9), bytes_of(np.int8, 3, 2, 3), bytes_of(np.int8, 3)
    windows = np.lib.stride_tricks.sliding_window_view(x.astype(np.int32)[0], 3, axis=1)
    want = np.einsum("cok,fck->fo", windows, w.astype(np.int32) - zeros[:, None, None])
    np.testing.assert_array_equal(run("ConvInteger", x, w, None, zeros)[0], want)


def test_weights_stay_narrow():
    a, b, zeros = bytes_of(np.uint8, 3, 100), bytes_of(np.uint8, 100, 5), np.array([128] * 5, np.uint8)
    for zero, kept in ((zeros, "i8"), (np.uint8(127), "i16")):
        model, _ = node_model("MatMulInteger", [a, b, np.array(3, np.uint8), np.array(zero)], known=[1, 2, 3])
        text = str(import_model(model).module)
        assert f"tensor<3x100xi32>, tensor<100x5x{kept}>" in text


@pytest.mark.parametrize(("left", "right"), [(np.int8, np.int8), (np.uint8, np.uint8), (np.uint8, np.int8)])
@pytest.mark.parametrize("known", [(), (1, 2, 3, 4, 5, 6, 7)])
def test_requantised_product(left, right, known):
    a, b = bytes_of(left, 2, 5, 70), halve(bytes_of(right, 70, 9))
    scales = (np.array(0.0123, np.float32), RANDOM.random(9, np.float32) / 10, np.array(0.31, np.float32))
    zeros = (np.array(7, left), bytes_of(right, 9), np.array(-3 if left == np.int8 else 11, left))
    arrays = (a, scales[0], zeros[0], b, scales[1], zeros[1], scales[2], zeros[2])
    check_node("QLinearMatMul", *arrays, known=known, rtol=0, atol=0)


def test_requantised_product_with_a_scale_for_each_row():
    a, b = bytes_of(np.int8, 3, 4), bytes_of(np.int8, 4, 5)
    rows, columns = RANDOM.random(3, np.float32), RANDOM.random(5, np.float32)
    below, left = bytes_of(np.int8, 3), bytes_of(np.int8, 5)
    sums = (a.astype(np.int32) - below[:, None]) @ (b.astype(np.int32) - left)
    factors = rows[:, None] * columns / np.float32(90)
    want = np.clip(np.rint(sums.astype(np.float32) * factors) + 4, -128, 127)
    got = run("QLinearMatMul", a, rows, below, b, columns, left, np.float32(90), np.int8(4), opset=21)
    np.testing.assert_array_equal(got, want)


def test_float8_product():
    a, b = (RANDOM.standard_normal(s).astype(ml_dtypes.float8_e4m3fn) for s in ((3, 8), (8, 2)))
    zero, one = np.zeros((), a.dtype), np.float32(1)
    got = run("QLinearMatMul", a, one, zero, b, one, zero, one, zero, opset=21)
    want = (a.astype(np.float32) @ b.astype(np.float32)).astype(a.dtype)
    np.testing.assert_array_equal(got.astype(np.float32), want.astype(np.float32))


@pytest.mark.parametrize("known", [(), (1, 2, 3, 4, 5, 6, 7, 8)])
@pytest.mark.parametrize("group", [1, 2, 4])
def test_requantised_convolution(group, known):
    x, w = bytes_of(np.uint8, 2, 4, 7, 6), halve(bytes_of(np.int8, 8, 4 // group, 3, 2))
    scales = (np.array(0.0123, np.float32), RANDOM.random(8, np.float32) / 10, np.array(0.031, np.float32))
    bias = RANDOM.integers(-3000, 3000, 8).astype(np.int32)
    zeros = (np.array(131, np.uint8), np.zeros(8, np.int8), np.array(17, np.uint8))
    arrays = (x, scales[0], zeros[0], w, scales[1], zeros[1], scales[2], zeros[2], bias)
    attributes = {"group": group, "pads": [1, 0, 2, 1], "strides": [2, 1]}
    check_node("QLinearConv", *arrays, known=known, rtol=0, atol=0, **attributes)


def test_a_vector_is_no_zero_point_of_a_result():
    a, one, zero = bytes_of(np.int8, 2, 2), np.ones((), np.float32), np.zeros((), np.int8)
    model, _ = node_model("QLinearMatMul", [a, one, zero, a, one, zero, one, np.zeros(2, np.int8)])
    with pytest.raises(ModelError, match=r"'y_zero_point' has shape \[2\], but is one number"):
        import_model(model)
