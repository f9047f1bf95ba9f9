"""MobileNet: convolutions of each channel alone, and of pixels alone, in turn (Howard et al. 2017)."""

from __future__ import annotations

from collections.abc import Sequence

from ...network.expr import Expr, Function
from ..op import nn
from .init import Workload, create_workload
from .layers import Layers, close_network, dense_add_bias

# The channels that each layer has, and how far its windows move.
_LAYERS = [(64, 1), (128, 2), (128, 1), (256, 2), (256, 1), (512, 2), *[(512, 1)] * 5, (1024, 2), (1024, 1)]


def get_net(
    batch_size: int = 1,
    num_classes: int = 1000,
    image_shape: Sequence[int] = (3, 224, 224),
    dtype: str = "float32",
    layout: str = "NCHW",
) -> Function:
    """The network, whose input is "data"."""
    net, own = Layers((batch_size, *image_shape), layout, dtype), 32
    x = _normalize(net, net.conv(net.data, "conv_block_1_conv", own, 3, 2, 1), "conv_block_1")
    for number, (channels, stride) in enumerate(_LAYERS, 1):
        name = f"separable_conv_block_{number}"
        x = _normalize(net, net.conv(x, f"{name}_depthwise_conv1", own, 3, stride, 1, groups=own), f"{name}_1")
        x = _normalize(net, net.conv(x, f"{name}_conv2", channels, 1), f"{name}_2")
        own = channels
    return close_network(dense_add_bias(net.mean_of_images(x), name="fc", units=num_classes))


def get_workload(
    batch_size: int = 1,
    num_classes: int = 1000,
    image_shape: Sequence[int] = (3, 224, 224),
    dtype: str = "float32",
    layout: str = "NCHW",
) -> Workload:
    """The network, and its weights."""
    return create_workload(get_net(batch_size, num_classes, image_shape, dtype, layout))


def _normalize(net: Layers, x: Expr, name: str) -> Expr:
    return nn.relu(net.norm(x, f"{name}_bn"))
