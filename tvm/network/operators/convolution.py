"""Convolutions, of one to three axes and of all orders of axes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ..registry import operator
from ..types import Extent
from ..writer import Value, Writer
from .elementwise import as_dtype
from .movement import permute

Sizes = int | Sequence[int]


def spread(w: Writer, given: Sizes | None, count: int, what: str) -> list[int]:
    """A number for each axis of a window: one counts for all."""
    sizes = [given] * count if isinstance(given, int) else [int(each) for each in given or []]
    sizes = sizes * count if len(sizes) == 1 else sizes
    if len(sizes) != count:
        w.refuse(f"{what} is {given}: it has {count} numbers, or one")
    return sizes


def spread_padding(w: Writer, given: Sizes, count: int) -> list[int]:
    """The padding before each axis, then that behind each: one number, one for each axis, or all."""
    if not isinstance(given, int) and len(given) == 2 * count:
        return [int(each) for each in given]
    return spread(w, given, count, "padding") * 2


@dataclass(frozen=True)
class Window:
    """How a window goes over an image."""

    strides: list[int]
    padding: list[int]
    dilation: list[int]
    groups: int

    @staticmethod
    def of(w: Writer, strides: Sizes, padding: Sizes, dilation: Sizes, groups: int, axes: str) -> Window:
        """The window, of attributes as relay has them."""
        count = len(axes)
        steps, apart = spread(w, strides, count, "strides"), spread(w, dilation, count, "dilation")
        return Window(steps, spread_padding(w, padding, count), apart, int(groups))

    @property
    def attributes(self) -> dict[str, Any]:
        """The attributes of ONNX's nodes."""
        return {"strides": self.strides, "pads": self.padding, "dilations": self.dilation, "group": self.groups}


@dataclass(frozen=True)
class Layouts:
    """The orders of axes of the data, the weight and the output; ``axes`` are those of the windows."""

    axes: str
    data: str
    kernel: str
    out: str

    @property
    def own(self) -> str:
        """ONNX's order of the data."""
        return f"NC{self.axes}"


def _shape_weight(
    w: Writer, data: Value, weight: Value, given: tuple[Any, Sizes | None, int], layouts: Layouts, first: str
) -> None:
    """Give a weight without a type the shape that the channels and the size of the window say."""
    channels, kernel_size, groups = given
    if weight.type is not None:
        return
    if channels is None or kernel_size is None:
        w.refuse(f"the shape of '{weight.name}' is not known: give channels and kernel_size, or its shape")
    taken = data.shape[layouts.data.index("C")]
    if not isinstance(taken, int) or taken % groups or channels % groups:
        w.refuse(f"{taken} channels and {channels} filters are no {groups} groups")
    if first == "I" or groups == taken > 1:
        outer, inner = taken, channels // groups
    else:
        outer, inner = channels, taken // groups
    own = dict(
        zip(
            first + {"O": "I", "I": "O"}[first] + layouts.axes,
            _window_shape(w, kernel_size, layouts, outer, inner),
            strict=True,
        )
    )
    w.assume(weight, [own[each] for each in layouts.kernel], data.dtype)


def _window_shape(w: Writer, kernel_size: Sizes, layouts: Layouts, outer: Extent, inner: Extent) -> list[Extent]:
    return [outer, inner, *spread(w, kernel_size, len(layouts.axes), "kernel_size")]


def _arrange_filters(w: Writer, data: Value, weight: Value, groups: int, layouts: Layouts) -> Value:
    """The filters in ONNX's order. Those of each channel alone are (channels, filters of each) in relay, too."""
    filters = permute(w, weight, layouts.kernel, f"OI{layouts.axes}", "kernel_layout")
    taken = data.shape[layouts.data.index("C")]
    outer, inner = filters.shape[:2]
    if groups > 1 and groups == taken == outer and isinstance(inner, int) and inner > 1:
        sides = [each for each in filters.shape[2:] if isinstance(each, int)]
        return w.node("Reshape", filters, w.ints(-1, 1, *sides))
    if isinstance(taken, int) and isinstance(inner, int) and taken != inner * groups:
        w.refuse(f"data of {taken} channels in {groups} groups needs filters of {taken // groups}, not of {inner}")
    return filters


