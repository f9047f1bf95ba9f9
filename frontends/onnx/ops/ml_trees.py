"""Tree ensembles of ``ai.onnx.ml``: TreeEnsemble, and the two older ops that it replaces."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ....dialects import ir, scalars
from ..algorithms.scores import labels_of, transform_scores, two_classes
from ..algorithms.trees import AGGREGATES, COMPARISONS, Forest, Named, leaves_of, tally_votes
from ..state.context import Context
from ..state.registry import op
from ..values.attributes import ML_DOMAIN, Floats, Ints
from ..values.tensor import Tensor
from .text import name_labels, number_labels

_TRANSFORMS = ("NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO", "PROBIT")
_MODES = ("BRANCH_LEQ", "BRANCH_LT", "BRANCH_GTE", "BRANCH_GT", "BRANCH_EQ", "BRANCH_NEQ", "BRANCH_MEMBER")
_MEMBER = _MODES.index("BRANCH_MEMBER")


@op("TreeEnsemble", since=5, domain=ML_DOMAIN)
def tree_ensemble(
    ctx: Context,
    x: Tensor,
    *,
    leaf_targetids: Ints,
    leaf_weights: np.ndarray,
    nodes_falseleafs: Ints,
    nodes_falsenodeids: Ints,
    nodes_featureids: Ints,
    nodes_modes: np.ndarray,
    nodes_splits: np.ndarray,
    nodes_trueleafs: Ints,
    nodes_truenodeids: Ints,
    tree_roots: Ints,
    aggregate_function: int = 1,
    membership_values: np.ndarray | None = None,
    n_targets: int | None = None,
    nodes_hitrates: np.ndarray | None = None,
    nodes_missing_value_tracks_true: Ints = (),
    post_transform: int = 0,
) -> Tensor:
    if not 0 <= aggregate_function < len(AGGREGATES) or not 0 <= post_transform < len(_TRANSFORMS):
        ctx.invalid(f"aggregate_function {aggregate_function} or post_transform {post_transform} is not known")
    ids = ((nodes_trueleafs, nodes_truenodeids), (nodes_falseleafs, nodes_falsenodeids))
    on_true, on_false = (np.where(np.array(leafs, bool), ~_ints(at), _ints(at)) for leafs, at in ids)
    missing = _ints(nodes_missing_value_tracks_true or [0] * len(nodes_featureids))
    modes, splits = np.asarray(nodes_modes, np.int64), np.asarray(nodes_splits)
    features = _ints(nodes_featureids)
    if len({len(t) for t in (features, splits, modes, on_true, on_false, missing)}) > 1 or (modes > _MEMBER).any():
        ctx.invalid("the attributes of nodes are not of one length, or a mode is not known")
    forest = Forest(features, splits, modes, on_true, on_false, missing, _ints(tree_roots))
    forest = _without_members(ctx, forest, membership_values)
    aggregate, targets = AGGREGATES[aggregate_function], n_targets or max(leaf_targetids, default=0) + 1
    leaves = np.arange(len(leaf_targetids))
    table = _make_vote_table(ctx, leaves, leaves, leaf_targetids, leaf_weights, targets, aggregate)
    [scores] = _scores(ctx, x, forest, [table], aggregate)
    return ctx.cast(transform_scores(ctx, scores, _TRANSFORMS[post_transform]), x.dtype)


def _without_members(ctx: Context, forest: Forest, members: np.ndarray | None) -> Forest:
    """A question whether a feature is in a set as questions for its members, one after another."""
    asking = np.flatnonzero(forest.modes == _MEMBER)
    values = np.empty(0) if members is None else np.asarray(members)
    sets = np.split(values, np.flatnonzero(np.isnan(values)) + 1)
    sets = [s[~np.isnan(s)] for s in (sets if len(sets[-1]) else sets[:-1])]
    if len(sets) != len(asking):
        ctx.invalid(f"{len(sets)} sets of membership_values for {len(asking)} nodes of mode BRANCH_MEMBER")
    extra = [(node, value) for node, values in zip(asking, sets, strict=True) for value in values[1:]]
    source = np.concatenate([np.arange(len(forest.modes)), np.array([n for n, _ in extra], np.int64)])
    splits, on_false = forest.splits[source], forest.on_false[source]
    splits[asking] = [s[0] if len(s) else np.nan for s in sets]
    splits[len(forest.modes) :] = [value for _, value in extra]
    last = dict.fromkeys(asking.tolist())
    for position, (node, _) in enumerate(extra, len(forest.modes)):
        before = last[node] or node
        on_false[position], on_false[before] = on_false[before], position
        last[node] = position
    modes = np.where(forest.modes == _MEMBER, COMPARISONS.index("eq"), forest.modes)[source]
    kept = (t[source] for t in (forest.features, forest.on_true, forest.missing))
    features, on_true, missing = kept
    return Forest(features, splits, modes, on_true, on_false, missing, forest.roots)


@op("TreeEnsembleRegressor", domain=ML_DOMAIN)
def tree_ensemble_regressor(
    ctx: Context,
    x: Tensor,
    *,
    nodes_falsenodeids: Ints,
    nodes_featureids: Ints,
    nodes_modes: Sequence[str],
    nodes_nodeids: Ints,
    nodes_treeids: Ints,
    nodes_truenodeids: Ints,
    target_ids: Ints,
    target_nodeids: Ints,
    target_treeids: Ints,
    aggregate_function: str = "SUM",
    base_values: Floats = (),
    base_values_as_tensor: np.ndarray | None = None,
    n_targets: int | None = None,
    nodes_hitrates: Floats = (),
    nodes_hitrates_as_tensor: np.ndarray | None = None,
    nodes_missing_value_tracks_true: Ints = (),
    nodes_values: Floats = (),
    nodes_values_as_tensor: np.ndarray | None = None,
    post_transform: str = "NONE",
    target_weights: Floats = (),
    target_weights_as_tensor: np.ndarray | None = None,
) -> Tensor:
    names, splits = Named.of(ctx, nodes_treeids, nodes_nodeids), _read_floats(nodes_values, nodes_values_as_tensor)
    branches, missing = (nodes_truenodeids, nodes_falsenodeids), nodes_missing_value_tracks_true
    forest, leaves = _forest(ctx, names, nodes_treeids, nodes_featureids, splits, nodes_modes, branches, missing)
    voting = leaves[names.find(ctx, _ints(target_treeids), _ints(target_nodeids))]
    weights, targets = _read_floats(target_weights, target_weights_as_tensor), n_targets or max(target_ids) + 1
    table = _make_vote_table(ctx, leaves, voting, target_ids, weights, targets, aggregate_function)
    [scores] = _scores(ctx, x, forest, [table], aggregate_function)
    scores = _rebase(ctx, scores, _read_floats(base_values, base_values_as_tensor))
    return ctx.cast(transform_scores(ctx, scores, post_transform), "float32")


@op("TreeEnsembleClassifier", domain=ML_DOMAIN)
def tree_ensemble_classifier(
    ctx: Context,
    x: Tensor,
    *,
    class_ids: Ints,
    class_nodeids: Ints,
    class_treeids: Ints,
    nodes_falsenodeids: Ints,
    nodes_featureids: Ints,
    nodes_modes: Sequence[str],
    nodes_nodeids: Ints,
    nodes_treeids: Ints,
    nodes_truenodeids: Ints,
    base_values: Floats = (),
    base_values_as_tensor: np.ndarray | None = None,
    class_weights: Floats = (),
    class_weights_as_tensor: np.ndarray | None = None,
    classlabels_int64s: Ints = (),
    classlabels_strings: Sequence[str] = (),
    nodes_hitrates: Floats = (),
    nodes_hitrates_as_tensor: np.ndarray | None = None,
    nodes_missing_value_tracks_true: Ints = (),
    nodes_values: Floats = (),
    nodes_values_as_tensor: np.ndarray | None = None,
    post_transform: str = "NONE",
) -> tuple[Tensor, Tensor]:
    """The label of the class with most votes, and the votes.

    onnxruntime is followed: if all votes are for one of two classes, above a limit the second class wins, also where
    the votes are for the first; of three and more, one that no leaf votes for does not win against negative votes.
    """
    labels = number_labels(ctx, classlabels_int64s, classlabels_strings)
    names, splits = Named.of(ctx, nodes_treeids, nodes_nodeids), _read_floats(nodes_values, nodes_values_as_tensor)
    branches, missing = (nodes_truenodeids, nodes_falsenodeids), nodes_missing_value_tracks_true
    forest, leaves = _forest(ctx, names, nodes_treeids, nodes_featureids, splits, nodes_modes, branches, missing)
    voting = leaves[names.find(ctx, _ints(class_treeids), _ints(class_nodeids))]
    weights, base = (
        _read_floats(class_weights, class_weights_as_tensor),
        _read_floats(base_values, base_values_as_tensor),
    )
    if len(labels) < 2:
        ctx.unsupported("a classifier of fewer than two classes")
    if len(labels) == 2 and len(set(class_ids)) == 1:
        if base.size > 1 or (base.size and class_ids[0]):
            ctx.unsupported("base_values where all weights are for one of two classes")
        table = _make_vote_table(ctx, leaves, voting, [0] * len(class_ids), weights, 1, "SUM")
        [score] = _scores(ctx, x, forest, [table], "SUM")
        score = _rebase(ctx, score, base)
        shares = bool((weights >= 0).all())  # of 1, as a forest's votes are
        other = "none" if class_ids[0] else "rest" if shares and post_transform == "NONE" else "opposite"
        label, made = two_classes(ctx, score, labels, 0.5 if shares else 0.0, other, post_transform)
        return name_labels(ctx, label, classlabels_strings), made
    table = _make_vote_table(ctx, leaves, voting, class_ids, weights, len(labels), "SUM")
    counted = len(labels) > 2 and not base.size and bool((weights < 0).any())
    tables = [table, *([np.where(np.isnan(table), 0.0, 1.0)] if counted else [])]
    scores, *counts = _scores(ctx, x, forest, tables, "SUM")
    scores = _rebase(ctx, scores, base)
    chances = _mask_unvoted(ctx, scores, *counts) if counted else scores
    label = name_labels(ctx, labels_of(ctx, chances, labels), classlabels_strings)
    return label, ctx.cast(transform_scores(ctx, scores, post_transform), "float32")


def _mask_unvoted(ctx: Context, scores: Tensor, votes: Tensor) -> Tensor:
    """The scores, -inf where a target has not one vote."""

    def body(score: ir.Value, count: ir.Value) -> ir.Value:
        some = scalars.compare("gt", count, scalars.like(count, 0))
        return scalars.select(some, score, scalars.like(score, float("-inf")))

    return ctx.elementwise(body, scores, votes)


def _forest(
    ctx: Context,
    names: Named,
    trees: Ints,
    features: Ints,
    splits: np.ndarray,
    modes: Sequence[str],
    branches: tuple[Ints, Ints],
    missing: Ints,
) -> tuple[Forest, np.ndarray]:
    """The inner nodes, and the number of each node that is a leaf."""
    leaf, count = np.array([m == "LEAF" for m in modes], bool), len(modes)
    unknown = sorted({m for m in modes} - {"LEAF", *_MODES[:_MEMBER]})
    lengths = {len(names.keys), len(features), len(splits), count, *map(len, branches), len(missing) or count}
    if unknown or len(lengths) > 1:
        ctx.invalid(f"nodes of mode {unknown[0]}" if unknown else "the attributes of nodes are not of one length")
    numbers = np.where(leaf, ~(np.cumsum(leaf) - 1), np.cumsum(~leaf) - 1)
    inner = np.flatnonzero(~leaf)
    children = [names.find(ctx, _ints(trees)[inner], _ints(ids)[inner]) for ids in branches]
    is_root = np.ones(count, bool)
    is_root[np.concatenate(children)] = False
    roots = np.flatnonzero(is_root)
    kinds = np.array([0 if m == "LEAF" else _MODES.index(m) for m in modes], np.int64)
    tracks = _ints(missing or [0] * count)
    on_true, on_false = (numbers[at] for at in children)
    looked = _ints(features)[inner]
    return Forest(looked, splits[inner], kinds[inner], on_true, on_false, tracks[inner], numbers[roots]), ~numbers


def _make_vote_table(
    ctx: Context,
    leaves: np.ndarray,
    voting: np.ndarray,
    targets: Ints,
    weights: np.ndarray,
    count: int,
    aggregate: str,
) -> np.ndarray:
    """(leaves, targets): the weight of each leaf for each target, NaN where it has none."""
    at, weights = _ints(targets), np.asarray(weights, np.float64)
    if not len(at) == len(weights) == len(voting) or (at < 0).any() or (at >= count).any():
        ctx.invalid(f"{len(weights)} weights for {len(at)} targets, which have to be below {count}")
    if (voting < 0).any():
        ctx.invalid("a weight belongs to an inner node")
    table = np.full((leaves.max(initial=-1) + 1, count), np.nan)
    fold = {"MIN": np.fmin, "MAX": np.fmax}.get(aggregate, np.add)
    if fold is np.add:
        table[voting, at] = 0
    fold.at(table, (voting, at), weights)
    return table


def _scores(ctx: Context, x: Tensor, forest: Forest, tables: Sequence[np.ndarray], aggregate: str) -> list[Tensor]:
    """(rows, targets): what the leaves that the rows come to give by each table, all of as many leaves."""
    if x.rank != 2:
        ctx.invalid(f"the input has shape {list(x.shape)}, it must be rows of features")
    forest.check(ctx, x.shape[1], len(tables[0]))
    dtype = "float64" if "float64" in (x.dtype, forest.splits.dtype.name) else "float32"
    trees, none = len(forest.roots), len(tables[0])
    leaves = leaves_of(ctx, x, forest, none)
    nothing = np.full((1, tables[0].shape[1]), np.nan)  # of lanes behind the last tree
    return [tally_votes(ctx, leaves, np.concatenate([t, nothing]), aggregate, trees, dtype) for t in tables]


def _rebase(ctx: Context, scores: Tensor, base: np.ndarray) -> Tensor:
    """Scores with a number for all targets added, or one for each."""
    if not base.size:
        return scores
    if base.size not in (1, scores.shape[1]):
        ctx.invalid(f"{base.size} base_values for {scores.shape[1]} targets")
    return ctx.elementwise(scalars.add, scores, ctx.const(base.reshape(1, -1), scores.dtype))


def _ints(numbers: Ints) -> np.ndarray:
    return np.array(numbers, np.int64)


def _read_floats(numbers: Floats, tensor: np.ndarray | None) -> np.ndarray:
    """Floats as a list, or as a tensor of any float dtype."""
    return np.array(numbers, np.float32) if tensor is None else np.asarray(tensor).reshape(-1)
