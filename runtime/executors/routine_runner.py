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
from struct import Struct
from typing import Any, Literal, NamedTuple

import numpy as np

from ...core.arena import ALIGNMENT
from ...core.errors import InputError
from ...core.frame import FrameLayout
from ...core.model import OBJECTS, numpy_dtype
from ...core.program import Program, RegisterType, Step
from ..process import memory
from ..process.deadline import Deadline
from ..process.ffi import tvm_ffi
from ..process.link import Library
from ..steps.host_calls import HostCall, bind_host_call
from ..tensors.pool import MemoryPool, block_bytes
from ..tensors.state_memory import StateMemory, free
from ..tensors.tensor import address_of
from .packed import create_main
from .watching import KernelCalls, Watcher

_BYTE = np.dtype(np.uint8)
_LITTLE = 4096
_WORD = 8  # bytes of a word of a frame
_POOLED = 1 << 16  # bytes of an output from which on its memory comes from a pool


# Memory for an output: an array, the address that is so many bytes behind its begin, these, and how many there are.
# A plain tuple, since each run makes one.
_Offer = tuple[np.ndarray | None, int, int, int]
_NO_OFFER: _Offer = (None, 0, 0, 0)


class _OutputWords(NamedTuple):
    """The words of a frame that have an output: its address at ``place``, its extents in [first, end).

    Of one whose rank only the run knows the end is before the first.
    """

    place: int
    first: int
    end: int
    dtype: np.dtype | None
    itemsize: int


