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
from ...core.states import State
from ..process import memory
from ..process.deadline import Deadline
from ..process.ffi import tvm_ffi
from ..process.link import Library
from ..steps.host_calls import HostCall, bind_host_call
from ..tensors.pool import Block, MemoryPool, block_bytes
from ..tensors.state_memory import free
from ..tensors.tensor import address_of, is_exported
from .packed import create_main
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


class _GrownWords(NamedTuple):
    """The numbers of a state that grows, as an input and an output, and its words in a frame.

    They are its address at ``place``, the bytes of its memory at ``room``, and its next extents in [first, end).
    """

    input: int
    output: int
    place: int
    room: int
    first: int
    end: int

    @staticmethod
    def of(state: State, layout: FrameLayout, room: int) -> _GrownWords:
        """Those of a state whose memory is described from the word ``room`` on."""
        first = layout.outputs[state.output] + 2
        end = first + len(layout.types[state.output][1] or ())
        return _GrownWords(state.input, state.output, layout.inputs[state.input], room, first, end)


class _Guess(NamedTuple):
    """What a run is taken to make: outputs as those of the run before.

    ``frame`` is a frame with their extents, and with the bytes of the memory that they are offered; of each output
    the word that has its address, its shape and dtype, and the size of the memory, 0 for none.
    """

    frame: array
    outputs: tuple[tuple[int, tuple[int, ...], np.dtype, int], ...]


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
        places = enumerate(zip(layout.inputs, program.inputs, strict=True))
        self._objects = [(number, place) for number, (place, info) in places if info.dtype in OBJECTS]
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
        self._grown = [
            _GrownWords.of(state, layout, room) for room, state in zip(layout.states, layout.grown, strict=True)
        ]
        self._states = [
            (number, layout.inputs[number], layout.inputs[number] + 1 + len(routine.types[number][1] or ()))
            for number in [state.input for state in (*layout.grown, *layout.written)]
        ]
        self._held = sorted(set(range(len(self._outputs))) - kept - set(self._guessed))
        self._arrays_alone = not self._objects and not self._states
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
        template, guessed = guess = self._guess  # one object, which other threads may replace
        state, frame = None, template[:]
        if self._asks:
            state = self._new_state(deadline)
            hook = tvm_ffi.convert(state.answer)
            frame[0] = hook.__chandle__()
        if deadline is not None:
            frame[2] = time.monotonic_ns() + int(deadline.check() * 1_000_000_000)
        arrays = inputs if self._arrays_alone else self._put_held(frame, inputs, state)
        made, blocks = [], []
        for place, shape, dtype, size in guessed:
            own, frame[place], skip = block = self._pool.take(size) if size else _NO_BLOCK
            made.append(np.ndarray(shape, dtype, own, skip) if size else np.empty(shape, dtype))
            blocks.append(block)
        try:
            if self._exported:
                try:
                    as_guessed = self._main(frame.buffer_info()[0], *arrays)
                except BufferError:  # of an array that numpy does not export: a read-only one
                    if state is not None and state.error is not None:
                        raise
                    as_guessed = self._run_put(frame, arrays)
            else:
                as_guessed = self._run_put(frame, arrays)
        except BaseException as error:
            self._take_states(frame, inputs)
            for written in self._layout.written:
                inputs[written.input].lost = bool(frame[self._layout.mark])
            self._explain_failure(error, frame, blocks, state, deadline)
            raise
        if as_guessed and self._guesses_alone:
            return made
        if not as_guessed or self._make_watcher is not None:
            made = self._read_outputs(frame, guess, made, blocks, state)
        return self._collect(frame, inputs, made, state)

    def _run_put(self, frame: array, arrays: Sequence[np.ndarray | None]) -> int:
        """Run on arrays whose addresses and extents are put into the frame here."""
        for place, value in zip(self._layout.inputs, arrays, strict=True):
            if value is not None:
                frame[place : place + 1 + value.ndim] = array("q", (address_of(value), *value.shape))
        return self._main(frame.buffer_info()[0])

    def _put_held(self, frame: array, inputs: Sequence[Any], state: _State | None) -> list[Any]:
        """Leave in a frame what the host holds, and the memory of states; the other inputs are arrays."""
        arrays: list[Any] = list(inputs)
        if state is not None:
            for number, place in self._objects:
                frame[place] = state.hold(inputs[number])
                arrays[number] = None
        for number, place, end in self._states:
            frame[place:end] = inputs[number].words
            arrays[number] = None
        for number, _, _, room, _, _ in self._grown:
            frame[room : room + 2] = inputs[number].room
        return arrays

    def _take_states(self, frame: array, inputs: Sequence[Any]) -> None:
        """Let states that grow own the memory that they lie in now."""
        for number, _, place, room, _, _ in self._grown:
            memory, address = inputs[number], frame[place]
            if address != memory.words[0]:
                memory.take(address, frame[room])

    def _new_state(self, deadline: Deadline | None) -> _State:
        watcher = self._make_watcher() if self._make_watcher else None
        return _State(self._calls, self._hosts, watcher, self._kernels, deadline)

    def _collect(
        self, frame: array, inputs: Sequence[Any], made: Sequence[np.ndarray], state: _State | None
    ) -> list[Any]:
        """All outputs of a run, those that are states or the host's besides the arrays that it has made."""
        outputs: list[Any] = [None] * len(self._outputs)
        self._take_states(frame, inputs)
        for number, output, _, _, first, end in self._grown:
            outputs[output] = memory = inputs[number]
            memory.words[1:] = frame[first:end]
        for written in self._layout.written:
            outputs[written.output] = inputs[written.input]
        for number, value in zip(self._guessed, made, strict=True):
            outputs[number] = value
        for number in self._held:
            assert state is not None
            place, _, _, dtype = self._outputs[number]
            value = state.held[frame[place]]
            outputs[number] = value if dtype is None else value.view(dtype)
        return outputs

    def _read_outputs(
        self, frame: array, guess: _Guess, made: Sequence[np.ndarray], blocks: Sequence[Block], state: _State | None
    ) -> list[np.ndarray]:
        """The arrays that a run has made, which are others than they were taken to be, as the next run's will be."""
        outputs, found = [], []
        for (place, shape, dtype, size), value, block in zip(guess.outputs, made, blocks, strict=True):
            extents = tuple(frame[place + 2 : place + 2 + len(shape)])
            if extents != shape or frame[place] != block[1]:
                value, size = self._read_output(frame[place], extents, dtype, block, size, state)
            outputs.append(value)
            found.append((extents, size))
        self._guess = self._make_guess(guess.frame[:], found)
        return outputs

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
