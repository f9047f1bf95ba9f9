"""``lower`` and ``build`` of tensor expressions, and ``build`` of all that can be built."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, overload

from ..core.errors import ExpressionError
from ..core.model import Model
from ..core.progress import Listening
from ..core.target import Target
from ..runtime.module import Module
from ..te.computation import Computation
from ..te.loop_text import loop_text
from ..te.schedule import Schedule
from ..te.tensor import Tensor
from ..workers.process import Limits
from . import api, stages
from .compilation import Compilation
from .extern_code import compile_code
from .planning import plan


@overload
def build(
    source: Model,
    target: str | Target = "x86",
    num_threads: int | None = None,
    opt_level: int = 3,
    executor: api.ExecutorKind = "objects",
    workers: int | None = None,
    cache: api.CacheChoice = True,
    timeout: float | None = None,
    memory_limit: int | None = None,
    max_concurrency: int | None = None,
    profile: bool = False,
    states: Mapping[str, str] | None = None,
    *,
    progress: Listening = None,
) -> Module: ...
@overload
def build(
    source: Schedule,
    args: Sequence[Tensor],
    target: str | Target = "x86",
    name: str = "main",
    num_threads: int | None = None,
    opt_level: int = 3,
    workers: int | None = None,
    cache: api.CacheChoice = True,
    timeout: float | None = None,
    memory_limit: int | None = None,
    *,
    progress: Listening = None,
) -> Module: ...
def build(source: Any, *arguments: Any, **named: Any) -> Module:
    """Compile an imported model, or a schedule of tensor expressions.

    Of a schedule, ``args`` are the tensors that the program takes, then those that it gives, and ``name`` is what
    errors call it. The other arguments are those of ``compile``. What is given is left as it is. Of the cache it uses
    the kernels, not whole programs.
    """
    if isinstance(source, Schedule):
        return build_schedule(source, *arguments, **named)
    return api.build_model(source, *arguments, **named)


def build_schedule(
    schedule: Schedule,
    args: Sequence[Tensor],
    target: str | Target = "x86",
    name: str = "main",
    num_threads: int | None = None,
    opt_level: int = 3,
    workers: int | None = None,
    cache: api.CacheChoice = True,
    timeout: float | None = None,
    memory_limit: int | None = None,
    *,
    progress: Listening = None,
) -> Module:
    """Compile a schedule; see ``build``. Raises ExpressionError for arguments that are not the schedule's."""
    limits = Limits.from_user(timeout, memory_limit)
    options = api.make_options(target, num_threads, opt_level, cache=cache, limits=limits, progress=progress)
    options.refuse_foreign()
    computation = Computation.of(schedule, _check_args(args), name)
    compilation = Compilation.start(computation, options, workers)
    objects = compile_code(compilation, computation)
    planned = replace(plan(compilation, ""), objects=objects)
    return api.make_module(replace(compilation, source=planned), None, computation)


def _check_args(args: Any) -> Sequence[Tensor]:
    if not isinstance(args, list | tuple):
        raise ExpressionError(f"the arguments of a program are a list of tensors, not a {type(args).__name__}")
    return args


def lower(
    schedule: Schedule,
    args: Sequence[Tensor],
    name: str = "main",
    simple_mode: bool = False,
    target: str | Target = "x86",
    workers: int | None = None,
) -> str:
    """What a schedule is lowered to, as text: its loops in ``simple_mode``, else MLIR with the scripts of its kernels.

    Raises ExpressionError for arguments that are not the schedule's.
    """
    computation = Computation.of(schedule, _check_args(args), name)
    if simple_mode:
        return loop_text(computation)
    compilation = Compilation.start(computation, api.make_options(target), workers)
    return stages.emit_text(compilation, "linalg").decode()
