"""From a model's file to a plan: imports and graph passes, in workers."""

from __future__ import annotations

import itertools
import os
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from .. import frontends
from ..core import specialization
from ..core.errors import ModelError
from ..core.externals import Externals
from ..core.model import Model, Param
from ..frontends.foreign import ForeignSource, LinalgText
from ..runtime.process.background import run_beside
from ..runtime.process.files import sha256
from ..te.computation import Computation
from ..workers import Pool
from ..workers.isolation import within_time
from ..workers.process import CONVERTER, Job
from . import blame, jobs, support
from .compilation import Compilation, PassJob
from .jobs import Planned

if TYPE_CHECKING:
    from onnx import ModelProto

_UNNAMED = "the model"  # that came as no file


def plan(compilation: Compilation, folder: str) -> Planned:
    """Import the source and run the graph passes; a source that is planned already is left as it is.

    Weights do not travel between processes. Those of a model, or of another frontend's source, stay here. What is not a
    file is written to ``folder``, and so are large weights that the import decodes.
    """
    source = compilation.source
    if isinstance(source, Planned):
        return source
    if isinstance(source, ForeignSource):
        compilation.options.progress(f"importing {source.name}")
    with compilation.report.stage("import and plan"), within_time(compilation.pool.seconds_left):
        if isinstance(source, Model):
            planned = _plan_model(compilation, source)
        elif isinstance(source, tuple):
            planned = _plan_functions(compilation, source)
        elif isinstance(source, ForeignSource):
            planned = _plan_foreign(compilation, source)
        else:
            planned = _plan_file(compilation, source, folder)
    compilation.report.notes += planned.notes
    return planned


def _plan_file(compilation: Compilation, source: str | os.PathLike[str] | bytes, folder: str) -> Planned:
    path, label = as_file(source, folder)
    compilation.options.progress(f"importing {label}")
    sizes, limits = compilation.sizes, compilation.options.model_limits
    parts = [_ModelPart(describe_model(label), jobs.plan_file, (path, label, sizes.shapes, False, folder))]
    if sizes.specialize:
        arguments = (path, label, sizes.shapes, sizes.specialize, limits)
        found = compilation.call(f"the inputs of {label}", jobs.specialized_shapes, *arguments)
        if len(found) < len(sizes.specialize):
            compilation.report.notes.append("specializations of equal sizes are compiled once")
        for number, shapes in enumerate(found.values(), 1):
            what = f"{describe_model(label)} for {specialization.format_sizes(shapes)}"
            arguments = (path, label, shapes, True, folder)
            parts.append(_ModelPart(what, jobs.plan_file, arguments, f"specialization_{number}"))
    digest = run_beside(lambda: _digest(path, label))
    return replace(_run_plans(compilation, parts), source=digest.result())


def _digest(path: str, label: str) -> str:
    """The SHA-256 of a model's file, which users can compare; the cache's keys have a faster hash of their own."""
    try:
        return sha256(Path(path))
    except OSError as error:
        raise ModelError(f"cannot read '{label}': {error.strerror}") from error


def _plan_model(compilation: Compilation, model: Model) -> Planned:
    with tempfile.TemporaryFile() as file:
        model.module.operation.write_bytecode(file)
        file.seek(0)
        shell = replace(model, module=None, params=without_data(model.params))
        planned = _run_plans(
            compilation, [_ModelPart(describe_model(model.name), jobs.plan_bytecode, (file.read(), shell))]
        )
    return replace(planned, params={name: model.params[name] for name in planned.params})


def _plan_functions(compilation: Compilation, functions: Sequence[Computation]) -> Planned:
    """The plans of schedules as one, of which the first is the main program's. Schedules have no weights."""
    if len(functions) > 1:
        compilation.options.refuse_several("several functions")
    parts = [_ModelPart(f"the schedule of '{each.name}'", jobs.plan_expressions, (each,)) for each in functions]
    first, *others = (_run_plans(compilation, [part]) for part in parts)
    kernels = {name: kernel for each in (first, *others) for name, kernel in each.plan.kernels.items()}
    named = {each.name: made.plan.main for each, made in zip(functions[1:], others, strict=True)}
    externals = Externals.join(each.externals for each in (first, *others))
    return replace(first, plan=replace(first.plan, kernels=kernels, functions=named), externals=externals)


def _plan_foreign(compilation: Compilation, source: ForeignSource) -> Planned:
    if compilation.sizes.shapes or compilation.sizes.specialize:
        raise ModelError(f"{source.name} has the sizes that it was exported with: give them there, not as input shapes")
    text = convert_source(source, compilation.pool)
    shell = replace(text, params=without_data(text.params))
    planned = _run_plans(compilation, [_ModelPart(f"the planning of {source.name}", jobs.plan_linalg, (shell,))])
    # The worker has the user's weights without their data; those of nodes that stand in the text are from there.
    params = {name: text.params.get(name, made) for name, made in planned.params.items()}
    return replace(planned, params=params, source=source.digest())


