"""Entries for losses, and for the ai.onnx.ml ops on numbers: scaling, encoding, linear models, trees."""

from __future__ import annotations

from typing import Any

import numpy as np
from fuzz.elementwise import Entry
from fuzz.graph import ML, Graph, Rejected
from fuzz.values import finite
from onnx import numpy_helper


def _loss(g: Graph, op: str) -> tuple[list[str | None], dict[str, Any]]:
    """Scores of classes for some places, the right class of each, and weights."""
    dtype = g.one_of([d for d in ("float32", "float32", "float64") if d in g.allows(op)])
    batch, classes, rest = g.integer(1, 5), g.integer(1, 6), [g.integer(1, 4) for _ in range(g.integer(0, 2))]
    random = np.random.default_rng(g.random.getrandbits(64))
    targets = random.integers(0, classes, (batch, *rest))
    ignored = None
    if g.chance(0.4):
        ignored = g.one_of([0, classes - 1, -1])
        targets[random.random(targets.shape) < 0.3] = ignored
        targets.reshape(-1)[0] = g.one_of([n for n in range(classes) if n != ignored])
    inputs: list[str | None] = [g.fresh(dtype, (batch, classes, *rest), "ordinary")]
    inputs.append(g.leaf(targets.astype(g.one_of(["int64", "int32"]))))
    inputs.append(g.fresh(dtype, (classes,), "positive") if g.chance(0.5) else None)
    return inputs, {"ignore_index": ignored, "reduction": g.one_of([None, "mean", "sum", "none"])}


def nll_loss(g: Graph) -> None:
    inputs, attributes = _loss(g, "NegativeLogLikelihoodLoss")
    g.node("NegativeLogLikelihoodLoss", inputs, **attributes)


def cross_entropy(g: Graph) -> None:
    inputs, attributes = _loss(g, "SoftmaxCrossEntropyLoss")
    g.node("SoftmaxCrossEntropyLoss", inputs, g.integer(1, 2), **attributes)


def _rows(g: Graph, dtypes: tuple[str, ...] = ("float32", "float32", "int64", "float64", "int32")) -> str:
    return g.tensor(dtypes, 2, where=lambda a: a.size > 0 and finite(a) and a.shape[1] <= 12, style="ordinary")


def _floats(g: Graph, count: int) -> list[float]:
    return [round(g.random.uniform(-2, 2), 3) for _ in range(count)]


def scaler(g: Graph) -> None:
    x = _rows(g)
    width = g.one_of([1, g.shape(x)[1]])
    g.node("Scaler", [x], domain=ML, offset=_floats(g, width), scale=_floats(g, width))


def normalizer(g: Graph) -> None:
    g.node("Normalizer", [_rows(g)], domain=ML, norm=g.one_of(["MAX", "L1", "L2"]))


def binarizer(g: Graph) -> None:
    g.node("Binarizer", [_rows(g)], domain=ML, threshold=g.one_of([None, 0.5, -1.0]))


def imputer(g: Graph) -> None:
    x = _rows(g, ("float32", "int64"))
    width = g.one_of([1, g.shape(x)[1]])
    if g.dtype(x) == "int64":
        values = [g.integer(-9, 9) for _ in range(width)]
        g.node("Imputer", [x], domain=ML, imputed_value_int64s=values, replaced_value_int64=g.integer(-2, 2))
    else:
        g.node("Imputer", [x], domain=ML, imputed_value_floats=_floats(g, width), replaced_value_float=1.0)


def one_hot_encoder(g: Graph) -> None:
    x = g.tensor(("int64",), (1, 2), where=lambda a: a.size > 0)
    g.node("OneHotEncoder", [x], domain=ML, cats_int64s=g.some(range(-3, 6), 1), zeros=g.one_of([None, 1]))


def label_encoder(g: Graph) -> None:
    x = g.tensor(("int64",), (1, 3))
    keys = g.some(range(-5, 8), 1)
    if g.opsets[ML] < 2:
        raise Rejected
    if g.chance(0.5):
        values: dict[str, Any] = {"values_floats": _floats(g, len(keys)), "default_float": 0.25}
    else:
        values = {"values_int64s": [g.integer(0, 99) for _ in keys], "default_int64": -7}
    g.node("LabelEncoder", [x], domain=ML, keys_int64s=keys, **values)


