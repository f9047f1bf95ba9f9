"""``compile`` and ``build``: the one place where frontends, passes, workers and runtime meet.

import + graph passes  ->  Plan        one job
Plan                   ->  Kernels     one job for each
Kernels, weights       ->  prepared weights, streamed into a file by running the @prepare programs
Program, Kernels       ->  entry       one job
objects                ->  Module      linked in this process

What the cache has is not done again: of a known program nothing is, and of another one its known kernels are not.
"""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar, get_args

from . import emission, frontends, jobs, product, reuse, specialization, workers
from .dims import InputShapes
from .errors import CompileError
from .inspection import CheckReport, Specialization, Work
from .model import Model
from .options import CompileReport, ExecutorKind, Options
from .planning import Asked, model_bytes, plan_model, plan_source
from .product import Product, Stepwise
from .runtime import artifact
from .runtime.manifest import Manifest
from .runtime.module import Module
from .runtime.source import Recipe, TextKind
from .runtime.threads import default_threads
from .specialization import Shapes, Sizes
from .target import Target
from .workers import Limits, Pool

if TYPE_CHECKING:
    from onnx import ModelProto

CacheChoice = bool | str | os.PathLike[str]
Made = TypeVar("Made")

_MOST_WORKERS = 16


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
) -> Module:
    """Compile an ONNX model to a program that is ready to be called.

    Args:
        source: a file's path, its bytes, or a ``ModelProto``.
        target: what to make code for: "x86" is this machine's CPU, "x86 -mcpu=haswell" another.
        input_shapes: shapes for inputs that the file leaves open. What is to stay open is "?", a range as "1..8", a
            name for it, which inputs may share, or both as "n=1..8".
        num_threads: threads of a call; by default as many as this process may use.
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

    Raises ModelError or UnsupportedError for the model, CompileError (CompileTimeoutError where the time was up,
    InternalError where the compiler is at fault), and TargetError for a target that is not known or whose code cannot
    run here (``compile.py`` writes such a program).
    """
    limits = Limits.given(timeout, memory_limit)
    options = make_options(target, num_threads, opt_level, executor, cache=cache, limits=limits)
    options.target.refuse_foreign()
    report = CompileReport()
    if not isinstance(source, (str, os.PathLike)):
        source = model_bytes(source)
    asked = Asked.of(input_shapes, specialize)
    made = _product(source, asked, options, workers, report)
    recipe = emission.FileRecipe(source, made.manifest.source, asked, options, partial(_pool, workers, options))
    return _module(made, options, report, recipe)


def build(
    model: Model,
    target: str | Target = "x86",
    num_threads: int | None = None,
    opt_level: int = 3,
    executor: ExecutorKind = "objects",
    workers: int | None = None,
    cache: CacheChoice = True,
    timeout: float | None = None,
    memory_limit: int | None = None,
) -> Module:
    """Compile an imported model; the arguments are those of ``compile``. The model is left as it is.

    Of the cache it uses the kernels, not whole programs.
    """
    limits = Limits.given(timeout, memory_limit)
    options = make_options(target, num_threads, opt_level, executor, cache=cache, limits=limits)
    options.target.refuse_foreign()
    report = CompileReport()
    pool = _pool(workers, options)
    planned = plan_model(model, options, pool, report)
    made = _settled(product.make(planned, options, pool, report), options, report)
    recipe = emission.PlanRecipe(planned.plan, options, partial(_pool, workers, options))
    return _module(made, options, report, recipe)


def import_model(source: str | os.PathLike[str] | bytes | ModelProto, input_shapes: InputShapes | None = None) -> Model:
    """Import an ONNX model in this process: its module is there to be looked at and changed."""
    return frontends.import_model(os.fspath(source) if isinstance(source, os.PathLike) else source, input_shapes)


