"""The actions of single steps of a routine on registers.

Tensors are numpy arrays of the kernels' element types, sizes are Python's numbers. Views and sizes read and change
only the shape of a tensor, so they also work on tensors without data (``recording.Shaped``).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from ...core.custom_ops import is_operator
from ...core.errors import InputError
from ...core.model import OBJECTS, align_data, numpy_dtype
from ...core.program import REPORT, Step
from .arithmetic import SCALARS
from .custom import operator_function
from .host import FUNCTIONS

Registers = list[Any]
Action = Callable[[Registers], None]
DEADLINE = -1  # the register behind all others has the run's deadline, or None


def make_action(step: Step) -> Action:
    """The action of a step that calls no kernel and has no regions; InputError for one that is not known."""
    return ACTIONS[step.op](step) if step.op in ACTIONS else _make_scalar(step)


def describe_origin(step: Step) -> str:
    """How an error names what a step belongs to."""
    return f"node '{step.nodes[0]}' " if step.nodes else "the program "


def _make_collapse(step: Step) -> Action:
    [source], [result], groups = step.operands, step.results, step.facts["groups"]

    def collapse(registers: Registers) -> None:
        array = registers[source]
        registers[result] = array.reshape([math.prod(array.shape[axis] for axis in group) for group in groups])

    return collapse


def _make_expand(step: Step) -> Action:
    (source, *sizes), [result], shape = step.operands, step.results, step.facts["shape"]

    def expand(registers: Registers) -> None:
        array, given = registers[source], iter([registers[r] for r in sizes])
        wanted = [next(given) if n is None else n for n in shape]
        if math.prod(wanted) != array.size or any(n < 0 for n in wanted):
            raise InputError(f"{describe_origin(step)}cannot make shape {wanted} of {array.size} elements")
        registers[result] = array.reshape(wanted)

    return expand


def _make_cast(step: Step) -> Action:
    [source], [result], shape = step.operands, step.results, step.facts["shape"]

    def cast(registers: Registers) -> None:
        array = registers[source]
        if any(wanted is not None and wanted != n for wanted, n in zip(shape, array.shape, strict=True)):
            known = ["any" if n is None else n for n in shape]
            raise InputError(
                f"{describe_origin(step)}has a tensor of shape {list(array.shape)} where {known} is needed"
            )
        registers[result] = array

    return cast


def _make_slice(step: Step) -> Action:
    (source, *given), [result], kept = step.operands, step.results, step.facts["kept"]
    parts = [step.facts[name] for name in ("offsets", "sizes", "strides")]

    def take(registers: Registers) -> None:
        left = iter([registers[r] for r in given])
        offsets, sizes, strides = ([next(left) if n is None else n for n in numbers] for numbers in parts)
        array = registers[source]
        for axis, (offset, size, stride) in enumerate(zip(offsets, sizes, strides, strict=True)):
            if size < 0 or (size and not 0 <= offset <= offset + (size - 1) * stride < array.shape[axis]):
                raise InputError(f"{describe_origin(step)}takes {size} elements from {offset} of {array.shape[axis]}")
        places = [slice(o, o + n * by, by) for o, n, by in zip(offsets, sizes, strides, strict=True)]
        registers[result] = array[tuple(places)].reshape([sizes[axis] for axis in kept])

    return take


def _make_select(step: Step) -> Action:
    (first, second, condition), [result] = step.operands, step.results

    def select(registers: Registers) -> None:
        registers[result] = registers[first if registers[condition] else second]

    return select


def _make_dim(step: Step) -> Action:
    (source, axis), [result] = step.operands, step.results

    def dim(registers: Registers) -> None:
        registers[result] = registers[source].shape[registers[axis]]

    return dim


def _make_extract(step: Step) -> Action:
    (source, *at), [result] = step.operands, step.results

    def extract(registers: Registers) -> None:
        registers[result] = registers[source][tuple(registers[r] for r in at)].item()

    return extract


def _make_check(step: Step) -> Action:
    condition, *compared = step.operands

    def check(registers: Registers) -> None:
        if not registers[condition]:
            numbers = " and ".join(str(registers[r]) for r in compared)
            raise InputError(f"{describe_origin(step)}{step.facts['text']}" + (f" ({numbers})" if numbers else ""))

    return check


def _make_status_report(step: Step) -> Action:
    [status] = step.operands

    def report(registers: Registers) -> None:
        if word := registers[status].item():
            raise InputError(f"{describe_origin(step)}{step.facts['text']}: {word}")

    return report


def _make_host_call(step: Step) -> Action:
    name, attributes = step.facts["function"], step.facts["attributes"]
    function = operator_function(name, describe_origin(step)) if is_operator(name) else FUNCTIONS.get(name)
    if function is None:
        raise InputError(f"{describe_origin(step)}needs the function '{name}', which this runtime lacks")
    taken, given = step.facts["dtypes"]

    def call(registers: Registers) -> None:
        arguments = [_as_dtype(registers[r], dtype) for r, dtype in zip(step.operands, taken, strict=True)]
        try:
            made = function(attributes, *arguments)
        except InputError as error:
            raise InputError(f"{describe_origin(step)}cannot be computed: {error}") from error
        for register, value, dtype in zip(step.results, made, given, strict=True):
            registers[register] = value if dtype in OBJECTS else _check_dtype(value, dtype, step)

    return call


def _as_dtype(value: Any, dtype: str) -> Any:
    """A value as functions of the host take it: a tensor in the model's dtype."""
    return value if dtype in OBJECTS else value.view(numpy_dtype(dtype))


def _check_dtype(value: Any, dtype: str, step: Step) -> np.ndarray:
    """A tensor that the host made, or held; sequences of users may hold anything."""
    array = np.asarray(value)
    if array.dtype != numpy_dtype(dtype):
        raise InputError(f"{describe_origin(step)}has a tensor of {array.dtype} where {dtype} is needed")
    return align_data(array)


def _make_constant(step: Step) -> Action:
    [result], value = step.results, step.facts["value"]

    def constant(registers: Registers) -> None:
        registers[result] = value

    return constant


VIEWS = ("tensor.collapse_shape", "tensor.expand_shape", "tensor.cast")
ACTIONS: Mapping[str, Callable[[Step], Action]] = {
    "tensor.collapse_shape": _make_collapse,
    "tensor.expand_shape": _make_expand,
    "tensor.cast": _make_cast,
    "tensor.extract_slice": _make_slice,
    "tensor.select": _make_select,
    "tensor.dim": _make_dim,
    "tensor.extract": _make_extract,
    "cf.assert": _make_check,
    REPORT: _make_status_report,
    "host.call": _make_host_call,
    "arith.constant": _make_constant,
}


def _make_scalar(step: Step) -> Action:
    """Arithmetic on scalars."""
    if step.op not in SCALARS:
        raise InputError(f"{describe_origin(step)}needs '{step.op}', which this version of the runtime does not know")
    function, operands, [result] = SCALARS[step.op](step.facts), step.operands, step.results

    def scalar(registers: Registers) -> None:
        registers[result] = function(*(registers[r] for r in operands))

    return scalar
