"""Attention: numbers that query or key are multiplied by go to the scores, where they cost no kernel."""

from __future__ import annotations

from ....dialects import func, ir, scalars
from ...classify import Contraction, classify, num_inputs
from ..edit import VIEWS, has_one_use, operations, permutation_of, producer, replace, users
from ..groups import Facts, is_reduction
from .match import elementwise
from .polynomial import UnreadableError, product
from .reader import Reader, after, before, calls, in_place, is_plain_float, itself


def move_scales(function: func.FuncOp) -> None:
    """Multiply scores, not query and key; `fold-scale-axis` takes the number on to a weight if there is one."""
    for op in operations(function):
        scores = _scores(op) if any(True for _ in calls(op, "math.exp")) else None
        if scores is None or not all(is_plain_float(v) for v in scores.operands):
            continue
        factor = _take_scale(scores, 0) * _take_scale(scores, 1)
        if factor != 1:
            _scale(scores.results[0], factor)


def _scores(power: ir.Operation) -> ir.Operation | None:
    """The product whose exponentials an op computes, if what is made of these enters another product."""
    made = [producer(v) for v in before(power, through=lambda op: is_reduction(op, Facts({})))]
    products = list(dict.fromkeys(op for op in made if op is not None and _is_product(op)))
    entered = any(_is_product(u) for op in after(power) for u in users(op))
    return products[0] if entered and len(products) == 1 else None


def _is_product(op: ir.Operation) -> bool:
    return op.name == "linalg.generic" and isinstance(classify(op), Contraction)


def _take_scale(scores: ir.Operation, number: int) -> float:
    """Read an operand of the product before it is multiplied by a number; returns that, 1 where there is none."""
    factor, value = 1.0, scores.operands[number]
    while (op := producer(value)) is not None and has_one_use(value):
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
    if not in_place(op) or num_inputs(op) != 1 or op.operands[0].type != op.results[0].type:
        return None
    try:
        element = Reader(op.operands[0]).element(op.results[0])
    except UnreadableError:
        return None
    whole = product(itself(op.operands[0]))
    return element[whole] if element.products == {whole} else None


def _scale(value: ir.Value, factor: float) -> None:
    """Let all readers of a value read its product with a number."""
    op, uses = producer(value), [(use.owner.operation, use.operand_number) for use in value.uses]
    assert op is not None
    with ir.InsertionPoint.after(op), op.location:
        scaled = elementwise(lambda a: scalars.mul(a, scalars.like(a, factor)), value)
    for user, number in uses:
        user.operands[number] = scaled


