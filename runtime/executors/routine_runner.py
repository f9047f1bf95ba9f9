"""Programs with sizes, or a course, that only the run knows: their ``main`` takes a frame (``core/frame.py``)."""

from __future__ import annotations

import ctypes
import math
import threading
import time
import weakref
from array import array
from collections.abc import Callable, Mapping, Sequence
from enum import IntEnum
from functools import partial
from typing import Any, Literal, NamedTuple

import numpy as np

from ...core.errors import InputError
from ...core.frame import FrameLayout
from ...core.model import OBJECTS, numpy_dtype
from ...core.program import Program, Step
from ..process import memory
from ..process.deadline import Deadline
from ..process.ffi import tvm_ffi
from ..process.link import Library
from ..steps.host_calls import HostCall, bind_host_call
from ..tensors.pool import Block, MemoryPool, block_bytes
from ..tensors.state_memory import free
from ..tensors.tensor import address_of, is_exported
from .packed import create_main
from .state_frame import StatePlaces
from .watching import KernelCalls, Watcher

_BYTE = np.dtype(np.uint8)
_LITTLE = 4096
_NO_BLOCK: Block = (np.empty(0, _BYTE), 0, 0)


class _OutputWords(NamedTuple):
    """The words of a frame that have an output: its address at ``place``, its extents in [first, end).

    Of one whose rank only the run knows the end is before the first.
    """

    place: int
    first: int
    end: int
    dtype: np.dtype | None


# Of each output that a run is taken to make: the word of its address, its shape, its dtype and the size of its memory.
_Taken = tuple[tuple[int, tuple[int, ...], Any, int], ...]


class _Guess(NamedTuple):
    """What a run is taken to make: outputs as those of the run before.

    ``frame`` is a frame with their extents, and with the bytes of the memory that they are offered; of each output
    the word that has its address, its shape and dtype, and the size of the memory, 0 for none.
    """

    frame: array
    outputs: _Taken


class HookCall(IntEnum):
    """What code asks its caller to do, with a number and the address of words.

    MEMORY: give memory of so many bytes, and leave its handle and its address in the words. HOST: make a call of the
    host. KERNEL: make a call of a kernel that is watched. RELEASE: forget a handle. DEMAND: refuse so many bytes, if
    the machine has them not.
    """

    MEMORY = 0
    HOST = 1
    KERNEL = 2
    RELEASE = 3
    DEMAND = 4


