"""Products get columns: the right operand and the result lie along the same loop."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence, Set
from dataclasses import dataclass
from typing import ClassVar

from ...dialects import builders, ir, scalars
from ...dialects.walk import defining_op
from ..analysis.classify import classify_sum
from ..analysis.kinds import Contraction, Conv
from ..infra.base import Pass
from ..ir.edit import body_of, list_programs, param_values, replace, splat_of
from ..ir.maps import compose, permutation_of, read_untransposed, set_maps
from ..ir.structure import (
    has_reduction,
    indexing_maps,
    is_static,
    iterator_types,
    list_ops,
    loop_extents,
    loops_along,
    num_inputs,
)
from ..ir.uses import has_one_use
from ..schedule.tiling.values import sums_along_rows
from .rewriting.orders import can_reorder_result, reorder_operand, reorder_result
from .rewriting.whole_windows import covers_image, multiply_image

# Rows, and columns, from which it is worth moving what they read: fewer are dot products of operands as they lie. 7
# rows of 512 by 512 take 0.6 of the time.
_ENOUGH_ROWS, _ENOUGH = 4, 8
# Rows, or columns, for which a transpose takes longer than it saves.
_TOO_FEW = 2
# Columns that read a left operand again and again, and steps of a sum, from which on rows that lie apart take longer
# than a transpose: products of 512 or 1,024 by as many take 0.7 and 0.5 of their time with one, of 64 columns 0.8.
_MANY_COLUMNS, _LONG_SUM = 64, 128
# What dynamic extents count as.
_LIKELY = 128


@dataclass(frozen=True)
class ArrangeProducts(Pass):
    """Let the right operand and the result of a product lie along the same loop, its columns, which vectors take whole.

    Before::

        %y = linalg.generic {contraction, (m, k), (n, k), (m, n)} ins(%a, %b)
        %z = linalg.generic {contraction, (m, k), (k, n), (n, m)} ins(%a, %c)

    After::

        %t = linalg.generic {(n, k) -> (k, n)} ins(%b)
        %y = linalg.generic {contraction, (m, k), (k, n), (m, n)} ins(%a, %t)
        %u = linalg.generic {contraction, (m, k), (k, n), (m, n)} ins(%a, %c)
        %z = linalg.generic {(m, n) -> (n, m)} ins(%u)

    The columns are the loop, of any of the operands, for which the fewest elements are moved. Weights count nothing,
    since `split-prepare` moves them ahead of time. What few rows read, or few columns have, is not moved, and a
    transpose of a model's that one row or two read is left out: of the keys of all tokens before, in a decoder.
    A left operand whose rows lie along another loop than the sum is transposed, too, where that pays. Columns of which
    there are only two to four become rows where sums are long: products of two rows leave no part of a vector empty.
    """

    name: ClassVar[str] = "arrange-products"
    opt_level: ClassVar[int] = 1

    def apply(self, module: ir.Module) -> None:
        """Arrange the contractions of all programs whose operands are floats."""
        for function in list_programs(module):
            weights = param_values(function)
            for op in list_ops(function):
                kind = classify_sum(op)
                if isinstance(kind, Conv) and covers_image(op, kind, weights):
                    op = multiply_image(op, kind)
                    kind = classify_sum(op)
                if not isinstance(kind, Contraction):
                    continue
                if _has_one_step(op):
                    _drop_sum(op)
                else:
                    _Product(op, kind, weights).arrange()


def _has_one_step(op: ir.Operation) -> bool:
    """Return whether a product's sums have one step; not where it weighs sums, as those of packed blocks."""
    steps = [n for n, kind in zip(loop_extents(op), iterator_types(op), strict=True) if kind == "reduction"]
    sources = [source for value in op.operands if (source := defining_op(value)) is not None]
    of_sums = any(source.name == "linalg.generic" and has_reduction(source) for source in sources)
    return {*steps} == {1} and splat_of(op.operands[num_inputs(op)]) == 0 and not of_sums


def _drop_sum(op: ir.Operation) -> None:
    """Let a product whose sums have one step have its parallel loops alone."""
    kinds, body = iterator_types(op), body_of(op)
    kept = [loop for loop, kind in enumerate(kinds) if kind == "parallel"]
    places = [
        ir.AffineExpr.get_dim(kept.index(d)) if d in kept else ir.AffineExpr.get_constant(0) for d in range(len(kinds))
    ]
    inner = ir.AffineMap.get(len(kept), 0, places)
    maps = [compose(m, inner) for m in indexing_maps(op)]

    def compute(*arguments: ir.Value) -> ir.Value:
        return body(*arguments[:-1], scalars.like(arguments[-1], 0))

    with ir.InsertionPoint(op), op.location:
        [*inputs, out] = op.operands
        replace(op, builders.generic(inputs, [out], maps, "p" * len(kept), compute))


