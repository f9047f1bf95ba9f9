"""The choices of a product in parts of bfloat16: tiles of one or two matrices, and where its operands are split."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from ...passes.ir.matrix_registers import MOST_ROW_MATRICES, ROWS
from ...passes.schedule.families.split_blocks import count_matrix_rows
from ...passes.schedule.language.loopnest import KernelValue
from .recipe import NestRecipe

# Rows of a tile: of one matrix, or of two of equal size.
_ROWS_OF_MATRICES = (4, 8, 10, 12, 14, 16, 20, 24, 26, 28, 30, 32)


def list_tiles(
    value: KernelValue, tile: Mapping[str, int], extents: Mapping[str, int]
) -> Iterator[tuple[str, list[int]]]:
    """The axes of rows, with the rows of a tile along each: matrices lie along the last one."""
    *others, last = rows_of(value, tile)
    for axis in others:
        yield axis, [n for n in range(1, MOST_ROW_MATRICES + 1) if n <= extents[axis]]
    most = extents[last]
    yield last, [n for n in (*_ROWS_OF_MATRICES, *([most] if most <= 2 * ROWS else [])) if n <= most]


def rows_of(value: KernelValue, tile: Mapping[str, int]) -> list[str]:
    """The axes of a tile's rows, outermost first."""
    return [axis.name for axis in value.axes if axis.name in tile and axis.name != value.contiguous]


def fit_matrices(value: KernelValue, tile: Mapping[str, int], extents: Mapping[str, int]) -> bool:
    """Return whether the rows of a tile are so many matrices as are multiplied together, and begin where these do."""
    *others, last = rows_of(value, tile)
    rows = tile[last]
    begins = rows <= ROWS or rows % 2 == 0 or rows == extents[last]
    return begins and math.prod(tile[axis] for axis in others) * -(-rows // ROWS) <= MOST_ROW_MATRICES


def set_rows(stages: Sequence[NestRecipe], value: KernelValue, tile: Mapping[str, int]) -> tuple[NestRecipe, ...]:
    """The stages with matrices of as many rows as a tile's have."""
    rows = count_matrix_rows(tile[rows_of(value, tile)[-1]])
    return tuple(replace(stage, matrix_rows=rows) if stage.matrix_rows else stage for stage in stages)
