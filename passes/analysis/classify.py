"""Classifies ops by their indexing maps, iterator types and bodies, never by their names.

``classify_op`` is the one place that decides this: named ops, generics of any frontend, and generics whose loops or
operand layouts a pass has permuted are the same thing to every later stage. Each kind (``kinds.py``) says which loops
of the op play which role.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence

from ...dialects import ir
from ...dialects.walk import defining_op, integer_of, is_constant
from ..ir.byte_words import Words, read_byte_products
from ..ir.facts import known_facts
from ..ir.structure import (
    AnyOp,
    body_ops,
    dim_of,
    dims_in,
    has_reduction,
    indexing_maps,
    is_projection,
    is_structured,
    is_zero,
    iterator_types,
    loop_extents,
    num_inputs,
)
from .kinds import (
    Broadcast,
    Contraction,
    Conv,
    DepthwiseConv,
    Elementwise,
    Fill,
    Injective,
    Opaque,
    OpClass,
    Pooling,
    Reduction,
    Transform,
)


def classify_op(op: AnyOp) -> OpClass:
    """The kind of an op on tensors, whatever their sizes; Opaque for what is none of the others."""
    facts, op = known_facts(), op.operation
    if facts is None or op.name != "linalg.generic":
        return _find_kind(op) if is_structured(op) else Opaque()
    key = _describe_generic(op)
    if (kind := facts.get(key)) is None:
        kind = facts[key] = _find_kind(op)
    return kind


def classify_sum(op: AnyOp) -> OpClass | None:
    """The kind of a generic that sums over a loop; None for any other op, of which not more is asked.

    Of a network's ops few are products, for which many passes look.
    """
    op = op.operation
    if op.name != "linalg.generic" or not has_reduction(op):
        return None
    return classify_op(op)


def _describe_generic(op: ir.Operation) -> Hashable:
    """All that the kind of an op depends on: generics that have the same are of the same kind."""
    attributes, operands, body = op.attributes, list(op.operands), op.regions[0].blocks[0]
    iterators = attributes["iterator_types"]
    steps: list[Hashable] = []
    numbers: dict[ir.Value, int] | None = None
    if has_reduction(op):  # else only what the steps are called counts
        numbers = {argument: number for number, argument in enumerate(body.arguments)}

    def visit(inner: ir.Operation) -> ir.WalkResult:
        steps.append(inner.name)
        if numbers is not None:
            steps.extend(numbers[v] if v in numbers else (-1, integer_of(v)) for v in inner.operands)
            numbers.update((made, len(numbers)) for made in inner.results if not is_constant(made))
        return ir.WalkResult.ADVANCE

    op.walk(visit, ir.WalkOrder.PRE_ORDER)  # half of what the wrappers of a block's ops take
    constant = [is_constant(v) for v in operands] if len(operands) > 3 else ()  # matrices of a transform
    types = (v.type for v in operands)
    return (iterators, attributes["indexing_maps"], attributes["operandSegmentSizes"], *types, *steps, *constant)


def _find_kind(op: ir.Operation) -> OpClass:
    maps, kinds = indexing_maps(op), iterator_types(op)
    inputs, outputs = maps[: num_inputs(op)], maps[num_inputs(op) :]
    parallel = tuple(d for d, kind in enumerate(kinds) if kind == "parallel")
    reduction = tuple(d for d, kind in enumerate(kinds) if kind == "reduction")
    if not outputs or len(parallel) + len(reduction) != len(kinds):
        return Opaque()
    body = body_ops(op)
    if any(len(inner.regions) for inner in body):  # loops in a body: what they read is not in sight
        return Opaque()
    if any(dim_of(e) not in parallel for m in outputs for e in m.results):
        return Opaque()
    light = _classify_parallel(op, body, inputs, outputs[0], parallel) if not reduction else None
    if light is not None:
        return light
    transform = _as_transform(op, inputs, parallel, reduction)
    if transform is not None:
        return transform
    if all(is_projection(m) for m in inputs):
        return _as_contraction(op, inputs, parallel, reduction) or Reduction(parallel, reduction)
    return _as_windowed(op, inputs, outputs[0]) or Opaque()


def _classify_parallel(
    op: AnyOp, body: list[ir.Operation], inputs: list[ir.AffineMap], output: ir.AffineMap, parallel: tuple[int, ...]
) -> OpClass:
    names = {o.name for o in body}
    if "tensor.extract" in names:
        return Injective(parallel)
    tensors = [
        m for m, v in zip(inputs, op.operation.operands, strict=False) if isinstance(v.type, ir.RankedTensorType)
    ]
    if not tensors and not names:
        return Fill(parallel)
    domain = list(output.results)
    if all(list(m.results) == domain for m in tensors):
        return Elementwise(parallel)
    extents = loop_extents(op)
    walked = [d for d in map(dim_of, domain) if d is not None and extents[d] != 1]
    return Broadcast(parallel) if all(_is_broadcast(m, walked) for m in tensors) else Injective(parallel)


def _is_broadcast(m: ir.AffineMap, walked: list[int]) -> bool:
    """Return whether the map's loops are in the order of ``walked``. Constants and other loops have extent 1."""
    if not is_projection(m):
        return False
    places = [walked.index(d) for d in map(dim_of, m.results) if d in walked]
    return places == sorted(places)


