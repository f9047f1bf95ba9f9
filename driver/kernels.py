"""The kernels of a plan: those that the cache has, and the others compiled in workers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from ..core.breadcrumbs import in_words
from ..core.errors import CompileError, CompileTimeoutError, ModelError
from ..core.printed import count_text
from ..core.program import Kernel, Plan, Program
from ..core.target import Target, detect_host
from ..runtime.executors import formulas
from ..workers.process import Job
from . import jobs
from .cache import compile_cache
from .compilation import Compilation, PassJob
from .jobs import Settings


class _Part(NamedTuple):
    """A kernel to be compiled."""

    name: str
    target: Target


def compile_kernels(
    compilation: Compilation,
    plan: Plan,
    on_prepared: Callable[[Mapping[str, Kernel]], object],
    others: Sequence[Job] = (),
) -> tuple[dict[str, Kernel], list[Any]]:
    """Take the kernels that a plan's programs call from the cache, and compile the others; none for an engine.

    What prepares weights runs here and now, so it is code for this machine whatever the target. These come first, and
    ``on_prepared`` gets them as soon as they are there. ``others`` are jobs beside them, whose results come last.
    """
    options = compilation.options
    groups = zip(plan.by_target, options.targets, strict=True) if options.executor == "objects" else ()
    called = [_Part(name, target) for programs, target in groups for name in kernel_names(programs)]
    computed = formulas.choose_programs(plan.prepare, plan.formulas)
    compiled = [program for name, program in plan.prepare.items() if name not in computed]
    prepare = [_Part(name, detect_host()) for name in kernel_names(compiled)]
    with compilation.report.stage("kernels"):
        wanted = [*dict.fromkeys([*prepare, *called])]
        kernels = _cached_kernels(compilation, plan, wanted)
        compilation.report.cached_kernels = len(kernels)
        _check_kernels(compilation, nodes_of(plan), kernels)
        options.progress("compiling kernels", len(kernels), len(wanted))
        _add_kernels(compilation, plan, prepare, kernels, len(wanted))
        on_prepared({part.name: kernels[part] for part in prepare})
        made = _add_kernels(compilation, plan, called, kernels, len(wanted), others)
        held = sum(info.nbytes for info in plan.params)
        found = {part.name: _fit_threads(kernels[part], part.target, held) for part in called}
        compilation.report.notes += note_tuned([kernels[part] for part in dict.fromkeys(called)])
        return found, made


def _fit_threads(kernel: Kernel, target: Target, weight_bytes: int) -> Kernel:
    """The kernel in a program with so many bytes of weights: threads pay sooner if no core's cache holds these."""
    return kernel.streamed if weight_bytes > target.l2_bytes else kernel


def kernel_names(programs: Iterable[Program]) -> list[str]:
    """The kernels that programs call, each once."""
    return [*dict.fromkeys(call.kernel for program in programs for call in program.calls)]


def _add_kernels(
    compilation: Compilation,
    plan: Plan,
    parts: Sequence[_Part],
    kernels: dict[_Part, Kernel],
    total: int,
    others: Sequence[Job] = (),
) -> list[Any]:
    """Compile those that ``kernels`` lacks, each for its target, the largest first; there will be ``total`` of them.

    Returns the results of ``others``, jobs that are done beside that.
    """
    options, nodes, there = compilation.options, nodes_of(plan), len(kernels)
    ordered = sorted((p for p in parts if p not in kernels), key=lambda part: -len(plan.kernels[part.name]))
    tuned = _tuned_schedules(compilation, ordered)

    def on_done(number: int) -> None:
        options.progress("compiling kernels", there + number, total)

    try:
        results = compilation.run(_list_jobs(compilation, plan, ordered, tuned), on_done, others)
    except CompileError as error:
        if not tuned or isinstance(error, CompileTimeoutError):
            raise
        compilation.report.notes.append(f"compiled without the schedules from records, with which it failed: {error}")
        tuned = {}
        results = compilation.run(_list_jobs(compilation, plan, ordered, tuned), on_done, others)
    made = dict(zip(ordered, results, strict=False))
    _keep_kernels(compilation, plan, made, tuned)
    _check_kernels(compilation, nodes, made)
    kernels |= made
    return results[len(ordered) :]


