"""Kernels of a network as tasks: their configs are schedules of the space that the engine searches."""

from __future__ import annotations

import json
import os
import socket
import time
from collections.abc import Collection, Mapping, Sequence
from functools import lru_cache
from importlib.metadata import version
from typing import Any

from ...core.errors import ScheduleError
from ...core.model import parse_tensor_type
from ...core.target import Target as CpuTarget
from ...passes.infra.context import PassContext
from ...passes.schedule.language.schedule import Schedule
from ...records.trial import Trial, target_key
from ...tuning.fleet.address import Fleet
from ...tuning.fleet.laboratory import FleetLaboratory
from ...tuning.laboratory import Laboratory, Prepared
from ...tuning.measuring.bench import Measured
from ...tuning.spaces.form_space import make_space
from ...tuning.spaces.space import Knob, Point, Space
from ...tuning.task import Task as Kernel
from ..target import Target
from .dispatcher import list_contexts
from .features import NestRow, read_kernel_nests
from .knobs import OtherOptionSpace
from .results import KernelResult, MeasureInput, MeasureResult
from .space import ConfigSpace
from .templates import Task

_MOST_COUNTED = 1 << 11  # configs of a space of which those without a schedule are left out of its length
_PROCESS = f"{socket.gethostname()}:{os.getpid()}:{int(time.time())}"
_SHOWN = 80  # characters of a knob's options


class KernelConfigSpace(ConfigSpace):
    """The schedules of a kernel, of all forms that it may have: those of another form have knobs of its name."""

    def __init__(self, space: Space) -> None:
        super().__init__()
        self.space = space
        for knob in space.knobs:
            self.space_map[knob.name] = KernelOptions([_as_json(option) for option in knob.options])
            self.entities[knob.name] = self.space_map[knob.name][0]

    @property
    def knobs(self) -> tuple[Knob, ...]:
        """See ``ConfigSpace``."""
        return self.space.knobs

    @property
    def default(self) -> Point:
        """The point of the schedule that the kernel has without tuning."""
        return self.space.default

    def steps(self, point: Sequence[int]) -> Any:
        """The primitives of a point's schedule; None where there is none."""
        schedule = self.space.schedule(tuple(point))
        return None if schedule is None else schedule.to_json()["steps"]

    def is_index_valid(self, index: int) -> bool:
        """Return whether there is a schedule of this number."""
        return super().is_index_valid(index) and self.steps(self.point2knob(index)) is not None

    def subrange_length(self, start: int, end: int) -> int:
        """How many configs there are between two numbers; of a large space those without a schedule count, too."""
        if end - start > _MOST_COUNTED:
            return end - start
        return sum(self.is_index_valid(index) for index in range(start, end))


class KernelOptions(OtherOptionSpace):
    """The options of one knob, of which there may be hundreds."""

    def __repr__(self) -> str:
        shown = ", ".join(map(str, self.entities))
        return f"OtherOption([{shown if len(shown) <= _SHOWN else shown[:_SHOWN] + ' ...'}]) len={len(self)}"


def _as_json(option: Any) -> Any:
    return [_as_json(each) for each in option] if isinstance(option, tuple | list) else option


class KernelTask(Task):
    """A kernel of a network: its name has a hash of what it computes, its arguments are its tensors."""

    def __init__(self, kernel: Kernel, target: Target) -> None:
        types = [parse_tensor_type(text) for text in (*kernel.signature.inputs, *kernel.signature.results)]
        super().__init__(kernel.name, [("TENSOR", *each) for each in types], target)
        assert kernel.default is not None  # others are no tasks
        self.kernel = kernel
        self.space = make_space(kernel.default, kernel.others, kernel.target)
        self.config_space = KernelConfigSpace(self.space)
        self.flop = float(max(kernel.flops, 1))

    def read_nests(self, point: Sequence[int]) -> list[NestRow]:
        """The loops of the schedule of a point; none where there is none."""
        schedule = self.space.schedule(tuple(point))
        return [] if schedule is None else read_kernel_nests(schedule)

    def find_index(self, trial: Trial) -> int | None:
        """The number of the config that a record is of; None where it is of another kernel, or of no config."""
        if trial.kernel != self.name:
            return None
        try:
            point = self.space.find(Schedule.from_json(trial.schedule))
        except ScheduleError:
            return None
        return None if point is None else self.config_space.knob2point(point)

    def find_schedule(self, config: Any) -> Schedule | None:
        """The schedule of a config; None where there is none."""
        return self.space.schedule(tuple(self.config_space.point2knob(config.index)))


