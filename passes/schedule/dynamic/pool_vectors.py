"""Pools along rows of open length, of which vectors are stored by masks: their windows are combined in registers.

A vector has the columns that windows beside each other read. The rows of these windows are combined first, then the
columns by shuffles: nothing is written that is read again, and no row is too short. Lanes beyond the sides of an image
have the initial value. Windows that reach beyond it above or below take the steps that lie in it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from ....core.target import Target
from ....dialects import func, ir
from ....dialects.builders import element_of
from ....dialects.walk import defining_op
from ...analysis.kinds import Pooling
from ...ir.edit import splat_of
from ...ir.kernel import list_functions
from ...ir.structure import body_ops, loop_extents, loops_along, shape_of
from ..families.family import find_anchors
from ..separate_windows import initial_of
from ..tiles.axes import power_ceil, result_axis
from ..tiles.regions import NotSchedulable
from ..tiling.dynamic_border import DynamicBorder, is_dynamic_padding
from ..tiling.part_nests import Chooser
from ..tiling.pool_windows import combiner_of, combines_parts, windows_of
from ..tiling.tiler import may_repeat
from .block_kernels import KeptFunction, Version
from .block_loops import HELD_ROWS, Blocks
from .block_parts import block_module
from .blocks import make_block
from .dynamic_rows import copy_inner, stage_module
from .part_loops import Computation, Part, Segment
from .pool_vector_loops import PooledRows, PoolVectorPart, WindowVector

# What combines, with the initial values that change nothing.
_COMBINERS = {"arith.maximumf": -math.inf, "arith.minimumf": math.inf, "arith.addf": 0.0}


@dataclass(frozen=True)
class PoolVectors(Blocks):
    """The rows of a pool; ``cuts`` has all axes but the last. pool: how it is computed. block: has a vector's work."""

    pool: PooledRows
    block: KeptFunction

    @property
    def measured(self) -> tuple[func.FuncOp, ...]:
        """The function of one vector."""
        return (self.block.function,)

    @property
    def summed_steps(self) -> int:
        """See ``Blocks``: a window's are known."""
        return 1

    def make_part(self, version: Version, segments: Mapping[int, Segment], computed: Computation) -> Part:
        """What emits the loop over rows."""
        return PoolVectorPart(self.pool, version, segments, computed)

    def __str__(self) -> str:
        columns = " or ".join(str(vector.windows) for vector in self.pool.vectors)
        made = "".join(f"\n{vector.rest.schedule}" for vector in self.pool.vectors if vector.rest is not None)
        return f"windows of rows in registers, {columns} beside each other{made}"


def choose_pool_vectors(function: func.FuncOp, choose: Chooser, target: Target) -> PoolVectors:
    """A pool of float32 along rows, with schedules that ``choose`` gives for what follows it.

    Raises NotSchedulable where a kernel is no such one, or where the target stores no vectors by masks.
    """
    if not target.stores_by_masks:
        raise NotSchedulable("no vectors that are stored by masks")
    if not may_repeat(DynamicBorder.of(function).inner):
        raise NotSchedulable("the result may lie over an operand")
    module, result = copy_inner(function)
    copied = list_functions(module)[0]
    op, kind, pad = _find_row_pool(copied, result)
    windows, extents = windows_of(op, kind), loop_extents(op)
    data = op.operands[kind.data]
    low = list(ir.DenseI64ArrayAttr(pad.attributes["static_offsets"])) if pad is not None else [0] * len(shape_of(data))
    read = pad.operands[0] if pad is not None else data
    combiner = combiner_of(op)
    if combiner is None or not isinstance(read, ir.BlockArgument):
        raise NotSchedulable("what is made in the kernel is pooled")
    rest = None if result == op.results[0] else KeptFunction(stage_module(copied, result, [op.results[0]]))
    rank, last = len(low), windows[-1]
    span = (extents[last.k] - 1) * last.dilation + 1

    def make_vector(lanes: int) -> WindowVector | None:
        count = (lanes - span) // last.stride + 1
        if count < target.lanes // 4:
            return None
        made = power_ceil(count)
        block = make_block(rest.function, (*[1] * (rank - 1), made), {}, choose) if rest is not None else None
        return WindowVector(lanes, count, made, block)

    vectors = [made for n in (2 * target.lanes, target.lanes) if (made := make_vector(n)) is not None]
    if not vectors:
        raise NotSchedulable("windows that are wider than vectors")
    sizes = [extents[window.k] for window in windows]
    initial = _COMBINERS[combiner.name]
    pool = PooledRows(rest, read.arg_number, windows, sizes, tuple(low), combiner.name, initial, tuple(vectors))
    work = KeptFunction(block_module(copied, (*[1] * (rank - 1), target.lanes), {}))
    cuts = {axis: (1,) for axis in range(rank - 1) if axis == rank - 2 or shape_of(result)[axis] != 1}
    single = Version((*[1] * (rank - 1), target.lanes), ())
    return PoolVectors((single,), cuts, (), 1, HELD_ROWS, pool, work)


def _find_row_pool(function: func.FuncOp, result: ir.Value) -> tuple[ir.Operation, Pooling, ir.Operation | None]:
    """The one anchor of a function, a pool along rows of open length, and the padding of what it reads, if any.

    Raises NotSchedulable where there is no such pool.
    """
    anchors = find_anchors(function)
    op, kind = anchors[0] if len(anchors) == 1 else (None, None)
    if op is None or not isinstance(kind, Pooling) or not combines_parts(op):
        raise NotSchedulable("no pool")
    combiner, first, windows = combiner_of(op), splat_of(initial_of(op)), windows_of(op, kind)
    if combiner is None or _COMBINERS.get(combiner.name) != first or len(body_ops(op)) > 1:
        raise NotSchedulable("a pool of something else than maxima and sums")
    made, rank = shape_of(result), len(shape_of(op.operands[kind.data]))
    axes = [None if loop is None else result_axis(op, loop, result) for loop in loops_along(op, -1)]
    if axes != list(range(rank)) or len(made) != rank or made[-1] >= 0 or rank < 2:
        raise NotSchedulable("no rows of open length, or in another order")
    extents = loop_extents(op)
    if not windows or windows[-1].axis != rank - 1 or any(extents[window.k] < 0 for window in windows):
        raise NotSchedulable("windows that do not move along rows")
    if not all(isinstance(element_of(value), ir.F32Type) for value in (op.operands[kind.data], result)):
        raise NotSchedulable("vectors of other lengths")
    pad = defining_op(op.operands[kind.data])
    if pad is not None and not (is_dynamic_padding(pad) and _pads_with(pad, first)):
        raise NotSchedulable("what is made in the kernel is pooled")
    return op, kind, pad


def _pads_with(pad: ir.Operation, value: float | int | None) -> bool:
    around = defining_op(pad.operands[1])
    return around is not None and splat_of(around.operands[0]) == value