def _list_jobs(
    compilation: Compilation, plan: Plan, parts: Sequence[_Part], tuned: Mapping[_Part, str]
) -> list[PassJob]:
    """The jobs that compile kernels, by the tuned schedules that they have."""
    targets, nodes, work = compilation.options.targets, nodes_of(plan), []
    for part in parts:
        # Instruments tell a kernel for this machine from the target's, beside which it may be compiled.
        label = part.name if part.target in targets else f"{part.name}.{part.target.cpu}"
        what, code = _describe_kernel(part.name, nodes[part.name]), plan.kernels[part.name]
        if part in tuned:
            arguments = (code, part.name, tuned[part])
            work.append(PassJob(what, jobs.compile_tuned_kernel, arguments, part.target, label))
        else:
            work.append(PassJob(what, jobs.compile_kernel, (code,), part.target, label))
    return work


def _tuned_schedules(compilation: Compilation, parts: Iterable[_Part]) -> dict[_Part, str]:
    """The schedules of kernels that records have, but for those that the user gives others by hand."""
    found = {part: compilation.options.records.schedule(part.name, part.target) for part in parts}
    return {
        part: schedule
        for part, schedule in found.items()
        if schedule and not compilation.settings(part.target).schedules(part.name)
    }


def note_tuned(kernels: Sequence[Kernel]) -> list[str]:
    """A note that says how many of a program's kernels have schedules from records, if any has."""
    tuned = sum(kernel.tuned for kernel in kernels)
    return [f"tuned schedules: {tuned} of {count_text(len(kernels), 'kernel')}"] if tuned else []


def _check_kernels(
    compilation: Compilation, nodes: Mapping[str, Sequence[str]], kernels: Mapping[_Part, Kernel]
) -> None:
    """Refuse kernels that need too much memory, and note what is to be said of the others."""
    for part, kernel in kernels.items():
        _check_scratch(kernel, nodes[part.name], compilation.options.model_limits.program_bytes)
        compilation.report.notes += notes_on({part.name: kernel}, nodes)


def _check_scratch(kernel: Kernel, nodes: Sequence[str], most: int) -> None:
    if kernel.scratch_bytes > most:
        raise ModelError(
            f"{_describe_kernel(kernel.name, nodes)} needs {kernel.scratch_bytes} bytes of its own in each thread, "
            f"more than the {most} that a program may have: make its sizes smaller"
        )


def notes_on(kernels: Mapping[str, Kernel], nodes: Mapping[str, Sequence[str]]) -> list[str]:
    """The compiler's notes on kernels, with the ``nodes`` that each one computes."""
    return [f"{_describe_kernel(name, nodes[name])} {kernel.note}" for name, kernel in kernels.items() if kernel.note]


def _cached_kernels(compilation: Compilation, plan: Plan, wanted: Sequence[_Part]) -> dict[_Part, Kernel]:
    """Those of the kernels that the cache has."""
    found: dict[_Part, Kernel] = {}
    if (cache := compilation.cache) is None:
        return found
    tuned = _tuned_schedules(compilation, wanted)
    for settings, alike in _by_settings(compilation, wanted):
        sources = {part.name: plan.kernels[part.name] for part in alike}
        kernels = compile_cache.find_kernels(cache, sources, settings, _by_name(tuned, alike))
        found |= {part: kernels[part.name] for part in alike if part.name in kernels}
    return found


def _keep_kernels(
    compilation: Compilation, plan: Plan, made: Mapping[_Part, Kernel], tuned: Mapping[_Part, str]
) -> None:
    """Put kernels into the cache, those of one target together: each time the compiler's source is hashed once."""
    if compilation.cache is not None:
        for settings, alike in _by_settings(compilation, [*made]):
            kernels = {part.name: made[part] for part in alike}
            compile_cache.keep_kernels(compilation.cache, plan.kernels, settings, _by_name(tuned, alike), kernels)


def _by_name(tuned: Mapping[_Part, str], parts: Iterable[_Part]) -> dict[str, str]:
    """The schedules of those of the parts that have one."""
    return {part.name: tuned[part] for part in parts if part in tuned}


def _by_settings(compilation: Compilation, parts: Sequence[_Part]) -> Iterator[tuple[Settings, list[_Part]]]:
    """The parts that are compiled alike, with the settings that the cache tells them by."""
    for target in dict.fromkeys(part.target for part in parts):
        yield compilation.settings(target), [part for part in parts if part.target == target]


def nodes_of(plan: Plan) -> dict[str, list[str]]:
    """The model's nodes that each kernel computes, of all its calls."""
    nodes: dict[str, dict[str, None]] = {}
    for program in (*plan.programs, *plan.prepare.values()):
        for call in program.calls:
            nodes.setdefault(call.kernel, {}).update(dict.fromkeys(call.nodes))
    return {name: list(found) for name, found in nodes.items()}


def _describe_kernel(kernel: str, nodes: Sequence[str]) -> str:
    return f"kernel '{kernel}'{in_words(nodes)}"
