"""Nodes that compute: elementwise, reductions, norms and products."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from fuzz.sizes.graph import Graph, Rejected, Value, broadcast, changed, fits
from fuzz.sizes.products import attention, convolution, einsum, gemm, mat_mul

FLOAT = ("float32",)
NUMBERS = ("float32", "float32", "int64")


def _unary(op: str, graph: Graph) -> None:
    """Functions whose results are small; those that jump take what has no rounding."""
    jumps = op in ("Floor", "Ceil", "Round", "Sign")
    x = graph.tensor(FLOAT, where=lambda v: v.exact or not jumps)
    value = graph.values[x]
    if op in ("Sqrt", "Log"):
        x = graph.hidden("Abs", [x], value)
    if op == "Log":
        x = graph.hidden("Add", [x, graph.known(1, "float32")], value)
    if op == "Exp" and value.bound > 8:
        raise Rejected
    grows = {"Exp": 3000.0}.get(op, max(value.bound, 2.0))
    keeps = op in ("Relu", "Neg", "Abs", "Identity", "Floor", "Ceil", "Round", "Sign")
    graph.node(op, [x], changed(value, bound=grows, exact=value.exact and keeps))


def _binary(op: str, graph: Graph) -> None:
    a = graph.tensor(FLOAT if op == "Div" else NUMBERS)
    b = graph.partner(a)
    x, y = graph.values[a], graph.values[b]
    if op == "Div":
        b = graph.hidden("Abs", [b], y)
        b = graph.hidden("Add", [b, graph.known(1, "float32")], y)
    pair = [a, b] if op == "Div" or graph.chance(0.5) else [b, a]
    bound = {"Mul": x.bound * y.bound, "Add": x.bound + y.bound, "Sub": x.bound + y.bound}.get(
        op, max(x.bound, y.bound)
    )
    exact = x.exact and y.exact and op != "Div"
    graph.node(op, pair, Value(x.dtype, broadcast(x.dims, y.dims), bound, exact))


def _several(op: str, graph: Graph) -> None:
    """Min, Max, Sum and Mean take any number of tensors."""
    a = graph.tensor(FLOAT)
    names = [a, *(graph.partner(a) for _ in range(graph.random.randint(1, 2)))]
    values = [graph.values[name] for name in names]
    exact = all(v.exact for v in values) and op != "Mean"
    graph.node(op, names, Value("float32", broadcast(*(v.dims for v in values)), sum(v.bound for v in values), exact))


def _compared(op: str, graph: Graph) -> None:
    a = graph.tensor(NUMBERS, where=lambda v: v.exact)
    b = graph.partner(a)
    x, y = graph.values[a], graph.values[b]
    if not y.exact:
        raise Rejected
    graph.node(op, [a, b], Value("bool", broadcast(x.dims, y.dims), 1, True))


def _logical(op: str, graph: Graph) -> None:
    a = graph.tensor(("bool",))
    x = graph.values[a]
    if op == "Not":
        graph.node(op, [a], x)
    else:
        b = graph.partner(a)
        graph.node(op, [a, b], changed(x, dims=broadcast(x.dims, graph.values[b].dims)))


def _where(graph: Graph) -> None:
    a = graph.tensor(NUMBERS)
    b, condition = graph.partner(a), graph.partner(a, "bool")
    x, y, c = (graph.values[name] for name in (a, b, condition))
    dims = broadcast(x.dims, y.dims, c.dims)
    graph.node("Where", [condition, a, b], Value(x.dtype, dims, max(x.bound, y.bound), x.exact and y.exact))


def _cast(graph: Graph) -> None:
    a = graph.tensor(("int64", "bool", "float32"), where=lambda v: v.exact)
    dtype = graph.one_of(("float32", "float32", "int64", "bool"))
    number = {"float32": 1, "int64": 7, "bool": 9}[dtype]
    graph.node("Cast", [a], changed(graph.values[a], dtype=dtype), to=number)


def _clip(graph: Graph) -> None:
    a = graph.tensor(FLOAT)
    graph.node("Clip", [a, graph.known(-1.5, "float32"), graph.known(2.5, "float32")], graph.values[a])


def _prelu(graph: Graph) -> None:
    a = graph.tensor(FLOAT, 1)
    x = graph.values[a]
    b = graph.input("float32", [1 if graph.chance(0.3) else d for d in x.dims[graph.random.randint(0, x.rank - 1) :]])
    graph.node("PRelu", [a, b], changed(x, bound=4 * x.bound, exact=False))


def _reduce(op: str, graph: Graph) -> None:
    a = graph.tensor(FLOAT if op in ("ReduceMean", "ReduceL2", "ReduceLogSum", "ReduceLogSumExp") else NUMBERS, 1)
    x = graph.values[a]
    axes = sorted(graph.random.sample(range(x.rank), graph.random.randint(1, x.rank)))
    keep = graph.chance(0.5)
    if op in ("ReduceLogSumExp", "ReduceProd") and x.bound > 8:
        raise Rejected
    if op == "ReduceProd":  # of numbers around 1
        a = graph.hidden("Clip", [a, graph.known(-1, x.dtype), graph.known(1, x.dtype)], x)
    if op == "ReduceLogSum":
        a = graph.hidden("Abs", [a], x)
        a = graph.hidden("Add", [a, graph.known(1, "float32")], x)
    dims = tuple(1 if i in axes else d for i, d in enumerate(x.dims) if keep or i not in axes)
    grows = {"ReduceSum": 1000.0, "ReduceL1": 1000.0, "ReduceSumSquare": 1000 * x.bound, "ReduceL2": 40.0}.get(op, 1.0)
    exact = x.exact and op in ("ReduceSum", "ReduceMax", "ReduceMin", "ReduceL1") and x.bound * grows < 1 << 20
    given = [-1 - (x.rank - 1 - i) if graph.chance(0.3) else i for i in axes]
    made = Value(x.dtype, dims, max(x.bound * grows, 10.0), exact)
    whole = len(axes) == x.rank and graph.chance(0.4)
    graph.node(op, [a] if whole else [a, graph.known(given)], made, keepdims=int(keep))


def _across(graph: Graph) -> None:
    """What one tensor is reduced to, with a tensor of other sizes: both may become one kernel."""
    a = graph.tensor(FLOAT, 1, where=lambda v: v.bound < 100)
    x, keep = graph.values[a], graph.chance(0.5)
    kept = 0 if graph.chance(0.5) else graph.random.randrange(x.rank)
    dims = (*x.dims[:kept], *([1] * (x.rank - kept) if keep else []))
    op = graph.one_of(("ReduceMax", "ReduceMin", "ReduceMean", "ReduceSum"))
    middle = changed(x, dims=dims, bound=1000 * x.bound, exact=False)
    b = graph.node(op, [a, graph.known(list(range(kept, x.rank)))], middle, keepdims=int(keep))
    others = [n for n, v in graph.values.items() if v.dtype == "float32" and fits(v.dims, dims) and n != b]
    shape = [graph.dim() if d == 1 else d for d in dims] or list(graph.dims(1, 2))
    c = graph.one_of(others) if others and graph.chance(0.3) else graph.input("float32", shape)
    y = graph.values[c]
    graph.node(
        graph.one_of(("Mul", "Add", "Sub", "Max")),
        [c, b],
        Value("float32", broadcast(y.dims, dims), 1000 * x.bound + y.bound),
    )


def _outer(graph: Graph) -> None:
    """A column and a row of sizes of their own."""
    a = graph.tensor(FLOAT, 1, 2, where=lambda v: v.bound < 1000)
    x = graph.values[a]
    column = graph.hidden("Unsqueeze", [a, graph.known([-1])], x)
    b = graph.input("float32", graph.dims(1, 1))
    y = graph.values[b]
    bound = x.bound * y.bound
    graph.node(graph.one_of(("Mul", "Add", "Max")), [column, b], Value("float32", (*x.dims, *y.dims), bound))


def _arg(op: str, graph: Graph) -> None:
    a = graph.tensor(NUMBERS, 1, where=lambda v: v.exact)
    x, keep = graph.values[a], graph.chance(0.5)
    axis = graph.random.randrange(x.rank)
    dims = tuple(1 if i == axis else d for i, d in enumerate(x.dims) if keep or i != axis)
    last = int(graph.chance(0.2))
    graph.node(op, [a], Value("int64", dims, 1000, True), axis=axis, keepdims=int(keep), select_last_index=last)


def _softmax(op: str, graph: Graph) -> None:
    a = graph.tensor(FLOAT, 1, where=lambda v: v.bound < 100)
    x = graph.values[a]
    graph.node(
        op,
        [a],
        changed(x, bound=1 if op == "Softmax" else 2 * x.bound + 10, exact=False),
        axis=graph.random.randrange(-x.rank, x.rank),
    )


def _layer_norm(graph: Graph) -> None:
    a = graph.tensor(FLOAT, 1, where=lambda v: v.bound < 100)
    x = graph.values[a]
    axis = graph.random.randrange(x.rank)
    scale = graph.input("float32", x.dims[axis:])
    bias = [graph.input("float32", x.dims[axis:])] if graph.chance(0.6) else []
    graph.node("LayerNormalization", [a, scale, *bias], changed(x, bound=100, exact=False), axis=axis, epsilon=0.1)


def _channel_norm(op: str, graph: Graph) -> None:
    a = graph.tensor(FLOAT, 3, where=lambda v: v.bound < 100)
    x, count = graph.values[a], 4 if op == "BatchNormalization" else 2
    parts = [graph.input("float32", [x.dims[1]], positive=i == 3) for i in range(count)]
    graph.node(op, [a, *parts], changed(x, bound=2000, exact=False), epsilon=0.1)


def _cum_sum(graph: Graph) -> None:
    a = graph.tensor(NUMBERS, 1)
    x = graph.values[a]
    axis = graph.known(graph.random.randrange(x.rank))
    without, back = int(graph.chance(0.3)), int(graph.chance(0.3))
    graph.node("CumSum", [a, axis], changed(x, bound=1000 * x.bound), exclusive=without, reverse=back)


_UNARY = ("Relu", "Neg", "Abs", "Sigmoid", "Tanh", "Erf", "Softplus", "HardSwish", "LeakyRelu", "Elu", "Sqrt", "Log")
_UNARY += ("Exp", "Floor", "Round", "Sign", "Sin", "HardSigmoid", "Softsign")
_REDUCTIONS = tuple(
    f"Reduce{kind}" for kind in ("Sum", "Mean", "Max", "Min", "Prod", "L1", "L2", "SumSquare", "LogSum", "LogSumExp")
)
_TABLE: dict[Callable[..., None], tuple[str, ...]] = {
    _unary: _UNARY,
    _binary: ("Add", "Sub", "Mul", "Div", "Add", "Mul"),
    _several: ("Min", "Max", "Sum", "Mean"),
    _compared: ("Greater", "Less", "Equal", "GreaterOrEqual"),
    _logical: ("And", "Or", "Xor", "Not"),
    _reduce: _REDUCTIONS,
    _arg: ("ArgMax", "ArgMin"),
    _softmax: ("Softmax", "LogSoftmax"),
    _channel_norm: ("InstanceNormalization", "BatchNormalization"),
    convolution: ("Conv", "MaxPool", "AveragePool", "GlobalAveragePool"),
}
# Each entry adds a node or a few; how often each is drawn.
ENTRIES: list[tuple[Callable[[Graph], None], float]] = [
    *((partial(make, op), 1.0) for make, ops in _TABLE.items() for op in ops),
    *((make, 8.0) for make in (_across, _outer)),
    *((make, 4.0) for make in (_where, _layer_norm, mat_mul, einsum, attention)),
    *((make, 1.5) for make in (_cast, _clip, _prelu, _cum_sum, gemm)),
]
