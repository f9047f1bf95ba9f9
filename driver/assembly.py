"""From a plan to a product: kernels compiled, weights prepared beside that, an entry around the kernels."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from importlib.metadata import version

import numpy as np

from ..codegens.native import make_linkable
from ..core.errors import CompileError
from ..core.model import explain_dynamic_sizes
from ..core.program import WEIGHTS_SECTION, WEIGHTS_SYMBOL, Kernel, Plan, Program, Step
from ..core.sizes import has_dynamic_extents
from ..core.target import Target
from ..runtime.artifact.elf_object import data_object
from ..runtime.artifact.manifest import Manifest
from ..runtime.artifact.on_disk import Code
from ..runtime.artifact.weights import DATA_ALIGNMENT, Weights
from ..runtime.executors.executor import Executor, Steps
from ..runtime.executors.timed import TimedRoutine
from ..runtime.process.link import Library, link
from ..workers.process import Job
from . import jobs
from .cache import compile_cache
from .compilation import Compilation
from .extern_code import compile_code
from .jobs import Planned
from .kernels import compile_kernels, kernel_names, nodes_of, note_tuned, notes_on
from .support import find_support
from .weights import WeightsWork, link_executor

# Bytes of weights that may be a part of the code, which each loading reads and hashes as a whole.
MOST_INSIDE = 16 << 20


@dataclass(frozen=True)
class CompiledProgram:
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
        timed = TimedRoutine(self.executor.library_of(self.program), self.program, self._params(), 1)
        seconds = list(zip(timed.calls, timed.time(inputs, rounds, between), strict=True))
        return [time for op in ("func.call", "host.call") for step, time in seconds if step.op == op]

    def _params(self) -> list[np.ndarray]:
        return self.weights.arrays(self.program.params) if self.weights else []


def check_plan(compilation: Compilation, planned: Planned) -> None:
    """Raise CompileError for what the options ask for and a program of this plan cannot have."""
    plan = planned.plan
    if compilation.options.executor == "engine" and planned.generated:
        raise CompileError(
            f"code of {planned.generated[0].what} cannot be a part of an engine's program; the executor 'objects' "
            "takes that, or compile with codegens=[]"
        )
    options, nbytes = compilation.options, sum(info.nbytes for info in plan.params)
    if options.weights == "inside" and nbytes > MOST_INSIDE:
        limit = MOST_INSIDE >> 20
        raise CompileError(
            f"the weights have {nbytes} bytes, at most {limit} MiB go inside: leave them beside the program"
        )
    if options.executor == "engine" and plan.main.routine is not None:
        raise CompileError(f"{explain_dynamic_sizes(plan.main.inputs)}; the executor 'objects' takes that")


def assemble(compilation: Compilation, planned: Planned) -> CompiledProgram:
    """Compile the kernels, prepare the weights and emit the entry."""
    options, report = compilation.options, compilation.report
    plan = planned.plan
    objects = compile_code(compilation, planned.externals)
    parts = _make_parts(compilation, planned)
    kernels, weights = parts.kernels, parts.weights
    options.progress("making the entry")
    with report.stage("entry"):
        describe = partial(_manifests, compilation, planned, weights)
        if options.executor == "engine":
            with compilation.pool.checking_time("the whole program"):
                manifest, code, linker = _make_whole(compilation, plan, describe)
        else:
            manifest = describe(kernels)
            parts = replace(parts, objects=[*objects, *parts.objects])
            code, linker = _make_objects(compilation, plan, parts, manifest)
    report.kernels, report.calls = len(kernel_names(plan.programs)), len(plan.main.calls)
    report.prepared = len(plan.prepare)
    report.arena_bytes, report.weight_bytes = plan.main.arena_bytes, manifest.weight_bytes
    report.code_bytes = code.nbytes
    report.specializations = manifest.specializations
    report.variants = [each.target for each in manifest.by_target] if manifest.variants else []
    return CompiledProgram(code, linker, manifest, None if manifest.weights_inside else weights)


def restore_product(compilation: Compilation, found: compile_cache.Found) -> CompiledProgram:
    """The product of a program from the cache; the report is that of its compilation."""
    vars(compilation.report).update(found.report, cached=True, cached_kernels=found.report["kernels"])
    return CompiledProgram(found.code, lambda: link(found.code.objects), found.manifest, found.weights)


def check_stepwise(plan: Plan) -> None:
    """Raise CompileError where inputs have dynamic sizes: kernels are called one by one for known ones."""
    if any(has_dynamic_extents(info.shape) for info in plan.main.inputs):
        raise CompileError(explain_dynamic_sizes(plan.main.inputs))


def assemble_stepwise(compilation: Compilation, planned: Planned) -> Stepwise:
    """Make the parts of a program whose kernels are called from Python, one by one."""
    main = planned.plan.main
    with WeightsWork(compilation, planned) as work:
        kernels, _ = compile_kernels(compilation, planned.plan, work.begin)
        weights = work.finish()
    objects = [*compile_code(compilation, planned.externals), *link_generated(planned, kernels.values())]
    return Stepwise(main, kernels, link_executor(compilation, kernels, [main], objects), weights)


@dataclass(frozen=True)
class _Parts:
    """What a product is made of: kernels, the code of programs with routines, the weights, and code of a user's."""

    kernels: Mapping[str, Kernel]
    routines: Sequence[bytes]
    weights: Weights | None
    objects: Sequence[bytes] = ()