def feature_vectorizer(g: Graph) -> None:
    x = _rows(g)
    rows = g.shape(x)[0]
    parts = [x, *(g.like(x, (rows, g.integer(1, 4))) for _ in range(g.integer(0, 2)))]
    g.node("FeatureVectorizer", parts, domain=ML, inputdimensions=[g.shape(p)[1] for p in parts])


def array_feature_extractor(g: Graph) -> None:
    x = g.tensor(("float32", "int64", "float64", "int32"), (2, 3), where=lambda a: a.size > 0)
    last = g.shape(x)[-1]
    places = np.array([g.integer(0, last - 1) for _ in range(g.integer(1, 5))], np.int64)
    g.node("ArrayFeatureExtractor", [x, g.leaf(places)], domain=ML)


def linear_regressor(g: Graph) -> None:
    x = _rows(g, ("float32",))
    targets, width = g.integer(1, 3), g.shape(x)[1]
    given = {"coefficients": _floats(g, targets * width), "targets": targets}
    bias = _floats(g, targets) if g.chance(0.6) else None
    g.node("LinearRegressor", [x], domain=ML, intercepts=bias, **given)


def linear_classifier(g: Graph) -> None:
    x = _rows(g, ("float32",))
    classes, width = g.integer(2, 4), g.shape(x)[1]
    rows = g.one_of([1, 2]) if classes == 2 else classes
    given = {"coefficients": _floats(g, rows * width), "intercepts": _floats(g, rows)}
    labels = g.some(range(9), classes)[:classes]
    after = g.one_of([None, "NONE", "SOFTMAX", "LOGISTIC"])
    g.node("LinearClassifier", [x], 2, domain=ML, classlabels_ints=labels, post_transform=after, **given)


def svm_regressor(g: Graph) -> None:
    x = _rows(g, ("float32",))
    count, width = g.integer(1, 4), g.shape(x)[1]
    kernel = g.one_of(["LINEAR", "RBF", "POLY", "SIGMOID"])
    g.node(
        "SVMRegressor",
        [x],
        domain=ML,
        coefficients=_floats(g, count),
        kernel_params=[0.25, 0.5, 2.0],
        kernel_type=kernel,
        n_supports=count,
        rho=_floats(g, 1),
        support_vectors=_floats(g, count * width),
    )


def svm_classifier(g: Graph) -> None:
    """Each pair of classes has coefficients of its own. Without probabilities, near which the oracles stop early."""
    x = _rows(g, ("float32",))
    classes, width = g.integer(2, 4), g.shape(x)[1]
    each = [g.integer(1, 3) for _ in range(classes)]
    count, pairs = sum(each), classes * (classes - 1) // 2
    g.node(
        "SVMClassifier",
        [x],
        2,
        domain=ML,
        classlabels_ints=g.some(range(9), classes)[:classes],
        coefficients=_floats(g, (classes - 1) * count),
        kernel_params=[0.25, 0.5, 2.0],
        kernel_type=g.one_of(["LINEAR", "RBF", "POLY", "SIGMOID"]),
        post_transform=g.one_of([None, "NONE", "LOGISTIC", "SOFTMAX"]),
        rho=_floats(g, pairs),
        support_vectors=_floats(g, count * width),
        vectors_per_class=each,
    )


def _trees(g: Graph, width: int) -> dict[str, Any]:
    """The nodes of some full trees, numbered in order of depth: 2 i + 1 and 2 i + 2 come after i."""
    rows: list[tuple[Any, ...]] = []
    modes = ["BRANCH_LEQ"] if g.chance(0.6) else ["BRANCH_LEQ", "BRANCH_LT", "BRANCH_GT", "BRANCH_GTE", "BRANCH_EQ"]
    for tree in range(g.integer(1, 3)):
        inner = 2 ** g.integer(0, 2) - 1
        for i in range(inner):
            rows.append((tree, i, g.integer(0, width - 1), g.one_of(modes), *_floats(g, 1), 2 * i + 1, 2 * i + 2))
        rows += [(tree, i, 0, "LEAF", 0.0, 0, 0) for i in range(inner, 2 * inner + 1)]
    names = ("treeids", "nodeids", "featureids", "modes", "values", "truenodeids", "falsenodeids")
    return {f"nodes_{name}": list(column) for name, column in zip(names, zip(*rows, strict=True), strict=True)}


