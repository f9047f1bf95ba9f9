"""One kernel on arrays of its own, where two schedules of it are checked against each other and measured in turn."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ...core.model import TensorInfo, numpy_dtype, parse_tensor_type
from ...core.program import Call, Kernel, Program, Slot
from ...runtime.executors.tables import CallTable, Memory
from ...runtime.process.link import link
from ...runtime.tensors.tensor import aligned_bytes
from .arrays import draw_numbers, explain_difference
from .racing import run_race
from .spin import Spin

# Seconds of a sample, and copies of weights at most: as a network does, a kernel finds its weight where its others of
# the same run have left it. A sample that cannot go over all copies is longer, and the next one goes on with others.
_SAMPLE, _PART = 4e-4, 2e-3
_MOST_CALLS, _MOST_COPIES = 512, 64
MOST_BYTES = 64 << 20
_GUARD_BYTES = 64  # bytes behind a result that nobody may write
_PATTERN = 0xA5
# How far results may lie from the default's, of the largest of them, by the bytes of a float.
_TOLERANCES = {1: 0.2, 2: 2e-2, 4: 2e-4, 8: 1e-9}

Arrays = list[np.ndarray]  # the inputs of a kernel


@dataclass(frozen=True)
class Setup:
    """What a kernel is measured on.

    inputs, results: the types of its arguments. weights: the numbers of the inputs that are weights of the network,
    which has ``network_bytes`` of them. objects: what its code is linked with. cpus: where it may run; empty for
    anywhere.
    """

    name: str
    inputs: tuple[str, ...]
    results: tuple[str, ...]
    weights: tuple[int, ...]
    network_bytes: int
    objects: tuple[bytes, ...]
    threads: int = 1
    cpus: tuple[int, ...] = ()
    seed: int = 0

    @property
    def most_bytes(self) -> int:
        """Bytes that the arrays of a bench take at most."""
        copies = min(self.network_bytes, MOST_BYTES) if self.weights else 0
        return copies + sum(_type_bytes(text) for text in (*self.inputs, *self.results))


@dataclass(frozen=True)
class Measured:
    """A race's outcome: seconds of a call by pairs, ``error`` where there is none, in one word, and its ``reason``.

    ``process`` is who measured (host:pid:start), where that is another machine.
    """

    seconds: tuple[float, ...] = ()
    default_seconds: tuple[float, ...] = ()
    error: str = ""
    reason: str = ""
    disturbed: int = 0
    load: float = 0.0
    process: str = ""


class Bench:
    """The arrays of one kernel, and its default's code on them."""

    def __init__(self, setup: Setup, default: Kernel) -> None:
        self.setup = setup
        self._random = np.random.default_rng(setup.seed)
        self._spin, self._turn = Spin(), 0
        self._inputs = [self._draw(text) for text in setup.inputs]
        self._copies = [self._inputs, *self._copy_weights()]
        self._places = [_allocate_guarded(_type_bytes(text)) for text in setup.results]
        self._default = _Linked(self, default, [self._copies[:1]], 1)
        self._parts, self._times = self._divide_copies()
        self._timed = _Linked(self, default, self._parts, self._times)

    def race(self, candidate: Kernel, bar: float) -> Measured:
        """Check a candidate, and measure it against the default until it is known whether it beats ``bar``."""
        if reason := self._find_difference(_Linked(self, candidate, [self._copies[:1]], 1)):
            return Measured(error="wrong", reason=reason)
        timed = _Linked(self, candidate, self._parts, self._times)
        timed.run()
        found = run_race(timed.time, self._timed.time, self._spin.run, bar)
        load = os.getloadavg()[0]
        return Measured(tuple(found.seconds), tuple(found.others), disturbed=found.disturbed, load=load)

    def time_default(self, samples: int = 9) -> float:
        """Median seconds of a call of the default."""
        return float(np.median([self._timed.time() for _ in range(samples)]))

    def take_turn(self) -> int:
        """The number of the next sample: each goes over other copies of the weights than the one before."""
        self._turn += 1
        return self._turn

    def _divide_copies(self) -> tuple[list[list[Arrays]], int]:
        """The copies of the weights by samples, and how often a sample goes over its own."""
        self._default.run()
        once, copies = max(min(self._default.time() for _ in range(3)), 1e-9), self._copies
        wanted = min(_MOST_CALLS, max(1, round(_SAMPLE / once)))
        if wanted >= len(copies):
            return [copies], -(-wanted // len(copies))
        count = min(len(copies), max(1, round(_PART / once)))
        return [copies[begin : begin + count] for begin in range(0, len(copies) - count + 1, count)], 1

    def _copy_weights(self) -> list[Arrays]:
        """Other copies of the weights, so many that they do not stay in a cache unless the network's do."""
        weights = set(self.setup.weights)
        own = sum(self._inputs[number].nbytes for number in weights)
        wanted = min(self.setup.network_bytes, MOST_BYTES)
        count = min(_MOST_COPIES, wanted // own) if own else 1
        copies = range(1, count)
        return [[_copy(a) if i in weights else a for i, a in enumerate(self._inputs)] for _ in copies]

    def _draw(self, text: str) -> np.ndarray:
        """Numbers of a type; an integer alone is 0, as it may be a place among few."""
        shape, dtype = parse_tensor_type(text)
        array = aligned_bytes(_type_bytes(text)).view(numpy_dtype(dtype)).reshape(shape)
        draw_numbers(self._random, array, 1 if shape and array.size == 1 else 2)
        return array

    def _find_difference(self, candidate: _Linked) -> str:
        """What of a candidate's results is not as the default's, on ordinary and on odd numbers; "" for nothing."""
        kept = [array.copy() for array in self._inputs]
        try:
            for odd in (False, True):
                if odd:
                    for array in self._inputs:
                        _strew(array)
                wanted = self._results(self._default)
                if reason := self._compare(self._results(candidate), wanted):
                    return reason + (" where inputs have NaN, zeros of both signs and denormals" if odd else "")
        finally:
            for array, old in zip(self._inputs, kept, strict=True):
                array[...] = old
        return ""

    def _results(self, code: _Linked) -> list[np.ndarray]:
        for place in self._places:
            place.fill(_PATTERN)
        code.run()
        return [place.copy() for place in self._places]

    def _compare(self, found: Sequence[np.ndarray], wanted: Sequence[np.ndarray]) -> str:
        for number, text in enumerate(self.setup.results):
            size = _type_bytes(text)
            if np.any(found[number][size:] != _PATTERN):
                return f"it writes behind its result {number}"
            kind = numpy_dtype(parse_tensor_type(text)[1])
            if reason := _differs(found[number][:size].view(kind), wanted[number][:size].view(kind)):
                return f"its result {number} {reason}"
        return ""

    @property
    def copies(self) -> list[Arrays]:
        """The inputs, once for each copy of the weights."""
        return self._copies

    @property
    def places(self) -> list[np.ndarray]:
        """The memory of the results, with a guard behind each."""
        return self._places


class _Linked:
    """A kernel's code, to be called so many ``times`` in a row on each of some of a bench's arrays, part by part."""

    def __init__(self, bench: Bench, kernel: Kernel, parts: Sequence[Sequence[Arrays]], times: int) -> None:
        setup = self._setup = bench.setup
        self._bench, self._kernel, self._library = bench, kernel, link([*setup.objects, kernel.object])
        self._calls = times * len(parts[0])
        # The time of a thread does not run while others have its core; of several threads it would miss all but one.
        self._clock = time.thread_time if setup.threads == 1 else time.perf_counter
        self._parts = [self._make_calls(part, times) for part in parts]

    def _make_calls(self, part: Sequence[Arrays], times: int) -> tuple[CallTable, Memory]:
        """The calls on some copies of the arrays."""
        results = tuple(Slot("output", number) for number in range(len(self._setup.results)))
        arrays: list[np.ndarray] = []
        made: list[Call] = []
        for copy in part:
            slots = tuple(Slot("input", len(arrays) + number) for number in range(len(copy)))
            arrays += copy
            made.append(Call(self._kernel.name, (*slots, *results)))
        inputs = tuple(TensorInfo(str(i), array.shape, "float32") for i, array in enumerate(arrays))
        outputs = tuple(TensorInfo(str(i), place.shape, "uint8") for i, place in enumerate(self._bench.places))
        program = Program(inputs, outputs, (), tuple(made) * times, 0)
        table = CallTable(program, {self._kernel.name: self._kernel}, self._library, self._setup.threads)
        return table, table.memory(arrays, self._bench.places, [])

    def run(self) -> None:
        """Make the calls of the first part."""
        table, memory = self._parts[0]
        table.run(memory)

    def time(self) -> float:
        """Seconds of a call of the next part."""
        table, memory = self._parts[self._bench.take_turn() % len(self._parts)]
        begin = self._clock()
        table.run(memory)
        return (self._clock() - begin) / self._calls


def _type_bytes(text: str) -> int:
    shape, dtype = parse_tensor_type(text)
    return math.prod(shape) * numpy_dtype(dtype).itemsize


def _allocate_guarded(nbytes: int) -> np.ndarray:
    made = aligned_bytes(nbytes + _GUARD_BYTES)
    made.fill(_PATTERN)
    return made


def _copy(array: np.ndarray) -> np.ndarray:
    made = aligned_bytes(array.nbytes).view(array.dtype).reshape(array.shape)
    made[...] = array
    return made


def _strew(array: np.ndarray) -> None:
    """Put some NaN, zeros of both signs and denormals among floats."""
    if array.dtype.kind in "biu" or array.size < 8:
        return
    flat, step = array.reshape(-1), max(array.size // 7, 1)
    odd = (np.nan, 0.0, -0.0, 1e-41, -1e-42, 0.0, 1e-40)
    for place, value in zip(range(0, array.size, step), odd, strict=False):
        flat[place] = value


def _differs(found: np.ndarray, wanted: np.ndarray) -> str:
    """How results differ; "" where they do by no more than another order of sums makes."""
    if wanted.dtype.kind in "biu":
        count = int(np.count_nonzero(found != wanted))
        return f"differs in {count} of {wanted.size} elements" if count else ""
    return explain_difference(found, wanted, _TOLERANCES.get(wanted.dtype.itemsize, 2e-4))
