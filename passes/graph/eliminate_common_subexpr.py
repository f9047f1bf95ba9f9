"""Equal ops are computed once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from ...dialects import ir
from ...dialects.context import run_pipeline
from ..infra.base import Pass


@dataclass(frozen=True)
class EliminateCommonSubexpr(Pass):
    """Let the users of an op that equals an earlier one read that one: upstream's ``cse``, which keeps attributes.

    Before::

        %a = linalg.generic {exp} ins(%x)
        %b = linalg.generic {exp} ins(%x)
        %c = linalg.generic {add} ins(%a, %b)

    After::

        %a = linalg.generic {exp} ins(%x)
        %c = linalg.generic {add} ins(%a, %a)

    The op that stays keeps its own location. Ops that differ in any attribute, or in their bodies, are not equal.
    """

    name: ClassVar[str] = "eliminate-common-subexpr"

    def apply(self, module: ir.Module) -> None:
        """Rewrite all functions of the module."""
        run_pipeline(module.operation, "builtin.module(cse)")
