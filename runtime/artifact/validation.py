"""Checks that a manifest describes a possible program, before the runtime gives kernels memory.

The text comes from a file. Its seal detects damage, but anyone can make a seal. What kernels do with memory of the
size in their signatures is up to the code.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ...core.frame import element_bytes
from ...core.model import OBJECTS, TensorInfo, numpy_dtype
from ...core.program import APPEND, COLLECT, Call, Kernel, Routine, Slot, Step, collect_types
from ...core.sizes import Sym
from ...core.states import State
from ...core.subgraph_code import HOST_FUNCTION

if TYPE_CHECKING:
    from .manifest import Manifest

_MOST_BYTES = 1 << 47  # what a process can address
_MOST_REGISTERS = 1 << 20
_MOST_RANK = 64
_TYPE = re.compile(r"((?:(?:\d{1,15}|\?)x)*)([a-z]\w*)")
_CONTROL = {"scf.if": (1, 2), "scf.for": (1,), "scf.while": (2,)}  # how many regions they have


def validate(manifest: Manifest) -> None:
    """Raise ValueError, which says why in words, for a manifest that no compiler has written."""
    for program in manifest.programs:
        _validate(program)
    names = [manifest.name, *(each.name for each in manifest.functions)]
    _require(len(set(names)) == len(names), "two functions have one name")
    if any(program.specialized or program.session or program.functions for program in manifest.programs[1:]):
        raise ValueError("programs for some sizes, or for sessions, have no such programs themselves")
    for program in manifest.programs:
        _check_states(program.states, manifest)


def _validate(manifest: Manifest) -> None:
    texts = (manifest.name, manifest.fingerprint, manifest.target, manifest.compiler, manifest.source)
    _require(all(isinstance(text, str) for text in (*texts, *manifest.cpu_features)), "a name is no text")
    shown = (manifest.target, manifest.compiler, *manifest.cpu_features)
    _require(all(text.isprintable() for text in shown), "a name has signs that cannot be shown")
    _require(isinstance(manifest.options, dict), "the options are no table")
    for info in (*manifest.inputs, *manifest.outputs, *manifest.params):
        _check_tensor(info)
    _require(all(_is_static(info) for info in manifest.params), "a weight has no size")
    _require(len({info.name for info in manifest.inputs}) == len(manifest.inputs), "two inputs have one name")
    _require(_is_size(manifest.arena_bytes), f"the arena has {manifest.arena_bytes!r} bytes")
    _require(_is_size(manifest.weights_inside), f"there are {manifest.weights_inside!r} bytes of weights inside")
    kernels = {kernel.name: kernel for kernel in manifest.kernels}
    _require(len(kernels) == len(manifest.kernels), "two kernels have one name")
    for kernel in manifest.kernels:
        _check_kernel(kernel)
    for number, call in enumerate(manifest.calls):
        _require(call.kernel in kernels, f"call {number} is one of kernel {call.kernel!r}, which is not there")
        _check_call(number, call, kernels[call.kernel], manifest)
    for report in manifest.reports:
        held = report.slot.space == "arena" and _is_size(report.slot.offset)
        _require(held and report.slot.offset + 8 <= manifest.arena_bytes, "a report reads what is not there")
        _require(isinstance(report.text, str), "a report says no text")
    if manifest.routine is not None:
        _check_routine(manifest.routine, manifest, kernels)
    elif not all(_is_static(info) for info in (*manifest.inputs, *manifest.outputs)):
        raise ValueError("an entry of code is for tensors of known sizes")


def _check_states(states: Sequence[State], manifest: Manifest) -> None:
    """States are pairs of tensors at the program's border, each in one pair."""
    for role, infos in (("input", manifest.inputs), ("output", manifest.outputs)):
        numbers = [getattr(state, role) for state in states]
        _require(all(_is_size(n, len(infos) - 1) for n in numbers), f"a state has no {role}")
        _require(len(set(numbers)) == len(numbers), f"two states have one {role}")
    for state in states:
        rank = len(manifest.inputs[state.input].shape)
        _require(state.axis is None or _is_size(state.axis, rank - 1), "a state grows along no axis")


