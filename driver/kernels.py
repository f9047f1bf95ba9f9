"""The kernels of a plan: those that the cache has, and the others compiled in workers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from ..core.breadcrumbs import in_words
from ..core.errors import ModelError
from ..core.program import Kernel, Plan
from ..core.target import Target
from ..workers import Pool
from ..workers.process import Job
from . import jobs
from .cache import compile_cache
from .options import CompileReport, Options


class Part(NamedTuple):
    """A kernel to be compiled."""

    name: str
    target: Target
    opt_level: int


def compile_kernels(
    plan: Plan, wanted: Sequence[Part], options: Options, pool: Pool, report: CompileReport
) -> dict[Part, Kernel]:
    """Take kernels, each for its target, from the cache, and compile the others, the largest first."""
    nodes, kernels = _nodes(plan), _cached_kernels(plan, wanted, options)
    report.cached_kernels = len(kernels)
    ordered = sorted((part for part in wanted if part not in kernels), key=lambda part: -len(plan.kernels[part.name]))
    work = []

    def on_done(number: int) -> None:
        options.progress("compiling kernels", len(wanted) - len(ordered) + number, len(wanted))

    on_done(0)
    for part in ordered:
        name, target, opt_level = part
        settings = replace(options.fork(_label(part, options)), target=target, opt_level=opt_level)
        work.append(Job(_describe(name, nodes[name]), jobs.compile_kernel, (plan.kernels[name], settings)))
    for part, (kernel, forked) in zip(ordered, pool.run(work, on_done), strict=True):
        options.join(_label(part, options), forked)
        kernels[part] = kernel
        if options.cache:
            settings = replace(options, target=part.target, opt_level=part.opt_level)
            compile_cache.keep_kernels(options.cache, plan.kernels, settings, {part.name: kernel})
    for part, kernel in kernels.items():
        _check_scratch(kernel, nodes[part.name], options.model_limits.program_bytes)
        report.notes += notes_on(plan, {part.name: kernel})
    return kernels


def _check_scratch(kernel: Kernel, nodes: Sequence[str], most: int) -> None:
    if kernel.scratch_bytes > most:
        raise ModelError(
            f"{_describe(kernel.name, nodes)} needs {kernel.scratch_bytes} bytes of its own in each thread, more than "
            f"the {most} that a program may have: make its sizes smaller"
        )


def notes_on(plan: Plan, kernels: Mapping[str, Kernel]) -> list[str]:
    """What the compiler has to say about kernels, with their nodes."""
    nodes = _nodes(plan)
    return [f"{_describe(name, nodes[name])} {kernel.note}" for name, kernel in kernels.items() if kernel.note]


def _cached_kernels(plan: Plan, wanted: Sequence[Part], options: Options) -> dict[Part, Kernel]:
    """Those of the kernels that the cache has."""
    found: dict[Part, Kernel] = {}
    for target, opt_level in dict.fromkeys(part[1:] for part in wanted) if options.cache else ():
        assert options.cache is not None
        alike = [part for part in wanted if part[1:] == (target, opt_level)]
        sources = {part.name: plan.kernels[part.name] for part in alike}
        kernels = compile_cache.find_kernels(
            options.cache, sources, replace(options, target=target, opt_level=opt_level)
        )
        found |= {part: kernels[part.name] for part in alike if part.name in kernels}
    return found


def _label(part: Part, options: Options) -> str:
    """What instruments call the compilation of a kernel: one for this machine, beside the target's, goes by both."""
    return part.name if part.target in options.targets else f"{part.name}.{part.target.cpu}"


def _nodes(plan: Plan) -> dict[str, list[str]]:
    """The model's nodes that each kernel computes, of all its calls."""
    nodes: dict[str, dict[str, None]] = {}
    for program in (*plan.programs, *plan.prepare.values()):
        for call in program.calls:
            nodes.setdefault(call.kernel, {}).update(dict.fromkeys(call.nodes))
    return {name: list(found) for name, found in nodes.items()}


def _describe(kernel: str, nodes: Sequence[str]) -> str:
    return f"kernel '{kernel}'{in_words(nodes)}"
