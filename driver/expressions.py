"""``lower`` and ``build`` of tensor expressions, and ``build`` of all that can be built."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, overload

from ..core.errors import ExpressionError
from ..core.model import Model
from ..core.progress import Listening
from ..core.target import Target
from ..records.tuned import RecordsChoice
from ..runtime.module import Module
from ..te.computation import Computation, Lowered
from ..te.loop_text import loop_text
from ..te.schedule import Schedule
from ..te.tensor import Tensor
from ..workers.process import Limits
from . import api, stages
from .compilation import Compilation
from .planning import plan

Functions = Lowered | Sequence[Lowered] | Mapping[str, Lowered | tuple[Schedule, Sequence[Tensor]]]


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
    records: RecordsChoice = True,
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
    records: RecordsChoice = True,
    progress: Listening = None,
) -> Module: ...
@overload
def build(
    source: Functions,
    target: str | Target = "x86",
    num_threads: int | None = None,
    opt_level: int = 3,
    workers: int | None = None,
    cache: api.CacheChoice = True,
    timeout: float | None = None,
    memory_limit: int | None = None,
    *,
    records: RecordsChoice = True,
    progress: Listening = None,
) -> Module: ...
def build(source: Any, *arguments: Any, **named: Any) -> Module:
    """Compile an imported model, or a schedule of tensor expressions, or several of these.

    Of a schedule, ``args`` are the tensors that the program takes, then those that it gives, and ``name`` is what
    errors call it. The other arguments are those of ``compile``. What is given is left as it is. Of the cache it uses
    the kernels, not whole programs.

    Of several schedules, given as a list of what ``lower`` gives or a dict ``{"add": (schedule, args)}``,
    ``module["add"]`` is a function and ``module.functions["add"]`` a module; the module itself is the first one's.
    """
    if isinstance(source, Model):
        return api.build_model(source, *arguments, **named)
    if isinstance(source, Schedule):
        return build_schedule(source, *arguments, **named)
    if isinstance(source, Lowered | Mapping | list | tuple):
        return build_functions(source, *arguments, **named)
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
    records: RecordsChoice = True,
    progress: Listening = None,
) -> Module:
    """Compile a schedule; see ``build``. Raises ExpressionError for arguments that are not the schedule's."""
    computation = Computation.of(schedule, _check_args(args), name)
    limits = Limits.from_user(timeout, memory_limit)
    others: dict[str, Any] = {"limits": limits, "records": records, "progress": progress}
    return _build([computation], target, num_threads, opt_level, workers, cache, **others)


def build_functions(
    functions: Functions,
    target: str | Target = "x86",
    num_threads: int | None = None,
    opt_level: int = 3,
    workers: int | None = None,
    cache: api.CacheChoice = True,
    timeout: float | None = None,
    memory_limit: int | None = None,
    *,
    records: RecordsChoice = True,
    progress: Listening = None,
) -> Module:
    """Compile several schedules to one program; see ``build``. Raises ExpressionError for what are none."""
    limits = Limits.from_user(timeout, memory_limit)
    others: dict[str, Any] = {"limits": limits, "records": records, "progress": progress}
    return _build(_collect(functions), target, num_threads, opt_level, workers, cache, **others)


def _collect(functions: Functions) -> list[Computation]:
    """The computations of functions, each of which has a name of its own."""
    given = [functions] if isinstance(functions, Lowered) else functions
    named = given.items() if isinstance(given, Mapping) else [(None, each) for each in given]
    made = []
    for name, each in named:
        if isinstance(each, Lowered):
            made.append(each.computation if name is None else replace(each.computation, name=name))
        elif name is not None and isinstance(each, tuple) and len(each) == 2 and isinstance(each[0], Schedule):
            made.append(Computation.of(each[0], _check_args(each[1]), name))
        else:
            raise ExpressionError(
                f"a function of a program is a {type(each).__name__}: give what tw.lower gives, or a dict of names and"
                " pairs (schedule, args)"
            )
    names = [each.name for each in made]
    if twice := next((name for name in names if names.count(name) > 1), None):
        raise ExpressionError(f"two functions have the name '{twice}': give each its own, as in tw.lower(..., name=)")
    if not made:
        raise ExpressionError("there is no function to build: give what tw.lower gives")
    return made


def _build(
    computations: Sequence[Computation],
    target: str | Target,
    num_threads: int | None,
    opt_level: int,
    workers: int | None,
    cache: api.CacheChoice,
    **others: Any,
) -> Module:
    options = api.make_options(target, num_threads, opt_level, cache=cache, **others)
    options.refuse_foreign()
    compilation = Compilation.start(tuple(computations), options, workers)
    planned = plan(compilation, "")
    return api.make_module(replace(compilation, source=planned), None, tuple(computations))


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
) -> Lowered:
    """What a schedule is lowered to, as text: its loops in ``simple_mode``, else MLIR with the scripts of its kernels.

    Raises ExpressionError for arguments that are not the schedule's.
    """
    computation = Computation.of(schedule, _check_args(args), name)
    if simple_mode:
        made = Lowered(loop_text(computation))
    else:
        compilation = Compilation.start((computation,), api.make_options(target), workers)
        made = Lowered(stages.emit_text(compilation, "linalg").decode())
    made.computation = computation
    return made
