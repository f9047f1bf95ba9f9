"""Nodes of networks on sequences: rows of a known width, their products, norms, attention, recurrent layers, caches."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np
from fuzz.sizes.graph import Dim, Graph, Rejected, Value, changed, plus, times
from fuzz.sizes.images import weight
from onnx import TensorProto, helper

NAMES = ("n", "s", "t", "p")
POOLS = {
    "n": (0, 1, 1, 1, 2, 3, 4, 7, 16),
    "s": (0, 1, 1, 2, 3, 5, 7, 8, 12, 15, 16, 31, 33, 64, 77, 100, 128, 200, 384),
    "t": (1, 2, 4, 6, 9, 13, 16, 17, 50, 64, 127, 128, 257, 512),
    "p": (0, 1, 2, 3, 7, 16, 29, 64, 200),
}
WIDTHS = (1, 3, 8, 16, 24, 32, 48, 64, 64, 96, 100, 128, 192, 256, 300, 384)


def _rows(graph: Graph, low: int = 2) -> str:
    """Rows of a known width."""

    def is_rows(value: Value) -> bool:
        return low <= value.rank <= 4 and isinstance(value.dims[-1], int) and value.bound < 1000

    fitting = [name for name, v in graph.values.items() if v.dtype == "float32" and is_rows(v)]
    if fitting and graph.chance(0.9):
        return graph.one_of(fitting[-3:] if graph.chance(0.7) else fitting)
    dims: tuple[Dim, ...] = ("n", graph.one_of(("s", "s", "t")), graph.one_of(WIDTHS))
    if low < 3 and graph.chance(0.25):
        dims = dims[graph.one_of((0, 1)) :] if graph.chance(0.5) else (dims[0], dims[2])
    return graph.input("float32", dims, exact=False)


def linear(graph: Graph) -> None:
    """A product with a weight, a bias, and what follows."""
    a = _rows(graph)
    x = graph.values[a]
    width, out = int(x.dims[-1]), graph.one_of(WIDTHS)
    made = changed(x, dims=(*x.dims[:-1], out), bound=2 * x.bound)
    graph.works.append(times(*made.dims, width))
    if x.rank == 2 and graph.chance(0.5):
        turned = graph.chance(0.5)
        w = weight(graph, (out, width) if turned else (width, out), width)
        b = graph.node("Gemm", [a, w, weight(graph, (out,))], made, transB=int(turned))
    else:
        b = graph.node("MatMul", [a, weight(graph, (width, out), width)], made)
        if graph.chance(0.6):
            b = graph.node("Add", [b, weight(graph, (out,))], made)
    if graph.chance(0.5):
        _activate(graph, b)


def _activate(graph: Graph, name: str) -> None:
    x = graph.values[name]
    kind = graph.one_of(("Relu", "Gelu", "Gelu tanh", "Silu", "GLU", "Add", "Tanh"))
    if kind == "Gelu":
        b = graph.hidden("Div", [name, graph.known(2**0.5, "float32")], x)
        b = graph.hidden("Erf", [b], x)
        b = graph.hidden("Add", [b, graph.known(1, "float32")], x)
        b = graph.hidden("Mul", [name, b], x)
        graph.node("Mul", [b, graph.known(0.5, "float32")], x)
    elif kind == "Gelu tanh":
        b = graph.hidden("Pow", [name, graph.known(3, "float32")], x)
        b = graph.hidden("Mul", [b, graph.known(0.044715, "float32")], x)
        b = graph.hidden("Add", [name, b], x)
        b = graph.hidden("Mul", [b, graph.known(0.7978845608, "float32")], x)
        b = graph.hidden("Tanh", [b], x)
        b = graph.hidden("Add", [b, graph.known(1, "float32")], x)
        b = graph.hidden("Mul", [name, b], x)
        graph.node("Mul", [b, graph.known(0.5, "float32")], x)
    elif kind == "Silu":
        b = graph.hidden("Sigmoid", [name], x)
        graph.node("Mul", [name, b], x)
    elif kind == "GLU":
        width = int(x.dims[-1])
        if width % 2:
            raise Rejected
        half = changed(x, dims=(*x.dims[:-1], width // 2))
        node = graph.node("Split", [name, graph.known([width // 2] * 2)], half, half, axis=-1)
        other = graph.nodes[-1].output[1]
        b = graph.hidden("Sigmoid", [node], half)
        graph.node("Mul", [other, b], half)
    elif kind == "Add":
        others = [o for o, v in graph.values.items() if v.dims == x.dims and o != name and v.dtype == "float32"]
        other = graph.one_of(others) if others else graph.input("float32", x.dims)
        graph.node("Add", [other, name], x)
    else:
        graph.node(kind, [name], x)


def norm(op: str, graph: Graph) -> None:
    """LayerNormalization, its parts, or the mean of squares."""
    a = _rows(graph)
    x = graph.values[a]
    width, made = int(x.dims[-1]), changed(x, bound=20)
    scale, bias = weight(graph, (width,)), weight(graph, (width,))
    row = changed(x, dims=(*x.dims[:-1], 1))
    last = graph.known([-1])
    if op == "node":
        graph.node("LayerNormalization", [a, scale, bias][: graph.one_of((2, 3, 3))], made, axis=-1, epsilon=0.01)
        return
    if op == "parts":
        mean = graph.hidden("ReduceMean", [a, last], row)
        a = graph.hidden("Sub", [a, mean], x)
    square = graph.hidden("Pow", [a, graph.known(2, "float32")], x)
    variance = graph.hidden("ReduceMean", [square, last], row)
    variance = graph.hidden("Add", [variance, graph.known(0.01, "float32")], row)
    root = graph.hidden("Sqrt", [variance], row)
    b = graph.hidden("Div", [a, root], made)
    b = graph.node("Mul", [b, scale], made)
    if op == "parts":
        graph.node("Add", [b, bias], made)


def attention(graph: Graph) -> None:
    """Heads that attend to rows of the same or of another sequence, with a mask, a causal one, or none."""
    a = graph.input("float32", ("n", "s", graph.one_of((16, 32, 64, 96))), exact=False)
    fitting = [name for name, v in graph.values.items() if v.rank == 3 and v.dims[:2] == ("n", "s")]
    fitting = [name for name in fitting if graph.values[name].dtype == "float32" and graph.values[name].bound < 100]
    fitting = [name for name in fitting if isinstance(graph.values[name].dims[2], int)]
    a = graph.one_of(fitting)
    x = graph.values[a]
    cross = graph.chance(0.3)
    b = graph.input("float32", ("n", "t", graph.one_of((16, 48, 64))), exact=False) if cross else a
    heads, size = graph.one_of((1, 2, 3, 4, 8)), graph.one_of((4, 8, 16, 32, 64, 20))
    groups = graph.one_of([g for g in (1, 2, heads) if heads % g == 0]) if graph.chance(0.3) else heads
    keys: Dim = "t" if cross else "s"
    q = _heads(graph, a, heads, size)
    k, v = (_heads(graph, b, groups, size) for _ in range(2))
    if not cross and graph.chance(0.3):  # what was there before
        past = [graph.input("float32", ("n", groups, "p", size), exact=False) for _ in range(2)]
        keys = plus("p", "s")
        made = Value("float32", ("n", groups, keys, size))
        k, v = (graph.node("Concat", [old, new], made, axis=2) for old, new in zip(past, (k, v), strict=True))
    if groups < heads:
        k, v = (_repeat(graph, one, heads // groups) for one in (k, v))
    turned = graph.hidden("Transpose", [k], x, perm=[0, 1, 3, 2])
    scores = Value("float32", ("n", heads, "s", keys), 100)
    graph.works.append(times(*scores.dims, size))
    made = graph.hidden("MatMul", [q, turned], scores)
    op, factor = graph.one_of((("Mul", size**-0.5), ("Div", size**0.5)))
    made = graph.hidden(op, [made, graph.known(factor, "float32")], scores)
    kind = graph.random.random()
    if kind < 0.4:
        shape = graph.one_of((("n", 1, 1, keys), ("n", 1, "s", keys), ("s", keys), (1, heads, "s", keys)))
        if all(isinstance(d, int) or d in graph.names for d in shape):
            mask = graph.input("float32", shape)
            made = graph.hidden("Add", [made, mask], scores)
    elif kind < 0.6 and keys == "s":
        made = _causal(graph, made, scores, a)
    weights = graph.hidden("Softmax", [made], scores, axis=-1)
    context = Value("float32", ("n", heads, "s", size), 4)
    made = graph.hidden("MatMul", [weights, v], context)
    made = graph.hidden("Transpose", [made], context, perm=[0, 2, 1, 3])
    context = Value("float32", ("n", "s", heads * size), 4)
    made = graph.node("Reshape", [made, graph.known([0, 0, heads * size])], context)
    if graph.chance(0.5):
        out = int(x.dims[2])
        b = graph.node("MatMul", [made, weight(graph, (heads * size, out), heads * size)], changed(x, bound=4))
        graph.node("Add", [b, a], changed(x, bound=4 + x.bound))


def _heads(graph: Graph, name: str, heads: int, size: int) -> str:
    x = graph.values[name]
    width, made = int(x.dims[-1]), changed(x, dims=(*x.dims[:2], heads * size))
    graph.works.append(times(*made.dims, width))
    b = graph.hidden("MatMul", [name, weight(graph, (width, heads * size), width)], made)
    if graph.chance(0.5):
        b = graph.hidden("Add", [b, weight(graph, (heads * size,))], made)
    b = graph.hidden("Reshape", [b, graph.known([0, 0, heads, size])], made)
    return graph.hidden("Transpose", [b], changed(x, dims=(x.dims[0], heads, x.dims[1], size)), perm=[0, 2, 1, 3])


def _repeat(graph: Graph, name: str, count: int) -> str:
    """Each head several times, as grouped queries have it."""
    x = Value("float32", ())
    b = graph.hidden("Unsqueeze", [name, graph.known([2])], x)
    shape = graph.hidden("Shape", [b], Value("int64", (5,)))
    wide = graph.hidden("Mul", [shape, graph.known([1, 1, count, 1, 1])], Value("int64", (5,)))
    b = graph.hidden("Expand", [b, wide], x)
    parts = [
        graph.hidden("Slice", [shape, *(graph.known([v]) for v in pair)], Value("int64", (1,)))
        for pair in ((0, 1), (3, 4), (4, 5))
    ]
    joined = graph.hidden("Concat", [parts[0], graph.known([-1]), *parts[1:]], Value("int64", (4,)), axis=0)
    return graph.hidden("Reshape", [b, joined], x)


def _causal(graph: Graph, name: str, scores: Value, rows: str) -> str:
    size = graph.size_of(rows, 1)
    square = graph.hidden("Concat", [size, size], Value("int64", (2,)), axis=0)
    ones = graph.hidden(
        "ConstantOfShape",
        [square],
        Value("float32", ("s", "s")),
        value=helper.make_tensor("value", TensorProto.FLOAT, [1], [1.0]),
    )
    if graph.chance(0.5):
        kept = graph.hidden("Trilu", [ones], Value("float32", ("s", "s")), upper=0)
        kept = graph.hidden("Cast", [kept], Value("bool", ("s", "s")), to=9)
        return graph.hidden("Where", [kept, name, graph.known(-1e9, "float32")], scores)
    left = graph.hidden("Trilu", [ones, graph.known(1)], Value("float32", ("s", "s")), upper=1)
    left = graph.hidden("Mul", [left, graph.known(-1e9, "float32")], Value("float32", ("s", "s")))
    return graph.hidden("Add", [name, left], scores)


def rotary(graph: Graph) -> None:
    """The halves of each row turned by sines and cosines of a table, read at positions."""
    a = _rows(graph, 3)
    x = graph.values[a]
    if x.rank != 3 or x.dims[1] not in graph.names or int(x.dims[2]) % 2:
        raise Rejected
    half = int(x.dims[2]) // 2
    part = changed(x, dims=(*x.dims[:2], half))
    table = np.arange(600)[:, None] / 10 ** np.linspace(0, 3, half)
    positions = graph.input("int64", x.dims[:2] if graph.chance(0.5) else (1, x.dims[1]), below=600)
    cos, sin = (graph.hidden("Gather", [graph.known(f(table), "float32"), positions], part) for f in (np.cos, np.sin))
    left, right = (
        graph.hidden("Slice", [a, *(graph.known([v]) for v in (b, e, 2))], part)
        for b, e in ((0, half), (half, 1 << 62))
    )
    made = []
    for one, other, op in ((left, right, "Sub"), (right, left, "Add")):
        pair = [graph.hidden("Mul", [one, cos], part), graph.hidden("Mul", [other, sin], part)]
        made.append(graph.hidden(op, pair, part))
    graph.node("Concat", made, changed(x, bound=2 * x.bound), axis=-1)


def embedding(graph: Graph) -> None:
    """Rows of a table at ids, and the positions' rows."""
    width, length = graph.one_of(WIDTHS), graph.one_of(("s", "t"))
    ids = graph.input("int64", ("n", length), below=100)
    made = Value("float32", ("n", length, width))
    b = graph.node("Gather", [weight(graph, (100, width)), ids], made)
    if graph.chance(0.5):
        table = weight(graph, (600, width))
        size = graph.size_of(ids, 1)
        part = graph.hidden("Slice", [table, graph.known([0]), size, graph.known([0])], made)
        graph.node("Add", [b, part], made)


