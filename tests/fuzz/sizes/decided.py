"""Nodes whose sizes data decide, branches and loops."""

from __future__ import annotations

from fuzz.sizes.graph import Dim, Graph, Value, changed, times
from onnx import TensorProto, helper

ANY = ("float32", "float32", "int64", "bool")


def non_zero(graph: Graph) -> None:
    """A node of this kind."""
    a = graph.tensor(ANY, 1, where=lambda v: v.exact)
    x = graph.values[a]
    graph.node("NonZero", [a], Value("int64", (x.rank, _unknown(graph, times(*x.dims))), 1000, True))


def compress(graph: Graph) -> None:
    """A node of this kind."""
    a = graph.tensor(ANY, 1)
    x = graph.values[a]
    at = graph.random.randrange(x.rank)
    mask = graph.input("bool", [x.dims[at]])
    dims = (*x.dims[:at], _unknown(graph, x.dims[at]), *x.dims[at + 1 :])
    graph.node("Compress", [a, mask], changed(x, dims=dims), axis=at)


def unique(graph: Graph) -> None:
    """A node of this kind."""
    a = graph.tensor(("float32", "int64"), 1, where=lambda v: v.exact)
    x = graph.values[a]
    graph.node("Unique", [a], changed(x, dims=(_unknown(graph, times(*x.dims)),)), sorted=1)


def suppression(graph: Graph) -> None:
    """A node of this kind."""
    boxes, kinds = graph.dim(), graph.dim()
    names = [graph.input("float32", (1, boxes, 4)), graph.input("float32", (1, kinds, boxes))]
    names += [graph.known([3]), graph.known([0.4], "float32")]
    made = Value("int64", (_unknown(graph, times(boxes, kinds)), 3), 1000, True)
    graph.node("NonMaxSuppression", names, made)


def _unknown(graph: Graph, most: Dim) -> Dim:
    """A dim that data decide: no other one is the same. It counts as the most that it may be."""
    return f"({most} + 0 * {graph.fresh_name('7')[1:]})"


def branch(graph: Graph) -> None:
    """An If on a condition that data or sizes decide, with an elementwise node in each branch."""
    a = graph.tensor(("float32",), 1)
    x = graph.values[a]
    if graph.chance(0.5):
        size = graph.hidden("Squeeze", [graph.size_of(a, 0), graph.known([0])], Value("int64", ()))
        condition = graph.hidden("Greater", [size, graph.known(3)], Value("bool", ()))
    else:
        condition = graph.input("bool", ())
    branches = {}
    for name, op in (("then_branch", "Neg"), ("else_branch", graph.one_of(("Relu", "Tanh", "Abs")))):
        made = graph.fresh_name("z")
        info = helper.make_tensor_value_info(made, TensorProto.FLOAT, None)
        branches[name] = helper.make_graph([helper.make_node(op, [a], [made])], name, [], [info])
    graph.node("If", [condition], changed(x, exact=False), **branches)


def loop(graph: Graph) -> None:
    """A few rounds that each add a tensor of other sizes, and a scan output of all states."""
    a = graph.tensor(("float32",), 1, 3)
    x, b = graph.values[a], graph.input("float32", [1 if graph.chance(0.4) else d for d in graph.values[a].dims])
    rounds = graph.one_of((1, 2, 3))
    at, going, state, kept, made, shown = (graph.fresh_name("z") for _ in range(6))
    nodes = [
        helper.make_node("Identity", [going], [kept]),
        helper.make_node("Add", [state, b], [made]),
        helper.make_node("Tanh", [made], [shown]),
    ]
    kinds = [(at, TensorProto.INT64, []), (going, TensorProto.BOOL, []), (state, TensorProto.FLOAT, None)]
    results = [(kept, TensorProto.BOOL, []), (made, TensorProto.FLOAT, None), (shown, TensorProto.FLOAT, None)]
    given, left = ([helper.make_tensor_value_info(*kind) for kind in part] for part in (kinds, results))
    body = helper.make_graph(nodes, "body", given, left)
    states = Value("float32", (rounds, *x.dims), 1)
    final = Value("float32", x.dims, x.bound + 4 * rounds)
    graph.node("Loop", [graph.known(rounds), "", a], final, states, body=body)
