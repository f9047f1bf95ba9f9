"""Limits on model files, and on the resources of a compilation."""

from __future__ import annotations

from dataclasses import dataclass

GIB = 1 << 30


@dataclass(frozen=True)
class ModelLimits:
    """Upper limits for a model and its compilation; None is no limit.

    ``file_bytes`` counts the model file, ``nodes`` those of all graphs with functions written out, ``nesting`` how deep
    graphs and calls of functions lie in one another, ``tensor_bytes`` any tensor whose size the import knows.
    ``program_bytes`` is what a program of known sizes may keep between its kernels, and a kernel for each thread.
    ``text_bytes`` is of the JSON in a PyTorch program's file. ``external_data`` allows data in other files of the
    model's folder. ``seconds`` and ``memory_bytes`` are of the compilation: wall time of the whole, and memory of each
    worker.
    """

    file_bytes: int | None = None
    nodes: int = 5_000_000
    nesting: int = 64
    tensor_bytes: int = 1024 * GIB
    program_bytes: int = 1024 * GIB
    text_bytes: int = GIB // 2
    external_data: bool = True
    seconds: float | None = None
    memory_bytes: int | None = None


ORDINARY = ModelLimits()
UNTRUSTED = ModelLimits(
    file_bytes=2 * GIB,
    nodes=50_000,
    nesting=8,
    tensor_bytes=4 * GIB,
    program_bytes=16 * GIB,
    text_bytes=GIB // 16,
    external_data=False,
    seconds=300.0,
    memory_bytes=8 * GIB,
)


_MOST_THREADS = 1024  # of a program: more than a machine has CPUs; the system may not give more


def broken_bound(threads: int) -> str:
    """The bound that a program's number of threads breaks, in words; "" where it may have so many."""
    if threads < 1:
        return "at least 1"
    return f"at most {_MOST_THREADS}" if threads > _MOST_THREADS else ""


def limits_for(untrusted: bool) -> ModelLimits:
    """The limits for a model of a source that is not trusted, or for any other one."""
    return UNTRUSTED if untrusted else ORDINARY
