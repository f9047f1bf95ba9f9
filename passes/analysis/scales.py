"""Where a multiplication may move to: back through what is linear to weights, or on to the weights of its reader.

Nothing here changes IR: a search returns the edits that together equal the multiplication, or None.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence, Set
from dataclasses import dataclass, field, replace

from ...dialects import ir
from ...dialects.builders import element_of
from ...dialects.walk import defining_op
from ..ir.edit import splat_of
from ..ir.maps import reassociation_of
from ..ir.routine_ops import VIEWS
from ..ir.structure import (
    dim_of,
    indexing_maps,
    is_dim_or_zero,
    is_static,
    is_tensor,
    iterator_types,
    loop_extents,
    num_inputs,
    shape_of,
    terminator_of,
)
from ..ir.uses import has_one_use
from .classify import classify_op
from .kinds import Contraction, Conv, DepthwiseConv

_MOST_STEPS = 64  # two for each op: what scales a long chain of ops has no place worth looking for farther away


@dataclass(frozen=True)
class Scale:
    """Multiplies (or divides) each element by the one of ``factor`` at the element's ``places``.

    ``places`` has the dim of the scaled tensor, or inside of an op the loop, for each dim of the factor after it is
    reshaped to ``shape``; None stands for an extent of 1.
    """

    factor: ir.Value
    places: tuple[int | None, ...]
    shape: tuple[int, ...]
    divides: bool = False
    steps: int = field(default=_MOST_STEPS, compare=False)  # that it may still move by, from op to op

    def remap(self, place: Callable[[int], int | None]) -> Scale | None:
        """The scale one step on, with other places; None if one of them has no counterpart, or it has come too far."""
        new = tuple(None if p is None else place(p) for p in self.places)
        return (
            replace(self, places=new, steps=self.steps - 1)
            if self.steps and new.count(None) == self.places.count(None)
            else None
        )

    @property
    def is_scalar(self) -> bool:
        """Return whether all elements are scaled alike."""
        return all(p is None for p in self.places)


@dataclass(frozen=True)
class Edit:
    """Operand ``number`` of ``op``, a weight, becomes its product with a scale over the op's loops.

    Where ``user`` is given, the constant that is operand ``number`` of this op of the body is scaled instead.
    """

    op: ir.Operation
    number: int
    scale: Scale
    user: ir.Operation | None = None


Edits = list[Edit] | None


@dataclass(frozen=True)
class Search:
    """Looks for a new place of a scale; ``weights`` are the values that depend on params and constants alone."""

    weights: Set[ir.Value]

    def is_weight(self, value: ir.Value) -> bool:
        """Return whether a tensor is known ahead of time, its extents as well: a mask of ones has those of the run."""
        if not is_tensor(value) or min(shape_of(value), default=1) < 0:
            return False
        return value in self.weights or splat_of(value) is not None

    def operand(self, op: ir.Operation, number: int, scale: Scale) -> Edits:
        """Scale an operand of a generic, over its loops: at once if it is a weight, else where it is computed."""
        value, m = op.operands[number], indexing_maps(op)[number]
        dims = [dim_of(e) for e in m.results]
        if self.is_weight(value):
            floats = isinstance(element_of(value), ir.FloatType)  # not bytes that the op makes numbers of
            known = all(loop_extents(op)[loop] >= 0 for loop in scale.places if loop is not None)
            return [Edit(op, number, scale)] if floats and known and all(map(is_dim_or_zero, m.results)) else None
        inner = scale.remap(lambda loop: dims.index(loop) if loop in dims else None)
        return self.value(value, inner) if inner else None

    def value(self, value: ir.Value, scale: Scale) -> Edits:
        """Scale a tensor that has one reader, over its dims, where it is computed."""
        op = defining_op(value)
        if op is None or not has_one_use(value):
            return None
        if op.name in VIEWS:
            moved = through_view(op, scale, to_result=False)
            return self.value(op.operands[0], moved) if moved else None
        if op.name == "tensor.pad":
            return self.value(op.operands[0], scale) if pads_zero(op, scale) else None
        if op.name != "linalg.generic" or len(op.results) != 1:
            return None
        out = [dim_of(e) for e in indexing_maps(op)[-1].results]
        loops = scale.remap(lambda dim: out[dim])
        if loops is None:
            return None
        if isinstance(classify_op(op), Contraction | Conv | DepthwiseConv):
            return self._product(op, loops)
        return self.expression(op, terminator_of(op), 0, loops) if is_map(op) else None

    def _product(self, op: ir.Operation, scale: Scale) -> Edits:
        """Scale a sum of products, in loops: its weight if it has one, or whatever else can be scaled."""
        if splat_of(op.operands[2]) != 0:
            return None
        found = (
            self.factor(op, number, scale)
            for number in sorted((0, 1), key=lambda i: not self.is_weight(op.operands[i]))
        )
        return next((edits for edits in found if edits is not None), None)

    def factor(self, op: ir.Operation, number: int, scale: Scale) -> Edits:
        """Scale one factor of a sum of products: a weight for this op alone, whose dims are the scale's loops."""
        value, m = op.operands[number], indexing_maps(op)[number]
        if any(p is not None and p not in map(dim_of, m.results) for p in scale.places):
            return None
        if self.is_weight(value) and not has_one_use(value):
            return None  # a second copy of a weight costs more than what is saved
        return self.operand(op, number, scale)

    def expression(self, op: ir.Operation, user: ir.Operation, index: int, scale: Scale) -> Edits:
        """Scale operand ``index`` of ``user``, which is in the body of the elementwise op, over the op's loops."""
        value, block = user.operands[index], op.regions[0].blocks[0]
        arguments, source = list(block.arguments), defining_op(value)
        if value in arguments:
            number = arguments.index(value)
            return self.operand(op, number, scale) if number < num_inputs(op) and has_one_use(value) else None
        if source is not None and source.name == "arith.constant":
            return [Edit(op, index, scale, user)] if splat_of(scale.factor) is not None else None
        if source is None or source.block != block or not has_one_use(value):
            return None
        terms = [self.expression(op, source, i, scale) for i in _SUM_OPERANDS.get(source.name, ())]
        if terms:
            return None if None in terms else [edit for term in terms for edit in term or ()]
        found = (self.expression(op, source, i, scale) for i in self._known_first(op, source))
        return next((edits for edits in found if edits is not None), None)

    def _known_first(self, op: ir.Operation, product: ir.Operation) -> list[int]:
        numbers = _FACTORS.get(product.name, ())
        return sorted(numbers, key=lambda i: self.read_factor(op, product.operands[i]) is None)

    def read_factor(self, op: ir.Operation, value: ir.Value) -> Scale | ir.Value | None:
        """A scalar in the body of an op as a factor over its loops, itself where it is a constant; None for data."""
        source, arguments = defining_op(value), list(op.regions[0].blocks[0].arguments)
        if source is not None and source.name == "arith.constant":
            return value
        if value not in arguments or (number := arguments.index(value)) >= num_inputs(op):
            return None
        factor, m = op.operands[number], indexing_maps(op)[number]
        if not self.is_weight(factor) or not is_static(factor):
            return None
        shape = tuple(shape_of(factor))
        places = [None if n == 1 else dim_of(e) for n, e in zip(shape, m.results, strict=True)]
        return Scale(factor, tuple(places), shape) if all(map(_is_consistent, places, shape)) else None

    def reader(self, value: ir.Value, scale: Scale) -> Edits:
        """Scale a tensor that has one reader, over its dims, by scaling the weight that the reader multiplies it by."""
        if not has_one_use(value):
            return None
        use = next(iter(value.uses))
        op, number = use.owner.operation, use.operand_number
        if op.name in VIEWS:
            moved = through_view(op, scale, to_result=True)
            return self.reader(op.results[0], moved) if moved else None
        if op.name == "tensor.pad":
            return self.reader(op.results[0], scale) if pads_zero(op, scale) else None
        if op.name != "linalg.generic" or number >= num_inputs(op):
            return None
        read = [dim_of(e) for e in indexing_maps(op)[number].results]
        loops = scale.remap(lambda dim: read[dim])
        if loops is None:
            return None
        if isinstance(classify_op(op), Contraction | Conv | DepthwiseConv):
            return self.factor(op, 1 - number, loops) if self.is_weight(op.operands[1 - number]) else None
        written = [dim_of(e) for e in indexing_maps(op)[-1].results]
        if not is_map(op) or terminator_of(op).operands[0] != op.regions[0].blocks[0].arguments[number]:
            return None
        moved = loops.remap(lambda loop: written.index(loop) if loop in written else None)
        return self.reader(op.results[0], moved) if moved else None


