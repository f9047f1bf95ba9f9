"""Kernels by schedules that tuning has found, which are taken where they fit, and left where they do not any more.

A schedule was faster than the default one of its day. If the kernel has another default schedule now, nothing is known
of which is faster, and the default one is taken.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable
from typing import TypeVar

from ..core.errors import CompileError, CompileTimeoutError, ScheduleError
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
    (module, kernel), why = _attempt(pipeline.lower_kernel, bytecode, name, target, context, schedule)
    return module, _mark_kernel(kernel, why)


def compile_tuned_kernel(
    bytecode: bytes, name: str, target: Target, context: PassContext, schedule: str, most: int
) -> Kernel:
    """The same, compiled to an object. It leaves a schedule that needs more than ``most`` bytes in each thread, too."""
    kernel, why = _attempt(pipeline.compile_kernel, bytecode, name, target, context, schedule)
    if why == "" and kernel.scratch_bytes > most:
        why = f"it needs {kernel.scratch_bytes} bytes in each thread, more than the {most} that a program may have"
        kernel = pipeline.compile_kernel(bytecode, target, context)
    return _mark_kernel(kernel, why)


def describe_tuned_schedule(
    bytecode: bytes, name: str, target: Target, context: PassContext, schedule: str = ""
) -> str:
    """The text of the schedule that a kernel has then; see ``pipeline.describe_schedule``."""
    return _attempt(pipeline.describe_schedule, bytecode, name, target, context, schedule)[0]


def _attempt(
    make: Callable[[bytes, Target, PassContext], Lowered],
    bytecode: bytes,
    name: str,
    target: Target,
    context: PassContext,
    schedule: str,
) -> tuple[Lowered, str | None]:
    """What ``make`` makes in a context with the schedule, and ""; or in the given one, and why the schedule is left.

    That is None where there is none to be taken.
    """
    if not schedule or (SCHEDULES in context.config and by_hand.find_schedule(context.config, name)):
        return make(bytecode, target, context), None
    try:
        config = {**context.config, SCHEDULES: {name: Schedule.from_json(schedule)}}
        _check_default(bytecode, target, context, json.loads(schedule).get("default_steps"))
        return make(bytecode, target, dataclasses.replace(context, config=config)), ""
    except CompileTimeoutError:
        raise
    except CompileError as error:
        why = str(error)
    return make(bytecode, target, context), why


def _check_default(bytecode: bytes, target: Target, context: PassContext, steps: object) -> None:
    """Raise ScheduleError where the kernel's default schedule has other steps than these; None fits any."""
    if steps is None:
        return
    default = pipeline.describe_loops(bytecode, target, context).schedule_json
    if steps != (json.loads(default)["steps"] if default else []):
        raise ScheduleError("it was measured beside another default schedule")


def _mark_kernel(kernel: Kernel, why: str | None) -> Kernel:
    """A kernel that says whether its schedule is a tuned one, and if it should be and is not, why."""
    if not why:
        return kernel if why is None else dataclasses.replace(kernel, tuned=True)
    note = f"has its own schedule, as the tuned one does not fit any more ({why}): tune again"
    return dataclasses.replace(kernel, note="; ".join(filter(None, (note, kernel.note))))
