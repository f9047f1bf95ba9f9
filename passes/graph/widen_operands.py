"""Products read narrow floats of the data as float32, which are widened ahead."""

from __future__ import annotations

from collections.abc import Set
from dataclasses import dataclass
from typing import ClassVar

from ...core.target import Target, detect_host
from ...dialects import builders, ir, scalars
from ...dialects.walk import defining_op
from ..analysis.classify import classify_op
from ..analysis.kinds import Contraction, Conv
from ..infra.base import Pass
from ..ir.edit import erase_dead, list_programs, param_values, splat_of
from ..ir.structure import is_static, list_ops, loop_extents, terminator_of
from ..schedule.families.contraction import multiplies_pairs
from ..schedule.tiling.pool_windows import amounts_of


@dataclass(frozen=True)
class WidenOperands(Pass):
    """Widen the left operand of a product, or a convolution's data, from float16 or bfloat16 in an op of its own.

    A tile of a product reads its left operand element by element, each for all columns, and its columns as vectors. To
    widen elements there takes more time than to multiply them, and it is done again for each tile of columns. Products
    with a weight that the target multiplies in bfloat16 read both as they are.

    Before::

        %c = linalg.generic {contraction} ins(%a : tensor<8x64xf16>, %b) { extf, extf, mulf, addf }

    After::

        %w = linalg.generic {(m, k)} ins(%a : tensor<8x64xf16>) { extf } -> tensor<8x64xf32>
        %c = linalg.generic {contraction} ins(%w : tensor<8x64xf32>, %b) { extf, mulf, addf }

    Weights stay as small as they are. Padding is added to what is widened.

    Options:
        target: the machine; None is this one.
    """

    name: ClassVar[str] = "widen-operands"
    opt_level: ClassVar[int] = 1
    target: Target | None = None

    def apply(self, module: ir.Module) -> None:
        """Rewrite the products of all programs."""
        target = self.target or detect_host()
        for function in list_programs(module):
            weights = param_values(function)
            for op in list_ops(function):
                if op.name == "linalg.generic" and (number := _find_repeated(op, weights, target)) is not None:
                    _widen(op, number)
            erase_dead(function)


def _find_repeated(op: ir.Operation, weights: Set[ir.Value], target: Target) -> int | None:
    """The operand that a product's tiles read element by element, if it is data of narrow floats."""
    kind = classify_op(op)
    if isinstance(kind, Contraction) and op.operands[kind.weight] in weights and multiplies_pairs(op, kind, target):
        return None
    match kind:
        case Contraction(n=columns, lhs=number) | Conv(f=columns, data=number):
            pass
        case _:
            return None
    operand = op.operands[number]
    kind = builders.element_of(operand)
    if operand in weights or scalars.compute_type(kind) == kind or all(loop_extents(op)[d] == 1 for d in columns):
        return None
    argument = op.regions[0].blocks[0].arguments[number]
    return number if all(use.owner.name == "arith.extf" for use in argument.uses) else None


def _widen(op: ir.Operation, number: int) -> None:
    wide = scalars.compute_type(builders.element_of(op.operands[number]))
    with ir.InsertionPoint(op), op.location:
        op.operands[number] = _widen_tensor(op.operands[number], wide)
    argument = op.regions[0].blocks[0].arguments[number]
    argument.set_type(wide)
    for use in list(argument.uses):
        use.owner.operation.results[0].replace_all_uses_with(argument)
        use.owner.operation.erase()


def _widen_tensor(value: ir.Value, wide: ir.Type) -> ir.Value:
    pad = defining_op(value)
    if pad is None or pad.name != "tensor.pad" or not is_static(value):
        return builders.convert_elements(value, wide)
    number = splat_of(terminator_of(pad).operands[0])
    if number is None:
        return builders.convert_elements(value, wide)
    low, high = zip(*amounts_of(pad), strict=True)
    return builders.pad(builders.convert_elements(pad.operands[0], wide), low, high, builders.scalar(number, wide))
