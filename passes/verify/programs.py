"""The rules of programs: of ``@main`` as frontends and graph passes make it, then of calls of kernels in memory.

``docs/architecture.md`` states the rules of ``@main`` in prose.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from ...core.errors import CompileError
from ...core.program import Slot
from ...dialects import func, ir, tw
from ...dialects.context import at_node
from ...dialects.types import nbytes
from ..ir.edit import is_cheap, is_dynamic, is_private, programs, string_attr
from ..ir.kernel import functions, in_place, symbol
from ..ir.routine_ops import (
    VIEWS,
    base_of,
    is_body,
    is_body_call,
    is_check,
    is_choice,
    is_control,
    is_host_call,
    is_report,
)
from ..ir.structure import dim_of, indexing_maps, is_zero, num_inputs, operations
from .kernels import verify_kernel

_ELEMENTS = {"i8", "i16", "i32", "i64", "i128", "f16", "bf16", "f32", "f64"}
_DIALECTS = ("tensor.", "linalg.", "arith.", "math.", "scf.", "index.", "affine.", "func.", "cf.assert", "ub.")
_MOST_ELEMENTS = 64  # of a constant that is no splat


def verify_main(module: ir.Module) -> None:
    """Raise CompileError where a program breaks one of the rules of ``@main``."""
    found = programs(module)
    _demand_main(found)
    for function in found:
        _verify_arguments(function)
        for op in _program_ops(operations(function)):
            _verify_op(op)


def verify_calls(module: ir.Module) -> None:
    """Raise CompileError where a program does more than call kernels and what the program itself runs."""
    found = programs(module)
    _demand_main(found)
    kernels = {symbol(f): f for f in functions(module) if f not in found}
    called = Counter(name for f in found for op in _program_ops(operations(f)) for name in _callees(op))
    for function in found:
        _verify_arguments(function)
        for op in _program_ops(operations(function)):
            _verify_step(op, kernels)
    for name, kernel in kernels.items():
        if not is_private(kernel) or not called[name]:
            raise CompileError(f"kernel '{name}' is {'public' if called[name] else 'called by no program'}")
        verify_kernel(kernel)


def verify_slots(module: ir.Module) -> None:
    """Raise CompileError where a call of a program with an arena reads what another call has overwritten."""
    verify_calls(module)
    kernels = {symbol(function): function for function in functions(module)}
    for function in programs(module):
        if not is_dynamic(function):
            _verify_memory(function, kernels)


def _demand_main(found: Sequence[func.FuncOp]) -> None:
    if [symbol(f) for f in found if not is_private(f) and tw.PREPARES not in f.attributes] != ["main"]:
        names = ", ".join(f"'{symbol(f)}'" for f in found) or "none"
        raise CompileError(f"the one public function must be '@main'; the programs are {names}")


def _verify_arguments(function: func.FuncOp) -> None:
    """Each argument of a program is an input or a weight, and has a name that no other has; a body's have none."""
    attributes = function.attributes.get("arg_attrs", None)
    known = [ir.DictAttr(a) for a in ir.ArrayAttr(attributes)] if attributes is not None else []
    names = [(kind, string_attr(a, kind)) for a in known for kind in (tw.NAME, tw.PARAM) if kind in a]
    if is_body(function):
        if names:
            raise CompileError(f"body '{symbol(function)}' has an argument that is named {names[0][1]!r}")
        return
    if len(names) != len(function.arguments):
        raise CompileError(
            f"'{symbol(function)}' has {len(function.arguments)} arguments, of which {len(names)} are inputs or weights"
        )
    twice = [name for name, count in Counter(names).items() if count > 1]
    if twice:
        raise CompileError(f"'{symbol(function)}' has two arguments with the name {twice[0][1]!r}")


def _program_ops(ops: Iterable[ir.Operation]) -> Iterator[ir.Operation]:
    """The ops, and those of the regions that the program runs."""
    for op in ops:
        yield op
        if is_control(op):
            yield from _program_ops(
                inner.operation for region in op.regions for b in region.blocks for inner in b.operations
            )


def _callees(op: ir.Operation) -> list[str]:
    return [ir.FlatSymbolRefAttr(op.attributes["callee"]).value] if op.name == "func.call" else []


def _verify_op(op: ir.Operation) -> None:
    """The rules of one op of ``@main``."""
    if not op.name.startswith(_DIALECTS):
        raise CompileError(f"'{op.name}' is no op of a program{at_node(op)}")
    for value in op.results:
        if isinstance(value.type, ir.RankedTensorType) and str(value.type.element_type) not in _ELEMENTS:
            raise CompileError(f"'{op.name}' makes elements of {value.type.element_type}{at_node(op)}")
    if op.name == "func.call" and not (is_host_call(op) or is_report(op) or is_body_call(op)):
        raise CompileError(f"a call of '{_callees(op)[0]}', which is no function of the host{at_node(op)}")
    if op.name == "arith.constant":
        _verify_constant(op)
    if op.name == "linalg.generic":
        _verify_generic(op)


