"""The kernels that compute blocks of fixed sizes, by the sizes of the blocks."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from ....dialects import func, ir
from ...ir.kernel import list_functions
from ...ir.structure import has_reduction, list_ops, shape_of
from ..language.schedule import Schedule


class OneFunction:
    """What owns a module with one function; the function lives as long as the module."""

    module: ir.Module

    @property
    def function(self) -> func.FuncOp:
        """The function."""
        return list_functions(self.module)[0]


@dataclass(frozen=True)
class KeptFunction(OneFunction):
    """A module for the sake of its function."""

    module: ir.Module


@dataclass(frozen=True)
class BlockKernel(OneFunction):
    """A module with the one function that computes a block, and its schedule. ``sums``: sizes of chunks by loops.

    whole: whether the function stands for the sum of all chunks, however many there are, not for one that is added.
    """

    module: ir.Module
    schedule: Schedule
    sums: Mapping[int, int]
    whole: bool = False

    @property
    def sums_whole(self) -> bool:
        """Return whether all elements of the result are computed with one sum: that of an image that is normalized."""
        *ops, end = list_ops(self.function)
        [result] = end.operands
        sums = [op.results[0] for op in ops if op.name == "linalg.generic" and has_reduction(op)]
        return math.prod(shape_of(result)) > 1 and any(math.prod(shape_of(value)) == 1 for value in sums)


@dataclass(frozen=True)
class Version:
    """``sizes`` of the result's blocks, and one of them for each size of the chunks that are summed up."""

    sizes: tuple[int, ...]
    blocks: tuple[BlockKernel, ...]

    @property
    def has_common(self) -> bool:
        """Return whether the steps of its blocks share something that is computed or filled before them."""
        ahead = any(not stage.at for block in self.blocks for stage in block.schedule.stages)
        return ahead or any(block.sums_whole for block in self.blocks)
