"""ResNet-18 and ResNet-50 (He et al. 2015; the stride of a bottleneck is on its 3x3 convolution)."""

from __future__ import annotations

from collections.abc import Callable

import onnx

from tilewright.tools.networks.layers import ImageNet
from tilewright.tools.networks.writer import SampledValue

BlockWriter = Callable[[ImageNet, SampledValue, str, int, int], SampledValue]


def resnet18(seed: int) -> onnx.ModelProto:
    """Two blocks of two 3x3 convolutions in each of four stages."""
    return _resnet(ImageNet("resnet18", seed), (2, 2, 2, 2), _basic)


def resnet50(seed: int) -> onnx.ModelProto:
    """3, 4, 6 and 3 bottleneck blocks in four stages."""
    return _resnet(ImageNet("resnet50", seed), (3, 4, 6, 3), _bottleneck)


def small_resnet(seed: int) -> onnx.ModelProto:
    """A bottleneck block in each of two stages, an eighth as wide."""
    return _resnet(ImageNet("small_resnet", seed, side=32, classes=10), (1, 1), _bottleneck, width=8)


def _resnet(net: ImageNet, depths: tuple[int, ...], block: BlockWriter, width: int = 64) -> onnx.ModelProto:
    """``width`` is the channels of the first stage; each has twice as many as the one before."""
    x = _conv_norm(net, net.images(), "conv1", "bn1", width, 7, 2, 3)
    x = net.max_pool(net.relu(x, "relu"), "maxpool", 3, 2, 1)
    for stage, depth in enumerate(depths):
        for i in range(depth):
            stride = 2 if stage and i == 0 else 1
            x = block(net, x, f"layer{stage + 1}.{i}", width << stage, stride)
    net.classify(x, "fc")
    return net.model


def _basic(net: ImageNet, x: SampledValue, at: str, width: int, stride: int) -> SampledValue:
    y = _conv_norm(net, x, f"{at}.conv1", f"{at}.bn1", width, 3, stride, 1)
    y = net.relu(y, f"{at}.relu")
    y = _conv_norm(net, y, f"{at}.conv2", f"{at}.bn2", width, 3, 1, 1)
    return _add_shortcut(net, x, y, at, stride)


def _bottleneck(net: ImageNet, x: SampledValue, at: str, width: int, stride: int) -> SampledValue:
    y = _conv_norm(net, x, f"{at}.conv1", f"{at}.bn1", width, 1, 1, 0)
    y = net.relu(y, f"{at}.relu")
    y = _conv_norm(net, y, f"{at}.conv2", f"{at}.bn2", width, 3, stride, 1)
    y = net.relu(y, f"{at}.relu")
    y = _conv_norm(net, y, f"{at}.conv3", f"{at}.bn3", 4 * width, 1, 1, 0)
    return _add_shortcut(net, x, y, at, stride)


def _add_shortcut(net: ImageNet, x: SampledValue, y: SampledValue, at: str, stride: int) -> SampledValue:
    """Add the shortcut, which is a 1x1 convolution where the block changes the shape."""
    if x.sample.shape != y.sample.shape:
        x = _conv_norm(net, x, f"{at}.downsample.0", f"{at}.downsample.1", y.sample.shape[1], 1, stride, 0)
    return net.relu(net.add(y, x, at), f"{at}.relu")


def _conv_norm(
    net: ImageNet, x: SampledValue, conv: str, norm: str, channels: int, kernel: int, stride: int, pad: int
) -> SampledValue:
    return net.norm(net.conv(x, conv, channels, kernel, stride, pad), norm)
