"""Passes of a command line, with what the pipeline gives its own: the target, and the schedule of a kernel."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from ..core.breadcrumbs import step
from ..core.errors import CompileError
from ..core.target import Target
from ..dialects import codegen, ir
from ..dialects.context import diagnostics, make_context
from .infra.base import Pass
from .infra.context import SCHEDULE, SCHEDULES, TARGET, PassContext, check_context
from .infra.options import parse_pipeline
from .ir.kernel import list_functions, symbol_of
from .pipeline import EMIT, PASSES
from .schedule.language import by_hand


def run(
    text: str,
    label: str,
    passes: str,
    target: Target,
    context: PassContext,
    emit: codegen.CodeKind | None = None,
    locations: bool = False,
) -> bytes:
    """Run the passes that ``passes`` names on a module; gives it as text, or the code that it is emitted as.

    ``label`` is what errors call the text. CompileError for what cannot be parsed, and for what passes raise.
    """
    mlir = make_context()
    with mlir, ir.Location.unknown(), context:
        stages = parse_pipeline(passes, PASSES)
        check_context(context, PASSES, [stage.name for stage in stages])
        mlir.allow_unregistered_dialects = any(stage.unregistered for stage in stages)
        module = parse(text, label)
        apply(passes, module, target, context)
        if emit:
            with step(f"step '{EMIT}'" if emit == "obj" else f"the emission of '{emit}'"):
                return codegen.emit_code(module, target, emit, context.opt_level)
        made: Any = module.operation.get_asm(enable_debug_info=locations, use_local_scope=locations)
        return f"{made.rstrip()}\n".encode()


def parse(text: str, label: str) -> ir.Module:
    """The module that a text is; CompileError for what is none."""
    with diagnostics(f"parsing '{label}'", CompileError):
        return ir.Module.parse(text)


def apply(passes: str, module: ir.Module, target: Target, context: PassContext) -> None:
    """Run the passes that ``passes`` names; CompileError for those that are none."""
    for stage in parse_pipeline(passes, PASSES):
        context.run(_complete(stage, module, target, context.config), module)


def restore_context(facts: Mapping[str, Any]) -> tuple[Target, PassContext]:
    """The target of a step that was recorded (``infra.snapshot``), and the context that it ran in."""
    context = PassContext(opt_level=facts["opt_level"], config={SCHEDULES: facts["schedules"]})
    return Target.parse(facts["target"] or "x86"), context


def _complete(stage: Pass, module: ir.Module, target: Target, config: Mapping[str, Any]) -> Pass:
    """The pass with the target, and the schedule that the config has for the module's kernel, where it takes these."""
    options = {field.name for field in dataclasses.fields(stage)}
    given: dict[str, Any] = {TARGET: target} if TARGET in options else {}
    if SCHEDULE in options and config.get(SCHEDULES):
        schedules = (by_hand.find_schedule(config, symbol_of(function)) for function in list_functions(module))
        given[SCHEDULE] = next(filter(None, schedules), None)
    return dataclasses.replace(stage, **given)
