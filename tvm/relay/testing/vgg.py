"""VGG: stages of 3x3 convolutions, each with half the pixels of the one before (Simonyan and Zisserman 2014)."""

from __future__ import annotations

from collections.abc import Sequence

from ....core.errors import ModelError
from ...network.expr import Expr, Function
from ..op import nn
from .init import Workload, create_workload
from .layers import Layers, close_network, dense_add_bias

# The convolutions of each stage, by the number of layers.
_STAGES = {11: (1, 1, 2, 2, 2), 13: (2, 2, 2, 2, 2), 16: (2, 2, 3, 3, 3), 19: (2, 2, 4, 4, 4)}


def get_net(
    batch_size: int,
    num_classes: int = 1000,
    image_shape: Sequence[int] = (3, 224, 224),
    dtype: str = "float32",
    num_layers: int = 11,
    batch_norm: bool = False,
) -> Function:
    """The network, whose input is "data". Raises ModelError for another number of layers."""
    if num_layers not in _STAGES:
        raise ModelError(f"num_layers is {num_layers}: there are VGGs of {', '.join(map(str, _STAGES))}")
    net = Layers((batch_size, *image_shape), dtype=dtype)
    x: Expr = net.data
    for stage, (count, channels) in enumerate(zip(_STAGES[num_layers], (64, 128, 256, 512, 512), strict=True), 1):
        for number in range(1, count + 1):
            x = net.bias(net.conv(x, f"conv{stage}_{number}", channels, 3, 1, 1), f"conv{stage}_{number}")
            x = nn.relu(net.norm(x, f"bn{stage}_{number}") if batch_norm else x)
        x = net.max_pool(x, 2, 2)
    x = nn.batch_flatten(x)
    for number in (6, 7):
        x = nn.relu(dense_add_bias(x, name=f"fc{number}", units=4096))
    return close_network(dense_add_bias(x, name="fc8", units=num_classes))


def get_workload(
    batch_size: int,
    num_classes: int = 1000,
    image_shape: Sequence[int] = (3, 224, 224),
    dtype: str = "float32",
    num_layers: int = 11,
    batch_norm: bool = False,
) -> Workload:
    """The network, and its weights."""
    return create_workload(get_net(batch_size, num_classes, image_shape, dtype, num_layers, batch_norm))
