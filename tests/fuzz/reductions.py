"""Entries for reductions, norms along axes, products and searches."""

from __future__ import annotations

from functools import partial
from typing import Any

from fuzz.elementwise import Entry
from fuzz.graph import FLOATS, Graph, Rejected
from fuzz.values import finite, not_nan, steady

from tilewright.tools.debugging.oracle_difference import has_float_elements

REDUCTIONS = (
    *("ReduceL1", "ReduceL2", "ReduceLogSum", "ReduceLogSumExp", "ReduceMax", "ReduceMean", "ReduceMin", "ReduceProd"),
    *("ReduceSum", "ReduceSumSquare"),
)


def reduction(op: str, g: Graph) -> None:
    x = g.tensor(g.allows(op), where=lambda a: not_nan(a) and (a.size > 0 or g.opset >= 18))
    if (
        op == "ReduceLogSum"
        and not has_float_elements(g.values[x])
        and not (g.values[x].size and (g.values[x] > 0).all())
    ):
        raise Rejected  # an integer that is the logarithm of 0, or of a negative number
    keepdims = g.one_of([0, 1, None])
    axes = g.axes(g.rank(x), 1) if g.rank(x) and g.chance(0.9) else None
    if g.has_attribute(op, "axes"):
        g.node(op, [x], axes=axes, keepdims=keepdims)
    elif axes is None:
        g.node(op, [x], keepdims=keepdims, noop_with_empty_axes=g.one_of([0, 1, None]))
    else:
        g.node(op, [x, g.known(axes)], keepdims=keepdims)


def along_axis(op: str, g: Graph) -> None:
    x = g.tensor(g.allows(op), (1, 5), where=not_nan)
    if g.opset < 13 and g.dtype(x) != "float32":  # the reference knows no other version
        raise Rejected
    g.node(op, [x], axis=g.axis(g.rank(x)) if g.rank(x) == 1 or g.chance(0.8) else None)


def search(op: str, g: Graph) -> None:
    x = g.tensor(g.allows(op), (1, 5), where=lambda a: not_nan(a) and a.size > 0)
    last = g.integer(0, 1) if g.opset >= 12 else None
    g.node(op, [x], axis=g.axis(g.rank(x)), keepdims=g.one_of([0, 1, None]), select_last_index=last)


def top_k(g: Graph) -> None:
    x = g.tensor(g.allows("TopK"), (1, 4), where=lambda a: not_nan(a) and a.size > 0)
    axis = g.axis(g.rank(x))
    k = g.integer(1, g.shape(x)[axis])
    if g.opset < 10:
        g.node("TopK", [x], 2, axis=axis, k=k)
    elif g.opset < 11:
        g.node("TopK", [x, g.known([k])], 2, axis=axis)
    else:
        g.node("TopK", [x, g.known([k])], 2, axis=axis, largest=g.integer(0, 1), sorted=1)


def scan(op: str, g: Graph) -> None:
    x = g.tensor(g.allows(op), (1, 4))
    axis = g.known(g.axis(g.rank(x)), g.one_of(["int64", "int32"]))
    g.node(op, [x, axis], exclusive=g.one_of([0, 1, None]), reverse=g.one_of([0, 1, None]))


def matmul(g: Graph) -> None:
    a = g.tensor(g.allows("MatMul"), (1, 4), where=steady)
    shape = g.shape(a)
    if g.rank(a) >= 2 and g.chance(0.3):  # as the second operand
        batch, (k, _) = shape[:-2], shape[-2:]
        g.node("MatMul", [_calm(g, a, (*_batch(g, batch), g.integer(1, 9), k)), a])
        return
    n = (g.extent(),) if g.chance(0.9) else ()
    batch = _batch(g, shape[:-2]) if n else ()
    g.node("MatMul", [a, _calm(g, a, (*batch, shape[-1], *n))])


def _calm(g: Graph, name: str, shape: tuple[int, ...]) -> str:
    made = g.like(name, shape)
    return made if steady(g.values[made]) else g.fresh(g.dtype(name), shape, "ordinary")


def _batch(g: Graph, batch: tuple[int, ...]) -> tuple[int, ...]:
    kept = tuple(1 if g.chance(0.3) else n for n in batch)
    return kept[g.integer(0, len(kept)) :]


def gemm(g: Graph) -> None:
    a = g.tensor([d for d in g.allows("Gemm") if d in FLOATS], 2, where=steady)
    flip_a, flip_b = g.integer(0, 1), g.integer(0, 1)
    m, k = g.shape(a)[::-1] if flip_a else g.shape(a)
    n = g.integer(1, 20)
    b = _calm(g, a, (n, k) if flip_b else (k, n))
    c = g.like(a, g.one_of([(), (1,), (n,), (1, n), (m, 1), (m, n)]))
    numbers: dict[str, Any] = {name: g.random.uniform(-2, 2) for name in ("alpha", "beta") if g.chance(0.4)}
    g.node("Gemm", [a, b, c if g.opset < 11 or g.chance(0.8) else None], transA=flip_a, transB=flip_b, **numbers)


