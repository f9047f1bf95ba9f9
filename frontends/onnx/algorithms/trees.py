"""Ensembles of decision trees as tables: which leaf of each tree a row comes to, and what these leaves vote for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ....core.sizes import Extent
from ....dialects import arith, builders, ir, scalars, scf
from ....dialects.types import element_type
from ..state.context import Context
from ..values.tensor import Tensor

# Comparisons of a feature with a split, in the order of TreeEnsemble's numbers for them.
COMPARISONS: tuple[scalars.Comparison, ...] = ("le", "lt", "ge", "gt", "eq", "ne")
AGGREGATES = ("AVERAGE", "SUM", "MIN", "MAX")


@dataclass(frozen=True)
class Forest:
    """The inner nodes of all trees. ``on_true``, ``on_false`` and ``roots`` are nodes, or leaves with all bits flipped:
    a leaf is below 0. ``modes`` are indices into COMPARISONS; where ``missing`` is not 0 NaN goes the way of true.
    """

    features: np.ndarray
    splits: np.ndarray
    modes: np.ndarray
    on_true: np.ndarray
    on_false: np.ndarray
    missing: np.ndarray
    roots: np.ndarray

    def check(self, ctx: Context, features: Extent, leaves: int) -> None:
        """Refuse indices that are none, and trees that do not end."""
        if self.features.size:
            foreign = f"a node looks at a feature that is none of {features}"
            ctx.demand_less(-1, int(self.features.min()), foreign)
            ctx.demand_less(int(self.features.max()), features, foreign)
        nodes, at = len(self.features), np.unique(self.roots)
        for index in (self.roots, self.on_true, self.on_false):
            if index.size and not -leaves <= index.min() <= index.max() < nodes:
                ctx.invalid(f"a branch leads to none of {nodes} nodes and {leaves} leaves")
        for _ in range(nodes + 1):
            at = at[at >= 0]
            if not at.size:
                return
            at = np.unique(np.concatenate([self.on_true[at], self.on_false[at]]))
        ctx.invalid("a tree comes back to one of its nodes")


def leaves_of(ctx: Context, x: Tensor, forest: Forest) -> Tensor:
    """(rows, trees): the number of the leaf that each row of features comes to in each tree."""
    if not forest.features.size:
        return ctx.broadcast(ctx.const(~forest.roots, "int64"), (x.shape[0], len(forest.roots)))
    dtype = "float64" if "float64" in (x.dtype, forest.splits.dtype.name) else "float32"
    x, index = ctx.cast(x, dtype), element_type("int64")
    features, on_true, on_false, roots = (
        ctx.const(table, "int64").value for table in (forest.features, forest.on_true, forest.on_false, forest.roots)
    )
    splits, used = ctx.const(forest.splits, dtype).value, np.unique(forest.modes).tolist()
    modes = ctx.const(forest.modes, "int64").value if len(used) > 1 else None
    missing = ctx.const(forest.missing, "int64").value if forest.missing.any() else None

    def goes_true(row: ir.Value, node: ir.Value) -> ir.Value:
        value = builders.extract(x.value, [row, scalars.to_index(builders.extract(features, [node]))])
        split = builders.extract(splits, [node])
        found = scalars.compare(COMPARISONS[used[0]], value, split)
        for mode in used[1:]:
            assert modes is not None
            chosen = builders.extract(modes, [node])
            is_mode = scalars.compare("eq", chosen, scalars.like(chosen, mode))
            found = scalars.select(is_mode, scalars.compare(COMPARISONS[mode], value, split), found)
        if missing is not None:
            lost = scalars.both(
                arith.cmpf(arith.CmpFPredicate.UNO, value, value), scalars.truth(builders.extract(missing, [node]))
            )
            found = scalars.either(found, lost)
        return found

    def walk(root: ir.Value, _leaf: ir.Value) -> ir.Value:
        row = builders.linalg_index(0)
        loop = scf.WhileOp([index], [root])
        before, after = (region.blocks.append(index) for region in (loop.before, loop.after))
        with ir.InsertionPoint(before):
            [place] = before.arguments
            scf.ConditionOp(scalars.compare("ge", place, scalars.like(place, 0)), [place])
        with ir.InsertionPoint(after):
            node = scalars.to_index(after.arguments[0])
            way = [builders.extract(table, [node]) for table in (on_true, on_false)]
            scf.YieldOp([scalars.select(goes_true(row, node), *way)])
        return scalars.invert(loop.results[0])

    out = builders.empty((x.shape[0], len(forest.roots)), index)
    return ctx.wrap(builders.generic([roots], [out], [[1], [0, 1]], "pp", walk)[0], "int64")


def tally_votes(ctx: Context, leaves: Tensor, weights: np.ndarray, aggregate: str, dtype: str) -> Tensor:
    """(rows, targets): what the (leaves, targets) weights of the leaves give together.

    NaN is the weight of a leaf that has none for a target; a target for which no leaf has one is 0.
    """
    if aggregate not in AGGREGATES:
        ctx.invalid(f"aggregate_function '{aggregate}' is none of {', '.join(AGGREGATES)}")
    neutral = {"MIN": np.inf, "MAX": -np.inf}.get(aggregate, 0.0)
    fold = {"MIN": scalars.minimum, "MAX": scalars.maximum}.get(aggregate, scalars.add)
    table = ctx.const(np.where(np.isnan(weights), neutral, weights), dtype).value
    (rows, trees), targets = leaves.shape, weights.shape[1]

    def body(leaf: ir.Value, acc: ir.Value) -> ir.Value:
        return fold(acc, builders.extract(table, [scalars.to_index(leaf), builders.linalg_index(1)]))

    out = builders.full((rows, targets), scalars.const(neutral, element_type(dtype)))
    total = ctx.wrap(builders.generic([leaves.value], [out], [[0, 2], [0, 1]], "ppr", body)[0], dtype)
    if aggregate == "AVERAGE":
        return ctx.elementwise(lambda a: scalars.div(a, scalars.like(a, max(trees, 1))), total)
    if aggregate == "SUM":
        return total

    def or_zero(a: ir.Value) -> ir.Value:
        return scalars.select(scalars.compare("eq", a, scalars.like(a, neutral)), scalars.like(a, 0), a)

    return ctx.elementwise(or_zero, total)


@dataclass(frozen=True)
class Named:
    """Nodes of all trees by the ids of their tree and their own, as the ops before TreeEnsemble have them."""

    keys: np.ndarray  # of the nodes in ascending order
    order: np.ndarray
    span: int

    @staticmethod
    def of(ctx: Context, trees: Sequence[int], nodes: Sequence[int]) -> Named:
        """The nodes in the order of the ops' attributes."""
        span = max(nodes, default=0) + 1
        keys = np.array(trees, np.int64) * span + np.array(nodes, np.int64)
        order = np.argsort(keys, kind="stable")
        if (np.diff(keys[order]) == 0).any():
            ctx.invalid("a tree has two nodes with the same id")
        return Named(keys[order], order, span)

    def find(self, ctx: Context, trees: np.ndarray, nodes: np.ndarray) -> np.ndarray:
        """The positions of nodes."""
        wanted = trees * self.span + nodes
        at = np.searchsorted(self.keys, wanted)
        at[at == len(self.keys)] = 0
        if wanted.size and ((nodes < 0) | (nodes >= self.span) | (self.keys[at] != wanted)).any():
            ctx.invalid("a branch or a weight names a node that is not there")
        return self.order[at]
