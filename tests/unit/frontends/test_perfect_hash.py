"""Tables of known keys, and LabelEncoder, which looks up its keys in them."""

from __future__ import annotations

import numpy as np
import pytest
from onnx_case import check_model, foreign_model

from tilewright.frontends import import_model
from tilewright.frontends.onnx.algorithms.perfect_hash import MOST_KEYS, make_perfect_hash

RANDOM = np.random.default_rng(0)


@pytest.mark.parametrize("dtype", [np.uint32, np.uint64])
@pytest.mark.parametrize("count", [2, 17, 300, 5000])
def test_each_key_has_a_place_of_its_own(dtype, count):
    keys = np.unique(RANDOM.integers(0, np.iinfo(dtype).max, count, dtype))
    made = make_perfect_hash(keys)
    assert made is not None and np.unique(made.places).size == keys.size
    assert made.size < 4 * keys.size + 4 and made.places.max() < made.size


def test_multiples_of_powers_of_two_have_places():
    assert make_perfect_hash(np.arange(200, dtype=np.uint64) << np.uint64(40)) is not None
    assert make_perfect_hash(np.linspace(0, 100, 201, dtype=np.float32).view(np.uint32)) is not None


def test_too_few_or_too_many_keys_have_none():
    assert make_perfect_hash(np.arange(1, dtype=np.uint32)) is None
    assert make_perfect_hash(np.arange(MOST_KEYS + 1, dtype=np.uint32)) is None


def check_labels(keys: np.ndarray, x: np.ndarray) -> None:
    kind = "int64s" if x.dtype == np.int64 else "floats"
    values = RANDOM.integers(0, 1000, keys.size).tolist()
    given = {f"keys_{kind}": keys.tolist(), "values_int64s": values, "default_int64": -7}
    model, inputs = foreign_model("LabelEncoder", [x], "ai.onnx.ml", results=["int64"], version=4, **given)
    check_model(model, inputs)
    assert str(import_model(model).module).count("tensor.extract ") == 3  # of a displacement, a key and a value


def test_labels_of_integers_far_apart():
    keys = np.unique(RANDOM.integers(-(2**62), 2**62, 200))
    check_labels(keys, np.concatenate([keys, keys + 1, keys ^ (1 << 40), [0, -(2**63), 2**63 - 1]]))


@pytest.mark.parametrize("zero", [0.0, -0.0])
def test_labels_of_floats(zero):
    keys = np.unique(np.concatenate([RANDOM.standard_normal(100), [np.inf]]).astype(np.float32))
    others = np.array([np.nan, 0.0, -0.0, -np.inf, np.inf, 1e-30], np.float32)
    check_labels(np.append(keys, np.float32(zero)), np.concatenate([keys, -keys, others]))
    check_labels(np.append(keys, np.float32("nan")), np.concatenate([keys, -keys, others]))
