"""Attention: what keeps two products and the softmax between them from being one kernel."""

from __future__ import annotations

from ....dialects import func, ir, scalars
from ....dialects.walk import defining_op
from ...analysis.classify import classify_op
from ...analysis.kinds import Contraction
from ...ir.dynamic_sizes import note_sizes
from ...ir.edit import replace
from ...ir.maps import permutation_of
from ...ir.routine_ops import VIEWS
from ...ir.structure import list_ops, num_inputs
from ...ir.uses import has_one_use, users_of
from .batches import split_batches
from .match import emit_elementwise
from .polynomial import UnreadableError, product_of
from .reader import Reader, read_itself
from .walk import Surroundings, find_calls, is_plain_float


def simplify_attention(function: func.FuncOp) -> None:
    """Multiply scores, not query and key, and keep batch and heads apart; then all is one kernel.

    `fold-scale-axis` takes the number on to a weight if there is one.
    """
    found: list[tuple[ir.Operation, ir.Operation]] = []
    around = Surroundings()
    for power in list_ops(function):
        pair = _products(power, around) if find_calls(power, "math.exp") else None
        if pair is not None and not any(op in other for op in pair for other in found):
            found.append(pair)
    for scores, last in found:
        factor = _take_scale(scores, 0) * _take_scale(scores, 1)
        if factor != 1:
            _scale_readers(scores.results[0], factor)
        split_batches(scores, last)


def _products(power: ir.Operation, around: Surroundings) -> tuple[ir.Operation, ir.Operation] | None:
    """The product whose exponentials an op computes, and the product that what is made of these enters."""
    made = [defining_op(v) for v in around.before(power)]
    scores = list(dict.fromkeys(op for op in made if op is not None and _is_product(op)))
    last = list(dict.fromkeys(u for op in around.after(power) for u in users_of(op) if _is_product(u)))
    if len(scores) != 1 or len(last) != 1 or not all(map(is_plain_float, (*scores[0].operands, *last[0].operands))):
        return None
    return scores[0], last[0]


def _is_product(op: ir.Operation) -> bool:
    return op.name == "linalg.generic" and isinstance(classify_op(op), Contraction)


def _take_scale(scores: ir.Operation, number: int) -> float:
    """Read an operand of the product before it is multiplied by a number; returns that, 1 where there is none."""
    factor, value = 1.0, scores.operands[number]
    while (op := defining_op(value)) is not None and has_one_use(value):
        if op.name in VIEWS or permutation_of(op) is not None:
            value = op.operands[0]
        elif (scale := _scale_of(op)) is not None:
            factor, value = factor * scale, op.operands[0]
            replace(op, [value])
        else:
            break
    return factor


def _scale_of(op: ir.Operation) -> float | None:
    """The number that an op multiplies a tensor by, if that is all."""
    if not Surroundings().in_place(op) or num_inputs(op) != 1 or op.operands[0].type != op.results[0].type:
        return None
    try:
        element = Reader(op.operands[0]).element(op.results[0])
    except UnreadableError:
        return None
    whole = product_of(read_itself(op.operands[0]))
    return element[whole] if element.products == {whole} else None


def _scale_readers(value: ir.Value, factor: float) -> None:
    """Let all readers of a value read its product with a number; what asks for its sizes does not change."""
    made = defining_op(value)
    assert made is not None
    uses = [(use.owner.operation, use.operand_number) for use in value.uses]
    with ir.InsertionPoint.after(made), made.location:
        note_sizes(value)
        scaled = emit_elementwise(lambda a: scalars.mul(a, scalars.like(a, factor)), value)
    for user, number in uses:
        if user.name != "tensor.dim":
            user.operands[number] = scaled
