"""QuantizeLinear, DequantizeLinear, DynamicQuantizeLinear: every dtype and granularity, bit for bit."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest
from onnx import TensorProto, helper
from onnx.reference import ReferenceEvaluator
from onnx_case import node_model
from reference import run_model

from tilewright.core.errors import ModelError
from tilewright.frontends import import_model
from tilewright.tools.debugging.oracle import make_session

RANDOM = np.random.default_rng(0)
FLOAT8 = ("float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2", "float8_e5m2fnuz")
NIBBLES = ("int4", "uint4")
VALUES = np.array([np.nan, np.inf, -np.inf, 1e20, -1e20, 0, 0.25, 0.75, -0.25, -0.75, 63.5, 64, -64.5, 3.3], np.float32)


def typed(array: Any, dtype: str) -> np.ndarray:
    return np.asarray(array).astype(getattr(ml_dtypes, dtype, dtype))


def codes(dtype: str, *shape: int) -> np.ndarray:
    """Random numbers of a quantised dtype."""
    if dtype in FLOAT8:
        return typed(RANDOM.standard_normal(shape), dtype)
    info = ml_dtypes.iinfo(dtype)
    return typed(RANDOM.integers(int(info.min), int(info.max), shape, endpoint=True), dtype)


def run(op: str, *arrays: Any, known: Any = (), opset: int = 23, **attributes: Any) -> np.ndarray:
    model, inputs = node_model(op, arrays, known, opset=opset, **attributes)
    return run_model(import_model(model), inputs)[0]


def check_reference(op: str, *arrays: Any, opset: int = 23, known: Any = (), **attributes: Any) -> None:
    """The node gives what onnx's reference gives."""
    model, inputs = node_model(op, arrays, opset=opset, **attributes)
    results: Any = ReferenceEvaluator(model).run(None, inputs)
    [want] = results
    got = run(op, *arrays, known=known, opset=opset, **attributes)
    assert got.dtype == want.dtype
    np.testing.assert_array_equal(got.astype(np.float64), want.astype(np.float64))


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "uint16"])
@pytest.mark.parametrize("known", [(), (1, 2), (0, 1, 2)])
def test_rounding_and_saturation(dtype, known):
    x = np.concatenate([VALUES, RANDOM.standard_normal(500).astype(np.float32) * 90])
    arrays = (x, np.array(0.5, np.float32), np.array(3, dtype))
    model, inputs = node_model("QuantizeLinear", arrays, opset=21)
    [want] = make_session(model).run(None, inputs)
    np.testing.assert_array_equal(run("QuantizeLinear", *arrays, known=known, opset=21), want)


@pytest.mark.parametrize("opset", [10, 13, 19, 21, 25])
def test_uint8_without_a_zero_point(opset):
    x = np.array([-1, 0.5, 1.5, 300], np.float32)
    np.testing.assert_array_equal(run("QuantizeLinear", x, np.ones(1, np.float32), opset=opset), [0, 0, 2, 255])


@pytest.mark.parametrize("dtype", ["int8", "uint16", *NIBBLES, "float8_e4m3fn"])
def test_quantize_along_an_axis_and_in_blocks(dtype):
    x = RANDOM.standard_normal((2, 7, 3)).astype(np.float32) * 20
    for axis, shape, block in ((1, (7,), 0), (-1, (3,), 0), (-2, (2, 3, 3), 3)):
        scale = RANDOM.random(shape, np.float32) + 0.5
        zero = np.zeros(shape) if dtype in FLOAT8 else codes(dtype, *shape)
        known = (1, 2) if axis == 1 else ()
        check_reference("QuantizeLinear", x, scale, typed(zero, dtype), known=known, axis=axis, block_size=block)


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "uint16", "int32", *NIBBLES, *FLOAT8])
def test_dequantize(dtype):
    x, plain = codes(dtype, 2, 7, 3), dtype in FLOAT8 or dtype == "int32"
    cases = [("float32", (), 0, (1,)), ("bfloat16", (7,), 0, ()), ("float16", (2, 4, 3), 2, (0, 1))]
    for target, shape, block, known in cases:
        zero = None if plain else codes(dtype, *shape)
        scale = typed(RANDOM.random(shape) / 1e5, target)
        check_reference("DequantizeLinear", x, scale, zero, known=known, axis=1, block_size=block)


def test_dequantize_to_another_dtype():
    to = TensorProto.FLOAT16
    check_reference("DequantizeLinear", codes("int16", 30), np.float32(0.37), codes("int16"), output_dtype=to)


