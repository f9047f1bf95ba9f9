"""Loops of scripts count their steps, so that threads can share them and tiles lie at multiples of those."""

from __future__ import annotations

from collections.abc import Sequence

from ....dialects import arith, func, ir, scf, tw
from ....dialects.builders import index_constant
from ....dialects.walk import collect, defining_op, integer_of
from ...ir.edit import replace
from ..tiles.regions import Linear, NotSchedulable


def share_loops(function: func.FuncOp) -> int:
    """Let all loops of a kernel on buffers count steps, and those that are marked do the call's share of them.

    Returns the steps that are shared; 0 where no loop is marked. Raises NotSchedulable for steps that only the run
    knows, and for marked loops that are not parts of one.
    """
    for op in collect(function, lambda _: True, "affine.delinearize_index"):
        _divide_steps(op)
    loops = collect(function, lambda _: True, "scf.for")
    for loop in reversed(loops):  # those around others first
        count_steps(loop)
    shared = find_shared(function)
    if shared and (steps := take_shares(shared, function)):
        return steps
    if shared:
        raise NotSchedulable("threads share the steps of one loop, and several are marked")
    return 0


def find_shared(function: func.FuncOp) -> list[ir.Operation]:
    """The loops that are marked: threads share their steps."""
    return collect(function, lambda op: tw.SHARED_LOOP in op.attributes, "scf.for")


def take_shares(loops: Sequence[ir.Operation], function: func.FuncOp) -> int:
    """Let loops do the call's share of their steps; returns how many there are.

    They are parts of one loop, whose smaller last step has been taken apart. Returns 0, and leaves them as they are,
    where they are not: one may read what another one has made in the steps of other calls.
    """
    lo, hi = list(function.arguments)[-2:]
    spans = [count_steps(loop) for loop in loops]
    if [begin for begin, _ in spans] != [0, *(end for _, end in spans[:-1])]:
        return 0
    for loop, (begin, end) in zip(loops, spans, strict=True):
        del loop.attributes[tw.SHARED_LOOP]
        if len(loops) == 1:
            loop.operands[0], loop.operands[1] = lo, hi
            continue
        with ir.InsertionPoint(loop):
            loop.operands[0], loop.operands[1] = arith.maxui(lo, loop.operands[0]), arith.minui(hi, loop.operands[1])
            if end - begin == 1:
                _take_once(loop)
    return spans[-1][1]


def _take_once(loop: ir.Operation) -> None:
    """A branch in place of a loop of one step, which lies at a number.

    Out of a loop its place in the result would go, with whatever is computed for it. Each call would then read that
    place before the step and write it behind, also one whose share the step is not: over what another thread has made.
    """
    body = loop.regions[0].blocks[0]
    given = list(loop.operands)[3:]
    some = arith.cmpi(arith.CmpIPredicate.ult, *list(loop.operands)[:2])
    choice = scf.IfOp(some, [value.type for value in given], has_else=True)
    with ir.InsertionPoint(choice.regions[1].blocks[0]):
        scf.YieldOp(given)
    for argument, value in zip(body.arguments, (loop.operands[0], *given), strict=True):
        argument.replace_all_uses_with(value)
    for op in list(body.operations):
        choice.regions[0].blocks[0].append(op.operation)
    replace(loop, list(choice.results))


def _divide_steps(op: ir.Operation) -> None:
    """The steps of each of several loops that are one, from that one's: signed division would be several ops more."""
    position, basis = op.operands[0], list(ir.DenseI64ArrayAttr(op.attributes["static_basis"]))
    made: list[ir.Value] = []
    with ir.InsertionPoint(op):
        for steps in reversed(basis[1:]):
            made.insert(0, arith.remui(position, index_constant(steps)))
            position = arith.divui(position, index_constant(steps))
    replace(op, [position, *made])


def count_steps(loop: ir.Operation) -> tuple[int, int]:
    """Let a loop count its steps; returns the number of the first one, and the one after the last.

    Its bounds are numbers, and whole steps lie before the first.
    """
    bounds = [as_linear(value) for value in list(loop.operands)[:3]]
    begin, end, step = (bound.const for bound in bounds)
    if any(bound.terms for bound in bounds) or begin % step:
        raise NotSchedulable("a loop whose steps only the run knows")
    first, after = begin // step, -(-end // step)
    with ir.InsertionPoint(loop):
        for number, bound in enumerate((first, after, 1)):
            loop.operands[number] = index_constant(bound)
    body = loop.regions[0].blocks[0]
    counter = body.arguments[0]
    users = [use.owner for use in counter.uses]
    alone = begin + step >= end
    if users and (step > 1 or alone):
        with ir.InsertionPoint.at_block_begin(body):
            element = index_constant(begin) if alone else arith.muli(counter, index_constant(step))
        for user in users:
            for number, operand in enumerate(user.operands):
                if operand == counter:
                    user.operands[number] = element
    return first, after


def as_linear(value: ir.Value) -> Linear:
    """An index in terms of others, as far as sums and products with numbers make it."""
    number, op = integer_of(value), defining_op(value)
    if number is not None or op is None:
        return Linear(0, ((value, 1),)) if number is None else Linear(number)
    made = None
    if op.name in ("arith.addi", "arith.muli"):
        a, b = map(as_linear, op.operands)
        made = a + b if op.name == "arith.addi" else _multiply(a, b)
    elif op.name == "affine.apply":
        indexing_map = ir.AffineMapAttr(op.attributes["map"]).value
        made = _evaluate_map(indexing_map.results[0], indexing_map.n_dims, [as_linear(each) for each in op.operands])
    return Linear(0, ((value, 1),)) if made is None else made


def _multiply(a: Linear, b: Linear) -> Linear | None:
    if not b.terms:
        return a * b.const
    return None if a.terms else b * a.const


def _evaluate_map(expression: ir.AffineExpr, dims: int, operands: Sequence[Linear]) -> Linear | None:
    """A sum of multiples of the operands, dims first; None for anything else."""
    if isinstance(expression, ir.AffineConstantExpr):
        return Linear(expression.value)
    if isinstance(expression, ir.AffineDimExpr | ir.AffineSymbolExpr):
        return operands[expression.position + (dims if isinstance(expression, ir.AffineSymbolExpr) else 0)]
    if not isinstance(expression, ir.AffineAddExpr | ir.AffineMulExpr):
        return None
    a, b = (_evaluate_map(each, dims, operands) for each in (expression.lhs, expression.rhs))
    if a is None or b is None:
        return None
    return a + b if isinstance(expression, ir.AffineAddExpr) else _multiply(a, b)
