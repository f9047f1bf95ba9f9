"""SqueezeNet: few channels by convolutions of pixels, then many (Iandola et al. 2016)."""

from __future__ import annotations

from collections.abc import Sequence

from ....core.errors import ModelError
from .network import Network, Workload

# Channels of each module: the few, and half of the many; None is a pool.
_MODULES = {
    "1.0": [(16, 64), (16, 64), (32, 128), None, (32, 128), (48, 192), (48, 192), (64, 256), None, (64, 256)],
    "1.1": [(16, 64), (16, 64), None, (32, 128), (32, 128), None, (48, 192), (48, 192), (64, 256), (64, 256)],
}


def get_workload(
    batch_size: int = 1,
    num_classes: int = 1000,
    version: str = "1.0",
    image_shape: Sequence[int] = (3, 224, 224),
    dtype: str = "float32",
) -> Workload:
    """The network, whose input is "data", and its weights. Raises ModelError for another version."""
    if version not in _MODULES:
        raise ModelError(f"version is '{version}': there are SqueezeNets '1.0' and '1.1'")
    net = Network("squeezenet", (batch_size, *image_shape), dtype=dtype)
    first = (96, 7) if version == "1.0" else (64, 3)
    x = net.max_pool(net.relu(net.conv(net.data, "conv1", *first, 2, bias=True)), 3, 2)
    for number, each in enumerate(_MODULES[version], 1):
        if each is None:
            x = net.max_pool(x, 3, 2)
            continue
        few, half = each
        x = net.relu(net.conv(x, f"fire{number}_squeeze", few, 1, bias=True))
        pixels = net.relu(net.conv(x, f"fire{number}_expand1x1", half, 1, bias=True))
        x = net.concat(pixels, net.relu(net.conv(x, f"fire{number}_expand3x3", half, 3, 1, 1, bias=True)))
    x = net.relu(net.conv(x, "conv_last", num_classes, 1, bias=True))
    return net.finish(net.mean_of_images(x))
