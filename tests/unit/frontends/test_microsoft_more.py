"""Operators of com.microsoft that are no products and no attention, against onnxruntime."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest
from onnx_case import check_model, foreign_model

import tilewright as tw
from tilewright.core.errors import ModelError
from tilewright.frontends import import_model
from tilewright.tools.debugging.oracle import make_session

RANDOM = np.random.default_rng(1)


def f(*shape: int) -> np.ndarray:
    return np.asarray(RANDOM.standard_normal(shape), np.float32)


def half(*shape: int) -> np.ndarray:
    return f(*shape).astype(np.float16)


def check(op: str, *arrays: np.ndarray | None, tol: float = 1e-5, **options: Any) -> None:
    model, inputs = foreign_model(op, arrays, "com.microsoft", **options)
    check_model(model, inputs, tol, tol)


def refusal(op: str, *arrays: np.ndarray | None, **options: Any) -> str:
    model, _ = foreign_model(op, arrays, "com.microsoft", **options)
    with pytest.raises(ModelError) as error:
        import_model(model)
    return str(error.value)


def whole(low: int, high: int, *shape: int, dtype: str = "int64") -> np.ndarray:
    return RANDOM.integers(low, high, shape).astype(dtype)


def check_program(op: str, *arrays: np.ndarray | None, tol: float = 1e-5, **options) -> None:
    """The node's outputs, compiled, are onnxruntime's."""
    model, inputs = foreign_model(op, arrays, "com.microsoft", **options)
    expected = make_session(model).run(None, inputs)
    for got, want in zip(tw.compile(model).run(inputs), map(np.asarray, expected), strict=True):
        assert np.asarray(got).dtype == want.dtype
        np.testing.assert_allclose(np.asarray(got), want, rtol=tol, atol=tol)


def test_gates():
    check("GatedAdd", f(3, 5, 17), f(3, 5, 17), f(3, 5, 1))
    check("GatedAdd", half(5, 17), half(5, 17), half(5, 1), results=["float16"], tol=1e-3)
    check("ScaledSiLU", f(3, 17), alpha=1.5)
    check("ScaledSiLU", half(3, 17), f(), results=["float16"], tol=2e-3)
    check("LinearAttentionGate", f(2, 3, 5), f(5), f(5), f(2, 3, 5), results=["float32", "float32"])
    check("LinearAttentionGate", half(2, 3, 5), f(5), f(5), results=["float16"], tol=2e-3)


@pytest.mark.parametrize("activation", ["silu", "sigmoid"])
def test_norm_with_a_gate(activation):
    check("GatedRMSNorm", f(2, 3, 24), f(8), f(2, 3, 24), activation=activation)
    check("GatedRMSNorm", half(2, 24), half(24), half(2, 24), results=["float16"], tol=3e-3, activation=activation)


@pytest.mark.parametrize("scale", [(24,), (3, 8), (8,), None])
def test_norm_of_branches(scale):
    given = None if scale is None else f(*scale)
    check("BranchwiseRMSNorm", f(2, 5, 3, 8), *[given] * (given is not None))
    check("BranchwiseRMSNorm", f(2, 5, 24), *[given] * (given is not None), num_branches=3)


@pytest.mark.parametrize("gates", [(2, 5, 3), (2, 5, 3, 1), (2, 5, 3, 8)])
def test_hyper_connections(gates):
    check("HyperConnectionPreMix", f(2, 5, 3, 8), f(*gates), reduction_scale=0.5)
    check("HyperConnectionPreMix", f(2, 5, 24), f(2, 5, 24), num_branches=3)
    check("HyperConnectionPostMix", f(2, 5, 3, 8), f(2, 5, 8), f(*gates))
    check("HyperConnectionPostMix", f(2, 5, 3, 8), f(2, 5, 8), f(*gates), f(2, 5, 3, 3))


@pytest.mark.parametrize("last", [0, 1])
@pytest.mark.parametrize("dilation", [1, 2])
def test_causal_convolution(last, dilation):
    x, past = f(2, 5, 9), f(2, 5, 3 * dilation)
    if last:
        x, past = (t.transpose(0, 2, 1).copy() for t in (x, past))
    options = {"results": ["float32"] * 2, "dilation": dilation, "channels_last": last}
    check("CausalConvWithState", x, f(5, 1, 4), f(5), past, activation="silu", **options)
    check("CausalConvWithState", x, f(5, 1, 4), **options)
    check("CausalConvWithState", x[:, :1].copy() if last else x[..., :1].copy(), f(5, 1, 4), None, past, **options)


def test_unique_in_order():
    x = whole(0, 9, 40).astype(np.float32)
    check_program("Unique", x, results=["float32", "int64", "int64"])


@pytest.mark.parametrize("bits", [2, 4, 8])
@pytest.mark.parametrize("zeros", [False, True])
def test_gather_of_bytes_in_blocks(bits, zeros):
    each = 8 // bits
    data, scales = whole(0, 256, 7, 40 // each, dtype="uint8"), f(7, 3)
    points = whole(0, 256, 7, -(-3 // each), dtype="uint8") if zeros else None
    indices = np.array([[0, 6, 3], [-1, 2, 2]], np.int64)
    check("GatherBlockQuantized", data, indices, scales, *[points] * zeros, known=[0, 2, *[3] * zeros], bits=bits, block_size=16)  # fmt: skip


@pytest.mark.parametrize("dtype", ["int4", "uint4"])
@pytest.mark.parametrize(("along", "across"), [(0, 1), (1, 0), (2, 1), (0, 2)])
def test_gather_of_narrow_integers_in_blocks(dtype, along, across):
    shape, indices = (18, 34, 6), whole(-6, 6, 4, dtype="int32")
    scales = f(*[-(-n // 16) if axis == across else n for axis, n in enumerate(shape)])
    low, high = (-8, 8) if dtype == "int4" else (0, 16)
    data, zeros = (whole(low, high, *s).astype(getattr(ml_dtypes, dtype)) for s in (shape, scales.shape))
    options = {"known": [0, 2, 3], "block_size": 16, "gather_axis": along, "quantize_axis": across}
    check("GatherBlockQuantized", data, indices, scales, zeros, **options)


def test_gather_of_narrow_floats_in_blocks():
    data, indices = f(7, 32).astype(ml_dtypes.float8_e4m3fn), whole(-7, 7, 4)
    check("GatherBlockQuantized", data, indices, f(7, 1), known=[0, 2], block_size=0)
    check("GatherBlockQuantized", data, indices, half(1, 2), known=[0, 2], block_size=16, results=["float16"], tol=2e-3)


def test_gather_in_blocks_outside_is_zero():
    indices = np.array([0, 7, -8, 3], np.int64)
    check("GatherBlockQuantized", whole(0, 256, 7, 32, dtype="uint8"), indices, f(7, 2), bits=8, block_size=16)


@pytest.mark.parametrize(("axis", "size", "step"), [(-1, 3, 1), (0, 4, 2), (1, 5, 3)])
def test_windows_of_a_tensor(axis, size, step):
    check("UnfoldTensor", f(9, 8, 7), dim=axis, size=size, step=step)


@pytest.mark.parametrize("size", [1, 2, 3, 20])
def test_repeated_ngrams(size):
    check("NGramRepeatBlock", whole(0, 3, 4, 19), f(4, 3), ngram_size=size)


@pytest.mark.parametrize("dtype", ["int32", "uint32", "int64", "uint64", "float32", "float64"])
@pytest.mark.parametrize("positive", [0, 1])
def test_hashes(dtype, positive):
    x = np.array([0, 1, 2, 127, 1 << 20, 99999], dtype)
    if dtype.startswith("int"):
        x = np.concatenate([x, -x])
    check("MurmurHash3", x, positive=positive, seed=42, results=["uint32" if positive else "int32"])


@pytest.mark.parametrize("mode", ["bilinear", "nearest"])
@pytest.mark.parametrize("size", [(4, 5), (1, 1), (1, 7)])
@pytest.mark.parametrize("channels", [3, 17])
def test_crops(mode, size, channels):
    rois = np.array([[0, 0, 1, 1], [0.1, 0.2, 0.7, 0.9], [0.8, 0.9, 0.1, 0.3], [-0.3, 0.5, 0.6, 1.4]], np.float32)
    crop, batch = np.array(size, np.int32), np.array([0, 1, 1, 0], np.int32)
    check("CropAndResize", f(2, channels, 9, 11), rois, batch, crop, known=[3], mode=mode, extrapolation_value=0.5)


def test_transposed_convolution_with_padding_as_an_operand():
    pads = np.array([1, 0, 1, 2], np.int64)
    check("ConvTransposeWithDynamicPads", f(1, 3, 5, 6), f(3, 4, 3, 3), pads, f(4), known=[2], strides=[2, 2])


@pytest.mark.parametrize("quant_type", [0, 1])
def test_product_with_codes_of_four_bits(quant_type):
    n, k = 32, 48
    a, b = f(3, k), whole(0, 256, n * k // 2, dtype="uint8")
    options = {"N": n, "K": k, "block_size": 16, "quant_type": quant_type}
    check("MatMulBnb4", a, b, f(n * k // 16), known=[1, 2], tol=1e-4, **options)


def test_product_of_short_integers():
    a, b = whole(-300, 300, 2, 5, 17, dtype="int16"), whole(-300, 300, 17, 9, dtype="int16")
    check("MatMulInteger16", a, b, results=["int32"])


@pytest.mark.parametrize("last", [0, 1])
def test_quantized_convolution_by_layout(last):
    x = whole(0, 256, 1, 9, 8, 5, dtype="uint8")
    operands = [x if last else x.transpose(0, 3, 1, 2).copy(), np.float32(0.02), np.uint8(120)]
    weight = [whole(-64, 64, 6, 5, 3, 3, dtype="int8"), np.full(6, 0.03, np.float32), np.zeros(6, np.int8)]
    result = [np.float32(0.5), np.uint8(110), whole(-99, 99, 6, dtype="int32")]
    arrays = [np.asarray(t) for t in (*operands, *weight, *result)]
    check("QLinearConv", *arrays, known=range(1, 9), results=["uint8"], channels_last=last, pads=[1] * 4)


@pytest.mark.parametrize("layout", [0, 1])
@pytest.mark.parametrize("interleaved", [0, 1])
def test_rotation_by_positions_in_time_and_space(layout, interleaved):
    places, caches = whole(0, 20, 3, 2, 5), [f(20, 8), f(20, 8)]
    options = {"mrope_section": [4, 2, 2], "mrope_layout": layout, "interleaved": interleaved}
    check("MRotaryEmbedding", f(2, 3, 5, 16), places, *caches, **options)
    check("MRotaryEmbedding", f(2, 5, 48), places, *caches, num_heads=3, **options)
    check("MRotaryEmbedding", f(2, 5, 60), places, *caches, num_heads=3, rotary_embedding_dim=16, **options)


@pytest.mark.parametrize("segments", [False, True])
def test_embeddings_of_bytes(segments):
    ids, kinds = whole(0, 30, 2, 7, dtype="int32"), whole(0, 2, 2, 7, dtype="int32")
    tables = [whole(0, 256, *shape, dtype="uint8") for shape in ((30, 16), (12, 16), (2, 16), (16,), (16,))]
    scales = [np.asarray(0.01 + 0.01 * i, np.float32) for i in range(5)]
    zeros = [np.asarray(100 + i, np.uint8) for i in range(5)]
    left_out = () if segments else (1, 4, 10, 15)
    mask = np.array([[1] * 7, [1] * 4 + [0] * 3], np.int32)
    operands = [None if i in left_out else t for i, t in enumerate((ids, kinds, *tables, mask, *scales, *zeros))]
    check("QEmbedLayerNormalization", *operands, results=["float32", "int32"], tol=1e-4)


def check_old(op: str, *arrays: np.ndarray, **options: Any) -> None:
    model, inputs = foreign_model(op, arrays, "", opset=9, **options)
    check_model(model, inputs)


def test_experimental_operators():
    check_old("Affine", f(3, 5), alpha=0.5, beta=2.0)
    check_old("Scale", f(3, 5), scale=0.5)
    check_old("ScaledTanh", f(3, 5), alpha=0.5, beta=2.0)
    check_old("ParametricSoftplus", f(3, 5), alpha=0.5, beta=2.0)
    check_old("ImageScaler", f(2, 3, 4, 5), scale=0.5, bias=[1.0, 2.0, 3.0])
    check_old("Crop", f(2, 3, 8, 9), border=[1, 2, 3, 1])
    check_old("Crop", f(2, 3, 8, 9), border=[1, 2, 0, 0], scale=[4, 5])
    check_old("DynamicSlice", f(5, 8), np.array([1], np.int64), np.array([-1], np.int64), np.array([1], np.int64), known=[1, 2, 3])  # fmt: skip


def test_refusals():
    assert "blocks of 0" in refusal("GatherBlockQuantized", whole(0, 9, 3, 16, dtype="uint8"), whole(0, 3, 2), f(3, 1), block_size=0)  # fmt: skip
    assert "windows of 9" in refusal("UnfoldTensor", f(3, 8), size=9)
    assert "a hash of int8" in refusal("MurmurHash3", whole(0, 9, 3, dtype="int8"), results=["uint32"])
    assert "'swoosh'" in refusal("GatedRMSNorm", f(2, 8), f(8), f(2, 8), activation="swoosh")
    assert "a window of 2 states" in refusal("CausalConvWithState", f(1, 2, 3), f(2, 1, 4), state_window=2)
