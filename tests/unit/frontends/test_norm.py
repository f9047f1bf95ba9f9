"""Normalisations against onnxruntime, or onnx's reference where onnxruntime lacks the op."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from onnx import helper
from onnx.reference import ReferenceEvaluator
from onnx_case import check_node, node_model
from reference import run_model

import tilewright as tw
from tilewright.core.errors import ModelError, UnsupportedError
from tilewright.core.target import detect_host
from tilewright.frontends import import_model
from tilewright.passes.infra.context import PassContext
from tilewright.passes.pipeline import compile_kernel, plan

RANDOM = np.random.default_rng(0)
X = RANDOM.standard_normal((2, 6, 5, 4)).astype(np.float32)
SCALE, BIAS, MEAN = RANDOM.standard_normal((3, 6)).astype(np.float32)
VARIANCE = RANDOM.uniform(0.5, 2, 6).astype(np.float32)
STATISTICS = [SCALE, BIAS, MEAN, VARIANCE]


def typed_model(op: str, arrays: Sequence[np.ndarray], opset: int, **attributes: Any):
    """A node whose result is like its first input, for ops that onnx infers no shape of."""
    model, inputs = node_model(op, arrays, opset=opset, **attributes)
    kind = helper.np_dtype_to_tensor_dtype(arrays[0].dtype)
    model.graph.output[0].CopyFrom(helper.make_tensor_value_info("out0", kind, arrays[0].shape))
    return model, inputs


def check_by_reference(op: str, *arrays: np.ndarray, opset: int, **attributes: Any) -> None:
    model, inputs = typed_model(op, arrays, opset, **attributes)
    [want] = ReferenceEvaluator(model).run(None, inputs)
    [got] = run_model(import_model(model), inputs)
    np.testing.assert_allclose(got, np.asarray(want), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("opset", [8, 9, 18])
@pytest.mark.parametrize("known", [[], [1, 2, 3, 4]])
def test_batch_normalization(opset, known):
    check_node("BatchNormalization", X, *STATISTICS, opset=opset, known=known, epsilon=1e-3)
    check_node("BatchNormalization", X[:, :, 0, 0], *STATISTICS, opset=opset, known=known)


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.float16])
def test_batch_normalization_in_training(dtype):
    arrays = [a.astype(dtype) for a in (X, *STATISTICS)]
    model, inputs = node_model("BatchNormalization", arrays, outputs=3, opset=15, training_mode=1, momentum=0.7)
    wants = ReferenceEvaluator(model).run(None, inputs)
    for got, want in zip(run_model(import_model(model), inputs), wants, strict=True):
        assert got.dtype == dtype
        np.testing.assert_allclose(got, np.asarray(want), rtol=1e-5, atol=1e-5 if dtype != np.float16 else 1e-2)


def test_batch_normalization_in_half_precision_computes_in_single():
    arrays = [a.astype(np.float16) for a in (X, *STATISTICS)]
    model, inputs = node_model("BatchNormalization", arrays)
    scale, bias, mean, variance = (a.astype(np.float32).reshape(-1, 1, 1) for a in arrays[1:])
    want = (arrays[0].astype(np.float32) - mean) / np.sqrt(variance + 1e-5) * scale + bias
    np.testing.assert_allclose(run_model(import_model(model), inputs)[0], want, rtol=1e-3, atol=1e-3)


def test_training_by_an_old_opset_is_refused():
    model, _ = node_model("BatchNormalization", [X, *STATISTICS], outputs=5, opset=9)
    del model.graph.output[1:]  # onnx infers no shape of them
    with pytest.raises(UnsupportedError, match=r"BatchNormalization \(the_BatchNormalization\): training mode"):
        import_model(model)


def test_instance_normalization():
    check_node("InstanceNormalization", X, SCALE, BIAS, rtol=1e-4, atol=1e-5)
    check_node("InstanceNormalization", X[:, :, 0], SCALE, BIAS, rtol=1e-4, atol=1e-5, epsilon=0.1)


@pytest.mark.parametrize("groups", [1, 2, 6])
def test_group_normalization(groups):
    check_by_reference("GroupNormalization", X, SCALE, BIAS, opset=21, num_groups=groups)


@pytest.mark.parametrize(("groups", "ahead"), [(1, True), (4, False)])
def test_images_of_an_open_batch_are_summed_up_once(groups, ahead):
    """One group is all of an image: parts of it, made one by one, would sum up all of it anew each."""
    x, scale, bias = (RANDOM.standard_normal(shape).astype(np.float32) for shape in ((3, 64, 25, 24), (64,), (64,)))
    model, given = typed_model("GroupNormalization", [x, scale, bias], 21, num_groups=groups)
    want = tw.compile(model, workers=0, num_threads=1, cache=False).run(given)
    model.graph.input[0].type.tensor_type.shape.dim[0].dim_param = "n"
    model.graph.output[0].type.tensor_type.shape.dim[0].dim_param = "n"
    made = plan(import_model(model), detect_host())
    [kernel] = [compile_kernel(text, detect_host(), PassContext()) for text in made.kernels.values()]
    assert kernel.ahead == ahead
    got = tw.compile(model, workers=0, num_threads=2, cache=False).run(given)
    np.testing.assert_allclose(got[0], want[0], rtol=1e-5, atol=1e-5)


def test_channels_that_do_not_make_groups_are_refused():
    model, _ = typed_model("GroupNormalization", [X, SCALE, BIAS], 21, num_groups=4)
    with pytest.raises(ModelError, match=r"x has shape \[2, 6, 5, 4\].*axis 1 is not num_groups\*c \(num_groups=4\)"):
        import_model(model)


@pytest.mark.parametrize("axis", [-1, 1, -3, 0])
def test_layer_normalization_and_its_statistics(axis):
    scale, bias = RANDOM.standard_normal((2, *X.shape[axis:])).astype(np.float32)
    check_node("LayerNormalization", X, scale, bias, axis=axis, rtol=1e-4, atol=1e-5)
    check_node("LayerNormalization", X, scale, axis=axis, epsilon=0.1, outputs=3, rtol=1e-4, atol=1e-5)


def test_nothing_has_no_mean():
    model, inputs = node_model("LayerNormalization", [X[..., :0], np.zeros(0, np.float32)], outputs=3)
    made, *statistics = run_model(import_model(model), inputs)
    assert made.size == 0 and all(np.isnan(s).all() and s.size for s in statistics)


def test_layer_normalization_far_from_zero():
    far = X + np.float32(1000)
    model, inputs = node_model("LayerNormalization", [far, np.ones(4, np.float32)])
    exact = far.astype(np.float64) - far.mean(-1, keepdims=True, dtype=np.float64)
    want = exact / np.sqrt((exact**2).mean(-1, keepdims=True) + 1e-5)
    np.testing.assert_allclose(run_model(import_model(model), inputs)[0], want, rtol=1e-3, atol=5e-3)


@pytest.mark.parametrize("axis", [-1, 2])
def test_rms_normalization(axis):
    scale = RANDOM.standard_normal(X.shape[axis:]).astype(np.float32)
    check_by_reference("RMSNormalization", X, scale, opset=23, axis=axis)


@pytest.mark.parametrize("size", [1, 3, 9])
def test_local_response(size):
    check_node("LRN", X, size=size, rtol=1e-4)
    check_node("LRN", X, size=size, alpha=0.5, beta=0.6, bias=2.0, rtol=1e-4)


def test_local_response_of_an_even_size_looks_further_up():
    model, inputs = node_model("LRN", [X], size=4, alpha=0.5)
    sums = [(X[:, max(c - 1, 0) : c + 3] ** 2).sum(axis=1) for c in range(6)]
    want = X / (1 + 0.5 / 4 * np.stack(sums, axis=1)) ** 0.75
    np.testing.assert_allclose(run_model(import_model(model), inputs)[0], want, rtol=1e-4)


def test_mean_variance_normalization():
    check_node("MeanVarianceNormalization", X, rtol=1e-4, atol=1e-5)
    check_node("MeanVarianceNormalization", X, axes=[1, -1], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("p", [1, 2])
def test_norm_along_an_axis_and_of_zeros(p):
    rows = X.copy()
    rows[0, :, 1] = 0
    check_node("LpNormalization", rows, p=p)
    check_node("LpNormalization", rows, p=p, axis=1)
