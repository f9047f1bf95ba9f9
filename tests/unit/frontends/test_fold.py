"""What depends on constants alone is evaluated at import only where onnx's reference does what the standard says."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx_case import check_node, node_model

from tilewright.frontends import import_model

X = (np.arange(24, dtype=np.float32).reshape(2, 3, 4) % 5) / 4


@pytest.mark.parametrize("op", ["Softmax", "LogSoftmax", "Hardmax"])
def test_an_old_version_is_not_taken_for_the_new_one(op):
    check_node(op, X, known=[0], opset=11, axis=1)


@pytest.mark.parametrize("op", ["GlobalMaxPool", "GlobalAveragePool"])
def test_planes_of_one_dimension(op):
    check_node(op, X, known=[0])


def test_a_probability_that_is_no_float_has_a_logarithm():
    scores, labels = np.array([[200, 0, 1]], np.float32), np.array([1])
    check_node("SoftmaxCrossEntropyLoss", scores, labels, known=[0, 1], opset=13, outputs=2)


def test_axes_in_any_order():
    check_node("Unsqueeze", X, known=[0], opset=11, axes=[1, 0])


def test_double_precision_stays():
    x = np.linspace(-1, 1, 9)
    model, _ = node_model("Erf", [x], known=[0])
    assert "math.erf" in str(import_model(model).module)


def test_shapes_are_known():
    model, _ = node_model("Concat", [np.array([2, 3]), np.array([4])], known=[0, 1], axis=0)
    assert "tensor.concat" not in str(import_model(model).module)


@pytest.mark.parametrize("op", ["Reciprocal", "Clip", "Exp", "Log", "Relu", "Sqrt"])
def test_a_size_may_come_from_arithmetic_on_floats(op):
    """As that of an image which an exported detector scales to the size that it was trained on."""
    nodes = f"f = {op}(c) i = Cast<to = 7>(f) s = Abs(i) y = Expand(x, s)"
    text = (
        f'<ir_version: 8, opset_import: ["": 18]> g (float[1] x) => (float[n] y) <float[1] c = {{2.5}}> {{ {nodes} }}'
    )
    signature = next(
        line for line in str(import_model(onnx.parser.parse_model(text)).module).splitlines() if "@main" in line
    )
    assert "?" not in signature
