"""The tasks of a network: its kernels, each once, as the graph passes leave them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from ..core.dims import InputShapes
from ..core.errors import CompileError, ScheduleError
from ..core.program import Kernel, Plan
from ..core.scratch import scratch_folder
from ..driver import api
from ..driver.assembly import check_stepwise
from ..driver.compilation import Compilation, CompilationSource, PassJob, RequestedSizes
from ..driver.jobs import Planned
from ..driver.kernels import kernel_names, nodes_of
from ..driver.options import Options
from ..driver.planning import plan
from ..passes.schedule.language.schedule import Schedule
from . import compiling
from .spaces.recipe import read_recipe
from .task import Task


def extract_tasks(
    source: CompilationSource,
    input_shapes: InputShapes | None = None,
    options: Options | None = None,
    workers: int | None = None,
) -> list[Task]:
    """The kernels that the program of a model calls, in the order of its first calls.

    The arguments are those of ``driver.api.stepwise``; the source may be tensor expressions, too. Tasks whose
    ``default`` is None are not tuned, and say why. Raises CompileError for dynamic sizes, and as ``compile`` does.
    """
    with scratch_folder() as folder:
        compilation = begin_compilation(source, input_shapes, options or api.make_options(), workers)
        return make_tasks(compilation, plan_network(compilation, folder).plan)


def begin_compilation(
    source: CompilationSource, input_shapes: InputShapes | None, options: Options, workers: int | None = None
) -> Compilation:
    """A compilation of what is to be tuned. Raises TargetError for a target that cannot be."""
    options = replace(options, executor="objects", sessions=False)
    options.refuse_several("tuning")
    options.refuse_foreign()
    return Compilation.start(source, options, workers, RequestedSizes.of(input_shapes))


def plan_network(compilation: Compilation, folder: str) -> Planned:
    """Import a network and run its graph passes; large weights go to ``folder``. CompileError for dynamic sizes."""
    planned = plan(compilation, folder)
    try:
        check_stepwise(planned.plan)
    except CompileError as error:
        raise CompileError(
            f"{error} (a program of dynamic sizes takes what was tuned with --specialize of them)"
        ) from None
    return planned


def make_tasks(compilation: Compilation, made: Plan) -> list[Task]:
    """The tasks of a plan."""
    options, names = compilation.options, kernel_names([made.main])
    jobs = [
        PassJob(f"kernel '{name}'", compiling.describe_kernel, (made.kernels[name],), options.target, name)
        for name in names
    ]
    described: Sequence[tuple[Kernel, list[Schedule]]] = compilation.run(jobs)
    counts, nodes = Counter(call.kernel for call in made.main.calls), nodes_of(made)
    weights = {call.kernel: tuple(i for i, s in enumerate(call.args) if s.space == "param") for call in made.main.calls}
    tasks = []
    for name, (kernel, others) in zip(names, described, strict=True):
        default, reason = _read_schedule(kernel)
        tasks.append(
            Task(
                name,
                made.kernels[name],
                options.target,
                options.threads,
                counts[name],
                tuple(nodes[name]),
                kernel.signature,
                default,
                reason,
                weights[name],
                sum(info.nbytes for info in made.main.params),
                kernel.flops,
                kernel.bytes,
                tuple(others),
            )
        )
    return tasks


def _read_schedule(kernel: Kernel) -> tuple[Schedule | None, str]:
    """The schedule of a kernel that can be tuned; None, and why, for others."""
    if kernel.codegen:
        return None, f"it is code of '{kernel.codegen}'"
    if not kernel.schedule_json:
        return None, kernel.reason or "it moves data, or its loops are no schedule"
    try:
        schedule = Schedule.from_json(kernel.schedule_json)
        read_recipe(schedule)
    except (ScheduleError, CompileError) as error:
        return None, str(error)
    return schedule, ""
