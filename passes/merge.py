"""Plans of one model, for several sizes and targets, become one: equal kernels, and equal weights, are there once."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np

from ..core.formula import Formula
from ..core.model import FileSlice, Param, TensorInfo
from ..core.program import Call, Plan, Program, Routine, Step
from ..dialects import ir
from ..dialects.context import make_context
from .ir.kernel import find_kernel, symbol_of
from .pipeline import to_bytecode

Params = Mapping[str, Param]


def merge(
    plans: Sequence[Plan], params: Sequence[Params], targets: Sequence[str] = ()
) -> tuple[Plan, dict[str, Param]]:
    """The plan whose main program, and that of sessions, are the first one's; specialized are those of the others.

    ``params`` are the weights of the model that each plan reads. What bears one name in several plans and is not the
    same gets a number.

    ``targets`` are the names of the targets that the plans are for, those of one target in a row; none where there is
    one for all. Kernels for different targets are different code though their IR be equal: their names end with the
    target's. What prepares weights runs where the compiler does, so equal weights are one whatever they are for.
    """
    names = targets or [""] * len(plans)
    merged = _Merged()
    programs: dict[str, list[Program]] = {}
    sessions: dict[str, tuple[Program, ...]] = {}
    for plan, own, target in zip(plans, params, names, strict=True):
        main, *session = merged.add(plan, own, f".{target}" if target else "")
        programs.setdefault(target, []).append(main)
        sessions.setdefault(target, tuple(session))
    first, *variants = (tuple(own) for own in programs.values())
    first_session, *other_sessions = sessions.values()
    made = Plan(
        main=first[0],
        prepare=merged.prepare,
        kernels=merged.kernels,
        specialized=first[1:],
        session=next(iter(first_session), None),
        variants=tuple((*own, *session) for own, session in zip(variants, other_sessions, strict=True)),
        formulas=merged.formulas,
    )
    return made, merged.params


def add_session(plan: Plan, session: Plan, params: Params) -> Plan:
    """A plan with the main program of another one, of the same model, as that of sessions."""
    merged, _ = merge([plan, session], [params, params])
    return replace(merged, specialized=(), session=merged.specialized[0])


class _Merged:
    """The kernels and weights of the plans that were added."""

    def __init__(self) -> None:
        self.kernels: dict[str, bytes] = {}
        self.params: dict[str, Param] = {}
        self.prepare: dict[str, Program] = {}
        self.formulas: dict[str, Formula] = {}
        self._prepared: dict[Program, str] = {}  # what makes a weight, and its name

    def add(self, plan: Plan, params: Params, suffix: str) -> list[Program]:
        """Add what a plan has, and return its main program, and that of sessions, by the names that it got.

        ``suffix`` ends the names of the kernels that it calls.
        """
        prepare = {call.kernel for program in plan.prepare.values() for call in program.calls}
        programs = (plan.main, *((plan.session,) if plan.session else ()))
        called = {call.kernel for program in programs for call in program.calls}
        with make_context(), ir.Location.unknown():
            own = {name: self._add_kernel(name + suffix, plan.kernels[name]) for name in plan.kernels if name in called}
            kernels = {name: self._add_kernel(name, plan.kernels[name]) for name in plan.kernels if name in prepare}
        self.formulas |= {kernels[name]: formula for name, formula in plan.formulas.items()}
        weights = {name: self._add_param(param) for name, param in params.items()}
        for name, program in plan.prepare.items():
            weights[name] = self._add_prepared(name, _rename(program, kernels, weights))
        return [_rename(program, own, weights) for program in programs]

    def _add_kernel(self, name: str, code: bytes) -> str:
        known = next(n for n in _number_names(name) if n not in self.kernels or self._is_kernel(n, code))
        if known not in self.kernels:
            self.kernels[known] = _with_name(code, known)
        return known

    def _is_kernel(self, name: str, code: bytes) -> bool:
        return self.kernels[name] == code or _print_code(self.kernels[name]) == _print_code(code)

    def _add_param(self, param: Param) -> str:
        names = (name for name in _number_names(param.info.name) if name not in self.prepare)
        known = next(name for name in names if name not in self.params or _is_same_weight(self.params[name], param))
        self.params.setdefault(known, replace(param, info=replace(param.info, name=known)))
        return known

    def _add_prepared(self, name: str, program: Program) -> str:
        """``program`` makes the weight ``name``; one that does the same may be known by another name."""
        does = replace(_rename_output(program, ""), calls=tuple(Call(c.kernel, c.args) for c in program.calls))
        if does not in self._prepared:
            known = next(n for n in _number_names(name) if n not in self.prepare and n not in self.params)
            self._prepared[does], self.prepare[known] = known, _rename_output(program, known)
        return self._prepared[does]


def _number_names(name: str) -> Iterator[str]:
    """``x``, ``x.1``, ``x.2`` ..."""
    yield name
    yield from (f"{name}.{number}" for number in itertools.count(1))


def _print_code(code: bytes) -> str:
    """The text of a kernel without locations and name: equal kernels have the same."""
    module = ir.Module.parse(code)
    find_kernel(module).attributes["sym_name"] = ir.StringAttr.get("kernel")
    return str(module.operation.get_asm(enable_debug_info=False, use_local_scope=True))


def _with_name(code: bytes, name: str) -> bytes:
    """A kernel under this name."""
    module = ir.Module.parse(code)
    if symbol_of(find_kernel(module)) == name:
        return code
    find_kernel(module).attributes["sym_name"] = ir.StringAttr.get(name)
    return to_bytecode(module.operation)


def _is_same_weight(a: Param, b: Param) -> bool:
    """Return whether two weights have the same elements, of the same type."""
    if (a.info.shape, a.info.dtype) != (b.info.shape, b.info.dtype):
        return False
    if a.source is b.source or (isinstance(a.source, FileSlice) and a.source == b.source):
        return True
    return np.array_equal(a.array().reshape(-1).view(np.uint8), b.array().reshape(-1).view(np.uint8))


def _rename_output(program: Program, output: str) -> Program:
    """A program that prepares a weight, which is called ``output``."""
    return replace(program, outputs=tuple(replace(info, name=output) for info in program.outputs))


def _rename(program: Program, kernels: Mapping[str, str], weights: Mapping[str, str]) -> Program:
    """A program that calls its kernels and weights by other names."""
    return replace(
        program,
        params=tuple(TensorInfo(weights[info.name], info.shape, info.dtype) for info in program.params),
        calls=tuple(replace(call, kernel=kernels[call.kernel]) for call in program.calls),
        routine=None if program.routine is None else _renamed_routine(program.routine, kernels),
    )


def _renamed_routine(routine: Routine, kernels: Mapping[str, str]) -> Routine:
    return replace(routine, steps=tuple(_renamed_step(step, kernels) for step in routine.steps))


def _renamed_step(step: Step, kernels: Mapping[str, str]) -> Step:
    facts = {**step.facts, "kernel": kernels[step.facts["kernel"]]} if step.op == "func.call" else step.facts
    return replace(step, facts=facts, regions=tuple(_renamed_routine(region, kernels) for region in step.regions))
