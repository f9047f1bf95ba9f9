"""Products read bfloat16 as it is where the target multiplies it."""

from __future__ import annotations

from collections.abc import Set
from dataclasses import dataclass
from typing import ClassVar

from ...core.target import Target, detect_host
from ...dialects import arith, builders, ir
from ...dialects.walk import defining_op
from ..analysis.classify import classify_op
from ..analysis.kinds import Contraction
from ..infra.base import Pass
from ..ir.edit import erase_dead, list_programs, param_values
from ..ir.structure import body_ops, indexing_maps, list_ops, num_inputs, terminator_of


@dataclass(frozen=True)
class NarrowProducts(Pass):
    """Fold the widening of both operands of a product with a weight into its body, on targets that multiply bfloat16.

    PyTorch's products are of float32, which their operands are converted to. The weight is then half as long, and a
    CPU with AVX512-BF16 or AMX multiplies two steps of the sum at once.

    Before::

        %a = linalg.generic ins(%x : tensor<8x64xbf16>) { extf }
        %b = linalg.generic ins(%w : tensor<64x32xbf16>) { extf }
        %c = linalg.generic {contraction} ins(%a, %b) { mulf, addf }

    After::

        %c = linalg.generic {contraction} ins(%x, %w) { extf, extf, mulf, addf }

    Options:
        target: the machine; None is this one.
    """

    name: ClassVar[str] = "narrow-products"
    opt_level: ClassVar[int] = 1
    target: Target | None = None

    def apply(self, module: ir.Module) -> None:
        """Rewrite the products of all programs."""
        if (self.target or detect_host()).find_dot_product(16) is None:
            return
        for function in list_programs(module):
            weights = param_values(function)
            for op in list_ops(function):
                if op.name == "linalg.generic" and isinstance(kind := classify_op(op), Contraction):
                    _fold_widening(op, kind, weights)
            erase_dead(function)


def _fold_widening(op: ir.Operation, kind: Contraction, weights: Set[ir.Value]) -> None:
    numbers = (kind.lhs, kind.rhs)
    sources = [_find_narrow(op.operands[number]) for number in numbers]
    if op.operands[kind.weight] not in weights or any(source is None for source in sources):
        return
    block = op.regions[0].blocks[0]
    for number, source in zip(numbers, sources, strict=True):
        argument = block.arguments[number]
        wide, users = argument.type, [use.owner.operation for use in argument.uses]
        op.operands[number] = source
        argument.set_type(builders.element_of(source))
        with ir.InsertionPoint.at_block_begin(block), op.location:
            widened = arith.extf(wide, argument)
        for user in users:
            for place, operand in enumerate(user.operands):
                if operand == argument:
                    user.operands[place] = widened


def _find_narrow(value: ir.Value) -> ir.Value | None:
    """The tensor of bfloat16 that a value of float32 is converted from, element by element."""
    made = defining_op(value)
    if made is None or made.name != "linalg.generic" or num_inputs(made) != 1 or len(made.results) != 1:
        return None
    source, [read, written] = made.operands[0], indexing_maps(made)
    if read != written or str(builders.element_of(source)) != "bf16" or str(builders.element_of(value)) != "f32":
        return None
    yielded = defining_op(terminator_of(made).operands[0])
    only = body_ops(made)
    if yielded is None or yielded.name != "arith.extf" or only != [yielded]:
        return None
    return source if yielded.operands[0] == made.regions[0].blocks[0].arguments[0] else None
