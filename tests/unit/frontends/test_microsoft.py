"""Ops of com.microsoft against onnxruntime, which has them from its own optimiser, or numpy where it lacks a kernel."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import helper, numpy_helper
from onnx_case import check_model, foreign_model
from reference import run_model

import tilewright as tw
from tilewright.core.errors import ModelError, UnsupportedError
from tilewright.frontends import import_model
from tilewright.tools.debugging.oracle import make_session

RANDOM = np.random.default_rng(0)


def f(*shape: int) -> np.ndarray:
    return RANDOM.standard_normal(shape).astype(np.float32)


def half(*shape: int) -> np.ndarray:
    return f(*shape).astype(np.float16)


def check(
    op: str, *arrays: np.ndarray | None, tol: float = 1e-5, domain: str = "com.microsoft", **options: Any
) -> None:
    model, inputs = foreign_model(op, arrays, domain, **options)
    check_model(model, inputs, tol, tol)


def check_numpy(op: str, arrays: Sequence[np.ndarray | None], want: np.ndarray, **options: Any) -> None:
    model, inputs = foreign_model(op, arrays, "com.microsoft", **options)
    [got] = run_model(import_model(model), inputs)
    np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-5)


def refusal(op: str, *arrays: np.ndarray | None, **options: Any) -> str:
    model, _ = foreign_model(op, arrays, "com.microsoft", **options)
    with pytest.raises(ModelError) as error:
        import_model(model)
    return str(error.value)


@pytest.mark.parametrize("turned", [0, 1])
@pytest.mark.parametrize("batch", [0, 1])
def test_matmul_of_turned_operands(turned, batch):
    a = {(0, 0): f(2, 3, 4, 5), (1, 0): f(2, 3, 5, 4), (0, 1): f(4, 2, 3, 5), (1, 1): f(5, 2, 3, 4)}
    b = {(0, 0): f(2, 3, 5, 6), (1, 0): f(2, 3, 6, 5), (0, 1): f(5, 2, 3, 6), (1, 1): f(6, 2, 3, 5)}
    check("FusedMatMul", a[turned, batch], f(2, 3, 5, 6), transA=turned, transBatchA=batch, alpha=0.5)
    check("FusedMatMul", f(2, 3, 4, 5), b[turned, batch], transB=turned, transBatchB=batch)


def test_matmul_does_not_turn_vectors():
    check("FusedMatMul", f(5), f(5, 4), transA=1)
    check("TransposeMatMul", f(2, 4, 5), f(5), transB=1, alpha=2.0)


def test_gemm_with_an_activation():
    check("FusedGemm", f(3, 4), f(4, 5), f(5), activation="Relu", alpha=0.5)
    check("FusedGemm", f(4, 3), f(4, 5), activation="LeakyRelu", activation_alpha=0.5, transA=1)


@pytest.mark.parametrize(
    ("activation", "params"),
    [
        ("Relu", []),
        ("Clip", [0.0, 0.5]),
        ("HardSigmoid", [0.3, 0.4]),
        ("HardSwish", []),
        ("LeakyRelu", [0.1]),
    ],
)
def test_convolution_with_activation_and_residual(activation, params):
    options = {"pads": [1] * 4, "activation": activation, **({"activation_params": params} if params else {})}
    check("FusedConv", f(1, 2, 5, 5), f(3, 2, 3, 3), f(3), f(1, 3, 5, 5), **options)
    check("FusedConv", f(1, 4, 6, 6), f(4, 1, 3, 3), f(4), group=4, strides=[2, 2], **options)


def test_unknown_activation_or_parameter_count_is_refused():
    assert "activation 'Swoosh'" in refusal("FusedConv", f(1, 2, 5, 5), f(3, 2, 3, 3), activation="Swoosh")
    assert "'Clip' with 1 parameters" in refusal(
        "FusedConv", f(1, 2, 5, 5), f(3, 2, 3, 3), activation="Clip", activation_params=[0.0]
    )


def test_convolution_with_channels_last():
    x, w, b = f(2, 5, 6, 3), f(4, 3, 3, 3), f(4)
    model, inputs = foreign_model(
        "FusedConv", [x.transpose(0, 3, 1, 2).copy(), w, b], "com.microsoft", activation="Tanh"
    )
    [want] = make_session(model).run(None, inputs)
    check_numpy("NhwcFusedConv", [x, w, b], np.asarray(want).transpose(0, 2, 3, 1), activation="Tanh")


def test_pooling_with_channels_last():
    x = RANDOM.integers(-128, 128, (1, 6, 6, 3)).astype(np.int8)
    check("NhwcMaxPool", x, kernel_shape=[3, 3], pads=[1] * 4, strides=[2, 2], results=["int8"])


def test_gelus():
    check("Gelu", f(3, 4))
    check("BiasGelu", f(3, 4), f(4))
    check("FastGelu", f(3, 4), f(4))
    check("FastGelu", f(3, 4))
    check("QuickGelu", f(3, 4))
    check("QuickGelu", f(3, 4), alpha=0.7)


def test_sums_with_biases():
    x, bias = f(2, 3, 8), f(8)
    check_numpy("BiasAdd", [x, bias, x], x + bias + x)
    left, right = np.split(x + bias, 2, axis=-1)
    erf = onnxruntime_erf(right / np.sqrt(np.float32(2)))
    check_numpy("BiasSplitGelu", [x, bias], left * right * 0.5 * (1 + erf))


def onnxruntime_erf(x: np.ndarray) -> np.ndarray:
    node = helper.make_node("Erf", ["x"], ["y"])
    kinds = [helper.make_tensor_value_info(n, 1, x.shape) for n in "xy"]
    model = helper.make_model(helper.make_graph([node], "erf", kinds[:1], kinds[1:]), ir_version=10)
    model.opset_import[0].version = 18
    return np.asarray(make_session(model).run(None, {"x": x})[0])


@pytest.mark.parametrize("bias", [f(2, 1, 1, 5), f(3, 4, 5)])
def test_softmax_with_a_mask(bias):
    x = f(2, 3, 4, 5)
    powers = np.exp(x + bias)
    want = powers / powers.sum(-1, keepdims=True)
    check_numpy("BiasSoftmax", [x, bias], want, axis=3, is_inner_broadcast=int(bias.ndim == 4))


def test_ops_that_onnx_has_as_well():
    check("Trilu", f(3, 4), np.array(1), upper=0)
    check("ExpandDims", f(3, 4), np.array(-1, np.int32), known=[1])
    check("GatherND", f(3, 4), np.array([[0, 1], [2, -1]]))


def test_more_ops_that_onnx_has_as_well():
    check("Range", np.array([2.0], np.float32), np.array([9.5], np.float32), known=[0, 1])
    check("Range", *map(np.array, (3, 20, 4)), known=[0, 1, 2], results=["int64"])
    check("Pad", f(2, 3), np.array([1, 0, 2, 1]), np.array([2.5], np.float32), known=[1], mode="constant")
    check("Pad", f(5, 6), np.array([1, 2, 3, 1]), known=[1], mode="reflect")
    grid = RANDOM.uniform(-1.2, 1.2, (1, 4, 5, 2)).astype(np.float32)
    for mode in ("bilinear", "nearest", "bicubic"):
        check("GridSample", f(1, 2, 6, 7), grid, mode=mode, padding_mode="border", align_corners=1)


@pytest.mark.parametrize("metric", ["euclidean", "sqeuclidean"])
def test_distances(metric: str):
    check("CDist", f(5, 16), f(7, 16), metric=metric)


@pytest.mark.parametrize("shape", [(1, 1), (3, 3), (2, 5, 5), (2, 2, 20, 20)])
def test_inverses(shape: tuple[int, ...]):
    """A zero on the diagonal needs a row below; the program's rows go in vectors."""
    x = f(*shape) + 3 * np.eye(shape[-1], dtype=np.float32)
    if shape[-1] > 1:
        x[..., 0, 0] = 0
    check("Inverse", x, tol=1e-4)
    model, inputs = foreign_model("Inverse", [x], "com.microsoft")
    [got] = tw.compile(model, workers=0, num_threads=1).run(inputs)
    np.testing.assert_allclose(got @ x, np.broadcast_to(np.eye(shape[-1]), shape), atol=1e-4)


