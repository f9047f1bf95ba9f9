"""``compile`` and ``build``: the one place where frontends, passes, workers and runtime meet.

A ``Compilation`` goes through five steps; workers do the jobs.

settle      path, bytes, torch module  ->  Source      in this process
look up     Source, options            ->  Product     from the cache, if it has the program: that is all
plan        Source                     ->  Plan        import and graph passes, one job
compile     Plan                       ->  Kernels     those that the cache lacks, one job for each
                                           Weights     prepared in this process meanwhile, some by running kernels
assemble    Kernels, weights           ->  Product     the entry is one job
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args, overload

from ..core import custom_ops
from ..core.codegens import choose_codegens
from ..core.dims import InputShapes
from ..core.errors import CompileError
from ..core.limits import broken_bound, limits_for
from ..core.model import Model
from ..core.progress import Listening, make_teller
from ..core.scratch import scratch_folder
from ..core.specialization import Sizes
from ..core.target import Target
from ..frontends.foreign import ForeignSource
from ..records.tuned import RecordsChoice, TunedSchedules
from ..runtime.artifact import belongings, on_disk
from ..runtime.artifact.manifest import Manifest
from ..runtime.artifact.shared import find_compiler, no_compiler
from ..runtime.artifact.source import TextKind
from ..runtime.c import archive
from ..runtime.module import Module
from ..te.computation import Computation
from ..workers.process import Limits
from . import assembly, stages
from .assembly import CompiledProgram, Stepwise
from .cache import compile_cache
from .checking import check_model, import_model, specialized_shapes  # noqa: F401  (parts of this interface)
from .compilation import Compilation, RequestedSizes
from .jobs import Planned
from .kernels import kernel_names
from .options import CompileReport, ExecutorKind, Options, WeightsPlace
from .planning import plan, settled_source

if TYPE_CHECKING:
    from onnx import ModelProto
    from torch import Tensor, nn
    from torch.export import ExportedProgram

    from ..frontends.torch.module import TorchModule

Source = str | os.PathLike[str] | bytes | ForeignSource
CacheChoice = bool | str | os.PathLike[str]


@overload
def compile(
    source: str | os.PathLike[str] | bytes | ModelProto,
    target: str | Target = "x86",
    input_shapes: InputShapes | None = None,
    num_threads: int | None = None,
    opt_level: int = 3,
    executor: ExecutorKind = "objects",
    workers: int | None = None,
    cache: CacheChoice = True,
    specialize: Sequence[Sizes] | None = None,
    timeout: float | None = None,
    memory_limit: int | None = None,
    untrusted: bool = False,
    max_concurrency: int | None = None,
    weights: WeightsPlace = "beside",
    profile: bool = False,
    states: Mapping[str, str] | None = None,
    *,
    codegens: Sequence[str] | None = None,
    records: RecordsChoice = True,
    progress: Listening = None,
) -> Module: ...
@overload
def compile(
    source: nn.Module | ExportedProgram | ForeignSource,
    target: str | Target = "x86",
    *,
    example_inputs: Sequence[Any] | Mapping[str, Any] | Tensor | None = None,
    dynamic_shapes: Any = None,
    num_threads: int | None = None,
    opt_level: int = 3,
    executor: ExecutorKind = "objects",
    workers: int | None = None,
    cache: CacheChoice = True,
    timeout: float | None = None,
    memory_limit: int | None = None,
    untrusted: bool = False,
    max_concurrency: int | None = None,
    weights: WeightsPlace = "beside",
    profile: bool = False,
    states: Mapping[str, str] | None = None,
    records: RecordsChoice = True,
    progress: Listening = None,
) -> TorchModule: ...


def compile(
    source: Source | ModelProto | nn.Module | ExportedProgram,
    target: str | Target = "x86",
    input_shapes: InputShapes | None = None,
    num_threads: int | None = None,
    opt_level: int = 3,
    executor: ExecutorKind = "objects",
    workers: int | None = None,
    cache: CacheChoice = True,
    specialize: Sequence[Sizes] | None = None,
    timeout: float | None = None,
    memory_limit: int | None = None,
    untrusted: bool = False,
    max_concurrency: int | None = None,
    weights: WeightsPlace = "beside",
    profile: bool = False,
    states: Mapping[str, str] | None = None,
    example_inputs: Sequence[Any] | Mapping[str, Any] | Tensor | None = None,
    dynamic_shapes: Any = None,
    *,
    codegens: Sequence[str] | None = None,
    records: RecordsChoice = True,
    progress: Listening = None,
) -> Any:
    """Compile an ONNX model, or a PyTorch module, to a program that is ready to be called.

    Args:
        source: of an ONNX model a file's path, its bytes, or a ``ModelProto``; of a PyTorch one an ``nn.Module``, a
            scripted module, an ``ExportedProgram``, or the path of its file (``model.pt2``). What is returned is a
            ``Module`` for the first, and for the others a ``TorchModule``, which takes and gives what the module does
            (to type checkers a path is that of an ONNX model).
        target: what to make code for: "x86" is this machine's CPU, "x86 -mcpu=haswell" another. Of several, as in
            "x86 -mcpu=x86-64-v2,x86-64-v3", the last one that a CPU has all features of runs there.
        input_shapes: shapes for inputs that the file leaves open. What is to stay open is "?", a range as "1..8", a
            name for it, which inputs may share, or both as "n=1..8".
        num_threads: most threads of a call; by default one for each CPU that this process may use, at most
            OMP_NUM_THREADS in the environment.
        opt_level: 0 to 3; inside of ``with PassContext(...)`` that context's level counts.
        executor: "objects" compiles kernels in worker processes and links them; "engine" puts the whole program into
            one MLIR ExecutionEngine of this process.
        workers: number of worker processes; 0 does all work in this process.
        cache: whether to use the user's compile cache, or the folder of another one. Inside of a ``PassContext``
            nothing is taken from it, unless that sets no more than the level and ``schedules``.
        specialize: sizes that get a program of their own, which runs on inputs of just these: a list of the inputs'
            shapes, ``[{"x": (1, 128)}]``, or of sizes by their names, ``[{"batch": 1, "seq": 128}]``.
        timeout: seconds that the whole may take. Without workers this is checked between passes.
        memory_limit: bytes of memory that a worker process may have.
        untrusted: whether the model has to keep to the limits of ``limits.UNTRUSTED``.
        max_concurrency: how many calls of the program may be under way at a time: others wait. None is no bound.
        weights: "beside" gives an exported program a file of weights, "inside" makes them, up to 16 MiB, a part of it.
        profile: whether the program counts and times the calls of its kernels, for ``Module.profiler``.
        states: outputs that are inputs of the next run, by their names, which ``Module.session`` keeps:
            ``{"present": "past"}``. None finds outputs that append to an input, and pairs whose names tell it; ``{}``
            is for none.
        example_inputs: the arguments that a PyTorch module is exported with, in order, by name in a dict, or the only
            one: the program takes the like.
        dynamic_shapes: the sizes of these that stay open, as ``torch.export.export`` takes them.
        codegens: the code generators of yours (``tw.register_codegen``) that compile parts of an ONNX model, by name;
            None is all that are registered, ``[]`` none.
        records: whether kernels get the schedules that tuning has found for them (the user's records, the project's,
            those of Tilewright itself), or the path of the records to take in place of these. Schedules that a
            ``PassContext`` gives count before them.
        progress: is called with a ``Progress`` for each stage and each kernel, in this thread; what it raises ends the
            compilation. True prints lines on stderr. The log "tilewright" has the same, at the level INFO.

    Raises ModelError or UnsupportedError for the model, CompileError (CompileTimeoutError where the time was up,
    InternalError where the compiler is at fault), TargetError for a target that is not known or whose code cannot run
    here (``compile.py`` writes such a program), and RecordError for records that are given and cannot be read.
    """
    limits = Limits.from_user(timeout, memory_limit)
    options = make_options(
        target,
        num_threads,
        opt_level,
        executor,
        cache=cache,
        limits=limits,
        untrusted=untrusted,
        weights=weights,
        profile=profile,
        states=states,
        codegens=codegens,
        records=records,
        progress=progress,
    )
    options.refuse_foreign()
    settled = settled_source(source, example_inputs, dynamic_shapes)
    if codegens and isinstance(settled, ForeignSource):
        raise CompileError(f"code generators ('{codegens[0]}') take ONNX models: export {settled.name} to ONNX")
    compilation = Compilation.start(settled, options, workers, RequestedSizes.of(input_shapes, specialize))
    module = make_module(compilation, max_concurrency)
    return settled.wrap_module(module) if isinstance(settled, ForeignSource) else module


def build_model(
    model: Model,
    target: str | Target = "x86",
    num_threads: int | None = None,
    opt_level: int = 3,
    executor: ExecutorKind = "objects",
    workers: int | None = None,
    cache: CacheChoice = True,
    timeout: float | None = None,
    memory_limit: int | None = None,
    max_concurrency: int | None = None,
    profile: bool = False,
    states: Mapping[str, str] | None = None,
    *,
    records: RecordsChoice = True,
    progress: Listening = None,
) -> Module:
    """Compile an imported model; the arguments are those of ``compile``. The model is left as it is.

    Of the cache it uses the kernels, not whole programs.
    """
    limits = Limits.from_user(timeout, memory_limit)
    asked = {"cache": cache, "limits": limits, "profile": profile, "states": states, "progress": progress}
    asked["records"] = records
    options = make_options(target, num_threads, opt_level, executor, **asked)
    options.refuse_foreign()
    compilation = Compilation.start(model, options, workers)
    planned = plan(compilation, "")
    # What is kept for the texts of the program's stages has the plan, not the weights.
    return make_module(replace(compilation, source=planned), max_concurrency, replace(planned, params={}))


def compile_to_file(
    source: Source | ModelProto,
    output: str | os.PathLike[str],
    input_shapes: InputShapes | None = None,
    options: Options | None = None,
    workers: int | None = None,
    specialize: Sequence[Sizes] | None = None,
) -> tuple[Path, Manifest, CompileReport]:
    """Compile a model into ``output`` (``model.so``, ``model.o`` or ``libmodel.a``) and the weights file beside it.

    Returns the path written: a folder ``model.tw`` where there is no compiler to link with. The report names all files.
    The other arguments are those of ``compile``.

    Raises as ``compile`` does, and ArtifactError where a file cannot be written, or is another program's.
    """
    options = options or make_options()
    suffix = Path(output).suffix
    path = Path(output).absolute() if suffix in (".o", archive.LIBRARY_SUFFIX) else on_disk.program_path(output)
    if suffix == ".o" and find_compiler(options.target.architecture.machine) is None:
        options = replace(options, executor="engine")  # makes one object, so that nothing is to be joined
    belongings.demand_program(path)  # and again when it is written: this one is for those who wait
    if options.weights == "beside" and suffix != on_disk.FOLDER_SUFFIX:
        belongings.demand_weights(on_disk.weights_path(path))
    sizes = RequestedSizes.of(input_shapes, specialize)
    compilation = Compilation.start(settled_source(source), options, workers, sizes, path.parent)
    made, report = make_product(compilation), compilation.report
    made.manifest.demand_portable(f"cannot write {path}")
    save = on_disk.save_object if suffix == ".o" else on_disk.save
    options.progress(f"writing {path.name}")
    with report.stage("link"):
        if suffix == archive.LIBRARY_SUFFIX:
            written = archive.save_library(path, made.code, made.manifest, made.weights)
        else:
            written = save(path, made.code, made.weights)
    if written != path:
        reason = no_compiler(options.target.architecture.machine)
        report.notes.append(f"{written.name} is a folder of objects, in place of {path.name}: {reason}")
    beside = [archive.header_path(written)] if suffix == archive.LIBRARY_SUFFIX else []
    if written.suffix != on_disk.FOLDER_SUFFIX and made.weights is not None and made.weights.in_file:
        beside.append(on_disk.weights_path(written))
    report.files = [*map(str, (written, *beside))]
    return written, made.manifest, report


def emit(
    source: Source | ModelProto,
    kind: TextKind,
    input_shapes: InputShapes | None = None,
    options: Options | None = None,
    workers: int | None = None,
) -> bytes:
    """Return the text that a stage of the compilation made.

    "linalg" is the imported module, "kernels" the programs and kernels after the graph passes, "schedule" what makes
    the loops of these, "llvm-dialect" the whole program in one module (all as text); "llvm" and "asm" are that after
    LLVM's optimiser and code generator.
    """
    options = options or make_options()
    options.refuse_several(f"--emit {kind}")
    sizes = RequestedSizes.of(input_shapes)
    return stages.emit_text(Compilation.start(settled_source(source), options, workers, sizes), kind)


def stepwise(
    source: Source | ModelProto,
    input_shapes: InputShapes | None = None,
    options: Options | None = None,
    workers: int | None = None,
) -> Stepwise:
    """Compile a model to kernels that can be called, and measured, one by one."""
    options = replace(options or make_options(), executor="objects", sessions=False)
    options.refuse_several("calling kernels one by one")
    options.refuse_foreign()
    compilation = Compilation.start(settled_source(source), options, workers, RequestedSizes.of(input_shapes))
    with scratch_folder() as folder:
        planned = plan(compilation, folder)
        assembly.check_stepwise(planned.plan)
        made = assembly.assemble_stepwise(compilation, planned)
    compilation.finish()
    return made


def make_options(
    target: str | Target = "x86",
    num_threads: int | None = None,
    opt_level: int = 3,
    executor: ExecutorKind = "objects",
    progress: Listening = None,
    cache: CacheChoice = True,
    limits: Limits | None = None,
    untrusted: bool = False,
    weights: WeightsPlace = "beside",
    profile: bool = False,
    states: Mapping[str, str] | None = None,
    codegens: Sequence[str] | None = None,
    records: RecordsChoice = True,
) -> Options:
    """Make options of a user's values; TargetError, CompileError or RecordError for a value that is not valid."""
    if executor not in get_args(ExecutorKind):
        raise CompileError(f"unknown executor '{executor}': choose from {', '.join(get_args(ExecutorKind))}")
    if weights not in get_args(WeightsPlace):
        raise CompileError(f"weights is '{weights}': choose from {', '.join(get_args(WeightsPlace))}")
    if executor == "engine" and weights == "inside":
        raise CompileError("weights inside need the executor 'objects': an engine's program has them beside it")
    if opt_level not in range(4):
        raise CompileError(f"opt_level is {opt_level}: choose from 0 to 3")
    if num_threads is not None and (bound := broken_bound(num_threads)):
        raise CompileError(f"num_threads is {num_threads}: it must be {bound}")
    # Who entered a PassContext has imported the passes; nobody else should pay for that. And who did wants to see them
    # run, or changes what they do: then nothing comes from the cache, unless the cache tells that from all else.
    infra = sys.modules.get("tilewright.passes.infra.context")
    context = infra.PassContext.find_current() if infra else None
    level = context.opt_level if context else opt_level
    store = compile_cache.open_cache(cache if context is None or context.cacheable else False)
    accepted = limits_for(untrusted)
    allowed = (limits or Limits()).within(accepted.seconds, accepted.memory_bytes)
    first, *others = Target.parse_all(target)
    options = Options(
        target=first,
        opt_level=level,
        context=context,
        model_limits=accepted,
        executor=executor,
        num_threads=num_threads,
        progress=make_teller(progress),
        cache=store,
        limits=allowed,
        variants=tuple(others),
        weights=weights,
        profile=profile,
        states=None if states is None else _settle_states(states),
        codegens=choose_codegens(codegens),
    )
    options = replace(options, records=TunedSchedules.find(records, options.targets, options.threads))
    if executor == "engine":
        options.refuse_several("an engine")
    return options