def validate_ranges(known: Any) -> None:
    """Raise ValueError for what are no ranges of symbols: a table from names to the least and the greatest size."""
    _require(isinstance(known, dict), "the ranges are no table")
    for name, (low, high) in known.items():
        _require((low is None or _is_size(low)) and (high is None or _is_size(high)), f"the range of {name!r} is none")
        _require((low or 0) <= (math.inf if high is None else high), f"the range of {name!r} is empty")


def _require(holds: bool, otherwise: str) -> None:
    if not holds:
        raise ValueError(otherwise)


def _is_size(value: Any, most: int = _MOST_BYTES) -> bool:
    return type(value) is int and 0 <= value <= most


def _is_static(info: TensorInfo) -> bool:
    return info.ranked and info.dtype not in OBJECTS and not any(isinstance(extent, Sym) for extent in info.shape)


def _check_tensor(info: TensorInfo) -> None:
    _require(isinstance(info.name, str) and isinstance(info.dtype, str), "a tensor's name or dtype is no text")
    _require(isinstance(info.ranked, bool) and len(info.shape) <= _MOST_RANK, f"tensor '{info.name}' has no rank")
    _require(all(isinstance(n, Sym) or _is_size(n) for n in info.shape), f"tensor '{info.name}' has no shape")
    if info.dtype not in OBJECTS:
        try:
            itemsize = numpy_dtype(info.dtype).itemsize
        except (TypeError, SyntaxError, AttributeError):
            itemsize = 0
        _require(itemsize > 0 and numpy_dtype(info.dtype).name == info.dtype, f"tensor '{info.name}' has no dtype")
        known = math.prod(n for n in info.shape if not isinstance(n, Sym))
        _require(known * itemsize <= _MOST_BYTES, f"tensor '{info.name}' is larger than any memory")


def _check_kernel(kernel: Kernel) -> None:
    where = f"kernel {kernel.name!r}"
    _require(isinstance(kernel.name, str), f"{where} has no name")
    texts = (kernel.codegen, kernel.generated)
    _require(all(isinstance(text, str) for text in texts), f"{where} has a code generator whose name is no text")
    _require(_is_size(kernel.extent) and kernel.extent > 0, f"{where} has {kernel.extent!r} steps")
    sizes = (kernel.scratch_bytes, kernel.parallel_from, kernel.streamed_from)
    _require(all(map(_is_size, sizes)), f"{where} has sizes that are none")
    _require(all(_is_size(n, 1 << 80) for n in (kernel.flops, kernel.bytes)), f"{where} does work that is none")
    flags = (kernel.parallel, kernel.ahead, kernel.exchanges, kernel.asks_scratch)
    _require(all(isinstance(flag, bool) for flag in flags), f"{where} has a flag that is none")
    signature = kernel.signature
    texts = (*signature.inputs, *signature.results, signature.layout)
    _require(all(isinstance(text, str) for text in texts), f"{where} has no signature")
    for text in (*signature.inputs, *signature.results):
        _parse_type(text)


def _parse_type(text: str) -> tuple[list[int | None], str]:
    """The extents, None for an open one, and the element type of a type in a signature."""
    match = _TYPE.fullmatch(text)
    if match is None:
        raise ValueError(f"{text!r} is not a type")
    return [None if n == "?" else int(n) for n in match[1].split("x")[:-1]], match[2]


def _parse_tensors(texts: Iterable[str]) -> list[tuple[list[int | None], str]]:
    """The types of tensors; those of sizes are left out."""
    return [_parse_type(text) for text in texts if text != "index"]


