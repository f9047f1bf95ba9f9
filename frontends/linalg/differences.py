"""Finds differences between texts of one program for several sizes: extents, numbers in attributes, constants."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from ...core.errors import UnsupportedError
from ...core.sizes import Extent, has_dynamic_extents
from ...dialects import func, ir
from ...dialects.walk import collect, defining_op
from .fitting import Fit

_Values = Sequence[ir.Value]


@dataclass
class Differences:
    """Of the first of the programs, what is no number in it but an extent.

    ``shapes`` are those of open tensors. ``amounts`` are, by an op's first result, the arrays of numbers among its
    attributes by their names. ``constants`` are ops, which of their operands is a constant, and what it is: an
    extent, or the shape of a tensor that holds one number.
    """

    shapes: dict[ir.Value, tuple[Extent, ...]] = field(default_factory=dict)
    amounts: dict[ir.Value, dict[str, list[Extent]]] = field(default_factory=dict)
    constants: list[tuple[ir.Operation, int, Extent | tuple[Extent, ...]]] = field(default_factory=list)


def find_differences(mains: Sequence[func.FuncOp], fit: Fit) -> Differences:
    """Compare functions that do the same at several sizes, op by op.

    Raises UnsupportedError, with the name of the op, where they do something else, or a number is no extent.
    """
    return _Comparison(fit).compare_functions(mains)


class _Comparison:
    def __init__(self, fit: Fit) -> None:
        self._fit = fit
        self._found = Differences()
        self._first: dict[ir.Value, ir.Value] = {}  # of a value, its counterpart in the first program

    def compare_functions(self, mains: Sequence[func.FuncOp]) -> Differences:
        columns = [collect(main.operation, lambda op: op.name != "arith.constant") for main in mains]
        same = len({len(ops) for ops in columns}) == 1
        for ops in zip(*columns, strict=False):
            if len({_describe_form(op) for op in ops}) != 1:
                raise _otherwise(ops[0])
            self._pair([_collect_values(op) for op in ops], ops[0])
        if not same:
            raise _otherwise(columns[0][-1])
        for ops in zip(*columns, strict=True):
            self._compare_operands(ops)
            self._compare_attributes(ops)
        return self._found

    def _pair(self, columns: Sequence[_Values], op: ir.Operation) -> None:
        for values in zip(*columns, strict=True):
            self._first.update(dict.fromkeys(values, values[0]))
            shape = self._shape([value.type for value in values], op)
            if shape is not None and has_dynamic_extents(shape):
                self._found.shapes[values[0]] = shape

    def _shape(self, kinds: Sequence[ir.Type], op: ir.Operation) -> tuple[Extent, ...] | None:
        """The shape of a tensor whose types differ."""
        if len(set(kinds)) == 1:
            return None
        if any(not isinstance(kind, ir.RankedTensorType) for kind in kinds):
            raise _otherwise(op)
        ranked: list[Any] = [ir.RankedTensorType(kind) for kind in kinds]
        if len({(kind.rank, str(kind.element_type)) for kind in ranked}) != 1:
            raise _otherwise(op)
        return tuple(self._extent(numbers, op) for numbers in zip(*(kind.shape for kind in ranked), strict=True))

    def _extent(self, numbers: tuple[int, ...], op: ir.Operation) -> Extent:
        extent = self._fit.extent(numbers)
        if extent is None:
            raise _otherwise(op)
        return extent

    def _compare_operands(self, ops: Sequence[ir.Operation]) -> None:
        for number, values in enumerate(zip(*(op.operands for op in ops), strict=True)):
            made = [defining_op(value) for value in values]
            constants = [op.attributes["value"] for op in made if op is not None and op.name == "arith.constant"]
            if not constants:
                if {self._first[value] for value in values} != {values[0]}:
                    raise _otherwise(ops[0])
            elif len(constants) != len(values):
                raise _otherwise(ops[0])
            elif len(set(constants)) != 1:
                self._found.constants.append((ops[0], number, self._constant(constants, ops[0])))

    def _constant(self, attributes: Sequence[ir.Attribute], op: ir.Operation) -> Extent | tuple[Extent, ...]:
        """The extent that numbers are, or the shape of tensors that hold one number."""
        if all(isinstance(a, ir.DenseElementsAttr) for a in attributes):
            dense = [ir.DenseElementsAttr(a) for a in attributes]
            shape = self._shape([a.type for a in dense], op)
            if shape is None or any(not a.is_splat for a in dense):
                raise _otherwise(op)
            if len({a.get_splat_value() for a in dense}) != 1:
                raise _otherwise(op)
            return shape
        numbers = [a.value for a in attributes if isinstance(a, ir.IntegerAttr | ir.FloatAttr)]
        if len(numbers) != len(attributes) or any(not float(n).is_integer() for n in numbers):
            raise _otherwise(op)
        return self._extent(tuple(map(int, numbers)), op)

    def _compare_attributes(self, ops: Sequence[ir.Operation]) -> None:
        if ops[0].name == "func.func":
            return
        for name in ops[0].attributes:
            given = [op.attributes[name] for op in ops]
            if len(set(given)) == 1:
                continue
            if not len(ops[0].results) or any(not isinstance(a, ir.DenseI64ArrayAttr) for a in given):
                raise _otherwise(ops[0])
            numbers = zip(*(list(ir.DenseI64ArrayAttr(a)) for a in given), strict=True)
            self._found.amounts.setdefault(ops[0].results[0], {})[name] = [self._extent(n, ops[0]) for n in numbers]


def _describe_form(op: ir.Operation) -> tuple[Any, ...]:
    """The parts of an op that are equal at all sizes."""
    blocks = tuple(len(block.arguments) for region in op.regions for block in region.blocks)
    return op.name, len(op.operands), len(op.results), blocks, *op.attributes


def _collect_values(op: ir.Operation) -> list[ir.Value]:
    arguments = [a for region in op.regions for block in region.blocks for a in block.arguments]
    return [*op.results, *arguments]


def _otherwise(op: ir.Operation) -> UnsupportedError:
    where = f"{op.location.name_str}: " if op.location.is_a_name() else ""
    return UnsupportedError(
        f"{where}what is computed depends on the open sizes, beyond how many elements there are: give numbers for them"
    )
