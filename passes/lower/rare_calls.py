"""Calls of libm that few elements need: a vector without one goes past them."""

from __future__ import annotations

import math as numbers

from ...dialects import func, ir, llvm, scalars, tw, vector
from ...dialects.builders import element_of, scalar
from ...dialects.loops import branch
from ...dialects.walk import defining_op
from ..ir.rewrite import rewrite
from .math.emit import Value


def guard_calls(function: func.FuncOp) -> None:
    """Call a function that is marked ``tw.rare`` only where an element needs it.

    Before::

        %x = arith.select %usual, %zeros, %v : vector<4xi1>, vector<4xf64>
        %y = math.sin %x {tw.rare} : vector<4xf64>

    After::

        %y = scf.if %some -> vector<4xf64> {  // %some: an element is not usual
          %hidden = llvm.inline_asm has_side_effects "", "=r,0" %c0 : (i64) -> i64
          ...                                 // %w: %x, as %hidden is 0
          %z = math.sin %w : vector<4xf64>
          scf.yield %z : vector<4xf64>
        } else {
          scf.yield %zeros : vector<4xf64>
        }

    LLVM takes a vector apart for them: 4 sines of doubles are 80 ns, and 5 by ``math/doubles.py``. It takes its own
    functions for cheap, and would compute one ahead of a branch that does not need it, but for what it cannot see.
    """

    def guard(op: ir.Operation) -> Value | None:
        def call() -> Value:
            copy = op.clone()
            del copy.attributes[tw.RARE]
            with ir.InsertionPoint(copy):
                copy.operands[0] = _hide(x)
            return copy.results[0]

        x = op.operands[0]
        chosen = defining_op(x)
        if chosen is None or chosen.name != "arith.select" or not _is_constant_vector(chosen.operands[1]):
            return None
        return branch(_is_any_unusual(chosen.operands[0]), x.type, call, lambda: _zeros_like(x))

    rewrite(function, lambda op: tw.RARE in op.attributes, guard)


def _is_constant_vector(value: Value) -> bool:
    """Return whether a value is a constant: that of usual elements comes first in a select, unless that was turned."""
    op = defining_op(value)
    return op is not None and op.name in ("arith.constant", "vector.broadcast")


def _is_any_unusual(usual: Value) -> Value:
    """Whether one of some conditions does not hold."""
    if not isinstance(usual.type, ir.VectorType):
        return scalars.invert(usual)
    kind = ir.VectorType(usual.type)
    if kind.rank != 1:
        usual = vector.shape_cast(ir.VectorType.get([numbers.prod(kind.shape)], kind.element_type), usual)
    return scalars.invert(vector.reduction(kind.element_type, vector.CombiningKind.AND, usual))


def _hide(x: Value) -> Value:
    """``x``, which is not known before this place is reached."""
    word = ir.IntegerType.get_signless(64)
    none = scalars.const(0, word)
    hidden = llvm.inline_asm(word, [none], "", "=r,0", has_side_effects=True)
    return scalars.select(scalars.compare("eq", hidden, none), x, _zeros_like(x))


def _zeros_like(x: Value) -> Value:
    zero = scalar(0.0, element_of(x) if isinstance(x.type, ir.VectorType) else x.type)
    return vector.broadcast(x.type, zero) if isinstance(x.type, ir.VectorType) else zero
