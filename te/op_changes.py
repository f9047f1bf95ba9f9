"""Ops made of other ops: with parts of their expressions exchanged, or a loop of a reduction as an axis."""

from __future__ import annotations

from collections.abc import Callable

from .expr import Combiner, Expr, IterVar, Placeholder, Range, Read, Reduce, as_size, choose
from .expr_parts import exchange_parts, walk
from .stage import Stage
from .tensor import ComputeOp, Op, Tensor


def with_parts(op: ComputeOp, change: Callable[[Expr], Expr | None]) -> ComputeOp:
    """The op with parts of its expressions exchanged; its axes are the same."""
    first = op.body[0]
    if not isinstance(first, Reduce):
        body: tuple[Expr, ...] = tuple(exchange_parts(each, change) for each in op.body)
    else:
        sources = tuple(exchange_parts(each, change) for each in first.sources)
        body = tuple(
            Reduce(each.combiner, sources, each.axes, each.number) for each in op.body if isinstance(each, Reduce)
        )
    return ComputeOp(op.name, op.shape, op.dtypes, op.axis, body, op.tag, op.attrs)


def split_results(op: ComputeOp) -> list[ComputeOp]:
    """A reduction for each result of one, where none is joined with what is of another; else the op itself."""
    first = op.body[0]
    if op.num_outputs == 1 or not isinstance(first, Reduce):
        return [op]
    joins = first.combiner
    parts = [*zip(joins.left, joins.right, joins.made, joins.identity, first.sources, op.dtypes, strict=True)]
    for left, right, made, *_ in parts:
        if any(isinstance(each, Placeholder) and each is not left and each is not right for each in walk(made)):
            return [op]
    bodies = [
        Reduce(Combiner(joins.name, (left,), (right,), (made,), (begin,)), (source,), first.axes)
        for left, right, made, begin, source, _ in parts
    ]
    return [
        ComputeOp(op.name, op.shape, (dtype,), op.axis, (body,), op.tag, op.attrs)
        for body, (*_, dtype) in zip(bodies, parts, strict=True)
    ]


def inline_element(expr: Expr, op: Op) -> Expr | None:
    """What an element of an op is computed by, in its place."""
    if not isinstance(expr, Read) or expr.tensor.op is not op:
        return None
    assert isinstance(op, ComputeOp)
    indices = [exchange_parts(index, lambda e: inline_element(e, op)) for index in expr.indices]
    given: dict[Expr, Expr] = dict(zip(op.axis, indices, strict=True))
    return exchange_parts(op.body[expr.tensor.value_index], given.get)


def read_copy(expr: Expr, source: Tensor, copy: Tensor) -> Expr | None:
    if not isinstance(expr, Read) or expr.tensor != source:
        return None
    return Read(copy, tuple(exchange_parts(index, lambda e: read_copy(e, source, copy)) for index in expr.indices))


def redirect_reads(op: ComputeOp, old: Op, new: Op) -> ComputeOp:
    """An op that reads the results of another op in place of the old one's."""
    tensors = {old.output(i): new.output(i) for i in range(new.num_outputs)}

    def redirect(expr: Expr) -> Expr | None:
        if isinstance(expr, Read) and expr.tensor in tensors:
            return Read(tensors[expr.tensor], tuple(exchange_parts(index, redirect) for index in expr.indices))
        return None

    return with_parts(op, redirect)


def factor_reduction(
    stage: Stage, op: ComputeOp, reduction: Reduce, axis: IterVar, place: int, name: str
) -> tuple[ComputeOp, ComputeOp]:
    """A reduction in two: of partial results, of which a loop of it is the axis number ``place``, and of these."""
    part = stage.find(axis, "factor").parts[0]
    old, extent = part.axis, part.steps
    own = IterVar(axis.name, Range(0, extent))
    others = [each for each in stage.list_parts() if each.axis is old and each is not part]
    at: Expr = own * part.step + old.dom.min
    left = [each for each in reduction.axes if each is not old]
    for other in others:
        left.append(IterVar(f"{old.name}.rest", Range(0, other.steps), "CommReduce"))
        at = at + left[-1] * other.step
    spread = [IterVar(each.name, each.dom) for each in op.axis]
    moved: dict[Expr, Expr] = {**dict(zip(op.axis, spread, strict=True)), old: at}
    sources = tuple(exchange_parts(each, moved.get) for each in reduction.sources)
    longest = max(each.step for each in (part, *others))
    if not isinstance(old.dom.extent, int) or old.dom.extent % longest:
        end = as_size(old.dom.min + old.dom.extent)
        sources = tuple(choose(at < end, s, b) for s, b in zip(sources, reduction.combiner.identity, strict=True))
    axes = (*spread[:place], own, *spread[place:])
    numbers = range(len(sources))
    body = tuple(Reduce(reduction.combiner, sources, tuple(left), number) for number in numbers) if left else sources
    dtypes = tuple(each.dtype for each in sources)
    partial = ComputeOp(name, tuple(each.dom.extent for each in axes), dtypes, axes, body)
    last = IterVar(f"{axis.name}.v", Range(0, extent), "CommReduce")
    indices = (*op.axis[:place], last, *op.axis[place:])
    parts = tuple(Read(partial.output(number), indices) for number in numbers)
    joined = tuple(Reduce(reduction.combiner, parts, (last,), number) for number in numbers)
    return partial, ComputeOp(op.name, op.shape, op.dtypes, op.axis, joined, op.tag)
