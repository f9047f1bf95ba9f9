"""Nodes that move: views, slices, gathers, sizes that are computed or that data decide, branches and loops."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence

from fuzz.sizes.decided import branch, compress, loop, non_zero, suppression, unique
from fuzz.sizes.graph import Dim, Graph, Rejected, Value, broadcast, changed, plus, times
from onnx import TensorProto, helper

ANY = ("float32", "float32", "int64", "bool")
NUMBERS = ("float32", "float32", "int64")


def _transpose(graph: Graph) -> None:
    a = graph.tensor(ANY, 2)
    x = graph.values[a]
    order = graph.random.sample(range(x.rank), x.rank)
    graph.node("Transpose", [a], changed(x, dims=tuple(x.dims[i] for i in order)), perm=order)


def _flatten(graph: Graph) -> None:
    a = graph.tensor(ANY, 1)
    x = graph.values[a]
    axis = graph.random.randint(0, x.rank)
    graph.node("Flatten", [a], changed(x, dims=(times(*x.dims[:axis]), times(*x.dims[axis:]))), axis=axis)


def _reshape(graph: Graph) -> None:
    """To one axis, with two joined, with one split, or to a shape of computed sizes.

    A shape without -1 has ``allowzero``: else an extent of 0 would mean the one at its place, which the importer does not
    take an extent for. Of both together the standard does not say what -1 is where an extent is 0.
    """
    a = graph.tensor(ANY, 1)
    x, kind = graph.values[a], graph.random.randrange(4)
    if kind == 0:
        graph.node("Reshape", [a, graph.known([-1])], changed(x, dims=(times(*x.dims),)))
    elif kind == 1 and x.rank > 1:
        at = graph.random.randrange(x.rank - 1)
        dims = (*x.dims[:at], times(*x.dims[at : at + 2]), *x.dims[at + 2 :])
        is_last = at + 2 == x.rank
        shape = _shape(graph, a, [*range(at), () if is_last else (at, at + 1), *range(at + 2, x.rank)])
        graph.node("Reshape", [a, shape], changed(x, dims=dims), allowzero=None if is_last else 1)
    elif kind == 2:
        at = graph.one_of(i for i, d in enumerate(x.dims) if d in (4, 8))
        dims = (*x.dims[:at], 2, int(x.dims[at]) // 2, *x.dims[at + 1 :])
        named = _shape(graph, a, list(range(at))) if at else None
        rest = [2, int(x.dims[at]) // 2, *([-1] if at + 1 < x.rank else [])]
        if x.rank - at > 2:
            raise Rejected
        shape = (
            graph.known(rest)
            if named is None
            else graph.hidden("Concat", [named, graph.known(rest)], Value("int64", (len(rest) + at,)), axis=0)
        )
        graph.node("Reshape", [a, shape], changed(x, dims=dims), allowzero=None if -1 in rest else 1)
    else:
        order = graph.random.sample(range(x.rank), x.rank)  # other extents of as many elements
        graph.node(
            "Reshape", [a, _shape(graph, a, order)], changed(x, dims=tuple(x.dims[i] for i in order)), allowzero=1
        )


def _shape(graph: Graph, name: str, axes: Sequence[int | tuple[int, ...]]) -> str:
    """A shape of extents of a tensor, and of products of them; that of no axes is -1, the rest."""
    parts = [_product(graph, name, (axis,) if isinstance(axis, int) else axis) for axis in axes]
    if len(parts) == 1:
        return parts[0]
    return graph.hidden("Concat", parts, Value("int64", (len(parts),)), axis=0)


def _product(graph: Graph, name: str, axes: tuple[int, ...]) -> str:
    sizes = [graph.size_of(name, axis) for axis in axes] or [graph.known([-1])]
    return functools.reduce(lambda a, b: graph.hidden("Mul", [a, b], Value("int64", (1,))), sizes)


def _unsqueeze(graph: Graph) -> None:
    a = graph.tensor(ANY, 0, 3)
    x = graph.values[a]
    at = graph.random.randint(0, x.rank)
    graph.node("Unsqueeze", [a, graph.known([at])], changed(x, dims=(*x.dims[:at], 1, *x.dims[at:])))


def _squeeze(graph: Graph) -> None:
    a = graph.tensor(ANY, 1, where=lambda v: 1 in v.dims)
    x = graph.values[a]
    at = graph.one_of(i for i, d in enumerate(x.dims) if d == 1)
    graph.node("Squeeze", [a, graph.known([at])], changed(x, dims=(*x.dims[:at], *x.dims[at + 1 :])))


def _expand(graph: Graph) -> None:
    a = graph.tensor(ANY, 1)
    b = graph.partner(a)
    x, y = graph.values[a], graph.values[b]
    shape = graph.hidden("Shape", [b], Value("int64", (y.rank,)))
    graph.node("Expand", [a, shape], changed(x, dims=broadcast(x.dims, y.dims)))


def _tile(graph: Graph) -> None:
    a = graph.tensor(ANY, 1, 3)
    x = graph.values[a]
    if graph.chance(0.5):
        counts = [graph.one_of((1, 1, 2, 3)) for _ in x.dims]
        graph.node("Tile", [a, graph.known(counts)], changed(x, dims=tuple(map(times, counts, x.dims))))
        return
    b = graph.tensor(ANY, 1)
    own, at = graph.random.randrange(x.rank), graph.random.randrange(graph.values[b].rank)
    parts = [graph.size_of(b, at) if i == own else graph.known([1]) for i in range(x.rank)]
    counts = graph.hidden("Concat", parts, Value("int64", (x.rank,)), axis=0)
    dims = tuple(times(graph.values[b].dims[at], d) if i == own else d for i, d in enumerate(x.dims))
    graph.node("Tile", [a, counts], changed(x, dims=dims))


def _concat(graph: Graph) -> None:
    """Along one axis, where the others are the same: fresh tensors have any extent there."""
    a = graph.tensor(ANY, 1)
    x = graph.values[a]
    axis = graph.random.randrange(x.rank)
    same = [n for n, v in graph.values.items() if v.dtype == x.dtype and _joins(v.dims, x.dims, axis)]
    names = [a]
    for _ in range(graph.random.randint(1, 2)):
        fresh = not same or graph.chance(0.5)
        names.append(
            graph.input(x.dtype, [graph.dim() if i == axis else d for i, d in enumerate(x.dims)])
            if fresh
            else graph.one_of(same)
        )
    graph.random.shuffle(names)
    values = [graph.values[name] for name in names]
    dims = tuple(plus(*(v.dims[i] for v in values)) if i == axis else d for i, d in enumerate(x.dims))
    made = Value(x.dtype, dims, max(v.bound for v in values), all(v.exact for v in values))
    graph.node("Concat", names, made, axis=graph.one_of((axis, axis - x.rank)))


def _joins(a: tuple[Dim, ...], b: tuple[Dim, ...], axis: int) -> bool:
    return len(a) == len(b) and all(x == y or i == axis for i, (x, y) in enumerate(zip(a, b, strict=True)))


def _slice(graph: Graph) -> None:
    a = graph.tensor(ANY, 1)
    x = graph.values[a]
    at = graph.random.randrange(x.rank)
    d = x.dims[at]
    start, end, step, made = graph.one_of(
        (
            (1, 1 << 62, 1, f"max({d} - 1, 0)"),
            (0, -1, 1, f"max({d} - 1, 0)"),
            (1, -1, 1, f"max({d} - 2, 0)"),
            (0, 1 << 62, 2, f"(({d} + 1) // 2)"),
            (-1, -(1 << 62), -1, d),
            (0, 3, 1, f"({d} if {d} < 3 else 3)"),
            (-2, 1 << 62, 1, f"({d} if {d} < 2 else 2)"),
        )
    )
    dims = (*x.dims[:at], made, *x.dims[at + 1 :])
    graph.node("Slice", [a, *(graph.known([v]) for v in (start, end, at, step))], changed(x, dims=dims))


def _cut(graph: Graph) -> None:
    """A slice that ends at another tensor's extent."""
    a, b = graph.tensor(ANY, 1), graph.tensor(ANY, 1)
    x, y = graph.values[a], graph.values[b]
    at, own = graph.random.randrange(x.rank), graph.random.randrange(y.rank)
    dim = f"({x.dims[at]} if {x.dims[at]} < {y.dims[own]} else {y.dims[own]})"
    parts = [graph.known([0]), graph.size_of(b, own), graph.known([at])]
    graph.node("Slice", [a, *parts], changed(x, dims=(*x.dims[:at], dim, *x.dims[at + 1 :])))


