"""The work of the process that measures programs of templates: plain data in and out."""

from __future__ import annotations

import hashlib
import os
import pickle
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from ...core.model import TensorInfo, numpy_dtype
from ...runtime.module import Module
from ...runtime.profile.evaluator import evaluate
from ...workers.process import WorkerKind

MEASURER = WorkerKind("tvm.autotvm.jobs")

# How far results may lie from the default's, of the largest of them, by the bytes of a float.
_TOLERANCES = {1: 0.2, 2: 2e-2, 4: 2e-4, 8: 1e-9}
_MOST_FLUSHED = 256 << 20  # bytes


@dataclass(frozen=True)
class Timed:
    """How to measure; ``inputs`` are arrays for the program's, random where there are none."""

    number: int
    repeat: int
    min_repeat_ms: float
    flush: bool = False
    inputs: tuple[np.ndarray, ...] = ()


@dataclass
class _Reference:
    """What a task's default program gives for inputs."""

    key: str
    inputs: list[np.ndarray]
    results: list[np.ndarray]


_held: list[_Reference] = []  # of this process: that of the task that it measures now


def warm_up() -> None:
    """Import what jobs need."""
    from ...runtime.process import link  # noqa: F401


def prepare(default: bytes, timed: Timed) -> None:
    """Make a task's inputs, and what its default program gives for them."""
    _find_reference(default, timed)


def time_program(program: bytes, default: bytes, timed: Timed) -> tuple[tuple[float, ...], str]:
    """Seconds of a call by repetitions, and what is wrong with its results beside those of ``default``; "" for nothing.

    Both programs are pickled modules.
    """
    reference = _find_reference(default, timed)
    module: Module = pickle.loads(program)
    outputs = [np.full(r.shape, 0x55, np.uint8) if r.dtype == np.uint8 else np.zeros_like(r) for r in reference.results]
    call = module[module.entry_name]
    call(*reference.inputs, *outputs)
    for info, found, wanted in zip(module.outputs, outputs, reference.results, strict=True):
        if reason := find_difference(found, wanted):
            return (), f"'{info.name}' {reason}"
    seconds: list[float] = []
    for _ in range(timed.repeat):
        if timed.flush:
            _flush_caches()
        calls = evaluate(lambda: call(*reference.inputs, *outputs), timed.number, 1, timed.min_repeat_ms)
        seconds += calls.results
    return tuple(seconds), ""


def _find_reference(default: bytes, timed: Timed) -> _Reference:
    key = hashlib.sha256(default + b"".join(each.tobytes() for each in timed.inputs)).hexdigest()
    if not _held or _held[0].key != key:
        module: Module = pickle.loads(default)
        random = np.random.default_rng(0)
        inputs = [draw_array(random, info) for info in module.inputs]
        for number, given in enumerate(timed.inputs[: len(inputs)]):
            np.copyto(inputs[number], given)
        _held[:] = [_Reference(key, inputs, list(module.run(inputs)))]
    return _held[0]


def draw_array(random: np.random.Generator, info: TensorInfo) -> np.ndarray:
    """Normal floats, small whole numbers, or bools, of a tensor's shape and dtype."""
    shape, dtype = info.static_shape, numpy_dtype(info.dtype)
    if info.dtype == "bool":
        return random.integers(0, 2, shape).astype(dtype)
    if np.issubdtype(dtype, np.integer):
        return random.integers(0, 8, shape).astype(dtype)
    return random.standard_normal(shape).astype(dtype)


def find_difference(found: np.ndarray, wanted: np.ndarray) -> str:
    """How results differ; "" where they do by no more than another order of sums makes."""
    if wanted.dtype.kind in "biu":
        count = int(np.count_nonzero(found != wanted))
        return f"differs in {count} of {wanted.size} elements" if count else ""
    a, b = found.astype(np.float64), wanted.astype(np.float64)
    known = np.isfinite(b)
    if np.any(np.isfinite(a) != known):
        return "is not finite where it should be, or the other way round"
    scale = float(np.max(np.abs(b[known]), initial=0.0))
    worst = float(np.max(np.abs(a[known] - b[known]), initial=0.0))
    allowed = _TOLERANCES.get(wanted.dtype.itemsize, 2e-4) * scale
    return f"differs by {worst:.3g}, where the largest element is {scale:.3g}" if worst > allowed else ""


def _flush_caches() -> None:
    """Read and write as much memory as the caches have, twice over."""
    places = Path("/sys/devices/system/cpu/cpu0/cache").glob("index*/size")
    sizes: Sequence[int] = [_read_size(place) for place in places]
    amount = min(2 * max(sizes, default=32 << 20), _MOST_FLUSHED)
    np.add(memory := np.zeros(amount // 8), 1.0, out=memory)


def _read_size(place: Path) -> int:
    text = place.read_text().strip() if os.access(place, os.R_OK) else ""
    return int(text[:-1]) << 10 if text.endswith("K") and text[:-1].isdigit() else 0
