"""SqueezeNet: few channels by convolutions of pixels, then many (Iandola et al. 2016)."""

from __future__ import annotations

from collections.abc import Sequence

from ....core.errors import ModelError
from ...network.expr import Expr, Function
from .. import op
from ..op import nn
from .init import Workload, create_workload
from .layers import Layers, close_network

# Channels of each module: the few, and half of the many; None is a pool.
_MODULES = {
    "1.0": [(16, 64), (16, 64), (32, 128), None, (32, 128), (48, 192), (48, 192), (64, 256), None, (64, 256)],
    "1.1": [(16, 64), (16, 64), None, (32, 128), (32, 128), None, (48, 192), (48, 192), (64, 256), (64, 256)],
}


def get_net(
    batch_size: int = 1,
    num_classes: int = 1000,
    version: str = "1.0",
    image_shape: Sequence[int] = (3, 224, 224),
    dtype: str = "float32",
) -> Function:
    """The network, whose input is "data". Raises ModelError for another version."""
    if version not in _MODULES:
        raise ModelError(f"version is '{version}': there are SqueezeNets '1.0' and '1.1'")
    net = Layers((batch_size, *image_shape), dtype=dtype)
    first = (96, 7) if version == "1.0" else (64, 3)
    x = net.max_pool(_convolve(net, net.data, "conv1", *first, 2), 3, 2)
    for number, each in enumerate(_MODULES[version], 1):
        if each is None:
            x = net.max_pool(x, 3, 2)
            continue
        few, half = each
        x = _convolve(net, x, f"fire{number}_squeeze", few, 1)
        pixels = _convolve(net, x, f"fire{number}_expand1x1", half, 1)
        x = op.concatenate((pixels, _convolve(net, x, f"fire{number}_expand3x3", half, 3, 1, 1)), axis=1)
    return close_network(net.mean_of_images(_convolve(net, x, "conv_last", num_classes, 1)))


def get_workload(
    batch_size: int = 1,
    num_classes: int = 1000,
    version: str = "1.0",
    image_shape: Sequence[int] = (3, 224, 224),
    dtype: str = "float32",
) -> Workload:
    """The network, and its weights."""
    return create_workload(get_net(batch_size, num_classes, version, image_shape, dtype))


def _convolve(net: Layers, x: Expr, name: str, *sizes: int) -> Expr:
    return nn.relu(net.bias(net.conv(x, name, *sizes), name))
