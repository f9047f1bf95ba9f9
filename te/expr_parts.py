"""The parts of an expression: a walk over all of them, and exchanges."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from .expr import Expr, Operation, Read, Reduce


def children_of(expr: Expr) -> tuple[Expr, ...]:
    """The expressions that one is made of."""
    if isinstance(expr, Operation):
        return expr.operands
    if isinstance(expr, Read):
        return expr.indices
    return expr.sources if isinstance(expr, Reduce) else ()


def walk(expr: Expr) -> Iterator[Expr]:
    """An expression and all parts of it, each once."""
    seen: set[Expr] = set()
    pending = [expr]
    while pending:
        each = pending.pop()
        if each not in seen:
            seen.add(each)
            yield each
            pending.extend(children_of(each))


def measure_depth(expr: Expr) -> int:
    """How many operations stand within each other."""
    depths: dict[Expr, int] = {}
    pending = [(expr, False)]
    while pending:
        each, done = pending.pop()
        if done:
            depths[each] = 1 + max((depths[part] for part in children_of(each)), default=0)
        elif each not in depths:
            pending.append((each, True))
            pending.extend((part, False) for part in children_of(each) if part not in depths)
    return depths[expr]


def exchange_parts(expr: Expr, replace: Callable[[Expr], Expr | None]) -> Expr:
    """The expression with parts exchanged, outermost first: what ``replace`` gives is not looked into again."""
    made: dict[Expr, Expr] = {}

    def exchange(each: Expr) -> Expr:
        if each not in made:
            given = replace(each)
            made[each] = _with_parts(each, exchange) if given is None else given
        return made[each]

    return exchange(expr)


def _with_parts(expr: Expr, exchange: Callable[[Expr], Expr]) -> Expr:
    parts = children_of(expr)
    new = tuple(map(exchange, parts))
    if all(a is b for a, b in zip(parts, new, strict=True)):
        return expr
    if isinstance(expr, Operation):
        return Operation(expr.name, new, expr.dtype)
    if isinstance(expr, Read):
        return Read(expr.tensor, new)
    assert isinstance(expr, Reduce)
    return Reduce(expr.combiner, new, expr.axes, expr.number)