def _settle_states(states: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    """Pairs of an output's and an input's name; CompileError for what are none."""
    if not isinstance(states, Mapping) or not all(isinstance(name, str) for pair in states.items() for name in pair):
        raise CompileError(f"states is {states!r}: give inputs' names by those of outputs, {{'present': 'past'}}")
    return tuple(states.items())


def make_product(compilation: Compilation) -> CompiledProgram:
    """Take the program from the cache, or compile it and put it there."""
    request = _request_program(compilation)
    product = _find_product(compilation, request) or _compile_product(compilation, request)
    compilation.finish()
    return product


def _request_program(compilation: Compilation) -> compile_cache.Request | None:
    """The request to the cache, if whole programs are looked up there and the source can be read."""
    source, sizes, options, cache = compilation.source, compilation.sizes, compilation.options, compilation.cache
    if cache is None or not compilation.keeps_program or custom_ops.written_ops():
        return None  # what a user's functions write is no part of the request
    assert not isinstance(source, Model | tuple | Planned)
    with compilation.report.stage("cache"):
        own = tuple(sorted(custom_ops.registered_ops()))
        others = (options.num_threads, options.profile, options.model_limits, own, options.weights, options.variants)
        others += (options.states,)
        settings = compilation.settings(options.target)
        sought = (*others, *sizes.specialize)
        return compile_cache.request(cache, source, sizes.shapes, sought, settings, options.records)


def _find_product(compilation: Compilation, request: compile_cache.Request | None) -> CompiledProgram | None:
    if request is None:
        return None
    with compilation.report.stage("cache"):
        found = compile_cache.find_program(request)
    return assembly.restore_product(compilation, found) if found else None


def _compile_product(compilation: Compilation, request: compile_cache.Request | None) -> CompiledProgram:
    compilation.pool.start()
    with scratch_folder() as folder:
        planned = plan(compilation, folder)
        assembly.check_plan(compilation, planned)
        product = assembly.assemble(compilation, planned)
    if request is not None:
        with compilation.report.stage("cache"):
            made = compile_cache.Found(product.code, product.manifest, product.weights, compilation.report.of_program())
            taken = [*kernel_names(planned.plan.programs), *(choice.key for choice in planned.choices)]
            compile_cache.keep_program(request, planned.files, taken, made)
    return product


def make_module(
    compilation: Compilation, max_concurrency: int | None, kept: Planned | tuple[Computation, ...] | None = None
) -> Module:
    """The linked program. Texts of its stages are made of ``kept``, or else of the source."""
    product, report = make_product(compilation), compilation.report
    recipe = stages.TextRecipe(replace(compilation, source=kept or compilation.source), product.manifest.source)
    with report.stage("link"):
        program = on_disk.assemble(product.link(), product.code, product.manifest, product.weights, "the program")
        return Module(program, compilation.options.num_threads, report, max_concurrency, recipe=recipe)
