"""Kernels by schedules that tuning has found, which are taken where they fit, and left where they do not any more."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import TypeVar

from ..core.errors import CompileError, CompileTimeoutError
from ..core.program import Kernel
from ..core.target import Target
from ..dialects import ir
from . import pipeline
from .infra.context import SCHEDULES, PassContext
from .schedule.language import by_hand
from .schedule.language.schedule import Schedule

Lowered = TypeVar("Lowered")


def lower_tuned_kernel(
    bytecode: bytes, name: str, target: Target, context: PassContext, schedule: str = ""
) -> tuple[ir.Module, Kernel]:
    """The kernel as ``pipeline.lower_kernel`` makes it, by a tuned schedule, the JSON of one, if there is one.

    A schedule that the context's config gives counts before it. Where the tuned one cannot be carried out, the kernel
    is lowered by its own schedule, and its note says why.
    """
    (module, kernel), why = _attempt(name, context, schedule, lambda c: pipeline.lower_kernel(bytecode, target, c))
    return module, _mark_kernel(kernel, why)


def compile_tuned_kernel(
    bytecode: bytes, name: str, target: Target, context: PassContext, schedule: str, most: int
) -> Kernel:
    """The same, compiled to an object. It leaves a schedule that needs more than ``most`` bytes in each thread, too."""
    kernel, why = _attempt(name, context, schedule, lambda c: pipeline.compile_kernel(bytecode, target, c))
    if why == "" and kernel.scratch_bytes > most:
        why = f"it needs {kernel.scratch_bytes} bytes in each thread, more than the {most} that a program may have"
        kernel = pipeline.compile_kernel(bytecode, target, context)
    return _mark_kernel(kernel, why)


def describe_tuned_schedule(
    bytecode: bytes, name: str, target: Target, context: PassContext, schedule: str = ""
) -> str:
    """The text of the schedule that a kernel has then; see ``pipeline.describe_schedule``."""
    return _attempt(name, context, schedule, lambda c: pipeline.describe_schedule(bytecode, target, c))[0]


def _attempt(
    name: str, context: PassContext, schedule: str, make: Callable[[PassContext], Lowered]
) -> tuple[Lowered, str | None]:
    """What ``make`` makes in a context with the schedule, and ""; or in the given one, and why the schedule is left.

    That is None where there is none to be taken.
    """
    if not schedule or (SCHEDULES in context.config and by_hand.find_schedule(context.config, name)):
        return make(context), None
    try:
        config = {**context.config, SCHEDULES: {name: Schedule.from_json(schedule)}}
        return make(dataclasses.replace(context, config=config)), ""
    except CompileTimeoutError:
        raise
    except CompileError as error:
        why = str(error)
    return make(context), why


def _mark_kernel(kernel: Kernel, why: str | None) -> Kernel:
    """A kernel that says whether its schedule is a tuned one, and if it should be and is not, why."""
    if not why:
        return kernel if why is None else dataclasses.replace(kernel, tuned=True)
    note = f"has its own schedule, as the tuned one does not fit any more ({why}): tune again"
    return dataclasses.replace(kernel, note="; ".join(filter(None, (note, kernel.note))))
