"""Reductions drop the dims that they reduce; a view gives these back with an extent of 1."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import ClassVar

from ...dialects import builders, ir, linalg, tensor
from ...dialects.walk import defining_op
from ..infra.base import Pass
from ..ir.dynamic_sizes import emit_dynamic_sizes
from ..ir.edit import body_of, list_programs, replace
from ..ir.structure import indexing_maps, is_zero, iterator_types, list_ops, num_inputs, shape_of


@dataclass(frozen=True)
class SqueezeReductions(Pass):
    """Rewrite reductions whose result is written at a constant 0 along the dims that are reduced.

    Before::

        %s = linalg.generic {(a, b) -> (a, b), (a, b) -> (a, 0)} ins(%x) outs(%zero : tensor<4x1xf32>) { addf }

    After::

        %t = linalg.generic {(a, b) -> (a, b), (a, b) -> (a)} ins(%x) outs(%fill : tensor<4xf32>) { addf }
        %s = tensor.expand_shape %t [[0, 1]]

    One that does not begin with a number everywhere is left alone.
    """

    name: ClassVar[str] = "squeeze-reductions"

    def apply(self, module: ir.Module) -> None:
        """Rewrite all programs of the module."""
        for function in list_programs(module):
            for op in list_ops(function):
                if op.name == "linalg.generic" and len(op.results) == 1 and "reduction" in iterator_types(op):
                    _squeeze_reduction(op)


def _squeeze_reduction(op: ir.Operation) -> None:
    start, maps = op.operands[num_inputs(op)], indexing_maps(op)
    fill, shape = defining_op(start), shape_of(start)
    kept = [d for d, (n, e) in enumerate(zip(shape, maps[-1].results, strict=True)) if n != 1 or not is_zero(e)]
    if len(kept) == len(shape) or fill is None or fill.name != "linalg.fill":
        return
    with ir.InsertionPoint(op), op.location:
        sizes = emit_dynamic_sizes(start)
        left = iter(sizes)
        extents = [next(left) if shape[d] < 0 else shape[d] for d in kept]
        out = tensor.EmptyOp(extents, builders.element_of(start))
        filled = linalg.fill(fill.operands[0], out.result)
        maps[-1] = ir.AffineMap.get(maps[-1].n_dims, 0, [maps[-1].results[d] for d in kept])
        letters = "".join(kind[0] for kind in iterator_types(op))
        [made] = builders.generic(list(op.operands)[: num_inputs(op)], [filled], maps, letters, body_of(op))
        wide = tensor.ExpandShapeOp(start.type, made, _group_dims(kept, len(shape)), sizes, shape)
    replace(op, [wide.result])


def _group_dims(kept: list[int], rank: int) -> list[list[int]]:
    """The dims that each kept one stands for, once all others have an extent of 1."""
    starts = [0, *kept[1:], rank]
    return [list(range(a, b)) for a, b in itertools.pairwise(starts)] if kept else []