def recurrent(op: str, graph: Graph) -> None:
    """A layer of steps of a known or an open number."""
    gates = {"GRU": 3, "LSTM": 4}[op]
    width, hidden = graph.one_of((1, 3, 8, 16, 40)), graph.one_of((1, 4, 8, 16, 32, 40))
    x = graph.input("float32", (graph.one_of(("s", "s", 3)), "n", width), exact=False)
    ways = graph.one_of((1, 1, 2))
    names = [
        x,
        weight(graph, (ways, gates * hidden, width), width),
        weight(graph, (ways, gates * hidden, hidden), hidden),
    ]
    names.append(weight(graph, (ways, 2 * gates * hidden)) if graph.chance(0.7) else "")
    if graph.chance(0.3):
        names += ["", graph.input("float32", (ways, "n", hidden), exact=False)]
        names += [graph.input("float32", (ways, "n", hidden), exact=False)] if op == "LSTM" else []
    steps = graph.inputs[x].dims[0]
    made = [Value("float32", (steps, ways, "n", hidden), 1)]
    made += [Value("float32", (ways, "n", hidden), 2)] * (1 if op == "GRU" else 2)
    way = "bidirectional" if ways == 2 else graph.one_of(("forward", "reverse"))
    more = {"linear_before_reset": graph.one_of((0, 1))} if op == "GRU" else {}
    while names and not names[-1]:
        names.pop()
    graph.works.append(times(steps, "n", 4 * ways * hidden, hidden + width))
    b = graph.node(op, names, *made, hidden_size=hidden, direction=way, **more)
    if ways == 1 and graph.chance(0.6):
        flat = Value("float32", (steps, "n", hidden), 1)
        b = graph.hidden("Squeeze", [b, graph.known([1])], flat)
        graph.node("Transpose", [b], changed(flat, dims=("n", steps, hidden)), perm=[1, 0, 2])


