"""From a plan to a product: kernels compiled, weights prepared, an entry around them."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any, Literal

import numpy as np

from . import jobs
from .jobs import Planned, Settings
from .model import FileSlice, Param
from .program import Kernel, Plan, Program, Signature
from .runtime.artifact import Code
from .runtime.executor import Executor, Steps
from .runtime.link import Library, link
from .runtime.manifest import Manifest
from .runtime.weights import Weights, WeightsWriter
from .target import cpu_flags
from .workers import Job, Pool

ExecutorKind = Literal["objects", "engine"]

_CHUNK = 4 << 20
# Features of Linux's list that LLVM makes code for.
_CODE_FLAGS = ("sse", "ssse", "avx", "fma", "f16c", "bmi", "abm", "movbe", "popcnt", "gfni", "vaes", "vpclmul", "amx")


@dataclass
class CompileReport:
    """What a compilation did: seconds by stage, the sizes of what it made, and notes on what did not go well."""

    seconds: dict[str, float] = field(default_factory=dict)
    kernels: int = 0
    calls: int = 0
    prepared: int = 0
    arena_bytes: int = 0
    weight_bytes: int = 0
    code_bytes: int = 0
    notes: list[str] = field(default_factory=list)

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        """Add the time of the block to ``seconds[name]``."""
        start = time.perf_counter()
        yield
        self.seconds[name] = self.seconds.get(name, 0.0) + time.perf_counter() - start


@dataclass(frozen=True)
class Options(Settings):
    """How to compile. ``progress`` is told what is being done."""

    executor: ExecutorKind = "objects"
    num_threads: int | None = None
    progress: Callable[[str], None] = lambda text: None


@dataclass(frozen=True)
class Product:
    """A compiled program that is neither linked nor saved yet. ``link`` makes its functions callable here."""

    code: Code
    link: Callable[[], Library]
    manifest: Manifest
    weights: Weights | None


@dataclass(frozen=True)
class Stepwise:
    """A program whose kernels can be called one by one, to be measured, and what they take and give."""

    program: Program
    kernels: Mapping[str, Kernel]
    signatures: Mapping[str, Signature]
    executor: Executor
    weights: Weights | None

    def steps(self, inputs: Sequence[np.ndarray]) -> Steps:
        """The program's calls on ``inputs``, which are contiguous and as the program says."""
        params = self.weights.arrays(self.program.params) if self.weights else []
        return self.executor.steps(self.program, inputs, params)


def make(
    planned: Planned, options: Options, pool: Pool, report: CompileReport, weights_folder: Path | None = None
) -> Product:
    """Compile the kernels, prepare the weights and emit the entry; ``weights_folder`` is where they will be saved."""
    plan = planned.plan
    main = [*dict.fromkeys(call.kernel for call in plan.main.calls)]
    prepare = [*dict.fromkeys(call.kernel for program in plan.prepare.values() for call in program.calls)]
    whole = options.executor == "engine"
    names = prepare if whole else list(dict.fromkeys(main + prepare))
    kernels, weights, fingerprint = _make_parts(planned, names, options, pool, report, weights_folder)
    manifest = _manifest(planned, fingerprint, options, len(main))
    with report.stage("entry"):
        if whole:
            code, linker = _make_whole(plan, main, options, manifest, report)
        else:
            code, linker = _make_objects(plan, {name: kernels[name] for name in main}, options, manifest, pool)
    report.kernels, report.calls, report.prepared = len(main), len(plan.main.calls), len(plan.prepare)
    report.arena_bytes, report.weight_bytes = plan.main.arena_bytes, manifest.weight_bytes
    report.code_bytes = code.nbytes
    return Product(code, linker, manifest, weights)


def make_stepwise(planned: Planned, options: Options, pool: Pool, report: CompileReport) -> Stepwise:
    """Compile a program whose kernels are called from Python, one by one."""
    plan = planned.plan
    names = [*dict.fromkeys(call.kernel for p in (plan.main, *plan.prepare.values()) for call in p.calls)]
    kernels, weights, _ = _make_parts(planned, names, options, pool, report)
    used = {call.kernel: kernels[call.kernel] for call in plan.main.calls}
    sources = {name: plan.kernels[name] for name in used}
    [signatures] = pool.run([Job("the kernels' signatures", jobs.signatures, (sources,))])
    return Stepwise(plan.main, used, signatures, _executor(used, options, pool), weights)


def _make_parts(
    planned: Planned,
    names: Sequence[str],
    options: Options,
    pool: Pool,
    report: CompileReport,
    weights_folder: Path | None = None,
) -> tuple[dict[str, Kernel], Weights | None, str]:
    """The kernels ``names``, the weights, and the fingerprint of those."""
    plan = planned.plan
    prepare = dict.fromkeys(call.kernel for program in plan.prepare.values() for call in program.calls)
    options.progress(f"compiling {len(names)} kernels")
    with report.stage("kernels"):
        kernels = _compile_kernels(plan, names, options, pool, report)
    options.progress("preparing the weights")
    with report.stage("weights"):
        executor = _executor({name: kernels[name] for name in prepare}, options, pool) if prepare else None
        fingerprint = _fingerprint(planned)
        return kernels, _write_weights(planned, executor, fingerprint, weights_folder), fingerprint


Linked = tuple[Code, Callable[[], Library]]


