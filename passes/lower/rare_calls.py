"""Calls of libm that few elements need: a vector without one goes past them."""

from __future__ import annotations

import math as numbers

from ...dialects import arith, func, ir, tw, vector
from ...dialects.builders import element_of, scalar
from ...dialects.loops import branch
from ..ir.rewrite import rewrite
from .math.emit import Value


def guard_calls(function: func.FuncOp) -> None:
    """Call a function that is marked ``tw.rare`` only where an element of its first operand is not 0.

    Before::

        %y = math.sin %x {tw.rare} : vector<4xf64>

    After::

        %y = scf.if %some -> vector<4xf64> {  // %some: an element of %x is not 0
          %z = math.sin %x : vector<4xf64>
          scf.yield %z : vector<4xf64>
        } else {
          scf.yield %zeros : vector<4xf64>
        }

    LLVM takes a vector apart for them: 4 sines of doubles are 80 ns, and 5 by ``math/doubles.py``.
    """

    def guard(op: ir.Operation) -> Value:
        def call() -> Value:
            copy = op.clone()
            del copy.attributes[tw.RARE]
            return copy.results[0]

        x = op.operands[0]
        return branch(_has_any(x), x.type, call, lambda: _zeros_like(x))

    rewrite(function, lambda op: tw.RARE in op.attributes, guard)


def _has_any(x: Value) -> Value:
    """Whether an element is not 0, as NaN is not."""
    found = arith.cmpf(arith.CmpFPredicate.UNE, x, _zeros_like(x))
    if not isinstance(x.type, ir.VectorType):
        return found
    bits = ir.VectorType(found.type)
    if bits.rank != 1:
        found = vector.shape_cast(ir.VectorType.get([numbers.prod(bits.shape)], bits.element_type), found)
    return vector.reduction(bits.element_type, vector.CombiningKind.OR, found)


def _zeros_like(x: Value) -> Value:
    zero = scalar(0.0, element_of(x) if isinstance(x.type, ir.VectorType) else x.type)
    return vector.broadcast(x.type, zero) if isinstance(x.type, ir.VectorType) else zero
