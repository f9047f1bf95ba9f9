"""The regions of control flow that the program carries out become functions, which graph passes treat as programs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

from ...dialects import func, ir, tw
from ...dialects.walk import defining_op
from ..infra.base import Pass
from ..ir.edit import clone, is_cheap, is_size, list_programs, program_order, string_attr
from ..ir.routine_ops import call_body, is_control
from ..ir.signatures import describe_params, list_params, update_signature
from ..ir.structure import list_ops
from ..ir.uses import find_needed_values


@dataclass(frozen=True)
class OutlineControl(Pass):
    """Move each region of an op that has ``tw.control`` to a private function on the values that it captures.

    Before::

        %r = scf.if %c -> (tensor<?xf32>) {
          %a = linalg.generic {exp} ins(%x)
          scf.yield %a
        } else {
          scf.yield %x
        } {tw.control}

    After::

        %r = scf.if %c -> (tensor<?xf32>) {
          %a = call @main.if.0(%x)
          scf.yield %a
        } else {
          %b = call @main.if.1(%x)
          scf.yield %b
        } {tw.control}
        func.func private @main.if.0(%x) -> tensor<?xf32> attributes {tw.body} { ... }
        func.func private @main.if.1(%x) -> tensor<?xf32> attributes {tw.body} { return %x }

    The test of a loop stays. What is cheap is cloned into the function; a body that has such ops itself is outlined in
    turn. An argument that is always a weight has the weight's ``tw.param``, until ``split-prepare``. A region that only
    hands values on is outlined as well: else upstream's canonicalization would make the choice a kernel.
    """

    name: ClassVar[str] = "outline-control"

    def apply(self, module: ir.Module) -> None:
        """Outline the regions of all programs, also those of the functions that this makes."""
        pending = list_programs(module)
        count = 0
        while pending:
            function = pending.pop(0)
            order = program_order(function)
            for op in filter(is_control, list_ops(function)):
                for block in _bodies(op):
                    title = f"{string_attr(function.attributes, 'sym_name')}.{op.name.removeprefix('scf.')}.{count}"
                    pending.append(_outline(module, title, block, order, list_params(function)))
                    count += 1


def _bodies(op: ir.Operation) -> list[ir.Block]:
    """The blocks of an op that give values, not the test of a loop, which is arithmetic on scalars."""
    blocks = [block for region in op.regions for block in region.blocks]
    return [block for block in blocks if block.operations[len(block.operations) - 1].operation.name == "scf.yield"]


def _outline(
    module: ir.Module, title: str, block: ir.Block, order: dict[ir.Value, int], weights: Mapping[ir.Value, str]
) -> func.FuncOp:
    """Move the ops of a block to a function, and call that; ``order`` is that of the ops around."""
    *ops, end = [op.operation for op in block.operations]
    around = _cheap_around([*ops, end], order)
    inside = {r for op in (*around, *ops) for r in op.results}
    used = dict.fromkeys(v for op in (*around, *ops, end) for v in find_needed_values(op))
    inputs, results = [v for v in used if v not in inside], list(end.operands)
    location = end.location
    with location:
        with ir.InsertionPoint(module.body):
            kinds = [v.type for v in inputs], [v.type for v in results]
            function = func.FuncOp(title, kinds, visibility="private")
        function.attributes[tw.BODY] = ir.UnitAttr.get()
        entry = function.add_entry_block([location] * len(inputs))
        update_signature(function, describe_params([weights.get(v, "") for v in inputs]))
        mapping: dict[ir.Value, ir.Value] = dict(zip(inputs, entry.arguments, strict=True))
        with ir.InsertionPoint(entry):
            for op in (*around, *ops):
                clone(op, mapping)
            func.ReturnOp([mapping[v] for v in results])
        with ir.InsertionPoint(end):
            call = call_body(title, kinds[1], inputs)
    for i, value in enumerate(call.results):
        end.operands[i] = value
    for op in reversed(ops):
        op.erase()
    return function


def _cheap_around(ops: Sequence[ir.Operation], order: dict[ir.Value, int]) -> list[ir.Operation]:
    """The cheap ops outside a block that its ops use, in order. Sizes are passed as arguments instead."""
    found: dict[ir.Operation, None] = {}
    pending = list(ops)
    while pending:
        for value in find_needed_values(pending.pop()):
            op = defining_op(value)
            if op is not None and value in order and op not in found and is_cheap(op) and not is_size(op):
                found[op] = None
                pending.append(op)
    return sorted(found, key=lambda op: order[op.results[0]])
