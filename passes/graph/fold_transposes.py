"""Contractions read and write transposed values in place."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from ...dialects import ir
from ...dialects.walk import defining_op
from ..analysis.classify import classify_sum
from ..analysis.kinds import Contraction
from ..infra.base import Pass
from ..ir.edit import list_programs
from ..ir.maps import permutation_of, read_untransposed
from ..ir.structure import list_ops
from ..ir.uses import users_of
from .rewriting.orders import can_reorder_result, reorder_result


@dataclass(frozen=True)
class FoldTransposes(Pass):
    """Let contractions read the source of a transpose, or write what a transpose of their result would be.

    Before::

        %t = linalg.generic {(q, h, d) -> (h, q, d)} ins(%x)
        %c = linalg.generic {contraction, (h, q, d), (h, d, n), (h, q, n)} ins(%t, %y)
        %u = linalg.generic {(h, q, n) -> (q, h, n)} ins(%c)

    After::

        %u = linalg.generic {contraction, (q, h, d), (h, d, n), (q, h, n)} ins(%x, %y)

    Only transposes that leave the innermost dim where it is: rows are then still read and written whole.
    """

    name: ClassVar[str] = "fold-transposes"
    opt_level: ClassVar[int] = 1

    def apply(self, module: ir.Module) -> None:
        """Fold the transposes around the contractions of all programs."""
        for function in list_programs(module):
            # All are found before any is changed: the transpose of a result is erased, and comes later in the program.
            for op in [op for op in list_ops(function) if isinstance(classify_sum(op), Contraction)]:
                _fold_operands(op)
                _fold_result(op)


def _fold_operands(op: ir.Operation) -> None:
    for i in range(2):
        source = defining_op(op.operands[i])
        order = _outer_order(source)
        if source is not None and order is not None:
            read_untransposed(op, i, source, order)


def _fold_result(op: ir.Operation) -> None:
    """The transpose of the result, its only reader, goes; the contraction takes its place in the program."""
    readers = users_of(op)
    order = _outer_order(readers[0]) if len(readers) == 1 else None
    if order is None or not can_reorder_result(op):
        return
    reorder_result(op, order)
    readers[0].results[0].replace_all_uses_with(op.results[0])
    readers[0].erase()


def _outer_order(op: ir.Operation | None) -> list[int] | None:
    """The order of a transpose that keeps the innermost dim; None for anything else."""
    order = permutation_of(op, known=False) if op is not None else None
    return order if order and order != sorted(order) and order[-1] == len(order) - 1 else None
