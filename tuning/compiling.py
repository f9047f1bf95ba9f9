"""The work of compile workers for tuning. Everything here takes and gives plain data."""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from ..core.errors import CompileError, ScheduleError, first_line
from ..core.program import Kernel
from ..driver.jobs import Settings
from ..passes.schedule.language.schedule import Schedule


@dataclass(frozen=True)
class Candidate:
    """A kernel compiled with a schedule; without one ``error`` says in a word what went wrong, and ``reason`` why."""

    kernel: Kernel | None
    error: str = ""
    reason: str = ""


def describe_kernel(bytecode: bytes, settings: Settings) -> tuple[tuple[Kernel, list[Schedule]], Settings]:
    """A kernel as far as its loops are chosen, without code, and schedules of other kinds that it may have."""
    from ..passes import pipeline

    return pipeline.describe_forms(bytecode, settings.target, settings.pass_context()), settings


def compile_candidate(
    name: str, bytecode: bytes, values: str, steps: str, settings: Settings, cpus: Sequence[int]
) -> Candidate:
    """Compile a kernel with the schedule of these ``values`` and ``steps``, on these CPUs."""
    from ..passes import pipeline
    from ..passes.infra.context import SCHEDULES, PassContext

    schedule = {"values": json.loads(values), "steps": json.loads(steps)}
    context = PassContext(opt_level=settings.opt_level, config={SCHEDULES: {name: schedule}})
    try:
        with _on_cpus(cpus):
            return Candidate(pipeline.compile_kernel(bytecode, settings.target, context))
    except ScheduleError as error:
        return Candidate(None, "refused", first_line(error))
    except CompileError as error:
        return Candidate(None, "compile", first_line(error))


def compile_default(name: str, bytecode: bytes, settings: Settings) -> tuple[Kernel, bytes]:
    """A kernel with its own schedule, and the object that gives a process its address."""
    from ..passes import pipeline
    from ..passes.lower import entry

    kernel = pipeline.compile_kernel(bytecode, settings.target, settings.pass_context())
    return kernel, entry.emit_kernel_table([name])


@contextlib.contextmanager
def _on_cpus(cpus: Sequence[int]) -> Iterator[None]:
    """Run the block on some CPUs alone; others are left to what is measured there."""
    before = os.sched_getaffinity(0)
    if not cpus or not before & set(cpus):
        yield
        return
    os.sched_setaffinity(0, before & set(cpus))
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)
