"""Whole patches: data padded to them, and elementwise ops on a result that is a slice of one in whole patches."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from ....core.sizes import Extent
from ....dialects import arith, builders, extents, ir
from ....dialects.types import is_dynamic_type
from ....dialects.walk import defining_op
from ...analysis.groups import is_pointwise
from ...ir.dynamic_sizes import note_sizes
from ...ir.edit import body_of, replace, splat_of
from ...ir.maps import reassociation_of
from ...ir.structure import dim_of, indexing_maps, is_zero, num_inputs, shape_of, terminator_of
from ...ir.uses import has_uses
from ...schedule.tiling.dynamic_border import is_dynamic_insertion


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

    def follow(self, op: ir.Operation) -> ir.Value | None:
        """Let an op compute whole patches if it is elementwise on slices from one root and on what is one for all.

        So does a view that splits axes which are whole in a slice. Returns the slice that takes the place of the
        result; None where it stays.
        """
        if op.name == "tensor.expand_shape":
            return self._follow_view(op)
        parts = [value for value in op.operands if value in self.whole]
        if not parts or len({self.roots[value] for value in parts}) > 1 or not _is_float_elementwise(op):
            return None
        sizes, extents = builders.shape_of(parts[0]), builders.shape_of(self.whole[parts[0]])
        cut = {axis for axis, (a, b) in enumerate(zip(sizes, extents, strict=True)) if a != b}
        maps, inputs = indexing_maps(op), list(op.operands)[: num_inputs(op)]
        places = [[None if is_zero(e) else dim_of(e) for e in m.results] for m in maps]
        for value, m, dims in zip(inputs, maps, places, strict=False):
            if m != maps[-1] if value in self.whole else cut & set(dims) and not _is_short(value, dims, cut):
                return None
        with ir.InsertionPoint(op), op.location:
            out = builders.empty(extents, builders.element_of(op.results[0]))
            values = [
                self.whole[value] if value in self.whole else _lengthen(value, dims, extents, cut)
                for value, dims in zip(inputs, places, strict=False)
            ]
            [made] = builders.generic(values, [out], places, "p" * len(sizes), body_of(op))
            part = self.slice(made, sizes, self.roots[parts[0]])
            replace(op, [part])
        return part

    def _follow_view(self, op: ir.Operation) -> ir.Value | None:
        """Split axes of whole patches, where a view splits axes of a slice of them of which all is taken."""
        part = op.operands[0]
        if part not in self.whole:
            return None
        sizes, extents = builders.shape_of(part), builders.shape_of(self.whole[part])
        shape, made = [], []
        for group, size, extent in zip(reassociation_of(op), sizes, extents, strict=True):
            split = [shape_of(op.results[0])[d] for d in group]
            if len(group) > 1 and (not isinstance(size, int) or size != extent):
                return None
            shape += split if len(group) > 1 else [size]
            made += split if len(group) > 1 else [extent]
        with ir.InsertionPoint(op), op.location:
            view = self.slice(builders.reshape(self.whole[part], made), tuple(shape), self.roots[part])
            replace(op, [view])
        return view


@dataclass
class EitherPatches:
    """Results that the run takes from patches of one of two sizes, of which it computes no others.

    What is elementwise is computed of both, in ``patches``, so that it is fused with the ops that make them.
    """

    patches: WholePatches
    made: dict[ir.Value, tuple[ir.Value, ir.Value, ir.Value]] = field(default_factory=dict)

    def select(self, flag: ir.Value, one: ir.Value, other: ir.Value, sizes: Sequence[Extent]) -> ir.Value:
        """One value where the flag is true, or the other, at the insertion point: a tensor of these sizes.

        Of whole patches the run selects: a slice of the result is no copy.
        """
        whole = [self.patches.whole.get(value, value) for value in (one, other)]
        shapes = zip(*map(builders.shape_of, whole), strict=True)
        known = [a if a == b else _select_extent(flag, a, b) for a, b in shapes]
        chosen = builders.slice_(extents.note(arith.select(flag, *whole), known), [0] * len(sizes), sizes)
        self.made[chosen] = flag, one, other
        return chosen

    def follow(self, op: ir.Operation) -> None:
        """Let an op compute both if it is elementwise on such results and on what is one for all of their pixels."""
        read = [value for value in op.operands if value in self.made]
        if len({self.made[value][0] for value in read}) != 1 or not _is_float_elementwise(op):
            return
        maps, inputs = indexing_maps(op), list(op.operands)[: num_inputs(op)]
        places = [[None if is_zero(e) else dim_of(e) for e in m.results] for m in maps]
        channels = {places[-1][-1], None}
        for value, m, dims in zip(inputs, maps, places, strict=False):
            if m != maps[-1] if value in self.made else not {*dims} <= channels:
                return
        flag, sizes = self.made[read[0]][0], builders.shape_of(read[0])
        with ir.InsertionPoint(op), op.location:
            found = [
                self._compute(op, [self.made[v][which] if v in self.made else v for v in inputs], places)
                for which in (1, 2)
            ]
            replace(op, [self.select(flag, found[0], found[1], sizes)])
        for value in {*read}:
            self._erase_unread(value)

    def _compute(
        self, op: ir.Operation, inputs: Sequence[ir.Value], places: Sequence[Sequence[int | None]]
    ) -> ir.Value:
        """What an op makes of other inputs, in whole patches where these are."""
        part = next(value for value, dims in zip(inputs, places, strict=False) if dims == places[-1])
        out = builders.empty(builders.shape_of(part), builders.element_of(op.results[0]))
        [made] = builders.generic(inputs, [out], places, "p" * len(places[-1]), body_of(op))
        copy = defining_op(made)
        assert copy is not None  # which was just made
        whole = self.patches.follow(copy)
        return made if whole is None else whole

    def _erase_unread(self, chosen: ir.Value) -> None:
        """Erase the choice of a value that nothing reads any more: what it is made of would not be fused."""
        part = defining_op(chosen)
        if part is None or has_uses(part):
            return
        choice = defining_op(part.operands[0])
        del self.made[chosen]
        part.erase()
        if choice is not None:
            choice.erase()


def _select_extent(flag: ir.Value, one: Extent, other: Extent) -> Extent:
    return extents.fresh(arith.select(flag, extents.index(one), extents.index(other)), "whole", 0)


def _is_short(value: ir.Value, dims: Sequence[int | None], cut: set[int]) -> bool:
    """Return whether a value has one number for each place of cut axes of known extent: zeros after it cost little."""
    return set(dims) - {None} <= cut and not is_dynamic_type(value.type)


def _lengthen(value: ir.Value, dims: Sequence[int | None], extents: Sequence[Extent], cut: set[int]) -> ir.Value:
    """The value with zeros after its end where it lies along axes that are cut."""
    sizes = shape_of(value)
    high = [extents[dim] - size if dim in cut else 0 for size, dim in zip(sizes, dims, strict=True)]
    return builders.pad(value, [0] * len(high), high, builders.scalar(0.0, builders.element_of(value)))


def _is_float_elementwise(op: ir.Operation) -> bool:
    """Return whether an op is elementwise on floats: values beyond the slice then do no harm."""
    if not is_pointwise(op) or any(dim_of(e) is None and not is_zero(e) for m in indexing_maps(op) for e in m.results):
        return False
    return all(isinstance(builders.element_of(value), ir.FloatType) for value in op.operands)


def zeros_around(value: ir.Value) -> tuple[ir.Value, list[int]] | None:
    """The operand of a padding by zeros, and the number of zeros before it; None for all other values."""
    operand, low, number = padding_around(value)
    return (operand, low) if number == 0 and operand != value else None


def padding_around(value: ir.Value) -> tuple[ir.Value, list[int], float | int]:
    """The operand of a padding by one number, how much of it comes before along each axis, and the number.

    Of all other values themselves, without any of zeros. With dynamic sizes the operand is inserted into a filled
    tensor.
    """
    op, none = defining_op(value), (value, [0] * len(note_sizes(value)), 0)
    if op is None:
        return none
    if op.name == "tensor.pad" and len(op.operands) == 1:
        number, low = splat_of(terminator_of(op).operands[0]), op.attributes["static_low"]
    elif is_dynamic_insertion(op):
        number, low = splat_of(op.operands[1]), op.attributes["static_offsets"]
    else:
        return none
    return (op.operands[0], list(ir.DenseI64ArrayAttr(low)), number) if number is not None else none
