"""The open sizes that a kernel sums along: they tell how much work an element of its result is."""

from __future__ import annotations

from ...dialects import func, ir, tw
from ..ir.kernel import Summed
from ..ir.structure import is_structured, is_tensor, iterator_types, list_ops
from .size_classes import SizeClasses


def find_summed(function: func.FuncOp) -> Summed:
    """The open sizes that a kernel's ops sum along and that no result has, by an argument and its axis that show each.

    One that no argument shows is left out.
    """
    sizes, ops = SizeClasses(function), list_ops(function)
    kept = {extent for value in ops[-1].operands if is_tensor(value) for extent in sizes.of(value) if extent < 0}
    summed = {
        extent
        for op in filter(is_structured, ops)
        for kind, extent in zip(iterator_types(op), sizes.loops(op), strict=True)
        if kind == "reduction" and extent < 0
    }
    found: dict[int, tuple[int, int]] = {}
    for number, argument in enumerate(function.arguments):
        for axis, extent in enumerate(sizes.of(argument) if is_tensor(argument) else ()):
            if extent < 0 and extent in summed and extent not in kept:
                found.setdefault(extent, (number, axis))
    return tuple(found.values())


def state_summed(function: func.FuncOp) -> None:
    """Note on a kernel the open sizes that it sums along."""
    if summed := find_summed(function):
        function.attributes[tw.SUMMED] = ir.DenseI64ArrayAttr.get([n for pair in summed for n in pair])