EQUATIONS = (
    *("ij,jk->ik", "bij,bjk->bik", "bij,jk->bik", "ij,kj", "bhid,bhjd->bhij", "...ij,...jk->...ik", "abc,acd->abd"),
    *("ij->ji", "ijk->kij", "ij,ij->i", "i,j->ij", "bi,bi->b", "ii->i", "ij->"),
)


def _equation(g: Graph) -> str:
    """Any equation of one to three terms; a label may be in some of them, twice in one, and summed up or not."""
    terms = ["".join(g.random.choices("ijkl", k=g.integer(1, 3))) for _ in range(g.integer(1, 3))]
    result = "".join(g.some(sorted(set("".join(terms)))))
    outer = "..." if g.chance(0.2) else ""
    terms = [outer + term if i == 0 or g.chance(0.5) else term for i, term in enumerate(terms)]
    return ",".join(terms) + ("->" + outer + result if outer or g.chance(0.8) else "")


def einsum(g: Graph) -> None:
    equation = g.one_of(EQUATIONS) if g.chance(0.6) else _equation(g)
    dtype, extents, names = g.one_of(g.allows("Einsum")), {}, []
    outer = [g.integer(1, 3), g.integer(1, 3)]
    for term in equation.partition("->")[0].split(","):
        labels = term.removeprefix("...")
        shape = (outer if labels != term else []) + [extents.setdefault(label, g.integer(1, 5)) for label in labels]
        there = [o for o in g.operands if g.dtype(o) == dtype and g.shape(o) == tuple(shape) and steady(g.values[o])]
        names.append(g.one_of(there) if there else g.fresh(dtype, shape, "ordinary"))
    g.node("Einsum", names, equation=equation)


def layer_norm(g: Graph) -> None:
    x = g.tensor(g.allows("LayerNormalization"), (1, 4), where=finite)
    axis = g.axis(g.rank(x))
    shape = g.shape(x)[axis:]
    given = {"axis": axis, "epsilon": g.one_of([None, 1e-3, 1e-5])}
    bias = g.like(x, shape) if g.chance(0.6) else None
    outputs = g.one_of([1, 1, 1, 3]) if g.dtype(x) == "float32" else 1  # the reference gives others x's type
    g.node("LayerNormalization", [x, g.like(x, shape), bias], outputs, **given)


def rms_norm(g: Graph) -> None:
    x = g.tensor(g.allows("RMSNormalization"), (1, 4), where=finite)
    axis = g.axis(g.rank(x))
    g.node("RMSNormalization", [x, g.like(x, g.shape(x)[axis:])], axis=axis)


def attention(g: Graph) -> None:
    """Softmax(q kᵀ · scale + mask) v, node by node, as exporters write it."""
    batch, heads, rows, columns, depth = (
        g.integer(1, 2),
        g.integer(1, 3),
        g.integer(1, 20),
        g.integer(1, 20),
        g.extent(),
    )
    if not depth:
        raise Rejected
    dtype = g.one_of([d for d in FLOATS if d != "bfloat16"])
    q, v = g.fresh(dtype, (batch, heads, rows, depth)), g.fresh(dtype, (batch, heads, columns, depth))
    k = g.fresh(dtype, (batch, heads, columns, depth))
    [turned] = g.node("Transpose", [k], perm=[0, 1, 3, 2])
    [scores] = g.node("MatMul", [q, turned])
    scale: Any = g.fresh(dtype, (), "positive")
    [scores] = g.node(g.one_of(["Mul", "Div"]), [scores, scale])
    if g.chance(0.5):
        mask = g.fresh(dtype, (batch, 1, g.one_of([1, rows]), columns), "ordinary")
        [scores] = g.node("Add", [scores, mask])
    [weights] = g.node("Softmax", [scores], axis=-1 if g.opset >= 13 else 3)
    g.node("MatMul", [weights, v])


ENTRIES: dict[str, Entry] = {
    **{op: partial(reduction, op) for op in REDUCTIONS},
    **{op: partial(along_axis, op) for op in ("Softmax", "LogSoftmax", "Hardmax")},
    "LpNormalization": partial(along_axis, "LpNormalization"),
    **{op: partial(search, op) for op in ("ArgMax", "ArgMin")},
    **{op: partial(scan, op) for op in ("CumSum", "CumProd")},
    "Attention chain": attention,
    "Einsum": einsum,
    "Gemm": gemm,
    "LayerNormalization": layer_norm,
    "MatMul": matmul,
    "RMSNormalization": rms_norm,
    "TopK": top_k,
}