def sounds(graph: Graph) -> None:
    """Rows as channels of a 1-D convolution, mostly of one channel each."""
    a = _rows(graph, 3)
    x = graph.values[a]
    if x.rank != 3:
        raise Rejected
    width, k = int(x.dims[2]), graph.one_of((1, 3, 4, 7, 9))
    turned = changed(x, dims=(x.dims[0], width, x.dims[1]))
    b = graph.hidden("Transpose", [a], turned, perm=[0, 2, 1])
    group = width if graph.chance(0.6) else 1
    out = width if group > 1 else graph.one_of(WIDTHS)
    before, after = graph.one_of(((k - 1, 0), (k // 2, (k - 1) // 2)))
    made = changed(x, dims=(x.dims[0], out, x.dims[1]), bound=2 * x.bound)
    w = weight(graph, (out, width // group, k), width // group * k)
    graph.works.append(times(*made.dims, width // group * k))
    b = graph.node("Conv", [b, w, weight(graph, (out,))], made, group=group, pads=[before, after], kernel_shape=[k])
    if graph.chance(0.7):
        graph.node("Transpose", [b], changed(made, dims=(x.dims[0], x.dims[1], out)), perm=[0, 2, 1])


def chosen(graph: Graph) -> None:
    """The best of each row, the row of one place, or the mean of all rows."""
    a = _rows(graph, 3)
    x = graph.values[a]
    kind = graph.one_of(("first", "last", "mean", "arg", "top", "cumulative"))
    width = int(x.dims[-1])
    if kind in ("first", "last") and x.rank == 3:
        place = graph.known(0 if kind == "first" else -1)
        graph.node("Gather", [a, place], changed(x, dims=(x.dims[0], width)), axis=1)
    elif kind == "mean":
        made = changed(x, dims=tuple(1 if i == x.rank - 2 else d for i, d in enumerate(x.dims)))
        graph.node("ReduceMean", [a, graph.known([-2])], made)
    elif kind == "arg" and a in graph.inputs:
        graph.node("ArgMax", [a], Value("int64", (*x.dims[:-1], 1), 1000, True), axis=-1)
    elif kind == "top" and a in graph.inputs and width >= 3:
        dims = (*x.dims[:-1], 3)
        graph.node("TopK", [a, graph.known([3])], changed(x, dims=dims), Value("int64", dims, 1000, True), axis=-1)
    else:
        graph.node("CumSum", [a, graph.known(x.rank - 2)], changed(x, bound=50 * x.bound))


ENTRIES: list[tuple[Callable[[Graph], None], float]] = [
    (linear, 8.0),
    (attention, 5.0),
    (sounds, 3.0),
    (embedding, 1.5),
    (rotary, 2.0),
    (chosen, 2.5),
    *((partial(recurrent, op), 1.0) for op in ("GRU", "LSTM")),
    *((partial(norm, op), 2.0) for op in ("node", "parts", "squares")),
]
