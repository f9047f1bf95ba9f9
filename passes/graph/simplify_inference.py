"""Removes what does nothing at inference: dropouts, identities, multiplications by one, sums of one product."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from ...dialects import builders, ir, scalars
from ...dialects.context import run_pipeline
from ..analysis.classify import classify_op
from ..analysis.groups import OpFacts, is_map
from ..analysis.kinds import Contraction
from ..infra.base import Pass
from ..ir.edit import body_of, drop_identity, list_programs, replace, splat_of
from ..ir.maps import compose
from ..ir.structure import indexing_maps, iterator_types, list_ops, loop_extents, num_inputs
from .rewriting.inline import drop_unused_inputs, fold_scalars


@dataclass(frozen=True)
class SimplifyInference(Pass):
    """Drop elementwise ops that store what they read, once their constants are known: dropouts, identities.

    Before::

        %ones = linalg.fill ins(%one)                                 // the mask of a dropout that keeps everything
        %d = linalg.generic {(a, m) -> a * m / 1.0} ins(%x, %ones)

    After: ``%x``. Only what is exact for every number goes: ``x * 1``, ``x / 1``, ``x - 0``, ``x + -0`` and a choice
    whose condition is constant; ``x + 0`` stays, as it makes +0 of -0.

    A product whose sums have one step is an elementwise op: tiles of 12 rows write one of 512 x 512 in 1.8 times the
    time of whole rows, and what reads it joins its kernel.
    """

    name: ClassVar[str] = "simplify-inference"

    def apply(self, module: ir.Module) -> None:
        """Let bodies use the constants that operands are filled with, and fold what that makes trivial."""
        for function in list_programs(module):
            for op in list_ops(function):
                if op.name == "linalg.generic" and any(splat_of(v) is not None for v in op.operands):
                    _simplify(op)
        run_pipeline(module.operation, "builtin.module(canonicalize)")
        for function in list_programs(module):
            for op in list_ops(function):
                if op.name == "linalg.generic":
                    drop_identity(drop_unused_inputs(op))  # of a choice that is made, the side that is not taken


def _simplify(op: ir.Operation) -> None:
    if is_map(op, OpFacts({})):
        fold_scalars(op)
    else:
        _drop_sum(op)


def _drop_sum(op: ir.Operation) -> None:
    """Let a product have its parallel loops alone, if all others have one step."""
    kinds, init = iterator_types(op), op.operands[num_inputs(op)]
    steps = [n for n, kind in zip(loop_extents(op), kinds, strict=True) if kind == "reduction"]
    if not isinstance(classify_op(op), Contraction) or {*steps} != {1} or splat_of(init) != 0:
        return
    kept = [loop for loop, kind in enumerate(kinds) if kind == "parallel"]
    places = [
        ir.AffineExpr.get_dim(kept.index(d)) if d in kept else ir.AffineExpr.get_constant(0) for d in range(len(kinds))
    ]
    inner = ir.AffineMap.get(len(kept), 0, places)
    maps, body = [compose(m, inner) for m in indexing_maps(op)], body_of(op)

    def compute(*arguments: ir.Value) -> ir.Value:
        return body(*arguments[:-1], scalars.like(arguments[-1], 0))

    with ir.InsertionPoint(op), op.location:
        inputs, outs = list(op.operands)[:-1], [init]
        replace(op, builders.generic(inputs, outs, maps, "p" * len(kept), compute))