def _check_call(number: int, call: Call, kernel: Kernel, manifest: Manifest) -> None:
    where = f"call {number} of kernel '{kernel.name}'"
    _require(all(isinstance(node, str) for node in call.nodes), f"{where} has a node whose name is no text")
    types = _parse_tensors((*kernel.signature.inputs, *kernel.signature.results))
    _require(len(call.args) == len(types) or not types, f"{where} has {len(call.args)} arguments, not {len(types)}")
    spaces = {"input": manifest.inputs, "output": manifest.outputs, "param": manifest.params}
    for slot, (shape, element) in zip(call.args, types or [([], "i8")] * len(call.args), strict=True):
        needed = math.prod(n or 0 for n in shape) * element_bytes(element)
        _require(needed <= _room(slot, spaces, manifest.arena_bytes), f"{where} wants more memory than {slot} has")


def _room(slot: Slot, spaces: Mapping[str, Sequence[TensorInfo]], arena_bytes: int) -> int:
    """The bytes from a slot's place on; -1 for a place that is not there."""
    if slot.space == "arena":
        return arena_bytes - slot.offset
    infos = spaces[slot.space]
    known = slot.index < len(infos) and _is_static(infos[slot.index])
    return infos[slot.index].nbytes - slot.offset if known else -1


def _check_routine(routine: Routine, manifest: Manifest, kernels: Mapping[str, Kernel]) -> None:
    given = len(manifest.inputs) + len(manifest.params)
    _require(len(routine.arguments) == given, f"the routine has {len(routine.arguments)} arguments, not {given}")
    _require(len(routine.results) == len(manifest.outputs), "the routine has other results than the program")
    known = set(routine.arguments)
    _check_steps(routine, known, kernels)
    made = collect_types(routine)
    given = zip(routine.arguments, (*manifest.inputs, *manifest.params), strict=True)
    left = zip(routine.results, manifest.outputs, strict=True)
    for role, pairs in (("input", given), ("output", left)):
        for register, info in pairs:
            _require(_may_be(info, *made[register]), f"{role} '{info.name}' is not what the routine has")


def _may_be(info: TensorInfo, kind: str, shape: Sequence[int | None] | None) -> bool:
    """Return whether what is in a register may be what a tensor is said to be."""
    if shape is None:
        return kind == "none" and (info.dtype in OBJECTS or not info.ranked)
    if info.dtype in OBJECTS or numpy_dtype(info.dtype).itemsize != element_bytes(kind):
        return False
    pairs = zip(info.shape, shape, strict=False)
    same = all(isinstance(n, Sym) or m is None or n == m for n, m in pairs)
    return not info.ranked or (len(info.shape) == len(shape) and same)


def _check_steps(routine: Routine, known: set[int], kernels: Mapping[str, Kernel]) -> None:
    """Return whether steps read what was written before; adds what they write to ``known``."""
    known.update(_registers(routine.arguments, "a region"))
    _check_types(routine.types, len(routine.arguments), "a region")
    for step in routine.steps:
        _check_step(step, known, kernels)
        known.update(step.results)
    missing = set(_registers(routine.results, "a region")) - known
    _require(not missing, "a region gives what no step has made")


def _registers(numbers: Sequence[Any], where: str) -> Iterator[int]:
    for number in numbers:
        _require(_is_size(number, _MOST_REGISTERS), f"{where} names the register {number!r}")
        yield number


def _check_step(step: Step, known: set[int], kernels: Mapping[str, Kernel]) -> None:
    where = f"step {step.op!r}"
    _require(isinstance(step.op, str) and isinstance(step.facts, dict), f"{where} is none")
    _require(all(isinstance(node, str) for node in step.nodes), f"{where} has a node whose name is no text")
    _require(set(_registers(step.operands, where)) <= known, f"{where} reads what no step has made")
    for numbers in (step.results, step.dead):
        list(_registers(numbers, where))
    _check_types(step.types, len(step.results), where)
    if step.op in _CONTROL:
        _require(len(step.regions) in _CONTROL[step.op], f"{where} has {len(step.regions)} regions")
        inner = set(known)
        for region in step.regions:
            _check_steps(region, inner, kernels)
        return
    _require(not step.regions, f"{where} has regions")
    if step.op == "func.call":
        _check_kernel_call(step, kernels)
    if step.op == "host.call":
        _check_host_call(step)
    if step.op == APPEND:
        _check_append(step)
    if step.op == COLLECT:
        _check_collection(step)


