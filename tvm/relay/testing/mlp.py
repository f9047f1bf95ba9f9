"""A perceptron of three layers."""

from __future__ import annotations

from collections.abc import Sequence

from .network import Network, Workload


def get_workload(
    batch_size: int, num_classes: int = 10, image_shape: Sequence[int] = (1, 28, 28), dtype: str = "float32"
) -> Workload:
    """The network, whose input is "data", and its weights."""
    net = Network("mlp", (batch_size, *image_shape), dtype=dtype)
    x = net.flatten(net.data)
    for number, units in enumerate((128, 64), 1):
        x = net.relu(net.dense(x, f"fc{number}", units))
    return net.finish(net.dense(x, "fc3", num_classes))
