"""Entries for control flow, whose nested graphs read outer values, and for sequences and optionals."""

from __future__ import annotations

from typing import Any

import numpy as np
from fuzz.elementwise import Entry
from fuzz.graph import Graph, Rejected
from fuzz.values import finite

DEPTH = 2  # of nested graphs in each other, at most
_ELEMENTWISE = ("Relu", "Exp", "Neg", "Abs", "Tanh", "Sigmoid")
_CALM = ("Relu", "Neg", "Abs", "Tanh", "Sigmoid", "Sin")  # which an iteration may repeat


def _steps(g: Graph, name: str, ops: tuple[str, ...] = _CALM) -> str:
    """A few nodes on a tensor that keep its shape and read outer ones; now and then they hold graphs themselves."""
    for _ in range(g.integer(1, 3)):
        if g.depth < DEPTH and g.chance(0.08):
            name = g.one_of([branch_on, loop_on])(g, name)
        [name] = g.node(g.one_of(ops), [name])
        if g.chance(0.5):
            [name] = g.node(g.one_of(["Add", "Mul", "Sub"]), [name, g.like(name, g.shape(name))])
    return name


def _state(g: Graph, rank: tuple[int, int] = (0, 3)) -> str:
    return g.tensor(("float32",), rank, where=lambda a: a.size <= 500 and finite(a), style="ordinary")


def branch(g: Graph) -> None:
    """An If of one result or two."""
    branch_on(g, g.tensor(("float32",), (0, 4)))


def branch_on(g: Graph, x: str) -> str:
    """An If whose condition is known or not."""
    condition = g.known(g.chance(0.5), "bool") if g.chance(0.6) else g.fresh("bool", ())
    outputs = g.one_of([1, 1, 2])

    def build() -> list[str]:
        return [_steps(g, x, _ELEMENTWISE) for _ in range(outputs)]

    graphs = [g.subgraph(build) for _ in range(2)]
    return g.node("If", [condition], outputs, then_branch=graphs[0], else_branch=graphs[1])[0]


def uneven_branch(g: Graph) -> None:
    """An If whose branches give different shapes, or ranks."""
    x = _state(g, (1, 3))
    condition = g.known(g.chance(0.5), "bool") if g.chance(0.3) else g.fresh("bool", ())

    def build() -> list[str]:
        name = _steps(g, x)
        kind = g.integer(0, 2)
        if kind == 0:
            return g.node("Concat", [name, name], axis=0)
        if kind == 1:
            return g.node("Reshape", [name, g.known([-1])])
        return [name]

    graphs = [g.subgraph(build) for _ in range(2)]
    g.node("If", [condition], then_branch=graphs[0], else_branch=graphs[1])


def loop(g: Graph) -> None:
    """A Loop on one or two tensors."""
    loop_on(g, _state(g))


def loop_on(g: Graph, x: str) -> str:
    """A Loop that counts, tests a condition or both; its carried values may grow, its iterations may be stacked."""
    if g.opset < 11:
        raise Rejected
    carried = [x, *(_state(g) for _ in range(g.integer(0, 1)))]
    ends, stacked, grows = g.chance(0.4), g.integer(0, 1), g.rank(x) > 0 and g.chance(0.2)
    count = g.integer(0, 5)
    trip = g.known(count) if g.chance(0.6) else g.leaf(np.array(count))
    start = None if g.chance(0.3) else g.known(True, "bool") if g.chance(0.7) else g.leaf(np.array(g.chance(0.9)))

    def build(number: str, going: str, *names: str) -> list[str]:
        results = [_steps(g, name) for name in names]
        if grows:
            results[0] = g.node("Concat", [results[0], _counted(g, number, x) if g.chance(0.4) else x], axis=0)[0]
        rows = [_steps(g, results[-1])] if stacked and not (grows and len(names) == 1) else []
        return [_goes_on(g, number, results[-1]) if ends else going, *results, *rows]

    examples = [np.array(0), np.array(True), *(g.values[name] for name in carried)]
    body = g.subgraph(build, examples, shaped=not grows and g.chance(0.7))
    outputs = len(body.output) - 1
    return g.node("Loop", [trip, start, *carried], outputs, body=body)[0]


def _counted(g: Graph, number: str, x: str) -> str:
    """A tensor times the iteration's number."""
    [factor] = g.node("Cast", [number], to=1)
    return g.node("Mul", [x, factor])[0]


def _goes_on(g: Graph, number: str, x: str) -> str:
    """A condition on the iteration's number, or on the sum of a tensor."""
    if g.chance(0.5):
        return g.node("Less", [number, g.known(g.integer(0, 4))])[0]
    [total] = g.node("ReduceSum", [x], keepdims=0)
    return g.node("Greater", [total, g.known(g.random.uniform(-9, 9), "float32")])[0]