def convolve(
    w: Writer,
    data: Value,
    weight: Value,
    window: Window,
    given: tuple[Any, Any],
    layouts: Layouts,
    out_dtype: str,
    zeros: Sequence[Value] = (),
) -> Value:
    """A convolution; ``given`` are the number of filters and the size of a window, where the call has them.

    ``zeros`` are the zero points of bytes, where they have any.
    """
    _shape_weight(w, data, weight, (*given, window.groups), layouts, "O")
    filters = _arrange_filters(w, data, weight, window.groups, layouts)
    _check_filters(w, filters, given, layouts)
    image = permute(w, data, layouts.data, layouts.own, "data_layout")
    if data.dtype in ("int8", "uint8"):
        made = as_dtype(w, w.node("ConvInteger", image, filters, *zeros, **window.attributes), out_dtype or data.dtype)
    else:
        made = w.node("Conv", as_dtype(w, image, out_dtype), as_dtype(w, filters, out_dtype), **window.attributes)
    return permute(w, made, layouts.own, layouts.out or layouts.data, "out_layout")


def _check_filters(w: Writer, filters: Value, given: tuple[Any, Any], layouts: Layouts) -> None:
    channels, kernel_size = given
    if channels is not None and isinstance(filters.shape[0], int) and int(channels) != filters.shape[0]:
        w.refuse(f"channels is {channels}, and there are {filters.shape[0]} filters")
    if kernel_size is not None:
        sides = spread(w, kernel_size, len(layouts.axes), "kernel_size")
        if list(filters.shape[2:]) != sides:
            w.refuse(f"kernel_size is {sides}, and that of the filters {list(filters.shape[2:])}")


@operator("nn.conv1d")
def conv1d(
    w: Writer,
    data: Value,
    weight: Value,
    strides: Sizes = 1,
    padding: Sizes = 0,
    dilation: Sizes = 1,
    groups: int = 1,
    channels: int | None = None,
    kernel_size: Sizes | None = None,
    data_layout: str = "NCW",
    kernel_layout: str = "OIW",
    out_layout: str = "",
    out_dtype: str = "",
) -> Value:
    """A convolution of rows."""
    layouts = Layouts("W", data_layout, kernel_layout, out_layout)
    window = Window.of(w, strides, padding, dilation, groups, layouts.axes)
    return convolve(w, data, weight, window, (channels, kernel_size), layouts, out_dtype)


@operator("nn.conv2d")
def conv2d(
    w: Writer,
    data: Value,
    weight: Value,
    strides: Sizes = (1, 1),
    padding: Sizes = (0, 0),
    dilation: Sizes = (1, 1),
    groups: int = 1,
    channels: int | None = None,
    kernel_size: Sizes | None = None,
    data_layout: str = "NCHW",
    kernel_layout: str = "OIHW",
    out_layout: str = "",
    out_dtype: str = "",
) -> Value:
    """A convolution of images."""
    layouts = Layouts("HW", data_layout, kernel_layout, out_layout)
    window = Window.of(w, strides, padding, dilation, groups, layouts.axes)
    return convolve(w, data, weight, window, (channels, kernel_size), layouts, out_dtype)


