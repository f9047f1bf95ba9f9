"""The weights of a program, which are prepared while its kernels are compiled."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import nullcontext
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

from ..core.errors import ArtifactError
from ..core.model import TensorInfo
from ..core.program import Kernel, Program
from ..core.target import detect_host
from ..runtime.artifact.weights import Weights, WeightsWriter
from ..runtime.executors import formulas
from ..runtime.executors.executor import Executor
from ..runtime.process.background import run_beside
from ..runtime.process.link import link
from ..runtime.process.threads import usable_cpus
from ..runtime.tensors.reused_memory import ReusedMemory
from ..workers.process import Job
from . import jobs
from .compilation import Compilation
from .jobs import Planned
from .support import find_support

_LOOK_SECONDS = 0.1  # after which one who waits for weights tells how many there are
_MOST_KEPT = 64 << 20  # bytes of memory that a thread uses for one weight after another
_MOST_WRITERS = 4  # more do not write faster


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
        """Write one tensor after another, in as many threads as there are CPUs."""
        params, self._written = self._planned.plan.params, 0
        left = deque(sorted(params, key=lambda info: -info.nbytes))  # the largest first: the threads end together
        changing, large = threading.Lock(), threading.Lock()
        with WeightsWriter(params, folder) as writer:
            maker = _Maker(self._planned, executor, writer)

            def take() -> TensorInfo | None:
                with changing:
                    return left.popleft() if left and not self._stops.is_set() else None

            def make_some() -> None:
                memory = ReusedMemory(_MOST_KEPT)
                try:
                    while (info := take()) is not None:
                        self._compilation.pool.check(f"the weight '{info.name}'")
                        memory.begin()
                        # One thread at a time has memory for a weight that is not kept.
                        with large if info.nbytes > _MOST_KEPT else nullcontext():
                            maker.make(info, memory)
                        with changing:
                            self._written += 1
                except BaseException:
                    with changing:
                        left.clear()  # the others end, too
                    raise

            threads = max(1, min(usable_cpus(), _MOST_WRITERS, len(params)))
            with ThreadPoolExecutor(threads) as pool:
                works = [pool.submit(make_some) for _ in range(threads)]
            for work in works:
                work.result()
            return None if self._stops.is_set() else writer.finish()


@dataclass(frozen=True)
class _Maker:
    """Writes single weights: prepared ones are computed where they belong, the others copied."""

    planned: Planned
    executor: Executor | None
    writer: WeightsWriter

    @cached_property
    def _computed(self) -> set[str]:
        return formulas.choose_programs(self.planned.plan.prepare, self.planned.plan.formulas)

    def make(self, info: TensorInfo, memory: ReusedMemory) -> None:
        plan, params = self.planned.plan, self.planned.params
        if info.name not in plan.prepare:
            self.writer.write(info.name, params[info.name].array())
            return
        program = plan.prepare[info.name]
        sources = [params[p.name].read_aligned(memory.take) for p in program.params]
        with self.writer.place(info, memory) as array:
            if info.name in self._computed:
                formulas.prepare_weight(program, plan.formulas, sources, [array])
            else:
                assert self.executor is not None
                self.executor.run(program, [], sources, [array])


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
