"""What opset 6 has otherwise, against numpy: onnxruntime begins with opset 7."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from onnx import helper
from onnx_case import node_model
from reference import run_model

from tilewright.core.errors import ModelError, UnsupportedError
from tilewright.frontends import import_model

X = np.arange(1, 121, dtype=np.float32).reshape(2, 3, 4, 5)
BINARY = {
    "Add": np.add,
    "Sub": np.subtract,
    "Mul": np.multiply,
    "Div": np.divide,
    "Pow": np.power,
    "Equal": np.equal,
    "Greater": np.greater,
    "Less": np.less,
    "And": np.logical_and,
    "Or": np.logical_or,
    "Xor": np.logical_xor,
}


def run(op: str, *arrays: np.ndarray, **attributes: Any) -> np.ndarray:
    model, inputs = node_model(op, arrays, opset=6, **attributes)
    return run_model(import_model(model), inputs)[0]


@pytest.mark.parametrize("op", BINARY)
def test_an_attribute_names_the_axis(op):
    kind = {"Equal": np.int32, "And": np.bool_, "Or": np.bool_, "Xor": np.bool_}.get(op, np.float32)
    a, b = (X % 7).astype(kind), (X[0, :, :, 0] % 3 + (kind == np.float32)).astype(kind)
    want = BINARY[op](a, b[:, :, None])
    np.testing.assert_allclose(run(op, a, b, broadcast=1, axis=1), want, rtol=1e-5)


def test_without_an_axis_the_last_ones_match():
    np.testing.assert_array_equal(run("Add", X, X[0, 0], broadcast=1), X + X[0, 0])
    np.testing.assert_array_equal(run("Add", X, X), X + X)


def test_one_element_goes_everywhere():
    np.testing.assert_array_equal(run("Mul", X, np.full((1, 1), 3, np.float32), broadcast=1, axis=0), X * 3)


def test_known_operands_are_not_folded_without_their_axis():
    arrays = [np.ones((2, 2), np.float32), np.array([1, 2], np.float32)]
    model, _ = node_model("Add", arrays, known=[0, 1], opset=6, broadcast=1, axis=0)
    np.testing.assert_array_equal(run_model(import_model(model), {})[0], [[2, 2], [3, 3]])


def test_a_shape_that_does_not_lie_there_is_refused():
    model, _ = node_model("Add", [X, X[0, 0]], opset=6, broadcast=1, axis=1)
    with pytest.raises(ModelError, match=r"shape \[4, 5\] does not lie in \[2, 3, 4, 5\] from axis 1 on"):
        import_model(model)


def test_a_slope_for_each_channel():
    slope = np.array([0.5, 2, 3], np.float32)
    np.testing.assert_allclose(run("PRelu", -X, slope), -X * slope[:, None, None])
    np.testing.assert_allclose(run("PRelu", -X, slope[:1]), -X / 2)


def test_gemm():
    a, b, c = X[0, 0], X[0, 0].T.copy(), X[0, 0, 0, :4]
    np.testing.assert_allclose(run("Gemm", a, b, c, broadcast=1, beta=2.0), a @ b + 2 * c, rtol=1e-6)


def test_batch_normalization_and_dropout():
    scale, bias, mean, variance = np.arange(1, 13, dtype=np.float32).reshape(4, 3)
    shape = (3, 1, 1)
    want = (X - mean.reshape(shape)) / np.sqrt(variance + 1e-5).reshape(shape) * scale.reshape(shape)
    got = run("BatchNormalization", X, scale, bias, mean, variance, is_test=1)
    np.testing.assert_allclose(got, want + bias.reshape(shape), rtol=1e-5)
    np.testing.assert_array_equal(run("Dropout", X, is_test=1), X)


@pytest.mark.parametrize("op", ["RNN", "GRU", "LSTM"])
def test_recurrent_layers(op):
    gates = {"RNN": 1, "GRU": 3, "LSTM": 4}[op]
    shapes = ((4, 2, 3), (1, 2 * gates, 3), (1, 2 * gates, 2))
    x, w, r = (np.sin(np.arange(math.prod(shape), dtype=np.float32)).reshape(shape) for shape in shapes)
    later, inputs = node_model(op, [x, w, r], outputs=2, opset=7, hidden_size=2)
    [want, last] = run_model(import_model(later), inputs)
    model, _ = node_model(op, [x, w, r], outputs=2, opset=6, hidden_size=2, output_sequence=1)
    for got, expected in zip(run_model(import_model(model), inputs), (want, last), strict=True):
        np.testing.assert_array_equal(got, expected)


@pytest.mark.parametrize(("mode", "later"), [("nearest", "nearest"), ("bilinear", "linear")])
def test_upsample_by_two_scales(mode, later):
    model, inputs = node_model("Upsample", [X], opset=7, scales=[1.0, 1.0, 2.0, 3.0], mode=later)
    [want] = run_model(import_model(model), inputs)
    model.opset_import[0].version = 6
    del model.graph.node[0].attribute[:]
    for name, value in {"height_scale": 2.0, "width_scale": 3.0, "mode": mode}.items():
        model.graph.node[0].attribute.append(helper.make_attribute(name, value))
    np.testing.assert_array_equal(run_model(import_model(model), inputs)[0], want)


def test_training_is_refused():
    model, _ = node_model("BatchNormalization", [X, *[np.ones(3, np.float32)] * 4], opset=6)
    with pytest.raises(UnsupportedError, match=r"training mode \(is_test is 0\)"):
        import_model(model)
