"""``autotvm.task.extract_from_program``: the kernels of a network as tasks."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any, NoReturn

from ...core.errors import InputError
from ...core.model import Model
from ...driver import api
from ...tuning.tasks import extract_tasks
from ..network.kernel_words import words_of
from ..network.module import find_module
from ..target import Target
from .dispatcher import list_contexts
from .kernels import KernelTask, find_schedules, schedule_context

logger = logging.getLogger("autotvm")


def extract_from_program(
    mod: Any, params: Mapping[str, Any] | None = None, target: Any = None, target_host: Any = None, ops: Any = None
) -> list[KernelTask]:
    """The kernels of a network that can be tuned, each once, in the order in which a run calls them.

    ``ops`` are those of ``relay.op.get``, one of which a kernel has to have. The log "autotvm" tells, at the level
    INFO, which others there are, and why they are not tuned. Raises InputError for ``ops`` that are none, CompileError
    for dynamic sizes, and ModelError for weights that are not the network's.
    """
    words = None if ops is None else words_of(ops)
    chosen = Target.of(target)
    model = find_module(mod, "extract_from_program").bind(params or {})
    made = []
    for kernel in extract_tasks(model, options=api.make_options(chosen.own)):
        if words is not None and words.isdisjoint(kernel.name.split("_")):
            continue
        if kernel.default is None:
            logger.info("kernel '%s' (%s) is not tuned: %s", kernel.name, ", ".join(kernel.nodes), kernel.reason)
            continue
        task = KernelTask(kernel, chosen)
        if task.config_space.space_map:
            made.append(task)
    return made


def apply_histories(model: Model, target: Target) -> AbstractContextManager[object]:
    """A context in which a network's kernels get what the logs of the ``with`` around have for them."""
    if not list_contexts():
        return nullcontext()
    kernels = extract_tasks(model, options=api.make_options(target.own))
    if not kernels:
        return nullcontext()
    return schedule_context(find_schedules(target, kernels[0].threads, [kernel.name for kernel in kernels]))


def extract_from_multiple_program(
    mods: Sequence[Any], params: Sequence[Mapping[str, Any]], target: Any, target_host: Any = None, ops: Any = None
) -> list[KernelTask]:
    """The tasks of several networks, each once."""
    pairs = zip(mods, params, strict=True)
    made = [task for mod, own in pairs for task in extract_from_program(mod, own, target, target_host, ops)]
    return list({task.name: task for task in made}.values())


def register_topi_compute(task_name: str, func: Any = None) -> NoReturn:
    """Operators of TOPI: InputError."""
    raise InputError(f"'{task_name}' is no operator of a TOPI's: @autotvm.template('{task_name}') makes a task of it")


register_topi_schedule = register_topi_compute
