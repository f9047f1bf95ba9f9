"""Pooling against onnxruntime."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx_case import check_node, node_model
from reference import run_model
from samples import campaign

import tilewright as tw
from tilewright.core.errors import InputError, ModelError
from tilewright.frontends import import_model

RANDOM = np.random.default_rng(0)
X = RANDOM.standard_normal((2, 3, 9, 8)).astype(np.float32)
POOLS = ["MaxPool", "AveragePool", "LpPool"]


@pytest.mark.parametrize("op", POOLS)
def test_strides_and_uneven_pads(op):
    check_node(op, X, kernel_shape=[3, 2], strides=[2, 1])
    check_node(op, X, kernel_shape=[3, 3], strides=[2, 2], pads=[1, 0, 2, 1])


@pytest.mark.parametrize("op", POOLS)
def test_one_and_three_spatial_dims(op):
    check_node(op, X[0], kernel_shape=[3], strides=[2], pads=[1, 1])
    check_node(op, X[:, :, None], kernel_shape=[1, 3, 2], strides=[1, 2, 2], pads=[0, 1, 0, 0, 1, 1])


@pytest.mark.parametrize("op", POOLS)
@pytest.mark.parametrize("auto_pad", ["SAME_UPPER", "SAME_LOWER", "VALID"])
def test_padding_by_rule(op, auto_pad):
    check_node(op, X, kernel_shape=[3, 2], strides=[2, 3], auto_pad=auto_pad)


@pytest.mark.parametrize("op", POOLS)
def test_dilations(op):
    check_node(op, X, opset=19, kernel_shape=[2, 3], dilations=[3, 2], pads=[1, 1, 1, 1])


@pytest.mark.parametrize("include", [0, 1])
def test_ceil_mode_and_what_counts(include):
    for pads in ([0, 0, 0, 0], [1, 1, 1, 1], [0, 1, 1, 0]):
        attributes = {"kernel_shape": [3, 3], "strides": [2, 3], "pads": pads, "count_include_pad": include}
        check_node("AveragePool", X, **attributes)
        check_node("AveragePool", X, opset=19, ceil_mode=1, **attributes)


def test_a_window_does_not_start_in_the_padding_above():
    check_node("MaxPool", X[:, :, :2, :2], kernel_shape=[1, 1], strides=[2, 2], ceil_mode=1)
    check_node("MaxPool", X, kernel_shape=[2, 3], strides=[3, 3], pads=[0, 1, 1, 1], ceil_mode=1)


@pytest.mark.parametrize("order", [0, 1])
def test_indices(order):
    check_node("MaxPool", X, outputs=2, kernel_shape=[3, 2], strides=[2, 1], pads=[1, 0, 1, 1], storage_order=order)
    solid = RANDOM.standard_normal((2, 2, 4, 5, 6)).astype(np.float32)
    check_node("MaxPool", solid, outputs=2, kernel_shape=[2, 2, 3], dilations=[1, 2, 1], storage_order=order)


def test_indices_of_equal_elements_are_the_first_and_never_padding():
    zeros = np.zeros((1, 2, 4, 4), np.uint8)
    check_node("MaxPool", zeros, outputs=2, kernel_shape=[2, 2], pads=[1, 1, 1, 1])


def unpooled(x: np.ndarray, at: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    result = np.zeros(shape, x.dtype)
    result.reshape(-1)[at] = x
    return result


def test_unpooling_puts_elements_back():
    at = np.array([[[[5, 7], [13, 15]]]])
    check_node("MaxUnpool", X[:1, :1, :2, :2], at, kernel_shape=[2, 2], strides=[2, 2])
    x, places = np.array([[[3, 1, 2]]], np.float16), np.array([[[6, 0, 3]]])
    model, inputs = node_model("MaxUnpool", [x, places], kernel_shape=[3], strides=[3], pads=[1, 1])
    np.testing.assert_array_equal(run_model(import_model(model), inputs)[0], unpooled(x, places, (1, 1, 7)))


def test_unpooling_to_a_larger_shape_adds_zeros_above():
    x, at, shape = X[:1, :1, :2, :2], np.array([[[[5, 7], [13, 15]]]]), np.array([1, 1, 5, 6])
    model, inputs = node_model("MaxUnpool", [x, at, shape], known=[2], kernel_shape=[2, 2], strides=[2, 2])
    want = np.pad(unpooled(x, at, (1, 1, 4, 4)), [(0, 0), (0, 0), (0, 1), (0, 2)])
    np.testing.assert_array_equal(run_model(import_model(model), inputs)[0], want)


def test_unpooling_to_a_shape_that_the_run_tells():
    x, at, shape = X[:1, :1, :2, :2], np.array([[[[5, 7], [13, 15]]]]), np.array([1, 1, 5, 6])
    model, _ = node_model("MaxUnpool", [x, at, shape], kernel_shape=[2, 2], strides=[2, 2])
    module = tw.compile(model, workers=0, num_threads=1, cache=False)
    for high, wide in ((5, 6), (4, 4)):
        want = np.pad(unpooled(x, at, (1, 1, 4, 4)), [(0, 0), (0, 0), (0, high - 4), (0, wide - 4)])
        np.testing.assert_array_equal(module(x, at, np.array([1, 1, high, wide]))[0], want)
    for wrong in ([1, 1, 3, 4], [1, 2, 4, 4]):
        with pytest.raises(InputError, match="output_shape does not contain what is unpooled"):
            module(x, at, np.array(wrong))


@pytest.mark.parametrize("shape", [[1, 1, 3, 4], [1, 2, 4, 4]])
def test_unpooling_to_a_shape_that_does_not_fit_is_refused(shape):
    arrays = [X[:1, :1, :2, :2], np.zeros((1, 1, 2, 2), np.int64), np.array(shape)]
    model, _ = node_model("MaxUnpool", arrays, known=[2], kernel_shape=[2, 2], strides=[2, 2])
    with pytest.raises(ModelError, match=r"output_shape \[.*\] does not contain .* \[1, 1, 4, 4\]"):
        import_model(model)


@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.float64])
def test_maximum_of_other_dtypes(dtype):
    check_node("MaxPool", RANDOM.integers(0, 100, (1, 2, 5, 5)).astype(dtype), kernel_shape=[3, 3], pads=[1, 1, 1, 1])


@pytest.mark.parametrize("p", [1, 2, 3])
def test_norms(p):
    check_node("LpPool", X, kernel_shape=[2, 2], p=p)
    check_node("GlobalLpPool", X, p=p)


@pytest.mark.parametrize("op", ["GlobalAveragePool", "GlobalMaxPool"])
def test_whole_channels(op):
    check_node(op, X)
    check_node(op, X[0])


@pytest.mark.parametrize("op", ["AveragePool", "GlobalAveragePool"])
def test_half_precision_accumulates_in_single(op):
    large = np.full((1, 1, 16, 16), 1000, np.float16)
    attributes: dict[str, Any] = {"kernel_shape": [16, 16]} if op == "AveragePool" else {}
    model, inputs = node_model(op, [large], **attributes)
    assert run_model(import_model(model), inputs)[0].item() == 1000  # the sum is infinite in half precision


@pytest.mark.parametrize("op", ["MaxPool", "AveragePool", "LpPool"])
@pytest.mark.parametrize("attribute", ["kernel_shape", "strides", "dilations"])
def test_windows_that_cannot_be_are_refused(op, attribute):
    attributes: dict[str, Any] = {name: [2, 1] for name in ("kernel_shape", "strides", "dilations")}
    model, _ = node_model(op, [X], opset=22, **attributes)
    for wrong in model.graph.node[0].attribute:
        if wrong.name == attribute:
            wrong.ints[:] = [2, -1]
    with pytest.raises(ModelError, match=rf"attribute '{attribute}' is \[2, -1\]: -1 is less than 1"):
        import_model(model)


def test_a_window_larger_than_the_input_is_refused():
    model, _ = node_model("MaxPool", [X], kernel_shape=[3, 3], dilations=[1, 2], pads=[1, 0, 0, 0])
    model.graph.node[0].attribute[1].ints[:] = [3, 20]
    with pytest.raises(ModelError, match=r"a window of \[3, 39\] is larger than the padded input \[10, 8\]"):
        import_model(model)


@pytest.mark.parametrize("op", POOLS)
def test_in_ceil_mode_a_window_larger_than_the_input_is_a_partial_one(op):
    check_node(op, X, opset=22, kernel_shape=[1280, 1280], strides=[1280, 1280], ceil_mode=1)
    check_node(op, X, opset=22, kernel_shape=[12, 5], strides=[4, 3], dilations=[1, 2], pads=[0, 1, 1, 0], ceil_mode=1)


@pytest.mark.parametrize("include", [0, 1])
def test_a_partial_window_counts_what_lies_in_it(include):
    attributes: dict[str, Any] = {"kernel_shape": [40, 13], "strides": [40, 8], "pads": [2, 1, 1, 3]}
    check_node("AveragePool", X, opset=22, ceil_mode=1, count_include_pad=include, **attributes)


def test_the_greatest_of_a_partial_window_has_its_place():
    check_node("MaxPool", X, outputs=2, kernel_shape=[40, 7], strides=[40, 8], dilations=[1, 2], ceil_mode=1)


@pytest.mark.parametrize("op", POOLS)
def test_in_ceil_mode_there_is_a_window(op):
    model, _ = node_model(op, [X], opset=22, kernel_shape=[13, 2], strides=[2, 1], ceil_mode=1)
    with pytest.raises(
        ModelError, match=r"a window of 13 is larger than the padded input \[9, 8\] by a step of 2 or more"
    ):
        import_model(model)


@campaign(
    "strides1-MaxPool-open_axes0",
    "strides1-MaxPool-open_axes1",
    "strides1-MaxPool-open_axes4",
    "strides1-AveragePool-open_axes0",
    "strides1-AveragePool-open_axes3",
)
@pytest.mark.parametrize("open_axes", [(0,), (1,), (0, 1), (2,), (1, 3)])
@pytest.mark.parametrize("op", ["MaxPool", "AveragePool"])
@pytest.mark.parametrize("strides", [[1, 1, 1], [2, 2, 2]])
def test_padded_volumes_whose_batch_or_channels_are_open(op, open_axes, strides):
    """Blocks behind the first one along a known padded axis read what lies behind it, and not its padding."""
    x = np.random.default_rng(3).standard_normal((2, 9, 6, 10, 11)).astype(np.float32)
    model, given = node_model(op, [x], kernel_shape=[3, 3, 3], strides=strides, pads=[1] * 6)
    want = tw.compile(model, workers=0, num_threads=1, cache=False).run(given)
    for axis in open_axes:
        model.graph.input[0].type.tensor_type.shape.dim[axis].dim_param = f"d{axis}"
    model.graph.output[0].type.tensor_type.ClearField("shape")
    got = tw.compile(model, workers=0, num_threads=1, cache=False).run(given)
    np.testing.assert_allclose(got[0], want[0], rtol=1e-5, atol=1e-6)
