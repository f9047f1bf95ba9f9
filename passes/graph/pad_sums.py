"""Sums of bytes get zeros at their end, so that registers that hold matrices take equal parts of them."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

from ...core.target import Target, detect_host
from ...dialects import builders, ir
from ..analysis.classify import classify_op
from ..analysis.kinds import Contraction
from ..infra.base import Pass
from ..ir.edit import list_programs
from ..ir.matrix_registers import COLUMNS, ROWS, pad_length, steps_at_once
from ..ir.structure import dim_of, indexing_maps, is_static, list_ops, loop_extents, shape_of
from ..schedule.tiling.grouped_sums import find_grouped_sum, group_of, operand_bits

# Products of a sum along all results from which on the copy of the data pays: 32 x 257 x 64 take 0.99 of their time.
_FEWEST_PRODUCTS = 1 << 19
# How many times as many instructions a sum has to take as it stands.
_WORTH = 2


@dataclass(frozen=True)
class PadSums(Pass):
    """Pad both operands of a product of bytes along its sum, where the target's registers hold matrices (AMX).

    An instruction takes up to 64 steps of a sum, as many each time, in groups of four. Sums of 257 steps would be
    products of vectors, and those of 272 would take 17 instructions, 16 steps each, for which 5 are enough.

    Before::

        %c = linalg.generic {contraction, (m, k), (k, n)} ins(%x: tensor<197x257xi8>, %w: tensor<257x512xi8>)

    After::

        %p = tensor.pad %x low[0, 0] high[0, 63]
        %q = tensor.pad %w low[0, 0] high[63, 0]
        %c = linalg.generic {contraction, (m, k), (k, n)} ins(%p: tensor<197x320xi8>, %q: tensor<320x512xi8>)

    200 x 513 by 256 then take 0.4 of their time. Small products stay as they are.

    Options:
        target: the machine; None is this one.
    """

    name: ClassVar[str] = "pad-sums"
    opt_level: ClassVar[int] = 2
    target: Target | None = None

    def apply(self, module: ir.Module) -> None:
        """Pad the products of all programs."""
        target = self.target or detect_host()
        for function in list_programs(module):
            for op in list_ops(function):
                if op.name == "linalg.generic":
                    _pad_product(op, target)


def _pad_product(op: ir.Operation, target: Target) -> None:
    kind = classify_op(op)
    if not isinstance(kind, Contraction) or not all(is_static(value) for value in op.operands):
        return
    loop = find_grouped_sum(op, kind, target)
    if loop is None or not target.multiplies_matrices(operand_bits(op)):
        return
    extents, group = loop_extents(op), group_of(op.operands[0])
    rows, columns = (math.prod(extents[d] for d in loops) for loops in (kind.m, kind.n))
    padded = pad_length(extents[loop], group)
    if rows < ROWS or columns < 2 * COLUMNS or math.prod(extents) < _FEWEST_PRODUCTS:
        return
    if not _takes_fewer(extents[loop], padded, group):
        return
    with ir.InsertionPoint(op), op.location:
        for number in (kind.lhs, kind.weight):
            walked = [dim_of(e) for e in indexing_maps(op)[number].results]
            op.operands[number] = _pad_end(op.operands[number], walked.index(loop), padded)


def _takes_fewer(length: int, padded: int, group: int) -> bool:
    """Return whether a sum of a length takes several times as many instructions as of the padded one."""
    steps = steps_at_once(length, group)
    return steps == 0 or length // steps >= _WORTH * (padded // steps_at_once(padded, group))


def _pad_end(value: ir.Value, dim: int, length: int) -> ir.Value:
    shape = shape_of(value)
    high = [length - extent if d == dim else 0 for d, extent in enumerate(shape)]
    return builders.pad(value, [0] * len(shape), high, builders.scalar(0, builders.element_of(value)))
