"""Carries out routines: programs with sizes, or a course, that only the run knows.

A routine becomes a list of functions on registers once, when a program is loaded; kernels do the work.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np

from ...core.program import Routine, Step
from ..artifact.manifest import RoutineRecord
from ..process.deadline import Deadline
from ..process.link import Library
from ..process.threads import Team
from ..steps.actions import DEADLINE, Action, Registers, make_action
from ..steps.segments import group_steps
from ..tensors.pool import MemoryPool
from .recording import LoadedKernel
from .replay import Resources, replay

Watch = Callable[[Step, Action], Action]


class Routines:
    """Carries out a routine with the kernels that ``library`` exports as ``kernel(index)``, in the record's order.

    ``params`` are the routine's last arguments. ``watch`` gives what is done in place of each step's action: steps are
    then carried out one by one, not as segments. ``pool`` lends the memory, by default one of its own; ``make_team``
    makes the threads that kernels run on. Calls may be made from several threads at once.
    """

    def __init__(
        self,
        library: Library,
        record: RoutineRecord,
        params: Sequence[np.ndarray],
        threads: int = 1,
        watch: Watch | None = None,
        pool: MemoryPool | None = None,
        make_team: Callable[[int, int], Team] = Team,
    ) -> None:
        self._watch = watch
        self._library, self._params = (
            library,
            [_view_for_kernels(param) for param in params],
        )  # they own the code and the weights
        self._routine = record.routine
        find = library.get_function("kernel")
        kernels = {kernel.name: LoadedKernel(kernel, find(i).value) for i, kernel in enumerate(record.kernels)}
        team = make_team(library.get_function("run_calls")().value, threads)
        given = len(self._routine.arguments) - len(params)
        self._inputs, last = self._routine.arguments[:given], self._routine.arguments[given:]
        weights = dict(zip(last, self._params, strict=True))
        self._resources = Resources(kernels, weights, team, pool or MemoryPool())
        self._begin: Registers = [None] * (2 + max(_registers(self._routine), default=-1))  # of a run, with the weights
        for register, param in weights.items():
            self._begin[register] = param
        self._actions = self._bind_actions(self._routine)

    @property
    def pool(self) -> MemoryPool:
        """The memory of all tensors that it makes; those that a caller holds are not used again."""
        return self._resources.pool

    def run(self, inputs: Sequence[np.ndarray], deadline: Deadline | None = None) -> list[np.ndarray]:
        """The routine's results for its inputs, contiguous arrays of any dtype of the right width.

        A signal's exception, or TimeoutError behind the ``deadline``, ends the run between two kernels.
        """
        registers = self._begin.copy()
        registers[DEADLINE] = deadline
        for register, value in zip(self._inputs, inputs, strict=True):
            registers[register] = _view_for_kernels(value)
        _run_actions(self._actions, registers)
        return [registers[r] for r in self._routine.results]

    def _bind_actions(self, routine: Routine) -> list[Action]:
        groups = ((step,) for step in routine.steps) if self._watch else group_steps(routine.steps)
        return [act for steps in groups for act in self._actions_of(steps)]

    def _actions_of(self, steps: Sequence[Step]) -> Iterator[Action]:
        """The actions of a segment, or of a step alone."""
        first = steps[0]
        if any(step.op == "func.call" for step in steps):
            act = replay(steps, self._resources)
        else:
            act = self._action(first)
        yield self._watch(first, act) if self._watch else act
        if first.dead and len(steps) == 1:
            yield partial(_drop, first.dead)

    def _action(self, step: Step) -> Action:
        match step.op:
            case "scf.if":
                return self._branch(step)
            case "scf.for":
                return self._count_loop(step)
            case "scf.while":
                return self._while_loop(step)
        return make_action(step)

    def _branch(self, step: Step) -> Action:
        branches = [(self._bind_actions(region), region) for region in step.regions]

        def branch(registers: Registers) -> None:
            taken = 0 if registers[step.operands[0]] else 1
            if taken < len(branches):
                actions, region = branches[taken]
                _run_actions(actions, registers)
                _move_values(registers, region.results, step.results)

        return branch

    def _count_loop(self, step: Step) -> Action:
        [region] = step.regions
        actions = self._bind_actions(region)
        (at, *carried), (low, high, by, *initial) = region.arguments, step.operands

        def loop(registers: Registers) -> None:
            _move_values(registers, initial, carried)
            for index in range(registers[low], registers[high], registers[by]):
                _check_deadline(registers)
                registers[at] = index
                _run_actions(actions, registers)
                _move_values(registers, region.results, carried)
            _move_values(registers, carried, step.results)

        return loop

    def _while_loop(self, step: Step) -> Action:
        before, after = step.regions
        test, body = self._bind_actions(before), self._bind_actions(after)
        condition, *passed = before.results

        def loop(registers: Registers) -> None:
            _move_values(registers, step.operands, before.arguments)
            while True:
                _check_deadline(registers)
                _run_actions(test, registers)
                if not registers[condition]:
                    break
                _move_values(registers, passed, after.arguments)
                _run_actions(body, registers)
                _move_values(registers, after.results, before.arguments)
            _move_values(registers, passed, step.results)

        return loop


def _view_for_kernels(value: Any) -> Any:
    """An array of the dtype in which kernels see its elements; text, complex numbers and what is none as they are."""
    if isinstance(value, np.ndarray) and value.dtype.kind not in "OUSTifc":
        return value.view(f"i{value.dtype.itemsize}")
    return value


def _registers(routine: Routine) -> Iterator[int]:
    """All registers that a routine names."""
    yield from (*routine.arguments, *routine.results)
    for step in routine.steps:
        yield from (*step.operands, *step.results)
        for region in step.regions:
            yield from _registers(region)


def _run_actions(actions: Sequence[Action], registers: Registers) -> None:
    for act in actions:
        act(registers)


def _move_values(registers: Registers, sources: Sequence[int], targets: Sequence[int]) -> None:
    values = [registers[r] for r in sources]
    for register, value in zip(targets, values, strict=True):
        registers[register] = value


def _check_deadline(registers: Registers) -> None:
    deadline = registers[DEADLINE]
    if deadline is not None:
        deadline.check()


def _drop(dead: Sequence[int], registers: Registers) -> None:
    for register in dead:
        registers[register] = None
