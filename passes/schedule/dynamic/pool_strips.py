"""Pools along rows of open length: strips of several rows, which are combined ahead for all columns.

A strip's rows go to memory of the thread, with the padding beside them, and are all that its windows read. Blocks along
a row would combine the columns again that their windows share, and copy what they read at the sides of an image.

The padding above and below is read nowhere: where windows reach into it, rows go one by one, and of each window the
steps that lie in the image. Rows shorter than a vector are read from copies of whole vectors, and written likewise.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ....core.target import Target
from ....dialects import func
from ...ir.kernel import list_functions
from ...ir.structure import shape_of
from ..tiles.regions import NotSchedulable
from ..tiling.dynamic_border import DynamicBorder
from ..tiling.part_nests import Chooser
from ..tiling.tiler import may_repeat
from .block_kernels import BlockKernel, Version
from .block_loops import HELD_ROWS, Blocks
from .blocks import make_block
from .part_loops import Computation, Part, Segment
from .pool_stages import PoolStages, separate_pool
from .pool_strip_loops import PoolPart, StripVersion


@dataclass(frozen=True)
class PoolStrips(Blocks):
    """The strips of a pool; ``cuts`` has all axes but the last. stages: its stages."""

    stages: PoolStages

    @property
    def measured(self) -> tuple[func.FuncOp, ...]:
        """Both stages of a block."""
        largest = self.versions[0]
        assert isinstance(largest, StripVersion)
        return (largest.ahead[0].function, largest.blocks[0].function)

    def make_part(self, version: Version, segments: Mapping[int, Segment], computed: Computation) -> Part:
        """What emits the loop over a version's strips."""
        return PoolPart(self.stages, version, segments, computed)

    def __str__(self) -> str:
        [version] = self.versions
        assert isinstance(version, StripVersion)
        return f"strips of rows:\n{version.ahead[0].schedule}\n{version.blocks[0].schedule}"


def choose_pool_strips(function: func.FuncOp, choose: Chooser, target: Target) -> PoolStrips:
    """A pool of windows of several rows and columns, with schedules that ``choose`` gives for the blocks.

    Raises NotSchedulable where a kernel is no such one, or no family takes a block.
    """
    result = DynamicBorder.of(function).inner
    if not may_repeat(result):
        raise NotSchedulable("blocks overlap, and the result may lie over an operand")
    stages = separate_pool(function)
    ahead, last = (list_functions(module)[0] for module in stages.modules)
    rank = len(shape_of(result))

    def make_blocks(stage: func.FuncOp) -> tuple[BlockKernel, ...]:
        return tuple(make_block(stage, (*[1] * (rank - 1), n), {}, choose) for n in (4 * target.lanes, target.lanes))

    combined = make_blocks(ahead)
    largest = StripVersion((*[1] * (rank - 1), 4 * target.lanes), make_blocks(last), combined)
    cuts = {axis: (1,) for axis in range(rank - 1) if axis == rank - 2 or shape_of(result)[axis] != 1}
    return PoolStrips((largest,), cuts, (), 1, HELD_ROWS, stages)