@lru_cache(4)
def find_laboratory(target: CpuTarget, threads: int) -> Laboratory:
    """Where kernels of a target are measured: its processes wait some minutes for the next task, and then end."""
    return Laboratory(target, threads)


def open_laboratory(target: CpuTarget, threads: int, fleet: Fleet | None) -> Laboratory:
    """That of this machine, or one that measures on a fleet: ``close_laboratory`` ends its connection."""
    return find_laboratory(target, threads) if fleet is None else FleetLaboratory(fleet, target, threads)


def close_laboratory(laboratory: Laboratory) -> None:
    """End the connection to a fleet."""
    if isinstance(laboratory, FleetLaboratory):
        laboratory.close()


class KernelMeasurer:
    """Measures configs of a kernel beside its default schedule, in turn, until it is known which is faster.

    Its results have the engine's records. Configs that are one schedule, as those that differ in what their form does
    not have, are measured once.
    """

    def __init__(
        self, task: KernelTask, laboratory: Laboratory, n_parallel: int, prepared: Prepared | None = None
    ) -> None:
        self.n_parallel = n_parallel
        self._task, self._laboratory = task, laboratory
        self._prepared = prepared
        self._best = 1.0
        self._known: dict[str, MeasureResult] = {}  # by the schedules' steps

    def __call__(self, inputs: Sequence[MeasureInput]) -> list[MeasureResult]:
        """Compile all, then measure one after the other."""
        begin = time.monotonic()
        if self._prepared is None:
            [self._prepared] = self._laboratory.prepare([self._task.kernel])
        schedules = [self._task.find_schedule(each.config) for each in inputs]
        steps = [json.dumps(each.to_json()["steps"]) for each in schedules if each is not None]
        assert len(steps) == len(inputs)  # spaces give no others
        fresh = [text for text in dict.fromkeys(steps) if text not in self._known]
        candidates = self._laboratory.begin_compiling(self._task.kernel, fresh).result()
        waited = (time.monotonic() - begin) / len(inputs)
        for candidate, text in zip(candidates, fresh, strict=True):
            begin = time.monotonic()
            if candidate.kernel is None:
                found = Measured(error=candidate.error, reason=candidate.reason)
            else:
                found = self._laboratory.race(self._prepared, candidate.kernel, self._best)
            trial = self._make_trial(found, text, waited + time.monotonic() - begin)
            self._best = min(self._best, trial.ratio)
            self._known[text] = KernelResult.of(trial)
        return [self._known[text] for text in steps]

    def close(self) -> None:
        """End the connection to a fleet."""
        close_laboratory(self._laboratory)

    def _make_trial(self, found: Measured, steps: str, took: float) -> Trial:
        kernel = self._task.kernel
        assert kernel.default is not None  # others are no tasks
        return Trial(
            kernel.name,
            target_key(kernel.target),
            kernel.threads,
            json.dumps(kernel.default.to_json()["values"]),
            steps,
            found.seconds,
            found.default_seconds,
            found.error,
            found.reason,
            took,
            found.load,
            found.process or _PROCESS,
            version("tilewright"),
            time.time(),
        )


def find_schedules(target: Target, threads: int, kernels: Collection[str]) -> dict[str, Schedule]:
    """The schedules of kernels that the contexts of the ``with`` around have, the innermost first."""
    found: dict[str, Schedule] = {}
    for context in list_contexts():
        found = {**context.find_schedules(target, threads, kernels), **found}
    return found


def schedule_context(schedules: Mapping[str, Schedule]) -> PassContext:
    """The context around, with schedules for kernels besides those that it has."""
    current = PassContext.current()
    given = current.config.get("schedules", {})
    if not schedules or isinstance(given, str):
        return current
    config = {**current.config, "schedules": {**schedules, **given}}
    return PassContext(current.opt_level, current.required_pass, current.disabled_pass, current.instruments, config)
