"""Indices that are data: read from a tensor, maybe negative, and held within the axis that they index."""

from __future__ import annotations

from ..sizes import Extent
from . import ir, scalars


def position(value: ir.Value, extent: Extent, inside: bool = False) -> ir.Value:
    """An element as an index of an axis: a negative one counts from the end, and what is outside is at the border.

    ``inside``: it is known to be one as it is.
    """
    at = scalars.to_index(value)
    if inside:
        return at
    at = scalars.maximum(wrapped(at, extent), scalars.like(at, 0))
    return scalars.minimum(at, scalars.like(at, extent - 1))


def wrapped(at: ir.Value, extent: Extent) -> ir.Value:
    """An index that counts from the end where it is negative."""
    below = scalars.compare("lt", at, scalars.like(at, 0))
    return scalars.select(below, scalars.add(at, scalars.like(at, extent)), at)
