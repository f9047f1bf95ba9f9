"""Convolutions that do as well in channels first: with pixels, or rows of them, as the columns of a product."""

from __future__ import annotations

import math

from ....dialects import ir
from ....dialects.builders import element_of
from ...analysis.kinds import Conv, OpClass
from ...ir.structure import dim_of, indexing_maps, is_static, loop_extents, loops_along, shape_of
from ..tiles.axes import vector_axis
from ..tiling.pool_windows import walks_row, windows_of
from ..tiling.values import block_of

# From so many pixels on, they are as good as columns of a product as channels are, and nothing has to be transposed.
_MANY_PIXELS, _FEW_FILTERS = 128, 32
# Multiply-adds for each number read and made up to which a change of order takes much beside a product.
_LIGHT_PRODUCT = 64
# Up to so many input channels, a convolution's kernel reads single elements, wherever they lie. Up to so many numbers
# of a filter a change of order takes long beside the sums, if the window is none for Winograd's algorithm (taps).
FEW_CHANNELS, _FEW_NUMBERS, _WINOGRAD_TAPS = 4, 128, 9
# Of lines of so few taps, and so many channels or a multiple of them, patches take less.
_PATCH_TAPS, _PATCH_CHANNELS = 5, 16
# Pixels of a row from which on vectors can lie along it; how far apart they may be where a filter has few numbers.
_ROW_PIXELS, _MOST_APART, _FEW_TAPS = 24, 8, 32


def takes_pixels_as_columns(op: ir.Operation, kind: Conv) -> bool:
    """Return whether a convolution by single pixels may as well be a product of its weight by rows of pixels.

    That takes 0.85 of the time of one in channels last whose data and result have channels first otherwise, and 0.4 to
    0.75 in steps of two, of which a quarter of the pixels is copied. Of images of open sizes it is worth it for few
    filters, or groups, which leave parts of vectors empty in channels last, and where products are so few that a change
    of order takes long beside them. Else the last columns of a small image, which are as many as the others, take
    longer than that: 256 to 256 on 14 x 14 takes 1.25 times as long.
    """
    extents, floats = loop_extents(op), all(isinstance(element_of(value), ir.F32Type) for value in op.operands)
    one = all(len(loops) == 1 for loops in (kind.n, kind.f, kind.c)) and len(kind.g) <= 1
    if not floats or not one:
        return False
    sizes, single = [extents[loop] for loop in kind.o], all(extents[loop] == 1 for loop in kind.k)
    known = all(extents[loop] > 0 for loop in (*kind.g, *kind.f, *kind.c)) and 0 not in extents
    if min(sizes) < 0:
        channels, filters = extents[kind.c[0]], extents[kind.f[0]]
        light = channels * filters <= _LIGHT_PRODUCT * (channels + filters)
        worth = {*kind.strides} == {1} and (bool(kind.g) or filters < _FEW_FILTERS or light)
    else:
        worth = math.prod(sizes) >= _MANY_PIXELS
    return single and known and extents[kind.c[0]] > 1 and worth


def copies_windows(op: ir.Operation, kind: OpClass) -> bool:
    """Return whether a convolution's weight has open sizes: it is an input of the program, or computed by it.

    In channels first it is a product of the filters, as they lie, by copied windows. Its kernel has no other ops.
    """
    return isinstance(kind, Conv) and not is_static(op.operands[kind.weight])


def takes_windows_as_columns(op: ir.Operation, kind: Conv) -> bool:
    """Return whether a convolution of few channels may as well have vectors along rows of pixels, in channels first.

    Pixels that lie apart are put together anew for each tile of filters.
    """
    extents = loop_extents(op)
    if not _has_few_channels(op, kind) or 0 <= extents[kind.o[-1]] < _ROW_PIXELS:
        return False
    # With pixels that lie apart 64 filters of 7 x 7 of 3 take 1.4 times as long as in channels last (AVX2).
    return kind.strides[-1] == 1 or math.prod(extents[loop] for loop in (*kind.c, *kind.k)) <= _FEW_TAPS


def reads_windows_as_columns(op: ir.Operation, kind: Conv) -> bool:
    """Return whether a convolution has its vectors along rows of pixels, or along parts of them, which may be short."""
    data, weight = (indexing_maps(op)[number].results for number in (kind.data, kind.weight))
    made, windows = loops_along(op, -1), windows_of(op, kind)
    rows = bool(windows) and windows[-1].axis == len(data) - 1 and made[-1] == kind.o[-1]
    if not rows or not _has_few_channels(op, kind):
        return False
    if walks_row(op, kind) and takes_windows_as_columns(op, kind):
        return True
    single = made[vector_axis(shape_of(op.results[0]))] in kind.f  # one pixel, whose filters lie together
    return not single and block_of(op, kind) == 0 and dim_of(weight[len(weight) - 1]) in kind.f


def _has_few_channels(op: ir.Operation, kind: Conv) -> bool:
    extents, floats = loop_extents(op), all(isinstance(element_of(value), ir.F32Type) for value in op.operands)
    known = (*kind.c, *kind.k, *kind.f)
    if not floats or kind.g or len(kind.f) != 1 or any(extents[loop] < 0 for loop in known):
        return False
    channels, taps = (math.prod(extents[loop] for loop in loops) for loops in (kind.c, (*kind.c, *kind.k)))
    near = kind.strides[-1] <= (_MOST_APART if taps <= _FEW_TAPS else 2)
    return near and (channels <= FEW_CHANNELS or _has_small_filters(op, kind)) and extents[kind.k[-1]] > 1


def _has_small_filters(op: ir.Operation, kind: Conv) -> bool:
    """Return whether filters of more channels have few numbers, along one axis or in long windows.

    In channels first 255 filters of 5 channels by 9 on 1000 pixels then take 0.42 of the time, 960 of 19 by 5 0.72, 64
    of 5 by 5 x 5 0.83. Of 3 x 3, 48 of 12 would take 1.44, and of 64 by 3 as many. Rows of open length are a signal's.
    In patches, as Winograd has them, 32 filters of 32 by 3 take 0.73, 32 of 16 by 5 0.65; 8 of 32 by 3 would take 1.1.
    """
    extents = loop_extents(op)
    taps, channels, filters = (math.prod(extents[loop] for loop in loops) for loops in (kind.k, kind.c, kind.f))
    line = taps == extents[kind.k[-1]]
    whole = channels % _PATCH_CHANNELS == 0 and filters >= _PATCH_CHANNELS
    if line and taps <= _PATCH_TAPS and whole and {*kind.strides} == {1} == {*kind.dilations}:
        return False
    return taps * channels <= _FEW_NUMBERS and (line or (taps > _WINOGRAD_TAPS and min(extents) > 0))