# Operands that all must be scaled for the result to be, and those of which one must.
_SUM_OPERANDS = {"arith.addf": (0, 1), "arith.subf": (0, 1), "arith.negf": (0,), "arith.select": (1, 2)}
_FACTORS = {"arith.mulf": (0, 1), "arith.divf": (0,)}


def is_map(op: ir.Operation) -> bool:
    """Return whether a generic has parallel loops alone, all of which its one result has."""
    out = [dim_of(e) for e in indexing_maps(op)[-1].results]
    kinds = iterator_types(op)
    return set(kinds) <= {"parallel"} and None not in out and len(set(out)) == len(kinds) and len(op.results) == 1


def pads_zero(pad: ir.Operation, scale: Scale) -> bool:
    """Return whether a padding is by zeros, and along no dim that the scale differs on."""
    if len(pad.operands) != 1:
        return False
    constant = defining_op(terminator_of(pad).operands[0])
    if constant is None or constant.name != "arith.constant" or ir.FloatAttr(constant.attributes["value"]).value != 0:
        return False
    edges = zip(*(ir.DenseI64ArrayAttr(pad.attributes[f"static_{side}"]) for side in ("low", "high")), strict=True)
    padded = {d for d, edge in enumerate(edges) if any(edge)}
    return not padded & set(scale.places)


def through_view(view: ir.Operation, scale: Scale, to_result: bool) -> Scale | None:
    """A scale on one side of a reshape as one on the other; None where it would have to be repeated."""
    groups = reassociation_of(view)
    wide = shape_of(view.results[0] if view.name == "tensor.expand_shape" else view.operands[0])
    if (view.name == "tensor.expand_shape") != to_result:  # from the wide side to the narrow one
        return scale.remap(lambda dim: alone_in(groups, wide, dim))
    places: list[int | None] = []
    shape: list[int] = []
    for place, extent in zip(scale.places, scale.shape, strict=True):
        parts: Sequence[int | None] = [None] if place is None else [d for d in groups[place] if wide[d] != 1]
        if any(d is not None and wide[d] < 0 for d in parts):
            return None
        places += parts
        shape += [extent] if place is None else [wide[d] for d in parts if d is not None]
    return replace(scale, places=tuple(places), shape=tuple(shape))


def _is_consistent(place: int | None, extent: int) -> bool:
    return (place is None) == (extent == 1)


def alone_in(groups: Sequence[Sequence[int]], wide: Sequence[int], dim: int) -> int | None:
    """The group that a dim is in, if all others there have extent 1 in ``wide``; else None."""
    number = next(i for i, group in enumerate(groups) if dim in group)
    return number if all(wide[d] == 1 for d in groups[number] if d != dim) else None
