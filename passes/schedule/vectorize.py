"""The structured ops in the tiles of a nest become vector code."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import ClassVar

from ...dialects import func, ir, transform, tw
from ...dialects.context import keep
from ...dialects.walk import collect
from ..infra.base import Pass
from ..ir.kernel import integer_attr, scheduled_functions
from ..ir.structure import is_structured
from .tiling.reduction import CONTRACT

# Conversions go to where vectors are read: between a broadcast operand and its product, that of a stored float16 would
# hide the contraction, which then becomes scalars and transposes that `lower-transfers` rewrites for ever.
_FOLD = (
    "vector.sink_ops",
    "tensor.fold_tensor_subset_ops_into_vector_transfers",
    "vector.transfer_permutation_patterns",
    "canonicalization",
)


@dataclass(frozen=True)
class Vectorize(Pass):
    """Make vectors of every structured op of a scheduled kernel and keep accumulators in registers, on tensors.

    Before::

        scf.for %k ... iter_args(%acc = %zero: tensor<4x16xf32>) {
          linalg.generic {tw.role = "contract2x1"} ins(slice of %x: tensor<4x1xf32>, slice of %w: tensor<1x16xf32>)
              outs(%acc)

    After::

        scf.for %k ... iter_args(%acc = %zero: vector<4x16xf32>) {
          %row0 = vector.fma (a broadcast of x[0, k]), w[k, :], %acc0 ...

    The order matters (docs/mlir.md): contractions are vectorized whole, accumulators are hoisted on tensors, and only
    then are contractions lowered to outer products; reduction-to-contract and the lowering never share a pattern set.
    Of a kernel of plain loops the tiles of its parts become vectors, and whole ops are left alone.
    """

    name: ClassVar[str] = "vectorize"

    def apply(self, module: ir.Module) -> None:
        """Vectorize all scheduled functions of the module."""
        for function in scheduled_functions(module):
            marked = collect(function, lambda op: tw.ROLE in op.attributes, "linalg.generic")
            roles = tuple(sorted({ir.StringAttr(op.attributes[tw.ROLE]).value for op in marked}))
            mark = tw.TILE if tw.PARTS in function.attributes or _leave_matrices(function) else ""
            script = keep((_make_script, roles, mark), partial(_make_script, roles, mark))
            transform.apply(script, function)


def _leave_matrices(function: func.FuncOp) -> bool:
    """Return whether ops are no vectors but matrices; the marks of tiles are then on all others."""
    marks = (tw.MATRIX_PRODUCT, tw.SPLIT_PRODUCT)
    matrices = collect(function, lambda op: any(mark in op.attributes for mark in marks), "linalg.generic")
    for op in collect(function, is_structured) if matrices and tw.PARTS not in function.attributes else ():
        op.attributes[tw.TILE] = ir.UnitAttr.get()
    for op in matrices:
        if tw.TILE in op.attributes:
            del op.attributes[tw.TILE]
    return bool(matrices)


def _make_script(roles: Sequence[str], mark: str) -> transform.Script:
    """The transform IR that vectorizes structured ops that have the ``mark``, and the contractions of these roles."""
    with transform.sequence() as made:
        root = made.root
        for role in roles:
            dims, at_once = map(int, role.removeprefix(CONTRACT).split("x"))
            contractions = transform.match(root, "linalg.generic", attributes={tw.ROLE: ir.StringAttr.get(role)})
            with transform.foreach(contractions) as op:
                loop = transform.tile_using_for(op, [0] * dims + [1])[1]
                if at_once > 1:
                    transform.annotate(loop, tw.UNROLL, integer_attr(at_once))
        with transform.foreach(transform.match_linalg(root, {mark: ir.UnitAttr.get()} if mark else {})) as op:
            transform.vectorize(op)
        # Before slices are folded: a transposed read with a dim between the two cannot be taken apart, and goes element
        # by element.
        transform.apply_patterns(root, "vector.transfer_permutation_patterns")
        transform.apply_patterns(root, *(["vector.reduction_to_contract"] if roles else []), *_FOLD)
        transform.cse(root)
        transform.hoist(root)
        transform.apply_patterns(
            root,
            "vector.transfer_permutation_patterns",
            "vector.lower_outerproduct",
            "vector.cast_away_vector_leading_one_dim",
            "canonicalization",
            vector_lower_contraction="outerproduct",
            vector_lower_multi_reduction="innerreduction",
        )
    return made
