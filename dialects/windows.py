"""Convolution and pooling as ``linalg.generic`` in the order of dims that docs/architecture.md states.

Inputs are padded before. Used through ``dialects.builders``.
"""

from __future__ import annotations

from collections.abc import Sequence

from ..core.sizes import Extent
from . import ir, scalars
from .broadcasting import convert_elements
from .movement import reshape
from .reductions import contraction
from .structured import Body, MapItem, element_of, empty, full, generic, scalar, shape_of

# Filters of one channel that fill no vector: a depthwise convolution has its vectors along channels or pixels.
_FEW_FILTERS = 8


def conv(
    x: ir.Value,
    w: ir.Value,
    strides: Sequence[int],
    dilations: Sequence[int],
    groups: Extent = 1,
    elem: ir.Type | None = None,
) -> ir.Value:
    """Convolve ``x`` (n, c, spatial…) with ``w`` (f, c / groups, window…); gives (n, f, out…) of type ``elem``.

    Grouped ones are emitted with a group loop on expanded operands, depthwise ones (one channel in each group, few out
    of it) with a channel loop.
    """
    (n, c, *spatial), (f, _, *window) = shape_of(x), shape_of(w)
    out = _out_extents(spatial, window, strides, dilations)
    elem, rank = elem or element_of(x), len(out)
    if groups == 1:  # n f o… c k…
        first, reduced = 3 + rank, 1 + rank
        image: list[MapItem] = [0, 2 + rank, *_window_exprs(2, first, strides, dilations)]
        maps = [image, [1, 2 + rank, *range(first, first + rank)]]
        return contraction((x, w), maps, (n, f, *out), range(2 + rank), reduced, elem)
    if groups == c == f:  # n c o… k…
        image = [0, 1, *_window_exprs(2, 2 + rank, strides, dilations)]
        maps = [image, [1, *range(2 + rank, 2 + 2 * rank)]]
        return contraction((x, reshape(w, (c, *window))), maps, (n, c, *out), range(2 + rank), rank, elem)
    if groups == c and isinstance(f, int) and isinstance(c, int) and f // c <= _FEW_FILTERS:  # n c f o… k…
        image = [0, 1, *_window_exprs(3, 3 + rank, strides, dilations)]
        maps = [image, [1, 2, *range(3 + rank, 3 + 2 * rank)]]
        w = reshape(w, (c, f // c, *window))
        result = contraction((x, w), maps, (n, c, f // c, *out), range(3 + rank), rank, elem)
        return reshape(result, (n, f, *out))
    # n g f o… c k…
    x = reshape(x, (n, groups, c // groups, *spatial))
    w = reshape(w, (groups, f // groups, c // groups, *window))
    first = 4 + rank
    image = [0, 1, 3 + rank, *_window_exprs(3, first, strides, dilations)]
    maps = [image, [1, 2, 3 + rank, *range(first, first + rank)]]
    result = contraction((x, w), maps, (n, groups, f // groups, *out), range(3 + rank), 1 + rank, elem)
    return reshape(result, (n, f, *out))


def pool(
    x: ir.Value,
    window: Sequence[int],
    strides: Sequence[int],
    dilations: Sequence[int],
    body: Body,
    init: float | int,
    out: Sequence[Extent] = (),
) -> ir.Value:
    """``acc = body(acc, element)`` over windows of ``x`` (n, c, spatial…); narrow floats accumulate in f32.

    ``out``: how many windows there are along each axis, where the caller has that in other words.
    """
    (n, c, *spatial), rank = shape_of(x), len(window)
    out_shape = (n, c, *(out or _out_extents(spatial, window, strides, dilations)))
    acc = scalars.compute_type(element_of(x))
    image = [0, 1, *_window_exprs(2, 2 + rank, strides, dilations)]
    maps = [image, range(2 + rank, 2 + 2 * rank), range(2 + rank)]
    result = generic(
        [x, empty(window, acc)],  # the second only gives the window's loops their extents
        [full(out_shape, scalar(init, acc))],
        maps,
        "p" * (2 + rank) + "r" * rank,
        lambda a, _window, c: body(c, scalars.widen(a)),
    )[0]
    return convert_elements(result, element_of(x))


def _out_extents(
    spatial: Sequence[Extent], window: Sequence[int], strides: Sequence[int], dilations: Sequence[int]
) -> list[Extent]:
    extents = zip(spatial, window, strides, dilations, strict=True)
    out = [(n - (k - 1) * dilation - 1) // stride + 1 for n, k, stride, dilation in extents]
    if any(isinstance(n, int) and n < 1 for n in out):  # open ones are looked at when the program runs
        raise ValueError(f"a window of {tuple(window)} is larger than the padded input {tuple(spatial)}")
    return out


def _window_exprs(out: int, k: int, strides: Sequence[int], dilations: Sequence[int]) -> list[MapItem]:
    """``o * stride + k * dilation`` for each spatial dim; ``out`` and ``k`` are the first of these loops."""
    dim = ir.AffineExpr.get_dim
    return [dim(out + i) * s + dim(k + i) * d for i, (s, d) in enumerate(zip(strides, dilations, strict=True))]
