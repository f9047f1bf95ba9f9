"""Formulas of kernels that prepare weights, for numpy."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from ...core.formula import Formula, FormulaStep
from ...core.model import ELEMENTS, numpy_dtype
from ...dialects import func, ir
from ..ir.edit import splat_of
from ..ir.structure import (
    body_ops,
    dim_of,
    indexing_maps,
    is_dynamic,
    is_projection,
    is_structured,
    is_zero,
    iterator_types,
    loop_extents,
    num_inputs,
    shape_of,
    terminator_of,
)

# What numpy does as the op does, bit for bit; those that change the type are told the new one.
_CONVERSIONS = {"arith.extf", "arith.truncf", "arith.sitofp", "arith.extsi", "arith.trunci"}
_SCALAR = {"arith.addf", "arith.subf", "arith.mulf", "arith.divf", "arith.negf", "arith.maximumf", "arith.minimumf"}
_SCALAR |= {"arith.addi", "arith.subi", "arith.muli", "math.sqrt", "math.absf", *_CONVERSIONS}
_COMPUTED = {"float16", "float32", "float64", "int8", "int16", "int32", "int64"}
_LETTERS = "abcdefghijklmnopqrstuvwxyz"


class _NoFormulaError(Exception):
    """The kernel does what numpy has no step for."""


def find_formula(function: func.FuncOp) -> Formula | None:
    """The formula of a kernel on tensors; None for one that numpy cannot compute."""
    try:
        return _Writer(function).write()
    except _NoFormulaError:
        return None


class _Writer:
    def __init__(self, function: func.FuncOp) -> None:
        self.function = function
        self.steps: list[FormulaStep] = []
        self.nbytes = 0
        self.registers: dict[ir.Value, int] = {}

    def write(self) -> Formula:
        arguments = list(self.function.arguments)
        if any(is_dynamic(op) for op in body_ops(self.function)):
            raise _NoFormulaError
        self.registers = {argument: number for number, argument in enumerate(arguments)}
        for op in body_ops(self.function):
            self._write_op(op)
        results = list(terminator_of(self.function).operands)
        return Formula(
            tuple(tuple(shape_of(value)) for value in arguments),
            tuple(_dtype_of(value.type) for value in arguments),
            tuple(self.steps),
            tuple(self._read(value) for value in results),
            tuple(_count_bytes(value) for value in results),
            self.nbytes,
        )

    def _write_op(self, op: ir.Operation) -> None:
        if op.name in ("arith.constant", "tensor.empty", "linalg.fill"):
            return  # written where they are read
        if op.name in _OPS:
            made = _OPS[op.name](self, op)
        elif is_structured(op) and len(op.results) == 1:
            made = self._write_sum(op) if "reduction" in iterator_types(op) else self._write_map(op)
        else:
            raise _NoFormulaError
        self.registers[op.results[0]] = made
        self.nbytes += _count_bytes(op.results[0])

    def _step(self, op: str, *operands: int, **facts: Any) -> int:
        self.steps.append(FormulaStep(op, operands, facts))
        return len(self.function.arguments) + len(self.steps) - 1

    def _read(self, value: ir.Value) -> int:
        """The register of a value; constants and filled tensors are written when they are read."""
        if value in self.registers:
            return self.registers[value]
        number, kind = splat_of(value), value.type
        is_scalar = not isinstance(kind, ir.RankedTensorType)
        held = numpy_dtype(_dtype_of(kind))
        if number is not None:
            made = self._step("constant", data=np.array(number).astype(held).tobytes(), dtype=held.name, shape=())
            return made if is_scalar else self._step("broadcast", made, shape=tuple(shape_of(value)))
        owner = value.owner
        if isinstance(owner, ir.Block) or owner.name != "arith.constant" or held.name not in _COMPUTED:
            raise _NoFormulaError
        array = np.array(ir.DenseElementsAttr(owner.attributes["value"]))
        return self._step("constant", data=array.tobytes(), dtype=held.name, shape=tuple(shape_of(value)))

    def _write_map(self, op: ir.Operation) -> int:
        """Each input in the order of the loops, what the body does with these, and the order of the result."""
        block, maps, extents = op.regions[0].blocks[0], indexing_maps(op), tuple(loop_extents(op))
        order = [loop for loop in map(dim_of, maps[-1].results) if loop is not None]
        if len(order) < len(maps[-1].results) or sorted(order) != list(range(len(extents))):
            raise _NoFormulaError
        own: dict[ir.Value, int] = {}
        for argument, operand, m in zip(block.arguments, op.operands, maps, strict=True):
            if len(list(argument.uses)):
                own[argument] = self._in_loops(operand, m)
        for inner in body_ops(op):
            own[inner.results[0]] = self._write_scalar(inner, own)
        [result] = terminator_of(op).operands
        made = self._step("broadcast", own.get(result, -1) if result in own else self._read(result), shape=extents)
        return self._step("transpose", made, axes=tuple(order))

    def _in_loops(self, operand: ir.Value, m: ir.AffineMap) -> int:
        """An operand with an axis for each loop, of one element where it has none."""
        if not is_projection(m):
            raise _NoFormulaError
        made, loops = self._read(operand), [dim_of(expr) for expr in m.results]
        if not isinstance(operand.type, ir.RankedTensorType):
            return made
        shape = shape_of(operand)
        if any(map(is_zero, m.results)):
            shape = [1 if loop is None else n for n, loop in zip(shape, loops, strict=True)]
            made = self._step("slice", made, starts=(0,) * len(shape), sizes=tuple(shape), steps=(1,) * len(shape))
        axes = sorted(range(len(loops)), key=lambda axis: -1 if loops[axis] is None else int(loops[axis] or 0))
        extents = [1] * m.n_dims
        for loop, n in zip(loops, shape, strict=True):
            if loop is not None:
                extents[loop] = n
        return self._step("reshape", self._step("transpose", made, axes=tuple(axes)), shape=tuple(extents))

    def _write_scalar(self, op: ir.Operation, own: dict[ir.Value, int]) -> int:
        kinds = {_dtype_of(value.type) for value in (*op.operands, *op.results)}
        if op.name not in _SCALAR or not kinds <= _COMPUTED:
            raise _NoFormulaError
        operands = [own[value] if value in own else self._read(value) for value in op.operands]
        facts = {"dtype": _dtype_of(op.results[0].type)} if op.name in _CONVERSIONS else {}
        return self._step(op.name, *operands, **facts)

    def _write_sum(self, op: ir.Operation) -> int:
        """A sum of products of inputs, on zeros."""
        *body, last = body_ops(op)
        block, maps, count = op.regions[0].blocks[0], indexing_maps(op), num_inputs(op)
        result, total = block.arguments[count], list(terminator_of(op).operands)
        fits = last.name == "arith.addf" and list(last.results) == total and last.operands[0] == result
        if not fits or splat_of(op.operands[count]) != 0 or not all(is_projection(m) for m in maps):
            raise _NoFormulaError
        factors = _list_factors(last.operands[1], set(block.arguments[:count]))
        numbers = [list(block.arguments).index(argument) for argument in factors]
        if len(body) != len(factors) - 1 or _dtype_of(op.results[0].type) not in _COMPUTED:
            raise _NoFormulaError
        if any(map(is_zero, [expr for m in maps for expr in m.results])) or maps[0].n_dims > len(_LETTERS):
            raise _NoFormulaError
        operands: list[ir.Value] = list(op.operands)
        texts = ["".join(_LETTERS[dim_of(expr) or 0] for expr in m.results) for m in maps]
        subscripts = ",".join(texts[number] for number in numbers) + "->" + texts[-1]
        return self._step("sum", *(self._read(operands[number]) for number in numbers), subscripts=subscripts)

    def _reshape(self, op: ir.Operation) -> int:
        return self._step("reshape", self._read(op.operands[0]), shape=tuple(shape_of(op.results[0])))

    def _slice(self, op: ir.Operation) -> int:
        if len(op.operands) != 1:
            raise _NoFormulaError
        starts, sizes, steps = (
            tuple(ir.DenseI64ArrayAttr(op.attributes[f"static_{name}"])) for name in ("offsets", "sizes", "strides")
        )
        made = self._step("slice", self._read(op.operands[0]), starts=starts, sizes=sizes, steps=steps)
        return self._step("reshape", made, shape=tuple(shape_of(op.results[0])))

    def _pack(self, op: ir.Operation) -> int:
        """Padding, each tiled axis as tiles of elements, and the order of the result."""
        source, shape = op.operands[0], shape_of(op.operands[0])
        places, tiles, outer = (
            list(ir.DenseI64ArrayAttr(op.attributes[name]))
            for name in ("inner_dims_pos", "static_inner_tiles", "outer_dims_perm")
        )
        made, sizes = self._read(source), dict(zip(places, tiles, strict=True))
        widths = tuple((0, -n % sizes.get(axis, 1)) for axis, n in enumerate(shape))
        if any(after for _, after in widths):
            if len(op.operands) != 3:
                raise _NoFormulaError
            made = self._step("pad", made, self._read(op.operands[2]), widths=widths)
        parts, first, inner = [], [], {}
        for axis, (n, (_, after)) in enumerate(zip(shape, widths, strict=True)):
            first.append(len(parts))
            parts.append((n + after) // sizes.get(axis, 1))
            if axis in sizes:
                inner[axis] = len(parts)
                parts.append(sizes[axis])
        axes = (*(first[axis] for axis in outer or range(len(shape))), *(inner[axis] for axis in places))
        return self._step("transpose", self._step("reshape", made, shape=tuple(parts)), axes=axes)


_OPS: dict[str, Callable[[_Writer, ir.Operation], int]] = {
    "tensor.expand_shape": _Writer._reshape,
    "tensor.collapse_shape": _Writer._reshape,
    "tensor.extract_slice": _Writer._slice,
    "linalg.pack": _Writer._pack,
}


def _list_factors(value: ir.Value, inputs: set[ir.Value]) -> list[ir.Value]:
    """The inputs whose product a value is."""
    if value in inputs:
        return [value]
    if isinstance(value.owner, ir.Block) or value.owner.name != "arith.mulf":
        raise _NoFormulaError
    return [factor for operand in value.owner.operands for factor in _list_factors(operand, inputs)]


def _dtype_of(kind: ir.Type) -> str:
    element = str(kind.element_type) if isinstance(kind, ir.RankedTensorType) else str(kind)
    if element not in ELEMENTS:
        raise _NoFormulaError
    return ELEMENTS[element]


def _count_bytes(value: ir.Value) -> int:
    return math.prod(shape_of(value)) * numpy_dtype(_dtype_of(value.type)).itemsize