def scan(g: Graph) -> None:
    """A Scan with states and several inputs, over any axes in both directions."""
    if g.opset < 9:
        raise Rejected
    x = g.tensor(("float32",), (1, 3), where=lambda a: 0 < a.size <= 500 and finite(a), style="ordinary")
    states = [_state(g, (0, 2)) for _ in range(g.integer(0, 2))]
    inputs, axes = [x], [g.integer(0, g.rank(x) - 1)]
    length = g.shape(x)[axes[0]]
    if g.chance(0.5):
        shape = list(g.shape_of((0, 2)))
        axes.append(g.integer(0, len(shape)))
        inputs.append(g.like(x, [*shape[: axes[1]], length, *shape[axes[1] :]]))

    def build(*names: str) -> list[str]:
        before, elements = names[: len(states)], names[len(states) :]
        after = [_steps(g, name) for name in before]
        return [*after, *(_steps(g, name) for name in (*elements, *after[: g.integer(0, 1)]))]

    examples = [g.values[name] for name in states]
    examples += [np.take(g.values[name], 0, axis) for name, axis in zip(inputs, axes, strict=True)]
    body = g.subgraph(build, examples, g.chance(0.7))
    rows = len(body.output) - len(states)
    ranks = [g.rank(name) - 1 for name in inputs]
    given: dict[str, Any] = {"num_scan_inputs": len(inputs), "body": body, "scan_input_axes": axes}
    if g.chance(0.4):
        given["scan_input_directions"] = [g.integer(0, 1) for _ in inputs]
    if g.chance(0.4):
        given["scan_output_directions"] = [g.integer(0, 1) for _ in range(rows)]
    if g.chance(0.4) and rows == len(inputs):
        given["scan_output_axes"] = [g.integer(0, rank) for rank in ranks]
    g.node("Scan", [*states, *inputs], len(body.output), **given)


def sequence(g: Graph) -> None:
    """A list of tensors that is made, changed, mapped, and read."""
    if g.opset < 11:
        raise Rejected
    x = g.tensor(("float32", "int64", "float64", "int32"), (1, 3), where=lambda a: 0 < a.size <= 500)
    items = _split(g, x) if g.chance(0.4) else g.node("SequenceConstruct", _alike(g, x))[0]
    for _ in range(g.integer(0, 2)):
        items = g.one_of([_inserted, _erased, _mapped])(g, x, items)
    count = len(g.values[items])
    how = g.integer(0, 3)
    if how == 0:
        g.node("SequenceLength", [items])
    elif how == 1:
        where = g.integer(-count, count - 1)
        g.node("SequenceAt", [items, g.known(where) if g.chance(0.6) else g.leaf(np.array(where))])
    elif count:
        joins = len({a.shape for a in g.values[items]}) == 1 and g.chance(0.4)
        rank = g.values[items][0].ndim + joins
        if not rank:
            raise Rejected
        g.node("ConcatFromSequence", [items], axis=g.integer(-rank, rank - 1), new_axis=int(joins))


def _split(g: Graph, x: str) -> str:
    axis = g.integer(-g.rank(x), g.rank(x) - 1)
    if g.chance(0.4):
        return g.node("SplitToSequence", [x], axis=axis, keepdims=g.one_of([None, 0, 1]))[0]
    extent = g.shape(x)[axis]
    if g.chance(0.5):
        return g.node("SplitToSequence", [x, g.known(g.integer(1, extent))], axis=axis)[0]
    first = g.integer(0, extent)
    return g.node("SplitToSequence", [x, g.known([first, extent - first])], axis=axis)[0]


def _alike(g: Graph, x: str) -> list[str]:
    """Tensors that differ in their first extent at most."""
    rest = g.shape(x)[1:]
    return [x, *(g.like(x, (g.integer(1, 4), *rest) if g.chance(0.3) else g.shape(x)) for _ in range(g.integer(0, 3)))]


def _inserted(g: Graph, x: str, items: str) -> str:
    count = len(g.values[items])
    where = g.known(g.integer(-count, count)) if g.chance(0.6) else None
    return g.node("SequenceInsert", [items, _alike(g, x)[-1], where])[0]


def _erased(g: Graph, x: str, items: str) -> str:
    count = len(g.values[items])
    return g.node("SequenceErase", [items, g.known(g.integer(-count, count - 1)) if g.chance(0.6) else None])[0]


def _mapped(g: Graph, x: str, items: str) -> str:
    if g.opset < 17 or g.dtype(x) != "float32" or not g.values[items]:
        raise Rejected
    factor = g.fresh("float32", ()) if g.chance(0.5) else None

    def build(*names: str) -> list[str]:
        [name] = g.node(g.one_of(_CALM), [names[0]])
        return g.node("Mul", [name, names[1]]) if factor else [name]

    examples = [g.values[items][0], *([g.values[factor]] if factor else [])]
    body = g.subgraph(build, examples, shaped=False)
    return g.node("SequenceMap", [items, *([factor] if factor else [])], body=body)[0]


def optional(g: Graph) -> None:
    """An optional that is there."""
    if g.opset < 18:
        raise Rejected
    x = g.tensor(("float32", "int64", "bool"), (0, 3))
    [held] = g.node("Optional", [x])
    g.operands = [name for name in g.operands if name != held]
    g.opaque.add(held)
    g.node(g.one_of(["OptionalGetElement", "OptionalHasElement"]), [held])


ENTRIES: dict[str, Entry] = {
    "If": branch,
    "If of different shapes": uneven_branch,
    "Loop": loop,
    "Optional": optional,
    "Scan": scan,
    "Sequence": sequence,
}
