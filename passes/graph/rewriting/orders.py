"""Products with other orders of dims: of the result, in which it is then stored, and of an operand."""

from __future__ import annotations

from collections.abc import Sequence

from ....dialects import builders, extents, ir, linalg, tensor
from ....dialects.walk import defining_op
from ...ir.dynamic_sizes import emit_dynamic_sizes
from ...ir.maps import permute, set_maps
from ...ir.structure import dim_of, indexing_maps, shape_of


def can_reorder_result(op: ir.Operation) -> bool:
    """Return whether a product's sums begin with a number, and each dim of its result is a loop."""
    fill = defining_op(op.operands[2])
    walked = [dim_of(e) for e in indexing_maps(op)[2].results]
    return fill is not None and fill.name == "linalg.fill" and None not in walked


def reorder_result(op: ir.Operation, order: Sequence[int]) -> None:
    """Let a product store its result with the dims in another order; its readers are the caller's affair."""
    fill, maps = defining_op(op.operands[2]), indexing_maps(op)
    assert fill is not None
    with ir.InsertionPoint(op), op.location:
        sizes = iter(emit_dynamic_sizes(op.operands[2]))
        shape = [next(sizes) if n < 0 else n for n in shape_of(op.operands[2])]
        out = tensor.EmptyOp([shape[d] for d in order], builders.element_of(op.results[0]))
        op.operands[2] = linalg.fill(fill.operands[0], out.result)
    maps[2] = permute(maps[2], order)
    set_maps(op, maps)
    op.results[0].set_type(op.operands[2].type)
    extents.forget(op.results[0])


def reorder_operand(op: ir.Operation, number: int, order: Sequence[int]) -> None:
    """Let a product read a transposed copy of an operand."""
    maps = indexing_maps(op)
    with ir.InsertionPoint(op), op.location:
        op.operands[number] = builders.transpose(op.operands[number], order)
    maps[number] = permute(maps[number], order)
    set_maps(op, maps)
