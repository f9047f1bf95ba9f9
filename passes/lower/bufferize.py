"""Tensors become buffers, in place."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from ...dialects import ir, linalg, memref, tw
from ..infra.base import ModuleForm, Pass
from ..ir.kernel import list_functions, run_upstream
from ..ir.rewrite import rewrite
from .carried import write_carried

_UPSTREAM = (
    "eliminate-empty-tensors",
    "one-shot-bufferize{bufferize-function-boundaries=true function-boundary-type-conversion=identity-layout-map}",
    "canonicalize",
    "cse",
    "func.func(buffer-hoisting,buffer-loop-hoisting)",
    "convert-bufferization-to-memref",
    "canonicalize",
    "cse",
)


@dataclass(frozen=True)
class Bufferize(Pass):
    """One-shot bufferization; results are written where they belong, without a copy.

    Before::

        %t = bufferization.to_tensor %x restrict
        %d = bufferization.to_tensor %r restrict writable
        %y = linalg.generic ins(%t) outs(%d)
        bufferization.materialize_in_destination %y in restrict writable %r

    After::

        linalg.generic ins(%x) outs(%r)

    What cannot be in place becomes a ``memref.alloc`` outside of the loops, for ``plan-scratch``. A copy is a
    ``linalg.copy``: a strided ``memref.copy`` would call a slow function of MLIR's C runtime.
    """

    name: ClassVar[str] = "bufferize"
    form: ClassVar[ModuleForm | None] = ModuleForm.MEMORY

    def apply(self, module: ir.Module) -> None:
        """Bufferize all functions of the module; those that have no schedule may have loops of any kind."""
        for function in list_functions(module):
            if tw.SCHEDULE not in function.attributes:
                write_carried(function)
        run_upstream(module, _UPSTREAM)
        rewrite(module, memref.CopyOp, _lower_copy)


def _lower_copy(op: ir.Operation) -> list[ir.Value]:
    linalg.copy(op.operands[0], op.operands[1])
    return []
