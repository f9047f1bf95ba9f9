"""ai.onnx.ml and TfIdfVectorizer on tables of any number of rows, and columns that the run gives."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from open_case import check_open, open_model

import tilewright as tw
from tilewright.core.errors import InputError, UnsupportedError

RNG = np.random.default_rng(2)
ML = {"domain": "ai.onnx.ml", "version": 3}
LABELLED = ["int64", "float32"]
ROWS = (3, 1, 8)


def f(*shape: int) -> np.ndarray:
    return RNG.standard_normal(shape).astype(np.float32)


def floats(*shape: int) -> list[float]:
    return f(*shape).reshape(-1).tolist()


@pytest.mark.parametrize("dimensions", [[], [2, 4]])
def test_feature_vectorizer(dimensions: list[int]):
    sizes = [(3, 2, 4), (1, 1, 1), (4, 3, 2)] if not dimensions else [(3, 2, 4), (1, 5, 9), (4, 1, 1), (2, 0, 3)]
    attributes: dict[str, Any] = {"inputdimensions": dimensions} if dimensions else {}
    runs = [[f(rows, a), f(rows, b)] for rows, a, b in sizes]
    if dimensions:
        module = check_open("FeatureVectorizer", *runs, **ML, **attributes)
    else:  # which onnxruntime refuses
        module = tw.compile(open_model("FeatureVectorizer", runs[0], **ML), workers=0, num_threads=1, cache=False)
        for x, y in runs:
            np.testing.assert_array_equal(module(x, y)[0], np.concatenate([x, y], axis=1))
    with pytest.raises(InputError, match="are not columns of one table"):
        module(f(3, 2), f(2, 2))


def test_array_feature_extractor():
    sizes = [(3, 5, 2), (1, 1, 1), (4, 2, 6)]
    check_open("ArrayFeatureExtractor", *([f(n, k), RNG.integers(0, k, (1, m))] for n, k, m in sizes), **ML)


@pytest.mark.parametrize("norm", ["MAX", "L1", "L2"])
def test_normalizer(norm: str):
    check_open(
        "Normalizer", *([np.abs(f(rows, columns))] for rows, columns in ((3, 4), (1, 1), (5, 7))), norm=norm, **ML
    )


def test_one_hot_encoder():
    runs = [[RNG.integers(0, 4, (rows, columns))] for rows, columns in ((3, 2), (1, 1), (0, 4))]
    check_open("OneHotEncoder", *runs, cats_int64s=[1, 3, 2], **ML)


@pytest.mark.parametrize("labels", [2, 3])
def test_linear_classifier(labels: int):
    rows = 1 if labels == 2 else 3
    attributes: dict[str, Any] = {"classlabels_ints": list(range(labels)), "coefficients": floats(rows, 4)}
    attributes |= {"intercepts": floats(rows), "post_transform": "LOGISTIC"}
    runs = [[f(n, 4)] for n in ROWS]
    module = check_open("LinearClassifier", *runs, results=LABELLED, **ML, **attributes)
    with pytest.raises(InputError, match="node 'the_LinearClassifier'"):
        module(f(3, 5))


def test_coefficients_that_may_be_of_one_class_or_two_are_refused():
    made = open_model(
        "LinearClassifier", [f(3, 4)], results=LABELLED, coefficients=floats(4), classlabels_ints=[0, 1], **ML
    )
    with pytest.raises(
        UnsupportedError, match=r"one row of coefficients or two is known only at run time.*--input-shape"
    ):
        tw.compile(made, workers=0, cache=False)


def test_support_vectors():
    attributes: dict[str, Any] = {"kernel_type": "RBF", "kernel_params": [0.4, 0.0, 3.0], "n_supports": 3}
    attributes |= {"support_vectors": floats(3, 4), "coefficients": floats(3), "rho": floats(1)}
    check_open("SVMRegressor", *([f(n, 4)] for n in ROWS), **ML, **attributes)


FOREST: dict[str, Any] = {
    "nodes_treeids": [0, 0, 0, 1, 1, 1],
    "nodes_nodeids": [0, 1, 2, 0, 1, 2],
    "nodes_featureids": [2, 0, 0, 0, 0, 0],
    "nodes_modes": ["BRANCH_LEQ", "LEAF", "LEAF", "BRANCH_LT", "LEAF", "LEAF"],
    "nodes_values": [0.1, 0.0, 0.0, -0.2, 0.0, 0.0],
    "nodes_truenodeids": [1, 0, 0, 1, 0, 0],
    "nodes_falsenodeids": [2, 0, 0, 2, 0, 0],
}


@pytest.mark.parametrize("kind", ["Regressor", "Classifier"])
def test_trees(kind: str):
    prefix = "target" if kind == "Regressor" else "class"
    votes = {f"{prefix}_treeids": [0, 0, 1, 1], f"{prefix}_nodeids": [1, 2, 1, 2], f"{prefix}_ids": [0, 1, 1, 2]}
    attributes: dict[str, Any] = FOREST | votes | {f"{prefix}_weights": [0.5, -0.25, 1.5, 2.0]}
    attributes |= {"n_targets": 3} if kind == "Regressor" else {"classlabels_int64s": [4, 5, 6]}
    results = ["float32"] if kind == "Regressor" else LABELLED
    runs = [[f(rows, columns)] for rows, columns in ((3, 3), (1, 5), (8, 3))]
    module = check_open(f"TreeEnsemble{kind}", *runs, results=results, **ML, **attributes)
    with pytest.raises(InputError, match="a node looks at a feature that is none of"):
        module(f(3, 2))


@pytest.mark.parametrize("mode", ["TF", "IDF", "TFIDF"])
def test_ngrams(mode: str):
    attributes: dict[str, Any] = {"ngram_counts": [0, 4], "ngram_indexes": [3, 1, 0, 2, 5, 6, 4]}
    attributes |= {"pool_int64s": [2, 3, 5, 4, 5, 6, 7, 8, 6, 7], "mode": mode}
    attributes |= {"min_gram_length": 1, "max_gram_length": 2, "max_skip_count": 2}
    runs = [[RNG.integers(2, 9, shape)] for shape in ((3, 6), (1, 1), (2, 12))]
    check_open("TfIdfVectorizer", *runs, **attributes)
