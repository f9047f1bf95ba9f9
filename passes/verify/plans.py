"""The rules of a planned program, which is plain data: it calls kernels that exist on memory that it has."""

from __future__ import annotations

from collections.abc import Collection

from ...core.errors import InternalError
from ...core.program import Plan, Program, Routine, Slot


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
