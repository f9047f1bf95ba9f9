"""Loops of accumulators take several steps at once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from ...dialects import ir, transform, tw
from ...dialects.walk import collect
from ..infra.base import Pass
from ..ir.kernel import integer_attr, scheduled_functions


@dataclass(frozen=True)
class UnrollSums(Pass):
    """Unroll the loops that the schedule marks: counters, addresses and branches take slots of their multiply-adds.

    Before::

        scf.for %k = 0 to 512 iter_args(%acc: vector<14x32xf32>) {
          %w = vector.load %weight[%n, %k, %c0]
        } {tw.unroll = 4}

    After::

        scf.for %k = 0 to 512 step 4 iter_args(%acc: vector<14x32xf32>) {
          %w0 = vector.load %weight[%n, %k, %c0]
          %w1 = vector.load %weight[%n, %k + 1, %c0]
          ...

    A loop without a mark stays.
    """

    name: ClassVar[str] = "unroll-sums"

    def apply(self, module: ir.Module) -> None:
        """Unroll in all scheduled functions of the module."""
        for function in scheduled_functions(module):
            marks = [ir.IntegerAttr(op.attributes[tw.UNROLL]).value for op in collect(function, _is_marked, "scf.for")]
            if not marks:
                continue
            with transform.sequence() as script:
                for factor in sorted(set(marks)):
                    found = transform.match(script.root, "scf.for", attributes={tw.UNROLL: integer_attr(factor)})
                    with transform.foreach(found) as loop:
                        transform.unroll(loop, factor)
            transform.apply(script, function)
            for op in collect(function, _is_marked, "scf.for"):
                del op.attributes[tw.UNROLL]


def _is_marked(op: ir.Operation) -> bool:
    return tw.UNROLL in op.attributes
