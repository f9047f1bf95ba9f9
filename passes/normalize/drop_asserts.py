"""Checks inside the bodies of structured ops go: a kernel cannot stop halfway."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from ...dialects import ir
from ...dialects.walk import collect
from ..infra.base import Pass


@dataclass(frozen=True)
class DropAsserts(Pass):
    """Erase ``cf.assert`` in bodies of linalg ops; others are the program's.

    Before::

        linalg.generic ins(%x) { cf.assert %nonzero, "unimplemented: tensor with zero element"; divf; yield }

    After: the division alone. What such a check stands for is a number that the arithmetic gives anyway (an infinity),
    or an index, which `hold-inside` takes care of.
    """

    name: ClassVar[str] = "drop-asserts"

    def apply(self, module: ir.Module) -> None:
        """Rewrite all functions of the module."""
        for op in collect(module, lambda op: op.name == "cf.assert"):
            if _in_structured(op):
                op.erase()


def _in_structured(op: ir.Operation) -> bool:
    outer = op.parent
    while outer is not None:
        if outer.operation.name.startswith("linalg."):
            return True
        outer = outer.operation.parent
    return False
