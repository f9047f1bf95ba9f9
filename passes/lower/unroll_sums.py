"""Loops of accumulators take several steps at once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from ...dialects import ir, transform
from ...dialects.walk import collect
from ..infra import Pass
from ..kernel import scheduled_functions

_MARK = "tw.unroll"


@dataclass(frozen=True)
class UnrollSums(Pass):
    """Unroll the loops that carry vectors and do nothing but multiply and add to them.

    A step of a register tile is some 28 multiply-adds; counters, addresses and branches take slots of the same ports.

    Before::

        scf.for %k = 0 to 512 iter_args(%acc: vector<14x32xf32>) {
          %w = vector.load %weight[%n, %k, %c0]

    After::

        scf.for %k = 0 to 512 step 4 iter_args(%acc: vector<14x32xf32>) {
          %w0 = vector.load %weight[%n, %k, %c0]
          %w1 = vector.load %weight[%n, %k + 1, %c0]
          ...

    Options:
        factor: how many steps at once; a loop that it does not divide stays.
        steps: loops of fewer steps stay: what is saved no longer pays for the longer code.
    """

    name: ClassVar[str] = "unroll-sums"
    opt_level: ClassVar[int] = 2
    factor: int = 4
    steps: int = 512

    def apply(self, module: ir.Module) -> None:
        """Unroll in all scheduled functions of the module."""
        for function in scheduled_functions(module):
            loops = collect(
                function, lambda op: _is_sum(op) and _trip(op) >= self.steps and _trip(op) % self.factor == 0
            )
            if not loops:
                continue
            for loop in loops:
                loop.attributes[_MARK] = ir.UnitAttr.get()
            with transform.sequence() as script:
                found = transform.match(script.root, "scf.for", attributes={_MARK: ir.UnitAttr.get()})
                with transform.foreach(found) as loop:
                    transform.unroll(loop, self.factor)
            transform.apply(script, function)
            for op in collect(function, lambda op: _MARK in op.attributes):
                del op.attributes[_MARK]


def _is_sum(op: ir.Operation) -> bool:
    if op.name != "scf.for" or not len(op.results) or _trip(op) == 0:
        return False
    inner = [o.operation for o in op.regions[0].blocks[0].operations]
    carries = all(isinstance(r.type, ir.VectorType) for r in op.results)
    return carries and not any(len(o.regions) for o in inner) and any(o.name == "vector.fma" for o in inner)


def _trip(op: ir.Operation) -> int:
    """The loop's steps; 0 where they are known at run time only."""
    bounds = [v.owner.operation if isinstance(v, ir.OpResult) else None for v in list(op.operands)[:3]]
    numbers = [
        ir.IntegerAttr(b.attributes["value"]).value if b is not None and b.name == "arith.constant" else None
        for b in bounds
    ]
    lower, upper, step = numbers
    return upper if lower == 0 and step == 1 and upper is not None else 0
