"""From a plan to a product: kernels compiled, weights prepared, an entry around them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from importlib.metadata import version
from pathlib import Path

import numpy as np

from ..core.errors import ArtifactError, CompileError
from ..core.model import open_sizes
from ..core.program import WEIGHTS_SECTION, WEIGHTS_SYMBOL, Kernel, Plan, Program, Step
from ..core.sizes import is_open
from ..core.target import Target, host
from ..runtime.artifact.elf_object import data_object
from ..runtime.artifact.manifest import Manifest, RoutineRecord
from ..runtime.artifact.on_disk import Code
from ..runtime.artifact.weights import ALIGNMENT, Weights, WeightsWriter
from ..runtime.executors.executor import Executor, Steps
from ..runtime.executors.timed import TimedRoutine
from ..runtime.process.link import Library, link
from ..workers import Pool
from ..workers.process import Job
from . import jobs
from .cache import compile_cache
from .cache.store import Cache
from .jobs import Planned
from .kernels import Part, compile_kernels, notes_on
from .options import CompileReport, Options

# How hard LLVM tries on what runs once: a quarter of the time for code as fast as memory.
_ONCE = 1
# Bytes of weights that may be a part of the code, which each loading reads and hashes as a whole.
MOST_INSIDE = 16 << 20


@dataclass(frozen=True)
class Product:
    """A compiled program that is neither linked nor saved yet. ``link`` makes its functions callable here.

    ``weights`` are None where there are none, or they are a part of the code.
    """

    code: Code
    link: Callable[[], Library]
    manifest: Manifest
    weights: Weights | None


@dataclass(frozen=True)
class Stepwise:
    """A program whose kernels can be called one by one, to be measured."""

    program: Program
    kernels: Mapping[str, Kernel]
    executor: Executor
    weights: Weights | None

    @property
    def host_calls(self) -> tuple[Step, ...]:
        """The calls of functions of the host, in the order in which the program has them."""
        routine = self.program.routine
        return () if routine is None else tuple(step for step in routine.calls if step.op == "host.call")

    def steps(self, inputs: Sequence[np.ndarray]) -> Steps:
        """The calls of a program without a routine on ``inputs``, which are contiguous and as the program says."""
        return self.executor.steps(self.program, inputs, self._params())

    def time(self, inputs: Sequence[np.ndarray], rounds: int, between: Callable[[], object]) -> list[float]:
        """Median seconds of each of the program's calls, then of those of the host; see ``Steps.time``."""
        if self.program.routine is None:
            return self.steps(inputs).time(rounds, between)
        record = RoutineRecord(self.program.routine, tuple(self.kernels.values()))
        timed = TimedRoutine(self.executor.library, record, self._params())
        seconds = list(zip(timed.calls, timed.time(inputs, rounds, between), strict=True))
        return [time for op in ("func.call", "host.call") for step, time in seconds if step.op == op]

    def _params(self) -> list[np.ndarray]:
        return self.weights.arrays(self.program.params) if self.weights else []


def make(
    planned: Planned,
    options: Options,
    pool: Pool,
    report: CompileReport,
    weights_folder: Path | None = None,
    keep: bool = False,
) -> Product:
    """Compile the kernels, prepare the weights and emit the entry.

    ``weights_folder`` is where the weights will be saved; with ``keep`` that is the cache, if it can have them.
    """
    plan = planned.plan
    report.notes += planned.notes
    _check_place(plan, options)
    names, whole = _called(plan.programs), options.executor == "engine"
    main = [] if whole else _main_parts(plan, options)
    kernels, weights = _make_parts(planned, main, options, pool, report, weights_folder, keep)
    if whole and plan.main.routine is not None:
        raise CompileError(f"{open_sizes(plan.main.inputs)}; the executor 'objects' takes that")
    options.progress("making the entry")
    with report.stage("entry"):
        describe = partial(_manifests, planned, weights, options)
        if whole:
            with pool.watching("the whole program"):
                manifest, code, linker = _make_whole(plan, names, options, describe, report)
        else:
            manifest = describe(kernels)
            code, linker = _make_objects(plan, kernels, manifest, weights, options.target, pool)
    report.kernels, report.calls, report.prepared = len(names), len(plan.main.calls), len(plan.prepare)
    report.arena_bytes, report.weight_bytes = plan.main.arena_bytes, manifest.weight_bytes
    report.code_bytes = code.nbytes
    report.specializations = manifest.specializations
    report.variants = [each.target for each in manifest.by_target] if manifest.variants else []
    return Product(code, linker, manifest, None if manifest.weights_inside else weights)


