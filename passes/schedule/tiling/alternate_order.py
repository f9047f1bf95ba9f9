"""The order of a nest's blocks in the steps of a loop around it that read the same weights again."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Sequence

from ....core.target import Target
from ....dialects import arith, ir
from ....dialects.builders import index_constant
from ....dialects.types import nbytes
from ....dialects.walk import enclosing_loops, integer_of, is_made_in
from .nest_loops import find_loops

# Weights of less than this share of the second cache are still there in the next step, whatever the order.
_SHARE_KEPT = 0.5


def alternate_order(made: ir.Value, op: ir.Operation, inputs: Sequence[ir.Value], target: Target) -> bool:
    """Let a nest begin with its last block in every second step of the loops around it; returns whether it does now.

    Weights that are larger than the second cache would all come from behind it in each step: what is needed first was
    dropped for what came last. Back and forth, a step begins with what the one before has left there. An LSTM of 512
    units (4 MB of weights) takes 0.68 of the time on a CPU with 2 MB.

    Before::

        scf.for %t ... {
          scf.for %i = 0 to 64 { the product with block %i of %w }

    After::

        scf.for %t ... {
          scf.for %i = 0 to 64 {
            %block = select(%t is odd, 63 - %i, %i)

    Args:
        made: the nest's result; nothing happens unless it is that of a loop over blocks, which are independent.
        op: what the nest takes the place of.
        inputs: what the nest reads, of known sizes.
        target: says how large the second cache is.
    """
    nests, loops = find_loops(made), _find_repeats(op, inputs, target)
    if not nests or not loops:
        return False
    nest = nests[0]  # behind it may be one of a smaller last block
    lower, upper, step = list(nest.operands)[:3]
    if integer_of(step) != 1:
        return False
    block = nest.regions[0].blocks[0]
    counter = block.arguments[0]
    uses = [(use.owner.operation, use.operand_number) for use in counter.uses]
    with ir.InsertionPoint.at_block_begin(block), nest.location:
        last = arith.subi(upper, step)
        mirrored = arith.subi(arith.addi(lower, last), counter)
        chosen = arith.select(_is_odd(loops), mirrored, counter)
    for user, number in uses:
        user.operands[number] = chosen
    return True


def _find_repeats(op: ir.Operation, inputs: Sequence[ir.Value], target: Target) -> list[ir.Operation]:
    """The loops around an op whose steps read the same weights again, the innermost first; none if these are few."""
    if not inputs:
        return []
    weights = max(inputs, key=lambda value: nbytes(value.type))
    if nbytes(weights.type) < _SHARE_KEPT * target.l2_bytes:
        return []
    return list(itertools.takewhile(lambda loop: not is_made_in(weights, loop), enclosing_loops(op)))


def _is_odd(loops: Sequence[ir.Operation]) -> ir.Value:
    """Whether the number of a step, counted over all loops, is odd, at the insertion point."""
    numbers = []
    for loop in loops:
        counter, step = loop.regions[0].blocks[0].arguments[0], loop.operands[2]
        numbers.append(counter if integer_of(step) == 1 else arith.divui(counter, step))
    number = functools.reduce(arith.addi, numbers)
    return arith.cmpi(arith.CmpIPredicate.ne, arith.andi(number, index_constant(1)), index_constant(0))
