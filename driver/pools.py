"""The workers that a compilation has; imports little, so that a command can start them before all that it needs."""

from __future__ import annotations

from ..core.errors import CompileError
from ..runtime.process.threads import usable_cpus
from ..workers import Pool, get_pool

_MOST_WORKERS = 16


def find_pool(count: int | None) -> Pool:
    """The pool of so many workers, by default one for each usable CPU; CompileError for a number that is none."""
    if count is not None and count < 0:
        raise CompileError(f"workers is {count}: give the number of processes, or 0 for none")
    return get_pool(min(usable_cpus(), _MOST_WORKERS) if count is None else count)
