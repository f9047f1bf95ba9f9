"""Which registers have a tensor that can be made where an output of the program is to lie."""

from __future__ import annotations

from collections import Counter

from ....core.program import VIEWS, RegisterType, Routine, Step


def place_outputs(routine: Routine) -> dict[int, int]:
    """The numbers of outputs by registers that calls make once, and that become these outputs."""
    placed: dict[int, int] = {}
    for number, register in enumerate(routine.results):
        _place(routine, register, number, placed)
    return placed


def _place(routine: Routine, register: int, output: int, placed: dict[int, int]) -> None:
    step = next((step for step in routine.steps if register in step.results), None)
    if step is None or register in placed:
        return
    if step.op == "func.call" and "over" in step.facts:
        _place(routine, step.operands[step.facts["over"]], output, placed)
    elif step.op == "func.call":
        placed[register] = output
    elif step.op in VIEWS:
        _place(routine, step.operands[0], output, placed)
    elif step.op == "tensor.select" and _is_empty_unless_taken(routine, step):
        _place(routine, step.operands[1], output, placed)
    elif step.op == "scf.if":
        for region in step.regions:
            _place(region, region.results[step.results.index(register)], output, placed)


def _is_empty_unless_taken(routine: Routine, choice: Step) -> bool:
    """Return whether the second tensor of a choice is a kernel's, has no elements where the first one is taken, and
    nothing else reads it: it can then be made where the choice is to lie."""
    makers = {register: step for step in routine.steps for register in step.results}
    reads = _count_reads(routine)
    _, register, condition = choice.operands
    while (step := makers.get(register)) is not None and reads[register] == 1:
        if step.op == "func.call":
            extents = step.operands[len(step.operands) - sum(map(_count_open, step.types)) :]
            sizes = [makers[r] for r in extents if r in makers and makers[r].op == "arith.select"]
            empty = (s.operands[0] == condition and _is_zero(makers.get(s.operands[1])) for s in sizes)
            return "over" not in step.facts and len(step.results) == 1 and any(empty)
        if step.op not in VIEWS:
            return False
        register = step.operands[0]
    return False


def _count_reads(routine: Routine) -> Counter[int]:
    """How often each register is read."""
    counts = Counter(routine.results)
    for step in routine.steps:
        counts.update(step.operands)
        for region in step.regions:
            counts.update(_count_reads(region))
    return counts


def _count_open(type_: RegisterType) -> int:
    return sum(extent is None for extent in type_[1] or ())


def _is_zero(step: Step | None) -> bool:
    return step is not None and step.op == "arith.constant" and step.facts["value"] == 0