def _make_writer(place: int, kind: RegisterType) -> tuple[Callable[..., None], int]:
    """What writes an input's address and extents into a frame, and at which byte."""
    return Struct(f"={1 + len(kind[1] or ())}q").pack_into, place * _WORD


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
        self._layout = FrameLayout.of(program)
        self._dtypes = [None if info.dtype in OBJECTS else numpy_dtype(info.dtype) for info in program.outputs]
        self._calls = routine.calls
        self._hosts = {i: bind_host_call(step) for i, step in enumerate(self._calls) if step.op == "host.call"}
        self._outputs = [
            _OutputWords(
                place,
                place + 2,
                place if shape is None else place + 2 + len(shape),
                dtype,
                dtype.itemsize if dtype else 0,
            )
            for place, dtype, (_, shape) in zip(self._layout.outputs, self._dtypes, self._layout.types, strict=True)
        ]
        self._rooms = [0] * len(program.outputs)  # bytes that outputs of the last run had
        self._pool = MemoryPool()
        places = zip(self._layout.inputs, program.inputs, strict=True)
        self._objects = frozenset(place for place, info in places if info.dtype in OBJECTS)
        self._simple = not self._objects and not program.states
        self._inputs = [_make_writer(*each) for each in zip(self._layout.inputs, routine.types, strict=False)]
        self._make_watcher, self._asks = make_watcher, bool(self._hosts or self._objects or make_watcher)
        self._kernels = KernelCalls(library, routine, threads) if make_watcher else None
        self._demand = tvm_ffi.convert(_demand_memory)
        self._frame = (
            array("q", [0]) * self._layout.words
        )  # before it is filled in: to copy it is the fastest way to one
        self._frame[0], self._frame[1] = self._demand.__chandle__(), int(make_watcher is not None)

    def run(self, inputs: Sequence[Any], deadline: Deadline | None = None) -> list[Any]:
        """See ``Runner``. An input that is a state that grows is a ``StateMemory``, which is also given as the output.

        It has the new shape when the run has succeeded. After a run that fails its elements are those of before. One
        that is written over is lost where a run fails after that.
        """
        state, frame = None, self._frame[:]
        if self._asks:
            state = self._new_state(deadline)
            hook = tvm_ffi.convert(state.answer)
            frame[0] = hook.__chandle__()
        if deadline is not None:
            frame[2] = time.monotonic_ns() + int(deadline.check() * 1_000_000_000)
        if self._simple:  # asking for the kind of each takes a third of a small run's time
            for number, value in enumerate(inputs):
                put, place = self._inputs[number]
                put(frame, place, address_of(value), *value.shape)
        else:
            self._put_inputs(frame, inputs, state)
        offers = []
        for place, nbytes in zip(self._layout.outputs, self._rooms, strict=True):
            if nbytes:
                offers.append(offer := self._offer(nbytes))
                frame[place], frame[place + 1] = offer[1], nbytes
            else:
                offers.append(_NO_OFFER)
        try:
            self._main(frame.buffer_info()[0])
        except BaseException as error:
            self._take_states(frame, inputs)
            for written in self._layout.written:
                inputs[written.input].lost = bool(frame[self._layout.mark])
            self._explain_failure(error, frame, offers, state, deadline)
            raise
        if not self._layout.grown and not self._layout.written:
            return [self._output(number, frame, offer, state) for number, offer in enumerate(offers)]
        kept = self._take_states(frame, inputs)
        for number, grown in kept.items():
            place = self._layout.outputs[number] + 2
            grown.shape = tuple(frame[place : place + len(grown.shape)])
        kept |= {state.output: inputs[state.input] for state in self._layout.written}
        return [
            kept[number] if number in kept else self._output(number, frame, offer, state)
            for number, offer in enumerate(offers)
        ]

    def _put_inputs(self, frame: array, inputs: Sequence[Any], state: _State | None) -> None:
        """Leave the addresses and the extents of inputs in a frame, and the memory of states that grow."""
        for place, value in zip(self._layout.inputs, inputs, strict=True):
            if type(value) is StateMemory:
                frame[place], shape = value.address, value.shape
            elif state is not None and place in self._objects:
                frame[place], shape = state.hold(value), ()
            else:
                frame[place], shape = address_of(value), value.shape
            for extent in shape:
                place += 1
                frame[place] = extent
        for place, grown in zip(self._layout.states, self._layout.grown, strict=True):
            frame[place], frame[place + 1] = inputs[grown.input].nbytes, inputs[grown.input].fixed

    def _take_states(self, frame: array, inputs: Sequence[Any]) -> dict[int, StateMemory]:
        """Let states that grow own the memory that they lie in now; returns them by the numbers of their outputs."""
        kept: dict[int, StateMemory] = {}
        for place, grown in zip(self._layout.states, self._layout.grown, strict=True):
            kept[grown.output] = inputs[grown.input]
            kept[grown.output].take(frame[self._layout.inputs[grown.input]], frame[place])
        return kept

    def _new_state(self, deadline: Deadline | None) -> _State:
        watcher = self._make_watcher() if self._make_watcher else None
        return _State(self._calls, self._hosts, watcher, self._kernels, deadline)

    def _offer(self, nbytes: int) -> _Offer:
        """Memory for an output of so many bytes: of the pool, if the system would give it page by page each time."""
        if nbytes >= _POOLED:
            own, address = self._pool.lend((nbytes,), _BYTE)
            return own, address, 0, nbytes
        own = np.empty(nbytes + ALIGNMENT, _BYTE)
        address = address_of(own)
        skip = -address % ALIGNMENT
        return own, address + skip, skip, nbytes

    def _output(self, number: int, frame: array, offer: _Offer, state: _State | None) -> Any:
        place, first, end, dtype, itemsize = self._outputs[number]
        if dtype is None or first > end:
            assert state is not None
            value = state.held[frame[place]]
            return value if dtype is None else value.view(dtype)
        address, extents = frame[place], frame[first:end].tolist()
        nbytes = itemsize * math.prod(extents)
        if nbytes == 0:
            return np.empty(extents, dtype)
        own, offered, skip, room = offer
        if address == offered:
            made = np.ndarray(extents, dtype, own, skip)
            if room > 2 * nbytes + _LITTLE:  # who keeps it should not keep a block of another size
                made = made.copy()
                self._rooms[number] = block_bytes(nbytes)
            return made
        lent = state.lent if state is not None and self._make_watcher else {}
        own = lent.get(address)
        if own is None:
            own = _adopt(address, nbytes)
            self._rooms[number] = block_bytes(nbytes)
        return np.ndarray(extents, dtype, own)

    def _explain_failure(
        self,
        error: BaseException,
        frame: array,
        offers: Sequence[_Offer],
        state: _State | None,
        deadline: Deadline | None,
    ) -> None:
        """Free what a run has made for outputs before it failed, and raise what has made it fail."""
        lent = state.lent if state is not None else {}
        for place, dtype, (_, offered, *_) in zip(self._layout.outputs, self._dtypes, offers, strict=True):
            if dtype is not None and frame[place] not in (0, offered) and frame[place] not in lent:
                free(frame[place])
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
