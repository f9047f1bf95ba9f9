"""A perceptron of three layers."""

from __future__ import annotations

from collections.abc import Sequence

from ...network.expr import Function
from ..op import nn
from .init import Workload, create_workload
from .layers import Layers, close_network, dense_add_bias


def get_net(
    batch_size: int, num_classes: int = 10, image_shape: Sequence[int] = (1, 28, 28), dtype: str = "float32"
) -> Function:
    """The network, whose input is "data"."""
    x = nn.batch_flatten(Layers((batch_size, *image_shape), dtype=dtype).data)
    for number, units in enumerate((128, 64), 1):
        x = nn.relu(dense_add_bias(x, name=f"fc{number}", units=units))
    return close_network(dense_add_bias(x, name="fc3", units=num_classes))


def get_workload(
    batch_size: int, num_classes: int = 10, image_shape: Sequence[int] = (1, 28, 28), dtype: str = "float32"
) -> Workload:
    """The network, and its weights."""
    return create_workload(get_net(batch_size, num_classes, image_shape, dtype))
