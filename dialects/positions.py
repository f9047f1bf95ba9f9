"""Indices that are data: read from a tensor, maybe negative, and held within the axis that they index."""

from __future__ import annotations

from collections.abc import Callable

from ..core.sizes import Extent
from . import ir, scalars, tw
from .structured import full, generic, shape_of
from .walk import defining_op

# On an op that makes what `report_outside` gives, and that no op reads: what is to be said of the number.


def report_outside(
    values: ir.Value,
    low: Extent,
    high: Extent,
    otherwise: str,
    signed: bool = True,
    index_of: Callable[[ir.Value], ir.Value] | None = None,
) -> None:
    """Have a run refused in which an integer of a tensor is not from ``low`` to below ``high``; 0 has to be there.

    ``index_of`` makes the index, which has to be there, of an integer that is none itself. ``otherwise`` says what is
    wrong, in words that the number is put behind. What is emitted is one word: 0, or a number from outside. The pass
    `report-outside` lets the program read it.
    """
    word = ir.IntegerType.get_signless(64)
    values = _once(values)

    def outside(value: ir.Value) -> ir.Value:
        wide = scalars.from_index(scalars.to_index(value, signed), word)
        at = wide if index_of is None else scalars.from_index(index_of(value), word)
        below = scalars.compare("lt", at, scalars.like(at, low))
        above = scalars.compare("ge", at, scalars.like(at, high))
        return scalars.select(scalars.either(below, above), wide, scalars.like(wide, 0))

    def greatest(value: ir.Value, found: ir.Value) -> ir.Value:
        return scalars.maximum(found, outside(value), signed=False)

    # One op, as a sum over open axes begins a kernel.
    axes = range(len(shape_of(values)))
    none = full([], scalars.const(0, word))
    [status] = generic([values], [none], [axes, []], "r" * len(axes), greatest)
    status.owner.attributes[tw.OUTSIDE] = ir.StringAttr.get(otherwise)


def _once(values: ir.Value) -> ir.Value:
    """A tensor with all numbers of one that may repeat them, as indices of whole rows are.

    Of one that a run repeats no time it has numbers that are read nowhere: these are refused as well.
    """
    op = defining_op(values)
    if op is None or op.name != "linalg.generic" or len(op.operands) != 2:
        return values
    block = op.regions[0].blocks[0]
    ends = block.operations[0].operation  # of a copy there is nothing before
    copies = ends.name == "linalg.yield" and ends.operands[0] == block.arguments[0]
    return _once(op.operands[0]) if copies else values


def position(value: ir.Value, extent: Extent, inside: bool = False) -> ir.Value:
    """An element as an index of an axis: a negative one counts from the end, and what is outside is at the border.

    ``inside``: it is known to be one as it is.
    """
    at = scalars.to_index(value)
    if inside:
        return at
    return clamp_index(wrap(at, extent), extent)


def clamp_index(at: ir.Value, extent: Extent) -> ir.Value:
    """An index at the border of an axis where it lies outside."""
    at = scalars.maximum(at, scalars.like(at, 0))
    return scalars.minimum(at, scalars.like(at, extent - 1))


def wrap(at: ir.Value, extent: Extent) -> ir.Value:
    """An index that counts from the end where it is negative."""
    below = scalars.compare("lt", at, scalars.like(at, 0))
    return scalars.select(below, scalars.add(at, scalars.like(at, extent)), at)
