"""From dims to dims: indexing maps, the permutation that a transposing copy does, and the groups of a reshape."""

from __future__ import annotations

import math
from collections.abc import Sequence

from ...dialects import builders, ir, tensor
from ...dialects.types import DYNAMIC
from ...dialects.walk import list_items
from .structure import dim_of, index_dim, indexing_maps, is_dynamic, is_tensor, iterator_types, num_inputs, shape_of
from .uses import nested_ops


def set_maps(op: ir.Operation, maps: Sequence[ir.AffineMap]) -> None:
    """Replace a generic's indexing maps."""
    op.attributes["indexing_maps"] = ir.ArrayAttr.get([ir.AffineMapAttr.get(m) for m in maps])


def compose(m: ir.AffineMap, inner: ir.AffineMap) -> ir.AffineMap:
    """``m`` with the results of ``inner`` in the place of its dims."""
    return ir.AffineMap.get(inner.n_dims, 0, [e.compose(inner) for e in m.results])


def order_loops(op: ir.Operation, order: Sequence[int]) -> None:
    """Let a generic walk its loops in an order: the first is its ``order[0]``-th."""
    place = ir.AffineMap.get(len(order), 0, [ir.AffineExpr.get_dim(order.index(d)) for d in range(len(order))])
    kinds = iterator_types(op)
    set_maps(op, [compose(m, place) for m in indexing_maps(op)])
    op.attributes["iterator_types"] = builders.iterators_attr([kinds[d] for d in order])
    for inner in nested_ops(op):
        if inner.name == "linalg.index":
            dim = ir.IntegerAttr(inner.attributes["dim"])
            inner.attributes["dim"] = ir.IntegerAttr.get(dim.type, order.index(index_dim(inner)))


def permute(m: ir.AffineMap, order: Sequence[int]) -> ir.AffineMap:
    """The map whose i-th result is the ``order[i]``-th of ``m``."""
    return ir.AffineMap.get(m.n_dims, 0, [m.results[i] for i in order])


def read_untransposed(op: ir.Operation, number: int, source: ir.Operation, order: Sequence[int]) -> None:
    """Let a generic's operand be what a transposing copy of this ``order``, which makes it, reads."""
    maps = indexing_maps(op)
    maps[number] = permute(maps[number], [order.index(d) for d in range(len(order))])
    op.operands[number] = source.operands[0]
    set_maps(op, maps)


def covers_loops(maps: Sequence[ir.AffineMap]) -> bool:
    """Return whether each loop's extent can be read off some operand, which linalg asks for."""
    return {dim_of(e) for m in maps for e in m.results} >= set(range(maps[0].n_dims))


def is_copy(op: ir.Operation) -> bool:
    """Return whether an op is a generic whose result has elements of its one input, as they are."""
    if op.name != "linalg.generic" or len(op.results) != 1 or num_inputs(op) != 1 or len(op.operands) != 2:
        return False
    body = op.regions[0].blocks[0]
    return len(body.operations) == 1 and body.operations[0].operands[0] == body.arguments[0]


def permutation_of(op: ir.Operation, known: bool = True) -> list[int] | None:
    """The order of dims of a transposing copy, also of the identity; None for any other op.

    With ``known`` copies of open sizes are others too.
    """
    if not is_copy(op):
        return None
    if known and is_dynamic(op):
        return None
    if not is_tensor(op.operands[0]) or builders.element_of(op.operands[0]) != builders.element_of(op.results[0]):
        return None
    source, target = indexing_maps(op)
    dims = [dim_of(e) for e in source.results]
    order = [dim_of(e) for e in target.results]
    if (
        None in dims
        or None in order
        or sorted(map(str, dims)) != sorted(map(str, order))
        or len(set(dims)) != len(dims)
    ):
        return None
    return [dims.index(d) for d in order] if len(dims) == source.n_dims else None


def reassociation_of(view: ir.Operation) -> list[list[int]]:
    """The dims of the larger side of a reshape that make up each dim of the smaller one; a cast keeps them."""
    if view.name == "tensor.cast":
        return [[axis] for axis in range(len(shape_of(view.results[0])))]
    groups = list_items(ir.ArrayAttr(view.attributes["reassociation"]))
    return [[ir.IntegerAttr(i).value for i in list_items(ir.ArrayAttr(group))] for group in groups]


def group_run(rank: int, first: int, count: int) -> list[list[int]]:
    """The groups of a reshape that makes ``count`` dims from ``first`` on one."""
    run = range(first, first + count)
    return [[*run] if dim == first else [dim] for dim in range(rank) if dim not in run[1:]]


def collapse_extents(extents: Sequence[int], groups: Sequence[Sequence[int]]) -> list[int]:
    """The extents of a tensor whose groups of dims are one dim each, as its type has them."""
    sizes = [[extents[dim] for dim in group] for group in groups]
    return [DYNAMIC if any(n < 0 for n in group) else math.prod(group) for group in sizes]


def collapse_dims(value: ir.Value, groups: Sequence[Sequence[int]]) -> ir.Value:
    """A tensor with each group of its dims as one."""
    kind = ir.RankedTensorType.get(collapse_extents(shape_of(value), groups), builders.element_of(value))
    return tensor.CollapseShapeOp(kind, value, [[*group] for group in groups]).result


def find_coefficients(expression: ir.AffineExpr, rank: int) -> tuple[int, list[int]] | None:
    """Constant and coefficients of an affine expression over ``rank`` dims; None where it is not linear."""
    if isinstance(expression, ir.AffineConstantExpr):
        return expression.value, [0] * rank
    if isinstance(expression, ir.AffineDimExpr):
        return 0, [int(i == expression.position) for i in range(rank)]
    if not isinstance(expression, ir.AffineAddExpr | ir.AffineMulExpr):
        return None
    left, right = (find_coefficients(each, rank) for each in (expression.lhs, expression.rhs))
    if left is None or right is None:
        return None
    (c0, v0), (c1, v1) = left, right
    if isinstance(expression, ir.AffineAddExpr):
        return c0 + c1, [a + b for a, b in zip(v0, v1, strict=True)]
    if any(v0) and any(v1):
        return None
    return c0 * c1, [a * c1 + b * c0 for a, b in zip(v0, v1, strict=True)]
