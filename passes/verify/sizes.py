"""Checks that a kernel's ops rely only on the equal sizes that the kernel states.

A kernel states which extents of its arguments are equal (``tw.same_sizes``); all others may differ. `outline` derives
this from the group's ops, whose loops prove it, and guarded runs check callers (``runtime/executors/guarded.py``). An
op of a later pass must not walk two extents together unless they are stated to be equal.
"""

from __future__ import annotations

from ...core.errors import CompileError
from ...core.program import SameSizes
from ...dialects import func, ir, tw
from ..analysis.size_classes import SizeClasses
from ..ir.kernel import is_dynamic_kernel, symbol_of


def state_sizes(function: func.FuncOp) -> None:
    """Note on a kernel on tensors which of its sizes its ops take for the same."""
    shared = SizeClasses(function).find_shared()
    if shared:
        pairs = [ir.DenseI64ArrayAttr.get([n for pair in members for n in pair]) for members in shared]
        function.attributes[tw.SAME_SIZES] = ir.ArrayAttr.get(pairs)


def stated_sizes(function: func.FuncOp) -> SameSizes:
    """The sizes that a kernel states to be the same: pairs of an argument's, then a result's, number and axis.

    The axis of a size that the kernel is called with is -1.
    """
    if tw.SAME_SIZES not in function.attributes:
        return ()
    classes = (list(ir.DenseI64ArrayAttr(members)) for members in ir.ArrayAttr(function.attributes[tw.SAME_SIZES]))
    return tuple(tuple(zip(flat[::2], flat[1::2], strict=True)) for flat in classes)


def verify_sizes(function: func.FuncOp) -> None:
    """Raise CompileError where a kernel's ops take sizes for the same that it does not state to be."""
    if not is_dynamic_kernel(function):
        return
    stated = [set(members) for members in stated_sizes(function)]
    for members in SizeClasses(function).find_shared():
        if not any(set(members) <= known for known in stated):
            shown = ", ".join(_describe_size(function, *pair) for pair in members)
            raise CompileError(
                f"kernel '{symbol_of(function)}' takes {shown} for one size, which its '{tw.SAME_SIZES}' does not state"
            )


def _describe_size(function: func.FuncOp, number: int, axis: int) -> str:
    count = len(function.arguments)
    what = f"argument {number}" if number < count else f"result {number - count}"
    return what if axis < 0 else f"axis {axis} of {what}"
