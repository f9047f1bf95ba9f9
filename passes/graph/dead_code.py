"""Removes ops and inputs that nobody reads."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from ...dialects import ir
from ..infra.base import Pass
from ..ir.edit import erase_dead, list_programs
from ..ir.structure import list_ops
from .rewriting.inline import drop_unused_inputs


@dataclass(frozen=True)
class DeadCode(Pass):
    """Erase ops without users, and inputs that an op's body does not use.

    Before::

        %a = linalg.generic {exp} ins(%y)
        %b = linalg.generic {(p, q) -> exp(p)} ins(%x, %a)
        return %b

    After::

        %b = linalg.generic {exp} ins(%x)
        return %b

    Arguments of functions stay, whether they are used or not: they are the model's.
    """

    name: ClassVar[str] = "dead-code"

    def apply(self, module: ir.Module) -> None:
        """Rewrite all programs of the module, each from its end."""
        for function in list_programs(module):
            for op in reversed(list_ops(function)):
                if op.name == "linalg.generic":
                    drop_unused_inputs(op)
            erase_dead(function)
