"""MobileNetV2 (Sandler et al. 2018)."""

from __future__ import annotations

from collections.abc import Sequence

import onnx

from tilewright.tools.networks.layers import ImageNet
from tilewright.tools.networks.writer import SampledValue

# Expansion of the depthwise part, channels, repeats, stride of the first: table 2 of the paper.
STAGES = (
    (1, 16, 1, 1),
    (6, 24, 2, 2),
    (6, 32, 3, 2),
    (6, 64, 4, 2),
    (6, 96, 3, 1),
    (6, 160, 3, 2),
    (6, 320, 1, 1),
)
SMALL_STAGES = ((1, 8, 1, 1), (3, 8, 2, 2))


def mobilenet_v2(seed: int) -> onnx.ModelProto:
    """Inverted residual blocks, width multiplier 1."""
    return _mobilenet(ImageNet("mobilenet_v2", seed), STAGES, 32, 1280)


def small_mobilenet(seed: int) -> onnx.ModelProto:
    """Three blocks of 8 channels, one of which adds its input."""
    return _mobilenet(ImageNet("small_mobilenet", seed, side=32, classes=10), SMALL_STAGES, 8, 16)


def _mobilenet(net: ImageNet, stages: Sequence[tuple[int, int, int, int]], first: int, last: int) -> onnx.ModelProto:
    """``first`` and ``last`` are the channels of the convolutions around the blocks."""
    x = _conv_norm(net, net.images(), "features.0", first, 3, 2)
    index = 1
    for expansion, channels, repeats, first_stride in stages:
        for i in range(repeats):
            x = _inverted_residual(net, x, f"features.{index}", expansion, channels, 1 if i else first_stride)
            index += 1
    x = _conv_norm(net, x, f"features.{index}", last, 1, 1)
    net.classify(x, "classifier.1")
    return net.model


def _inverted_residual(
    net: ImageNet, x: SampledValue, at: str, expansion: int, channels: int, stride: int
) -> SampledValue:
    """Widen, convolve each channel, narrow without activation; the input is added where the shape is the same."""
    width = x.sample.shape[1] * expansion
    y = _conv_norm(net, x, f"{at}.conv.0", width, 1, 1) if expansion > 1 else x
    at_depthwise, at_narrow = (f"{at}.conv.{i + int(expansion > 1)}" for i in range(2))
    y = _conv_norm(net, y, at_depthwise, width, 3, stride, groups=width)
    y = net.norm(net.conv(y, at_narrow, channels, 1), f"{at_narrow}.norm")
    return net.add(x, y, at) if x.sample.shape == y.sample.shape else y


def _conv_norm(
    net: ImageNet, x: SampledValue, at: str, channels: int, kernel: int, stride: int, groups: int = 1
) -> SampledValue:
    y = net.conv(x, f"{at}.0", channels, kernel, stride, kernel // 2, groups)
    return net.relu6(net.norm(y, f"{at}.1"), f"{at}.2")
