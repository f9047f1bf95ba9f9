"""Blocks of a weight are split into parts while those before them are multiplied."""

from __future__ import annotations

import math
from dataclasses import dataclass

from ...dialects import arith, ir, memref, scf, tw
from ...dialects.builders import index_constant
from ...dialects.walk import collect, defining_op, enclosing_loops, integer_of
from ..ir.edit import clone

# Pairs of steps that one step of a product splits. With more of them there would be more code than products.
_MOST_PAIRS = 8


@dataclass(frozen=True)
class AheadOf:
    """What a product splits beside itself: a share of the pairs of each step of the next block of its weight.

    split: the loop over a block's steps; ``mapping`` has what it reads and writes for the next block. tile: the number
    of the product's tile, of the ``tiles`` that share the pairs.
    """

    split: ir.Operation
    mapping: dict[ir.Value, ir.Value]
    tile: ir.Value
    tiles: int

    @property
    def pairs(self) -> int:
        """The pairs of a step that this product splits."""
        return -(-_count_trips(_inner_loop(self.split)) // self.tiles)

    def emit(self, step: ir.Value, number: int) -> None:
        """Split one of the pairs of a step, at the insertion point; the last one again where there are no more."""
        inner = _inner_loop(self.split)
        count = _count_trips(inner)
        first = arith.addi(arith.muli(self.tile, index_constant(self.pairs)), index_constant(number))
        body, within = self.split.regions[0].blocks[0], inner.regions[0].blocks[0]
        mapping = {**self.mapping, body.arguments[0]: step}
        if self.tiles * self.pairs > count:
            first = arith.minui(first, index_constant(count - 1))
        mapping[within.arguments[0]] = first
        if len(within.arguments) > 1:
            mapping[within.arguments[1]] = mapping[body.arguments[1]]
        for op in [*list(body.operations)[:-1], *list(within.operations)[:-1]]:
            if op.operation != inner:
                clone(op.operation, mapping)


def plan_ahead(function: ir.Operation) -> dict[ir.Operation, AheadOf]:
    """Take the splits of a weight's blocks out of loops over these, by product that splits the next block meanwhile.

    Before::

        scf.for %n = %lo to %hi step %c1 {
          %parts = scf.for %step ... iter_args(%buffer) { scf.for %pair ... { split %weight[%n] } } {tw.split_ahead}
          scf.for %m = %c0 to %c4 step %c1 { linalg.generic {tw.split_product} ins(%data, %parts, ...) }

    After::

        scf.if %lo < %hi { the split of %weight[%lo] into %buffer }
        scf.for %n = %lo to %hi step %c1 {
          %parts, %others = %buffer and %second, or the other way round
          scf.for %m = %c0 to %c4 step %c1 {
            linalg.generic ins(%data, %parts, ...)  // and a share of the split of %weight[%n + 1] into %others

    Vectors split while matrices are multiplied, each in a part of the processor of its own: 128 rows of 768 by 768
    numbers take 0.75 of the time.
    """
    splits: dict[ir.Operation, list[ir.Operation]] = {}
    for split in collect(function, lambda op: tw.SPLIT_AHEAD in op.attributes, "scf.for"):
        del split.attributes[tw.SPLIT_AHEAD]
        around = enclosing_loops(split)
        if around and split.parent == around[0] and integer_of(around[0].operands[2]) == 1:
            splits.setdefault(around[0], []).append(split)
    found: dict[ir.Operation, AheadOf] = {}
    for loop, inside in splits.items():
        if len(inside) == 1:  # of several, one of blocks of fewer rows, each has but a part of the loop's products
            found |= _plan(inside[0], loop)
    return found


def _plan(split: ir.Operation, around: ir.Operation) -> dict[ir.Operation, AheadOf]:
    products = collect(around, lambda op: tw.SPLIT_PRODUCT in op.attributes, "linalg.generic")
    if not all(_is_behind(product, split) for product in products):
        return {}  # others are multiplied before, of a part of the loop's steps
    trips = [_list_trips(product, around) for product in products]
    counts = [math.prod(count for _, count in each) for each in trips if each is not None]
    tiles = sum(counts)
    few = tiles * _MOST_PAIRS < _count_trips(_inner_loop(split))
    if len(counts) < len(products) or few or (buffer := _find_buffer(split, around)) is None:
        return {}
    reads = _find_slice(split, around)
    first, end, _, *_ = around.operands
    counter, handed_on = around.regions[0].blocks[0].arguments[0], len(split.results) > 0
    with ir.InsertionPoint(around), split.location:
        second = memref.AllocOp(ir.MemRefType(buffer.type), [], [], alignment=64).memref
        some = arith.cmpi(arith.CmpIPredicate.ult, first, end)
        with ir.InsertionPoint(scf.IfOp(some).then_block):
            begun: dict[ir.Value, ir.Value] = {counter: first}
            for op in (*reads, split):
                clone(op, begun)
            scf.YieldOp([])
    with ir.InsertionPoint(split), split.location:
        passed = arith.andi(arith.subi(counter, first), index_constant(1))
        even = arith.cmpi(arith.CmpIPredicate.eq, passed, index_constant(0))
        current, other = arith.select(even, buffer, second), arith.select(even, second, buffer)
        following = arith.minui(arith.addi(counter, index_constant(1)), arith.subi(end, index_constant(1)))
        mapping: dict[ir.Value, ir.Value] = {counter: following}
        for op in reads:
            clone(op, mapping)
        mapping[split.regions[0].blocks[0].arguments[1] if handed_on else buffer] = other
    if handed_on:
        split.results[0].replace_all_uses_with(current)
    else:
        _exchange(buffer, current, split)
    found, before = {}, 0
    for product, loops, count in zip(products, trips, counts, strict=True):
        with ir.InsertionPoint(product), product.location:
            place = index_constant(0)
            for loop_counter, trip in loops or ():
                place = arith.addi(arith.muli(place, index_constant(trip)), loop_counter)
            tile = arith.addi(place, index_constant(before))
        found[product] = AheadOf(split, mapping, tile, tiles)
        before += count
    return found


def _find_buffer(split: ir.Operation, around: ir.Operation) -> ir.Value | None:
    """The buffer that a split fills, allocated before the loop around it; None where it fills anything else."""
    if len(split.results):
        buffers = {split.operands[3]}
    else:
        buffers = {op.operands[1] for op in collect(split, lambda op: True, "vector.transfer_write")}
    made = [defining_op(buffer) for buffer in buffers]
    if len(made) != 1 or made[0] is None or made[0].name != "memref.alloc":
        return None
    if made[0].block == split.block:
        made[0].move_before(around)
    return made[0].results[0]


def _exchange(buffer: ir.Value, current: ir.Value, split: ir.Operation) -> None:
    """Let all that is behind a split in its block read ``current`` in place of the buffer that it fills."""
    for use in list(buffer.uses):
        user = use.owner.operation
        for number, operand in enumerate(user.operands if _is_behind(user, split) else ()):
            if operand == buffer:
                user.operands[number] = current


def _is_behind(op: ir.Operation, split: ir.Operation) -> bool:
    """Return whether an op, or what it lies in, is in a split's block, behind that."""
    while op.block != split.block:
        if op.parent is None or op.name == "func.func":
            return False
        op = op.parent.operation
    return split.is_before_in_block(op)


def _find_slice(split: ir.Operation, around: ir.Operation) -> list[ir.Operation]:
    """The ops of a loop's body that make what a split in it reads, in order."""
    body = around.regions[0].blocks[0]
    wanted: set[ir.Operation] = set()
    pending = [value for op in collect(split, lambda op: True) for value in op.operands]
    while pending:
        op = defining_op(pending.pop())
        if op is not None and op.block == body and op != split and op not in wanted:
            wanted.add(op)
            pending += list(op.operands)
    return [op.operation for op in body.operations if op.operation in wanted]


def _list_trips(product: ir.Operation, around: ir.Operation) -> list[tuple[ir.Value, int]] | None:
    """The counters of the loops around a product within another, outermost first; None where there is anything else."""
    found: list[tuple[ir.Value, int]] = []
    op = product.parent
    while op is not None and op.operation != around:
        loop = op.operation
        bounds = [integer_of(value) for value in loop.operands][:3] if loop.name == "scf.for" else []
        if len(bounds) < 3 or bounds[0] != 0 or bounds[1] is None or bounds[2] != 1:
            return None
        found.insert(0, (loop.regions[0].blocks[0].arguments[0], bounds[1]))
        op = loop.parent
    return found


def _inner_loop(split: ir.Operation) -> ir.Operation:
    """The loop over the pairs of a step."""
    return next(op.operation for op in split.regions[0].blocks[0].operations if op.operation.name == "scf.for")


def _count_trips(loop: ir.Operation) -> int:
    count = integer_of(loop.operands[1])
    assert count is not None  # a number that the schedule says
    return count
