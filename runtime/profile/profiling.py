"""From counters to reports: profiles of a module's own calls, and of runs that are made to be measured."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any

from ...core.errors import InputError
from ...core.subgraph_code import name_host_call
from ...core.target import cpu_name
from ..artifact import on_disk
from ..artifact.manifest import Manifest
from ..executors.counters import CallTimes, Event, Times
from ..executors.runner import Runner, start_timed
from .profiler import Report, Row

WARM_UP = 2  # runs that are not counted: they touch the memory, and start the threads


class Profiler:
    """The profiler of a module's calls. ``runners`` run the programs of ``manifest``, which describes them all."""

    def __init__(self, manifest: Manifest, threads: int, runners: Sequence[Runner]) -> None:
        self._manifest, self._threads, self._runners = manifest, threads, runners

    @property
    def on(self) -> bool:
        """Return whether calls are counted from now on: by default if the program was compiled with a profile.

        A program of dynamic sizes can always be counted, but is slower meanwhile. InputError for one of known sizes
        that was compiled without a profile.
        """
        return any(runner.counters is not None and runner.counters.on for runner in self._runners)

    @on.setter
    def on(self, value: bool) -> None:
        for runner in self._runners:
            runner.count(value)

    def reset(self) -> None:
        """Forget what was counted. Calls under way may be counted in part."""
        for runner in self._runners:
            if runner.counters is not None:
                runner.counters.reset()

    def report(self, rates: Mapping[str, float] | None = None) -> Report:
        """The counts of all threads since loading or ``reset``; exact while no call is in progress.

        Rows are the calls of all programs. Raises InputError if none are counted; ``rates`` as in ``Module.profile``.
        """
        counted = [
            (number, runner.counters.times)
            for number, runner in enumerate(self._runners)
            if runner.counters is not None
        ]
        if not counted:
            raise InputError(
                f"'{self._manifest.name}' counts no calls: compile it with --profile (profile=True), or use "
                "Module.profile"
            )
        return _make_report(self._manifest, self._threads, counted, rates)


def profile_program(
    program: on_disk.LoadedProgram,
    threads: int,
    number: int,
    arrays: Sequence[Any],
    rounds: int,
    rates: Mapping[str, float] | None,
    on_round: Callable[[int], object] = lambda done: None,
) -> Report:
    """Run the ``number``-th of an artifact's programs ``rounds`` times, after ``WARM_UP``. See ``Module.profile``."""
    if rounds < 1:
        raise InputError(f"rounds is {rounds}: it must be at least 1")
    runner, elapsed = start_timed(program, threads, number), 0
    for _ in range(WARM_UP):
        runner.run(arrays)
    assert runner.counters is not None
    runner.counters.reset()
    for done in range(rounds):
        on_round(done)
        start = time.perf_counter_ns()
        runner.run(arrays)
        elapsed += time.perf_counter_ns() - start
    report = _make_report(program.manifest, threads, [(number, runner.counters.times)], rates)
    return replace(report, elapsed=elapsed)


def _make_report(
    manifest: Manifest, threads: int, counted: Iterable[tuple[int, Times]], rates: Mapping[str, float] | None
) -> Report:
    """The report of some of an artifact's programs, by their numbers."""
    rows: list[Row] = []
    trace: list[Event] = []
    runs, executors = 0, dict[str, None]()
    names = ["", *manifest.specializations]
    for number, times in counted:
        own = manifest.programs[number]
        executors[_executor(own)] = None
        trace += [replace(event, call=len(rows) + event.call) for event in times.trace]
        rows += _make_rows(own, times.calls, names[number])
        runs += times.runs
    device = {"cpu": cpu_name(), "target": manifest.target, "threads": threads}
    return Report(manifest.name, ", ".join(executors), device, runs, tuple(rows), None, rates, tuple(trace))


def _executor(manifest: Manifest) -> str:
    return "ahead of time" if manifest.profile and manifest.routine is None else "kernel by kernel"


def _make_rows(manifest: Manifest, times: Sequence[CallTimes], program: str) -> Iterator[Row]:
    """The calls of a program with their times."""
    kernels = {kernel.name: kernel for kernel in manifest.kernels}
    for (name, nodes, host), spent in zip(_calls(manifest), times, strict=True):
        row = Row(name, nodes, host=host, program=program, **asdict(spent))
        if not host:
            kernel, signature = kernels[name], kernels[name].signature
            work = {"flops": kernel.flops * spent.count, "bytes": kernel.bytes * spent.count}
            row = replace(row, inputs=signature.inputs, results=signature.results, layout=signature.layout, **work)
        yield row


def _calls(manifest: Manifest) -> Iterator[tuple[str, tuple[str, ...], bool]]:
    """Each call's name, its nodes, and whether the host computes it."""
    if manifest.routine is None:
        yield from ((call.kernel, call.nodes, False) for call in manifest.calls)
        return
    for step in manifest.routine.calls:
        host = step.op == "host.call"
        yield name_host_call(step.facts) if host else step.facts["kernel"], step.nodes, host
