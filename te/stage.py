"""The loops that compute one op: its axes, cut and joined and in an order, and where they stand."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Literal as OneOf

from ..core.errors import ScheduleError
from ..core.externals import ExternCode
from ..core.sizes import Extent
from .expr import IterVar, Range, Reduce
from .intrinsic import TensorIntrin
from .tensor import ComputeOp, Op, PlaceholderOp

Mark = OneOf["", "parallel", "vectorize", "unroll"]


@dataclass(frozen=True, eq=False)
class LoopPart:
    """A loop over ``extent`` elements of an axis, all or those of one step of a loop around, ``step`` at once."""

    axis: IterVar
    extent: Extent
    step: int

    @property
    def steps(self) -> Extent:
        """How many steps it has; the last one may be smaller."""
        return (self.extent + self.step - 1) // self.step


@dataclass(frozen=True, eq=False)
class Leaf:
    """A loop: over a part of an axis, or over all pairs of steps of several parts."""

    var: IterVar
    parts: tuple[LoopPart, ...]
    mark: Mark = ""

    @property
    def steps(self) -> Extent:
        """How many steps it has."""
        return math.prod((part.steps for part in self.parts), start=1)


@dataclass(eq=False, repr=False)
class Stage:
    """What computes an op.

    ``op`` is what it computes now, ``origin`` what it was made for: ``cache_write`` and the like change it. ``axes``
    are those that loops are made of: the op's, and what adjacent ones were joined to.
    """

    op: Op
    origin: Op
    name: str
    leaves: list[Leaf] = field(default_factory=list)
    all_iter_vars: list[IterVar] = field(default_factory=list)
    joined: dict[IterVar, tuple[IterVar, ...]] = field(default_factory=dict)  # neighbours that are one axis now
    inline: bool = False
    at: tuple[Stage, IterVar] | None = None
    scope: str = "global"
    automatic: bool = False
    auto_unroll: int = 0
    intrinsic: tuple[IterVar, TensorIntrin] | None = None  # what the loops from one on are as a whole
    outdated: bool = False  # whether the loops of that have changed since, so that it has to be named anew
    code: list[ExternCode] = field(default_factory=list)  # of functions that intrinsics call
    outdated_code: bool = False  # whether that is an older intrinsic's, in whose place a next one comes

    def __repr__(self) -> str:
        return f"stage({self.name}, {self.op!r})"

    def reset(self) -> None:
        """Plain loops over the axes of the op."""
        own = [*self.op.axis, *self.op.reduce_axis]
        self.leaves = [Leaf(axis, (LoopPart(axis, axis.dom.extent, 1),)) for axis in own]
        self.all_iter_vars = list(own)

    @property
    def reduces(self) -> bool:
        """Return whether the op is a reduction."""
        return isinstance(self.op, ComputeOp) and isinstance(self.op.body[0], Reduce)

    @property
    def loop_axes(self) -> list[IterVar]:
        """The axes that loops are made of, in the op's order: neighbours that were joined are one."""
        axes = [*self.op.axis, *self.op.reduce_axis]
        for var, own in self.joined.items():
            begin = next(number for number, axis in enumerate(axes) if axis is own[0])
            axes[begin : begin + len(own)] = [var]
        return axes

    @property
    def is_plain(self) -> bool:
        """Return whether no primitive has changed its loops."""
        own = [*self.op.axis, *self.op.reduce_axis]
        same = len(own) == len(self.leaves) and all(a is leaf.var for a, leaf in zip(own, self.leaves, strict=True))
        return same and not any(leaf.mark for leaf in self.leaves) and self.intrinsic is None

    @property
    def leaf_iter_vars(self) -> list[IterVar]:
        """The loops, outermost first."""
        return [leaf.var for leaf in self.leaves]

    @property
    def is_placeholder(self) -> bool:
        """Return whether the caller gives it."""
        return isinstance(self.op, PlaceholderOp)

    def find(self, var: IterVar, verb: str) -> Leaf:
        """The loop of a handle; ScheduleError where it is none of this stage."""
        for leaf in self.leaves:
            if leaf.var is var:
                return leaf
        if not isinstance(var, IterVar):
            raise ScheduleError(f"cannot {verb} {var!r}: give an axis of '{self.name}', as in {self.name}.op.axis[0]")
        names = ", ".join(f"'{leaf.var}'" for leaf in self.leaves) or "none"
        was = any(each is var for each in self.all_iter_vars)
        why = "has been split or fused" if was else f"is no axis of '{self.name}'"
        raise ScheduleError(f"cannot {verb} '{var}': it {why}; the loops are {names}")

    def find_plain(self, var: IterVar, verb: str) -> Leaf:
        """As ``find``, of a loop that is neither parallel, vectorized nor unrolled."""
        leaf = self.find(var, verb)
        if leaf.mark:
            word = {"parallel": "parallel", "vectorize": "vectorized", "unroll": "unrolled"}[leaf.mark]
            raise ScheduleError(f"cannot {verb} '{var}': it is {word} already")
        return leaf

    def name_loop(self, name: str) -> str:
        """A name that no loop of the stage has."""
        taken = {var.name for var in self.all_iter_vars}
        made, number = name, 0
        while made in taken:
            number += 1
            made = f"{name}_{number}"
        return made

    def make_var(self, name: str, extent: Extent, like: IterVar) -> IterVar:
        """A handle for a new loop."""
        var = IterVar(self.name_loop(name), Range(0, extent), like.iter_type)
        self.all_iter_vars.append(var)
        return var

    def exchange(self, old: list[Leaf], new: list[Leaf]) -> None:
        """Put loops in the place of neighbours."""
        at = self.leaves.index(old[0])
        self.leaves[at : at + len(old)] = new

    def mark(self, leaf: Leaf, mark: Mark) -> None:
        """Say how a loop runs."""
        self.exchange([leaf], [replace(leaf, mark=mark)])

    def position(self, var: IterVar) -> int:
        """The place of a loop among the leaves."""
        return next(i for i, leaf in enumerate(self.leaves) if leaf.var is var)

    def around(self, axis: IterVar, until: int) -> int | None:
        """The step of the innermost loop over an axis among the first ``until`` ones; None where there is none."""
        steps = [p.step for leaf in self.leaves[:until] for p in leaf.parts if p.axis is axis]
        return steps[-1] if steps else None

    def list_parts(self) -> Iterator[LoopPart]:
        """All parts, in the order of the loops."""
        for leaf in self.leaves:
            yield from leaf.parts
