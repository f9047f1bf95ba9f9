"""Residual networks, of 18 to 152 layers for photographs, of 20 and more for small images (He et al. 2016)."""

from __future__ import annotations

from collections.abc import Sequence

from ....core.errors import ModelError
from ...network.expr import Expr, Function
from ..op import nn
from .init import Workload, create_workload
from .layers import Layers, close_network, dense_add_bias

# The units of each stage, by the number of layers.
_UNITS = {
    18: (2, 2, 2, 2),
    34: (3, 4, 6, 3),
    50: (3, 4, 6, 3),
    101: (3, 4, 23, 3),
    152: (3, 8, 36, 3),
}
_SMALL_SIDE = 32  # of images that have a first layer of their own


def get_net(
    batch_size: int = 1,
    num_classes: int = 1000,
    num_layers: int = 50,
    image_shape: Sequence[int] = (3, 224, 224),
    layout: str = "NCHW",
    dtype: str = "float32",
) -> Function:
    """The network, whose input is "data". Raises ModelError for another number of layers."""
    net = Layers((batch_size, *image_shape), layout, dtype)
    small = image_shape[1 if layout == "NCHW" else 0] <= _SMALL_SIDE
    units, widths, deep = _plan_small(num_layers) if small else _plan(num_layers)
    x: Expr = net.norm(net.data, "bn_data")
    if small:
        x = net.conv(x, "conv0", 16, 3, 1, 1)
    else:
        x = nn.relu(net.norm(net.conv(x, "conv0", 64, 7, 2, 3), "bn0"))
        x = net.max_pool(x, 3, 2, 1)
    for stage, (count, width) in enumerate(zip(units, widths, strict=True), 1):
        for unit in range(1, count + 1):
            stride = 2 if stage > 1 and unit == 1 else 1
            x = _add_unit(net, x, f"stage{stage}_unit{unit}", width, stride, unit == 1, deep)
    x = net.mean_of_images(nn.relu(net.norm(x, "bn1")))
    return close_network(dense_add_bias(x, name="fc1", units=num_classes))


def get_workload(
    batch_size: int = 1,
    num_classes: int = 1000,
    num_layers: int = 18,
    image_shape: Sequence[int] = (3, 224, 224),
    layout: str = "NCHW",
    dtype: str = "float32",
) -> Workload:
    """The network, and its weights."""
    return create_workload(get_net(batch_size, num_classes, num_layers, image_shape, layout, dtype))


def _plan(layers: int) -> tuple[Sequence[int], Sequence[int], bool]:
    if layers not in _UNITS:
        raise ModelError(f"num_layers is {layers}: there are residual networks of {', '.join(map(str, _UNITS))}")
    deep = layers >= 50
    return _UNITS[layers], [width * (4 if deep else 1) for width in (64, 128, 256, 512)], deep


def _plan_small(layers: int) -> tuple[Sequence[int], Sequence[int], bool]:
    for deep, each, widths in ((True, 9, (64, 128, 256)), (False, 6, (16, 32, 64))):
        if (layers - 2) % each == 0 and (layers >= 164 or not deep):
            return [(layers - 2) // each] * 3, widths, deep
    raise ModelError(f"num_layers is {layers}: those for images of {_SMALL_SIDE} pixels are 6 * n + 2, as 20")


def _add_unit(net: Layers, x: Expr, name: str, width: int, stride: int, first: bool, deep: bool) -> Expr:
    """A unit that normalizes before it convolves; the first of a stage has a convolution beside it, too."""
    begin = nn.relu(net.norm(x, f"{name}_bn1"))
    layers = (
        [(width // 4, 1, 1), (width // 4, 3, stride), (width, 1, 1)] if deep else [(width, 3, stride), (width, 3, 1)]
    )
    y = begin
    for number, (channels, kernel, step) in enumerate(layers, 1):
        if number > 1:
            y = nn.relu(net.norm(y, f"{name}_bn{number}"))
        y = net.conv(y, f"{name}_conv{number}", channels, kernel, step, kernel // 2)
    return y + (net.conv(begin, f"{name}_sc", width, 1, stride) if first else x)
