"""The ops that the program runs itself, besides its kernels: views, calls of the host, control flow and its bodies."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from ...dialects import func, ir, tw
from ...dialects.types import is_dynamic_type
from ...dialects.walk import defining_op, find_named

VIEWS = ("tensor.expand_shape", "tensor.collapse_shape", "tensor.cast")
VIEWS_AND_SLICES = (*VIEWS, "tensor.extract_slice")  # what a kernel reads where the operand lies
LOOPS_AND_BRANCHES = ("scf.for", "scf.while", "scf.if")


def base_of(value: ir.Value, through: Collection[str] = VIEWS) -> ir.Value:
    """The source of a view, through all ops that are views."""
    while (op := defining_op(value)) is not None and op.name in through:
        value = op.operands[0]
    return value


def callee_of(call: ir.Operation) -> str:
    """The name of the function that a ``func.call`` calls."""
    return ir.FlatSymbolRefAttr(call.attributes["callee"]).value


def is_host_call(op: ir.Operation) -> bool:
    """Return whether an op calls a function of the host. Its values that are not tensors have the type ``none``."""
    return op.name == "func.call" and tw.HOST in op.attributes


def is_external_call(op: ir.Operation) -> bool:
    """Return whether an op calls code that a code generator of a user's has made: a kernel without a body."""
    return op.name == "func.call" and tw.CODEGEN in op.attributes


def is_report(op: ir.Operation) -> bool:
    """Return whether an op refuses a run if its operand, a word from a kernel, is not 0 (``report_outside.py``)."""
    return op.name == "func.call" and tw.REPORT in op.attributes


def is_operator_call(op: ir.Operation) -> bool:
    """Return whether an op calls a function that a user has scheduled, whose ops ``outline`` puts in its place."""
    return op.name == "func.call" and tw.OPERATOR in op.attributes


def is_append(op: ir.Operation) -> bool:
    """Return whether an op puts a tensor behind the first one, a state, in its memory (``keep_states.py``)."""
    return op.name == "func.call" and tw.STATE in op.attributes


def is_check(op: ir.Operation) -> bool:
    """Return whether an op refuses a run."""
    return op.name == "cf.assert"


def is_control(op: ir.Operation) -> bool:
    """Return whether the program itself runs the op's regions: their values may have any size, and need not be tensors.

    Upstream's canonicalization rewrites such ops and loses their marks, so that calls of bodies inside tell as well.
    """
    if not op.name.startswith("scf."):
        return False
    marked = find_named(op, "func.call", *LOOPS_AND_BRANCHES)  # a kernel's loop may have hundreds of others
    return any(is_body_call(inner) or tw.CONTROL in inner.attributes for inner in marked)


def is_body_call(op: ir.Operation) -> bool:
    """Return whether an op calls a region of control flow."""
    return op.name == "func.call" and tw.BODY in op.attributes


def is_routine_call(op: ir.Operation) -> bool:
    """Return whether a call is one of a program that calls no kernel."""
    return is_host_call(op) or is_report(op) or is_append(op) or is_body_call(op)


def call_body(name: str, kinds: Sequence[ir.Type], values: Sequence[ir.Value]) -> ir.Operation:
    """A call of a region of control flow at the insertion point; ``kinds`` are those of its results."""
    call = func.CallOp(list(kinds), ir.FlatSymbolRefAttr.get(name), list(values)).operation
    call.attributes[tw.BODY] = ir.UnitAttr.get()
    return call


def is_body(function: func.FuncOp) -> bool:
    """Return whether a function is a region of control flow."""
    return tw.BODY in function.attributes


def is_choice(op: ir.Operation) -> bool:
    """Return whether an op selects one of two tensors of dynamic sizes. For known sizes it is a kernel."""
    return op.name == "arith.select" and is_dynamic_type(op.results[0].type)


def is_no_kernel(op: ir.Operation) -> bool:
    """Return whether an op is never part of a kernel: a view, a choice of tensors, a call, control flow."""
    return op.name in (*VIEWS, "func.call") or is_choice(op) or is_control(op)
