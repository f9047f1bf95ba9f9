"""Control flow: If. A branch that is known at import is converted in place, else both go into an ``scf.if``.

Where the inputs' shapes fit one branch alone, that one is converted in place too, behind a check of the condition.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import onnx

from ....dialects import builders, cf, ir, scalars, scf
from ....dialects.types import element_type
from ....errors import ModelError, UnsupportedError
from ..context import Context, Unsupported
from ..loops import Draft
from ..refusals import Refusals
from ..registry import op
from ..tensor import Tensor


@op("If")
def branch(
    ctx: Context, condition: Tensor, *, then_branch: onnx.GraphProto, else_branch: onnx.GraphProto
) -> tuple[Tensor, ...]:
    if condition.size != 1:
        ctx.invalid(f"the condition has {condition.size} elements, it must have one")
    if condition.known is not None:
        return tuple(ctx.subgraph(then_branch if condition.known.reshape(())[()] else else_branch))
    chosen = scalars.truth(builders.extract(ctx.reshape(condition, []).value, []))
    return _open(ctx, chosen, then_branch, else_branch)


@dataclass
class _Tried:
    """A branch that was converted apart from the program.

    ``misfit`` says why it cannot be run on inputs of the given shapes, ``refusal`` why it cannot be converted; what was
    ``said`` of its nodes counts only where the branch is kept.
    """

    name: str
    graph: onnx.GraphProto
    draft: Draft
    made: tuple[Tensor, ...] = ()
    misfit: str = ""
    refusal: Exception | None = None
    said: Refusals = field(default_factory=Refusals)

    def drop(self) -> None:
        """Erase what was made, if that is not done."""
        if not self.misfit and self.refusal is None:
            self.draft.drop()


def _open(ctx: Context, condition: ir.Value, first: onnx.GraphProto, second: onnx.GraphProto) -> tuple[Tensor, ...]:
    """The If of a condition that only the run knows."""
    branches = [_tried(ctx, "then_branch", first), _tried(ctx, "else_branch", second)]
    misfits = [b for b in branches if b.misfit]
    refusal = next((b.refusal for b in branches if b.refusal), None)
    if len(misfits) == 1 and ctx.in_program:
        [fitting] = [b for b in branches if not b.misfit]
        fitting.drop()
        return _only(ctx, scalars.invert(condition) if fitting is branches[1] else condition, fitting, misfits[0])
    for tried in branches:
        ctx.graph.refusals.merge(tried.said)
    if not misfits and refusal is None and _kinds(branches[0]) == _kinds(branches[1]):
        return _both(ctx, condition, branches)
    for tried in branches:
        tried.drop()
    if len(misfits) == 2:
        ctx.invalid(f"its {misfits[0].name} cannot be run: {misfits[0].misfit}")
    if misfits:
        ctx.unsupported(f"its {misfits[0].name} cannot be run ({misfits[0].misfit}), and a kernel cannot tell")
    if refusal is not None:
        raise refusal
    kinds = " and ".join(str(list(b.made)) for b in branches)
    ctx.unsupported(f"its branches give different types, {kinds}")


def _tried(ctx: Context, name: str, graph: onnx.GraphProto) -> _Tried:
    tried, refusals = _Tried(name, graph, Draft([])), ctx.graph.refusals
    before = refusals.copy()
    try:
        with tried.draft.filling():
            tried.made = tuple(ctx.subgraph(graph))
            tried.draft.results = [t.value for t in tried.made]
    except (Unsupported, UnsupportedError) as refusal:
        tried.refusal = refusal
    except ModelError as error:  # shapes for one of the branches are often none for the other
        tried.misfit = str(error)
    tried.said = refusals.copy()
    refusals.restore(before)
    return tried


def _kinds(tried: _Tried) -> list[tuple[str, tuple[Any, ...]]]:
    return [(t.dtype, t.shape) for t in tried.made]


def _both(ctx: Context, condition: ir.Value, branches: list[_Tried]) -> tuple[Tensor, ...]:
    """Both branches, which give tensors of the same types, in one op."""
    made = branches[0].made
    types = [builders.ranked(t.shape, element_type(t.dtype)) for t in made]
    whole: Any = scf.IfOp(condition, types, has_else=True)
    for tried, block in zip(branches, (whole.then_block, whole.else_block), strict=True):
        with ir.InsertionPoint(block):
            scf.YieldOp(tried.draft.place([]))
    return tuple(ctx.wrap(value, t.dtype) for value, t in zip(whole.results, made, strict=True))


def _only(ctx: Context, taken: ir.Value, fitting: _Tried, other: _Tried) -> tuple[Tensor, ...]:
    """The branch that fits, in place; the program stops where it is not ``taken``."""
    words = f"its {other.name} cannot be run on inputs of these shapes: {other.misfit}"
    ctx.note(f"node '{ctx.name}': {words}; the program refuses a run that takes it")
    cf.assert_(taken, f"({ctx.node.op_type}): {words}")
    return tuple(ctx.subgraph(fitting.graph))
