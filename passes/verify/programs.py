"""The rules of programs: of ``@main`` as frontends and graph passes make it, then of calls of kernels in memory.

``docs/architecture.md`` states the rules of ``@main`` in prose.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence, Set

from ...core.errors import CompileError
from ...core.program import Slot
from ...dialects import func, ir, tw
from ...dialects.context import at_node
from ...dialects.types import nbytes
from ..ir.edit import is_cheap, is_private, list_programs, needs_routine, string_attr
from ..ir.kernel import in_place, list_functions, symbol_of
from ..ir.routine_ops import (
    VIEWS,
    callee_of,
    is_body,
    is_check,
    is_choice,
    is_control,
    is_external_call,
    is_operator_call,
    is_report,
    is_routine_call,
)
from ..ir.signatures import list_attributes
from ..ir.slices import Storage
from ..ir.structure import dim_of, indexing_maps, is_zero, list_ops, num_inputs
from .kernels import verify_kernel

_ELEMENTS = {"i8", "i16", "i32", "i64", "i128", "f16", "bf16", "f32", "f64"}
_DIALECTS = ("tensor.", "linalg.", "arith.", "math.", "scf.", "index.", "affine.", "func.", "cf.assert", "ub.")
_MOST_ELEMENTS = 64  # of a constant that is no splat


def verify_main(module: ir.Module) -> None:
    """Raise CompileError where a program breaks one of the rules of ``@main``."""
    found = list_programs(module)
    _demand_main(found)
    for function in found:
        _verify_arguments(function)
        for op in _program_ops(list_ops(function)):
            _verify_op(op)


def verify_calls(module: ir.Module) -> None:
    """Raise CompileError where a program does more than call kernels and what the program itself runs."""
    found = list_programs(module)
    _demand_main(found)
    kernels = {symbol_of(f): f for f in list_functions(module) if f not in found}
    called = {callee_of(op) for f in found for op in _program_ops(list_ops(f)) if op.name == "func.call"}
    for function in found:
        _verify_arguments(function)
        for op in _program_ops(list_ops(function)):
            _verify_step(op, kernels)
    for name, kernel in kernels.items():
        if name not in called:
            raise CompileError(f"kernel '{name}' is called by no program")
        verify_kernel(kernel)


def verify_slots(module: ir.Module) -> None:
    """Raise CompileError where a call of a program with an arena reads what another call has overwritten."""
    verify_calls(module)
    kernels = {symbol_of(function): function for function in list_functions(module)}
    for function in list_programs(module):
        if not needs_routine(function):
            _verify_memory(function, kernels)


def _demand_main(found: Sequence[func.FuncOp]) -> None:
    if [symbol_of(f) for f in found if not is_private(f) and tw.PREPARES not in f.attributes] != ["main"]:
        names = ", ".join(f"'{symbol_of(f)}'" for f in found) or "none"
        raise CompileError(f"the one public function must be '@main'; the programs are {names}")


def _verify_arguments(function: func.FuncOp) -> None:
    """Each argument of a program is an input or a weight, and has a name that no other has; a body has no inputs."""
    known = list_attributes(function)
    names = [(kind, string_attr(a, kind)) for a in known for kind in (tw.NAME, tw.PARAM) if kind in a]
    if is_body(function):
        if inputs := [name for kind, name in names if kind == tw.NAME]:
            raise CompileError(f"body '{symbol_of(function)}' has an argument that is named {inputs[0]!r}")
        return
    if len(names) != len(function.arguments):
        raise CompileError(
            f"'{symbol_of(function)}' has {len(function.arguments)} arguments, "
            f"of which {len(names)} are inputs or weights"
        )
    twice = [name for name, count in Counter(names).items() if count > 1]
    if twice:
        raise CompileError(f"'{symbol_of(function)}' has two arguments with the name {twice[0][1]!r}")


def _program_ops(ops: Iterable[ir.Operation]) -> Iterator[ir.Operation]:
    """The ops, and those of the regions that the program runs."""
    for op in ops:
        yield op
        if is_control(op):
            yield from _program_ops(
                inner.operation for region in op.regions for b in region.blocks for inner in b.operations
            )


def _verify_op(op: ir.Operation) -> None:
    """The rules of one op of ``@main``."""
    if not op.name.startswith(_DIALECTS):
        raise CompileError(f"'{op.name}' is no op of a program{at_node(op)}")
    for value in op.results:
        if isinstance(value.type, ir.RankedTensorType) and str(value.type.element_type) not in _ELEMENTS:
            raise CompileError(f"'{op.name}' makes elements of {value.type.element_type}{at_node(op)}")
    calls = is_routine_call(op) or is_operator_call(op) or is_external_call(op)
    if op.name == "func.call" and not calls:
        raise CompileError(f"a call of '{callee_of(op)}', which is no function of the host{at_node(op)}")
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
        name = callee_of(op)
        if not is_routine_call(op) and not is_external_call(op) and name not in kernels:
            raise CompileError(f"a call of '{name}', which is no kernel{at_node(op)}")
    elif not (
        op.name in VIEWS
        or op.name in ("func.return", "scf.yield", "scf.condition")
        or any(test(op) for test in (is_cheap, is_control, is_check, is_choice))
    ):
        raise CompileError(f"'{op.name}' is in no kernel{at_node(op)}")


def _verify_memory(function: func.FuncOp, kernels: dict[str, func.FuncOp]) -> None:
    """Follow which value lies at which bytes of the arena, call by call. Reports read theirs after the last call."""
    most = ir.IntegerAttr(function.attributes[tw.ARENA_BYTES]).value
    calls = [op for op in list_ops(function) if op.name == "func.call"]
    lies: dict[ir.Value, tuple[int, int]] = {}  # the values in the arena that nothing has overwritten, with their bytes
    lost: set[ir.Value] = set()
    for op in (op for op in calls if not is_report(op)):
        slots = [Slot.parse(ir.StringAttr(text).value) for text in ir.ArrayAttr(op.attributes[tw.SLOTS])]
        if len(slots) != len(op.operands) + len(op.results):
            count = len(op.operands) + len(op.results)
            raise CompileError(f"a call has {len(slots)} slots for {count} values{at_node(op)}")
        places = Storage.of_operands(op)
        bases = [place.base for place in places]
        for number, (place, slot) in enumerate(zip(places, slots, strict=False)):
            base = place.base
            _demand_readable(op, number, base, lost)
            if base in lies and slot != Slot("arena", offset=lies[base][0] + place.begin):
                raise CompileError(f"argument {number} of a call is read at {slot}, where it does not lie{at_node(op)}")
        shared = [] if is_external_call(op) else in_place(kernels[callee_of(op)])
        for value, slot in zip(op.results, slots[len(bases) :], strict=True):
            if slot.space in ("input", "param"):
                raise CompileError(f"a call writes into {slot}{at_node(op)}")
            begin, end = slot.offset, slot.offset + nbytes(value.type)
            if slot.space != "arena" or begin == end:
                continue
            if end > most:
                raise CompileError(f"a result ends at byte {end} of an arena of {most}{at_node(op)}")
            over = [other for other, at in lies.items() if at[0] < end and begin < at[1]]
            for number, base in enumerate(bases):
                if base in over and not (number in shared and places[number].whole and lies[base][0] == begin):
                    raise CompileError(f"a result of '{callee_of(op)}' lies over its argument {number}{at_node(op)}")
            for other in over:
                del lies[other]
            lost.update(over)
            lies[value] = (begin, end)
    for op in filter(is_report, calls):
        _demand_readable(op, 0, Storage.of(op.operands[0]).base, lost)


def _demand_readable(op: ir.Operation, number: int, value: ir.Value, lost: Set[ir.Value]) -> None:
    if value in lost:
        raise CompileError(f"argument {number} of a call was overwritten before it{at_node(op)}")
