"""Vectors that registers do not hold lie on the stack at addresses of whole lines."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

from ...core.target import Target, detect_host
from ...dialects import ir
from ...dialects.types import element_bits
from ...dialects.walk import enclosing_loops, find_named
from ..infra.base import Pass
from ..ir.kernel import list_functions


@dataclass(frozen=True)
class AlignStack(Pass):
    """Have LLVM align the stack of a kernel whose loops carry more vectors than there are registers.

    What it moves to the stack else begins wherever the caller's stack does: at three of four places of x86's, each move
    of a vector of 64 bytes is one of two lines. Products with weights of four bits, whose sums over all blocks wait on
    the stack while a block's are made, took 1.65 times as long in most processes.

    Before::

        func.func @k(...) {
          scf.for ... iter_args(%sum = %zero: vector<6x64xf32>) {
            scf.for ... iter_args(%block = %zero: vector<6x64xf32>)

    After::

        func.func @k(...) attributes {passthrough = ["stackrealign"]} {

    All others keep the register that points to such a stack.
    """

    name: ClassVar[str] = "align-stack"
    target: Target | None = None

    def apply(self, module: ir.Module) -> None:
        """Mark the functions of the module."""
        target = self.target or detect_host()
        if target.arch != "x86":  # others move parts of vectors anyway
            return
        for function in list_functions(module):
            held = (_count_carried(loop, target) for loop in find_named(function, "scf.for"))
            if max(held, default=0) > target.registers:
                function.attributes["passthrough"] = ir.ArrayAttr.get([ir.StringAttr.get("stackrealign")])


def _count_carried(loop: ir.Operation, target: Target) -> int:
    """The registers of the vectors that a loop and those around it hand on."""
    results = [result.type for each in (loop, *enclosing_loops(loop)) for result in each.results]
    kinds = [ir.VectorType(kind) for kind in results if isinstance(kind, ir.VectorType)]
    bits = (math.prod(kind.shape) * element_bits(kind.element_type) for kind in kinds)
    return sum(-(-n // (32 * target.lanes)) for n in bits)