@dataclass(frozen=True)
class _Product:
    op: ir.Operation
    kind: Contraction
    weights: Set[ir.Value]

    def arrange(self) -> None:
        """Move what has to be moved for the best columns, if there are any."""
        if not self._is_plain():
            return
        for number in range(2):
            self._read_in_place(number)
        if self._has_few_columns():
            reorder_operand(self.op, 1, self._order_along(1, self.kind.k))
            return
        last = self._innermost(2, self.loops)
        columns = min(self._candidates(last), key=lambda loop: self._count_moved(loop, last), default=None)
        if columns is None:
            return
        if columns != last:
            self._store_along(columns)
        if columns in self.kind.m:
            _exchange_operands(self.op)
        if not self._lies_along(1, columns) and not self._is_packed(1):
            reorder_operand(self.op, 1, self._order_along(1, [columns]))
        self._sum_along_rows(self.kind.m if columns in self.kind.m else self.kind.n)

    def _has_few_columns(self) -> bool:
        """Return whether so few columns are read by many rows that they had better be rows, too.

        `pack-weights` orders those of weights.
        """
        along = self._innermost(1, (*self.loops, *self.kind.k)) in self.kind.k
        if along or self.op.operands[1] in self.weights or not all(is_static(value) for value in self.op.operands):
            return False
        return self._count(self.kind.m) >= _ENOUGH and sums_along_rows(self.op, self.kind)

    def _sum_along_rows(self, columns: Sequence[int]) -> None:
        """Let what is summed up lie innermost in the left operand: each step of the sum else reads another line."""
        is_long = self._count(columns) >= _MANY_COLUMNS and self._count(self.kind.k) >= _LONG_SUM
        apart = self._innermost(0, (*self.loops, *self.kind.k)) in self.loops
        if apart and (is_long or self.op.operands[0] in self.weights):
            reorder_operand(self.op, 0, self._order_along(0, self.kind.k))

    def _read_in_place(self, number: int) -> None:
        """Read what a transpose reads that this product alone needs, and whose few rows take less time than it does."""
        source = defining_op(self.op.operands[number])
        order = permutation_of(source, known=False) if source is not None else None
        if source is None or not order or order[-1] == len(order) - 1 or source.operands[0] in self.weights:
            return
        if self._count_rows(number) <= _TOO_FEW and has_one_use(source.results[0]):
            read_untransposed(self.op, number, source, order)

    @property
    def loops(self) -> tuple[int, ...]:
        """Those of all dims of the result."""
        return (*self.kind.batch, *self.kind.m, *self.kind.n)

    def _is_plain(self) -> bool:
        left, right = (builders.element_of(v) for v in list(self.op.operands)[:2])
        walked = [loop for number in range(2) for loop in loops_along(self.op, number)]
        return left == right and isinstance(left, ir.FloatType) and None not in walked and can_reorder_result(self.op)

    def _candidates(self, last: int | None) -> Iterator[int]:
        """The loops that can be columns: of the result, and of each operand, the innermost one."""
        sides = {loop: number for number, loops in enumerate((self.kind.m, self.kind.n)) for loop in loops}
        for loop in dict.fromkeys((last, self._innermost(1, self.kind.n), self._innermost(0, self.kind.m))):
            if loop in sides and (self._is_free(sides[loop], loop) or self._is_worth_moving(sides[loop], loop)):
                yield loop

    def _is_worth_moving(self, number: int, columns: int) -> bool:
        return self._count_rows(number) >= _ENOUGH_ROWS and self._count([columns]) >= _ENOUGH

    def _count_moved(self, columns: int, last: int | None) -> int:
        number = 0 if columns in self.kind.m else 1
        moved = 0 if self._is_free(number, columns) else self._count(loops_along(self.op, number))
        return moved + (self._count(loops_along(self.op, 2)) if columns != last else 0)

    def _count_rows(self, number: int) -> int:
        """The rows that read operand ``number``: the elements of a column of the result."""
        return self._count(self.kind.n if number == 0 else self.kind.m)

    def _count(self, loops: Iterable[int | None]) -> int:
        extents = loop_extents(self.op)
        counts = [extents[loop] for loop in loops if loop is not None]
        return math.prod(_LIKELY if count < 0 else count for count in counts)

    def _is_free(self, number: int, columns: int) -> bool:
        return self._lies_along(number, columns) or self.op.operands[number] in self.weights

    def _is_packed(self, number: int) -> bool:
        """Return whether an operand is a weight that `pack-weights` orders."""
        return self.op.operands[number] in self.weights and len(self.kind.n) == 1

    def _lies_along(self, number: int, loop: int) -> bool:
        return self._innermost(number, (*self.loops, *self.kind.k)) == loop

    def _innermost(self, number: int, loops: Sequence[int]) -> int | None:
        """The loop, one of ``loops``, that walks the innermost dim of an operand of more than one element."""
        extents = loop_extents(self.op)
        walked = (loop for loop in reversed(loops_along(self.op, number)) if loop is not None and extents[loop] != 1)
        return next((loop for loop in walked if loop in loops), None)

    def _order_along(self, number: int, loops: Sequence[int]) -> list[int]:
        """The dims of an operand, those that ``loops`` walk last."""
        walked = loops_along(self.op, number)
        return sorted(range(len(walked)), key=lambda dim: walked[dim] in loops)

    def _store_along(self, columns: int) -> None:
        """Store the result along the columns, and move it afterwards."""
        order, result = self._order_along(2, [columns]), self.op.results[0]
        readers = [(use.owner.operation, use.operand_number) for use in result.uses]
        reorder_result(self.op, order)
        with ir.InsertionPoint.after(self.op), self.op.location:
            moved = builders.transpose(result, [order.index(d) for d in range(len(order))])
        for reader, number in readers:
            reader.operands[number] = moved


def _exchange_operands(op: ir.Operation) -> None:
    """Make the left operand the right one, and the other way round; what multiplies them does not mind."""
    left, right, result = indexing_maps(op)
    op.operands[0], op.operands[1] = op.operands[1], op.operands[0]
    set_maps(op, [right, left, result])