def _make_objects(
    plan: Plan, kernels: Mapping[str, Kernel], options: Options, manifest: Manifest, pool: Pool
) -> Linked:
    bare = {name: replace(kernel, object=b"") for name, kernel in kernels.items()}
    job = Job("the program's entry", jobs.emit_entry, (plan.main, bare, options.target, manifest.to_json()))
    [entry] = pool.run([job])
    code = Code((*entry, *(kernel.object for kernel in kernels.values())))
    return code, lambda: link(code.objects)


def _make_whole(
    plan: Plan, names: Sequence[str], options: Options, manifest: Manifest, report: CompileReport
) -> Linked:
    """Everything in one module for one ExecutionEngine; objects are made only when the program is exported."""
    from .passes.lower import whole
    from .runtime import engine

    sources = {name: plan.kernels[name] for name in names}
    context, metadata = options.pass_context(), manifest.to_json()
    module, kernels = whole.lower_program(plan.main, sources, options.target, metadata, context)
    report.notes += _notes(plan, kernels)
    later = partial(whole.emit, module, options.target, "obj", options.opt_level)
    return Code(later=lambda: (later(),)), partial(engine.link, module, options.opt_level)


def _compile_kernels(
    plan: Plan, names: Sequence[str], options: Options, pool: Pool, report: CompileReport
) -> dict[str, Kernel]:
    """Compile kernels, the largest first."""
    nodes = _nodes(plan)
    ordered = sorted(names, key=lambda name: -len(plan.kernels[name]))
    work = [
        Job(_describe(name, nodes[name]), jobs.compile_kernel, (plan.kernels[name], options.fork(name)))
        for name in ordered
    ]
    kernels: dict[str, Kernel] = {}
    for name, (kernel, forked) in zip(ordered, pool.run(work), strict=True):
        options.join(name, forked)
        kernels[name] = kernel
    report.notes += _notes(plan, kernels)
    return kernels


def _notes(plan: Plan, kernels: Mapping[str, Kernel]) -> list[str]:
    """What the compiler has to say about kernels, with their nodes."""
    nodes = _nodes(plan)
    return [f"{_describe(name, nodes[name])} {kernel.note}" for name, kernel in kernels.items() if kernel.note]


def _nodes(plan: Plan) -> dict[str, list[str]]:
    """The model's nodes that each kernel computes, of all its calls."""
    nodes: dict[str, dict[str, None]] = {}
    for program in (plan.main, *plan.prepare.values()):
        for call in program.calls:
            nodes.setdefault(call.kernel, {}).update(dict.fromkeys(call.nodes))
    return {name: list(found) for name, found in nodes.items()}


def _describe(kernel: str, nodes: Sequence[str]) -> str:
    shown = ", ".join(nodes[:3]) + (" and others" if len(nodes) > 3 else "")
    return f"kernel '{kernel}'" + (f" (nodes {shown})" if nodes else "")


def _fingerprint(planned: Planned) -> str:
    """A name for the content of the weights file: a hash of all that it is made from."""
    digest = hashlib.sha256(repr((planned.plan.main.params, sorted(planned.plan.prepare.items()))).encode())
    for program in planned.plan.prepare.values():
        for call in program.calls:
            digest.update(planned.plan.kernels[call.kernel])
    for name, param in sorted(planned.params.items()):
        digest.update(name.encode())
        for chunk in _chunks(param):
            digest.update(chunk)
    return digest.hexdigest()


def _chunks(param: Param) -> Iterator[Any]:
    """The data of a weight in pieces; a file's are read, not mapped, so that they do not count as our memory."""
    if not isinstance(param.source, FileSlice):
        yield np.ascontiguousarray(param.source).reshape(-1).view(np.uint8).data
        return
    with open(param.source.path, "rb") as file:
        file.seek(param.source.offset)
        left = param.source.nbytes
        while left > 0 and (chunk := file.read(min(left, _CHUNK))):
            left -= len(chunk)
            yield chunk


def _write_weights(
    planned: Planned, executor: Executor | None, fingerprint: str, folder: Path | None
) -> Weights | None:
    """Stream the weights of ``main`` into a file, one tensor at a time: prepared ones computed, the others copied."""
    plan, params = planned.plan, planned.params
    if not plan.main.params:
        return None
    with WeightsWriter(plan.main.params, fingerprint, folder) as writer:
        for info in plan.main.params:
            if info.name not in plan.prepare:
                writer.write(info.name, params[info.name].array())
                continue
            assert executor is not None
            program = plan.prepare[info.name]
            # The data of a model file may lie at any byte.
            sources = [np.require(params[p.name].array(), requirements=("C", "A")) for p in program.params]
            [array] = executor.run(program, [], sources)
            writer.write(info.name, array)
        return writer.finish()


def _executor(kernels: Mapping[str, Kernel], options: Options, pool: Pool) -> Executor:
    [table] = pool.run([Job("the kernels' table", jobs.emit_kernel_table, (tuple(kernels), options.target))])
    return Executor(link([*table, *(kernel.object for kernel in kernels.values())]), kernels)


def _manifest(planned: Planned, fingerprint: str, options: Options, kernels: int) -> Manifest:
    main = planned.plan.main
    settings: dict[str, object] = {"tilewright": version("tilewright"), "opt_level": options.opt_level}
    if options.num_threads is not None:
        settings["num_threads"] = options.num_threads
    flags = tuple(sorted(flag for flag in cpu_flags() if flag.startswith(_CODE_FLAGS)))
    return Manifest(
        name=planned.name,
        inputs=main.inputs,
        outputs=main.outputs,
        params=main.params,
        fingerprint=fingerprint,
        cpu_flags=flags,
        arena_bytes=main.arena_bytes,
        kernels=kernels,
        options=settings,
    )
