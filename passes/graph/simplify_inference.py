"""Removes ops that do nothing at inference: dropouts, identities, multiplications by one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from ...dialects import ir
from ...dialects.context import run_pipeline
from ..analysis.groups import OpFacts, is_map
from ..infra.base import Pass
from ..ir.edit import drop_identity, list_programs, splat_of
from ..ir.structure import list_ops
from .rewriting.inline import drop_unused_inputs, fold_scalars


@dataclass(frozen=True)
class SimplifyInference(Pass):
    """Drop elementwise ops that store what they read, once their constants are known: dropouts, identities.

    Before::

        %ones = linalg.fill ins(%one)                                 // the mask of a dropout that keeps everything
        %d = linalg.generic {(a, m) -> a * m / 1.0} ins(%x, %ones)

    After: ``%x``. Only what is exact for every number goes: ``x * 1``, ``x / 1``, ``x - 0``, ``x + -0`` and a choice
    whose condition is constant; ``x + 0`` stays, as it makes +0 of -0.
    """

    name: ClassVar[str] = "simplify-inference"

    def apply(self, module: ir.Module) -> None:
        """Let bodies use the constants that operands are filled with, and fold what that makes trivial."""
        for function in list_programs(module):
            for op in list_ops(function):
                if op.name == "linalg.generic" and any(splat_of(v) is not None for v in op.operands):
                    _use_constants(op)
        run_pipeline(module.operation, "builtin.module(canonicalize)")
        for function in list_programs(module):
            for op in list_ops(function):
                if op.name == "linalg.generic":
                    drop_identity(drop_unused_inputs(op))  # of a choice that is made, the side that is not taken


def _use_constants(op: ir.Operation) -> None:
    if is_map(op, OpFacts({})):
        fold_scalars(op)