class RoutineRunner:
    """A program with a routine, and its weights: ``params``. ``make_watcher`` makes what watches a run."""

    executor: Literal["aot"] = "aot"
    main = None

    def __init__(
        self,
        library: Library,
        program: Program,
        params: Sequence[np.ndarray],
        threads: int,
        make_watcher: Callable[[], Watcher] | None = None,
    ) -> None:
        routine = program.routine
        assert routine is not None
        self._params = params  # which code reads where they lie
        addresses = np.array([param.ctypes.data for param in params], np.uint64)
        self._main = create_main(library, addresses, threads)
        self._layout = layout = FrameLayout.of(program)
        dtypes = [None if info.dtype in OBJECTS else numpy_dtype(info.dtype) for info in program.outputs]
        self._calls = routine.calls
        self._hosts = {i: bind_host_call(step) for i, step in enumerate(self._calls) if step.op == "host.call"}
        self._outputs = [
            _OutputWords(place, place + 2, place if shape is None else place + 2 + len(shape), dtype)
            for place, dtype, (_, shape) in zip(layout.outputs, dtypes, layout.types, strict=True)
        ]
        self._pool = MemoryPool()
        self._states = StatePlaces(layout, [shape for _, shape in routine.types[: len(program.inputs)]])
        places = enumerate(zip(layout.inputs, program.inputs, strict=True))
        self._objects = [(number, place) for number, (place, info) in places if info.dtype in OBJECTS]
        self._tensors = [
            (number, place)
            for number, (place, info) in enumerate(zip(layout.inputs, program.inputs, strict=True))
            if info.dtype not in OBJECTS and number not in self._states.inputs
        ]
        self._exported = all(info.dtype in OBJECTS or is_exported(numpy_dtype(info.dtype)) for info in program.inputs)
        self._make_watcher, self._asks = make_watcher, bool(self._hosts or self._objects or make_watcher)
        self._kernels = KernelCalls(library, routine, threads) if make_watcher else None
        self._demand = tvm_ffi.convert(_demand_memory)
        kept = {state.output for state in (*layout.grown, *layout.written)}
        self._guessed = [
            number
            for number, words in enumerate(self._outputs)
            if words.dtype is not None and words.first <= words.end and number not in kept
        ]
        self._held = sorted(set(range(len(self._outputs))) - kept - set(self._guessed))
        self._guesses_alone = len(self._guessed) == len(self._outputs) and make_watcher is None
        self._guess = self._first_guess(layout)

    def _first_guess(self, layout: FrameLayout) -> _Guess:
        """That what is open is empty."""
        frame, found = array("q", [0]) * layout.words, []
        frame[0], frame[1] = self._demand.__chandle__(), int(self._make_watcher is not None)
        for number in self._guessed:
            shape, dtype = tuple(n or 0 for n in layout.types[number][1] or ()), self._outputs[number].dtype
            nbytes = math.prod(shape) * (dtype.itemsize if dtype else 0)
            found.append((shape, block_bytes(nbytes) if nbytes else 0))
        return self._make_guess(frame, found)

    def _make_guess(self, frame: array, found: Sequence[tuple[tuple[int, ...], int]]) -> _Guess:
        """Of the shapes of outputs and the sizes of their memory."""
        outputs = []
        for number, (shape, size) in zip(self._guessed, found, strict=True):
            place, first, end, dtype = self._outputs[number]
            frame[place], frame[place + 1], frame[first:end] = 0, size, array("q", shape)
            outputs.append((place, shape, dtype, size))
        return _Guess(frame, tuple(outputs))

    def run(self, inputs: Sequence[Any], deadline: Deadline | None = None) -> list[Any]:
        """See ``Runner``. An input that is a state that grows is a ``StateMemory``, which is also given as the output.

        It has the new shape when the run has succeeded. After a run that fails its elements are those of before. One
        that is written over is lost where a run fails after that.
        """
        held = None
        frame, guessed = self._guess  # one object, which other threads may replace
        if self._states.inputs:
            held = self._states.frame_of(self, inputs, frame, guessed)
            frame, guessed = held.words, held.guessed
        else:
            frame = frame[:]
        state, _hook = self._begin_run(frame, inputs, deadline)
        made, blocks = [], []
        for place, shape, dtype, size in guessed:
            own, frame[place], skip = block = self._pool.take(size) if size else _NO_BLOCK
            made.append(np.ndarray(shape, dtype, own, skip) if size else np.empty(shape, dtype))
            blocks.append(block)
        try:
            as_guessed = self._run_on(frame, inputs, state)
        except BaseException as error:
            if held is not None:
                self._states.take_memory(held, inputs)
                self._states.lose(held, inputs)
            self._explain_failure(error, frame, blocks, state, deadline)
            raise
        if as_guessed and self._guesses_alone:
            return made
        if not as_guessed or self._make_watcher is not None:
            made, guess = self._read_outputs(frame, guessed, made, blocks, state)
            if held is None:
                self._guess = guess
            else:
                held.guessed = guess.outputs
                self._states.take_memory(held, inputs)
        outputs: list[Any] = held.results[:] if held is not None else [None] * len(self._outputs)
        for number, value in zip(self._guessed, made, strict=True):
            outputs[number] = value
        return self._add_held(outputs, frame, state) if self._held else outputs

    def _begin_run(
        self, frame: array, inputs: Sequence[Any], deadline: Deadline | None
    ) -> tuple[_State | None, tvm_ffi.Function | None]:
        """Leave in a frame when the run has to end, whom it may ask, and handles for inputs that are no tensors.

        Returns what the host has of the run, if anything, and the function that answers the run while it is kept.
        """
        frame[2] = 0 if deadline is None else time.monotonic_ns() + int(deadline.check() * 1_000_000_000)
        if not self._asks:
            return None, None
        watcher = self._make_watcher() if self._make_watcher else None
        state = _State(self._calls, self._hosts, watcher, self._kernels, deadline)
        hook = tvm_ffi.convert(state.answer)
        frame[0] = hook.__chandle__()
        for number, place in self._objects:
            frame[place] = state.hold(inputs[number])
        return state, hook

    def _run_on(self, frame: array, inputs: Sequence[Any], state: _State | None) -> int:
        """Call ``main`` on inputs, of which the frame has those that are no tensors; see there what it returns."""
        address = frame.buffer_info()[0]
        if self._exported and not self._states.inputs:
            arrays: Any = inputs
            if self._objects:
                arrays = list(inputs)
                for number, _ in self._objects:
                    arrays[number] = None
            try:
                return self._main(address, *arrays)
            except BufferError:  # of an array that numpy does not export: a read-only one
                if state is not None and state.error is not None:
                    raise
        for number, place in self._tensors:
            value = inputs[number]
            frame[place : place + 1 + value.ndim] = array("q", (address_of(value), *value.shape))
        return self._main(address)

    def _add_held(self, outputs: list[Any], frame: array, state: _State | None) -> list[Any]:
        """The outputs of a run with those that the host holds."""
        assert state is not None
        for number in self._held:
            place, _, _, dtype = self._outputs[number]
            value = state.held[frame[place]]
            outputs[number] = value if dtype is None else value.view(dtype)
        return outputs

    def _read_outputs(
        self, frame: array, guessed: _Taken, made: Sequence[np.ndarray], blocks: Sequence[Block], state: _State | None
    ) -> tuple[list[np.ndarray], _Guess]:
        """The arrays that a run has made, which are others than they were taken to be, as the next run's will be.

        What the next run is taken to make is left in the frame, too.
        """
        outputs, found = [], []
        for (place, shape, dtype, size), value, block in zip(guessed, made, blocks, strict=True):
            extents = tuple(frame[place + 2 : place + 2 + len(shape)])
            if extents != shape or frame[place] != block[1]:
                value, size = self._read_output(frame[place], extents, dtype, block, size, state)
            outputs.append(value)
            found.append((extents, size))
        return outputs, self._make_guess(frame, found)

    def _read_output(
        self,
        address: int,
        extents: tuple[int, ...],
        dtype: np.dtype,
        block: Block,
        room: int,
        state: _State | None,
    ) -> tuple[np.ndarray, int]:
        """An output of other extents than it was taken to have, and the size of the memory to be offered next."""
        nbytes = dtype.itemsize * math.prod(extents)
        if nbytes == 0:
            return np.empty(extents, dtype), 0
        own, offered, skip = block
        if address == offered:
            made = np.ndarray(extents, dtype, own, skip)
            if room > 2 * nbytes + _LITTLE:  # who keeps it should not keep a block of another size
                return made.copy(), block_bytes(nbytes)
            return made, room
        lent = state.lent if state is not None and self._make_watcher else {}
        own = lent.get(address)
        if own is None:
            own, room = _adopt(address, nbytes), block_bytes(nbytes)
        return np.ndarray(extents, dtype, own), room

    def _explain_failure(
        self,
        error: BaseException,
        frame: array,
        blocks: Sequence[Block],
        state: _State | None,
        deadline: Deadline | None,
    ) -> None:
        """Free what a run has made for outputs before it failed, and raise what has made it fail."""
        lent = state.lent if state is not None else {}
        for number, (_, offered, _) in zip(self._guessed, blocks, strict=True):
            address = frame[self._outputs[number].place]
            if address not in (0, offered) and address not in lent:
                free(address)
        if state is not None and state.error is not None:
            raise state.error from None
        if deadline is not None:
            deadline.check()
        refusal, _refused.error = getattr(_refused, "error", None), None
        if isinstance(error, MemoryError) and refusal is not None:
            raise refusal from None


