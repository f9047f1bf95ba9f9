"""Elementwise ops that choose, row by row, between a tensor as it is and something else."""

from __future__ import annotations

from dataclasses import dataclass

from ...dialects import ir
from ...dialects.walk import defining_op
from ..ir.routine_ops import base_of
from ..ir.structure import (
    dim_of,
    index_dim,
    indexing_maps,
    is_projection,
    iterator_types,
    num_inputs,
    shape_of,
    terminator_of,
)


@dataclass(frozen=True)
class MaskedWrite:
    """An elementwise op whose result is its operand ``old``, but ``new`` where a ``condition`` holds.

    Both are values of the op's body; ``negated``: it is ``new`` where the condition does not hold. ``loops`` are those
    that the condition depends on, in order, of more than one step; the innermost loop is none of them.
    """

    op: ir.Operation
    old: ir.Value
    new: ir.Value
    condition: ir.Value
    negated: bool
    loops: tuple[int, ...]


def find_masked_write(value: ir.Value, old: ir.Value) -> MaskedWrite | None:
    """What writes over some rows of ``old`` and gives ``value``; None for any other value."""
    op = defining_op(base_of(value, ("tensor.cast",)))
    if op is None or op.name != "linalg.generic" or len(op.results) != 1 or set(iterator_types(op)) != {"parallel"}:
        return None
    inputs, maps, block = list(op.operands)[: num_inputs(op)], indexing_maps(op), op.regions[0].blocks[0]
    chosen = _find_choice(op)
    if old not in inputs or chosen is None or old.type != op.results[0].type:
        return None
    number, identity = inputs.index(old), ir.AffineMap.get_identity(len(iterator_types(op)))
    before, (condition, *sides) = _find_wide(block.arguments[number]), chosen.operands
    if maps[number] != identity or maps[-1] != identity or not all(map(is_projection, maps)):
        return None
    used = [len(list(value.uses)) for value in (block.arguments[number], before, block.arguments[len(inputs)])]
    if before not in sides or used != [1, 1, 0]:
        return None
    negated = sides[0] == before
    loops = _find_loops(op, condition)
    if not loops or loops[-1] == len(iterator_types(op)) - 1:
        return None
    return MaskedWrite(op, old, sides[1] if negated else sides[0], condition, negated, loops)


def _find_choice(op: ir.Operation) -> ir.Operation | None:
    """The choice that an op's body gives, which it may make between narrow floats as wider ones."""
    made = defining_op(terminator_of(op).operands[0])
    if made is not None and made.name == "arith.truncf":
        made = defining_op(made.operands[0])
    return made if made is not None and made.name == "arith.select" else None


def _find_wide(argument: ir.Value) -> ir.Value:
    """A float of a body's as what it is widened to, if that alone reads it."""
    users = [use.owner.operation for use in argument.uses]
    return users[0].results[0] if [user.name for user in users] == ["arith.extf"] else argument


def list_makers(value: ir.Value) -> list[ir.Operation]:
    """The ops of a body that a value of it is made by, each after those that it needs."""
    op = defining_op(value)
    if op is None:
        return []
    found = [maker for operand in op.operands for maker in list_makers(operand)]
    return list(dict.fromkeys([*found, op]))


def list_read_operands(op: ir.Operation, value: ir.Value) -> list[tuple[int, ir.Value]]:
    """The operands that a value of an op's body is made of: their numbers, and what the body calls them."""
    needed = {value, *(operand for maker in list_makers(value) for operand in maker.operands)}
    arguments = list(op.regions[0].blocks[0].arguments)[: num_inputs(op)]
    return [(number, argument) for number, argument in enumerate(arguments) if argument in needed]


def _find_loops(op: ir.Operation, value: ir.Value) -> tuple[int, ...]:
    """The loops of more than one step that a value of an op's body depends on."""
    maps, shape = indexing_maps(op), shape_of(op.results[0])
    found = {index_dim(maker) for maker in list_makers(value) if maker.name == "linalg.index"}
    read = [dim_of(e) for number, _ in list_read_operands(op, value) for e in maps[number].results]
    return tuple(sorted(dim for dim in {*found, *read} if dim is not None and shape[dim] != 1))
