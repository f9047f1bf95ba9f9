"""Pools of images: the greatest element, or the mean, of each window."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from .... import te
from ....core.errors import ExpressionError
from ....te.reducers import lowest_of
from .padding import pad
from .windows import Windows, list_numbers, list_pads

__all__ = ["global_pool", "pool1d", "pool2d", "pool3d"]


def _make_pool(name: str, default: str, what: str) -> Callable[..., te.Tensor]:
    def pool(
        data: te.Tensor,
        kernel: Any,
        stride: Any,
        dilation: Any,
        padding: Any,
        pool_type: str,
        ceil_mode: bool = False,
        layout: str = default,
        count_include_pad: bool = True,
    ) -> te.Tensor:
        window = (kernel, stride, dilation, padding)
        return _pool(data, window, pool_type, ceil_mode, (layout, default), count_include_pad)

    pool.__name__ = pool.__qualname__ = name
    pool.__doc__ = f'Pools of {what} of channels first; ``pool_type`` is "max" or "avg".'
    return pool


pool1d = _make_pool("pool1d", "NCW", "signals")
pool2d = _make_pool("pool2d", "NCHW", "images")
pool3d = _make_pool("pool3d", "NCDHW", "volumes")


def global_pool(data: te.Tensor, pool_type: str, layout: str = "NCHW") -> te.Tensor:
    """The greatest element, or the mean, of each channel's image, of one element."""
    if layout != "NCHW":
        raise ExpressionError(f"topi.nn.global_pool: layout {layout}: there is NCHW")
    return pool2d(data, list(data.shape[2:]), 1, 1, 0, pool_type)


def _pool(
    data: te.Tensor, window: tuple[Any, ...], kind: str, ceil: bool, layouts: tuple[str, str], include_pad: bool
) -> te.Tensor:
    if kind not in ("max", "avg") or layouts[0] != layouts[1]:
        raise ExpressionError(f"topi.nn: a pool '{kind}' of layout {layouts[0]}: there are max and avg of {layouts[1]}")
    size, stride, dilation, padding = window
    kernel = list_numbers(size, data.ndim - 2, "window")
    windows = Windows.of(data.shape[2:], kernel, stride, padding, dilation, ceil)
    outside = 0.0 if kind == "avg" else lowest_of(data.dtype).value
    image = pad(data, [0, 0, *windows.before], [0, 0, *windows.after], outside, "pad_temp")
    loops = [te.reduce_axis((0, extent), name=f"rv{n}") for n, extent in enumerate(kernel)]
    reduce = te.max if kind == "max" else te.sum
    made = te.compute(
        (*data.shape[:2], *windows.counts),
        lambda n, c, *at: reduce(image(n, c, *windows.read(at, loops)), axis=loops),
        name=f"pool_{kind}",
        tag=f"pool_{kind}",
    )
    if kind == "max":
        return made
    _, last = list_pads(padding, windows.reach)

    def count(p: Any, axis: int) -> Any:
        """The elements of a window that count along an axis: all, or those inside of the image."""
        gap, before, extent = windows.gaps[axis], windows.before[axis], windows.images[axis]
        begin = p * windows.steps[axis] - before
        low, high = (-before, extent + last[axis]) if include_pad else (0, extent)
        first = te.max(te.const(0), (low - begin + gap - 1) // gap)
        return te.min(te.const(kernel[axis]), (high - begin + gap - 1) // gap) - first

    def mean(n: Any, c: Any, *at: Any) -> te.Expr:
        number: Any = math.prod(kernel)
        if not include_pad or ceil:
            number = te.const(1)
            for axis, place in enumerate(at):
                number = number * count(place, axis)
            number = te.max(number, te.const(1))
        return made(n, c, *at) / te.cast(data.dtype, number)

    return te.compute(made.shape, mean, name="pool_avg_mean", tag="elemwise")
