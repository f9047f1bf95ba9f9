"""Rows that are no vector, computed as one: seven pixels in eight lanes, the last of which is not stored."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ....dialects import ir
from ....dialects.builders import element_of
from ....dialects.walk import defining_op
from ...ir.structure import dims_in, indexing_maps, shape_of
from ..language.loopnest import Nest
from ..tiles.axes import power_ceil, result_axis, vector_axis
from ..tiles.regions import Region
from .gather import reads_at_indices


def find_wide_row(nest: Nest, result: ir.Value, staged: Sequence[ir.Value]) -> int:
    """Elements of a vector that takes all of a row of a tile; 0 where none does, or rows are as long as a vector.

    What a tile reads along the row has to be a copy, which then reaches beyond the row: beyond an argument there is
    memory of others.
    """
    if not staged or not nest.tile:
        return 0
    loop, vector = nest.tile[-1], vector_axis(shape_of(result))
    row, extent = loop.parts[0], shape_of(result)[vector]
    wide = power_ceil(row.size)
    if loop.kind != "vectorize" or row.size != extent or wide == extent:
        return 0
    owner = defining_op(result)
    assert owner is not None  # a kernel computes its result
    ops = [op.operation for op in owner.block.operations if op.operation.name == "linalg.generic"]
    return wide if all(_may_widen(op, result, vector, staged) for op in ops) else 0


def widen_row(region: Sequence, vector: int, wide: int) -> Region:
    """A region whose rows are ``wide`` elements long, if that is not 0."""
    if not wide:
        return tuple(region)
    return (*region[:vector], replace(region[vector], size=wide), *region[vector + 1 :])


def _may_widen(op: ir.Operation, result: ir.Value, vector: int, staged: Sequence[ir.Value]) -> bool:
    """Return whether an op computes floats, whatever they are, and reads along rows only what is made or staged."""
    if reads_at_indices(op) or not all(isinstance(element_of(value), ir.FloatType) for value in op.results):
        return False
    for operand, indexing_map in zip(op.operands, indexing_maps(op), strict=True):
        source = defining_op(operand)
        made = source is not None and source.name in ("linalg.generic", "linalg.fill", "tensor.empty")
        walked = {loop for expression in indexing_map.results for loop in dims_in(expression)}
        along = any(result_axis(op, loop, result) == vector for loop in walked)
        if along and not made and operand not in staged:
            return False
    return True
