"""The work that compile workers do. Everything here takes and gives plain data, and imports MLIR only when called."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from .errors import TilewrightError
from .model import FileSlice, Model, Param
from .program import Kernel, Plan, Program
from .target import Target, host

if TYPE_CHECKING:
    from .passes.infra import PassContext

SPILL_BYTES = 1 << 16


@dataclass(frozen=True)
class Planned:
    """A model after the graph passes: what is to be compiled, and where its weights are."""

    plan: Plan
    params: Mapping[str, Param]
    name: str


@dataclass(frozen=True)
class PlanOptions:
    """How to plan: the pass context that the user entered, else the level; and a folder for large decoded weights."""

    opt_level: int = 3
    folder: str = ""
    context: PassContext | None = None


def warm_up() -> None:
    """Import what jobs need and make what every program has."""
    from .frontends import onnx  # noqa: F401
    from .passes.lower import entry, kernel  # noqa: F401

    entry.emit_support(host())


def plan_file(
    path: str, label: str, input_shapes: Mapping[str, Sequence[int]] | None, target: Target, options: PlanOptions
) -> Planned:
    """Import a model file and run the graph passes. Errors call the file ``label``."""
    from . import frontends

    with _labelled(path, label):
        return plan_model(frontends.import_model(path, input_shapes), target, options)


def plan_bytecode(bytecode: bytes, shell: Model, target: Target, options: PlanOptions) -> Planned:
    """Run the graph passes on a model whose module comes as bytecode; ``shell`` is the model without it."""
    from .dialects import ir
    from .dialects.context import make_context

    with make_context(), ir.Location.unknown():
        return plan_model(replace(shell, module=ir.Module.parse(bytecode)), target, options)


def plan_model(model: Model, target: Target, options: PlanOptions) -> Planned:
    """Run the graph passes on a model; the result holds no IR and no large array."""
    from .passes import pipeline
    from .passes.infra import PassContext

    context = options.context or PassContext(opt_level=options.opt_level)
    plan = pipeline.plan(model, target, context)
    originals = [info.name for info in plan.main.params if info.name not in plan.prepare]
    originals += [info.name for program in plan.prepare.values() for info in program.params]
    params = {name: _spilled(model.params[name], options.folder) for name in dict.fromkeys(originals)}
    return Planned(plan, params, model.name)


def compile_kernel(name: str, bytecode: bytes, target: Target, opt_level: int) -> Kernel:
    """Compile one kernel to an object."""
    from .passes.lower import kernel

    return kernel.compile_kernel(name, bytecode, target, opt_level)


def emit_entry(program: Program, kernels: Mapping[str, Kernel], target: Target, metadata: str) -> tuple[bytes, ...]:
    """The objects around a program's kernels. ``kernels`` may come without their objects."""
    from .passes.lower import entry

    return entry.emit_support(target), entry.emit_entry(program, kernels, target, metadata)


def emit_kernel_table(names: Sequence[str], target: Target) -> tuple[bytes, ...]:
    """The objects that give a host the kernels' addresses."""
    from .passes.lower import entry

    return entry.emit_support(target), entry.emit_kernel_table(names, target)


def _spilled(param: Param, folder: str) -> Param:
    """The weight with its data in a file, so that it need not travel: arrays of some size are written to ``folder``."""
    array = param.source
    if not isinstance(array, np.ndarray) or array.nbytes < SPILL_BYTES or not folder:
        return param
    with tempfile.NamedTemporaryFile(dir=folder, delete=False) as file:
        file.write(np.ascontiguousarray(array).reshape(-1).view(np.uint8).data)
    return Param(param.info, FileSlice(Path(file.name), 0, array.nbytes))


def import_text(path: str, label: str, input_shapes: Mapping[str, Sequence[int]] | None) -> bytes:
    """The imported module as text, with the nodes' names."""
    from . import frontends

    with _labelled(path, label):
        module = frontends.import_model(path, input_shapes).module
        return _text(module.operation)


def kernels_text(plan: Plan) -> bytes:
    """The programs and the kernels of a plan as text."""
    from .dialects import ir
    from .dialects.context import make_context

    programs = {"main": plan.main, **{f"prepare {name}": program for name, program in plan.prepare.items()}}
    parts = ["\n".join(f"// {line}" for line in f"{name}: {p}".splitlines()).encode() for name, p in programs.items()]
    with make_context():
        parts += [_text(ir.Module.parse(bytecode).operation) for bytecode in plan.kernels.values()]
    return b"\n// -----\n".join(parts)


def whole_text(plan: Plan, target: Target, metadata: str, kind: Literal["obj", "asm", "llvm"], opt_level: int) -> bytes:
    """The whole program in one module: its LLVM IR after the optimiser, its assembly or its object."""
    from .passes.lower import whole

    sources = {name: plan.kernels[name] for name in dict.fromkeys(call.kernel for call in plan.main.calls)}
    return whole.emit(whole.lower_program(plan.main, sources, target, metadata), target, kind, opt_level)


def _text(op: Any) -> bytes:
    return op.get_asm(enable_debug_info=True, use_local_scope=True).encode()


@contextmanager
def _labelled(path: str, label: str) -> Iterator[None]:
    """Let errors call the file by the name that the user gave."""
    try:
        yield
    except TilewrightError as error:
        raise type(error)(str(error).replace(path, label)) from error
