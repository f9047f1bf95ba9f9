"""Cast between all numeric types; float8 over all codes against ml_dtypes."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
from onnx import TensorProto, helper
from onnx_case import check_node, node_model
from reference import run_model

from tilewright.errors import ModelError
from tilewright.frontends import import_model

VALUES = np.array([-100.7, -1.5, -0.2, 0, 0.5, 1, 2.5, 100.9], np.float32)
NUMERIC = [
    "bool",
    "int8",
    "uint8",
    "int16",
    "uint16",
    "int32",
    "uint32",
    "int64",
    "uint64",
    "float16",
    "float32",
    "float64",
]
FLOAT8 = {
    "float8_e4m3fn": TensorProto.FLOAT8E4M3FN,
    "float8_e4m3fnuz": TensorProto.FLOAT8E4M3FNUZ,
    "float8_e5m2": TensorProto.FLOAT8E5M2,
    "float8_e5m2fnuz": TensorProto.FLOAT8E5M2FNUZ,
}


@pytest.mark.parametrize("source", NUMERIC)
def test_to_every_type(source):
    values = (VALUES if source[0] in "fi" else np.abs(VALUES)).astype(source)
    for target in NUMERIC:
        given = np.abs(values) if target.startswith("u") and source[0] in "fi" else values
        check_node("Cast", given, to=helper.np_dtype_to_tensor_dtype(np.dtype(target)), rtol=1e-3)


def test_cast_like():
    check_node("CastLike", VALUES, np.zeros(2, np.int32), opset=19)


def test_bfloat16_rounds_to_nearest_even():
    values = np.array([1.00390625, 1.01171875, 3e38, np.inf, -0.0], np.float32)
    got = cast(values, TensorProto.BFLOAT16)
    assert got.tobytes() == values.astype(ml_dtypes.bfloat16).tobytes()


@pytest.mark.parametrize("name", FLOAT8)
def test_float8_decodes_exactly(name):
    codes = np.arange(256, dtype=np.uint8).view(getattr(ml_dtypes, name))
    np.testing.assert_array_equal(cast(codes, TensorProto.FLOAT), codes.astype(np.float32))


@pytest.mark.parametrize("name", FLOAT8)
@pytest.mark.parametrize("saturate", [0, 1])
def test_float8_rounds_to_nearest_even(name, saturate):
    dtype = np.dtype(getattr(ml_dtypes, name))
    numbers = np.arange(256, dtype=np.uint8).view(dtype).astype(np.float32)
    values = np.concatenate([numbers, (numbers[1:] + numbers[:-1]) / 2, numbers * np.float32(1.1), [np.inf, 1e9, 1e-9]])
    values = values.astype(np.float32)
    limit = float(ml_dtypes.finfo(dtype).max)
    want = (np.clip(values, -limit, limit) if saturate else values).astype(dtype)
    got = cast(values, FLOAT8[name], saturate=saturate)
    np.testing.assert_array_equal(got.astype(np.float32), want.astype(np.float32))


@pytest.mark.parametrize("name", ["int4", "uint4"])
@pytest.mark.parametrize("target", ["bool", "int8", "uint8", "int64", "float16", "float32"])
def test_only_the_low_half_of_a_nibbles_byte_counts(name, target):
    codes = np.arange(256, dtype=np.uint8).view(getattr(ml_dtypes, name))
    got = cast(codes, helper.np_dtype_to_tensor_dtype(np.dtype(target)))
    np.testing.assert_array_equal(got, codes.astype(np.int8).astype(target))


@pytest.mark.parametrize("pair", ["float32 int32", "uint16 float16", "int64 float64", "bool uint8", "int8 uint8"])
def test_bits_under_another_name(pair):
    first, second = map(np.dtype, pair.split())
    for source, target in ((first, second), (second, first)):
        if target == np.bool_:  # a bool is 0 or 1 in ONNX as well
            continue
        given = VALUES.astype(source)
        model, inputs = node_model("BitCast", [given], opset=26, to=helper.np_dtype_to_tensor_dtype(target))
        got = run_model(import_model(model), inputs)[0]
        assert (got.dtype, got.tobytes()) == (target, given.tobytes())


def test_bits_of_another_width_are_refused():
    model, _ = node_model("BitCast", [VALUES], opset=26, to=TensorProto.INT32)
    model.graph.node[0].attribute[0].i = TensorProto.INT16
    with pytest.raises(ModelError, match="float32 and int16 have not the same width"):
        import_model(model)


def cast(values: np.ndarray, to: int, saturate: int = 1) -> np.ndarray:
    model, inputs = node_model("Cast", [values], opset=21, to=to, saturate=saturate)
    return run_model(import_model(model), inputs)[0]
