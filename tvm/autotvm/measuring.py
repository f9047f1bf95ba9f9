"""Configs of a template, built and measured: a bad one costs its own trial."""

from __future__ import annotations

import contextvars
import logging
import pickle
import queue
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...core.errors import CompileTimeoutError, ExpressionError, FleetError, ScheduleError, TilewrightError
from ...driver import expressions
from ...te.schedule import Schedule, create_schedule
from ...te.tensor import PlaceholderOp, Tensor
from ...tuning.fleet.client import LostWorkerError, RemotePool, connect_workers
from ...workers import Job, Limits, get_pool
from . import jobs
from .kernels import KernelMeasurer, KernelTask, open_laboratory
from .results import LocalBuilder, LocalRunner, MeasureBatch, MeasureErrorNo, MeasureInput, MeasureResult
from .templates import Task

logger = logging.getLogger("autotvm")

_START_SECONDS = 30  # of the process that measures, besides what a config may take


def create_measure_batch(task: Task, option: Mapping[str, Any]) -> MeasureBatch:
    """A function that measures some configs of a task at once."""
    builder, runner = option["builder"], option["runner"]
    if isinstance(task, KernelTask):
        laboratory = open_laboratory(task.kernel.target, task.kernel.threads, runner.fleet)
        return KernelMeasurer(task, laboratory, builder.n_parallel)
    return TemplateMeasurer(task, builder, runner)


@dataclass(frozen=True)
class Built:
    """A config's program, pickled; or what was wrong."""

    program: bytes = b""
    error_no: int = 0
    reason: str = ""
    seconds: float = 0.0


class TemplateMeasurer:
    """Measures configs of one template task."""

    def __init__(self, task: Task, builder: LocalBuilder, runner: LocalRunner) -> None:
        self._task, self._builder, self._runner = task, builder, runner
        self._default = b""
        self._pools: list[RemotePool] = []
        if runner.fleet is not None:
            self._pools = connect_workers(runner.fleet, self._target)
        self.n_parallel = max(builder.n_parallel, len(self._pools))

    def __call__(self, inputs: Sequence[MeasureInput]) -> list[MeasureResult]:
        """Build all, then measure one after the other."""
        made: list[Any] = [self._instantiate(each) for each in inputs]
        with ThreadPoolExecutor(self.n_parallel) as threads:
            copies = [contextvars.copy_context() for _ in made]
            built = list(threads.map(lambda pair: pair[1].run(self._build, pair[0]), zip(made, copies, strict=True)))
        pools = self._pools or [get_pool(1, jobs.MEASURER)]
        free: queue.SimpleQueue[Any] = queue.SimpleQueue()
        for pool in pools:
            free.put(pool)
        with ThreadPoolExecutor(len(pools)) as threads:
            return list(threads.map(lambda each: self._run_somewhere(each, free), built))

    def _run_somewhere(self, built: Built, free: queue.SimpleQueue[Any]) -> MeasureResult:
        """Measure by the next worker that is free; by another one where it is lost. FleetError where none is left."""
        while (pool := free.get()) is not None:
            try:
                made = self._run(built, pool)
            except LostWorkerError as error:
                logger.warning("%s: its configs go to other workers", error)
                self._pools = [each for each in self._pools if each is not pool]
                if not self._pools:
                    free.put(None)
            else:
                free.put(pool)
                return made
        free.put(None)
        raise FleetError("no worker of the fleet is left to measure on: start one by `tilewright fleet worker`")

    def close(self) -> None:
        """End the connection to a fleet."""
        for pool in self._pools[:1]:  # they have one connection
            pool.close()

    def _instantiate(self, given: MeasureInput) -> tuple[Schedule, list[Tensor]] | Built:
        """The schedule of a config. A template's own code may raise anything for a config that suits it not."""
        begin = time.perf_counter()
        config = given.config
        config.errors = []
        try:
            made = self._task.instantiate(config)
        except Exception as error:
            reason = f"{type(error).__name__}: {' '.join(str(error).split())}"
            return Built(b"", MeasureErrorNo.INSTANTIATION_ERROR, reason, time.perf_counter() - begin)
        if config.errors:
            seconds = time.perf_counter() - begin
            return Built(b"", MeasureErrorNo.INSTANTIATION_ERROR, "; ".join(config.errors), seconds)
        if not self._default:
            self._default = self._build_default(made[1])
        return made

    def _build_default(self, args: Sequence[Tensor]) -> bytes:
        """The program of the same computation that the compiler schedules by itself: what results have to be."""
        outputs = [each.op for each in args if not isinstance(each.op, PlaceholderOp)]
        for automatic in (True, False):
            schedule = create_schedule(outputs)
            try:
                for stage in schedule.stages if automatic else ():
                    if not stage.is_placeholder:
                        schedule[stage.op].auto()
                return pickle.dumps(expressions.build_schedule(schedule, args, self._target, self._task.name))
            except ScheduleError:
                if not automatic:
                    raise
        raise AssertionError

    @property
    def _target(self) -> Any:
        return self._task.target.own

    def _build(self, made: tuple[Schedule, list[Tensor]] | Built) -> Built:
        if isinstance(made, Built):
            return made
        begin = time.perf_counter()
        try:
            module = expressions.build_schedule(
                *made, self._target, self._task.name, timeout=self._builder.timeout, cache=False
            )
            return Built(pickle.dumps(module), seconds=time.perf_counter() - begin)
        except CompileTimeoutError as error:
            error_no, reason = MeasureErrorNo.BUILD_TIMEOUT, str(error)
        except (ScheduleError, ExpressionError) as error:
            error_no, reason = MeasureErrorNo.INSTANTIATION_ERROR, str(error)
        except TilewrightError as error:
            error_no, reason = MeasureErrorNo.COMPILE_HOST, str(error)
        return Built(b"", error_no, reason, time.perf_counter() - begin)

    def _run(self, built: Built, pool: Any) -> MeasureResult:
        begin = time.perf_counter()
        costs: tuple[Any, ...] = ()
        error_no, reason = built.error_no, built.reason
        if not error_no:
            costs, error_no, reason = self._time(built.program, pool)
            time.sleep(self._runner.cooldown_interval)
        spent = built.seconds + time.perf_counter() - begin
        told = (MeasureErrorNo(error_no).name, reason)
        return MeasureResult(told if error_no else costs, int(error_no), spent, time.time())

    def _time(self, program: bytes, pool: Any) -> tuple[tuple[float, ...], int, str]:
        runner = self._runner
        given = tuple(np.asarray(each) for each in runner.ref_input or ())
        timed = jobs.Timed(runner.number, runner.repeat, runner.min_repeat_ms, runner.enable_cpu_cache_flush, given)
        ready = Job(f"the inputs of '{self._task.name}'", jobs.prepare, (self._default, timed))
        job = Job(f"a config of '{self._task.name}'", jobs.time_program, (program, self._default, timed))
        try:
            pool.with_limits(Limits(runner.timeout + _START_SECONDS, bundles=False)).run([ready])
            costs, wrong = pool.with_limits(Limits(runner.timeout, bundles=False)).run([job])[0]
        except CompileTimeoutError:
            return (), MeasureErrorNo.RUN_TIMEOUT, f"it took more than {runner.timeout:g} s (timeout=)"
        except FleetError:
            raise
        except TilewrightError as error:
            words = str(error).replace("the compiler crashed", "the program crashed")
            return (), MeasureErrorNo.RUNTIME_DEVICE, words
        return costs, MeasureErrorNo.WRONG_ANSWER if wrong else 0, wrong
