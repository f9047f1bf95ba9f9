"""The ops on 8-bit tensors in onnxruntime's domain, against its kernels."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import numpy as np
import onnx
import pytest
from exact_weights import halve
from onnx import helper, numpy_helper
from reference import run_model

from tilewright.core.errors import ModelError
from tilewright.frontends import import_model
from tilewright.tools.debugging.oracle import make_session

RANDOM = np.random.default_rng(0)
BYTES = [np.uint8, np.int8]


def bytes_of(dtype: Any, *shape: int) -> np.ndarray:
    info = np.iinfo(dtype)
    return RANDOM.integers(info.min, info.max, shape, dtype, endpoint=True)


def single(number: float) -> np.ndarray:
    return np.array(number, np.float32)


Result = tuple[Any, tuple[int, ...]]  # dtype and shape


def contrib(
    op: str, arrays: Any, *results: Result, known: Collection[int] = (), **attributes: Any
) -> tuple[onnx.ModelProto, dict[str, np.ndarray]]:
    """A model of one node in onnxruntime's domain, and its inputs."""
    names = [f"in{i}" if a is not None else "" for i, a in enumerate(arrays)]
    made = [f"out{i}" for i in range(len(results))]
    given = {n: a for i, (n, a) in enumerate(zip(names, arrays, strict=True)) if a is not None and i not in known}
    kind = helper.np_dtype_to_tensor_dtype
    graph = helper.make_graph(
        [helper.make_node(op, names, made, name=f"the_{op}", domain="com.microsoft", **attributes)],
        "case",
        [helper.make_tensor_value_info(n, kind(a.dtype), a.shape) for n, a in given.items()],
        [helper.make_tensor_value_info(n, kind(np.dtype(d)), s) for n, (d, s) in zip(made, results, strict=True)],
        [numpy_helper.from_array(arrays[i], names[i]) for i in known],
    )
    opsets = [helper.make_opsetid("", 18), helper.make_opsetid("com.microsoft", 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=10), given


def check(
    op: str,
    arrays: Any,
    *results: Result,
    steps: int = 0,
    known: Collection[int] = (),
    rtol: float = 0,
    **attributes: Any,
) -> None:
    """The node gives what onnxruntime gives; ``steps`` apart is right as well, where its kernels round otherwise."""
    model, inputs = contrib(op, arrays, *results, known=known, **attributes)
    wanted: Any = make_session(model).run(None, inputs)
    for got, want, result in zip(run_model(import_model(model), inputs), wanted, results, strict=True):
        assert (got.dtype, got.shape) == (want.dtype, want.shape) == (np.dtype(result[0]), result[1])
        np.testing.assert_allclose(got.astype(np.float64), want.astype(np.float64), rtol=rtol, atol=steps or rtol)


def grid(dtype: Any, scale: float, zero: int) -> list[np.ndarray]:
    return [single(scale), np.array(zero, dtype)]


@pytest.mark.parametrize("dtype", BYTES)
@pytest.mark.parametrize(
    ("op", "attributes", "scale", "steps"),
    [
        ("QLinearSigmoid", {}, 0.0035, 0),
        ("QLinearLeakyRelu", {"alpha": 0.125}, 0.0213, 0),
        # Its kernel adds up numbers of a table.
        ("QLinearSoftmax", {"opset": 13}, 0.0035, 1),
        ("QLinearSoftmax", {"opset": 13, "axis": 1}, 0.0035, 1),
        ("QLinearSoftmax", {"opset": 11, "axis": 1}, 0.0003, 1),
    ],
)
def test_functions(op, attributes, scale, steps, dtype):
    x = bytes_of(dtype, 3, 9, 30)
    arrays = [x, *grid(dtype, 0.0312, 7), *grid(dtype, scale, 11)]
    check(op, arrays, (dtype, x.shape), steps=steps, known=[1, 2, 3, 4], **attributes)


@pytest.mark.parametrize("dtype", BYTES)
@pytest.mark.parametrize("copies", [1, 3])
def test_functions_of_all_bytes(copies, dtype):
    x = np.tile(np.arange(256, dtype=np.uint8).view(dtype), (copies, 1))
    arrays = [x, *grid(dtype, 0.0312, 7), *grid(dtype, 0.0035, 11)]
    check("QLinearSigmoid", arrays, (dtype, x.shape), known=[1, 2, 3, 4])


@pytest.mark.parametrize("dtype", BYTES)
@pytest.mark.parametrize("op", ["QLinearAdd", "QLinearMul"])
def test_sums_and_products(op, dtype):
    a, b = bytes_of(dtype, 3, 9, 30), bytes_of(dtype, 9, 1)
    arrays = [a, *grid(dtype, 0.0312, 7), b, *grid(dtype, 0.0217, 3), *grid(dtype, 0.0471, 9)]
    check(op, arrays, (dtype, a.shape))


@pytest.mark.parametrize("zero", [76, 77])
def test_zero_points_are_added_before_rounding(zero):
    """Sums, products and means in the middle between two steps: with an odd zero point they become odd."""
    x, out = np.arange(64, dtype=np.uint8).reshape(1, 1, 8, 8), grid(np.uint8, 0.5, zero)
    one = np.array([1], np.uint8)
    operand = [x, *grid(np.uint8, 0.25, 3)]
    check("QLinearAdd", [*operand, one, *grid(np.uint8, 0.25, 5), *out], (np.uint8, x.shape))
    check("QLinearMul", [*operand, one, *grid(np.uint8, 1, 0), *out], (np.uint8, x.shape))
    check("QLinearAveragePool", [*operand, *out], (np.uint8, (1, 1, 7, 8)), kernel_shape=[2, 1])


def test_without_zero_points():  # which onnxruntime refuses, against its documentation
    a, b = bytes_of(np.int8, 30), bytes_of(np.int8, 30)
    arrays = [a, single(0.03), None, b, single(0.02), None, single(0.05)]
    model, inputs = contrib("QLinearMul", arrays, (np.int8, a.shape))
    factor = np.float32(0.03) * np.float32(0.02) / np.float32(0.05)
    want = np.clip(np.rint((a.astype(np.int32) * b).astype(np.float32) * factor), -128, 127)
    np.testing.assert_array_equal(run_model(import_model(model), inputs)[0], want)


@pytest.mark.parametrize("dtype", BYTES)
def test_choice_and_concat(dtype):
    a, b = bytes_of(dtype, 3, 9, 30), bytes_of(dtype, 3, 9, 30)
    left, right, out = grid(dtype, 0.0312, 7), grid(dtype, 0.0217, 3), grid(dtype, 0.0312, 7)
    condition = RANDOM.integers(0, 2, (3, 1, 30)).astype(bool)
    check("QLinearWhere", [condition, a, *left, b, *right, *out], (dtype, a.shape))
    check("QLinearConcat", [*out, a, *left, b, *right], (dtype, (3, 18, 30)), axis=-2)


def test_bytes_on_the_same_grid_are_concatenated_as_they_are():
    scale, other, zero = single(0.5), single(0.25), np.uint8(3)
    for second, computes in ((scale, False), (other, True)):
        arrays = [scale, zero, bytes_of(np.uint8, 4), scale, zero, bytes_of(np.uint8, 4), second, zero]
        model, _ = contrib("QLinearConcat", arrays, (np.uint8, (8,)), known=[0, 1, 3, 4, 6, 7], axis=0)
        assert ("mulf" in str(import_model(model).module)) == computes


@pytest.mark.parametrize("dtype", BYTES)
@pytest.mark.parametrize("channels_last", [0, 1])
def test_pools(dtype, channels_last):
    x = bytes_of(dtype, 2, 9, 11, 5) if channels_last else bytes_of(dtype, 2, 5, 9, 11)
    arrays = [x, *grid(dtype, 0.0312, 7), *grid(dtype, 0.0217, 3)]
    shape = (2, 5, 6, 5) if channels_last else (2, 5, 5, 6)
    attributes = {"kernel_shape": [3, 3], "strides": [2, 2], "pads": [1] * 4, "count_include_pad": 1}
    # The mean of float32 numbers depends on their order.
    check("QLinearAveragePool", arrays, (dtype, shape), steps=1, channels_last=channels_last, **attributes)
    shape = (2, 1, 1, 5) if channels_last else (2, 5, 1, 1)
    check("QLinearGlobalAveragePool", arrays, (dtype, shape), channels_last=channels_last)


def test_mean_over_axes():  # onnxruntime has no kernel for it
    x = bytes_of(np.uint8, 3, 4, 8)
    model, inputs = contrib(
        "QLinearReduceMean",
        [x, *grid(np.uint8, 0.0312, 7), *grid(np.uint8, 0.0217, 3)],
        (np.uint8, (3, 8)),
        axes=[-2],
        keepdims=0,
    )
    want = np.rint(((x.astype(np.float32) - 7) * np.float32(0.0312)).mean(axis=1) / np.float32(0.0217)) + 3
    np.testing.assert_array_equal(run_model(import_model(model), inputs)[0], np.clip(want, 0, 255))


PAIRS = [(np.uint8, np.uint8), (np.uint8, np.int8), (np.int8, np.int8)]


@pytest.mark.parametrize(("left", "right"), PAIRS)
def test_gemm(left, right):
    a, b, bias = bytes_of(left, 6, 70), halve(bytes_of(right, 70, 9)), RANDOM.integers(-5000, 5000, 9).astype(np.int32)
    first, second = grid(left, 0.0312, 7), grid(right, 0.0217, 3)
    check("QGemm", [a, *first, b, *second, bias, *grid(left, 0.471, 9)], (left, (6, 9)), known=range(1, 9), alpha=0.7)
    columns = [RANDOM.random(9, np.float32), bytes_of(right, 9)]
    check("QGemm", [a.T.copy(), *first, b.T.copy(), *columns], (np.float32, (6, 9)), rtol=1e-6, transA=1, transB=1)


@pytest.mark.parametrize(("left", "right"), PAIRS)
def test_products_that_are_floats(left, right):
    a, b, bias = bytes_of(left, 2, 6, 70), halve(bytes_of(right, 70, 9)), RANDOM.random(9, np.float32)
    scale, zero = grid(left, 0.0312, 7)
    columns, zeros = RANDOM.random(9, np.float32), bytes_of(right, 9)
    result = (np.float32, (2, 6, 9))
    check("MatMulIntegerToFloat", [a, b, scale, columns, zero, zeros, bias], result, rtol=1e-6)
    check("MatMulIntegerToFloat", [a, b, scale, single(0.02), zero], result, rtol=1e-6)
    x = RANDOM.standard_normal((2, 6, 70)).astype(np.float32)
    check("DynamicQuantizeMatMul", [x, b, columns, zeros, bias], result, rtol=1e-6, known=[1, 2, 3, 4])
    check("DynamicQuantizeMatMul", [x, b, single(0.02)], result, rtol=1e-6)


MASK = RANDOM.integers(0, 2, (2, 5)).astype(np.int32)


@pytest.mark.parametrize(
    ("mask", "before", "attributes"),
    [
        (None, 3, {}),
        (MASK, 0, {"mask_filter_value": -1.5}),
        (np.stack([MASK] * 5, axis=1), 3, {"unidirectional": 1}),
        (np.array([3, 5], np.int32), 0, {"scale": 0.3}),
        (np.array([3, 5, 1, 2], np.int32), 0, {}),
    ],
)
def test_attention(mask, before, attributes):
    x, w = bytes_of(np.uint8, 2, 5, 16), halve(bytes_of(np.int8, 16, 48))
    bias = RANDOM.standard_normal(48).astype(np.float32)
    past = RANDOM.standard_normal((2, 2, 2, before, 8)).astype(np.float32) if before else None
    if before and mask is not None and mask.ndim > 1:
        mask = np.concatenate([np.ones((*mask.shape[:-1], before), np.int32), mask], axis=-1)
    zeros = [np.array(120, np.uint8), bytes_of(np.int8, 48)]
    arrays = [x, w, bias, single(0.004), RANDOM.random(48, np.float32) / 50, mask, *zeros, past]
    results = [(np.float32, (2, 5, 16)), (np.float32, (2, 2, 2, 5 + before, 8))][: 2 if before else 1]
    check("QAttention", arrays, *results, rtol=1e-5, num_heads=2, **attributes)


def test_linear_quantisation():
    x = RANDOM.standard_normal((4, 6)).astype(np.float32) * 9
    scales, zeros = RANDOM.random(6, np.float32) + 0.1, bytes_of(np.int8, 6)
    check("QuantizeLinear", [x, scales, zeros], (np.int8, x.shape), axis=1)
    check("DequantizeLinear", [bytes_of(np.int8, 4, 6), scales, zeros], (np.float32, x.shape), axis=-1)


@pytest.mark.parametrize(
    ("op", "arrays", "reason"),
    [
        ("QLinearSigmoid", [bytes_of(np.int16, 3), single(1), None, single(1)], "dtype int16 of a quantised tensor"),
        ("QLinearSigmoid", [bytes_of(np.int8, 3), single(1), np.uint8(0), single(1)], "a zero point of dtype uint8"),
        ("QLinearSigmoid", [bytes_of(np.int8, 3), np.ones(3, np.float32), None, single(1)], "'scale' has shape"),
        (
            "QLinearGlobalAveragePool",
            [bytes_of(np.int8, 1, 2, 3), *grid(np.int8, 1, 0), single(1), single(0)],
            "a zero point of dtype float32",
        ),
        ("QLinearConcat", [single(1), np.int8(0), bytes_of(np.int8, 3), single(1)], "three for each tensor"),
    ],
)
def test_what_does_not_fit_is_refused(op, arrays, reason):
    attributes: Any = {"axis": 0} if op == "QLinearConcat" else {}
    model, _ = contrib(op, arrays, (np.int8, (3,)), **attributes)
    with pytest.raises(ModelError, match=reason):
        import_model(model)


@pytest.mark.parametrize("direction", ["reverse", "bidirectional"])
@pytest.mark.parametrize(("per_row", "dtype"), [(False, np.int8), (True, np.int8), (False, np.uint8)])
def test_lstm(direction, per_row, dtype):
    """Signed weights are multiplied as bytes."""
    count, hidden = 2 if direction == "bidirectional" else 1, 6
    x = RANDOM.standard_normal((4, 3, 5)).astype(np.float32)
    w, r = (halve(bytes_of(dtype, count, n, 4 * hidden)) for n in (5, hidden))
    b = RANDOM.standard_normal((count, 8 * hidden)).astype(np.float32)
    h, c = (RANDOM.standard_normal((count, 3, hidden)).astype(np.float32) for _ in range(2))
    shape = (count, 4 * hidden) if per_row else (count,)
    scales = [(RANDOM.random(shape, np.float32) + 0.5) / 100 for _ in range(2)]
    zeros = np.full(shape, 0 if dtype == np.int8 else 60, dtype)
    arrays = [x, w, r, b, None, h, c, None, scales[0], zeros, scales[1], zeros]
    results = [(np.float32, (4, count, 3, hidden)), *[(np.float32, (count, 3, hidden))] * 2]
    known = [1, 2, 8, 9, 10, 11]
    check("DynamicQuantizeLSTM", arrays, *results, known=known, rtol=1e-5, direction=direction, hidden_size=hidden)