def _check_append(step: Step) -> None:
    """The number of the input is held against the states."""
    _require(len(step.operands) == 3 and len(step.results) == 1, "what is appended to a state is none")
    _require(_is_size(step.facts["input"]), "what is appended to a state is none")


def _check_collection(step: Step) -> None:
    """What the shapes of the elements are is found when they are collected."""
    counts = {"collect.none": 0, "collect.one": 2, "collect.all": 1}
    known = counts.get(step.facts["function"]) == len(step.operands) and len(step.results) == 1
    _require(known, "a step collects elements in no way that is known")
    if step.facts["function"] == "collect.all":
        shape, (_, made) = step.facts["attributes"]["shape"], step.types[0]
        _require(made is not None and len(made) == len(shape), "the elements that a step has collected have no shape")
        _require(all(map(_is_size, shape)), "the elements that a step has collected have no shape")


def _check_types(types: Sequence[Any], count: int, where: str) -> None:
    _require(len(types) == count, f"{where} has {len(types)} types, not {count}")
    for element, shape in types:
        _require(isinstance(element, str), f"{where} has a type that is none")
        _require(shape is None or len(shape) <= _MOST_RANK, f"{where} has a type that is none")
        _require(all(n is None or _is_size(n) for n in shape or ()), f"{where} has a type that is none")


def _check_host_call(step: Step) -> None:
    name, attributes, dtypes = step.facts["function"], step.facts["attributes"], step.facts["dtypes"]
    _require(isinstance(name, str) and isinstance(attributes, dict), "a call of the host has no function")
    taken, given = dtypes
    _require(len(taken) == len(step.operands) and len(given) == len(step.results), f"a call of '{name}' has no dtypes")
    _require(all(isinstance(dtype, str) for dtype in (*taken, *given)), f"a call of '{name}' has no dtypes")
    if name == HOST_FUNCTION:
        _check_generated(attributes, len(given))


def _check_generated(facts: dict[str, Any], outputs: int) -> None:
    """What a call says of a subgraph that a code generator of a user's has made."""
    where = "a subgraph of a code generator"
    texts = [facts[key] for key in ("codegen", "subgraph", "payload", "key")] + list(facts["nodes"])
    _require(all(isinstance(text, str) for text in texts), f"{where} has a name that is no text")
    shapes = facts["outputs"]
    _require(isinstance(shapes, list) and len(shapes) == outputs, f"{where} has not the outputs of its call")
    _require(all(n is None or _is_size(n) for shape in shapes for n in shape), f"{where} has a shape that is none")


def _check_kernel_call(step: Step, kernels: Mapping[str, Kernel]) -> None:
    name, types, axes = step.facts["kernel"], step.types, step.facts["open"]
    _require(isinstance(name, str) and name in kernels, f"a step calls kernel {name!r}, which is not there")
    kernel, where = kernels[name], f"a call of kernel '{name}'"
    results, operands = _parse_tensors(kernel.signature.results), _parse_tensors(kernel.signature.inputs)
    made = [(list(shape or ()), kind) for kind, shape in types]
    _require(made == results and len(step.results) == len(made), f"{where} has results that are not the kernel's")
    _require(len(axes) == len(operands) <= len(step.operands), f"{where} has operands that are not the kernel's")
    for own, (shape, _) in zip(axes, operands, strict=True):
        _require(own == [axis for axis, n in enumerate(shape) if n is None], f"{where} has other open axes")
    for number, axis in step.facts.get("summed", ()):
        fits = _is_size(number, len(operands) - 1) and _is_size(axis, len(operands[number][0]) - 1)
        _require(fits, f"{where} sums along what is no axis of it")
    over = step.facts.get("over", 0)
    _require(_is_size(over, len(operands) - 1) or "over" not in step.facts, f"{where} lies over what is no operand")
