"""Pools: the greatest element, or the mean, of windows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..registry import operator
from ..writer import Value, Writer
from .convolution import Sizes, Window, spread
from .movement import permute

_AXES = {1: "W", 2: "HW", 3: "DHW"}


def _pool(
    w: Writer, node: str, data: Value, size: Sizes, window: Window, layouts: tuple[str, str, str], **attributes: Any
) -> Value:
    axes, layout, out_layout = layouts
    image = permute(w, data, layout, f"NC{axes}")
    given = {"kernel_shape": spread(w, size, len(axes), "pool_size"), **window.attributes, **attributes}
    del given["group"]
    return permute(w, w.node(node, image, **given), f"NC{axes}", out_layout or layout)


def _make_max_pool(count: int) -> Callable[..., Any]:
    axes = _AXES[count]

    def convert(
        w: Writer,
        data: Value,
        pool_size: Sizes = 1,
        strides: Sizes = 1,
        dilation: Sizes = 1,
        padding: Sizes = 0,
        layout: str = f"NC{axes}",
        out_layout: str = "",
        ceil_mode: bool = False,
    ) -> Value:
        window = Window.of(w, strides, padding, dilation, 1, axes)
        return _pool(w, "MaxPool", data, pool_size, window, (axes, layout, out_layout), ceil_mode=int(ceil_mode))

    convert.__name__, convert.__doc__ = f"max_pool{count}d", "The greatest elements of windows."
    return operator(f"nn.max_pool{count}d")(convert)


def _make_avg_pool(count: int) -> Callable[..., Any]:
    axes = _AXES[count]

    def convert(
        w: Writer,
        data: Value,
        pool_size: Sizes = 1,
        strides: Sizes = 1,
        dilation: Sizes = 1,
        padding: Sizes = 0,
        layout: str = f"NC{axes}",
        out_layout: str = "",
        ceil_mode: bool = False,
        count_include_pad: bool = False,
    ) -> Value:
        window = Window.of(w, strides, padding, dilation, 1, axes)
        flags = {"ceil_mode": int(ceil_mode), "count_include_pad": int(count_include_pad)}
        return _pool(w, "AveragePool", data, pool_size, window, (axes, layout, out_layout), **flags)

    convert.__name__, convert.__doc__ = f"avg_pool{count}d", "The means of windows; padding counts, or not."
    return operator(f"nn.avg_pool{count}d")(convert)


def _make_global_pool(count: int, word: str, node: str) -> Callable[..., Any]:
    axes = _AXES[count]

    def convert(w: Writer, data: Value, layout: str = f"NC{axes}", out_layout: str = "") -> Value:
        made = w.node(node, permute(w, data, layout, f"NC{axes}"))
        return permute(w, made, f"NC{axes}", out_layout or layout)

    convert.__name__, convert.__doc__ = f"global_{word}_pool{count}d", f"ONNX's {node} of each channel."
    return operator(f"nn.global_{word}_pool{count}d")(convert)


def _make_adaptive_pool(count: int, word: str) -> Callable[..., Any]:
    axes = _AXES[count]

    def convert(
        w: Writer, data: Value, output_size: Any = None, layout: str = f"NC{axes}", out_layout: str = ""
    ) -> Value:
        image = permute(w, data, layout, f"NC{axes}")
        made = _pool_to(w, image, output_size, word, count)
        return permute(w, made, f"NC{axes}", out_layout or layout)

    convert.__name__, convert.__doc__ = f"adaptive_{word}_pool{count}d", "Windows that make an output of a size."
    return operator(f"nn.adaptive_{word}_pool{count}d")(convert)


def _pool_to(w: Writer, image: Value, output_size: Any, word: str, count: int) -> Value:
    """A pool whose windows are such that the output has a size; those of means may overlap."""
    have = image.shape[2:]
    empty = output_size is None or (not isinstance(output_size, int) and len(output_size) == 0)
    want = list(have) if empty else spread(w, output_size, count, "output_size")
    if all(each == 1 for each in want):
        return w.node("GlobalMaxPool" if word == "max" else "GlobalAveragePool", image)
    pairs = [(a, b) for a, b in zip(have, want, strict=True) if isinstance(a, int) and isinstance(b, int)]
    if len(pairs) != count:
        w.refuse("the extents of the image are known only at run time: output_size is 1")
    if all(a % b == 0 for a, b in pairs):
        sizes = [a // b for a, b in pairs]
        return w.node("MaxPool" if word == "max" else "AveragePool", image, kernel_shape=sizes, strides=sizes)
    if word == "max":
        w.refuse(f"output_size is {want}: it has to divide the image, which is {list(have)}")
    for axis, (a, b) in enumerate(pairs):
        image = _average_axis(w, image, 2 + axis, a, b)
    return image


def _average_axis(w: Writer, image: Value, axis: int, have: int, want: int) -> Value:
    """Means of parts of an axis, as a product with a matrix of their weights."""
    weights = np.zeros((have, want), np.float32)
    for number in range(want):
        begin, end = number * have // want, -(-(number + 1) * have // want)
        weights[begin:end, number] = 1 / (end - begin)
    order = [each for each in range(image.rank) if each != axis] + [axis]
    back = [order.index(each) for each in range(image.rank)]
    made = w.node("MatMul", w.node("Transpose", image, perm=order), w.constant(weights, image.dtype))
    return w.node("Transpose", made, perm=back)


POOLS: dict[str, Callable[..., Any]] = {}
for _count in _AXES:
    for _made in (
        _make_max_pool(_count),
        _make_avg_pool(_count),
        _make_global_pool(_count, "max", "GlobalMaxPool"),
        _make_global_pool(_count, "avg", "GlobalAveragePool"),
        _make_adaptive_pool(_count, "max"),
        _make_adaptive_pool(_count, "avg"),
    ):
        POOLS[_made.__name__] = _made
