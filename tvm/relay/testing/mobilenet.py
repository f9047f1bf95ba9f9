"""MobileNet: convolutions of each channel alone, and of pixels alone, in turn (Howard et al. 2017)."""

from __future__ import annotations

from collections.abc import Sequence

from .network import Network, Workload

# The channels that each layer has, and how far its windows move.
_LAYERS = [(64, 1), (128, 2), (128, 1), (256, 2), (256, 1), (512, 2), *[(512, 1)] * 5, (1024, 2), (1024, 1)]


def get_workload(
    batch_size: int = 1,
    num_classes: int = 1000,
    image_shape: Sequence[int] = (3, 224, 224),
    dtype: str = "float32",
    layout: str = "NCHW",
) -> Workload:
    """The network, whose input is "data", and its weights."""
    net = Network("mobilenet", (batch_size, *image_shape), layout, dtype)
    x = _normalize(net, net.conv(net.data, "conv_block_1_conv", 32, 3, 2, 1), "conv_block_1")
    for number, (channels, stride) in enumerate(_LAYERS, 1):
        name, own = f"separable_conv_block_{number}", net.shapes[x][1]
        x = _normalize(net, net.conv(x, f"{name}_depthwise_conv1", own, 3, stride, 1, groups=own), f"{name}_1")
        x = _normalize(net, net.conv(x, f"{name}_conv2", channels, 1), f"{name}_2")
    return net.finish(net.dense(net.mean_of_images(x), "fc", num_classes))


def _normalize(net: Network, x: str, name: str) -> str:
    return net.relu(net.norm(x, f"{name}_bn"))
