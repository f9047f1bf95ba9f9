"""Steps in a row that sizes alone determine, and what decides over the calls that they make.

What a segment does depends on the shapes of the tensors that it reads, and on some of the numbers: those that lead to
shapes, to memory or to a check. All others are only handed to kernels. Steps that look at data, call the host, branch
or repeat are in no segment.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby

from ...core.program import REPORT, Step
from .actions import VIEWS
from .arithmetic import SCALARS

# The steps that a segment may have.
DETERMINED = {"func.call", "cf.assert", REPORT, "arith.constant", "tensor.dim", "tensor.select", *VIEWS, *SCALARS}


def group_steps(steps: Sequence[Step]) -> Iterator[tuple[Step, ...]]:
    """The steps in order: those of a segment, which calls kernels, together, all others alone."""
    for determined, group in groupby(steps, lambda step: step.op in DETERMINED):
        together = tuple(group)
        if determined and any(step.op == "func.call" for step in together):
            yield tuple(step for step in together if step.op != REPORT)
            yield from ((step,) for step in together if step.op == REPORT)  # which read what the calls have made
        else:
            yield from ((step,) for step in together)


def tensor_count(step: Step) -> int:
    """How many of a step's operands are tensors: the first ones."""
    if step.op in ("func.call", "tensor.select"):
        return len(step.facts["open"]) if step.op == "func.call" else 2
    return int(step.op in (*VIEWS, "tensor.dim"))


def count_dynamic_extents(step: Step) -> int:
    """How many of the sizes that a kernel is called with are extents of its results: the last ones."""
    return sum(n is None for _, shape in step.facts["types"] for n in shape)


@dataclass(frozen=True)
class Segment:
    """Steps with the registers that they read and leave.

    ``ahead`` are the steps that compute numbers which decide nothing, as a loop's next index: they are carried out
    before the others. ``numbers`` decide, ``passed`` are only handed to kernels. Nobody reads ``dead`` afterwards.
    """

    ahead: tuple[Step, ...]
    steps: tuple[Step, ...]
    tensors: tuple[int, ...]
    numbers: tuple[int, ...]
    passed: tuple[int, ...]
    results: tuple[int, ...]
    dead: tuple[int, ...]

    @staticmethod
    def of(steps: Sequence[Step], asks_scratch: Callable[[str], bool]) -> Segment:
        """The segment of these steps; ``asks_scratch`` says it of a kernel: its memory depends on all its sizes."""
        deciding = _find_deciding(steps, asks_scratch)
        ahead, rest = _split_steps(steps, deciding)
        tensors, scalars = _find_reads(rest)
        computed_with = {r for step in rest if step.op != "func.call" for r in step.operands}
        numbers = tuple(r for r in scalars if r in deciding or r in computed_with)
        passed = tuple(r for r in scalars if r not in numbers)
        dropped = {r for step in steps for r in step.dead}
        results = tuple(r for step in rest for r in step.results if r not in dropped)
        outside = {r for step in ahead for r in (*step.operands, *step.results)} | {*tensors, *scalars}
        return Segment(ahead, rest, tensors, numbers, passed, results, tuple(sorted(dropped & outside)))


def _find_deciding(steps: Sequence[Step], asks_scratch: Callable[[str], bool]) -> set[int]:
    """The registers of numbers that lead to shapes, to memory or to a check."""
    found: set[int] = set()
    for step in reversed(steps):
        scalars = step.operands[tensor_count(step) :]
        if step.op == "func.call" and not asks_scratch(step.facts["kernel"]):
            found.update(scalars[len(scalars) - count_dynamic_extents(step) :])
        elif step.op not in SCALARS or found.intersection(step.results):
            found.update(scalars)
    return found


def _split_steps(steps: Sequence[Step], deciding: set[int]) -> tuple[tuple[Step, ...], tuple[Step, ...]]:
    """The steps to be carried out ahead, with the constants that they use, and the others with all constants.

    Ahead go those that compute what decides nothing, from numbers that the segment reads or that come ahead as well.
    """
    constants = {step.results[0]: step for step in steps if step.op == "arith.constant"}
    inside = {r for step in steps for r in step.results}
    ahead: list[Step] = []
    rest: list[Step] = []
    for step in steps:
        given = [r for r in step.operands if r not in inside]
        known = all(r in constants for r in step.operands if r in inside)
        if step.op in SCALARS and given and known and not deciding.intersection(step.results):
            ahead += [*(constants[r] for r in step.operands if r in constants), step]
            inside.difference_update(step.results)
        else:
            rest.append(step)
    return tuple(ahead), tuple(rest)


def _find_reads(steps: Sequence[Step]) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The registers of tensors and those of numbers that steps read before they write them."""
    own: set[int] = set()
    tensors: dict[int, None] = {}
    scalars: dict[int, None] = {}
    for step in steps:
        count = tensor_count(step)
        tensors.update(dict.fromkeys(r for r in step.operands[:count] if r not in own))
        scalars.update(dict.fromkeys(r for r in step.operands[count:] if r not in own))
        own.update(step.results)
    return tuple(tensors), tuple(scalars)