def of_cache(found: compile_cache.Found, report: CompileReport) -> Product:
    """The program that the cache had; ``report`` says what it said when it was compiled."""
    vars(report).update(found.report, cached=True, cached_kernels=found.report["kernels"])
    return Product(found.code, lambda: link(found.code.objects), found.manifest, found.weights)


def make_stepwise(planned: Planned, options: Options, pool: Pool, report: CompileReport) -> Stepwise:
    """Compile a program whose kernels are called from Python, one by one. CompileError for inputs of no size."""
    plan = planned.plan
    if any(is_open(info.shape) for info in plan.main.inputs):
        raise CompileError(open_sizes(plan.main.inputs))
    kernels, weights = _make_parts(planned, _main_parts(plan, options), options, pool, report)
    return Stepwise(plan.main, kernels, _executor(kernels, pool), weights)


def _make_parts(
    planned: Planned,
    main: Sequence[Part],
    options: Options,
    pool: Pool,
    report: CompileReport,
    weights_folder: Path | None = None,
    keep: bool = False,
) -> tuple[dict[str, Kernel], Weights | None]:
    """The kernels ``main`` and the weights.

    What prepares weights runs here and now, so it is code for this machine whatever the target.
    """
    plan = planned.plan
    level = options.opt_level
    prepare = [Part(name, host(), level) for name in _called(plan.prepare.values())]
    once = level if options.context else min(_ONCE, level)  # a context says how all is compiled
    prepare = [part if part in main else part._replace(opt_level=once) for part in prepare]
    wanted = dict.fromkeys([*main, *prepare])
    with report.stage("kernels"):
        kernels = compile_kernels(plan, list(wanted), options, pool, report)
    with report.stage("weights"):
        executor = _executor({part.name: kernels[part] for part in prepare}, pool) if prepare else None
        writer = partial(_stream_weights, planned, executor, pool, options)
        weights = _write_weights(planned, writer, weights_folder, options.cache if keep else None)
    return {part.name: kernels[part] for part in main}, weights


def _main_parts(plan: Plan, options: Options) -> list[Part]:
    """The kernels that the programs for each target call, to be compiled for it."""
    groups = zip(plan.by_target, options.targets, strict=True)
    return [Part(name, target, options.opt_level) for programs, target in groups for name in _called(programs)]


def _check_place(plan: Plan, options: Options) -> None:
    """Raise CompileError where the weights cannot be a part of the code and are to be."""
    nbytes = sum(info.nbytes for info in plan.params)
    if options.weights == "inside" and nbytes > MOST_INSIDE:
        limit = MOST_INSIDE >> 20
        raise CompileError(
            f"the weights have {nbytes} bytes, at most {limit} MiB go inside: leave them beside the program"
        )


def _called(programs: Iterable[Program]) -> list[str]:
    """The kernels that programs call, each once."""
    return [*dict.fromkeys(call.kernel for program in programs for call in program.calls)]


Linked = tuple[Code, Callable[[], Library]]


def _make_objects(
    plan: Plan,
    kernels: Mapping[str, Kernel],
    manifest: Manifest,
    weights: Weights | None,
    target: Target,
    pool: Pool,
) -> Linked:
    bare = {name: replace(kernel, object=b"") for name, kernel in kernels.items()}
    work = [Job("the entry's support", jobs.emit_support, (target,))]
    for number, program in enumerate(plan.programs):
        own = {name: bare[name] for name in _called([program])}
        metadata = None if number else manifest.to_json()
        arguments = (program, own, metadata, number, target, manifest.profile)
        work.append(Job("the program's entry", jobs.emit_entry, arguments))
    if manifest.weights_inside:
        work.append(Job("the address of the weights", jobs.emit_weights_function, (target,)))
    objects = [*pool.run(work), *(kernel.object for kernel in kernels.values())]
    if manifest.weights_inside and weights is not None:
        data = weights.data.tobytes()
        objects.append(data_object(data, WEIGHTS_SECTION, WEIGHTS_SYMBOL, ALIGNMENT, like=objects[0]))
    code = Code(tuple(objects))
    return code, lambda: link(code.objects)