_refused = threading.local()


def _demand_memory(kind: int, number: int, words: int) -> None:
    try:
        memory.demand(number, "a tensor of the run")
    except InputError as error:
        _refused.error = error
        raise


def _adopt(address: int, nbytes: int) -> np.ndarray:
    """The bytes of memory that code has allocated, which are freed with the last array on them."""
    buffer = (ctypes.c_char * nbytes).from_address(address)
    weakref.finalize(buffer, free, address)
    return np.frombuffer(memoryview(buffer), _BYTE)


class _State:
    """What the host has of a run: values by their handles, and the watcher, if there is one, with what it has lent."""

    def __init__(
        self,
        calls: Sequence[Step],
        hosts: Mapping[int, HostCall],
        watcher: Watcher | None,
        kernels: KernelCalls | None,
        deadline: Deadline | None,
    ) -> None:
        self.held: dict[int, Any] = {}
        self._lent: dict[int, tuple[np.ndarray, int]] = {}  # with their addresses, by their handles
        self.error: BaseException | None = None
        self._calls, self._hosts, self._watcher, self._kernels = calls, hosts, watcher, kernels
        self._deadline = deadline
        self._last = 0

    def hold(self, value: Any) -> int:
        """A handle for a value."""
        self._last += 1
        self.held[self._last] = value
        return self._last

    @property
    def lent(self) -> dict[int, np.ndarray]:
        """What the watcher has lent and is in use, by its address."""
        return {place: own for own, place in self._lent.values()}

    def answer(self, kind: int, number: int, words: int) -> None:
        """Do what code asks for; an exception ends the run."""
        try:
            match kind:
                case HookCall.MEMORY:
                    self._lend(number, words)
                case HookCall.HOST:
                    self._call_host(number, words)
                case HookCall.KERNEL:
                    assert self._watcher is not None and self._kernels is not None
                    if self._deadline is not None:
                        self._deadline.check()
                    self._watcher.call_kernel(self._kernels.read(number, words, self._watcher, self._deadline))
                case HookCall.RELEASE:
                    self.held.pop(number, None)
                    self._lent.pop(number, None)
                case HookCall.DEMAND:
                    memory.demand(number, "a tensor of the run")
        except BaseException as error:
            self.error = self.error or error
            raise

    def _lend(self, nbytes: int, address: int) -> None:
        assert self._watcher is not None
        self._last += 1
        self._lent[self._last] = lent = self._watcher.lend(nbytes)
        words = (ctypes.c_int64 * 2).from_address(address)
        words[0], words[1] = self._last, lent[1]

    def _call_host(self, number: int, words: int) -> None:
        make = partial(self._hosts[number], self, words)
        if self._watcher is None:
            make()
        else:
            self._watcher.call_host(number, self._calls[number], make)
