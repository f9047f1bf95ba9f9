"""A schedule as a script of the transform dialect: tilings and fusions in the order of the loops."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial

from ..dialects import ir, loop_script, transform, tw
from ..dialects.transform import INIT, STORE
from .attachment import extent_at, is_within, root_of
from .schedule import Schedule
from .stage import Leaf, LoopPart, Stage
from .tensor import ComputeOp


def make_script(schedule: Schedule, root: Stage) -> str:
    """The transform module that makes the loops of a root stage, and of those that are computed in them."""
    members = [s for s in schedule.stages if not s.inline and isinstance(s.op, ComputeOp) and root_of(s) is root]
    with transform.sequence() as script:
        _ScriptWriter(schedule, members, script.root).write(root)
    return str(script.module)


class _ScriptWriter:
    """Writes the ops of a script.

    A loop can compute what begins a reduction only where it reads it. The loops around the first loop of a root's
    reduction therefore are those of an op that copies the result, ``STORE``, into which the reduction is fused.
    """

    def __init__(self, schedule: Schedule, members: Sequence[Stage], payload: transform.Handle) -> None:
        self.schedule, self.members = schedule, members
        self.ops = {stage: transform.match(payload, attributes=_match_stage(stage.name)) for stage in members}
        reductions = [stage for stage in members if stage.reduces]
        self.inits = {s: transform.match(payload, attributes=_match_stage(s.name + INIT)) for s in reductions}
        roots = [stage for stage in reductions if stage.at is None]
        self.stores = {s: transform.match(payload, attributes=_match_stage(s.name + STORE)) for s in roots}
        self.payload = payload
        parts = [(stage, leaf, part) for stage in members for leaf in stage.leaves for part in leaf.parts]
        known = all(isinstance(extent_at(schedule, *each), int) and self.is_even(*each) for each in parts)
        self.uneven = not known or any(stage.at is not None for stage in members)
        # Vectors, and what is computed in tiles, need tiles of a number of elements.
        self.peels = any(stage.at is not None for stage in members) or any(
            leaf.mark == "vectorize" for stage in members for leaf in stage.leaves
        )
        self.later: list[Callable[[], object]] = []  # what changes loops: their insides must be done

    def write(self, root: Stage) -> None:
        """The loops of a kernel."""
        self.nest(root)
        for change in reversed(self.later):
            change()

    def nest(self, stage: Stage) -> None:
        """The loops of one stage, outermost first, and in each what is computed at it."""
        reduced = False
        for number, leaf in enumerate(stage.leaves):
            if stage.intrinsic is not None and stage.intrinsic[0] is leaf.var:
                return  # the rest is one tile
            reduced = reduced or leaf.var.reduces
            if leaf.mark == "vectorize":
                continue
            *around, loop = self.tile(stage, leaf, self.ops if reduced or stage not in self.stores else self.stores)
            if stage in self.stores and not reduced:
                loop = self.fuse_reduction(stage, loop)
            loop = self.fuse(stage, number, loop)
            if self.uneven:  # sizes of tiles are asked of what makes them, which is no reader that could be fused into
                transform.apply_patterns(self.payload, "memref.resolve_ranked_shaped_type_result_dims")
            self.later.append(partial(self.finish, stage, leaf, [*around, loop]))
            for other in reversed(self.members):
                if other.at is not None and other.at[0] is stage and other.at[1] is leaf.var:
                    self.nest(other)
        if stage.leaves and stage.leaves[-1].mark == "vectorize":
            transform.annotate(self.ops[stage], tw.TILE, ir.UnitAttr.get())

    def tile(self, stage: Stage, leaf: Leaf, ops: dict[Stage, transform.Handle]) -> list[transform.Handle]:
        """Loops over the steps of a leaf's parts, each the only one in another, around one of the ``ops``."""
        axes = [axis for axis in stage.loop_axes if ops is self.ops or not axis.reduces]
        parts = []
        for part in leaf.parts:
            extent = extent_at(self.schedule, stage, leaf, part)
            size = min(part.step, extent) if isinstance(extent, int) and extent else part.step
            parts.append((next(i for i, axis in enumerate(axes) if axis is part.axis), size))
        ops[stage], loops = loop_script.tile_parts(ops[stage], len(axes), parts)
        return loops

    def fuse_reduction(self, stage: Stage, loop: transform.Handle) -> transform.Handle:
        """Let a loop compute a part of a reduction, and what that begins with."""
        self.ops[stage], loop = transform.fuse_into(self.ops[stage], loop)
        self.inits[stage], loop = transform.fuse_into(self.inits[stage], loop)
        if stage.op.num_outputs > 1:  # each result that is stored has brought an op of its own
            transform.cse(loop)
            self.ops[stage] = transform.match(loop, attributes=_match_stage(stage.name))
            self.inits[stage] = transform.match(loop, attributes=_match_stage(stage.name + INIT))
        return loop

    def fuse(self, stage: Stage, number: int, loop: transform.Handle) -> transform.Handle:
        """Let a loop compute what is to be computed inside of it, readers before what they read."""
        var = stage.leaves[number].var
        for other in reversed(self.members):
            if other is not stage and is_within(other, stage, var):
                self.ops[other], loop = transform.fuse_into(self.ops[other], loop)
                if other.reduces:
                    self.inits[other], loop = transform.fuse_into(self.inits[other], loop)
        return loop

    def finish(self, stage: Stage, leaf: Leaf, loops: Sequence[transform.Handle]) -> None:
        """Make one loop of several, note how it runs, and take a smaller last step apart."""
        unrolls = leaf.mark == "unroll" or (leaf.mark != "parallel" and self.unrolls_alone(stage, leaf))
        at_once = leaf.steps if unrolls else 0
        assert isinstance(at_once, int)  # a rule has found that it is
        uneven = self.peels and len(loops) == 1 and not self.is_even(stage, leaf, leaf.parts[0])
        loop_script.finish_loops(loops, shared=leaf.mark == "parallel", at_once=at_once, uneven=uneven)

    def unrolls_alone(self, stage: Stage, leaf: Leaf) -> bool:
        """Return whether a pragma unrolls a loop: those inside of it take no more steps altogether."""
        inside = [each for each in stage.leaves[stage.position(leaf.var) :] if each.mark != "vectorize"]
        known = [each.steps for each in inside if each.mark in ("", "unroll") and isinstance(each.steps, int)]
        return len(known) == len(inside) and math.prod(known) <= stage.auto_unroll

    def is_even(self, stage: Stage, leaf: Leaf, part: LoopPart) -> bool:
        """Return whether all steps of a loop over a part are equal."""
        extent = extent_at(self.schedule, stage, leaf, part)
        return part.step == 1 or (isinstance(extent, int) and (extent % part.step == 0 or extent < part.step))


def _match_stage(stage: str) -> dict[str, ir.Attribute]:
    return {tw.STAGE: ir.StringAttr.get(stage)}
