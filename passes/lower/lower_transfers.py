"""Vector transfers of a scheduled kernel become loads and stores."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from ...dialects import arith, func, ir, memref, transform, vector
from ...dialects.builders import index_constant
from ...dialects.walk import collect
from ..infra.base import Pass
from ..ir.kernel import scheduled_functions
from ..ir.rewrite import rewrite
from ..ir.structure import dim_of
from .interleave import interleave_transposes, spread_columns


@dataclass(frozen=True)
class LowerTransfers(Pass):
    """Rows are loaded and stored whole, transposes are shuffles (``interleave.py``), more rows are left to be unrolled.

    Elements that lie apart are loaded one by one where each is used alone.

    Before::

        %v = vector.transfer_read %x[%i, %c0], %pad {in_bounds = [true]} : memref<64x32xf32>, vector<16xf32>

    After::

        %v = vector.load %x[%i, %c0] : memref<64x32xf32>, vector<16xf32>
    """

    name: ClassVar[str] = "lower-transfers"

    def apply(self, module: ir.Module) -> None:
        """Rewrite all scheduled functions of the module."""
        for function in scheduled_functions(module):
            spread_columns(function)
            interleave_transposes(function)
            _load_elements(function)
            with transform.sequence() as script:
                transform.apply_patterns(
                    script.root,
                    "vector.lower_transfer max_transfer_rank = 1",
                    "vector.lower_shape_cast",
                    "vector.sink_mem_ops",
                    "canonicalization",
                    vector_lower_transpose="shuffle_1d",
                )
            transform.apply(script, function)
            _load_scalars(function)


def _load_elements(function: func.FuncOp) -> None:
    """Load one by one the elements that lie apart and are used one by one: a strided convolution's, in one channel.

    As a vector they would be put together first, and taken apart after.
    """
    for read in collect(function, _lies_apart):
        indices, axis = list(read.operands)[1:-1], _find_vector_dim(read)
        assert axis is not None  # what lies apart lies along a dim
        for use in list(read.results[0].uses):
            extract = use.owner.operation
            [position] = ir.DenseI64ArrayAttr(extract.attributes["static_position"])
            with ir.InsertionPoint(extract), extract.location:
                place = arith.addi(indices[axis], index_constant(position))
                at = [*indices[:axis], place, *indices[axis + 1 :]]
                extract.results[0].replace_all_uses_with(memref.load(read.operands[0], at))
            extract.erase()
        read.erase()


def _load_scalars(function: func.FuncOp) -> None:
    """Load single elements, vectors without dims, that the patterns leave where they lie apart from others."""

    def load(read: ir.Operation) -> ir.Value:
        element = memref.load(read.operands[0], list(read.operands)[1:-1])
        return vector.broadcast(read.results[0].type, element)

    rewrite(function, _reads_scalar, load)


def _reads_scalar(op: ir.Operation) -> bool:
    if op.name != "vector.transfer_read" or not isinstance(op.operands[0].type, ir.MemRefType):
        return False
    return ir.VectorType(op.results[0].type).rank == 0


def _lies_apart(op: ir.Operation) -> bool:
    """Return whether an op reads a vector along a buffer's dim, which has a stride, and only its elements are used."""
    if op.name != "vector.transfer_read" or not isinstance(op.operands[0].type, ir.MemRefType):
        return False
    axis, strides = _find_vector_dim(op), op.operands[0].type.get_strides_and_offset()[0]
    if axis is None or not _in_bounds(op) or strides[axis] == 1:
        return False
    users = [use.owner.operation for use in op.results[0].uses]
    return all(user.name == "vector.extract" and len(user.operands) == 1 for user in users)


def _find_vector_dim(read: ir.Operation) -> int | None:
    """The dim of the buffer that a vector lies along; None for a matrix, and for one element repeated."""
    results = ir.AffineMapAttr(read.attributes["permutation_map"]).value.results
    return dim_of(results[0]) if len(results) == 1 else None


def _in_bounds(read: ir.Operation) -> bool:
    return all(ir.BoolAttr(inside).value for inside in ir.ArrayAttr(read.attributes["in_bounds"]))
