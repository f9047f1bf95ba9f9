"""Control flow: If. A branch that is known at import is converted in place, else both go into an ``scf.if``."""

from __future__ import annotations

from typing import Any

import onnx

from ....dialects import builders, ir, scalars, scf
from ....dialects.types import element_type
from ....errors import ModelError, UnsupportedError
from ..context import Context
from ..loops import Draft
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
    return _both(ctx, chosen, then_branch, else_branch)


def _both(ctx: Context, condition: ir.Value, first: onnx.GraphProto, second: onnx.GraphProto) -> tuple[Tensor, ...]:
    drafts: list[Draft] = []
    results: list[list[Tensor]] = []
    for name, graph in (("then_branch", first), ("else_branch", second)):
        draft = Draft([])
        try:
            with draft.filling():
                made = ctx.subgraph(graph)
                draft.results = [t.value for t in made]
        except UnsupportedError:
            raise
        except ModelError as error:  # shapes for one of the branches are often none for the other
            ctx.invalid(f"its {name} cannot be run: {error}; where it is not meant to, make the condition a constant")
        drafts.append(draft)
        results.append(made)
    kinds = [[(t.dtype, t.shape) for t in made] for made in results]
    if kinds[0] != kinds[1]:
        ctx.unsupported(f"its branches give different types, {results[0]} and {results[1]}")
    types = [builders.ranked(shape, element_type(dtype)) for dtype, shape in kinds[0]]
    whole: Any = scf.IfOp(condition, types, has_else=True)
    for draft, block in zip(drafts, (whole.then_block, whole.else_block), strict=True):
        with ir.InsertionPoint(block):
            scf.YieldOp(draft.place([]))
    return tuple(ctx.wrap(value, t.dtype) for value, t in zip(whole.results, results[0], strict=True))
