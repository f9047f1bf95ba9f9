"""Weights that are prepared by numpy, step by step, and not by kernels."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from ...core.formula import Formula
from ...core.model import numpy_dtype
from ...core.program import Program, Slot

# Bytes that numpy may write in all calls of a kernel: it takes as long for more as a kernel takes to be compiled.
_MOST_BYTES = 48 << 20


def choose_programs(programs: Mapping[str, Program], formulas: Mapping[str, Formula]) -> set[str]:
    """The programs, by name, that numpy computes: those whose kernels all have formulas that are done soon."""
    calls = Counter(call.kernel for program in programs.values() for call in program.calls)
    soon = {name for name, formula in formulas.items() if formula.nbytes * calls[name] <= _MOST_BYTES}
    return {name for name, program in programs.items() if _is_computable(program, soon, formulas)}


def _is_computable(program: Program, soon: set[str], formulas: Mapping[str, Formula]) -> bool:
    if program.routine is not None or program.reports or not all(call.kernel in soon for call in program.calls):
        return False
    known = {Slot("param", number): info.nbytes for number, info in enumerate(program.params)}
    for call in program.calls:
        formula = formulas[call.kernel]
        arguments, results = call.args[: len(formula.shapes)], call.args[len(formula.shapes) :]
        sizes = [_count_bytes(*kind) for kind in zip(formula.shapes, formula.dtypes, strict=True)]
        if len(results) != len(formula.results) or [known.get(slot) for slot in arguments] != sizes:
            return False
        known |= dict(zip(results, formula.result_bytes, strict=True))
    return all(known.get(Slot("output", number)) == info.nbytes for number, info in enumerate(program.outputs))


def prepare_weight(
    program: Program, formulas: Mapping[str, Formula], params: Sequence[np.ndarray], outputs: Sequence[np.ndarray]
) -> None:
    """Do what ``program`` does, by numpy."""
    held = {Slot("param", number): array for number, array in enumerate(params)}
    for call in program.calls:
        formula = formulas[call.kernel]
        kinds = zip(call.args, formula.shapes, formula.dtypes, strict=False)  # results are the slots behind these
        made = _evaluate(formula, [_as_type(held[slot], shape, dtype) for slot, shape, dtype in kinds])
        held |= dict(zip(call.args[len(formula.shapes) :], made, strict=True))
    for number, output in enumerate(outputs):
        made = held[Slot("output", number)]
        np.copyto(output.reshape(-1).view(made.dtype).reshape(made.shape), made)


def _evaluate(formula: Formula, arguments: Sequence[np.ndarray]) -> list[np.ndarray]:
    registers = [*arguments]
    with np.errstate(all="ignore"):
        for step in formula.steps:
            registers.append(STEPS[step.op](*(registers[number] for number in step.operands), **step.facts))
    return [registers[number] for number in formula.results]


def _as_type(array: np.ndarray, shape: tuple[int, ...], dtype: str) -> np.ndarray:
    if array.shape == shape and array.dtype == numpy_dtype(dtype):
        return array
    return np.ascontiguousarray(array).reshape(-1).view(numpy_dtype(dtype)).reshape(shape)


def _count_bytes(shape: Sequence[int], dtype: str) -> int:
    return int(np.prod(shape, dtype=np.int64)) * numpy_dtype(dtype).itemsize


def _constant(data: bytes, dtype: str, shape: tuple[int, ...]) -> np.ndarray:
    return np.frombuffer(data, numpy_dtype(dtype)).reshape(shape)


def _pad_array(array: np.ndarray, number: np.ndarray, widths: tuple[tuple[int, int], ...]) -> np.ndarray:
    return np.pad(array, widths, constant_values=number[()])


def _slice(array: np.ndarray, starts: tuple[int, ...], sizes: tuple[int, ...], steps: tuple[int, ...]) -> np.ndarray:
    parts = zip(starts, sizes, steps, strict=True)
    return array[tuple(slice(start, start + size * step, step) for start, size, step in parts)]


def _sum_products(*factors: np.ndarray, subscripts: str) -> np.ndarray:
    """Einsum, one factor after the other, which leaves the inner axes of the largest where they are."""
    texts, result = subscripts.split("->")
    (made, text), *others = sorted(
        zip(factors, texts.split(","), strict=True), key=lambda factor: factor[0].size, reverse=True
    )
    made = np.ascontiguousarray(made)
    for number, (factor, own) in enumerate(others, 1):
        needed = {*result}.union(*(later for _, later in others[number:]))
        both = [*dict.fromkeys([*filter(lambda letter: letter not in text, own), *text])]
        target = result if number == len(others) else "".join(letter for letter in both if letter in needed)
        made, text = np.einsum(f"{text},{own}->{target}", made, factor), target
    return made if others else np.einsum(subscripts, made)


def _convert(array: np.ndarray, dtype: str) -> np.ndarray:
    return array.astype(numpy_dtype(dtype))


STEPS: dict[str, Callable[..., Any]] = {
    "constant": _constant,
    "pad": _pad_array,
    "slice": _slice,
    "reshape": lambda array, shape: array.reshape(shape),
    "transpose": lambda array, axes: array.transpose(axes),
    "broadcast": lambda array, shape: np.broadcast_to(array, shape),
    "sum": _sum_products,
    **dict.fromkeys(("arith.extf", "arith.truncf", "arith.sitofp", "arith.extsi", "arith.trunci"), _convert),
    **dict.fromkeys(("arith.addf", "arith.addi"), np.add),
    **dict.fromkeys(("arith.subf", "arith.subi"), np.subtract),
    **dict.fromkeys(("arith.mulf", "arith.muli"), np.multiply),
    "arith.divf": np.divide,
    "arith.negf": np.negative,
    "arith.maximumf": np.maximum,
    "arith.minimumf": np.minimum,
    "math.sqrt": np.sqrt,
    "math.absf": np.abs,
}
