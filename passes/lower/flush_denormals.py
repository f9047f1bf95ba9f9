"""Softmax and sums of products run with denormals taken for zero: each takes a CPU as long as a hundred others."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from ...dialects import func, ir, tw
from ...dialects.walk import collect, defining_op, find_named
from ..analysis.classify import classify_op
from ..analysis.kinds import Contraction, Conv, DepthwiseConv, Reduction
from ..infra.base import Pass
from ..ir.kernel import MAXIMA, list_functions
from ..ir.structure import body_ops, dim_of, indexing_maps


@dataclass(frozen=True)
class FlushDenormals(Pass):
    """Mark kernels of softmax and of sums of products; ``wrap-kernel`` sets the mode around their body.

    Before::

        func.func @k(...) {
          %max = linalg.generic ... arith.maximumf
          %exp = linalg.generic ... math.exp(%x - %max)
          %sum = linalg.generic ... arith.addf

    After::

        func.func @k(...) attributes {tw.flush_denormals, tw.loses_nan} {
          %max = linalg.generic ... arith.maximumf
          %exp = linalg.generic ... math.exp(%x - %max) {tw.at_most_one}

    An operation on a denormal takes a CPU a hundred times as long as another. Of scores that differ by 90 and more most
    exponentials are denormals: attention took ten times as long. Their sum is at least 1, so that those below 2^-126
    count for nothing: zeros in their place change a result by no more than that. In trained networks whole channels
    fade: a convolution with a fifth of its weights denormals took seven times as long. Each term of a sum of products,
    and each result, changes by 2^-126 times the other factor at most. Other kernels keep denormals.

    Exponentials of x - max(x) are at most 1, which ``expand-math`` need not check. A NaN in x is one in them and in
    their sum, whether or not the maximum is NaN too, which ``lower-to-llvm`` makes use of where there is no other
    maximum. Softmax of rows of 1024 takes 0.75 of its time so.
    """

    name: ClassVar[str] = "flush-denormals"

    def apply(self, module: ir.Module) -> None:
        """Mark functions of the module."""
        for function in list_functions(module):
            softmax = _has_softmax(function)
            if softmax or _sums_products(function):
                function.attributes[tw.FLUSH_DENORMALS] = ir.UnitAttr.get()
            if softmax:
                _mark_softmax(function)


def _mark_softmax(function: func.FuncOp) -> None:
    """Mark exponentials that are at most 1, and the kernel where these alone read the maxima."""
    maxima = find_named(function, *MAXIMA)
    for exponential in find_named(function, "math.exp"):
        if (maximum := _maximum_above(exponential)) is not None:
            exponential.attributes[tw.AT_MOST_ONE] = ir.UnitAttr.get()
            if len(list(maximum.results[0].uses)) == 1:
                maxima.remove(body_ops(maximum)[0])
    if not maxima:
        function.attributes[tw.LOSES_NAN] = ir.UnitAttr.get()


def _sums_products(function: func.FuncOp) -> bool:
    """Return whether the kernel has a contraction or a convolution of floats."""
    ops = collect(function, lambda op: op.name.startswith("linalg.") and _computes(op, ("arith.mulf",)))
    return any(isinstance(classify_op(op), Contraction | Conv | DepthwiseConv) for op in ops)


def _has_softmax(function: func.FuncOp) -> bool:
    """Return whether the kernel has a maximum over rows, exponentials, and a sum of float32."""
    if not _computes(function, ("math.exp",)):
        return False
    ops = collect(function, lambda op: op.name.startswith("linalg."))
    reductions = [op for op in ops if isinstance(classify_op(op), Reduction | Contraction)]
    return all(any(_computes(op, names) for op in reductions) for names in (MAXIMA, ("arith.addf",)))


def _computes(op: ir.Operation | func.FuncOp, names: tuple[str, ...]) -> bool:
    """Return whether a function, or the body of a structured op, has one of the operations."""
    return bool(find_named(op, *names))


def _maximum_above(exponential: ir.Operation) -> ir.Operation | None:
    """The reduction to a maximum that is taken away in an exponential's operand: x - max(x), of x at the same place."""
    outer, difference = exponential.parent, defining_op(exponential.operands[0])
    if outer is None or outer.name != "linalg.generic" or difference is None or difference.name != "arith.subf":
        return None
    numbers: list[int] = [v.arg_number for v in difference.operands if isinstance(v, ir.BlockArgument)]
    if len(numbers) != 2 or difference.operands[0].owner != outer.operation.regions[0].blocks[0]:
        return None
    data, maximum = (list(outer.operands)[number] for number in numbers)
    made = defining_op(maximum)
    if made is None or made.name != "linalg.generic" or made.operands[0] != data or len(made.operands) != 2:
        return None
    return made if _is_maximum(made) and _same_place(outer.operation, numbers, made) else None


def _is_maximum(op: ir.Operation) -> bool:
    """Return whether an op does nothing but reduce its operand to a maximum."""
    body, block = body_ops(op), op.regions[0].blocks[0]
    return len(body) == 1 and body[0].name in MAXIMA and set(body[0].operands) == set(block.arguments)


def _same_place(outer: ir.Operation, numbers: list[int], maximum: ir.Operation) -> bool:
    """Return whether an op reads, with each element of what was reduced, the result that this element went into."""
    data, reduced = (list(indexing_maps(outer)[number].results) for number in numbers)
    source, result = (list(m.results) for m in indexing_maps(maximum))
    loops = dict(zip(map(dim_of, source), map(dim_of, data), strict=True))
    shape = ir.RankedTensorType(maximum.results[0].type).shape
    return None not in {*loops, *loops.values()} and all(
        extent == 1 or (dim_of(made) in loops and loops[dim_of(made)] == dim_of(read))
        for extent, made, read in zip(shape, result, reduced, strict=True)
    )