def check_model(
    source: str | os.PathLike[str] | bytes | ModelProto,
    input_shapes: InputShapes | None = None,
    specialize: Sequence[Sizes] | None = None,
) -> CheckReport:
    """What a model needs, all that is unsupported in it, and an estimate of the work of a run, without compiling it.

    Where its shapes are open and not given, the work is left out. Raises ModelError where the source is no valid model,
    or sizes that ``specialize`` gives do not fit it.
    """
    asked = Asked.of(input_shapes, specialize)
    source = os.fspath(source) if isinstance(source, (str, os.PathLike)) else model_bytes(source)
    report = _examined(source, asked.shapes)
    specializations, problems = [], list(report.problems)
    for sizes, shapes in jobs.specialized_shapes(source, asked.shapes, asked.specialize).items():
        with specialization.named(shapes):
            own = _examined(source, shapes)
        specializations.append(Specialization(sizes, own.work))
        problems += [problem for problem in own.problems if problem not in problems]
    return replace(report, supported=not problems, problems=tuple(problems), specializations=tuple(specializations))


def specialized_shapes(
    source: str | os.PathLike[str] | bytes | ModelProto, input_shapes: InputShapes | None, specialize: Sequence[Sizes]
) -> dict[str, Shapes]:
    """The shapes of all inputs in each specialization, by what it is called. Raises ModelError as ``check_model``."""
    asked = Asked.of(input_shapes, specialize)
    source = os.fspath(source) if isinstance(source, (str, os.PathLike)) else model_bytes(source)
    return jobs.specialized_shapes(source, asked.shapes, asked.specialize)


def compile_to_file(
    source: str | os.PathLike[str] | bytes | ModelProto,
    output: str | os.PathLike[str],
    input_shapes: InputShapes | None = None,
    options: Options | None = None,
    workers: int | None = None,
    specialize: Sequence[Sizes] | None = None,
) -> tuple[Path, Manifest, CompileReport]:
    """Compile a model into ``output`` (``model.so``, or ``model.o``) and the weights file beside it.

    Returns the path written: a folder ``model.tw`` where there is no compiler to link with. The other arguments are
    those of ``compile``.
    """
    options = options or make_options()
    relocatable = Path(output).suffix == ".o"
    path = Path(output).absolute() if relocatable else artifact.program_path(output)
    report = CompileReport()
    made = _product(source, Asked.of(input_shapes, specialize), options, workers, report, path.parent)
    save = artifact.save_object if relocatable else artifact.save
    with report.stage("link"):
        return save(path, made.code, made.weights), made.manifest, report


def emit(
    source: str | os.PathLike[str] | bytes | ModelProto,
    kind: TextKind,
    input_shapes: InputShapes | None = None,
    options: Options | None = None,
    workers: int | None = None,
) -> bytes:
    """What a stage of the compilation made, for a look at it.

    "linalg" is the imported module, "kernels" the programs and kernels after the graph passes, "llvm-dialect" the whole
    program in one module (all as text); "llvm" and "asm" are that after LLVM's optimiser and code generator.
    """
    options = options or make_options()
    return emission.emit(source, kind, Asked.of(input_shapes), options, _pool(workers, options))


def stepwise(
    source: str | os.PathLike[str] | bytes | ModelProto,
    input_shapes: InputShapes | None = None,
    options: Options | None = None,
    workers: int | None = None,
) -> Stepwise:
    """Compile a model to kernels that can be called, and measured, one by one."""
    options, report = options or make_options(), CompileReport()
    options.target.refuse_foreign()
    pool = _pool(workers, options)
    with tempfile.TemporaryDirectory(prefix="tilewright-") as folder:
        planned = plan_source(source, Asked.of(input_shapes), options, pool, folder, report)
        return _settled(product.make_stepwise(planned, options, pool, report), options, report)


