"""Whole patches: elementwise ops on a result that is a slice of one with more rows and columns."""

from __future__ import annotations

from dataclasses import dataclass, field

from ...dialects import builders, ir
from ...sizes import Extent
from ..structure import body_ops, dim_of, indexing_maps, is_zero, iterator_types, num_inputs
from .edit import body_of, captures, is_tensor, replace


@dataclass
class WholePatches:
    """Results of which the first ``h`` rows and ``w`` columns are asked for, and what they are slices of.

    Images of open height and width are computed in whole patches. What is elementwise is computed of whole patches as
    well, so that it is fused with the op that makes them; a slice of it takes its place.
    """

    whole: dict[ir.Value, ir.Value] = field(default_factory=dict)
    roots: dict[ir.Value, ir.Value] = field(default_factory=dict)

    def slice(self, whole: ir.Value, sizes: tuple[Extent, ...], root: ir.Value | None = None) -> ir.Value:
        """The first ``sizes`` elements of a value, at the insertion point; ``root`` is what its patches come from."""
        part = builders.slice_(whole, [0] * len(sizes), sizes)
        if part != whole:
            self.whole[part], self.roots[part] = whole, root or whole
        return part

    def follow(self, op: ir.Operation) -> None:
        """Let an op compute whole patches if it is elementwise on slices from one root and on what is one for all."""
        parts = [value for value in op.operands if value in self.whole]
        if not parts or len({self.roots[value] for value in parts}) > 1 or not _is_elementwise(op):
            return
        sizes, extents = builders.shape_of(parts[0]), builders.shape_of(self.whole[parts[0]])
        cut = {axis for axis, (a, b) in enumerate(zip(sizes, extents, strict=True)) if a != b}
        maps, inputs = indexing_maps(op), list(op.operands)[: num_inputs(op)]
        places = [[None if is_zero(e) else dim_of(e) for e in m.results] for m in maps]
        for value, m, dims in zip(inputs, maps, places, strict=False):
            if m != maps[-1] if value in self.whole else cut & set(dims):
                return
        with ir.InsertionPoint(op), op.location:
            out = builders.empty(extents, builders.element_of(op.results[0]))
            values = [self.whole.get(value, value) for value in inputs]
            [made] = builders.generic(values, [out], places, "p" * len(sizes), body_of(op))
            replace(op, [self.slice(made, sizes, self.roots[parts[0]])])


def _is_elementwise(op: ir.Operation) -> bool:
    """Whether an op makes each element of floats at its place: what else lies beyond the slice does no harm then."""
    if op.name != "linalg.generic" or len(op.results) != 1 or set(iterator_types(op)) != {"parallel"}:
        return False
    maps = indexing_maps(op)
    if [dim_of(e) for e in maps[-1].results] != list(range(maps[-1].n_dims)):
        return False
    if not all(map(is_tensor, op.operands)) or any(map(is_tensor, captures(op))):
        return False
    if any(dim_of(e) is None and not is_zero(e) for m in maps for e in m.results):
        return False
    floats = all(isinstance(builders.element_of(value), ir.FloatType) for value in op.operands)
    return floats and not any(inner.name == "linalg.index" for inner in body_ops(op))