def _make_whole(
    plan: Plan,
    names: Sequence[str],
    options: Options,
    describe: Callable[[Mapping[str, Kernel]], Manifest],
    report: CompileReport,
) -> tuple[Manifest, Code, Callable[[], Library]]:
    """Everything in one module for one ExecutionEngine; objects are made only when the program is exported."""
    from ..passes import whole
    from ..runtime.executors import engine

    sources = {name: plan.kernels[name] for name in names}
    context = options.pass_context()
    module, kernels = whole.lower_program(
        plan.main, sources, options.target, lambda made: describe(made).to_json(), context, options.profile
    )
    report.notes += notes_on(plan, kernels)
    later = partial(whole.emit, module, options.target, "obj", options.opt_level)
    return describe(kernels), Code(later=lambda: (later(),)), partial(engine.link, module, options.opt_level)


def _write_weights(
    planned: Planned, stream: Callable[[Path | None], Weights], folder: Path | None, cache: Cache | None
) -> Weights | None:
    """Make the weights file of ``main``, on the cache's file system where there is room for it."""
    params = planned.plan.params
    if not params:
        return None
    if cache and (own := cache.folder_for(sum(info.nbytes for info in params))):
        try:
            return stream(own)
        except ArtifactError as error:
            cache.fail("written", error)
    return stream(folder)


def _stream_weights(
    planned: Planned, executor: Executor | None, pool: Pool, options: Options, folder: Path | None
) -> Weights:
    """Write weights into a file, one tensor at a time: prepared ones computed where they belong, the others copied."""
    plan, params = planned.plan, planned.params
    with WeightsWriter(plan.params, folder) as writer:
        for number, info in enumerate(plan.params):
            options.progress("preparing weights", number, len(plan.params))
            pool.check(f"the weight '{info.name}'")
            if info.name not in plan.prepare:
                writer.write(info.name, params[info.name].array())
                continue
            assert executor is not None
            program = plan.prepare[info.name]
            sources = [params[p.name].aligned() for p in program.params]
            with writer.place(info) as array:
                executor.run(program, [], sources, [array])
        return writer.finish()


def _executor(kernels: Mapping[str, Kernel], pool: Pool) -> Executor:
    [table] = pool.run([Job("the kernels' table", jobs.emit_kernel_table, (tuple(kernels),))])
    return Executor(link([*table, *(kernel.object for kernel in kernels.values())]), kernels)


def _manifests(planned: Planned, weights: Weights | None, options: Options, kernels: Mapping[str, Kernel]) -> Manifest:
    """The main program's manifest, with those of the specialized ones, and of the same for other targets."""
    plan = planned.plan
    variants = []
    for programs, target in zip(plan.by_target, options.targets, strict=True):
        main, *others = (_manifest(program, planned, weights, target, options, kernels) for program in programs)
        variants.append(replace(main, specialized=tuple(others)))
    return replace(variants[0], variants=tuple(variants[1:]))


def _manifest(
    program: Program,
    planned: Planned,
    weights: Weights | None,
    target: Target,
    options: Options,
    kernels: Mapping[str, Kernel],
) -> Manifest:
    settings: dict[str, object] = {"opt_level": options.opt_level}
    if options.num_threads is not None:
        settings["num_threads"] = options.num_threads
    return Manifest(
        name=planned.name.encode(errors="replace").decode(),  # a file's name may be any bytes
        inputs=program.inputs,
        outputs=program.outputs,
        params=program.params,
        fingerprint=weights.fingerprint if weights else "",
        target=str(target),
        cpu_features=target.features,
        arena_bytes=program.arena_bytes,
        options=settings,
        kernels=tuple(kernels[name].described for name in _called([program])),
        calls=() if program.routine else program.calls,
        routine=program.routine,
        reports=program.reports,
        prepared=_prepare(program, planned.plan),
        weights_inside=weights.data.nbytes if weights and options.weights == "inside" else 0,
        compiler=version("tilewright"),
        source=planned.source,
        profile=options.profile,
    )


def _prepare(program: Program, plan: Plan) -> dict[str, list[str]]:
    """The names of the model's weights that each prepared one of the program was made of."""
    names = [info.name for info in program.params if info.name in plan.prepare]
    return {name: [source.name for source in plan.prepare[name].params] for name in names}
