"""Random numbers: their distribution, and what they depend on."""

from __future__ import annotations

import math

import numpy as np
import pytest
from onnx import TensorProto, helper
from onnx_case import model_of, node_model
from reference import run_model

from tilewright.core.errors import ModelError
from tilewright.frontends import import_model

MANY = 40_000
MASK = 0xFFFFFFFF


def drawn(op, *arrays, opset=22, outputs=1, **attributes):
    model, inputs = node_model(op, arrays, outputs=outputs, opset=opset, **attributes)
    return run_model(import_model(model), inputs)


def threefry(key, counter):
    """Threefry-2x32 with 20 rounds, in Python's integers."""
    schedule = [*key, key[0] ^ key[1] ^ 0x1BD11BDA]
    x, y = (counter[0] + key[0]) & MASK, (counter[1] + key[1]) & MASK
    for block in range(5):
        for count in ((13, 15, 26, 6), (17, 29, 16, 24))[block % 2]:
            x = (x + y) & MASK
            y = ((y << count | y >> (32 - count)) & MASK) ^ x
        x = (x + schedule[(block + 1) % 3]) & MASK
        y = (y + schedule[(block + 2) % 3] + block + 1) & MASK
    return x, y


def distance(sample, cumulative):
    """Kolmogorov's and Smirnov's: how far the sample's distribution function is from another, times √n."""
    ordered = np.sort(sample.astype(np.float64).reshape(-1))
    want = cumulative(ordered)
    steps = np.arange(ordered.size + 1) / ordered.size
    return max((want - steps[:-1]).max(), (steps[1:] - want).max()) * math.sqrt(ordered.size)


def test_words_are_those_of_the_published_generator():
    assert threefry((0, 0), (0, 0)) == (0x6B200159, 0x99BA4EFE)  # known answers of Random123
    assert threefry((0x13198A2E, 0x03707344), (0x243F6A88, 0x85A308D3)) == (0xC4923A9C, 0x483DF7A0)
    key = (int(np.float32(7.5).view(np.uint32)), 0)
    want = [(threefry(key, (i, 0))[0] >> 8) * 2.0**-24 for i in range(60)]
    np.testing.assert_array_equal(
        drawn("RandomUniform", shape=[3, 4, 5], seed=7.5)[0].reshape(-1), np.array(want, np.float32)
    )


