"""Transform IR that turns the tile-sized ops of a nest into vector code.

The order matters (docs/mlir.md): contractions are vectorized whole, accumulators are hoisted on tensors, and only then
are contractions lowered to outer products; reduction-to-contract and the lowering never share one pattern set.
"""

from __future__ import annotations

import re

from ...dialects import ir, transform
from .reduction import CONTRACT, ROLE

_FOLD = (
    "tensor.fold_tensor_subset_ops_into_vector_transfers",
    "vector.transfer_permutation_patterns",
    "canonicalization",
)


def vectorize(module: ir.Module) -> None:
    """Make vectors of every structured op and keep accumulators in registers, on tensors."""
    roles = sorted(set(re.findall(rf'{ROLE} = "({CONTRACT}\d)"', str(module))))
    with transform.sequence() as script:
        root = script.root
        for role in roles:
            contractions = transform.match(root, "linalg.generic", attributes={ROLE: ir.StringAttr.get(role)})
            with transform.foreach(contractions) as op:
                transform.tile_using_for(op, [0] * int(role[-1]) + [1])
        with transform.foreach(transform.match_linalg(root)) as op:
            transform.vectorize(op)
        if roles:
            transform.apply_patterns(root, "vector.reduction_to_contract", *_FOLD)
        else:
            transform.apply_patterns(root, *_FOLD)
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
    transform.apply(script, module)


def lower_transfers(module: ir.Module) -> None:
    """On memrefs: transfers of rank 1, transposes as shuffles."""
    with transform.sequence() as script:
        transform.apply_patterns(
            script.root,
            "vector.lower_transfer max_transfer_rank = 1",
            "vector.lower_shape_cast",
            "vector.sink_mem_ops",
            "canonicalization",
            vector_lower_transpose="shuffle_1d",
        )
    transform.apply(script, module)
