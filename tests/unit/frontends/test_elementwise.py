"""Elementwise families against onnxruntime, and their broadcasting against numpy."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import mutually_broadcastable_shapes
from onnx_case import check_node, node_model
from reference import run_model

from tilewright.core.errors import UnsupportedError
from tilewright.frontends import import_model

RANDOM = np.random.default_rng(0)
X = RANDOM.standard_normal((2, 3, 4)).astype(np.float32)
Y = RANDOM.standard_normal((3, 1)).astype(np.float32)
INTS = RANDOM.integers(-9, 10, (4, 5))
DIVISORS = np.array([-3, -2, 2, 3, 4])

UNARY = "Abs Acos Asin Atan Ceil Cos Erf Exp Floor Neg Reciprocal Round Sign Sin Sinh Tan Tanh Atanh Asinh Cosh IsNaN"
ACTIVATIONS = "Relu Sigmoid Softplus Softsign Mish HardSwish LeakyRelu Elu Celu Selu HardSigmoid ThresholdedRelu Shrink"


def test_the_sign_of_nan_is_nan():
    check_node("Sign", np.array([np.nan, -0.0, np.inf, -3], np.float32))
    check_node("Sign", np.array([np.nan, -0.0, np.inf, -3], np.float64))


@pytest.mark.parametrize("op", UNARY.split())
def test_unary(op):
    check_node(op, np.clip(X, -0.9, 0.9))


@pytest.mark.parametrize("op", ["Acosh", "Log", "Sqrt"])
def test_unary_above_one(op):
    check_node(op, np.abs(X) + 1)


@pytest.mark.parametrize("op", ACTIVATIONS.split())
def test_activation(op):
    check_node(op, X * 3)


def test_shrink_of_integers_cuts_off():
    check_node("Shrink", np.arange(-4, 5, dtype=np.int32), lambd=1.5, bias=1.25)
    check_node("Shrink", np.arange(0, 9, dtype=np.uint8), lambd=2.0, bias=1.0)


@pytest.mark.parametrize("approximate", ["none", "tanh"])
def test_gelu(approximate):
    check_node("Gelu", X, opset=20, approximate=approximate)


def test_prelu_broadcasts_the_slope_to_the_input():
    check_node("PRelu", X, X[0, :, :1])


@pytest.mark.parametrize("op", ["Add", "Sub", "Mul", "Div", "Max", "Min"])
@pytest.mark.parametrize("dtype", ["float32", "float64", "float16"])
def test_arithmetic(op, dtype):
    tolerance = 2e-3 if dtype == "float16" else 1e-6
    check_node(op, X.astype(dtype), Y.astype(dtype), rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("op", ["Sum", "Mean", "Max"])
def test_variadic(op):
    check_node(op, X)
    check_node(op, X, Y, X[0])


@pytest.mark.parametrize("op", ["Add", "Sub", "Mul", "Div", "Mod"])
@pytest.mark.parametrize("dtype", ["int32", "int64"])
def test_integer_arithmetic(op, dtype):
    check_node(op, INTS.astype(dtype), DIVISORS.astype(dtype))


@pytest.mark.parametrize("op", ["Div", "Max", "Mod", "Less"])
def test_unsigned_arithmetic(op):
    check_node(op, np.array([250, 7, 130], np.uint32) << 24, np.array([3, 2, 200], np.uint32) << 24)


@pytest.mark.parametrize("dtype", ["int16", "uint16", "int32"])
def test_quotients_beside_whole_ones(dtype):
    """They are computed as floats: multiples of a divisor, the numbers before and after them, and the largest ones."""
    most = np.iinfo(dtype).max
    divisors = np.array([1, 2, 3, 7, 10, most // 3, most - 1, most], np.int64)
    factors = np.array([0, 1, 2, 3, most // 10, most // 3, most - 1], np.int64)[:, None]
    numbers = np.clip(divisors * factors + np.array([-1, 0, 1])[:, None, None], 0, most)
    want = numbers // divisors
    for sign in (1, -1) if dtype.startswith("i") else (1,):
        model, inputs = node_model("Div", [(sign * numbers).astype(dtype), divisors.astype(dtype)])
        np.testing.assert_array_equal(run_model(import_model(model), inputs)[0], sign * want)


def test_integer_division_by_zero_does_not_trap():
    model, inputs = node_model("Div", [np.array([7, np.iinfo(np.int64).min]), np.array([0, -1])])
    assert run_model(import_model(model), inputs)[0].tolist() == [0, np.iinfo(np.int64).min]


@pytest.mark.parametrize("fmod", [0, 1])
def test_mod_takes_the_divisors_or_the_dividends_sign(fmod):
    check_node("Mod", INTS, DIVISORS, fmod=fmod)


def test_float_mod():
    check_node("Mod", X, Y, fmod=1)
    model, inputs = node_model("Mod", [X, Y])  # which onnxruntime lacks
    np.testing.assert_allclose(run_model(import_model(model), inputs)[0], np.mod(X, Y), rtol=1e-5)


@pytest.mark.parametrize("op", ["Equal", "Greater", "GreaterOrEqual", "Less", "LessOrEqual"])
def test_comparisons_with_nan_are_false(op):
    check_node(op, np.array([1, 2, np.nan, np.nan], np.float32), np.array([1, 3, 1, np.nan], np.float32))


@pytest.mark.parametrize("op", ["And", "Or", "Xor"])
def test_logic(op):
    check_node(op, X > 0, Y > 0)


@pytest.mark.parametrize("op", ["BitwiseAnd", "BitwiseOr", "BitwiseXor"])
def test_bitwise(op):
    check_node(op, INTS, DIVISORS)


def test_shift_of_signed_integers_keeps_the_sign():
    values, amounts = np.array([-8, -8, -8, 8], np.int8), np.array([1, 9, -1, 9], np.int8)
    model, inputs = node_model("BitShift", [values, amounts], opset=28, direction="RIGHT")
    assert run_model(import_model(model), inputs)[0].tolist() == [-4, -1, -1, 0]


@pytest.mark.parametrize("direction", ["LEFT", "RIGHT"])
def test_shift(direction):
    check_node("BitShift", np.array([1, 4, 200], np.uint8), np.array([1, 2, 7], np.uint8), direction=direction)


def test_maximum_keeps_nan():
    check_node("Max", np.array([np.nan, 1], np.float32), np.array([0, np.nan], np.float32))


@pytest.mark.parametrize("exponent", [0.5, -1.0, 2.0, 3.0, 1.7])
def test_power_of_a_constant(exponent):
    check_node("Pow", np.abs(X), np.array(exponent, np.float32), known=[1])


@pytest.mark.parametrize(
    "exponent", [np.int64(1), np.int32(2), np.int64(3), np.float32(3), np.float32(0.5), np.int64(0)]
)
@pytest.mark.parametrize("dtype", ["int32", "int64"])
def test_integer_power_of_a_constant(dtype, exponent):
    check_node("Pow", np.array([[2, 3, -2], [0, -7, 90]], dtype), np.array(exponent), known=[1])


def test_power_of_mixed_types():
    check_node("Pow", np.abs(X), INTS[:1, :1])
    check_node("Pow", np.array([2, 3, -2]), np.array([3, 2, 5]))
    base, wide = np.array([7.5, 9.0], np.float16), np.array([4.0013, 3.1], np.float32)
    model, inputs = node_model("Pow", [base, wide])
    [got] = run_model(import_model(model), inputs)
    np.testing.assert_array_equal(got, np.power(base.astype(np.float32), wide).astype(np.float16))


def test_clip_by_attribute_by_input_and_in_part():
    bounds = np.array(-0.5, np.float32), np.array(0.5, np.float32)
    check_node("Clip", X, *bounds)
    check_node("Clip", X, *bounds, known=[1, 2])
    check_node("Clip", X, None, bounds[1])
    check_node("Clip", X, opset=10, min=-0.5, max=0.5)


def test_where_and_is_inf():
    check_node("Where", X > 0, X, Y)
    for negative in (0, 1):
        check_node("IsInf", np.array([np.inf, -np.inf, 0], np.float32), detect_negative=negative)


@settings(max_examples=15, deadline=None)
@given(shapes=mutually_broadcastable_shapes(num_shapes=3, max_dims=3, max_side=3), swap=st.booleans())
def test_broadcasting(shapes, swap):
    a, b, c = (np.arange(np.prod(s), dtype=np.float32).reshape(s) for s in shapes.input_shapes)
    model, inputs = node_model("Where", [a > 1, c, b] if swap else [a > 1, b, c])
    imported = import_model(model)
    (got,) = run_model(imported, inputs)
    np.testing.assert_array_equal(got, np.where(a > 1, c, b) if swap else np.where(a > 1, b, c))


def test_a_float_function_of_integers_is_refused():
    model, _ = node_model("Exp", [X])
    for value in (*model.graph.input, *model.graph.output):
        value.type.tensor_type.elem_type = 7
    with pytest.raises(UnsupportedError, match=r"Exp \(the_Exp\): dtype int64 of input 'input'"):
        import_model(model)


def test_a_number_that_is_left_out_is_a_float32_as_a_given_one_is():
    x = np.linspace(-3, 3, 12)
    check_node("Selu", x, rtol=1e-12)
    check_node("LeakyRelu", x, rtol=1e-12)
