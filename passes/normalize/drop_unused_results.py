"""Reductions with several results lose those that nobody reads."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from ...dialects import ir, linalg
from ...dialects.walk import collect
from ..infra.base import Pass
from ..ir.edit import clone
from ..ir.structure import body_ops, indexing_maps, num_inputs, terminator_of


@dataclass(frozen=True)
class DropUnusedResults(Pass):
    """Rewrite generics of which some results have no readers, so that greatest elements are a reduction like others.

    Before::

        %m:2 = linalg.generic ins(%x) outs(%least, %zero) { maximumf; cmpf; select; yield %greatest, %place }

    After::

        %m = linalg.generic ins(%x) outs(%least) { maximumf; yield %greatest }

    A result stays whose running value the others are computed from.
    """

    name: ClassVar[str] = "drop-unused-results"

    def apply(self, module: ir.Module) -> None:
        """Rewrite all functions of the module."""
        for op in collect(module, lambda op: op.name == "linalg.generic" and len(op.results) > 1):
            kept = _find_live_results(op)
            if kept and len(kept) < len(op.results):
                _keep(op, kept)


def _find_live_results(op: ir.Operation) -> list[int]:
    """The results that are read, and those that they are computed from."""
    first, block = num_inputs(op), op.regions[0].blocks[0]
    arguments, stored = list(block.arguments), list(terminator_of(op).operands)
    kept: set[int] = set()
    pending = [number for number, result in enumerate(op.results) if any(True for _ in result.uses)]
    while pending:
        kept.add(number := pending.pop())
        needed = _made_from(op, stored[number])
        pending += [i for i in range(len(stored)) if arguments[first + i] in needed and i not in kept]
    return sorted(kept)


def _made_from(op: ir.Operation, value: ir.Value) -> set[ir.Value]:
    """All values of a body that one is computed from, with itself."""
    made = {result: inner for inner in body_ops(op) for result in inner.results}
    found, pending = {value}, [value]
    while pending:
        inner = made.get(pending.pop())
        for operand in inner.operands if inner is not None else ():
            if operand not in found:
                found.add(operand)
                pending.append(operand)
    return found


def _keep(op: ir.Operation, kept: list[int]) -> None:
    """Let an op of some of the results take its place."""
    first, old = num_inputs(op), op.regions[0].blocks[0]
    places = [*range(first), *(first + number for number in kept)]
    maps = indexing_maps(op)
    with ir.InsertionPoint(op), op.location:
        outs = [op.operands[first + number] for number in kept]
        array = ir.ArrayAttr.get([ir.AffineMapAttr.get(maps[place]) for place in places])
        made = linalg.GenericOp(
            [out.type for out in outs], list(op.operands)[:first], outs, array, op.attributes["iterator_types"]
        )
        kinds = [old.arguments[place].type for place in places]
        block = made.regions[0].blocks.append(*kinds, arg_locs=[op.location] * len(kinds))
        mapping: dict[ir.Value, ir.Value] = dict(
            zip((old.arguments[place] for place in places), block.arguments, strict=True)
        )
        stored = list(terminator_of(op).operands)
        needed = set().union(*(_made_from(op, stored[number]) for number in kept))
        with ir.InsertionPoint(block):
            for inner in body_ops(op):
                if any(result in needed for result in inner.results):
                    clone(inner, mapping)
            linalg.YieldOp([mapping.get(stored[number], stored[number]) for number in kept])
    for number, result in zip(kept, made.results, strict=True):
        op.results[number].replace_all_uses_with(result)
    op.erase()