@operator("nn.conv3d")
def conv3d(
    w: Writer,
    data: Value,
    weight: Value,
    strides: Sizes = (1, 1, 1),
    padding: Sizes = (0, 0, 0),
    dilation: Sizes = (1, 1, 1),
    groups: int = 1,
    channels: int | None = None,
    kernel_size: Sizes | None = None,
    data_layout: str = "NCDHW",
    kernel_layout: str = "OIDHW",
    out_layout: str = "",
    out_dtype: str = "",
) -> Value:
    """A convolution of volumes."""
    layouts = Layouts("DHW", data_layout, kernel_layout, out_layout)
    window = Window.of(w, strides, padding, dilation, groups, layouts.axes)
    return convolve(w, data, weight, window, (channels, kernel_size), layouts, out_dtype)


def _transpose_convolution(
    w: Writer,
    data: Value,
    weight: Value,
    window: Window,
    given: tuple[Any, Any, Sizes],
    layouts: Layouts,
    out_dtype: str,
) -> Value:
    channels, kernel_size, output_padding = given
    _shape_weight(w, data, weight, (channels, kernel_size, window.groups), layouts, "I")
    filters = permute(w, weight, layouts.kernel, f"IO{layouts.axes}", "kernel_layout")
    image = as_dtype(w, permute(w, data, layouts.data, layouts.own, "data_layout"), out_dtype)
    behind = spread(w, output_padding, len(layouts.axes), "output_padding")
    made = w.node("ConvTranspose", image, as_dtype(w, filters, out_dtype), output_padding=behind, **window.attributes)
    return permute(w, made, layouts.own, layouts.out or layouts.data, "out_layout")


@operator("nn.conv1d_transpose")
def conv1d_transpose(
    w: Writer,
    data: Value,
    weight: Value,
    strides: Sizes = (1,),
    padding: Sizes = (0,),
    dilation: Sizes = (1,),
    groups: int = 1,
    channels: int | None = None,
    kernel_size: Sizes | None = None,
    data_layout: str = "NCW",
    kernel_layout: str = "IOW",
    out_layout: str = "",
    output_padding: Sizes = (0,),
    out_dtype: str = "",
) -> Value:
    """The transpose of a convolution of rows."""
    layouts = Layouts("W", data_layout, kernel_layout, out_layout)
    window = Window.of(w, strides, padding, dilation, groups, layouts.axes)
    return _transpose_convolution(w, data, weight, window, (channels, kernel_size, output_padding), layouts, out_dtype)


@operator("nn.conv2d_transpose")
def conv2d_transpose(
    w: Writer,
    data: Value,
    weight: Value,
    strides: Sizes = (1, 1),
    padding: Sizes = (0, 0),
    dilation: Sizes = (1, 1),
    groups: int = 1,
    channels: int | None = None,
    kernel_size: Sizes | None = None,
    data_layout: str = "NCHW",
    kernel_layout: str = "IOHW",
    out_layout: str = "",
    output_padding: Sizes = (0, 0),
    out_dtype: str = "",
) -> Value:
    """The transpose of a convolution of images."""
    layouts = Layouts("HW", data_layout, kernel_layout, out_layout)
    window = Window.of(w, strides, padding, dilation, groups, layouts.axes)
    return _transpose_convolution(w, data, weight, window, (channels, kernel_size, output_padding), layouts, out_dtype)


@operator("nn.conv3d_transpose")
def conv3d_transpose(
    w: Writer,
    data: Value,
    weight: Value,
    strides: Sizes = (1, 1, 1),
    padding: Sizes = (0, 0, 0),
    dilation: Sizes = (1, 1, 1),
    groups: int = 1,
    channels: int | None = None,
    kernel_size: Sizes | None = None,
    data_layout: str = "NCDHW",
    kernel_layout: str = "IODHW",
    out_layout: str = "",
    output_padding: Sizes = (0, 0, 0),
    out_dtype: str = "",
) -> Value:
    """The transpose of a convolution of volumes."""
    layouts = Layouts("DHW", data_layout, kernel_layout, out_layout)
    window = Window.of(w, strides, padding, dilation, groups, layouts.axes)
    return _transpose_convolution(w, data, weight, window, (channels, kernel_size, output_padding), layouts, out_dtype)
