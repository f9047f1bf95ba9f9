"""Ensembles of decision trees as tables: which leaf of each tree a row comes to, and what these leaves vote for."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce

import numpy as np

from ....core.sizes import Extent, floor_divide
from ....dialects import arith, builders, extents, ir, scalars, scf, tensor
from ....dialects.loops import States, for_loop, index, while_loop
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
        for places in (self.roots, self.on_true, self.on_false):
            if places.size and not -leaves <= places.min() <= places.max() < nodes:
                ctx.invalid(f"a branch leads to none of {nodes} nodes and {leaves} leaves")
        for _ in range(nodes + 1):
            at = at[at >= 0]
            if not at.size:
                return
            at = np.unique(np.concatenate([self.on_true[at], self.on_false[at]]))
        ctx.invalid("a tree comes back to one of its nodes")


# Walks at a time, of several trees or rows: each step of a walk waits for what memory gives.
_WALKS = 8
_NODE_DTYPE = "int32"
_FEATURE_BITS, _MODE_BITS = 24, 3  # of a node's first word; above them is whether NaN goes the way of true


def leaves_of(ctx: Context, x: Tensor, forest: Forest, none: int) -> Tensor:
    """(groups, rows, lanes) of int32: the number of the leaf that each row of features comes to in each tree.

    The trees are those of all lanes of a group, and then of the next one; behind the last tree each row comes to the
    leaf ``none``. All rows walk down one group's trees, whose nodes stay in the cache, before those of the next. Where
    there are few trees, several rows walk at a time.
    """
    rows, trees = x.shape[0], max(len(forest.roots), 1)
    groups = -(-trees // _WALKS)
    lanes = -(-trees // groups)
    roots = np.pad(forest.roots, (0, groups * lanes - len(forest.roots)), constant_values=~none).reshape(groups, lanes)
    if not forest.features.size:
        return ctx.broadcast(ctx.const(~roots[:, None], _NODE_DTYPE), (groups, rows, lanes))
    dtype = "float64" if "float64" in (x.dtype, forest.splits.dtype.name) else "float32"
    walk, first = _Walk.of(ctx, ctx.cast(x, dtype), forest), ctx.const(roots, _NODE_DTYPE).value
    together = 1 if rows == 1 else -(-_WALKS // lanes)
    blocks = floor_divide(rows + together - 1, together)

    def visit(group: ir.Value, block: ir.Value, into: ir.Value) -> ir.Value:
        """Store the leaves of the rows of a block; behind the last row it is that again."""
        starts = [builders.extract(first, [group, index(lane)]) for lane in range(lanes)]
        own = [scalars.add(scalars.mul(block, index(together)), index(i)) for i in range(together)]
        own = [scalars.minimum(row, index(rows - 1)) for row in own] if together > 1 else [block]
        leaves = iter(walk.find([row for row in own for _ in starts], starts * together))
        for i, lane in itertools.product(range(together), range(lanes)):
            into = tensor.InsertOp(next(leaves), into, [group, block, index(i), index(lane)]).result
        return into

    def visit_group(group: ir.Value, states: States) -> list[ir.Value]:
        return for_loop(blocks, states, lambda block, carried: [visit(group, block, carried[0])])

    def once(_: ir.Value, states: States) -> tuple[ir.Value, list[ir.Value]]:
        return scalars.bool_constant(True), visit_group(index(0), states)

    into = builders.empty((groups, blocks, together, lanes), element_type(_NODE_DTYPE))
    if groups == blocks == 1:  # no loop that is dropped around one block: outside of loops each op would be a kernel
        made = while_loop(index(1), scalars.bool_constant(True), [into], once)
    else:
        made = for_loop(groups, [into], visit_group)
    whole = builders.reshape(
        extents.note(made[0], (groups, blocks, together, lanes)), (groups, blocks * together, lanes)
    )
    return ctx.wrap(builders.slice_(whole, [0, 0, 0], [groups, rows, lanes]), _NODE_DTYPE)


@dataclass(frozen=True)
class _Walk:
    """Rows of features, and the nodes of trees: a line of four words has all of a node, so that it is in one place.

    They are the feature with the comparison, both branches, and the bits of a split of 32 bits; ``wide`` are splits of
    64 bits. ``modes`` are the comparisons that there are.
    """

    x: ir.Value
    nodes: ir.Value
    wide: ir.Value | None
    modes: Sequence[int]
    missing: bool

    @staticmethod
    def of(ctx: Context, x: Tensor, forest: Forest) -> _Walk:
        """The walk of rows in their dtype, which is that of the splits, too. Refuses features behind the 2^24th."""
        if forest.features.max() >> _FEATURE_BITS:
            ctx.unsupported(f"a node looks at feature {forest.features.max()}, of at most {1 << _FEATURE_BITS}")
        splits = forest.splits.astype(x.dtype)
        modes, missing = np.unique(forest.modes).tolist(), bool(forest.missing.any())
        words = np.zeros((len(splits), 4), np.int32)
        words[:, 0] = forest.features
        if len(modes) > 1 or missing:
            words[:, 0] |= forest.modes.astype(np.int32) << _FEATURE_BITS
            words[:, 0] |= (forest.missing != 0).astype(np.int32) << (_FEATURE_BITS + _MODE_BITS)
        words[:, 1], words[:, 2] = forest.on_true, forest.on_false
        wide = ctx.const(splits, x.dtype).value if x.dtype == "float64" else None
        if wide is None:
            words[:, 3] = splits.view(np.int32)
        return _Walk(x.value, ctx.const(words, _NODE_DTYPE).value, wide, modes, missing)

    def find(self, rows: Sequence[ir.Value], roots: Sequence[ir.Value]) -> list[ir.Value]:
        """The leaves that rows come to from their roots, all of which go on until the last one is there."""
        types = [root.type for root in roots]
        loop = scf.WhileOp(types, list(roots))
        before, after = (region.blocks.append(*types) for region in (loop.before, loop.after))
        with ir.InsertionPoint(before):
            places = list(before.arguments)
            left = reduce(arith.andi, places)  # below 0 where all are
            scf.ConditionOp(scalars.compare("ge", left, scalars.like(left, 0)), places)
        with ir.InsertionPoint(after):
            scf.YieldOp(list(map(self._step, rows, after.arguments)))
        return [scalars.invert(place) for place in loop.results]

    def _step(self, row: ir.Value, place: ir.Value) -> ir.Value:
        """The node or leaf behind a node; a leaf stays one, and looks at the first node in vain."""
        node = scalars.to_index(scalars.maximum(place, scalars.like(place, 0)))
        word, on_true, on_false, bits = (builders.extract(self.nodes, [node, index(number)]) for number in range(4))
        feature = word
        if len(self.modes) > 1 or self.missing:
            feature = arith.andi(word, scalars.like(word, (1 << _FEATURE_BITS) - 1))
        value = builders.extract(self.x, [row, scalars.to_index(feature)])
        split = arith.bitcast(value.type, bits) if self.wide is None else builders.extract(self.wide, [node])
        following = scalars.select(self._goes_true(word, value, split), on_true, on_false)
        return scalars.select(scalars.compare("lt", place, scalars.like(place, 0)), place, following)

    def _goes_true(self, word: ir.Value, value: ir.Value, split: ir.Value) -> ir.Value:
        found = scalars.compare(COMPARISONS[self.modes[0]], value, split)
        flags = arith.shrui(word, scalars.like(word, _FEATURE_BITS))
        for mode in self.modes[1:]:
            chosen = arith.andi(flags, scalars.like(flags, (1 << _MODE_BITS) - 1))
            is_mode = scalars.compare("eq", chosen, scalars.like(chosen, mode))
            found = scalars.select(is_mode, scalars.compare(COMPARISONS[mode], value, split), found)
        if self.missing:
            tracks = scalars.truth(arith.shrui(flags, scalars.like(flags, _MODE_BITS)))
            lost = scalars.both(arith.cmpf(arith.CmpFPredicate.UNO, value, value), tracks)
            found = scalars.either(found, lost)
        return found


def tally_votes(ctx: Context, leaves: Tensor, weights: np.ndarray, aggregate: str, trees: int, dtype: str) -> Tensor:
    """(rows, targets): what the (leaves, targets) weights of the ``leaves_of`` all trees give together.

    NaN is the weight of a leaf that has none for a target; a target for which no leaf has one is 0.
    """
    if aggregate not in AGGREGATES:
        ctx.invalid(f"aggregate_function '{aggregate}' is none of {', '.join(AGGREGATES)}")
    neutral = {"MIN": np.inf, "MAX": -np.inf}.get(aggregate, 0.0)
    fold = {"MIN": scalars.minimum, "MAX": scalars.maximum}.get(aggregate, scalars.add)
    table = ctx.const(np.where(np.isnan(weights), neutral, weights), dtype).value
    rows, targets = leaves.shape[1], weights.shape[1]

    def body(leaf: ir.Value, acc: ir.Value) -> ir.Value:
        return fold(acc, builders.extract(table, [scalars.to_index(leaf), builders.linalg_index(1)]))

    out = builders.full((rows, targets), scalars.const(neutral, element_type(dtype)))
    total = ctx.wrap(builders.generic([leaves.value], [out], [[2, 0, 3], [0, 1]], "pprr", body)[0], dtype)
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
