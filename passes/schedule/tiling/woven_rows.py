"""Rows that are written element by element in turn: pieces of a concat along an axis in which each has one element.

The run finds out whether they are. A vector of each piece then becomes as many vectors of the result, in registers.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence

from ....dialects import arith, ir, scf, vector
from ....dialects.builders import index_constant
from ..tiles.loops import loop_over
from .strided_boxes import BoxRows

# Numbers of pieces whose vectors are woven by halves.
_PIECES = (2, 4, 8)


def may_weave(pieces: Sequence[BoxRows]) -> bool:
    """Return whether there is code for so many pieces of such elements."""
    return len(pieces) in _PIECES and pieces[0].lanes > 1


def find_whether_woven(pieces: Sequence[BoxRows]) -> ir.Value:
    """Whether each piece is one row as long as the others', whose elements lie between theirs."""

    def equal(a: ir.Value, b: ir.Value) -> ir.Value:
        return arith.cmpi(arith.CmpIPredicate.eq, a, b)

    one, head = index_constant(1), pieces[0]
    found = [arith.cmpi(arith.CmpIPredicate.uge, head.length, index_constant(2 * head.lanes))]
    for number, piece in enumerate(pieces):
        read, made = piece.along
        found += [equal(read, one), equal(made, index_constant(len(pieces))), equal(piece.rows, one)]
        behind = arith.addi(head.starts[-1], index_constant(number))
        found += [equal(piece.length, head.length), equal(piece.starts[-1], behind)]
    return functools.reduce(arith.andi, found)


def weave_rows(pieces: Sequence[BoxRows], first: ir.Value, last: ir.Value) -> None:
    """Emit the steps [first, last) of the first of the pieces' ``count``, for all of them."""
    head = pieces[0]
    count, lanes, zero = index_constant(len(pieces)), index_constant(head.lanes), index_constant(0)

    def move(element: ir.Value) -> None:
        made = _weave([piece.load(arith.addi(piece.starts[0], element)) for piece in pieces])
        vector.store(made, head.buffers[-1], [arith.addi(head.starts[-1], arith.muli(element, count))])

    def step(number: ir.Value) -> None:
        start = arith.muli(number, head.piece)
        rest = arith.subi(head.count_elements(number), lanes)
        loop = scf.ForOp(zero, arith.maxsi(rest, zero), lanes)
        with ir.InsertionPoint(loop.body):
            move(arith.addi(start, loop.induction_variable))
            scf.YieldOp([])
        move(arith.addi(start, rest))  # it may begin in the piece before, whose elements are written once more

    loop_over(first, last, 1, step)


def _weave(vectors: Sequence[ir.Value]) -> ir.Value:
    """A vector of the first element of each, then the second ones, and so on."""
    if len(vectors) == 1:
        return vectors[0]
    even, odd = _weave(vectors[0::2]), _weave(vectors[1::2])
    [lanes] = ir.VectorType(even.type).shape
    return vector.shuffle(even, odd, [place for lane in range(lanes) for place in (lane, lanes + lane)])
