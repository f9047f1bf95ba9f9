"""The weights of a program, which are prepared while its kernels are compiled."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping
from concurrent.futures import Future, wait
from dataclasses import replace
from pathlib import Path

from ..core.errors import ArtifactError
from ..core.program import Kernel, Program
from ..core.target import detect_host
from ..runtime.artifact.weights import Weights, WeightsWriter
from ..runtime.executors import formulas
from ..runtime.executors.executor import Executor
from ..runtime.process.background import run_beside
from ..runtime.process.link import link
from ..workers.process import Job
from . import jobs
from .compilation import Compilation
from .jobs import Planned
from .support import find_support

_LOOK_SECONDS = 0.1  # after which one who waits for weights tells how many there are


class WeightsWork:
    """The weights of ``main``, made in a thread from ``begin`` to ``finish``, or to the end of a block that fails."""

    def __init__(self, compilation: Compilation, planned: Planned) -> None:
        self._compilation, self._planned = compilation, planned
        self._made: Future[Weights | None] | None = None
        self._written = 0
        self._stops = threading.Event()

    def __enter__(self) -> WeightsWork:
        return self

    def __exit__(self, *_: object) -> None:
        self._stops.set()
        if self._made is not None:
            wait([self._made])  # until the next weight: what they are made of may go

    def begin(self, kernels: Mapping[str, Kernel]) -> None:
        """Begin, with the compiled kernels that prepare weights."""
        prepare = self._planned.plan.prepare.values()
        executor = link_executor(self._compilation, kernels, prepare) if kernels else None
        self._made = run_beside(lambda: self._make(executor))

    def finish(self) -> Weights | None:
        """The weights; None where the program has none."""
        made, total = self._made, len(self._planned.plan.params)
        assert made is not None
        with self._compilation.report.stage("weights"):
            while total:
                self._compilation.options.progress("preparing weights", self._written, total)
                if wait([made], _LOOK_SECONDS).done:
                    break
            return made.result()

    def _make(self, executor: Executor | None) -> Weights | None:
        """Make the weights file on the cache's file system where it will be kept and there is room for it."""
        compilation, params = self._compilation, self._planned.plan.params
        cache = compilation.cache
        if not params:
            return None
        if cache and compilation.keeps_program and (own := cache.folder_for(sum(info.nbytes for info in params))):
            try:
                return self._stream(executor, own)
            except ArtifactError as error:
                cache.fail("written", error)
        return self._stream(executor, compilation.weights_folder)

    def _stream(self, executor: Executor | None, folder: Path | None) -> Weights | None:
        """Write one tensor at a time: prepared ones computed where they belong, the others copied."""
        plan, params = self._planned.plan, self._planned.params
        computed = formulas.choose_programs(plan.prepare, plan.formulas)
        with WeightsWriter(plan.params, folder) as writer:
            for number, info in enumerate(plan.params):
                if self._stops.is_set():
                    return None
                self._written = number
                self._compilation.pool.check(f"the weight '{info.name}'")
                if info.name not in plan.prepare:
                    writer.write(info.name, params[info.name].array())
                    continue
                program = plan.prepare[info.name]
                sources = [params[p.name].read_aligned() for p in program.params]
                with writer.place(info) as array:
                    if info.name in computed:
                        formulas.prepare_weight(program, plan.formulas, sources, [array])
                    else:
                        assert executor is not None
                        executor.run(program, [], sources, [array])
            return writer.finish()


def link_executor(
    compilation: Compilation,
    kernels: Mapping[str, Kernel],
    programs: Iterable[Program] = (),
    others: Iterable[bytes] = (),
) -> Executor:
    """What calls compiled kernels from here, and runs those of the ``programs`` that have routines.

    ``others`` are objects that the kernels call.
    """
    host = detect_host()
    routines = [p for p in programs if p.routine is not None and all(call.kernel in kernels for call in p.calls)]
    work = [Job("the kernels' table", jobs.emit_kernel_table, (tuple(kernels),))]
    for number, program in enumerate(routines, 1):
        own = {call.kernel: replace(kernels[call.kernel], object=b"") for call in program.calls}
        work.append(Job("a routine's kernels", jobs.emit_entry, (program, own, None, number, host, False)))
        work.append(Job("a routine", jobs.emit_routine, (program, number, host)))
    objects = [find_support(compilation, host), *compilation.pool.run(work)]
    return Executor(link([*objects, *(kernel.object for kernel in kernels.values()), *others]), kernels, routines)