def test_what_has_no_inverse_has_no_finite_one():
    x = np.ones((2, 3, 3), np.float32)
    model, inputs = foreign_model("Inverse", [x], "com.microsoft")
    assert not np.isfinite(tw.compile(model, workers=0, num_threads=1).run(inputs)[0]).any()


@pytest.mark.parametrize("opset", [11, 16])
def test_layer_norm_in_models_older_than_it(opset):
    check("LayerNormalization", f(2, 3, 4), f(4), f(4), domain="", opset=opset)


@pytest.mark.parametrize("domain", ["", "com.microsoft"])
def test_simplified_layer_norm(domain):
    if domain:
        x, scale = f(2, 3, 4), f(4)
        want = x / np.sqrt((x * x).mean(-1, keepdims=True) + 1e-3) * scale
        check_numpy("SimplifiedLayerNormalization", [x, scale], want, epsilon=1e-3)
    else:
        check("SimplifiedLayerNormalization", f(2, 3, 4), f(4), domain="", epsilon=1e-3, results=["float32"] * 2)


@pytest.mark.parametrize("make", [f, half])
def test_layer_norm_of_a_sum(make):
    tol, dtype = (1e-5, "float32") if make is f else (3e-3, "float16")
    results = [dtype, "", "", dtype]
    arrays = [make(2, 3, 4), make(2, 3, 4), make(4), make(4), make(4)]
    check("SkipLayerNormalization", *arrays, tol=tol, results=results, epsilon=1e-3)
    check("SkipLayerNormalization", arrays[0], make(1, 3, 4), make(4), tol=tol, results=results[:1])
    check("SkipSimplifiedLayerNormalization", *arrays[:3], arrays[4], tol=tol, results=results, epsilon=1e-3)


