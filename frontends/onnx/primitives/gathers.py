"""Elements read at positions that are data."""

from __future__ import annotations

import numpy as np

from ....core.sizes import count_elements
from ....dialects import builders, ir
from ....dialects.positions import position
from ....dialects.types import element_type
from ..state.context import Context
from ..values.tensor import Tensor
from .movement import cut


def take(ctx: Context, x: Tensor, indices: Tensor, inside: bool = False, axis: int = 0) -> Tensor:
    """Slices of ``x`` at indices that nobody has to check; ``inside``: they are positions of the axis as they are."""
    shape = [*x.shape[:axis], *indices.shape, *x.shape[axis + 1 :]]
    if inside and (run := _as_range(indices)) is not None:
        return ctx.reshape(cut(ctx, x, {axis: run}), shape)
    behind = x.shape[axis + 1 :]
    if len(behind) > 1 and 0 not in behind:  # a slice lies in one piece: one long row
        rows = ctx.reshape(x, [*x.shape[: axis + 1], count_elements(behind)])
        return ctx.reshape(take(ctx, rows, indices, inside, axis), shape)
    along = range(axis, axis + indices.rank)

    def body(value: ir.Value, _out: ir.Value) -> ir.Value:
        at = [builders.linalg_index(i) for i in range(len(shape))]
        return builders.extract(x.value, [*at[:axis], position(value, x.shape[axis], inside), *at[along.stop :]])

    out = builders.empty(shape, element_type(x.dtype))
    maps = [along, range(len(shape))]
    return ctx.wrap(builders.generic([indices.value], [out], maps, "p" * len(shape), body)[0], x.dtype)


def take_elements(ctx: Context, x: Tensor, indices: Tensor, inside: bool = False, axis: int = 0) -> Tensor:
    """Elements of ``x`` along an axis, as ``take``."""

    def body(value: ir.Value) -> ir.Value:
        at = [builders.linalg_index(i) for i in range(x.rank)]
        at[axis] = position(value, x.shape[axis], inside)
        return builders.extract(x.value, at)

    return ctx.wrap(builders.elementwise(body, indices.value, elem=element_type(x.dtype)), x.dtype)


def _as_range(indices: Tensor) -> range | None:
    """Known indices that have the same distance from one to the next, in the order of their elements."""
    if indices.known is None or indices.size == 0:
        return None
    return progression(indices.known.reshape(-1))


def progression(numbers: np.ndarray) -> range | None:
    """Numbers, of which there is at least one, as a range; None where they are none."""
    first, step = int(numbers[0]), int(numbers[1] - numbers[0]) if numbers.size > 1 else 1
    run = range(first, first + step * numbers.size, step) if step else None
    return run if run is not None and np.array_equal(numbers, run) else None
