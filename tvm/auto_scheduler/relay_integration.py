"""``auto_scheduler.extract_tasks``: the kernels of a network as tasks."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

from ...core.errors import InputError
from ...driver import api
from ...tuning.tasks import extract_tasks as extract_kernels
from ..network.module import find_module
from ..target import Target
from .search_task import SearchTask

logger = logging.getLogger("auto_scheduler")


def extract_tasks(
    mod: Any,
    params: Mapping[str, Any] | None = None,
    target: Any = None,
    target_host: Any = None,
    hardware_params: Any = None,
    include_simple_tasks: bool = False,
    dump_workload_to_dag_log: str | None = None,
    opt_level: int = 3,
    other_targets: Any = None,
) -> tuple[list[SearchTask], list[int]]:
    """The kernels of a network that can be tuned, each once, and how often a run calls them.

    The log "auto_scheduler" tells which others there are, and why. Raises InputError for ``hardware_params`` and other
    targets, CompileError for dynamic sizes.
    """
    if hardware_params is not None or other_targets or dump_workload_to_dag_log:
        raise InputError(
            "tasks are of this machine, and print(task.compute_dag) shows them: leave hardware_params, other_targets"
            " and dump_workload_to_dag_log out"
        )
    chosen = Target.of(target)
    model = find_module(mod, "extract_tasks").bind(params or {})
    tasks, weights = [], []
    for kernel in extract_kernels(model, options=api.make_options(chosen.own, opt_level=opt_level)):
        if kernel.default is None:
            logger.info("kernel '%s' (%s) is not tuned: %s", kernel.name, ", ".join(kernel.nodes), kernel.reason)
            continue
        tasks.append(SearchTask.of_kernel(kernel, chosen))
        weights.append(kernel.calls)
    return tasks, weights
