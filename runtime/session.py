"""``Session``: the states of a program between its runs, such as the keys and values that a decoder has seen."""

from __future__ import annotations

import copy
import math
import os
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import numpy as np

from ..core.errors import InputError
from ..core.model import OBJECTS, TensorInfo, numpy_dtype
from ..core.sizes import Sym, bounds_of
from ..core.states import State
from .artifact.state_file import read_states, write_states
from .outputs import Outputs
from .tensors import tensor
from .tensors.state_memory import HeldInputs, StateMemory

if TYPE_CHECKING:
    from .artifact.manifest import Manifest

Execute = Callable[[list[Any], "float | None"], list[Any]]
_Value = StateMemory | np.ndarray
_SHAPE = attrgetter("shape")
_BUSY = "the session is running: make one session for each thread, or fork it"
_KEPT_SHAPES = 64  # of inputs that were found right


class Session:
    """Runs a program on its other inputs, and keeps its states: outputs that are inputs of the next run.

    ``module.session()`` makes one. A session runs one call at a time; several ones of a module may run at once.
    A state that a model appends to, or writes elements of, is written where it lies: a run takes no time for what is
    there. Others are the arrays that the last run has given. A run that fails leaves the states as they were; where it
    writes over elements, the session has to be reset.

    States have the shapes that the model's inputs have, and are found by the names of these.
    """

    def __init__(
        self,
        manifest: Manifest,
        execute: Execute,
        capacity: int | None = None,
        sizes: Mapping[str, int] | None = None,
        initial: Mapping[str, Any] | None = None,
    ) -> None:
        own = manifest.session or manifest
        self._manifest, self._execute = manifest, execute
        self._states = manifest.states
        self._grown = {state.input for state in self._states if manifest.session and state.axis is not None}
        self._first_grown = next((state.input for state in self._states if state.input in self._grown), None)
        self._infos = own.inputs
        held = {state.input for state in self._states}
        self._given = [number for number in range(len(own.inputs)) if number not in held]
        self._asked = tuple(own.inputs[number] for number in self._given)
        self._asked_infos = {info.name: info for info in self._asked}
        self._held_names = frozenset(self._infos[number].name for number in held)
        self._all_grow = held == self._grown
        left = {state.output for state in self._states}
        self._made = [number for number in range(len(own.outputs)) if number not in left]
        self._names = tuple(own.outputs[number].name for number in self._made)
        self._written = frozenset(state.input for state in own.frame.written) if manifest.session else frozenset()
        self._lock = threading.Lock()
        self._holding = _Holding(self._lock)
        self._capacity, self._sizes = _check_capacity(capacity), _check_sizes(sizes, self._infos)
        self._shared = tuple(dict.fromkeys(_list_symbols(self._asked)))
        self._places = _place_symbols(own.inputs, sorted(held), self._shared)
        self._check = lru_cache(_KEPT_SHAPES)(self._check_given)
        self._checked: tuple[Any, ...] | None = None  # the shapes and sizes of the last run
        self._all_tensors = not any(info.dtype in OBJECTS for info in self._asked)
        self._replaced = sorted(held - self._grown - self._written)
        self._replacing = [state for state in self._states if state.input in self._replaced]
        self._values: dict[int, _Value] = {}
        self._held_inputs, self._held_values = HeldInputs(()), self._values  # made of these
        self._initial = {self._find(name).input: value for name, value in (initial or {}).items()}

    @property
    def inputs(self) -> tuple[TensorInfo, ...]:
        """The inputs that a run takes: those of the model that are no states."""
        return self._asked

    @property
    def states(self) -> tuple[TensorInfo, ...]:
        """The states, as the model's inputs are described."""
        return tuple(self._manifest.inputs[state.input] for state in self._states)

    @property
    def length(self) -> int:
        """How many elements the first state that grows has along the axis on which it does; 0 where none grows."""
        return self._values[self._first_grown].shape[0] if self._values and self._first_grown is not None else 0

    def run(self, inputs: Mapping[str, Any] | Sequence[Any], timeout: float | None = None) -> Outputs:
        """Run on arrays by name, or on a list of them in the order of ``inputs``; returns the outputs but for states.

        Raises as ``Module.run`` does, and InputError where a state with a ``capacity`` would need more.
        """
        if not self._lock.acquire(blocking=False):  # as few calls as may be: after a run none of this is in a cache
            raise InputError(_BUSY)
        try:
            if self._written:
                self._demand_states()
            arrays = self._order(inputs)
            before = self._values
            try:
                made = self._step(arrays, timeout)
            except BaseException:
                self._values = before
                raise
            for state in self._replacing:
                self._values[state.input] = self._held_inputs[state.input] = made[state.output]
            outputs = Outputs([made[number] for number in self._made])
            outputs.names = self._names
            return outputs
        finally:
            self._lock.release()

    def _step(self, arrays: Sequence[np.ndarray], timeout: float | None) -> list[Any]:
        """All outputs for inputs and the states, which begin in the first run."""
        shapes = tuple(map(_SHAPE, arrays) if self._all_tensors else map(tensor.given_shape_of, arrays, self._asked))
        known = shapes, self._find_sizes()
        if known != self._checked or not self._values:
            found = self._check(*known)
            if not self._values:
                self._values = {state.input: self._begin(state, found) for state in self._states}
                self._check(shapes, self._find_sizes())
            self._checked = known
        inputs = self._held_inputs
        if self._held_values is not self._values:
            inputs = self._held_inputs = HeldInputs(map(self._values.get, range(len(self._infos))))
            self._held_values = self._values
        for number, array in zip(self._given, arrays, strict=True):
            inputs[number] = array
        try:
            return self._execute(inputs, timeout)
        finally:
            for number in self._given:
                inputs[number] = None

    def _check_given(self, shapes: Sequence[tuple[int, ...]], sizes: Sequence[int | None]) -> Mapping[Sym, int]:
        """Sizes by symbols: those of inputs of these shapes, which have to fit the states' of ``_find_sizes``."""
        known = {symbol: size for symbol, size in zip(self._shared, sizes, strict=True) if size is not None}
        return tensor.check_shapes(shapes, self._asked, self._sizes | known)

    def __call__(self, *inputs: Any) -> Outputs:
        """Run on arrays by position."""
        return self.run(inputs)

    def reset(self) -> None:
        """Begin anew: with the initial states, or else empty ones of those that grow, and zeros as others."""
        with self._hold():
            self._values = {}

    def fork(self) -> Session:
        """A session of its own that goes on from the same states, for a search that tries several ways."""
        with self._hold():
            self._demand_states()
            made = copy.copy(self)  # what is derived from the manifest takes a millisecond for a large program
            made._lock = threading.Lock()
            made._holding = _Holding(made._lock)
            made._values = {number: value.copy() for number, value in self._values.items()}
            return made

    def truncate(self, length: int) -> None:
        """Forget what was appended behind the first ``length`` elements; InputError where there are fewer."""
        with self._hold():
            if not self._all_grow:
                raise InputError("a session can be truncated if all of its states grow: fork it before, or reset it")
            longest = self.length
            if not 0 <= length <= longest:
                raise InputError(f"the session has {longest} elements, and cannot be truncated to {length}")
            for value in cast("Iterable[StateMemory]", self._values.values()):
                value.words[1] = length

    def __getitem__(self, name: str) -> np.ndarray:
        """A copy of the state of this name; InputError where there is none, or no run has begun."""
        state = self._find(name)
        with self._hold():
            self._demand_states()
            if not self._values:
                raise InputError(f"the session has not begun: state '{name}' has no value yet")
            return self._copy(state)

    def __setitem__(self, name: str, value: Any) -> None:
        """Set the state of this name; InputError for an array that cannot be its value."""
        self.load_states({name: value})

    def load_states(self, values: Mapping[str, Any]) -> None:
        """Set states by their names, all of them before the first run; InputError for what cannot be their values."""
        with self._hold():
            states = {self._find(name).input: value for name, value in values.items()}
            kept = {} if any(map(self._is_lost, self._values)) else dict(self._values)
            if not kept and len(states) < len(self._states):
                missing = [info.name for info in self.states if info.name not in values]
                raise InputError(f"the session has not begun: state '{missing[0]}' has no value: give all states")
            for state in self._states:
                if state.input in states:
                    kept[state.input] = self._read(state, states[state.input])
            before, self._values = self._values, kept
            try:
                self._find_sizes()
            except InputError:
                self._values = before
                raise

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write the states to a safetensors file, under their names; returns its path.

        InputError before the first run, ArtifactError where the file cannot be written.
        """
        with self._hold():
            self._demand_states()
            if not self._values:
                raise InputError("the session has not begun: there are no states to save")
            kept = {self._infos[state.input].name: self._copy(state) for state in self._states}
        return write_states(path, kept, self._manifest.source)

    def load(self, path: str | os.PathLike[str]) -> None:
        """Go on from states that ``save`` wrote. InputError for a file that has not those of this model."""
        dtypes = {info.name: numpy_dtype(info.dtype) for info in self.states}
        self.load_states(read_states(path, dtypes, self._manifest.source))

    # Values

    def _demand_states(self) -> None:
        """InputError where the last run has failed when it had written over a state."""
        for number in filter(self._is_lost, self._written.intersection(self._values)):
            name = self._infos[number].name
            raise InputError(f"the last run failed, and state '{name}' may be written in part: reset the session")

    def _is_lost(self, number: int) -> bool:
        value = self._values[number]
        return isinstance(value, StateMemory) and value.lost

    def _hold(self) -> _Holding:
        return self._holding

    def _order(self, inputs: Any) -> list[np.ndarray]:
        """The inputs that are no states, in the model's order."""
        try:
            return tensor.order_inputs(inputs, self._asked_infos, "session")
        except InputError:
            if not isinstance(inputs, Mapping) or self._held_names.isdisjoint(inputs):
                raise
            name = next(state.name for state in self.states if state.name in inputs)
            raise InputError(f"'{name}' is a state, which the session keeps: set session['{name}']") from None

    def _find_sizes(self) -> tuple[int | None, ...]:
        """The sizes that the states give the symbols of inputs; None for those that they lack.

        InputError where two states differ, or have a size that the program does not take.
        """
        found: list[int | None] = [None] * len(self._shared)
        values = self._values
        for symbol in self._places if values else ():
            sizes = [
                value.words[1 + axis] if type(value := values[number]) is StateMemory else value.shape[axis]
                for number, axis in symbol.places
            ]
            size = sizes[0]
            if sizes.count(size) != len(sizes) or not symbol.low <= size <= symbol.high:
                self._refuse_sizes(symbol, sizes)
            if symbol.shared is not None:
                found[symbol.shared] = size
        for number in self._replaced if values else ():  # which may be what an output of any size was
            info, shape = self._infos[number], values[number].shape
            if any(isinstance(wanted, int) and n != wanted for n, wanted in zip(shape, info.shape, strict=True)):
                raise InputError(f"state '{info.name}' must have shape {info.shape}, got {shape}: reset the session")
        return tuple(found)

    def _refuse_sizes(self, placed: _Placed, sizes: Sequence[int]) -> None:
        """InputError for sizes of one symbol: two differ, or it may not have the one."""
        symbol, size, name = placed.symbol, sizes[0], self._infos[placed.places[0][0]].name
        for (number, _), other in zip(placed.places, sizes, strict=True):
            if other != size:
                both = f"'{name}' and '{self._infos[number].name}' have {size} and {other}"
                raise InputError(f"states {both} as '{symbol}': reset the session")
        raise InputError(f"state '{name}' has {size} as '{symbol}', which must be {bounds_of(symbol)}")

    def _begin(self, state: State, sizes: Mapping[Sym, int]) -> _Value:
        """The state with which a session begins."""
        info, grows = self._infos[state.input], state.input in self._grown
        if state.input in self._initial:
            return self._read(state, self._initial[state.input])
        shape = [0] if grows else []
        for extent in info.shape[len(shape) :]:
            size = sizes.get(extent) if isinstance(extent, Sym) else extent
            if size is None:
                raise InputError(
                    f"state '{info.name}' has an open size '{extent}', which no input of the run tells: give "
                    f"session(sizes={{'{extent}': ...}}), or set the states"
                )
            shape.append(size)
        dtype = numpy_dtype(info.dtype)
        if not grows:
            return self._hold_array(state, np.zeros(shape, dtype))
        return self._make_memory(tuple(shape), dtype)

    def _read(self, state: State, value: Any) -> _Value:
        """A value of a user's as the state; InputError where it cannot be that."""
        info = self._manifest.inputs[state.input]
        array = tensor.as_array(value, info)
        tensor.check_shapes([array.shape], [info])
        if state.input not in self._grown or state.axis is None:
            return self._hold_array(state, array)
        turned = np.moveaxis(array, state.axis, 0)
        if self._capacity is not None and turned.shape[0] > self._capacity:
            raise InputError(
                f"state '{info.name}' has {turned.shape[0]} elements, its session room for {self._capacity}"
            )
        made = self._make_memory(turned.shape, array.dtype)
        made.look()[...] = turned
        return made

    def _make_memory(self, shape: tuple[int, ...], dtype: np.dtype) -> StateMemory:
        """Memory for a state that grows: of its capacity, or as large as it is."""
        rows = max(shape[0], self._capacity or 0)
        room = rows * math.prod(shape[1:]) * dtype.itemsize
        return StateMemory(shape, dtype, room, self._capacity is not None)

    def _hold_array(self, state: State, array: np.ndarray) -> _Value:
        """A copy of an array as a state that does not grow."""
        if state.input not in self._written:
            return array.copy()
        made = StateMemory(array.shape, array.dtype, max(array.nbytes, 1), fixed=True)
        made.look()[...] = array
        return made

    def _copy(self, state: State) -> np.ndarray:
        value = self._values[state.input]
        if not isinstance(value, StateMemory):
            return value.copy()
        if state.input in self._written:
            return value.look().copy()
        return np.moveaxis(value.look(), 0, cast("int", state.axis)).copy(order="C")

    def _find(self, name: str) -> State:
        for state in self._states:
            if self._infos[state.input].name == name:
                return state
        known = ", ".join(repr(info.name) for info in self.states)
        raise InputError(f"the session has no state '{name}': its states are {known}")


