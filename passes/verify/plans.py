"""The rules of a planned program, which is plain data: it calls kernels that exist on memory that it has."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from ...core.errors import InternalError
from ...core.program import APPEND, VIEWS, Plan, Program, Routine, Slot, Step

_READ_NO_ELEMENTS = (*VIEWS, "tensor.dim")

Memory = Mapping[int, frozenset[int]]  # registers, and those whose memory each may have


def verify_plan(plan: Plan) -> None:
    """Raise InternalError where a program of the plan breaks a rule, or a weight that must be prepared has none."""
    programs = (*plan.programs, *plan.prepare.values())
    for program in programs:
        verify_program(program, plan.kernels)
    if unused := set(plan.kernels) - {call.kernel for program in programs for call in program.calls}:
        raise InternalError(f"planning: no program calls kernel '{min(unused)}'")


def verify_program(program: Program, kernels: Collection[str]) -> None:
    """Raise InternalError where a program calls a kernel that there is not, or one on memory that there is not."""
    for call in program.calls:
        if call.kernel not in kernels:
            raise InternalError(f"planning: there is no kernel '{call.kernel}'")
    if program.routine is not None:
        _verify_routine(program.routine, set())
        _verify_writes(program, program.routine)
        return
    counts = {"input": len(program.inputs), "param": len(program.params), "output": len(program.outputs)}
    for slot in (*(slot for call in program.calls for slot in call.args), *(r.slot for r in program.reports)):
        _verify_slot(slot, counts, program.arena_bytes)
    given = {slot.index for call in program.calls for slot in call.args if slot.space == "output"}
    if missing := set(range(len(program.outputs))) - given:
        raise InternalError(f"planning: no call writes output '{program.outputs[min(missing)].name}'")


def _verify_slot(slot: Slot, counts: dict[str, int], arena_bytes: int) -> None:
    inside = 0 <= slot.offset <= arena_bytes if slot.space == "arena" else 0 <= slot.index < counts[slot.space]
    if not inside:
        raise InternalError(f"planning: a call takes {slot}, which the program does not have")


def _verify_routine(routine: Routine, around: Collection[int]) -> None:
    """Each register is written once, before it is read, and not read after the step that is the last to read it."""
    live = {*around, *routine.arguments}
    written = set(live)
    for step in routine.steps:
        for register in step.operands:
            if register not in live:
                raise InternalError(f"planning: step '{step.op}' reads register {register}, which holds nothing")
        for region in step.regions:
            _verify_routine(region, live)
        if twice := written & set(step.results):
            raise InternalError(f"planning: step '{step.op}' writes register {min(twice)} a second time")
        written |= set(step.results)
        live = (live | set(step.results)) - set(step.dead)
    if lost := set(routine.results) - live:
        raise InternalError(f"planning: the result in register {min(lost)} is gone before the end")


def _verify_writes(program: Program, routine: Routine) -> None:
    """Each call that writes over an operand is the last to read its memory, which the run made or a state has."""
    states = {routine.arguments[state.input] for state in program.states}
    _verify_writes_inside(routine, {}, set(routine.arguments) - states)


def _verify_writes_inside(routine: Routine, around: Memory, given: Collection[int]) -> list[frozenset[int]]:
    """Verify what writes over what in a routine, and return the memory of its results.

    The memory of the registers ``around`` it and of those it is ``given`` may not be written over: others may read it.
    """
    memory = {**around, **{register: frozenset({register}) for register in routine.arguments}}
    kept = {*given, *(root for roots in around.values() for root in roots)}
    views = dict[int, list[int]]()  # registers by the memory that they may have
    stale = dict[int, Step]()  # registers whose memory another step has written over
    for step in routine.steps:
        if step.op not in _READ_NO_ELEMENTS:
            _refuse_stale(
                step.op, {*step.operands, *(r for region in step.regions for r in _list_reads(region))}, stale
            )
        inside = [_verify_writes_inside(region, memory, region.arguments) for region in step.regions]
        written = memory[step.operands[step.facts["over"]]] if "over" in step.facts else frozenset[int]()
        if written:
            if given_memory := written & kept:
                raise InternalError(
                    f"planning: {_describe_writer(step)} writes over register {min(given_memory)}, which is not its own"
                )
            if sum(not written.isdisjoint(memory.get(operand, ())) for operand in step.operands) > 1:
                raise InternalError(f"planning: {_describe_writer(step)} writes over an operand that it reads twice")
            stale |= {register: step for root in written for register in views.get(root, (root,))}
        for result, found in zip(step.results, _find_memory(step, memory, inside), strict=True):
            memory[result] = found
            for root in found:
                views.setdefault(root, [root]).append(result)
        if step.op in VIEWS and (writer := stale.get(step.operands[0])):
            stale |= dict.fromkeys(step.results, writer)
    _refuse_stale("return", routine.results, stale)
    return [memory[register] for register in routine.results]


def _find_memory(step: Step, memory: Memory, inside: Iterable[Iterable[frozenset[int]]]) -> list[frozenset[int]]:
    """The registers whose memory each result of a step may have, its own among them where it may be new.

    Results of loops and branches may have that of each other: planning writes over none of them.
    """
    if step.op in VIEWS:
        return [memory[step.operands[0]]]
    if "over" in step.facts:
        return [memory[step.operands[step.facts["over"]]]]
    if step.regions or step.op in ("tensor.select", "tensor.extract_slice", APPEND):
        given = (memory[register] for register in step.operands)
        shared = frozenset(step.results).union(*given, *(roots for results in inside for roots in results))
        return [shared] * len(step.results)
    return [frozenset({result}) for result in step.results]


def _list_reads(routine: Routine) -> set[int]:
    """The registers that a routine reads, those among them that it writes itself."""
    found = set(routine.results)
    for step in routine.steps:
        if step.op not in _READ_NO_ELEMENTS:
            found.update(step.operands, *map(_list_reads, step.regions))
    return found


def _refuse_stale(reader: str, registers: Iterable[int], stale: Mapping[int, Step]) -> None:
    for register in registers:
        if register in stale:
            writer = _describe_writer(stale[register])
            raise InternalError(f"planning: '{reader}' reads register {register}, whose memory {writer} wrote over")


def _describe_writer(step: Step) -> str:
    return f"the call of kernel '{step.facts['kernel']}'"