def test_a_skip_of_another_shape_is_refused():
    assert "a skip of shape [5, 3, 4]" in refusal("SkipLayerNormalization", f(1, 3, 4), f(5, 3, 4), f(4))


def test_embeddings_and_their_norm():
    ids = RANDOM.integers(0, 10, (2, 3)).astype(np.int32)
    segments = RANDOM.integers(0, 2, (2, 3)).astype(np.int32)
    mask = np.array([[1, 1, 0], [0, 1, 2]], np.int32)
    words, places, kinds, gamma, beta = f(10, 4), f(6, 4), f(2, 4), f(4), f(4)
    results = ["float32", "int32", "float32"]
    check("EmbedLayerNormalization", ids, segments, words, places, kinds, gamma, beta, mask, results=results, tol=1e-4)
    check("EmbedLayerNormalization", ids, None, words, places, None, gamma, beta, results=results[:2], tol=1e-4)
    at = np.array([[3, 1, 2]], np.int32)
    check("EmbedLayerNormalization", ids, None, words, places, None, gamma, beta, None, at, results=results, tol=1e-4)


@pytest.mark.parametrize(("bits", "k", "block"), [(4, 32, 16), (4, 70, 32), (2, 48, 32), (8, 48, 16)])
@pytest.mark.parametrize("zeros", ["none", "packed", "floats"])
def test_weights_of_a_few_bits(bits, k, block, zeros):
    blocks, n = -(-k // block), 5
    b = RANDOM.integers(0, 256, (n, blocks, block * bits // 8)).astype(np.uint8)
    packed = RANDOM.integers(0, 256, (n, -(-blocks * bits // 8))).astype(np.uint8)
    points = {"none": None, "packed": packed, "floats": f(n, blocks)}[zeros]
    arrays = [f(2, 3, k), b, f(n, blocks), points, None, f(n)]
    known = [i for i in (1, 2, 3) if arrays[i] is not None]
    if bits == 8 and zeros == "floats":  # which onnxruntime lacks
        x, scales, bias = arrays[0], arrays[2], arrays[5]
        weights = ((b - points[..., None]) * scales[..., None]).reshape(n, -1)[:, :k]
        options = {"K": k, "N": n, "bits": bits, "block_size": block}
        made, inputs = foreign_model("MatMulNBits", arrays, "com.microsoft", known=known, **options)
        np.testing.assert_allclose(run_model(import_model(made), inputs)[0], x @ weights.T + bias, rtol=1e-3, atol=1e-3)
        return
    check("MatMulNBits", *arrays, known=known, K=k, N=n, bits=bits, block_size=block, tol=1e-3)


def test_weights_of_other_bits_or_shapes_are_refused():
    b, scales = np.zeros((5, 2, 8), np.uint8), f(5, 2)
    assert "weights of 3 bits" in refusal("MatMulNBits", f(2, 32), b, scales, K=32, N=5, bits=3, block_size=16)
    assert "B has shape [5, 2, 8], it must be [5, 1, 16]" in refusal(
        "MatMulNBits", f(2, 32), b, scales, K=32, N=5, block_size=32
    )


def test_what_a_node_lacks_is_named():
    assert "input 'skip' is missing" in refusal("SkipLayerNormalization", f(2, 3, 4), None, f(4))
    assert "it lacks K and N and block_size" in refusal("MatMulNBits", f(2, 3), f(4), f(4))
    assert "of one dtype, here they are ['float32', 'float16']" in refusal("BiasGelu", f(2, 3), half(3))
    assert "here they are []" in refusal("Gelu", np.zeros((2, 3), np.int32))


def optimized(model: onnx.ModelProto, level: str, folder: Path) -> onnx.ModelProto:
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.graph_optimization_level = getattr(onnxruntime.GraphOptimizationLevel, f"ORT_ENABLE_{level}")
    options.optimized_model_filepath = str(folder / "optimized.onnx")
    onnxruntime.InferenceSession(model.SerializeToString(), options)
    return onnx.load(folder / "optimized.onnx")


def network(lines: Sequence[str], inputs: dict[str, np.ndarray], weights: dict[str, np.ndarray]) -> onnx.ModelProto:
    """A model in onnx's own notation."""
    text = ", ".join(f"float[{','.join(map(str, a.shape))}] {n}" for n, a in inputs.items())
    body = "\n".join(lines)
    model = onnx.parser.parse_model(f'<ir_version: 9, opset_import: ["": 17]> net ({text}) => (float[] y) {{ {body} }}')
    model.graph.output[0].CopyFrom(helper.make_tensor_value_info("y", 1, None))
    model.graph.initializer.extend(numpy_helper.from_array(a, n) for n, a in weights.items())
    return model


CONVOLUTIONS = [
    "a = Conv <pads = [1,1,1,1]> (x, w1, b)",
    "r = Relu (a)",
    "c = Conv <pads = [1,1,1,1]> (r, w2, b)",
    "s = Add (c, r)",
    "t = Relu (s)",
    "p = GlobalAveragePool (t)",
    "v = Flatten (p)",
    "g = Gemm (v, w3, b)",
    "y = Relu (g)",
]
TRANSFORMER = [
    "q = MatMul (x, w1)",
    "k = MatMul (x, w2)",
    "kt = Transpose <perm = [0,2,1]> (k)",
    "s = MatMul (q, kt)",
    "d = Div (s, scale)",
    "p = Softmax <axis = -1> (d)",
    "o = MatMul (p, x)",
    "r = Add (o, x)",
    "n = LayerNormalization <axis = -1> (r, gamma, beta)",
    "h = MatMul (n, w3)",
    "i = Add (h, beta)",
    "e = Div (i, root)",
    "f = Erf (e)",
    "j = Add (f, one)",
    "m = Mul (i, j)",
    "z = Mul (m, half)",
    "u = Add (z, n)",
    "y = LayerNormalization <axis = -1> (u, gamma, beta)",
]


def convolutions() -> tuple[onnx.ModelProto, dict[str, np.ndarray]]:
    inputs = {"x": f(1, 8, 6, 6)}
    weights = {"w1": f(8, 8, 3, 3), "w2": f(8, 8, 3, 3), "b": f(8), "w3": f(8, 8)}
    return network(CONVOLUTIONS, inputs, weights), inputs


def transformer() -> tuple[onnx.ModelProto, dict[str, np.ndarray]]:
    inputs, numbers = {"x": f(2, 5, 8)}, {"scale": 8**0.5, "root": 2**0.5, "one": 1, "half": 0.5}
    weights = {"w1": f(8, 8), "w2": f(8, 8), "w3": f(8, 8), "gamma": f(8), "beta": f(8)}
    return network(TRANSFORMER, inputs, weights | {n: np.array(a, np.float32) for n, a in numbers.items()}), inputs


@pytest.mark.parametrize(
    ("make", "written"),
    [(convolutions, {"FusedConv", "FusedGemm"}), (transformer, {"FusedMatMul", "SkipLayerNormalization", "Gelu"})],
)
def test_what_the_optimizer_writes_means_the_same(make, written, tmp_path):
    model, inputs = make()
    fused = optimized(model, "EXTENDED", tmp_path)
    assert written <= {node.op_type for node in fused.graph.node if node.domain == "com.microsoft"}
    [want] = run_model(import_model(model), inputs)
    [got] = run_model(import_model(fused), inputs)
    np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-5)


def test_layouts_of_one_cpu_are_refused_with_what_to_do():
    blocked, _ = foreign_model("Conv", [f(1, 16, 6, 6), f(16, 16, 3, 3)], "com.microsoft.nchwc")
    with pytest.raises(UnsupportedError, match=r"'com\.microsoft\.nchwc' is .* at level extended, not all"):
        import_model(blocked)


def test_layer_norm_of_this_domain_is_the_one_of_onnx():
    model, inputs = foreign_model("LayerNormalization", [f(2, 3, 4), f(4), f(4)], "com.microsoft")
    model.graph.node[0].domain = ""
    [want] = make_session(model).run(None, inputs)
    model.graph.node[0].domain = "com.microsoft"
    np.testing.assert_allclose(run_model(import_model(model), inputs)[0], np.asarray(want), rtol=1e-5, atol=1e-5)