def _pad(graph: Graph) -> None:
    a = graph.tensor(("float32",), 1)
    x = graph.values[a]
    before, after = ([graph.one_of((0, 0, 1, 2)) for _ in x.dims] for _ in range(2))
    mode = graph.one_of(("constant", "constant", "edge", "reflect"))
    dims = tuple(plus(d, p + q) if p + q else d for d, p, q in zip(x.dims, before, after, strict=True))
    graph.node("Pad", [a, graph.known([*before, *after])], changed(x, dims=dims), mode=mode)


def _split(graph: Graph) -> None:
    a = graph.tensor(ANY, 1)
    x = graph.values[a]
    at = graph.one_of(i for i, d in enumerate(x.dims) if d in (2, 4, 8))
    half = changed(x, dims=(*x.dims[:at], int(x.dims[at]) // 2, *x.dims[at + 1 :]))
    graph.node("Split", [a], half, half, axis=at, num_outputs=2)


def _positions(graph: Graph, dims: tuple[Dim, ...], below: Dim) -> str:
    """Positions below an extent; those that an input can know."""
    if isinstance(below, str) and below not in graph.names:
        raise Rejected
    return graph.input("int64", dims, below=below)


def _gather(graph: Graph) -> None:
    a = graph.tensor(ANY, 1)
    x = graph.values[a]
    at = graph.random.randrange(x.rank)
    if graph.chance(0.2):
        graph.node(
            "Gather", [a, graph.known(graph.one_of((0, -1)))], changed(x, dims=x.dims[:at] + x.dims[at + 1 :]), axis=at
        )
        return
    dims = graph.dims(1, 2)
    index = _positions(graph, dims, x.dims[at])
    graph.node("Gather", [a, index], changed(x, dims=(*x.dims[:at], *dims, *x.dims[at + 1 :])), axis=at)


def _gather_elements(graph: Graph) -> None:
    a = graph.tensor(ANY, 1, 3)
    x = graph.values[a]
    at = graph.random.randrange(x.rank)
    dims = tuple(graph.dim() if i == at else d for i, d in enumerate(x.dims))
    graph.node("GatherElements", [a, _positions(graph, dims, x.dims[at])], changed(x, dims=dims), axis=at)


def _gather_nd(graph: Graph) -> None:
    a = graph.tensor(ANY, 1)
    x = graph.values[a]
    dims = graph.dims(1, 2)
    index = _positions(graph, (*dims, 1), x.dims[0])
    graph.node("GatherND", [a, index], changed(x, dims=(*dims, *x.dims[1:])))


def _scatter_elements(graph: Graph) -> None:
    a = graph.tensor(NUMBERS, 1, 3)
    x = graph.values[a]
    at = graph.random.randrange(x.rank)
    dims = tuple(graph.dim() if i == at else d for i, d in enumerate(x.dims))
    index, updates = _positions(graph, dims, x.dims[at]), graph.input(x.dtype, dims, exact=x.exact)
    kind = graph.one_of(("add", "max", "min"))  # in any order
    graph.node("ScatterElements", [a, index, updates], changed(x, bound=500 + x.bound), axis=at, reduction=kind)


def _scatter_nd(graph: Graph) -> None:
    a = graph.tensor(NUMBERS, 1)
    x = graph.values[a]
    dims = graph.dims(1, 2)
    index = _positions(graph, (*dims, 1), x.dims[0])
    updates = graph.input(x.dtype, (*dims, *x.dims[1:]), exact=x.exact)
    kind = graph.one_of(("add", "max", "min"))
    graph.node("ScatterND", [a, index, updates], changed(x, bound=4000 + x.bound), reduction=kind)


def _one_hot(graph: Graph) -> None:
    dims, depth = graph.dims(1, 2), graph.one_of((3, 8))
    index = graph.input("int64", dims, below=depth)
    names = [index, graph.known(depth), graph.known([0, 1], "float32")]
    graph.node("OneHot", names, Value("float32", (*dims, depth), 1, True))


def _range(graph: Graph) -> None:
    a = graph.tensor(ANY, 1)
    x = graph.values[a]
    at = graph.random.randrange(x.rank)
    size = graph.hidden("Squeeze", [graph.size_of(a, at), graph.known([0])], Value("int64", ()))
    made = Value("int64", (x.dims[at],), 1000, True)
    graph.node("Range", [graph.known(0), size, graph.known(1)], made)


def _filled(graph: Graph) -> None:
    a = graph.tensor(ANY, 1)
    x = graph.values[a]
    shape = graph.hidden("Shape", [a], Value("int64", (x.rank,)))
    value = helper.make_tensor("value", TensorProto.FLOAT, [1], [1.5])
    graph.node("ConstantOfShape", [shape], Value("float32", x.dims, 2, True), value=value)


def _trilu(graph: Graph) -> None:
    a = graph.tensor(NUMBERS, 2)
    graph.node("Trilu", [a, graph.known(graph.one_of((-1, 0, 1)))], graph.values[a], upper=int(graph.chance(0.5)))


def _top_k(graph: Graph) -> None:
    a = graph.tensor(NUMBERS, 1, where=lambda v: v.exact)
    x = graph.values[a]
    at = graph.random.randrange(x.rank)
    dims = (*x.dims[:at], 1, *x.dims[at + 1 :])
    graph.node("TopK", [a, graph.known([1])], changed(x, dims=dims), Value("int64", dims, 1000, True), axis=at)


_OFTEN = (_transpose, _reshape, _concat, _slice, _expand, _gather, _pad)
_OTHERS = (_flatten, _unsqueeze, _squeeze, _tile, _cut, _split, _gather_elements, _gather_nd, _scatter_elements)
_OTHERS += (_scatter_nd, _one_hot, _range, _filled, _trilu, _top_k, non_zero, compress, unique)
ENTRIES: list[tuple[Callable[[Graph], None], float]] = [
    *((make, 3.0) for make in _OFTEN),
    *((make, 1.2) for make in _OTHERS),
    *((make, 0.7) for make in (suppression, branch, loop)),
]
