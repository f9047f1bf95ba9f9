"""Sums over blocks of a quantised weight: of each block a sum of products with its numbers, times its scale."""

from __future__ import annotations

from ...dialects import ir
from ...dialects.builders import element_of
from ...dialects.walk import defining_op
from ..ir.structure import iterator_types, loops_along, num_inputs


def find_block_sum(op: ir.Operation) -> ir.Operation | None:
    """The op whose sums, of blocks, this one adds up times their scales; None where it is no such op."""
    if op.name != "linalg.generic" or num_inputs(op) < 2 or iterator_types(op).count("reduction") != 1:
        return None
    inner = defining_op(op.operands[0])
    if inner is None or inner.name != "linalg.generic" or iterator_types(inner).count("reduction") != 1:
        return None
    if len(list(inner.results[0].uses)) != 1 or numbers_of(inner) is None:
        return None
    blocks, scales = iterator_types(op).index("reduction"), loops_along(op, 1)
    return inner if loops_along(op, 0)[0] == scales[0] == blocks and len(scales) == 2 else None


def numbers_of(inner: ir.Operation) -> int | None:
    """The operand of a block's sum that has the packed numbers: of a block, a step in it, and a column.

    They are in bytes, or in words of four steps.
    """
    summed = iterator_types(inner).index("reduction")
    for number in range(num_inputs(inner)):
        loops = loops_along(inner, number)
        if len(loops) == 3 and loops[1] == summed and str(element_of(inner.operands[number])) in ("i8", "i32"):
            return number
    return None
