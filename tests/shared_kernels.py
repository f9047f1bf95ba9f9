"""Kernels that a session's tests compile once, for many of them compile the same small ones.

A kernel's text, target, level and what a pass context says of its passes decide its object, so a compilation takes the
kernel that another test's compilation made, whatever the nodes are called that it was for. A test that patches anything, which may be a pass, compiles its kernels
anew, unless it is marked ``shares_kernels``, and so does one that watches the passes.
"""

from __future__ import annotations

import functools
import hashlib
import os
import pickle
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tilewright.core.program import Kernel
from tilewright.core.target import Target
from tilewright.dialects import ir
from tilewright.dialects.context import make_context, reused_context
from tilewright.driver.compilation import Compilation, PassJob
from tilewright.driver.jobs import Settings, compile_kernel
from tilewright.passes import pipeline
from tilewright.passes.infra.context import PassContext
from tilewright.workers.process import Job

if TYPE_CHECKING:
    from onnx import ModelProto

_FOLDER = "TILEWRIGHT_TEST_KERNELS"
_run = Compilation.run
_SHARED: ContextVar[bool] = ContextVar("shared kernels", default=True)
_FOUND: ContextVar[list[Kernel] | None] = ContextVar("found kernels", default=None)


def install(folder: str) -> None:
    """Share kernels through a folder, which the processes of one session have in common."""
    os.environ.setdefault(_FOLDER, folder)
    Compilation.run = _run_sharing


@contextmanager
def compiling_anew() -> Iterator[None]:
    """Let all kernels be compiled."""
    token, Compilation.run = _SHARED.set(False), _run
    yield
    Compilation.run = _run_sharing
    _SHARED.reset(token)


@contextmanager
def noting_kernels() -> Iterator[list[Kernel]]:
    """The kernels of the compilations within the block, in a list that grows."""
    found: list[Kernel] = []
    token = _FOUND.set(found)
    yield found
    _FOUND.reset(token)


def describe_kernels(model: ModelProto, target: Target) -> dict[str, Kernel]:
    """The kernels that a model's runs call, by name, as far as their loops are chosen; for any CPU, not only this one."""
    from tilewright.frontends import import_model  # which few tests of these need

    with make_context(), ir.Location.unknown():
        planned = pipeline.plan(import_model(model), target, PassContext())
    names = {call.kernel for call in planned.main.calls}
    return {name: find_or_describe(planned.kernels[name], target) for name in sorted(names)}


@functools.wraps(_run)
def _run_sharing(
    self: Compilation,
    jobs: Sequence[PassJob],
    on_done: Callable[[int], object] = lambda number: None,
    others: Sequence[Job] = (),
) -> list[Any]:
    if self.options.context is not None and self.options.context.instruments:
        return _run(self, jobs, on_done, others)
    asked = self.options.opt_level, self.options.context
    paths = [_path(job.target, *asked, *job.arguments) if job.function is compile_kernel else None for job in jobs]
    results = [_read(path) for path in paths]
    missing = [i for i, result in enumerate(results) if result is None]
    have = len(jobs) - len(missing)
    for number in range(have):
        on_done(number + 1)
    made = _run(self, [jobs[i] for i in missing], lambda number: on_done(have + number), others)
    for i, result in zip(missing, made, strict=False):
        results[i] = result
        _write(paths[i], result)
    if (found := _FOUND.get()) is not None:
        found += [result for path, result in zip(paths, results, strict=True) if path]
    return [*results, *made[len(missing) :]]


def find_or_compile(bytecode: bytes, target: Target) -> Kernel:
    """A kernel at the usual level, which another test may have compiled, or which others find from now on."""
    if not _SHARED.get():
        return compile_kernel(bytecode, Settings(target))[0]
    path = _path(target, 3, None, bytecode)
    found = _read(path)
    if found is None:
        found = compile_kernel(bytecode, Settings(target))[0]
        _write(path, found)
    return found


def find_or_describe(bytecode: bytes, target: Target) -> Kernel:
    """What another test's compilation says of a kernel; where none has, what is known once its loops are chosen.

    That takes a part of the time: the rest is code and scratch memory.
    """
    found = _read(_path(target, 3, None, bytecode)) if _SHARED.get() else None
    return found or pipeline.describe_loops(bytecode, target, PassContext())


def _path(target: Target, level: int, context: PassContext | None, bytecode: bytes) -> Path:
    said = pickle.dumps((target, level, context and _said_of_kernels(context, target)))
    return Path(os.environ[_FOLDER], hashlib.sha256(said + _without_locations(bytecode)).hexdigest())


@functools.lru_cache(maxsize=1024)
def _without_locations(bytecode: bytes) -> bytes:
    """What is left of a kernel without its locations, which are the names of a model's nodes, and are in no object."""
    with reused_context(), ir.Location.unknown():
        operation = ir.Module.parse(bytecode).operation
        return str(operation.get_asm(enable_debug_info=False, use_local_scope=True)).encode()


def _said_of_kernels(context: PassContext, target: Target) -> tuple[Any, ...]:
    """What of a context kernels may depend on: of other passes, their bytecode tells."""
    from tilewright.passes.infra.context import SCHEDULES
    from tilewright.passes.pipeline import kernel_passes

    names = {stage.name for stage in kernel_passes(target)}
    config = {key: value for key, value in context.config.items() if key.split(".")[0] in {*names, SCHEDULES}}
    return sorted(names & {*context.required_pass}), sorted(names & {*context.disabled_pass}), config


def _read(path: Path | None) -> Any:
    with suppress(FileNotFoundError):
        return path and pickle.loads(path.read_bytes())


def _write(path: Path | None, result: Any) -> None:
    if path is not None:
        part = path.with_suffix(f".{os.getpid()}.{threading.get_ident()}")  # others read all of it or nothing
        part.write_bytes(pickle.dumps(result))
        part.replace(path)