@pytest.mark.parametrize("name", FLOAT8)
@pytest.mark.parametrize("saturate", [0, 1])
def test_float8_saturates_or_not(name, saturate):
    x = np.array([1, 1e6, -1e6, np.inf, 0.3], np.float32)
    check_reference("QuantizeLinear", x, np.float32(0.5), typed(0, name), saturate=saturate)


def test_the_output_dtype_stands_in_for_a_zero_point():
    x = RANDOM.standard_normal(50).astype(np.float32) * 9
    for to in (TensorProto.INT16, TensorProto.UINT4, TensorProto.FLOAT8E5M2):
        check_reference("QuantizeLinear", x, np.float32(0.3), output_dtype=to)


def test_the_quotient_has_the_precision_of_the_scale_or_the_one_asked_for():
    x = (RANDOM.standard_normal(400) * 200).astype(np.float16)
    scale, zero = np.array(0.0237, np.float16), np.array(0, np.int16)
    check_reference("QuantizeLinear", x, scale, zero, opset=21)
    check_reference("QuantizeLinear", x, scale, zero, precision=TensorProto.FLOAT)
    check_reference("QuantizeLinear", x.astype(np.float32), np.float32(0.0237), zero, precision=TensorProto.BFLOAT16)
    fine, coarse = (
        run("QuantizeLinear", x, scale, zero, precision=p) for p in (TensorProto.FLOAT, TensorProto.FLOAT16)
    )
    assert (fine != coarse).any()


def test_integers_are_quantised_as_floats():
    x = RANDOM.integers(-1000, 1000, 200).astype(np.int32)
    want = np.clip(np.rint(x.astype(np.float32) / np.float32(1.7)) + 5, -128, 127)
    for known in ((), (0, 1, 2)):
        np.testing.assert_array_equal(
            run("QuantizeLinear", x, np.float32(1.7), np.int8(5), known=known, opset=13), want
        )


@pytest.mark.parametrize("values", [[0, 0, 0], [1, 2, 3], [-1, -2, -3.5], [-4, 0, 9.25], []])
def test_the_grid_is_chosen_at_run_time(values):
    x = np.array(values, np.float32).reshape(-1, 1)
    model, inputs = node_model("DynamicQuantizeLinear", [x], outputs=3, opset=11)
    got = run_model(import_model(model), inputs)
    wanted = make_session(model).run(None, inputs) if values else (x, 1, 0)
    for a, want in zip(got, wanted, strict=True):
        np.testing.assert_array_equal(a, want)


@pytest.mark.parametrize("size", [8192, 3 * 33 * 97, 12289])  # in parts of whole vectors, in others, and of no parts
@pytest.mark.parametrize("shift", [-9, 0, 9])
def test_the_grid_of_many_elements(size, shift):
    x = (np.random.default_rng(size).standard_normal(size) + shift).astype(np.float32)
    model, inputs = node_model("DynamicQuantizeLinear", [x], outputs=3, opset=11)
    got = run_model(import_model(model), inputs)
    for a, want in zip(got, make_session(model).run(None, inputs), strict=True):
        np.testing.assert_array_equal(a, want)


@pytest.mark.parametrize(
    ("arrays", "attributes", "reason"),
    [
        ((VALUES, np.float32(1), np.int8(0)), {"output_dtype": TensorProto.UINT8}, "differs from the zero point's"),
        ((VALUES, np.float32(1)), {"output_dtype": TensorProto.INT32}, "int32 is not a quantised one"),
        ((np.ones((2, 3), np.float32), np.ones(3, np.float32), np.zeros(2, np.int8)), {}, "a zero point of shape"),
        ((np.ones((2, 3), np.float32), np.ones(2, np.float32)), {}, r"shape \[2\] for axis 1 of \[2, 3\]"),
        ((np.ones((2, 3), np.float32), np.ones(2, np.float32)), {"axis": 2}, "axis 2 is out of range"),
        ((np.ones((2, 3), np.float32), np.ones((2, 3), np.float32)), {"block_size": 2}, "for blocks of 2"),
        ((np.ones((2, 3), np.float32), np.ones((2, 3), np.float32)), {"block_size": -2}, "is negative"),
    ],
)
def test_what_does_not_fit_is_refused(arrays, attributes, reason):
    model, _ = node_model("QuantizeLinear", arrays, opset=21)
    for name, value in attributes.items():
        model.graph.node[0].attribute.append(helper.make_attribute(name, value))
    with pytest.raises(ModelError, match=reason):
        import_model(model)
