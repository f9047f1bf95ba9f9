"""Sums of products: matrices, attention, windows."""

from __future__ import annotations

from dataclasses import replace

from fuzz.sizes.graph import Graph, Value, broadcast

FLOAT = ("float32",)


def mat_mul(graph: Graph) -> None:
    """A node of this kind."""
    a = graph.tensor(FLOAT, 1, where=lambda v: v.bound < 100)
    x = graph.values[a]
    inner = x.dims[-1]
    others = [n for n, v in graph.values.items() if _multiplies(x, v)]
    if others and graph.chance(0.5):
        b = graph.one_of(others)
    else:
        batch = [1 if graph.chance(0.3) else d for d in x.dims[:-2]]
        batch = batch[graph.random.randint(0, len(batch)) :]
        b = graph.input("float32", [inner] if graph.chance(0.15) else [*batch, inner, graph.dim()])
    y = graph.values[b]
    batch = broadcast(x.dims[:-2], y.dims[:-2]) if x.rank > 2 or y.rank > 2 else ()
    dims = (*batch, *x.dims[-2:-1], *(y.dims[-1:] if y.rank > 1 else ()))
    graph.node("MatMul", [a, b], Value("float32", dims, 1000 * x.bound * y.bound))


def _multiplies(x: Value, y: Value) -> bool:
    if y.dtype != "float32" or y.bound > 100 or y.rank < 2 or y.dims[-2] != x.dims[-1]:
        return False
    return all(a == b or 1 in (a, b) for a, b in zip(x.dims[:-2][::-1], y.dims[:-2][::-1], strict=False))


def gemm(graph: Graph) -> None:
    """A node of this kind."""
    a = graph.tensor(FLOAT, 2, 2, where=lambda v: v.bound < 100)
    x, turned, other = graph.values[a], graph.chance(0.3), graph.chance(0.5)
    rows, inner = x.dims[::-1] if turned else x.dims
    columns = graph.dim()
    b = graph.input("float32", (columns, inner) if other else (inner, columns))
    c = [graph.input("float32", graph.one_of(((columns,), (rows, columns), (1, columns), (rows, 1), ())))]
    names = [a, b, *c] if graph.chance(0.6) else [a, b]
    made = Value("float32", (rows, columns), 5000 * x.bound)
    graph.node("Gemm", names, made, alpha=0.5, transA=int(turned), transB=int(other))


_EINSUMS = (
    "ij,jk->ik",
    "ij,kj->ik",
    "bij,bjk->bik",
    "bhid,bhjd->bhij",
    "ij,ij->i",
    "i,j->ij",
    "ij,j->i",
    "bij,jk->bki",
)
_EINSUMS += ("ij->ji", "ij->j", "bij->ib", "ij,ij->", "bij,bij->bi", "abc,cd->abd", "ij,jk,kl->il")


def einsum(graph: Graph) -> None:
    """A node of this kind."""
    text = graph.one_of(_EINSUMS)
    terms, result = text.split("->")
    letters: dict[str, int | str] = {}
    first, *others = terms.split(",")
    a = graph.tensor(FLOAT, len(first), len(first), where=lambda v: v.bound < 100)
    letters.update(zip(first, graph.values[a].dims, strict=True))
    names = [a]
    for term in others:
        for letter in term:
            letters.setdefault(letter, graph.dim())
        names.append(graph.input("float32", [letters[letter] for letter in term]))
    made = Value("float32", tuple(letters[letter] for letter in result), 5000 * graph.values[a].bound)
    graph.node("Einsum", names, made, equation=text)


def attention(graph: Graph) -> None:
    """softmax(q k^T) v, with a mask now and then."""
    batch = graph.dims(0, 2)
    rows, columns, width, out = (graph.dim() for _ in range(4))
    q, k, v = (graph.input("float32", (*batch, *d)) for d in ((rows, width), (columns, width), (columns, out)))
    order = [*range(len(batch)), len(batch) + 1, len(batch)]
    turned = graph.hidden("Transpose", [k], Value("float32", (*batch, width, columns)), perm=order)
    scores = Value("float32", (*batch, rows, columns), 100)
    made = graph.hidden("MatMul", [q, turned], scores)
    made = graph.hidden("Mul", [made, graph.known(0.125, "float32")], scores)
    if graph.chance(0.4):
        mask = graph.input("float32", graph.one_of(((rows, columns), (columns,), (*batch, 1, columns))))
        made = graph.hidden("Add", [made, mask], scores)
    made = graph.hidden("Softmax", [made], scores, axis=-1)
    graph.node("MatMul", [made, v], Value("float32", (*batch, rows, out), 4))


def convolution(op: str, graph: Graph) -> None:
    """Windows along one or two axes of a fresh image."""
    spatial = graph.random.randint(1, 2)
    channels = graph.one_of((1, 2, 3, 4))
    dims = (graph.dim(), channels, *(graph.one_of(graph.names) for _ in range(spatial)))
    x = graph.input("float32", dims)
    value = Value("float32", dims, 100)
    if op == "GlobalAveragePool":
        graph.node(op, [x], replace(value, dims=(*dims[:2], *[1] * spatial)))
        return
    window = [3] * spatial
    pads = graph.one_of(([1, 1] * spatial, [0, 0] * spatial))
    less = 0 if pads[0] else 2
    made = replace(value, dims=(dims[0], channels, *(f"max({d} - {less}, 0)" if less else d for d in dims[2:])))
    if op == "Conv":
        out = graph.one_of((1, 2, 4))
        w = graph.input("float32", (out, channels, *window))
        made = replace(made, dims=(dims[0], out, *made.dims[2:]))
        graph.node(op, [x, w], made, pads=pads, kernel_shape=window)
    else:
        graph.node(op, [x], made, pads=pads, kernel_shape=window)
