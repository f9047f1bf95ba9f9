"""Products read narrow floats of the data as float32, and bytes in 16 bits, which are widened ahead."""

from __future__ import annotations

from collections.abc import Set
from dataclasses import dataclass
from typing import ClassVar

from ...core.target import Target, detect_host
from ...dialects import arith, builders, ir, scalars
from ...dialects.types import i32_type
from ...dialects.walk import defining_op
from ..analysis.classify import classify_op
from ..analysis.kinds import Contraction, Conv
from ..infra.base import Pass
from ..ir.edit import erase_dead, list_programs, param_values, splat_of
from ..ir.structure import is_static, list_ops, loop_extents, loops_along, terminator_of
from ..schedule.families.contraction import multiplies_pairs, pack_product
from ..schedule.tiling.grouped_sums import multiplies_bytes
from ..schedule.tiling.pool_windows import amounts_of

_BYTE_MASK = 255
# Of more channels one that is left over is a small part of all.
_FEW_CHANNELS = 16


@dataclass(frozen=True)
class WidenOperands(Pass):
    """Widen the left operand of a product, or a convolution's data, in an op of its own: float16, bfloat16, bytes.

    A tile of a product reads its left operand element by element, each for all columns, and its columns as vectors. To
    widen elements there takes more time than to multiply them, and it is done again for each tile of columns. Products
    with a weight that the target multiplies in bfloat16 read both as they are.

    Before::

        %c = linalg.generic {contraction} ins(%a : tensor<8x64xf16>, %b) { extf, extf, mulf, addf }

    After::

        %w = linalg.generic {(m, k)} ins(%a : tensor<8x64xf16>) { extf } -> tensor<8x64xf32>
        %c = linalg.generic {contraction} ins(%w : tensor<8x64xf32>, %b) { extf, mulf, addf }

    Weights stay as small as they are. Padding is added to what is widened.

    Bytes become numbers of 16 bits where the target has no instruction for products of bytes, and multiplies such
    numbers two at a time (``pmaddwd``). To take words of four bytes apart in each tile took a third of its time.

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
                elif op.name == "linalg.generic" and (number := _find_bytes(op, weights, target)) is not None:
                    _widen_bytes(op, number)
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


def _find_bytes(op: ir.Operation, weights: Set[ir.Value], target: Target) -> int | None:
    """The bytes that a product multiplies by those of a weight, if the target does so in 16 bits."""
    kind = classify_op(op)
    if target.widened_dot_product is None or not isinstance(kind, Contraction | Conv):
        return None
    if op.operands[kind.weight] not in weights or not multiplies_bytes(op, kind):
        return None
    # Layouts, which are not chosen yet, have the channels of a convolution last.
    in_groups = isinstance(kind, Conv) or any(len(packed.tiles) > 1 for packed in pack_product([op], target, 0))
    return 1 - kind.weight if in_groups and op.operands[1 - kind.weight] not in weights else None


def _widen_bytes(op: ir.Operation, number: int) -> None:
    wide = ir.IntegerType.get_signless(16)
    with ir.InsertionPoint(op), op.location:
        op.operands[number] = _widen_tensor(op.operands[number], wide)
        _pair_channels(op)
    argument = op.regions[0].blocks[0].arguments[number]
    argument.set_type(wide)
    for use in list(argument.uses):
        with ir.InsertionPoint(use.owner), use.owner.location:
            use.owner.operation.results[0].replace_all_uses_with(arith.extsi(i32_type(), argument))
        use.owner.operation.erase()


def _pair_channels(op: ir.Operation) -> None:
    """Add a channel to few and odd ones of a convolution: the last of them is then read as a word, as all pairs are."""
    kind = classify_op(op)
    if not isinstance(kind, Conv) or len(kind.c) != 1 or not all(map(is_static, op.operands)):
        return
    count = loop_extents(op)[kind.c[0]]
    if count % 2 == 0 or not 1 < count < _FEW_CHANNELS:
        return
    for number in (kind.data, kind.weight):
        value = op.operands[number]
        high = [int(loop == kind.c[0]) for loop in loops_along(op, number)]
        none = value, [0] * len(high), [0] * len(high), 0
        # What the data have there is multiplied by zeros.
        inner, low, behind, fill = (_find_padding(value) if number == kind.data else None) or none
        behind = [a + b for a, b in zip(behind, high, strict=True)]
        op.operands[number] = builders.pad(inner, low, behind, builders.scalar(fill, builders.element_of(value)))


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
    if (padding := _find_padding(value)) is None:
        return _widen_elements(value, wide)
    inner, low, high, number = padding
    fill = number if scalars.is_float(wide) else int(number) & _BYTE_MASK
    return builders.pad(_widen_elements(inner, wide), low, high, builders.scalar(fill, wide))


def _find_padding(value: ir.Value) -> tuple[ir.Value, list[int], list[int], float | int] | None:
    """What is padded to a tensor of known sizes, by how much before and behind it, and the number; None for others."""
    pad = defining_op(value)
    if pad is None or pad.name != "tensor.pad" or not is_static(value):
        return None
    number = splat_of(terminator_of(pad).operands[0])
    low, high = zip(*amounts_of(pad), strict=True)
    return (pad.operands[0], [*low], [*high], number) if number is not None else None


def _widen_elements(value: ir.Value, wide: ir.Type) -> ir.Value:
    """Floats as such of another type, or unsigned bytes as wider integers."""
    if scalars.is_float(wide):
        return builders.convert_elements(value, wide)
    return builders.elementwise(lambda byte: arith.extui(wide, byte), value, elem=wide)
