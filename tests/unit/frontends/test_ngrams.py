"""TfIdfVectorizer against onnxruntime and ONNX's reference."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx.reference import ReferenceEvaluator
from onnx_case import check_node, node_model
from reference import run_model

from tilewright.core.errors import ModelError
from tilewright.frontends import import_model

POOL: dict[str, Any] = {
    "ngram_counts": [0, 4],
    "ngram_indexes": [3, 1, 0, 2, 5, 6, 4],
    "pool_int64s": [2, 3, 5, 4, 5, 6, 7, 8, 6, 7],
}
X = np.array([[1, 1, 3, 3, 3, 7], [8, 6, 7, 5, 6, 8], [5, 7, 6, 8, 7, 6]], np.int32)


@pytest.mark.parametrize("mode", ["TF", "IDF", "TFIDF"])
@pytest.mark.parametrize(("shortest", "longest", "skips"), [(1, 2, 5), (2, 2, 0), (1, 1, 3), (2, 2, 1)])
def test_counts(shortest, longest, skips, mode):
    attributes = {"min_gram_length": shortest, "max_gram_length": longest, "max_skip_count": skips, "mode": mode}
    weights: dict[str, Any] = {} if mode == "TF" else {"weights": [0.5, 1.5, 2.0, 3.0, 0.25, 7.0, 4.0]}
    check_node("TfIdfVectorizer", X, **POOL, **attributes, **weights)
    check_node("TfIdfVectorizer", X[1].astype(np.int64), **POOL, **attributes, **weights)


@pytest.mark.parametrize("mode", ["TF", "IDF"])
def test_long_grams_equal_grams_and_shared_places(mode):
    attributes: dict[str, Any] = {"min_gram_length": 1, "max_gram_length": 3, "max_skip_count": 1, "mode": mode}
    pool: dict[str, Any] = {
        "ngram_counts": [0, 2, 2],
        "ngram_indexes": [0, 2, 2, 1],
        "pool_int64s": [7, 7, 1, 2, 3, 2, 3, 2],
    }
    pool["weights"] = [1.0] * 4  # which the reference demands
    x = np.array([[1, 2, 3, 2, 7, 3, 1, 2], [7, 1, 7, 2, 7, 3, 7, 7]])
    model, inputs = node_model("TfIdfVectorizer", [x], **attributes, **pool)
    [want] = ReferenceEvaluator(model).run(None, inputs)
    np.testing.assert_array_equal(run_model(import_model(model), inputs)[0], want)


@pytest.mark.parametrize(
    ("changed", "reason"),
    [
        ({"mode": "TI"}, "mode 'TI'"),
        ({"ngram_counts": [0, 3]}, "do not cut a pool of 10 numbers into n-grams"),
        ({"ngram_indexes": [0, 1]}, "ngram_indexes has 2 numbers"),
        ({"pool_int64s": [], "pool_strings": ["a"], "ngram_counts": [0]}, "n-grams of strings"),
    ],
)
def test_pools_that_do_not_fit_are_refused(changed, reason):
    attributes = {"min_gram_length": 1, "max_gram_length": 2, "max_skip_count": 0, "mode": "TF"} | POOL | changed
    model, _ = node_model("TfIdfVectorizer", [X], **{k: v for k, v in attributes.items() if v != []})
    with pytest.raises(ModelError, match=f"the_TfIdfVectorizer.*{reason}"):
        import_model(model)
