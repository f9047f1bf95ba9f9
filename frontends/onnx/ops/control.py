"""Control flow: If. A branch that is known at import is converted in place, else both go into an ``scf.if``."""

from __future__ import annotations

from typing import Any

import onnx

from ....dialects import builders, ir, scalars, scf
from ....dialects.types import element_type
from ..context import Context
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
    # The results' types are known only once the branches are there, so these are made apart and moved in.
    blocks: list[ir.Block] = []
    results: list[list[Tensor]] = []
    holder: Any = scf.IfOp(condition, has_else=True)
    for graph, block in ((first, holder.then_block), (second, holder.else_block)):
        with ir.InsertionPoint(block):
            made = ctx.subgraph(graph)
            scf.YieldOp([t.value for t in made])
        blocks.append(block)
        results.append(made)
    kinds = [[(t.dtype, t.shape) for t in made] for made in results]
    if kinds[0] != kinds[1]:
        ctx.unsupported(f"its branches give different types, {results[0]} and {results[1]}")
    types = [builders.ranked(shape, element_type(dtype)) for dtype, shape in kinds[0]]
    whole: Any = scf.IfOp(condition, types, has_else=True)
    for block, place in zip(blocks, (whole.then_block, whole.else_block), strict=True):
        _move(block, place)
    holder.erase()
    return tuple(ctx.wrap(value, t.dtype) for value, t in zip(whole.results, results[0], strict=True))


def _move(source: ir.Block, target: ir.Block) -> None:
    for operation in list(source.operations):
        target.append(operation.operation)