@pytest.mark.parametrize("dtype", [TensorProto.FLOAT, TensorProto.DOUBLE, TensorProto.FLOAT16, TensorProto.BFLOAT16])
def test_uniform_numbers_fill_the_range_evenly(dtype):
    [x] = drawn("RandomUniform", shape=[MANY // 8, 8], low=-2.0, high=6.0, seed=1.0, dtype=dtype)
    assert x.dtype == helper.tensor_dtype_to_np_dtype(dtype) and x.shape == (MANY // 8, 8)
    x = x.astype(np.float64)
    assert x.min() >= -2 and x.max() < 6
    assert distance(x, lambda a: (a + 2) / 8) < (1.95 if dtype in (TensorProto.FLOAT, TensorProto.DOUBLE) else 4)
    assert abs(np.corrcoef(x[:-1, 0], x[1:, 0])[0, 1]) < 0.05


@pytest.mark.parametrize("dtype", [TensorProto.FLOAT, TensorProto.DOUBLE, TensorProto.FLOAT16])
def test_normal_numbers(dtype):
    [x] = drawn("RandomNormal", shape=[MANY], mean=1.0, scale=2.0, seed=3.0, dtype=dtype)
    x = (x.astype(np.float64) - 1) / 2
    assert distance(x, lambda a: np.array([math.erfc(-v / math.sqrt(2)) / 2 for v in a])) < 1.95
    assert abs(x.mean()) < 0.02 and abs(x.std() - 1) < 0.02 and abs((x**4).mean() - 3) < 0.2
    assert np.isfinite(x).all()


def test_the_shape_and_dtype_of_another_tensor():
    like = np.zeros((3, 5), np.float64)
    assert [a.shape for a in drawn("RandomUniformLike", like, seed=1.0)] == [(3, 5)]
    assert drawn("RandomNormalLike", like, seed=1.0)[0].dtype == np.float64
    assert drawn("RandomNormalLike", np.zeros((2, 3), np.int32), dtype=1)[0].dtype == np.float32
    assert drawn("RandomUniformLike", np.zeros((0, 3), np.float32))[0].shape == (0, 3)


def test_numbers_depend_on_the_seed_or_else_on_the_node():
    def pair(**attributes):
        nodes = [helper.make_node("RandomUniform", [], [n], name=n, shape=[9], **attributes) for n in "ab"]
        return run_model(import_model(model_of(nodes, {}, ["a", "b"])), {})

    a, b = pair(seed=4.0)
    assert (a == b).all()
    c, d = pair()
    assert (c != d).all() and (c != a).all()
    np.testing.assert_array_equal(pair(), [c, d])


def test_bernoulli_is_one_as_often_as_its_probability():
    p = np.repeat([0, 0.2, 0.7, 1], MANY // 4).astype(np.float32)
    [x] = drawn("Bernoulli", p, seed=2.0, dtype=TensorProto.INT32)
    np.testing.assert_allclose(x.reshape(4, -1).mean(axis=1), [0, 0.2, 0.7, 1], atol=0.02)


def test_multinomial_draws_classes_by_their_weights():
    weights = np.array([[0, 1, 3, 0, 4, 0], [5, 0, 0, 0, 0, 5]])
    with np.errstate(divide="ignore"):
        logits = np.log(weights).astype(np.float32) + 9
    [x] = drawn("Multinomial", logits, sample_size=MANY // 4, seed=1.0, dtype=TensorProto.INT64)
    assert x.dtype == np.int64 and x.shape == (2, MANY // 4)
    for row, w in zip(x, weights, strict=True):
        np.testing.assert_allclose(np.bincount(row, minlength=6) / row.size, w / w.sum(), atol=0.02)
        assert not set(row) & set(np.flatnonzero(w == 0))


@pytest.mark.parametrize("known", [True, False])
def test_dropout_in_training(known):
    x, ratio, training = np.full((40, 1000), 3, np.float32), np.float32(0.25), np.bool_(True)
    positions = [1, 2] if known else []
    model, inputs = node_model("Dropout", [x, np.asarray(ratio), np.asarray(training)], positions, 2, opset=22, seed=5)
    y, mask = run_model(import_model(model), inputs)
    assert mask.dtype == bool and abs(mask.mean() - 0.75) < 0.02
    np.testing.assert_array_equal(y, np.where(mask, np.float32(4), 0))
    if not known:  # nothing is dropped in inference
        y, mask = run_model(import_model(model), inputs | {"in2": np.asarray(False)})
        np.testing.assert_array_equal(y, x)
        assert mask.all()


@pytest.mark.parametrize("dtype", [np.float16, np.float64])
def test_dropout_of_other_floats(dtype):
    x = np.linspace(1, 2, 4000).astype(dtype)
    model, inputs = node_model("Dropout", [x, np.array(0.3, dtype), np.array(True)], [1, 2], 2, opset=22)
    y, mask = run_model(import_model(model), inputs)
    want = np.where(mask, x.astype(np.float64) / (1 - float(dtype(0.3))), 0)
    np.testing.assert_allclose(y, want, rtol=1e-12 if dtype == np.float64 else 1e-3)
    assert abs(mask.mean() - 0.7) < 0.04


def test_dropout_of_opset_6_is_in_training_unless_it_says_otherwise():
    model, inputs = node_model("Dropout", [np.ones(2000, np.float32)], outputs=2, opset=6, ratio=0.5)
    model.graph.output[1].type.CopyFrom(model.graph.output[0].type)  # which shape inference leaves out
    y, mask = run_model(import_model(model), inputs)
    assert mask.dtype == np.float32 and abs(mask.mean() - 0.5) < 0.05
    np.testing.assert_array_equal(y, 2 * mask)


@pytest.mark.parametrize(
    ("op", "arrays", "attributes", "reason"),
    [
        ("RandomUniformLike", [np.zeros(3, np.int32)], {}, "random numbers are floats, not int32"),
        ("Multinomial", [np.zeros((2, 0), np.float32)], {}, "nothing to draw 1 samples from"),
        ("Dropout", [np.zeros(3, np.float32), np.float32(1), np.bool_(1)], {}, r"ratio 1.0 is not within \[0, 1\)"),
    ],
)
def test_what_breaks_the_rules_is_refused(op, arrays, attributes, reason):
    model, _ = node_model(op, list(map(np.asarray, arrays)), range(1, len(arrays)), opset=22, **attributes)
    with pytest.raises(ModelError, match=f"the_{op}.*{reason}"):
        import_model(model)
