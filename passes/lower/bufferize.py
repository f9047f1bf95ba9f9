"""Tensors become buffers, in place."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from ...dialects import ir, linalg, memref, tw, vector
from ...dialects.builders import element_of, index_constant, scalar
from ...dialects.types import element_bits
from ...dialects.walk import find_named
from ..infra.base import ModuleForm, Pass
from ..ir.kernel import has_only_nests, list_functions, run_upstream, scheduled_functions, takes_sizes
from ..ir.rewrite import rewrite
from .carried import write_carried

_IN_PLACE = (
    "eliminate-empty-tensors",
    "one-shot-bufferize{bufferize-function-boundaries=true function-boundary-type-conversion=identity-layout-map}",
)
_LOOPS = ("canonicalize", "cse")  # buffers that loops hand on; a nest of tiles has none
_ALLOCATED = ("func.func(buffer-hoisting,buffer-loop-hoisting)",)
_SIMPLER = ("canonicalize",)  # what is simplified by the patterns of `lower-transfers` in a nest of known sizes
# Ops without which passes have nothing to do, as in most nests of tiles.
_NEEDS = {
    "eliminate-empty-tensors": ["tensor.empty"],
    "convert-bufferization-to-memref": [
        f"bufferization.{name}"
        for name in ("alloc_tensor", "clone", "dealloc", "dealloc_tensor", "to_buffer", "to_tensor")
    ],
}

# Elements of a copy that is one vector.
_LONGEST_ROW = 256


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

    What cannot be in place becomes a ``memref.alloc`` outside of the loops, for ``plan-scratch``. A copy of a tile's
    row is a vector, any other one a ``linalg.copy``: a strided ``memref.copy`` would call a slow function of MLIR's C
    runtime.
    """

    name: ClassVar[str] = "bufferize"
    form: ClassVar[ModuleForm | None] = ModuleForm.MEMORY

    def apply(self, module: ir.Module) -> None:
        """Bufferize all functions of the module; those that have no schedule may have loops of any kind."""
        for function in list_functions(module):
            if tw.SCHEDULE not in function.attributes and tw.SCRIPTED not in function.attributes:
                write_carried(function)
        nests = has_only_nests(module)
        run_upstream(module, (*_IN_PLACE, *(() if nests else _LOOPS)), _NEEDS)
        hoisting = _ALLOCATED if find_named(module, "memref.alloc") else ()
        simpler = () if nests and not any(map(takes_sizes, list_functions(module))) else _SIMPLER
        run_upstream(module, (*hoisting, "convert-bufferization-to-memref", *simpler, "cse"), _NEEDS)
        for function in scheduled_functions(module):
            rewrite(function, _is_row_copy, _copy_row, "memref.copy")
        rewrite(module, memref.CopyOp, _lower_copy)


def _is_row_copy(op: ir.Operation) -> bool:
    """Return whether an op copies a row that is one vector: of another number of elements it would be scalars."""
    if any(ir.MemRefType(operand.type).rank != 1 for operand in op.operands):
        return False
    [size] = ir.MemRefType(op.operands[0].type).shape
    return 0 < size <= _LONGEST_ROW and size & (size - 1) == 0 and element_bits(element_of(op.operands[0])) <= 64


def _copy_row(op: ir.Operation) -> list[ir.Value]:
    source, target = op.operands
    kind, zero = ir.MemRefType(target.type), index_constant(0)
    identity, made = ir.AffineMap.get_identity(1), ir.VectorType.get(kind.shape, kind.element_type)
    row = vector.transfer_read(made, source, [zero], identity, scalar(0, kind.element_type), [True])
    vector.transfer_write(None, row, target, [zero], identity, [True])
    return []


def _lower_copy(op: ir.Operation) -> list[ir.Value]:
    linalg.copy(op.operands[0], op.operands[1])
    return []
