"""Tree ensembles of ai.onnx.ml against onnxruntime on random forests, and numpy where onnxruntime goes its own way."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx import numpy_helper
from onnx_case import check_model, foreign_model
from reference import run_model

import tilewright as tw
from tilewright.core.errors import ModelError
from tilewright.driver import api
from tilewright.frontends import import_model
from tilewright.tools.debugging.oracle import make_session

RANDOM = np.random.default_rng(0)
ML, LABELLED, FEATURES = "ai.onnx.ml", ["int64", "float32"], 4
LEQ = ["BRANCH_LEQ"]
X = np.round(RANDOM.standard_normal((7, FEATURES)), 1).astype(np.float32)


def forest(
    kind: str, depth: int = 4, modes: list[str] = LEQ, votes: list[int] | None = None, trees: int = 5, **how: Any
) -> dict[str, Any]:
    """Random trees with a vote of each leaf for one of three targets, or for all of ``votes``."""
    names = ("treeids", "nodeids", "featureids", "values", "modes", "truenodeids", "falsenodeids")
    nodes: list[list[Any]] = []
    voted: list[tuple[int, int, int, float]] = []

    def grow(tree: int, first: int, depth: int) -> int:
        here = len(nodes)
        nodes.append([tree, here - first, 0, 0.0, "LEAF", 0, 0])
        if depth == 0 or RANDOM.random() < 0.15:
            for target in votes or [int(RANDOM.integers(0, 3))]:
                weight = float(RANDOM.standard_normal())
                voted.append((tree, here - first, target, abs(weight) / 5 if how.get("positive") else weight))
            return here - first
        mode, split = str(RANDOM.choice(modes)), float(np.round(RANDOM.standard_normal(), 1).astype(np.float32))
        nodes[here][2:5] = [int(RANDOM.integers(0, FEATURES)), split, mode]
        nodes[here][5:] = [grow(tree, first, depth - 1), grow(tree, first, depth - 1)]
        return here - first

    for tree in range(trees):
        grow(tree, len(nodes), depth)
    made = {f"nodes_{name}": list(column) for name, column in zip(names, zip(*nodes, strict=True), strict=True)}
    owners, ids, targets, weights = zip(*voted, strict=True)
    fields = {"treeids": owners, "nodeids": ids, "ids": targets, "weights": weights}
    return made | {f"{kind}_{name}": list(column) for name, column in fields.items()}


def check(op: str, x: np.ndarray, attributes: dict[str, Any], **options: Any) -> None:
    model, inputs = foreign_model(op, [x], ML, version=3, **attributes, **options)
    check_model(model, inputs)


@pytest.mark.parametrize("mode", ["LEQ", "LT", "GTE", "GT", "EQ", "NEQ"])
def test_comparisons_at_nodes(mode):
    check("TreeEnsembleRegressor", X, forest("target", modes=[f"BRANCH_{mode}"]), n_targets=3)


def test_nodes_of_several_comparisons_and_missing_values():
    trees = forest("target", modes=["BRANCH_LEQ", "BRANCH_GT", "BRANCH_NEQ"])
    tracks = RANDOM.integers(0, 2, len(trees["nodes_modes"])).tolist()
    x = np.where(RANDOM.random(X.shape) < 0.3, np.float32(np.nan), X)
    check("TreeEnsembleRegressor", x, trees, n_targets=3, nodes_missing_value_tracks_true=tracks)
    check("TreeEnsembleRegressor", x, trees, n_targets=3)


@pytest.mark.parametrize("aggregate", ["SUM", "AVERAGE", "MIN", "MAX"])
def test_aggregates_with_base_values(aggregate):
    options = {"n_targets": 3, "aggregate_function": aggregate}
    check("TreeEnsembleRegressor", X, forest("target"), **options)
    check("TreeEnsembleRegressor", X, forest("target", votes=[0, 1, 2]), base_values=[0.5, 1.0, -2.0], **options)


@pytest.mark.parametrize("aggregate", ["SUM", "MIN"])
@pytest.mark.parametrize("trees", [1, 8, 9, 17])
def test_trees_fill_the_lanes_of_groups_or_not(trees, aggregate):
    made = forest("target", trees=trees, votes=[0, 1, 2])
    for x in (X, X[:1]):
        check("TreeEnsembleRegressor", x, made, n_targets=3, aggregate_function=aggregate)


def test_threads_share_groups_of_trees():
    x = np.zeros((1000, FEATURES), np.float32)
    model, _ = foreign_model("TreeEnsembleRegressor", [x], ML, version=3, **forest("target", trees=17), n_targets=3)
    kernels = api.stepwise(model, options=api.make_options(), workers=0).kernels
    assert [(k.extent, k.parallel) for name, k in kernels.items() if name.startswith("for_")] == [(3, True)]


def test_trees_that_are_leaves():
    check("TreeEnsembleRegressor", X, forest("target", depth=0), n_targets=3)


def test_double_inputs_and_weights():
    trees = forest("target")
    check("TreeEnsembleRegressor", X.astype(np.float64), trees, n_targets=3)
    for name in ("nodes_values", "target_weights"):
        trees[f"{name}_as_tensor"] = numpy_helper.from_array(np.array(trees.pop(name)), name)
    check("TreeEnsembleRegressor", X.astype(np.float64), trees, n_targets=3)


@pytest.mark.parametrize("transform", ["NONE", "LOGISTIC", "SOFTMAX", "SOFTMAX_ZERO"])
def test_classes(transform):
    options = {"classlabels_int64s": [5, 7, 9], "post_transform": transform, "results": LABELLED}
    for positive in (True, False):  # a class without votes has the score 0, and does not win against negative ones
        check("TreeEnsembleClassifier", X, forest("class", positive=positive), **options)
    check("TreeEnsembleClassifier", X, forest("class", votes=[0, 1, 2]), base_values=[0.5, 1.0, -2.0], **options)


@pytest.mark.parametrize("positive", [False, True])
@pytest.mark.parametrize("transform", ["NONE", "LOGISTIC"])
@pytest.mark.parametrize("voted", [0, 1])
def test_votes_for_one_of_two_classes(voted, transform, positive):
    options = {"classlabels_int64s": [5, 7], "post_transform": transform, "results": LABELLED}
    trees = forest("class", votes=[voted], positive=positive)
    check("TreeEnsembleClassifier", X, trees, **options)
    if voted == 0:
        check("TreeEnsembleClassifier", X, trees, base_values=[0.25], **options)


def test_the_greater_of_two_classes_wins():
    options = {"classlabels_int64s": [5, 7], "results": LABELLED}
    model, inputs = foreign_model("TreeEnsembleClassifier", [X], ML, **forest("class", votes=[0, 1]), **options)
    want = np.asarray(make_session(model).run(None, inputs)[1])
    labels, scores = run_model(import_model(model), inputs)
    np.testing.assert_allclose(scores, want, rtol=1e-5, atol=1e-6)
    np.testing.assert_array_equal(labels, np.where(want[:, 1] > want[:, 0], 7, 5))


def test_a_forest_compiles():
    model, inputs = foreign_model("TreeEnsembleRegressor", [X], ML, version=3, **forest("target"), n_targets=3)
    [want] = make_session(model).run(None, inputs)
    [got] = tw.compile(model, cache=False, workers=0, num_threads=1)(X)
    np.testing.assert_allclose(got, np.asarray(want), rtol=1e-5, atol=1e-6)


def test_one_row_in_one_tree_compiles():
    lone = {"nodes_modes": np.array([0], np.uint8), "nodes_splits": np.array([0.5], np.float32)}
    lone["leaf_weights"] = np.array([3, 7], np.float32)
    attributes: dict[str, Any] = {name: numpy_helper.from_array(a, name) for name, a in lone.items()}
    attributes |= {f"nodes_{name}": [n] for name, n in (("featureids", 0), ("truenodeids", 0), ("falsenodeids", 1))}
    attributes |= {"nodes_trueleafs": [1], "nodes_falseleafs": [1], "leaf_targetids": [0, 0], "tree_roots": [0]}
    x = np.array([[0.25]], np.float32)
    model, _ = foreign_model("TreeEnsemble", [x], ML, version=5, n_targets=1, aggregate_function=1, **attributes)
    assert tw.compile(model, cache=False, workers=0, num_threads=1)(x)[0].tolist() == [[3.0]]


def members(sets: list[float]) -> dict[str, Any]:
    """A root that asks whether feature 0 is in a set, and a node below false that asks for another."""
    proto = {
        "nodes_modes": np.array([6, 6], np.uint8),
        "nodes_splits": np.zeros(2, np.float32),
        "leaf_weights": np.array([1, 10, 100], np.float32),
        "membership_values": np.array(sets, np.float32),
    }
    lists = {
        "nodes_featureids": [0, 0],
        "nodes_truenodeids": [0, 1],
        "nodes_trueleafs": [1, 1],
        "nodes_falsenodeids": [1, 2],
        "nodes_falseleafs": [0, 1],
        "leaf_targetids": [0, 0, 0],
        "tree_roots": [0],
        "n_targets": 1,
    }
    return lists | {name: numpy_helper.from_array(a, name) for name, a in proto.items()}


def test_sets_of_members():
    x, nan = np.array([[1], [2], [3], [4], [0]], np.float32), float("nan")
    model, inputs = foreign_model("TreeEnsemble", [x], ML, version=5, **members([1, 3, 0, nan, 2, nan]))
    [got] = run_model(import_model(model), inputs)
    np.testing.assert_array_equal(got[:, 0], [1, 10, 1, 100, 1])


def refusal(op: str, version: int, **attributes: Any) -> str:
    model, _ = foreign_model(op, [X], ML, version=version, **attributes)
    with pytest.raises(ModelError) as error:
        import_model(model)
    return str(error.value)


def test_broken_trees_are_refused():
    trees = forest("target")
    inner = next(i for i, mode in enumerate(trees["nodes_modes"]) if mode != "LEAF")
    broken = {
        "a branch or a weight names a node": ("nodes_truenodeids", 999),
        "a node looks at a feature that is none of 4": ("nodes_featureids", 4),
        "nodes of mode BRANCH_ODD": ("nodes_modes", "BRANCH_ODD"),
    }
    for words, (name, value) in broken.items():
        changed = [value if i == inner else old for i, old in enumerate(trees[name])]
        assert words in refusal("TreeEnsembleRegressor", 3, **(trees | {name: changed}), n_targets=3)
    loop = members([1, float("nan"), 2]) | {"nodes_falsenodeids": [1, 0], "nodes_falseleafs": [0, 0]}
    assert "comes back to one of its nodes" in refusal("TreeEnsemble", 5, **loop)
    assert "1 sets of membership_values for 2 nodes" in refusal("TreeEnsemble", 5, **members([1]))
    odd = members([1, float("nan"), 2]) | {"nodes_modes": numpy_helper.from_array(np.array([6, 7], np.uint8), "m")}
    assert "a mode is not known" in refusal("TreeEnsemble", 5, **odd)