def make_options(
    target: str | Target = "x86",
    num_threads: int | None = None,
    opt_level: int = 3,
    executor: ExecutorKind = "objects",
    progress: Callable[[str], None] = lambda text: None,
    cache: CacheChoice = True,
    limits: Limits | None = None,
) -> Options:
    """Options from what a user gives; TargetError and CompileError for values that are none."""
    if executor not in get_args(ExecutorKind):
        raise CompileError(f"unknown executor '{executor}': choose from {', '.join(get_args(ExecutorKind))}")
    if opt_level not in range(4):
        raise CompileError(f"opt_level is {opt_level}: choose from 0 to 3")
    if num_threads is not None and num_threads < 1:
        raise CompileError(f"num_threads is {num_threads}: it must be at least 1")
    # Who entered a PassContext has imported the passes; nobody else should pay for that. And who did wants to see them
    # run, or changes what they do: then nothing comes from the cache, unless the cache tells that from all else.
    infra = sys.modules.get(f"{__package__}.passes.infra")
    context = infra.PassContext.entered() if infra else None
    level = context.opt_level if context else opt_level
    store = reuse.open_cache(cache if context is None or context.cacheable else False)
    allowed = limits or Limits()
    return Options(Target.parse(target), level, context, executor, num_threads, progress, store, allowed)


def _examined(source: str | bytes, input_shapes: InputShapes) -> CheckReport:
    report, model = frontends.examine_model(source, input_shapes)
    return report if model is None else _with_work(report, model)


def _with_work(report: CheckReport, model: Model) -> CheckReport:
    from .passes.footprint import footprint
    from .passes.kernel import functions

    with model.module.context:
        found = footprint(functions(model.module)[0])
    if found is None:
        return report
    weights = sum(param.info.nbytes for param in model.params.values())
    work = Work(found.flops, weights, found.activation_bytes, weights + found.activation_bytes)
    loops = [f"loops whose steps only the run knows ({found.open_loops}) count as one step"] if found.open_loops else []
    return replace(report, work=work, notes=(*report.notes, *loops))


def _pool(count: int | None, options: Options) -> Pool:
    if count is not None and count < 0:
        raise CompileError(f"workers is {count}: give the number of processes, or 0 for none")
    if options.context and not options.context.forks():
        count = 0
    if options.limits.memory is not None and (count == 0 or options.executor == "engine"):
        raise CompileError("a memory_limit holds for worker processes, and this compilation does without: leave it out")
    return workers.pool(min(default_threads(), _MOST_WORKERS) if count is None else count).limited(options.limits)


def _product(
    source: str | os.PathLike[str] | bytes | ModelProto,
    asked: Asked,
    options: Options,
    workers: int | None,
    report: CompileReport,
    weights_folder: Path | None = None,
) -> Product:
    """The program from the cache; else it is compiled, and put there."""
    if not isinstance(source, (str, os.PathLike)):
        source = model_bytes(source)
    pool, cache, request = _pool(workers, options), options.cache, None
    if cache and options.executor == "objects":  # an engine holds code that is in this process alone
        with report.stage("cache"):
            others = (options.num_threads, *asked.specialize)
            request = reuse.request(cache, source, asked.shapes, others, options)
            found = reuse.find_program(cache, request) if request else None
        if found:
            return _settled(product.of_cache(found, report), options, report)
    pool.start()
    with tempfile.TemporaryDirectory(prefix="tilewright-") as folder:
        planned = plan_source(source, asked, options, pool, folder, report)
        made = product.make(planned, options, pool, report, weights_folder, keep=request is not None)
    if cache and request:
        with report.stage("cache"):
            found = reuse.Found(made.code, made.manifest, made.weights, report.of_program())
            reuse.keep_program(cache, request, planned, found)
    return _settled(made, options, report)


def _settled(made: Made, options: Options, report: CompileReport) -> Made:
    """What was made, with the cache kept to its size and what went wrong with it in the report."""
    if options.cache:
        report.notes += options.cache.close()
    return made


def _module(made: Product, options: Options, report: CompileReport, recipe: Recipe) -> Module:
    with report.stage("link"):
        program = artifact.Program(made.link(), made.code, made.manifest, made.weights)
        return Module(program, options.num_threads, report, recipe=recipe)
