"""Branches and loops, and the steps of a region one after another."""

from __future__ import annotations

from collections.abc import Sequence

from ....core.program import APPEND, COLLECT, REPORT, RegisterType, Routine, Step
from .calls import CallWriter, is_last_reader
from .values import Scalar, Value


class StepWriter(CallWriter):
    """Writes all steps, those in regions as blocks. A register's reference to its owner ends with its last reader."""

    def _steps(self, routine: Routine) -> None:
        for number, step in enumerate(routine.steps):
            if step.op == COLLECT:
                self._values[step.results[0]] = self._collect(step, is_last_reader(routine, number))
            else:
                self._step(step)
            for register in step.dead:
                if register in self._values:
                    self._release(self._values[register])

    def _step(self, step: Step) -> None:
        match step.op:
            case "func.call":
                self._call_kernel(step)
            case "host.call":
                self._call_host(step)
            case "scf.if":
                self._branch(step)
            case "scf.for":
                self._count(step)
            case "scf.while":
                self._repeat(step)
            case "cf.assert":
                condition, *compared = map(self._number, step.operands)
                self._demand(self._holds(condition), self._refuse(step, step.facts["text"], *compared))
            case "tensor.extract_slice":
                self._values[step.results[0]] = self._slice(step)
            case _ if step.op == REPORT:
                self._report(step)
            case _ if step.op == APPEND:
                self._values[step.results[0]] = self._append(step)
            case _:
                self._values[step.results[0]] = value = self._compute(step)
                self._retain(value)

    def _compute(self, step: Step) -> Value:
        """The value of a step with one result."""
        match step.op:
            case "tensor.collapse_shape":
                return self._collapse(step)
            case "tensor.expand_shape":
                return self._expand(step)
            case "tensor.cast":
                return self._cast(step)
            case "tensor.select":
                return self._choose(step)
            case "tensor.dim":
                return self._dim(step)
            case "tensor.extract":
                return self._extract(step)
        return self._scalar(step)

    def _branch(self, step: Step) -> None:
        bit = self._holds(self._number(step.operands[0]))
        values, arguments = self._arguments(step.types)
        then, other, behind = self._label(), self._label(), self._label()
        self._emit(f"llvm.cond_br {bit}, ^{then}, ^{other}")
        for label, region in zip((then, other), step.regions, strict=False):
            self._begin_block(label)
            self._steps(region)
            self._branch_to(behind, self._leave(region), step.types)
        if len(step.regions) == 1:
            self._begin_block(other)
            self._emit(f"llvm.br ^{behind}")
        self._begin_block(behind, arguments)
        self._values.update(zip(step.results, values, strict=True))

    def _leave(self, region: Routine) -> list[Value]:
        """The results of a region, each with a reference of its own."""
        own = {register for step in region.steps for register in step.results}
        for register in region.results:
            if register in own:
                own.remove(register)  # its reference goes with it
            else:
                self._retain(self._values[register])
        return [self._values[register] for register in region.results]

    def _count(self, step: Step) -> None:
        [region] = step.regions
        low, high, by = (self._number(r) for r in step.operands[:3])
        initial = [self._values[r] for r in step.operands[3:]]
        types = region.types[1:]
        carried, arguments = self._arguments(types)
        [index], [index_argument] = self._arguments([("index", None)])
        head, body, behind = self._label(), self._label(), self._label()
        for value in initial:
            self._retain(value)
        self._enter(head, Scalar(low), initial, types)
        self._begin_block(head, [index_argument, *arguments])
        assert isinstance(index, Scalar)
        self._emit(f"llvm.cond_br {self._compare('slt', index.name, high)}, ^{body}, ^{behind}")
        self._begin_block(body)
        self._tick()
        results = self._run(region, [index, *carried], carried)
        self._enter(head, Scalar(self._combine("arith.addi", index.name, by)), results, types)
        self._begin_block(behind)
        self._values.update(zip(step.results, carried, strict=True))

    def _enter(self, label: str, index: Scalar, values: Sequence[Value], types: Sequence[RegisterType]) -> None:
        self._branch_to(label, [index, *values], [("index", None), *types])

    def _run(self, region: Routine, given: Sequence[Value], carried: Sequence[Value]) -> list[Value]:
        """The results of a loop's region; what it was ``given`` and is ``carried`` is no longer needed then."""
        self._values.update(zip(region.arguments, given, strict=True))
        self._steps(region)
        results = self._leave(region)
        for value in carried:
            self._release(value)
        return results

    def _repeat(self, step: Step) -> None:
        before, after = step.regions
        tested, tested_arguments = self._arguments(before.types)
        head, body, behind = self._label(), self._label(), self._label()
        initial = [self._values[r] for r in step.operands]
        for value in initial:
            self._retain(value)
        self._branch_to(head, initial, before.types)
        self._begin_block(head, tested_arguments)
        self._tick()
        condition, *passed = self._run(before, tested, tested)
        assert isinstance(condition, Scalar)
        self._emit(f"llvm.cond_br {self._holds(condition.name)}, ^{body}, ^{behind}")
        self._begin_block(body)
        self._branch_to(head, self._run(after, passed, passed), before.types)
        self._begin_block(behind)
        self._values.update(zip(step.results, passed, strict=True))

    def _tick(self) -> None:
        """End the run in a loop without calls, too, where it has to end."""
        self._demand_success("tw_tick", "p", "%frame")
