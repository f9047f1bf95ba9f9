"""Pools of images: the greatest element, or the mean, of each window."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from .... import te
from ....core.errors import ExpressionError
from ....te.tensor import lowest_of
from .padding import list_numbers, list_pads, pad

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
    rank = data.ndim - 2
    kernel, steps, gaps = (
        list_numbers(given, rank, name) for given, name in zip(window, ("window", "strides", "dilations"), strict=False)
    )
    reach = [(extent - 1) * gap + 1 for extent, gap in zip(kernel, gaps, strict=True)]
    before, after = list_pads(window[3], reach)
    behind = [each + (step - 1) * ceil for each, step in zip(after, steps, strict=True)]
    images = data.shape[2:]
    outer = [
        (extent + b + a - own) // step + 1
        for extent, b, a, own, step in zip(images, before, behind, reach, steps, strict=True)
    ]
    outside = 0.0 if kind == "avg" else lowest_of(data.dtype).value
    image = pad(data, [0, 0, *before], [0, 0, *behind], outside, "pad_temp")
    loops = [te.reduce_axis((0, extent), name=f"rv{n}") for n, extent in enumerate(kernel)]

    def read(n: Any, c: Any, *at: Any) -> te.Expr:
        places = [p * step + loop * gap for p, step, loop, gap in zip(at, steps, loops, gaps, strict=True)]
        return (te.max if kind == "max" else te.sum)(image(n, c, *places), axis=loops)

    made = te.compute((*data.shape[:2], *outer), read, name=f"pool_{kind}", tag=f"pool_{kind}")
    if kind == "max":
        return made

    def count(p: Any, axis: int) -> Any:
        """The elements of a window that count along an axis: all, or those inside of the image."""
        gap, begin = gaps[axis], p * steps[axis] - before[axis]
        low, high = (-before[axis], images[axis] + after[axis]) if include_pad else (0, images[axis])
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