class _Holding:
    """Keeps a session to one call at a time; InputError for a second one."""

    def __init__(self, lock: threading.Lock) -> None:
        self._lock = lock

    def __enter__(self) -> None:
        if not self._lock.acquire(blocking=False):
            raise InputError(_BUSY)

    def __exit__(self, *_: object) -> None:
        self._lock.release()


class _Placed(NamedTuple):
    """Where the states have a symbol, pairs of an input's number and an axis; and its least and its largest value.

    ``shared`` is its number among the symbols of the other inputs, None where they have it not.
    """

    symbol: Sym
    places: list[tuple[int, int]]
    low: float
    high: float
    shared: int | None


def _place_symbols(infos: Sequence[TensorInfo], numbers: Sequence[int], shared: Sequence[Sym]) -> list[_Placed]:
    """Where the states of these numbers have symbols."""
    found: dict[Sym, list[tuple[int, int]]] = {}
    for number in numbers:
        for axis, extent in enumerate(infos[number].shape):
            if isinstance(extent, Sym):
                found.setdefault(extent, []).append((number, axis))
    made = []
    for symbol, places in found.items():
        within = bounds_of(symbol)
        ends = -math.inf if within.low is None else within.low, math.inf if within.high is None else within.high
        made.append(_Placed(symbol, places, *ends, shared.index(symbol) if symbol in shared else None))
    return made


def _list_symbols(infos: Sequence[TensorInfo]) -> Iterator[Sym]:
    for info in infos:
        yield from (extent for extent in info.shape if isinstance(extent, Sym))


def _check_capacity(capacity: int | None) -> int | None:
    if capacity is not None and (type(capacity) is not int or capacity < 1):
        raise InputError(f"capacity must be a number of elements, at least 1, or None, got {capacity!r}")
    return capacity


def _check_sizes(sizes: Mapping[str, int] | None, infos: Sequence[TensorInfo]) -> dict[Sym, int]:
    known = {str(extent): extent for info in infos for extent in info.shape if isinstance(extent, Sym)}
    found: dict[Sym, int] = {}
    for name, size in (sizes or {}).items():
        if name not in known:
            raise InputError(
                f"there is no size '{name}'; those of the program are {', '.join(map(repr, known)) or 'none'}"
            )
        if type(size) is not int or size < 0:
            raise InputError(f"size '{name}' must be a number that is not negative, got {size!r}")
        found[known[name]] = size
    return found