def convert_source(source: ForeignSource, pool: Pool) -> LinalgText:
    """The model that another frontend makes in a worker of its own kind.

    Raises UnsupportedError for what it cannot convert, CompileTimeoutError and InternalError as all jobs do.
    """
    [answer] = pool.of(CONVERTER).run([Job(f"the conversion of {source.name}", *source.conversion())])
    return source.read_answer(answer)


def without_data(params: Mapping[str, Param]) -> dict[str, Param]:
    """The weights' descriptions, for a worker."""
    return {name: replace(param, source=np.empty(0)) for name, param in params.items()}


def as_file(source: str | os.PathLike[str] | bytes | ModelProto, folder: str) -> tuple[str, str]:
    """Path of the model's file, and what to call it in messages; workers do not share our working directory."""
    if isinstance(source, (str, os.PathLike)):
        return os.path.abspath(source), os.fspath(source)
    path = os.path.join(folder, "model.onnx")
    Path(path).write_bytes(model_bytes(source))
    return path, _UNNAMED


def describe_model(label: str) -> str:
    """The name of a job on the model with that label."""
    return label if label == _UNNAMED else f"model '{label}'"


def settled_source(
    source: Any, example_inputs: Any = None, dynamic_shapes: Any = None
) -> str | os.PathLike[str] | bytes | ForeignSource:
    """Turn what a user gives into a path or bytes of an ONNX model, or a source of another frontend.

    Raises ModelError for anything else, or for arguments that the source does not take.
    """
    if isinstance(source, ForeignSource):
        return source
    made = frontends.find_foreign_source(source, example_inputs, dynamic_shapes)
    if made is not None:
        return made
    if isinstance(source, type) or (callable(source) and not hasattr(source, "SerializeToString")):
        raise ModelError(_no_module(source))
    if example_inputs is not None or dynamic_shapes is not None:
        raise ModelError("example inputs and dynamic shapes are for PyTorch modules: give input shapes")
    return source if isinstance(source, (str, os.PathLike)) else model_bytes(source)


def _no_module(source: Any) -> str:
    """The message for a class, or a function, that was given in place of a module."""
    name = getattr(source, "__name__", type(source).__name__)
    if isinstance(source, type):
        return f"cannot compile the class '{name}': give an instance of it, and eval() that first"
    remedy = 'give an nn.Module whose forward calls it, or use torch.compile(function, backend="tilewright")'
    return f"cannot compile the function '{name}': {remedy}"


def model_bytes(source: Any) -> bytes:
    """The bytes of a model that is not a file; ModelError for another object, or a model that cannot be serialized."""
    if isinstance(source, bytes):
        return source
    if not hasattr(source, "SerializeToString"):
        raise ModelError(f"cannot compile a {type(source).__name__}: give a path, the file's bytes or a ModelProto")
    try:
        return source.SerializeToString()
    except ValueError as error:
        raise ModelError("the ModelProto is too large to be serialized: save it and give its path") from error


@dataclass(frozen=True)
class _ModelPart:
    """One plan to be made by ``function``, which takes ``arguments`` and settings; instruments call it ``name``."""

    what: str
    function: Callable[..., Any]
    arguments: tuple[Any, ...]
    name: str = ""


def _run_plans(compilation: Compilation, parts: Sequence[_ModelPart]) -> Planned:
    """The plans of all parts, for each of the targets, as one."""
    options = compilation.options
    names = [target.cpu if len(options.targets) > 1 else "" for target in options.targets]
    work = []
    for (name, target), part in itertools.product(zip(names, options.targets, strict=True), parts):
        label = ".".join(filter(None, (name, part.name)))
        what = f"{part.what} for {name}" if name else part.what
        work.append(
            PassJob(what, part.function, part.arguments, target, label, find=blame.nodes_at_fault, leads_to_more=True)
        )

    def on_done(number: int) -> None:
        if len(work) > 1:
            options.progress("planning for all sizes and targets", min(number, len(work)), len(work))

    made = compilation.run(work, on_done, support.list_jobs(compilation))
    planned = made[: len(work)]
    support.keep_support(compilation, made[len(work) :])
    if len(planned) > 1:
        # A symbol's name in MLIR text has no hyphen.
        targets = [name.replace("-", "_") for name in names for _ in parts] if len(names) > 1 else []
        planned = [compilation.call("the plans of all sizes and targets", jobs.merge, planned, targets)]
    [merged] = planned
    if options.context:
        from ..passes.schedule.language import by_hand

        by_hand.check_names(options.context.config, merged.plan.kernels)
    return merged
