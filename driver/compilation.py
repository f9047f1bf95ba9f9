"""One compile job: its source and options, the workers that do it, and the report of what they did."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from ..core import dims, specialization
from ..core.dims import InputShapes
from ..core.errors import CompileError
from ..core.model import Model
from ..core.printed import count_text
from ..core.progress import LOG
from ..core.specialization import Sizes
from ..core.target import Target
from ..frontends.foreign import ForeignSource
from ..te.computation import Computation
from ..workers import Pool
from ..workers.process import Finder, Job
from .cache.store import Cache
from .jobs import Planned, Settings
from .options import CompileReport, Options
from .pools import find_pool

# An ONNX file or its bytes, another frontend's source, what an import or the graph passes made before, or schedules.
CompilationSource = str | os.PathLike[str] | bytes | ForeignSource | Model | tuple[Computation, ...] | Planned


@dataclass(frozen=True)
class RequestedSizes:
    """The sizes that a program is for: ``shapes`` of inputs, and ``specialize``, those with programs of their own."""

    shapes: InputShapes = field(default_factory=dict)
    specialize: tuple[Sizes, ...] = ()

    @staticmethod
    def of(input_shapes: InputShapes | None, specialize: Sequence[Sizes] | None = None) -> RequestedSizes:
        """The sizes that a user gives; ModelError for what is not a size."""
        return RequestedSizes(dims.freeze(input_shapes), specialization.normalize_specializations(specialize))


@dataclass(frozen=True)
class PassJob:
    """A worker's job that runs passes for ``target``: ``function`` takes ``arguments`` and ``Settings``.

    It returns its result and the settings, whose instruments have watched the passes under the name ``label``. The
    others are those of a ``Job``.
    """

    what: str
    function: Callable[..., tuple[Any, Settings]]
    arguments: tuple[Any, ...]
    target: Target
    label: str = ""
    find: Finder | None = None
    leads_to_more: bool = False


@dataclass(frozen=True)
class Compilation:
    """One compile job.

    Everything here stays in this process. A worker gets the arguments of its job and ``Settings``, which are plain
    data. ``weights_folder`` is where the weights file will be saved, if that is known.
    """

    source: CompilationSource
    options: Options
    pool: Pool
    sizes: RequestedSizes = field(default_factory=RequestedSizes)
    weights_folder: Path | None = None
    report: CompileReport = field(default_factory=CompileReport)

    @staticmethod
    def start(
        source: CompilationSource,
        options: Options,
        worker_count: int | None = None,
        sizes: RequestedSizes | None = None,
        weights_folder: Path | None = None,
    ) -> Compilation:
        """Start to compile ``source``; its time runs from now. CompileError for workers that it cannot have."""
        pool = _limited_pool(worker_count, options)
        if isinstance(source, ForeignSource):
            source.prepare(pool, options.model_limits)
        return Compilation(source, options, pool, sizes or RequestedSizes(), weights_folder)

    def restart(self) -> Compilation:
        """Start the same compilation again, with its full time and an empty report."""
        return Compilation.start(self.source, self.options, self.pool.workers, self.sizes, self.weights_folder)

    @property
    def cache(self) -> Cache | None:
        """The compile cache, if it is used."""
        return self.options.cache

    @property
    def keeps_program(self) -> bool:
        """Whether the whole program is looked up in the cache and kept there, not its kernels alone."""
        if isinstance(self.source, Model | tuple | Planned) or self.options.executor == "engine":
            return False  # an engine holds code that is in this process alone
        if self.options.codegens and not isinstance(self.source, ForeignSource):
            return False  # what a user's code generators do is no part of a program's key
        return self.cache is not None

    def settings(self, target: Target) -> Settings:
        """Settings for passes that run in this process."""
        given = self.options
        sessions = given.sessions and given.executor == "objects"  # an engine has one program, which sessions run, too
        limits, states, choices = given.model_limits, given.states, tuple(given.records.choices(target).items())
        return Settings(target, given.opt_level, given.context, limits, states, given.codegens, sessions, choices)

    def run(
        self,
        jobs: Sequence[PassJob],
        on_done: Callable[[int], object] = lambda number: None,
        others: Sequence[Job] = (),
    ) -> list[Any]:
        """Run passes in workers and return the jobs' results; the instruments of this process take part in them.

        The results of ``others``, which run no passes, come last.
        """
        forked = [self._fork(job) for job in jobs]
        work = [
            Job(job.what, job.function, (*job.arguments, settings), job.find, job.leads_to_more)
            for job, settings in zip(jobs, forked, strict=True)
        ]
        made, results = self.pool.run([*work, *others], on_done), []
        for job, (result, settings) in zip(jobs, made, strict=False):
            if self.options.context and settings.context:
                self.options.context.join(job.label, settings.context)
            results.append(result)
        return [*results, *made[len(jobs) :]]

    def call(self, what: str, function: Callable[..., Any], *arguments: Any) -> Any:
        """Run one job that needs no settings in a worker; ``what`` names it in errors."""
        return self.pool.run([Job(what, function, arguments)])[0]

    def finish(self) -> None:
        """Trim the cache, add its notes and those on records to the report, and log the end of the compilation."""
        report = self.report
        report.notes += self.options.records.notes
        if self.cache:
            report.notes += self.cache.close()
        how = "taken from the cache" if report.cached else "compiled"
        LOG.info("%s in %.2f s: %s", how, sum(report.seconds.values()), count_text(report.kernels, "kernel"))

    def _fork(self, job: PassJob) -> Settings:
        settings = self.settings(job.target)
        return replace(settings, context=settings.context.fork(job.label)) if settings.context else settings


def _limited_pool(count: int | None, options: Options) -> Pool:
    pool = find_pool(count)
    if options.context and not options.context.forks():
        pool = find_pool(0)
    if options.limits.memory is not None and (pool.workers == 0 or options.executor == "engine"):
        raise CompileError("a memory_limit holds for worker processes, and this compilation does without: leave it out")
    return pool.with_limits(options.limits)