def _make_parts(compilation: Compilation, planned: Planned) -> _Parts:
    """The kernels that the programs call, and beside their compilation the routines and the weights."""
    target, work = compilation.options.target, []
    for number, program in enumerate(planned.plan.programs):
        if program.routine is not None:
            work.append(Job("the program's routine", jobs.emit_routine, (program, number, target)))
    with WeightsWork(compilation, planned) as weights:
        kernels, routines = compile_kernels(compilation, planned.plan, weights.begin, work)
        return _Parts(kernels, routines, weights.finish(), link_generated(planned, kernels.values()))


def link_generated(planned: Planned, kernels: Iterable[Kernel]) -> list[bytes]:
    """The objects that kernels call into, which code generators of users have made."""
    known = {code.symbol: code for code in planned.generated}
    return [make_linkable(known[symbol]) for symbol in dict.fromkeys(kernel.generated for kernel in kernels) if symbol]


Linked = tuple[Code, Callable[[], Library]]


def _make_objects(compilation: Compilation, plan: Plan, parts: _Parts, manifest: Manifest) -> Linked:
    target, kernels, weights = compilation.options.target, parts.kernels, parts.weights
    bare = {name: replace(kernel, object=b"") for name, kernel in kernels.items()}
    work = []
    for number, program in enumerate(plan.programs):
        own = {name: bare[name] for name in kernel_names([program])}
        metadata = None if number else manifest.to_json()
        arguments = (program, own, metadata, number, target, manifest.profile)
        work.append(Job("the program's entry", jobs.emit_entry, arguments))
    if manifest.weights_inside:
        work.append(Job("the weights' place", jobs.emit_weights_function, (target,)))
    support = find_support(compilation, target)
    objects = [support, *compilation.pool.run(work), *parts.routines, *(kernel.object for kernel in kernels.values())]
    objects += parts.objects
    if manifest.weights_inside and weights is not None:
        data = weights.data.tobytes()
        objects.append(data_object(data, WEIGHTS_SECTION, WEIGHTS_SYMBOL, DATA_ALIGNMENT, like=objects[0]))
    code = Code(tuple(objects))
    return code, lambda: link(code.objects)


def _make_whole(
    compilation: Compilation, plan: Plan, describe: Callable[[Mapping[str, Kernel]], Manifest]
) -> tuple[Manifest, Code, Callable[[], Library]]:
    """Everything in one module for one ExecutionEngine; objects are made only when the program is exported."""
    from ..passes import whole
    from ..runtime.executors import engine

    options = compilation.options
    sources = {name: plan.kernels[name] for name in kernel_names(plan.programs)}
    context = compilation.settings(options.target).pass_context()
    tuned = options.records.schedules(sources, options.target)
    module, kernels = whole.lower_program(
        plan.main, sources, options.target, lambda made: describe(made).to_json(), context, options.profile, tuned
    )
    compilation.report.notes += [*notes_on(kernels, nodes_of(plan)), *note_tuned([*kernels.values()])]
    later = partial(whole.emit_program, module, options.target, "obj", options.opt_level)
    return describe(kernels), Code(later=lambda: (later(),)), partial(engine.link, module, options.opt_level)


def _manifests(
    compilation: Compilation, planned: Planned, weights: Weights | None, kernels: Mapping[str, Kernel]
) -> Manifest:
    """The main program's manifest, with those of the specialized ones, and of the same for other targets."""
    variants = []
    for programs, target in zip(planned.plan.by_target, compilation.options.targets, strict=True):
        main, *others = (_manifest(compilation, planned, weights, kernels, program, target) for program in programs)
        named = [replace(others.pop(), name=name) for name in reversed([*planned.plan.functions])]
        session = others.pop() if planned.plan.session else None
        variants.append(replace(main, specialized=tuple(others), session=session, functions=tuple(reversed(named))))
    return replace(variants[0], variants=tuple(variants[1:]))


def _manifest(
    compilation: Compilation,
    planned: Planned,
    weights: Weights | None,
    kernels: Mapping[str, Kernel],
    program: Program,
    target: Target,
) -> Manifest:
    options = compilation.options
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
        kernels=tuple(kernels[name].described for name in kernel_names([program])),
        calls=() if program.routine else program.calls,
        routine=program.routine,
        reports=program.reports,
        states=program.states,
        prepared=_prepare(program, planned.plan),
        weights_inside=weights.data.nbytes if weights and options.weights == "inside" else 0,
        compiler=_own_version(),
        source=planned.source,
        profile=options.profile,
    )


@functools.cache
def _own_version() -> str:
    return version("tilewright")  # reads the package's metadata: 3 ms


def _prepare(program: Program, plan: Plan) -> dict[str, list[str]]:
    """The names of the model's weights that each prepared one of the program was made of."""
    names = [info.name for info in program.params if info.name in plan.prepare]
    return {name: [source.name for source in plan.prepare[name].params] for name in names}