def _verify_constant(op: ir.Operation) -> None:
    value = op.attributes["value"]
    if not isinstance(value, ir.DenseElementsAttr) or value.is_splat:
        return
    if len(value) > _MOST_ELEMENTS:
        raise CompileError(
            f"a constant of {len(value)} elements; more than {_MOST_ELEMENTS} must be a weight{at_node(op)}"
        )


def _verify_generic(op: ir.Operation) -> None:
    """Each axis of a result is walked by one loop, which walks no other, or has one element, at 0."""
    for written in indexing_maps(op)[num_inputs(op) :]:
        loops = [dim_of(place) for place in written.results if not is_zero(place)]
        if None in loops or len(set(loops)) != len(loops):
            raise CompileError(f"a result is written at {written}, which is no permutation of loops{at_node(op)}")


def _verify_step(op: ir.Operation, kernels: dict[str, func.FuncOp]) -> None:
    """An op of a program of calls."""
    if tw.GROUP in op.attributes:
        raise CompileError(f"'{op.name}' is still part of a group{at_node(op)}")
    if op.name == "func.call":
        [name] = _callees(op)
        if not (is_host_call(op) or is_report(op) or is_body_call(op)) and name not in kernels:
            raise CompileError(f"a call of '{name}', which is no kernel{at_node(op)}")
    elif not (
        op.name in VIEWS
        or op.name in ("func.return", "scf.yield", "scf.condition")
        or any(test(op) for test in (is_cheap, is_control, is_check, is_choice))
    ):
        raise CompileError(f"'{op.name}' is in no kernel{at_node(op)}")


def _verify_memory(function: func.FuncOp, kernels: dict[str, func.FuncOp]) -> None:
    """Follow which value lies at which bytes of the arena, call by call."""
    most = ir.IntegerAttr(function.attributes[tw.ARENA_BYTES]).value
    lies: dict[ir.Value, tuple[int, int]] = {}  # the values that nothing has overwritten yet, with their bytes
    for op in (op for op in operations(function) if op.name == "func.call"):
        if is_report(op):
            _demand_readable(op, [op.operands[0]], lies)
            continue
        slots = [Slot.parse(ir.StringAttr(text).value) for text in ir.ArrayAttr(op.attributes[tw.SLOTS])]
        values = [*op.operands, *op.results]
        if len(slots) != len(values):
            raise CompileError(f"a call has {len(slots)} slots for {len(values)} values{at_node(op)}")
        _demand_readable(op, list(op.operands), lies)
        count, name = len(op.operands), _callees(op)[0]
        shared = set(in_place(kernels[name]))
        for value, slot in zip(op.results, slots[count:], strict=True):
            if slot.space in ("input", "param"):
                raise CompileError(f"a call writes into {slot}{at_node(op)}")
            if slot.space != "arena":
                continue
            place = (slot.offset, slot.offset + nbytes(value.type))
            if place[1] > most:
                raise CompileError(f"a result ends at byte {place[1]} of an arena of {most}{at_node(op)}")
            for number, operand in enumerate(op.operands):
                at = lies.get(base_of(operand))
                if at is not None and _overlap(at, place) and not (number in shared and at[0] == place[0]):
                    raise CompileError(f"a result of '{name}' lies over its argument {number}{at_node(op)}")
            lies = {other: at for other, at in lies.items() if not _overlap(at, place)}
            lies[value] = place


def _demand_readable(op: ir.Operation, operands: Sequence[ir.Value], lies: dict[ir.Value, tuple[int, int]]) -> None:
    for number, operand in enumerate(operands):
        base = base_of(operand)
        made = not isinstance(base.owner, ir.Block) and base.owner.operation
        slots = made.attributes.get(tw.SLOTS, None) if made else None
        if not made or slots is None:
            continue
        slot = Slot.parse(ir.StringAttr(list(ir.ArrayAttr(slots))[len(made.operands) + _number(made, base)]).value)
        if slot.space == "arena" and nbytes(base.type) and base not in lies:
            raise CompileError(f"argument {number} of a call was overwritten before it{at_node(op)}")


def _number(op: ir.Operation, value: ir.Value) -> int:
    return next(i for i, result in enumerate(op.results) if result == value)


def _overlap(a: tuple[int, int], b: tuple[int, int]) -> bool:
    return a[0] < b[1] and b[0] < a[1]
