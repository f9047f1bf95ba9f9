"""Products of 8-bit integers against numpy, bit for bit."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx_case import check_node, node_model
from reference import run_model

from tilewright.frontends import import_model

RANDOM = np.random.default_rng(0)


def bytes_of(dtype: Any, *shape: int) -> np.ndarray:
    info = np.iinfo(dtype)
    return RANDOM.integers(info.min, info.max, shape, dtype, endpoint=True)


def run(op: str, *arrays: np.ndarray | None, **attributes: Any) -> np.ndarray:
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
