"""Cast, CastLike and BitCast of the types that have arithmetic; the others are in test_narrow.py."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import ml_dtypes
import numpy as np
import onnx
import pytest
from cpu_targets import targets
from onnx import TensorProto, helper
from onnx_case import check_model, check_node, model_of, node_model
from reference import run_model

import tilewright as tw
from tilewright.core.errors import ModelError
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


@pytest.mark.parametrize("source", NUMERIC)
def test_to_every_type(source):
    values = (VALUES if source[0] in "fi" else np.abs(VALUES)).astype(source)
    inputs = {"x": values, "positive": np.abs(values) if source[0] in "fi" else values}
    names = ["positive" if target.startswith("u") else "x" for target in NUMERIC]
    check_model(cast_model(inputs, names, NUMERIC), inputs, rtol=1e-3)


def test_cast_like():
    check_node("CastLike", VALUES, np.zeros(2, np.int32), opset=19)


def test_bfloat16_rounds_to_nearest_even():
    values = np.array([1.00390625, 1.01171875, 3e38, np.inf, -0.0], np.float32)
    got = cast(values, TensorProto.BFLOAT16)
    assert got.tobytes() == values.astype(ml_dtypes.bfloat16).tobytes()


@pytest.mark.parametrize("target", ["float16", "bfloat16"])
def test_doubles_are_rounded_once(target):
    dtype = np.dtype(getattr(ml_dtypes, target, target))
    eps = float(ml_dtypes.finfo(dtype).eps)
    ties = [1 + eps / 2, 1 + 3 * eps / 2, -1 - eps / 2]  # which f32 holds, but not what is beside them
    values = np.array([*ties, *(t * (1 + 2.0**-45) for t in ties), *(t * (1 - 2.0**-45) for t in ties), 1e300, np.inf])
    want = np.array([1, 1 + 2 * eps, -1, 1 + eps, 1 + 2 * eps, -1 - eps, 1, 1 + eps, -1, np.inf, np.inf]).astype(dtype)
    assert cast(values, tensor_type(target)).tobytes() == want.tobytes()
    assert np.isnan(cast(np.array([np.nan]), tensor_type(target)).astype(np.float32)).all()


@pytest.mark.parametrize("source", ["float16", "float32", "float64"])
@pytest.mark.parametrize("target", [t for t in NUMERIC if "float" not in t])
def test_what_an_integer_does_not_hold(source, target):
    """ONNX leaves it open; numpy and onnxruntime take what x86 gives, and the low bits of that."""
    with np.errstate(all="ignore"):
        values = np.array([np.nan, np.inf, -np.inf, 1e20, -1e20, -1.5, 300.7, -300.7, 6e4, -6e4, 3e9, 1.5e19], source)
        want = values.astype(target)
    if target == "uint32":  # where numpy's loops for many and for few elements differ
        values, want = values[5:9], want[5:9]
    np.testing.assert_array_equal(cast(values, tensor_type(target)), want)
    if source != "float16":  # onnxruntime
        check_node("Cast", values, to=tensor_type(target))


@pytest.mark.parametrize("target", ["x86", *targets("haswell")])
@pytest.mark.parametrize("source", ["float32", "float64"])
def test_words_without_a_sign_are_the_low_bits_of_a_longer_integer(source: str, target: str) -> None:
    """Around multiples of 2^31 and 2^32, where a float32 is whole and a float64 has a fraction."""
    near = np.array([0, 1, 2, 3, 4, 5, 1000, 2.0**31 - 1, 2.0**32 - 1]) * 2.0**31
    drawn = np.ldexp(np.random.default_rng(3).uniform(-1, 1, 500), np.arange(500) % 63)
    apart = [0, 0.2, 0.5, 0.7, 1, -0.2, -0.5, -0.7, -1]
    values = np.concatenate([drawn, *((sign * near) + d for sign in (1, -1) for d in apart)]).astype(source)
    values = values[np.abs(values) < 2.0**63]
    model = cast_model({"x": values}, ["x"], ["uint32"])
    [got] = tw.compile(model, target, workers=0, num_threads=1).run({"x": values})
    np.testing.assert_array_equal(got, values.astype(np.int64).astype(np.uint32))


@pytest.mark.parametrize("source", ["int64", "uint32", "int16"])
def test_integers_wrap_and_keep_their_sign(source):
    info = np.iinfo(source)
    values = np.array([info.min, info.max, 0, 127, 128, 200, 255, 256, 1000, 32768 % info.max], source)
    model = cast_model({"x": values}, ["x"] * len(NUMERIC), NUMERIC)
    for target, got in zip(NUMERIC, run_model(import_model(model), {"x": values}), strict=True):
        with np.errstate(over="ignore"):
            np.testing.assert_array_equal(got, values.astype(target))


def test_all_but_zero_is_true():
    values = np.array([0.0, -0.0, np.nan, np.inf, 1e-45, -1e-3], np.float32)
    np.testing.assert_array_equal(cast(values, TensorProto.BOOL), [False, False, True, True, True, True])


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


def tensor_type(dtype: str) -> int:
    return helper.np_dtype_to_tensor_dtype(np.dtype(getattr(ml_dtypes, dtype, dtype)))


def cast_model(inputs: Mapping[str, np.ndarray], names: Sequence[str], targets: Sequence[str]) -> onnx.ModelProto:
    """A model that casts the named inputs, each to a target."""
    nodes = [
        helper.make_node("Cast", [name], [target], to=tensor_type(target))
        for name, target in zip(names, targets, strict=True)
    ]
    return model_of(nodes, dict(inputs), targets)


def cast(values: np.ndarray, to: int) -> np.ndarray:
    model, inputs = node_model("Cast", [values], to=to)
    return run_model(import_model(model), inputs)[0]


def test_text_to_a_type_that_has_no_text_is_refused() -> None:
    model, _ = node_model("Cast", [np.array(["1.5"], object)], opset=24, to=TensorProto.UINT4)
    with pytest.raises(ModelError, match=r"Cast \(the_Cast\): .*from string to uint4"):
        import_model(model)