def _as_contraction(
    op: AnyOp, inputs: list[ir.AffineMap], parallel: tuple[int, ...], reduction: tuple[int, ...]
) -> Contraction | None:
    if len(inputs) != 2 or not _is_multiply_add(op):
        return None
    lhs, rhs = ({d for e in m.results for d in dims_in(e)} for m in inputs)
    batch = tuple(d for d in parallel if d in lhs and d in rhs)
    m = tuple(d for d in parallel if d in lhs and d not in rhs)
    n = tuple(d for d in parallel if d in rhs and d not in lhs)
    if len(batch) + len(m) + len(n) != len(parallel) or not (m or n):
        return None  # a loop that only the output has, or a sum of products without any reuse
    if any(d not in lhs or d not in rhs for d in reduction):
        return None
    return Contraction(batch, m, n, reduction)


def _as_transform(
    op: AnyOp, inputs: list[ir.AffineMap], parallel: tuple[int, ...], reduction: tuple[int, ...]
) -> Transform | None:
    """A sum of products of data with two or more constant matrices; one alone is a contraction."""
    operands = list(op.operation.operands)
    matrices = [i for i, m in enumerate(inputs) if len(m.results) == 2 and is_constant(operands[i])]
    others = [i for i in range(len(inputs)) if i not in matrices]
    if len(matrices) < 2 or len(others) != 1 or len(operands) != len(inputs) + 1:
        return None
    columns = {dim_of(inputs[i].results[1]): i for i in matrices}
    rows = {d for i in matrices for d in dims_in(inputs[i].results[0])}
    if set(columns) != set(reduction) or not rows <= set(parallel) or not _is_product_sum(op):
        return None
    return Transform(parallel, reduction, others[0], tuple(columns[r] for r in reduction))


# What multiplies, by what adds.
_MULTIPLIERS = {"arith.addf": "arith.mulf", "arith.addi": "arith.muli"}


def _is_product_sum(op: AnyOp) -> bool:
    """Return whether the body is ``acc`` plus the product of all other arguments."""
    block = op.operation.regions[0].blocks[0]
    *factors, acc = block.arguments
    add = defining_op(block.operations[len(block.operations) - 1].operation.operands[0])
    if add is None or add.name not in _MULTIPLIERS or acc not in add.operands:
        return False
    pending, found = [v for v in add.operands if v != acc], []
    while pending:
        value = pending.pop()
        product = defining_op(value)
        if product is not None and product.name == _MULTIPLIERS[add.name]:
            pending += list(product.operands)
        else:
            found.append(value)
    return len(found) == len(factors) and all(v in found for v in factors)


def _as_windowed(op: AnyOp, inputs: list[ir.AffineMap], output: ir.AffineMap) -> OpClass | None:
    """A convolution or a pool: one operand has spatial results ``o * stride + k * dilation``, the other none.

    A pool may have more operands after them, which are read at its results' places.
    """
    if len(inputs) < 2:
        return None
    data = 0 if not is_projection(inputs[0]) else 1
    out_dims = [d for e in output.results for d in dims_in(e)]
    windows = [_window(e, out_dims) for e in inputs[data].results]
    plain = {dim_of(e) for e in inputs[data].results} - {None}
    if not is_projection(inputs[1 - data]) or any(w is None for w in windows):
        return None
    if any(not is_projection(m) or not {d for e in m.results for d in dims_in(e)} <= set(out_dims) for m in inputs[2:]):
        return None
    spatial = [w for w in windows if isinstance(w, tuple)]
    if not spatial:  # a diagonal
        return None
    o, k, strides, dilations = (tuple(column) for column in zip(*spatial, strict=True))
    if len({*o, *k, *plain}) != len(o) + len(k) + len(plain):
        return None
    other = {d for e in inputs[1 - data].results for d in dims_in(e)}
    n_loops = set(range(output.n_dims))
    if _is_window_reduction(op, data) and other <= set(k) and {*out_dims, *k} == n_loops:
        return Pooling(tuple(d for d in out_dims if d not in o), o, k, strides, dilations, data)
    if len(inputs) > 2 or not _is_multiply_add(op) or not set(k) <= other or other & {*o}:
        return None  # a weight has a number for each step of a window, and the same ones in each place
    n = tuple(d for d in out_dims if d in plain and d not in other)
    g = tuple(d for d in out_dims if d in plain and d in other)
    f = tuple(d for d in out_dims if d in other and d not in plain)
    c = tuple(sorted(d for d in other if d in plain and d not in out_dims))
    if {*n, *g, *f, *o, *c, *k} != n_loops:
        return None
    if g and not c:
        return DepthwiseConv(n, g, o, k, strides, dilations, data, 1 - data, f)
    return Conv(n, g, f, o, c, k, strides, dilations, data, 1 - data)


