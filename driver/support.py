"""The object of a program's support, which is the same for all programs of an architecture."""

from __future__ import annotations

from ..core.target import Target
from ..workers.process import Job
from . import jobs
from .compilation import Compilation

_MADE: dict[Target, bytes] = {}  # by the baseline of an architecture


def list_jobs(compilation: Compilation) -> list[Job]:
    """The job that makes what a compilation needs of it, if this process has not had that made before.

    It goes with the plan, for which the other workers wait.
    """
    missing = compilation.options.executor == "objects" and compilation.options.target.baseline not in _MADE
    return [_describe_job(compilation.options.target)] if missing else []


def keep_support(compilation: Compilation, made: list[bytes]) -> None:
    """Keep what the jobs of ``list_jobs`` have made."""
    for support in made:
        _MADE[compilation.options.target.baseline] = support


def find_support(compilation: Compilation, target: Target) -> bytes:
    """The object for an architecture."""
    if (support := _MADE.get(target.baseline)) is None:
        [support] = compilation.pool.run([_describe_job(target)])
        _MADE[target.baseline] = support
    return support


def _describe_job(target: Target) -> Job:
    return Job("the entry's support", jobs.emit_support, (target,), waits=True)
