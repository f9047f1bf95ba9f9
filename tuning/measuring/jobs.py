"""The work of the process that measures: plain data in and out, as a fleet's workers take it."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Sequence

from ...core.program import Kernel
from ...workers.process import WorkerKind
from .bench import Bench, Measured, Setup

MEASURER = WorkerKind("tuning.measuring.jobs")

_KEPT_BYTES = 512 << 20  # of benches that stay

_benches: dict[str, Bench] = {}  # of this process: those of the kernels that it measured last, the latest at the end


def warm_up() -> None:
    """Import what jobs need."""
    from ...runtime.process import link  # noqa: F401


def race_candidate(setup: Setup, default: Kernel, candidate: Kernel, bar: float) -> Measured:
    """The race of a candidate against the default on a kernel's arrays, which are kept for the next one."""
    return _find_bench(setup, default).race(candidate, bar)


def time_default(setup: Setup, default: Kernel) -> float:
    """Seconds of a call of a kernel's default."""
    return _find_bench(setup, default).time_default()


def _find_bench(setup: Setup, default: Kernel) -> Bench:
    pin_process(setup.cpus)
    key = hashlib.sha256(default.object + repr((setup.inputs, setup.threads, setup.seed)).encode()).hexdigest()
    if (bench := _benches.pop(key, None)) is None:
        _make_room(setup.most_bytes)
        bench = Bench(setup, default)
    _benches[key] = bench
    return bench


def _make_room(wanted: int) -> None:
    """Let benches go that were not used for longest, until there is room for another one, if need be all of them."""
    while _benches and wanted + sum(bench.setup.most_bytes for bench in _benches.values()) > _KEPT_BYTES:
        del _benches[next(iter(_benches))]


def pin_process(cpus: Sequence[int]) -> None:
    """Let this process run on these CPUs alone, as far as it may; on any for none."""
    allowed = set(cpus) & os.sched_getaffinity(0)
    if allowed:
        os.sched_setaffinity(0, allowed)
