"""Networks without normalisation: VGG-16 (Simonyan and Zisserman 2014), SqueezeNet 1.1 (Iandola et al. 2016)."""

from __future__ import annotations

from collections.abc import Sequence

import onnx

from tilewright.tools.networks.layers import ImageNet
from tilewright.tools.networks.writer import SampledValue

VGG16 = ((64, 64), (128, 128), (256, 256, 256), (512, 512, 512), (512, 512, 512))

# Channels of a fire module: after squeezing, and of each of its two halves; None is a max pooling.
SQUEEZENET = (
    *((16, 64), (16, 64), None),
    *((32, 128), (32, 128), None),
    *((48, 192), (48, 192), (64, 256), (64, 256)),
)
SMALL_SQUEEZENET = ((4, 8), None, (4, 8))


def vgg16(seed: int) -> onnx.ModelProto:
    """Thirteen 3x3 convolutions in five stages, and three dense layers."""
    net = ImageNet("vgg16", seed)
    x, index = net.images(), 0
    for stage in VGG16:
        for channels in stage:
            x = net.conv_bias(x, f"features.{index}", channels, 3, 1, 1)
            x = net.relu(x, f"features.{index + 1}")
            index += 2
        x = net.max_pool(x, f"features.{index}", 2, 2)
        index += 1
    x = net.flatten(x)
    for i in (0, 3):
        x = net.relu(net.dense(x, f"classifier.{i}", 4096), f"classifier.{i + 1}")
    net.dense_output(x, "classifier.6")
    return net.model


def squeezenet1_1(seed: int) -> onnx.ModelProto:
    """Eight fire modules; the classes are channels of a last convolution that is averaged over the image."""
    return _squeezenet(ImageNet("squeezenet1_1", seed), SQUEEZENET, 64)


def small_squeezenet(seed: int) -> onnx.ModelProto:
    """Two fire modules."""
    return _squeezenet(ImageNet("small_squeezenet", seed, side=32, classes=10), SMALL_SQUEEZENET, 8)


def _squeezenet(net: ImageNet, modules: Sequence[tuple[int, int] | None], first: int) -> onnx.ModelProto:
    """``first`` is the channels of the first convolution."""
    x = net.conv_bias(net.images(), "features.0", first, 3, 2)
    x = net.max_pool(net.relu(x, "features.1"), "features.2", 3, 2, ceil=True)
    for index, channels in enumerate(modules, start=3):
        at = f"features.{index}"
        x = _fire(net, x, at, *channels) if channels else net.max_pool(x, at, 3, 2, ceil=True)
    x = net.relu(net.conv_bias(x, "classifier.1", net.classes, 1), "classifier.2")
    x = net.flatten(net.global_average(x, "classifier.3"))
    net.output(x.name, "logits", (1, net.classes))
    return net.model


def _fire(net: ImageNet, x: SampledValue, at: str, squeezed: int, half: int) -> SampledValue:
    x = net.relu(net.conv_bias(x, f"{at}.squeeze", squeezed, 1), f"{at}.squeeze_activation")
    one = net.relu(net.conv_bias(x, f"{at}.expand1x1", half, 1), f"{at}.expand1x1_activation")
    three = net.relu(net.conv_bias(x, f"{at}.expand3x3", half, 3, 1, 1), f"{at}.expand3x3_activation")
    return net.concat(one, three, at)
