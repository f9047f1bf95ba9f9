"""What depends on a byte alone is looked up in a table."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from ...core.target import Target, detect_host
from ...dialects import arith, builders, ir, scalars
from ...dialects.types import element_bits
from ...dialects.walk import defining_op
from ..analysis.groups import is_pointwise
from ..infra.base import Pass
from ..ir.dynamic_sizes import note_sizes
from ..ir.edit import body_of, erase_dead, list_programs, program_order, replace
from ..ir.structure import body_ops, indexing_maps, list_ops, num_inputs, shape_of
from ..ir.uses import has_one_use

# Ops of bodies below which a chain costs no more than what it is read and written for, by itself or in the kernel of
# the op before it; a function is worth several.
_LEAST_OPS, _LEAST_FUSED, _FUNCTION_OPS = 8, 24, 16
_SIDE = 16  # of the square that a table of bytes is computed as


@dataclass(frozen=True)
class TabulateBytes(Pass):
    """Look results of one byte up that elementwise ops compute from one byte, where the target has such an instruction.

    Before::

        %f = linalg.generic {sitofp(q - zero) * scale} ins(%q: tensor<MxNxi8>)
        %s = linalg.generic {1 / (1 + exp(-f))} ins(%f)
        %y = linalg.generic {fptosi(clamp(roundeven(s / step)))} ins(%s) -> tensor<MxNxi8>

    After::

        %t = the same ops, of all bytes -> tensor<256xi8>                // computed ahead of time
        %y = linalg.generic {tensor.extract %t[q]} ins(%q)

    Chains of ops go through intermediate bytes, and to one byte by several ways: x * sigmoid(x), quantised after each
    step, is one table. Cheap ones stay where the kernel that makes their bytes computes them too.
    """

    name: ClassVar[str] = "tabulate-bytes"
    opt_level: ClassVar[int] = 2
    target: Target | None = None

    def apply(self, module: ir.Module) -> None:
        """Rewrite all programs of the module."""
        if not (self.target or detect_host()).looked_up_bytes:
            return
        for function in list_programs(module):
            order = program_order(function)
            for op in reversed(list_ops(function)):
                if op.name == "linalg.generic" and len(op.results) == 1 and any(True for _ in op.results[0].uses):
                    _tabulate(op, order)
            erase_dead(function)


def _tabulate(op: ir.Operation, order: dict[ir.Value, int]) -> None:
    found = _Chain.read(op) if _is_byte(op.results[0]) else None
    if found is None or not found.is_worth_a_table():
        return
    with ir.InsertionPoint(op), op.location:
        table = found.emit_table(order)
        made = _look_up(found.source, table)
    replace(op, [made])


@dataclass(frozen=True)
class _Chain:
    """Elementwise ops that compute bytes from those of ``source``, element by element."""

    source: ir.Value
    ops: frozenset[ir.Operation]

    @staticmethod
    def read(op: ir.Operation) -> _Chain | None:
        """The chain that ends in an op; None where it depends on anything else than one tensor of bytes."""
        if not is_pointwise(op) or not _keeps_places(op) or not num_inputs(op):
            return None
        source, ops = None, {op}
        for value in list(op.operands)[: num_inputs(op)]:
            before = defining_op(value)
            inner = None
            if before is not None and (has_one_use(value) or not _is_byte(value)):
                inner = _Chain.read(before)
            if inner is None and not _is_byte(value):
                return None
            start = inner.source if inner is not None else value
            if source is not None and start != source:
                return None
            source = start
            ops |= inner.ops if inner is not None else set()
        assert source is not None
        return _Chain(source, frozenset(ops))

    def is_worth_a_table(self) -> bool:
        """Return whether the ops take longer than to look bytes up, in a kernel that does nothing else."""
        names = [inner.name for op in self.ops for inner in body_ops(op)]
        cost = sum(_FUNCTION_OPS if name in _FUNCTIONS else 1 for name in names)
        before = defining_op(self.source)
        return cost >= (_LEAST_FUSED if before is not None and before.name == "linalg.generic" else _LEAST_OPS)

    def emit_table(self, order: dict[ir.Value, int]) -> ir.Value:
        """What the ops compute of each byte."""
        byte = ir.IntegerType.get_signless(8)
        digits = builders.constant(np.arange(_SIDE, dtype=np.int8), byte)
        made = {self.source: _map_square([digits, digits], [[0], [1]], byte, _join_digits)}
        ops = sorted(self.ops, key=lambda op: order[op.results[0]])
        for op in ops:
            inputs = [made[value] for value in list(op.operands)[: num_inputs(op)]]
            element = builders.element_of(op.results[0])
            made[op.results[0]] = _map_square(inputs, [[0, 1]] * len(inputs), element, body_of(op))
        return builders.reshape(made[ops[-1].results[0]], [_SIDE * _SIDE])


_FUNCTIONS = {
    f"math.{name}" for name in ("cos", "erf", "exp", "exp2", "expm1", "log", "log1p", "powf", "sin", "sqrt", "tanh")
}


def _is_byte(value: ir.Value) -> bool:
    element = builders.element_of(value)
    return isinstance(element, ir.IntegerType) and element_bits(element) == 8 and len(shape_of(value)) > 0


def _keeps_places(op: ir.Operation) -> bool:
    """Return whether the op reads each operand at the place that it writes, and not what it writes over."""
    block = op.regions[0].blocks[0]
    is_read = any(True for _ in block.arguments[num_inputs(op)].uses)
    return not is_read and len(set(indexing_maps(op))) == 1


def _map_square(
    inputs: Sequence[ir.Value], maps: Sequence[Sequence[int]], element: ir.Type, body: Callable[..., ir.Value]
) -> ir.Value:
    return builders.generic(inputs, [builders.empty([_SIDE, _SIDE], element)], [*maps, [0, 1]], "pp", body)[0]


def _join_digits(high: ir.Value, low: ir.Value, _: ir.Value) -> ir.Value:
    return arith.ori(arith.shli(high, scalars.like(high, 4)), low)


def _look_up(source: ir.Value, table: ir.Value) -> ir.Value:
    """The bytes of a table at the places that the bytes of a tensor are."""
    shape = note_sizes(source)
    loops = range(len(shape))

    def body(byte: ir.Value, _: ir.Value) -> ir.Value:
        return builders.extract(table, [scalars.to_index(byte, signed=False)])

    return builders.generic(
        [source], [builders.empty(shape, builders.element_of(source))], [loops, loops], "p" * len(shape), body
    )[0]
