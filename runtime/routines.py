"""Carries out routines: programs with sizes, or a course, that only the run knows.

Tensors are numpy arrays of the kernels' element types, sizes are Python's numbers. A routine becomes a list of
functions on the registers once, when a program is loaded; kernels do the work.
"""

from __future__ import annotations

import ctypes
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from ..errors import InputError
from ..model import OBJECTS, numpy_dtype
from ..program import Routine, Step
from . import tensor
from .arithmetic import SCALARS
from .host import FUNCTIONS
from .link import Library
from .manifest import RoutineRecord
from .pool import Pool
from .threads import Team

Registers = list[Any]
Action = Callable[[Registers], None]
Watch = Callable[[Step, Action], Action]

# void kernel(void **args, int64_t lo, int64_t hi, void *scratch); ctypes lets go of the interpreter meanwhile.
_KERNEL = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64, ctypes.c_void_p)
_ELEMENTS = {"i1": "i1", "i8": "i1", "i16": "i2", "i32": "i4", "i64": "i8", "f16": "f2", "bf16": "i2", "f32": "f4"}
_ELEMENTS |= {"f64": "f8", "index": "i8"}


class Routines:
    """Carries out a routine with the kernels that ``library`` exports as ``kernel(index)``, in the record's order.

    ``params`` are the routine's last arguments. ``watch`` gives what is done in place of each step's action. Calls may
    be made from several threads at once.
    """

    def __init__(
        self,
        library: Library,
        record: RoutineRecord,
        params: Sequence[np.ndarray],
        threads: int = 1,
        watch: Watch = lambda _step, action: action,
    ) -> None:
        self._watch = watch
        self._library, self._params = library, list(params)  # they own the code and the weights
        self._routine, kernels = record.routine, record.kernels
        find = library.get_function("kernel")
        self._functions = {kernel.name: _KERNEL(find(i).value) for i, kernel in enumerate(kernels)}
        self._kernels = {kernel.name: kernel for kernel in kernels}
        self._scratch_bytes = max((kernel.scratch_bytes for kernel in kernels), default=0)
        self._team = Team(library.get_function("parallel_for")().value, threads)
        self._count = 1 + max(_registers(self._routine), default=-1)
        self._pool = Pool()
        self._actions = self._bound(self._routine)

    @property
    def pool(self) -> Pool:
        """The memory of all tensors that it makes; those that a caller holds are not used again."""
        return self._pool

    def run(self, inputs: Sequence[np.ndarray]) -> list[np.ndarray]:
        """The routine's results for its inputs, contiguous arrays of any dtype of the right width."""
        registers: Registers = [None] * (self._count + 1)
        registers[-1] = self._scratch(max(self._scratch_bytes, tensor.ALIGNMENT))
        for register, value in zip(self._routine.arguments, (*inputs, *self._params), strict=True):
            registers[register] = _stored(value) if isinstance(value, np.ndarray) else value
        _run(self._actions, registers)
        return [registers[r] for r in self._routine.results]

    def _scratch(self, nbytes: int) -> np.ndarray:
        return self._pool.array((nbytes,), np.dtype(np.uint8))

    def _bound(self, routine: Routine) -> list[Action]:
        actions: list[Action] = []
        for step in routine.steps:
            actions.append(self._watch(step, self._action(step)))
            if step.dead:
                actions.append(partial(_drop, step.dead))
        return actions

    def _action(self, step: Step) -> Action:
        match step.op:
            case "func.call":
                return self._call(step)
            case "scf.if":
                return self._branch(step)
            case "scf.for":
                return self._count_loop(step)
            case "scf.while":
                return self._while_loop(step)
        if step.op in _ACTIONS:
            return _ACTIONS[step.op](step)
        return _scalar(step)

    def _call(self, step: Step) -> Action:
        name, open_axes, types = (step.facts[key] for key in ("kernel", "open", "types"))
        kernel, function, team = self._kernels[name], self._functions[name], self._team
        address = ctypes.cast(function, ctypes.c_void_p).value or 0  # which no function has
        inputs, sizes = step.operands[: len(open_axes)], step.operands[len(open_axes) :]
        open_count = sum(n is None for _, shape in types for n in shape)
        extents = sizes[len(sizes) - open_count :]
        block_type = ctypes.c_int64 * (len(inputs) + len(types) + sum(map(len, open_axes)) + len(sizes))
        makers, pool = [(np.dtype(_element(kind)), shape) for kind, shape in types], self._pool

        def call(registers: Registers) -> None:
            arrays = [registers[r] for r in inputs]
            given = iter([registers[r] for r in extents])
            shapes = [tuple([next(given) if n is None else n for n in shape]) for _, shape in makers]
            made = [_new(pool, dtype, shape, step) for (dtype, _), shape in zip(makers, shapes, strict=True)]
            words = [array.ctypes.data for array in (*arrays, *made)]
            words += [array.shape[axis] for array, axes in zip(arrays, open_axes, strict=True) for axis in axes]
            words += [registers[r] for r in sizes]
            block, scratch, needed = block_type(*words), registers[-1], kernel.scratch_bytes
            at = ctypes.addressof(block)
            if kernel.asks_scratch:
                function(at, 0, -1, scratch.ctypes.data)
                needed = int(scratch[:8].view(np.int64)[0])
            together = kernel.parallel and team.threads > 1 and sum(a.size for a in made) >= kernel.parallel_from
            stride = -(-needed // tensor.ALIGNMENT) * tensor.ALIGNMENT
            if stride * (team.threads if together else 1) > scratch.nbytes:
                scratch = registers[-1] = self._scratch(stride * team.threads)
            if together:
                team.run(address, at, kernel.extent, scratch.ctypes.data, stride, kernel.ahead)
            else:
                function(at, 0, kernel.extent, scratch.ctypes.data)
            for register, array in zip(step.results, made, strict=True):
                registers[register] = array

        return call

    def _branch(self, step: Step) -> Action:
        branches = [(self._bound(region), region) for region in step.regions]

        def branch(registers: Registers) -> None:
            taken = 0 if registers[step.operands[0]] else 1
            if taken < len(branches):
                actions, region = branches[taken]
                _run(actions, registers)
                _move(registers, region.results, step.results)

        return branch

    def _count_loop(self, step: Step) -> Action:
        [region] = step.regions
        actions = self._bound(region)
        (at, *carried), (low, high, by, *initial) = region.arguments, step.operands

        def loop(registers: Registers) -> None:
            _move(registers, initial, carried)
            for index in range(registers[low], registers[high], registers[by]):
                registers[at] = index
                _run(actions, registers)
                _move(registers, region.results, carried)
            _move(registers, carried, step.results)

        return loop

    def _while_loop(self, step: Step) -> Action:
        before, after = step.regions
        test, body = self._bound(before), self._bound(after)
        condition, *passed = before.results

        def loop(registers: Registers) -> None:
            _move(registers, step.operands, before.arguments)
            while True:
                _run(test, registers)
                if not registers[condition]:
                    break
                _move(registers, passed, after.arguments)
                _run(body, registers)
                _move(registers, after.results, before.arguments)
            _move(registers, passed, step.results)

        return loop


def _stored(array: np.ndarray) -> np.ndarray:
    """An array of the model's dtype in the elements that kernels see; text stays as it is."""
    if array.dtype.kind not in "OUSTif":
        return array.view(f"i{array.dtype.itemsize}")
    return array


def _registers(routine: Routine) -> Iterator[int]:
    """All registers that a routine names."""
    yield from (*routine.arguments, *routine.results)
    for step in routine.steps:
        yield from (*step.operands, *step.results)
        for region in step.regions:
            yield from _registers(region)


def _run(actions: Sequence[Action], registers: Registers) -> None:
    for action in actions:
        action(registers)


def _move(registers: Registers, sources: Sequence[int], targets: Sequence[int]) -> None:
    values = [registers[r] for r in sources]
    for register, value in zip(targets, values, strict=True):
        registers[register] = value


def _drop(dead: Sequence[int], registers: Registers) -> None:
    for register in dead:
        registers[register] = None


def _new(pool: Pool, dtype: np.dtype, shape: tuple[int, ...], step: Step) -> np.ndarray:
    """Memory for a tensor; InputError for a shape that cannot be."""
    if any(n < 0 for n in shape):
        raise InputError(f"{_where(step)}would make a tensor of shape {list(shape)}: the inputs' sizes do not fit")
    return pool.array(shape, dtype)


def _where(step: Step) -> str:
    return f"node '{step.nodes[0]}' " if step.nodes else "the program "


def _element(kind: str) -> str:
    """numpy's dtype for an element type; of those that it lacks, integers of the same width."""
    return _ELEMENTS.get(kind, "i1")


def _collapse(step: Step) -> Action:
    [source], [result], groups = step.operands, step.results, step.facts["groups"]

    def collapse(registers: Registers) -> None:
        array = registers[source]
        registers[result] = array.reshape([math.prod(array.shape[axis] for axis in group) for group in groups])

    return collapse


def _expand(step: Step) -> Action:
    (source, *sizes), [result], shape = step.operands, step.results, step.facts["shape"]

    def expand(registers: Registers) -> None:
        array, given = registers[source], iter([registers[r] for r in sizes])
        wanted = [next(given) if n is None else n for n in shape]
        if math.prod(wanted) != array.size or any(n < 0 for n in wanted):
            raise InputError(f"{_where(step)}cannot make shape {wanted} of {array.size} elements")
        registers[result] = array.reshape(wanted)

    return expand


def _cast(step: Step) -> Action:
    [source], [result], shape = step.operands, step.results, step.facts["shape"]

    def cast(registers: Registers) -> None:
        array = registers[source]
        if any(wanted is not None and wanted != n for wanted, n in zip(shape, array.shape, strict=True)):
            known = ["any" if n is None else n for n in shape]
            raise InputError(f"{_where(step)}has a tensor of shape {list(array.shape)} where {known} is needed")
        registers[result] = array

    return cast


def _slice(step: Step) -> Action:
    (source, *given), [result], kept = step.operands, step.results, step.facts["kept"]
    parts = [step.facts[name] for name in ("offsets", "sizes", "strides")]

    def take(registers: Registers) -> None:
        left = iter([registers[r] for r in given])
        offsets, sizes, strides = ([next(left) if n is None else n for n in numbers] for numbers in parts)
        array = registers[source]
        for axis, (offset, size, stride) in enumerate(zip(offsets, sizes, strides, strict=True)):
            if size < 0 or (size and not 0 <= offset <= offset + (size - 1) * stride < array.shape[axis]):
                raise InputError(f"{_where(step)}takes {size} elements from {offset} of {array.shape[axis]}")
        places = [slice(o, o + n * by, by) for o, n, by in zip(offsets, sizes, strides, strict=True)]
        registers[result] = array[tuple(places)].reshape([sizes[axis] for axis in kept])

    return take


def _dim(step: Step) -> Action:
    (source, axis), [result] = step.operands, step.results

    def dim(registers: Registers) -> None:
        registers[result] = registers[source].shape[registers[axis]]

    return dim


def _extract(step: Step) -> Action:
    (source, *at), [result] = step.operands, step.results

    def extract(registers: Registers) -> None:
        registers[result] = registers[source][tuple(registers[r] for r in at)].item()

    return extract


def _check(step: Step) -> Action:
    [condition] = step.operands

    def check(registers: Registers) -> None:
        if not registers[condition]:
            raise InputError(f"{_where(step)}{step.facts['text']}")

    return check


def _host_call(step: Step) -> Action:
    function, attributes = FUNCTIONS.get(step.facts["function"]), step.facts["attributes"]
    if function is None:
        raise InputError(f"{_where(step)}needs the function '{step.facts['function']}', which this runtime lacks")
    taken, given = step.facts["dtypes"]

    def call(registers: Registers) -> None:
        arguments = [_as_dtype(registers[r], dtype) for r, dtype in zip(step.operands, taken, strict=True)]
        try:
            made = function(attributes, *arguments)
        except InputError as error:
            raise InputError(f"{_where(step)}cannot be computed: {error}") from error
        for register, value, dtype in zip(step.results, made, given, strict=True):
            registers[register] = value if dtype in OBJECTS else _checked(value, dtype, step)

    return call


def _as_dtype(value: Any, dtype: str) -> Any:
    """A value as functions of the host take it: a tensor in the model's dtype."""
    return value if dtype in OBJECTS else value.view(numpy_dtype(dtype))


def _checked(value: Any, dtype: str, step: Step) -> np.ndarray:
    """A tensor that the host made, or held; sequences of users may hold anything."""
    array = np.asarray(value)
    if array.dtype != numpy_dtype(dtype):
        raise InputError(f"{_where(step)}has a tensor of {array.dtype} where {dtype} is needed")
    return np.require(array, requirements=("C", "A"))


def _constant(step: Step) -> Action:
    [result], value = step.results, step.facts["value"]

    def constant(registers: Registers) -> None:
        registers[result] = value

    return constant


_ACTIONS: Mapping[str, Callable[[Step], Action]] = {
    "tensor.collapse_shape": _collapse,
    "tensor.expand_shape": _expand,
    "tensor.cast": _cast,
    "tensor.extract_slice": _slice,
    "tensor.dim": _dim,
    "tensor.extract": _extract,
    "cf.assert": _check,
    "host.call": _host_call,
    "arith.constant": _constant,
}


def _scalar(step: Step) -> Action:
    """Arithmetic on scalars."""
    if step.op not in SCALARS:
        raise InputError(f"{_where(step)}needs '{step.op}', which this version of the runtime does not know")
    function, operands, [result] = SCALARS[step.op](step.facts), step.operands, step.results

    def scalar(registers: Registers) -> None:
        registers[result] = function(*(registers[r] for r in operands))

    return scalar
