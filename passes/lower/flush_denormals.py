"""Softmax runs with denormals taken for zero: of scores that differ much, most exponentials are denormals."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from ...dialects import func, ir
from ...dialects.walk import collect
from ..classify import Contraction, Reduction, classify
from ..infra import Pass
from ..kernel import FLUSH, functions

_MAXIMA = ("arith.maximumf", "arith.maxnumf")


@dataclass(frozen=True)
class FlushDenormals(Pass):
    """Mark the kernels that take exponentials under a row's maximum; ``wrap-kernel`` sets the mode around their body.

    Before::

        func.func @k(...) {
          %max = linalg.generic ... arith.maximumf
          %exp = linalg.generic ... math.exp(%x - %max)
          %sum = linalg.generic ... arith.addf

    After::

        func.func @k(...) attributes {tw.flush_denormals} {

    An operation on a denormal takes a CPU a hundred times as long as another; attention whose scores differ by 90 and
    more took ten times as long. The sum of such exponentials is at least 1, so that those below 2^-126 count for
    nothing: zeros in their place change a result by no more than that. Other kernels keep denormals.
    """

    name: ClassVar[str] = "flush-denormals"

    def apply(self, module: ir.Module) -> None:
        """Mark functions of the module."""
        for function in functions(module):
            if _has_softmax(function):
                function.attributes[FLUSH] = ir.UnitAttr.get()


def _has_softmax(function: func.FuncOp) -> bool:
    """Whether the kernel has a maximum over rows, exponentials, and a sum of float32."""
    ops = collect(function, lambda op: op.name.startswith("linalg."))
    reductions = [op for op in ops if isinstance(classify(op), Reduction | Contraction)]
    return (
        any(_computes(op, _MAXIMA) for op in reductions)
        and any(_computes(op, ("math.exp",)) for op in ops)
        and any(_computes(op, ("arith.addf",)) for op in reductions)
    )


def _computes(op: ir.Operation, names: tuple[str, ...]) -> bool:
    """Whether the body of a structured op has one of the operations."""
    return bool(collect(op, lambda inner: inner.name in names))
