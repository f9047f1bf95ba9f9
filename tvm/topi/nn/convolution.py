"""Convolutions of images, whose windows are summed with a weight."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .... import te
from ....core.errors import ExpressionError
from .padding import dilate, pad
from .windows import Windows, list_numbers, list_pads

__all__ = ["conv1d_ncw", "conv2d", "conv2d_nchw", "conv2d_nhwc", "conv2d_transpose_nchw", "conv3d_ncdhw"]
__all__ += ["depthwise_conv2d_nchw", "group_conv2d_nchw"]


def conv2d(
    data: te.Tensor,
    kernel: te.Tensor,
    strides: Any,
    padding: Any,
    dilation: Any,
    data_layout: str = "NCHW",
    kernel_layout: str = "",
    out_dtype: str | None = None,
) -> te.Tensor:
    """A convolution of images of a layout, NCHW with filters OIHW or NHWC with HWIO."""
    layouts = {"NCHW": ("OIHW", conv2d_nchw), "NHWC": ("HWIO", conv2d_nhwc)}
    if data_layout not in layouts or kernel_layout not in ("", layouts[data_layout][0]):
        known = ", ".join(f"{name} with {filters}" for name, (filters, _) in layouts.items())
        raise ExpressionError(
            f"topi.nn.conv2d: there is no layout {data_layout} with {kernel_layout}: there are {known}"
        )
    return layouts[data_layout][1](data, kernel, strides, padding, dilation, out_dtype)


def conv1d_ncw(
    data: te.Tensor,
    kernel: te.Tensor,
    strides: Any = 1,
    padding: Any = "VALID",
    dilation: Any = 1,
    out_dtype: str | None = None,
) -> te.Tensor:
    """A convolution of signals ``[N, C, W]`` with filters ``[O, C, W]``."""
    return _convolve(data, kernel, strides, padding, dilation, 1, out_dtype, "conv1d_ncw")


def conv2d_nchw(
    Input: te.Tensor,
    Filter: te.Tensor,
    stride: Any,
    padding: Any,
    dilation: Any,
    out_dtype: str | None = None,
) -> te.Tensor:
    """A convolution of images ``[N, C, H, W]`` with filters ``[O, C, H, W]``."""
    return _convolve(Input, Filter, stride, padding, dilation, 1, out_dtype, "conv2d_nchw")


def conv3d_ncdhw(
    Input: te.Tensor,
    Filter: te.Tensor,
    stride: Any,
    padding: Any,
    dilation: Any,
    groups: int = 1,
    out_dtype: str | None = None,
) -> te.Tensor:
    """A convolution of volumes ``[N, C, D, H, W]`` with filters ``[O, C / groups, D, H, W]``."""
    return _convolve(Input, Filter, stride, padding, dilation, groups, out_dtype, "conv3d_ncdhw")


def group_conv2d_nchw(
    Input: te.Tensor,
    Filter: te.Tensor,
    stride: Any,
    padding: Any,
    dilation: Any,
    groups: int,
    out_dtype: str | None = None,
) -> te.Tensor:
    """A convolution of images ``[N, C, H, W]`` in groups of channels, with filters ``[O, C / groups, H, W]``."""
    return _convolve(Input, Filter, stride, padding, dilation, groups, out_dtype, "group_conv2d_nchw")


def depthwise_conv2d_nchw(
    Input: te.Tensor,
    Filter: te.Tensor,
    stride: Any,
    padding: Any,
    dilation: Any,
    out_dtype: str | None = None,
) -> te.Tensor:
    """A convolution of each channel of images ``[N, C, H, W]`` with its own ``M`` filters, ``[C, M, H, W]``."""
    image, windows = _pad_image(Input, Filter.shape[2:], stride, padding, dilation)
    loops = [
        te.reduce_axis((0, extent), name=name) for extent, name in zip(Filter.shape[2:], ("di", "dj"), strict=True)
    ]
    dtype, multiplier = out_dtype or Input.dtype, Filter.shape[1]

    def read(n: Any, c: Any, *at: Any) -> te.Expr:
        x = image(n, c // multiplier, *windows.read(at, loops)).astype(dtype)
        return te.sum(x * Filter(c // multiplier, c % multiplier, *loops).astype(dtype), axis=loops)

    shape = (Input.shape[0], Input.shape[1] * multiplier, *windows.counts)
    return te.compute(shape, read, name="DepthwiseConv2d", tag="depthwise_conv2d_nchw")


def conv2d_nhwc(
    Input: te.Tensor,
    Filter: te.Tensor,
    stride: Any,
    padding: Any,
    dilation: Any,
    out_dtype: str | None = None,
) -> te.Tensor:
    """A convolution of images ``[N, H, W, C]`` with filters ``[H, W, C, O]``."""
    image, windows = _pad_image(Input, Filter.shape[:2], stride, padding, dilation, first=1)
    channel = te.reduce_axis((0, Input.shape[3]), name="rc")
    loops = [te.reduce_axis((0, extent), name=name) for extent, name in zip(Filter.shape, ("ry", "rx"), strict=False)]
    dtype = out_dtype or Input.dtype

    def read(n: Any, y: Any, x: Any, o: Any) -> te.Expr:
        element = image(n, *windows.read((y, x), loops), channel).astype(dtype)
        return te.sum(element * Filter(*loops, channel, o).astype(dtype), axis=[*loops, channel])

    shape = (Input.shape[0], *windows.counts, Filter.shape[3])
    return te.compute(shape, read, name="Conv2dOutput", tag="conv2d_nhwc")


def conv2d_transpose_nchw(
    Input: te.Tensor,
    Filter: te.Tensor,
    strides: Any,
    padding: Any,
    out_dtype: str | None,
    output_padding: Any,
) -> te.Tensor:
    """What a convolution of filters ``[C, O, H, W]`` makes ``Input`` of, turned round: ``[N, O, H, W]``."""
    kernel = Filter.shape[2:]
    steps, more = list_numbers(strides, 2, "strides"), list(output_padding)
    before, after = list_pads(padding, kernel)
    spread = dilate(Input, [1, 1, *steps])
    image = pad(
        spread,
        [0, 0, *(extent - 1 - each for extent, each in zip(kernel, before, strict=True))],
        [0, 0, *(extent - 1 - each + extra for extent, each, extra in zip(kernel, after, more, strict=True))],
        name="data_pad",
    )
    channel = te.reduce_axis((0, Input.shape[1]), name="dc")
    loops = [te.reduce_axis((0, extent), name=name) for extent, name in zip(kernel, ("dh", "dw"), strict=True)]
    dtype = out_dtype or Input.dtype

    def read(n: Any, o: Any, *at: Any) -> te.Expr:
        x = image(n, channel, *(place + loop for place, loop in zip(at, loops, strict=True))).astype(dtype)
        turned = [extent - 1 - loop for extent, loop in zip(kernel, loops, strict=True)]
        return te.sum(x * Filter(channel, o, *turned).astype(dtype), axis=[channel, *loops])

    outer = [extent - own + 1 for extent, own in zip(image.shape[2:], kernel, strict=True)]
    shape = (Input.shape[0], Filter.shape[1], *outer)
    return te.compute(shape, read, name="conv2d_transpose", tag="conv2d_transpose_nchw")


def _convolve(
    data: te.Tensor,
    kernel: te.Tensor,
    stride: Any,
    padding: Any,
    dilation: Any,
    groups: int,
    out_dtype: str | None,
    name: str,
) -> te.Tensor:
    """A convolution of images of any rank, channels first."""
    filters, depth = kernel.shape[:2]
    if data.shape[1] != depth * groups or filters % groups != 0:
        raise ExpressionError(
            f"topi.nn.{name}: {data.shape[1]} channels and {filters} filters of {depth} do not fit {groups} groups"
        )
    image, windows = _pad_image(data, kernel.shape[2:], stride, padding, dilation)
    channel = te.reduce_axis((0, depth), name="rc")
    names = ("rz", "ry", "rx")[-len(windows.counts) :]
    loops = [te.reduce_axis((0, extent), name=each) for extent, each in zip(kernel.shape[2:], names, strict=True)]
    dtype, share = out_dtype or data.dtype, filters // groups

    def read(n: Any, f: Any, *at: Any) -> te.Expr:
        first = channel if groups == 1 else f // share * depth + channel
        x = image(n, first, *windows.read(at, loops)).astype(dtype)
        return te.sum(x * kernel(f, channel, *loops).astype(dtype), axis=[channel, *loops])

    return te.compute((data.shape[0], filters, *windows.counts), read, name=name, tag=name)


def _pad_image(
    data: te.Tensor, kernel: Sequence[Any], stride: Any, padding: Any, dilation: Any, first: int = 2
) -> tuple[te.Tensor, Windows]:
    """The padded images, whose axes begin with ``first``, and the windows that move over them."""
    windows = Windows.of(data.shape[first : first + len(kernel)], kernel, stride, padding, dilation)
    if any(isinstance(each, int) and each < 1 for each in windows.counts):
        raise ExpressionError(
            f"topi.nn: a window of {tuple(windows.reach)} does not fit images of {tuple(windows.images)}"
        )
    rest = [0] * (data.ndim - first - len(kernel))
    before, after = ([*[0] * first, *side, *rest] for side in (windows.before, windows.after))
    return pad(data, before, after, name="pad_temp"), windows
