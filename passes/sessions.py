"""The plan of a model with states: its program, and the one that sessions run."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import replace
from functools import partial

from ..core.beside import begin_beside
from ..core.limits import ORDINARY, ModelLimits
from ..core.model import Model, TensorInfo
from ..core.program import Plan
from ..core.states import State, move_first
from ..core.target import Target
from ..dialects import func, ir, tw
from . import merge, pipeline
from .analysis.states import find_states, is_written_over
from .infra.context import PassContext
from .ir.kernel import integer_attr, list_functions, symbol_of
from .ir.signatures import list_arguments, list_attributes, update_signature
from .ir.structure import list_ops


def plan_with_session(
    model: Model,
    target: Target,
    context: PassContext | None = None,
    limits: ModelLimits = ORDINARY,
    declared: Sequence[tuple[str, str]] | None = None,
    alone: bool = False,
) -> Plan:
    """``pipeline.plan`` with the states of the program, and a program for sessions, where it can write over some.

    ``declared`` are pairs of an output and the input that it is in the next run; None for what is found. A program that
    is ``alone`` has none for sessions, which replace its states. Raises CompileError for those that do not fit the
    model.
    """
    context = context or PassContext.current()
    model = pipeline.normalize_model(model, context)
    with model.module.context:
        main = _find_main(model.module)
        states = find_states(main, model.inputs, model.outputs, None if declared is None else dict(declared))
        arguments, results = list_arguments(main), list_ops(main)[-1].operands
        written = [s.axis is not None or is_written_over(results[s.output], arguments[s.input]) for s in states]
    if alone or not any(written):
        made = pipeline.plan(model, target, context, limits)
        return replace(made, main=replace(made.main, states=states))
    plan_session = partial(_plan_session, model, states, target, context, limits)
    # Instruments watch this process alone.
    with nullcontext(plan_session) if context.instruments else begin_beside(plan_session) as finish:
        made = pipeline.plan(model, target, context, limits)
        session = finish()
    made = merge.add_session(made, replace(session, main=replace(session.main, states=states)), model.params)
    return replace(made, main=replace(made.main, states=states))


def _plan_session(
    model: Model, states: Sequence[State], target: Target, context: PassContext, limits: ModelLimits
) -> Plan:
    return pipeline.plan(_mark_states(model, states), target, context, limits)


def _find_main(module: ir.Module) -> func.FuncOp:
    return next(function for function in list_functions(module) if symbol_of(function) == "main")


def _mark_states(model: Model, states: Sequence[State]) -> Model:
    """The model whose states are marked, and described as its program will have them."""
    inputs, outputs = list(model.inputs), list(model.outputs)
    with model.module.context, ir.Location.unknown():
        module = pipeline.clone_module(model.module)
        main = _find_main(module)
        attributes = list_attributes(main)
        for state in states:
            if state.axis is not None:
                _turn(inputs, state.input, state.axis)
                _turn(outputs, state.output, state.axis)
            named = {each.name: each.attr for each in attributes[state.input]}
            attributes[state.input] = ir.DictAttr.get({**named, tw.STATE: integer_attr(state.output)})
        update_signature(main, attributes)
    return replace(model, module=module, inputs=tuple(inputs), outputs=tuple(outputs))


def _turn(infos: list[TensorInfo], number: int, axis: int) -> None:
    infos[number] = replace(infos[number], shape=move_first(infos[number].shape, axis))