def _leaves(g: Graph, trees: dict[str, Any], what: str, count: int) -> dict[str, Any]:
    nodes = zip(trees["nodes_treeids"], trees["nodes_nodeids"], trees["nodes_modes"], strict=True)
    leaves = [
        (tree, node, k) for tree, node, mode in nodes if mode == "LEAF" for k in range(count) if k == 0 or g.chance(0.6)
    ]
    columns = [list(column) for column in zip(*leaves, strict=True)]
    return {
        f"{what}_treeids": columns[0],
        f"{what}_nodeids": columns[1],
        f"{what}_ids": columns[2],
        f"{what}_weights": _floats(g, len(leaves)),
    }


def tree_regressor(g: Graph) -> None:
    x = _rows(g, ("float32",))
    trees, targets = _trees(g, g.shape(x)[1]), g.integer(1, 3)
    bases = _floats(g, targets) if g.chance(0.4) else None
    how = g.one_of([None, "SUM", "AVERAGE", "MIN", "MAX"])
    given = {**trees, **_leaves(g, trees, "target", targets), "n_targets": targets}
    g.node("TreeEnsembleRegressor", [x], domain=ML, base_values=bases, aggregate_function=how, **given)


def tree_classifier(g: Graph) -> None:
    x = _rows(g, ("float32",))
    trees, classes = _trees(g, g.shape(x)[1]), g.integer(2, 4)
    given = {**trees, **_leaves(g, trees, "class", classes), "classlabels_int64s": g.some(range(9), 4)[:classes]}
    after = g.one_of([None, "NONE", "SOFTMAX", "LOGISTIC"])
    g.node("TreeEnsembleClassifier", [x], 2, domain=ML, post_transform=after, **given)


def tree_ensemble(g: Graph) -> None:
    x = _rows(g, ("float32", "float64"))
    dtype, targets = g.values[x].dtype, g.integer(1, 2)
    count = 2 ** g.integer(1, 3) - 1  # of one full tree; those of the last rank have leaves
    children = [(2 * i + 1, 2 * i + 2) for i in range(count)]
    ends = [int(i >= count // 2) for i in range(count)]
    places = [tuple(c - count if end else c for c in pair) for pair, end in zip(children, ends, strict=True)]
    columns = [list(column) for column in zip(*places, strict=True)]
    g.node(
        "TreeEnsemble",
        [x],
        domain=ML,
        n_targets=targets,
        aggregate_function=g.integer(0, 3),
        post_transform=0,
        tree_roots=[0],
        nodes_modes=numpy_helper.from_array(np.array([g.integer(0, 5) for _ in range(count)], np.uint8)),
        nodes_featureids=[g.integer(0, g.shape(x)[1] - 1) for _ in range(count)],
        nodes_splits=numpy_helper.from_array(np.array(_floats(g, count), dtype)),
        nodes_truenodeids=columns[0],
        nodes_trueleafs=ends,
        nodes_falsenodeids=columns[1],
        nodes_falseleafs=ends,
        leaf_targetids=[g.integer(0, targets - 1) for _ in range(count + 1)],
        leaf_weights=numpy_helper.from_array(np.array(_floats(g, count + 1), dtype)),
    )


ENTRIES: dict[str, Entry] = {
    "ArrayFeatureExtractor": array_feature_extractor,
    "Binarizer": binarizer,
    "FeatureVectorizer": feature_vectorizer,
    "Imputer": imputer,
    "LabelEncoder": label_encoder,
    "LinearClassifier": linear_classifier,
    "LinearRegressor": linear_regressor,
    "NegativeLogLikelihoodLoss": nll_loss,
    "Normalizer": normalizer,
    "OneHotEncoder": one_hot_encoder,
    "SVMClassifier": svm_classifier,
    "SVMRegressor": svm_regressor,
    "Scaler": scaler,
    "SoftmaxCrossEntropyLoss": cross_entropy,
    "TreeEnsemble": tree_ensemble,
    "TreeEnsembleClassifier": tree_classifier,
    "TreeEnsembleRegressor": tree_regressor,
}