def _window(expr: ir.AffineExpr, out_dims: Sequence[int]) -> tuple[int, int, int, int] | str | None:
    """``(o, k, stride, dilation)`` of a spatial result, "plain" for a loop or 0, None for anything else."""
    if dim_of(expr) is not None or is_zero(expr):
        return "plain"
    if not isinstance(expr, ir.AffineAddExpr):
        return None
    terms = [_read_scaled_dim(expr.lhs), _read_scaled_dim(expr.rhs)]
    if None in terms:
        return None
    terms = sorted((t for t in terms if t), key=lambda t: t[0] not in out_dims)
    (o, stride), (k, dilation) = terms
    return (o, k, stride, dilation) if o in out_dims and k not in out_dims else None


def _read_scaled_dim(expr: ir.AffineExpr) -> tuple[int, int] | None:
    """``d * factor`` as (d, factor)."""
    if isinstance(expr, ir.AffineDimExpr):
        return expr.position, 1
    if isinstance(expr, ir.AffineMulExpr):
        parts = (expr.lhs, expr.rhs)
        dims = [e.position for e in parts if isinstance(e, ir.AffineDimExpr)]
        factors = [e.value for e in parts if isinstance(e, ir.AffineConstantExpr)]
        return (dims[0], factors[0]) if len(dims) == len(factors) == 1 and factors[0] > 0 else None
    return None


# Conversions may stand between an operand and the multiply-add: quantized and half-precision operands widen.
_CASTS = {"arith.extf", "arith.extsi", "arith.extui", "arith.sitofp", "arith.uitofp", "arith.truncf"}
_PRODUCTS, _SUMS = {"arith.mulf", "arith.muli"}, {"arith.addf", "arith.addi"}


def _is_multiply_add(op: AnyOp) -> bool:
    """Return whether the body is ``acc + x * y`` of its three arguments, up to order and conversions.

    Or all four products of the bytes of two words, of which the first has unsigned ones.
    """
    block = op.operation.regions[0].blocks[0]
    results = block.operations[len(block.operations) - 1].operation.operands
    add = defining_op(_strip_casts(results[0]))
    if len(block.arguments) != 3 or len(results) != 1 or add is None or add.name not in _SUMS:
        return False
    if multiplies_words(op):
        return True
    x, y, acc = block.arguments
    products = [v for v in add.operands if _strip_casts(v) != acc]
    product = defining_op(_strip_casts(products[0])) if len(products) == 1 else None
    if product is None or product.name not in _PRODUCTS:
        return False
    sources = [_strip_casts(v) for v in product.operands]
    return sources == [x, y] or sources == [y, x]


def multiplies_words(op: AnyOp) -> bool:
    """Return whether the body adds to its last argument the products of the bytes of the others, two words."""
    block = op.operation.regions[0].blocks[0]
    added = defining_op(block.operations[len(block.operations) - 1].operation.operands[0])
    words = read_byte_products(added) if added is not None and len(block.arguments) == 3 else None
    return words is not None and [Words(v) if i < 2 else v for i, v in enumerate(block.arguments)] == list(words)


def _is_window_reduction(op: AnyOp, data: int) -> bool:
    """Return whether the body combines the data with the accumulator and never looks at the window operand."""
    return not list(op.operation.regions[0].blocks[0].arguments[1 - data].uses)


def _strip_casts(value: ir.Value) -> ir.Value:
    producer = defining_op(value)
    while producer is not None and producer.name in _CASTS:
        value = producer.operands[0]
        producer = defining_op(value)
    return value
