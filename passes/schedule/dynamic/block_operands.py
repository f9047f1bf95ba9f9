"""The arguments of a block's function: parts of the kernel's tensors in place, sizes, and places."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ....core.target import Target
from ....dialects import builders, func, ir
from ....dialects.walk import defining_op
from ...ir.structure import shape_of
from ..tiles.regions import Interval, Linear, NotSchedulable, Region, is_whole, relative_to
from ..tiles.structured import extract
from ..tiling.dynamic_border import is_dynamic_padding
from .block_parts import Parts
from .padded_parts import padded_part, padded_source


@dataclass(frozen=True)
class Held:
    """A ``region`` of a value that a kernel keeps for itself, as a tensor of those of the value's ``dims``.

    Of several ``phases`` the last of these is two: a row of every so many elements from each of the first ones on.
    """

    value: ir.Value
    region: Region
    dims: tuple[int, ...]
    phases: int = 1

    def is_whole(self, axis: int) -> bool:
        """Return whether the tensor has all of an axis of open extent."""
        return axis in self.dims and shape_of(self.value)[self.dims.index(axis)] < 0

    def within(self, part: Region) -> Region:
        """A part of the value as one of the tensor."""
        inner = relative_to(part, self.region)
        kept = [inner[d] for d in self.dims]
        if self.phases > 1:
            row = Interval(kept[-1].offset.exact_div(self.phases), -(-kept[-1].size // self.phases))
            kept[-1:] = [Interval(Linear(), self.phases), row]
        return tuple(kept)


def given_to(
    function: func.FuncOp,
    source: func.FuncOp,
    parts: Parts,
    arguments: Mapping[ir.Value, ir.Value | Held],
    own: Sequence[ir.Value],
    target: Target | None = None,
) -> dict[ir.Value, ir.Value]:
    """The arguments of a block's function for the parts of ``source`` from which it is computed, on a target.

    ``own``: those between the tensors and the sizes that bodies compute with.
    """
    origins = map(parts.origin, parts.inputs(source))
    tensors = [_read_part(value, region, arguments, target) for value, region in origins]
    sizes = [arguments[size] for size in parts.sizes]
    values = [*tensors, *own, *sizes, *(place.as_value() for place in parts.places.values())]
    return dict(zip(function.arguments, values, strict=True))


def find_phases(
    function: func.FuncOp, source: func.FuncOp, parts: Parts, arguments: Mapping[ir.Value, ir.Value | Held]
) -> dict[ir.Value, int]:
    """The arguments of a block's function that are given in phases, and in how many."""
    origins = [parts.origin(value)[0] for value in parts.inputs(source)]
    kept = zip(function.arguments, (arguments.get(value) for value in origins), strict=False)
    return {own: held.phases for own, held in kept if isinstance(held, Held) and held.phases > 1}


def _read_part(
    value: ir.Value, region: Region, arguments: Mapping[ir.Value, ir.Value | Held], target: Target | None
) -> ir.Value:
    op = defining_op(value)
    if op is not None and is_dynamic_padding(op):
        held = arguments[padded_source(op, region)]
        if target is None or not isinstance(held, ir.Value):
            raise NotSchedulable("a padding around what a thread keeps")
        return padded_part(op, region, held, target)
    return part_of(_made_here(value, arguments), region)


def _made_here(value: ir.Value, arguments: Mapping[ir.Value, ir.Value | Held]) -> ir.Value | Held:
    """The value of an argument here, or a constant that is emitted here."""
    op = defining_op(value)
    return arguments[value] if op is None else op.clone().results[0]


def part_of(source: ir.Value | Held, region: Region) -> ir.Value:
    """A region of a tensor, squeezed."""
    if isinstance(source, Held):
        source, region = source.value, source.within(region)
    if 1 not in shape_of(source) and is_whole(region, shape_of(source)):
        return source  # a slice of open extents does not fold
    part = extract(source, region).value
    return part if shape_of(part) else builders.reshape(part, [1])
