"""VGG: stages of 3x3 convolutions, each with half the pixels of the one before (Simonyan and Zisserman 2014)."""

from __future__ import annotations

from collections.abc import Sequence

from ....core.errors import ModelError
from .network import Network, Workload

# The convolutions of each stage, by the number of layers.
_STAGES = {11: (1, 1, 2, 2, 2), 13: (2, 2, 2, 2, 2), 16: (2, 2, 3, 3, 3), 19: (2, 2, 4, 4, 4)}


def get_workload(
    batch_size: int,
    num_classes: int = 1000,
    image_shape: Sequence[int] = (3, 224, 224),
    dtype: str = "float32",
    num_layers: int = 11,
    batch_norm: bool = False,
) -> Workload:
    """The network, whose input is "data", and its weights. Raises ModelError for another number of layers."""
    if num_layers not in _STAGES:
        raise ModelError(f"num_layers is {num_layers}: there are VGGs of {', '.join(map(str, _STAGES))}")
    net = Network(f"vgg{num_layers}", (batch_size, *image_shape), dtype=dtype)
    x = net.data
    for stage, (count, channels) in enumerate(zip(_STAGES[num_layers], (64, 128, 256, 512, 512), strict=True), 1):
        for number in range(1, count + 1):
            x = net.conv(x, f"conv{stage}_{number}", channels, 3, 1, 1, bias=True)
            x = net.relu(net.norm(x, f"bn{stage}_{number}") if batch_norm else x)
        x = net.max_pool(x, 2, 2)
    x = net.flatten(x)
    for number in (6, 7):
        x = net.relu(net.dense(x, f"fc{number}", 4096))
    return net.finish(net.dense(x, "fc8", num_classes))
