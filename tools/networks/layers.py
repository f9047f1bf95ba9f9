"""Layers of image networks. Each is written into the graph and at once applied to a few sample images.

The samples are what makes random weights behave like trained ones: a normalisation gets the statistics that its input
really has, and a convolution without one is scaled so that each channel has unit deviation around its bias. So no
channel dies, none explodes, at any depth. Statistics are rounded, since their last bits differ between machines.
"""

from __future__ import annotations

import numpy as np

from tilewright.tools.networks.writer import SampledValue, Writer


class ImageNet(Writer):
    """Writes image classifiers: input ``pixel_values``, output ``logits``.

    A sample holds several images, N x C x H x W, and N x C after ``flatten``. ``side`` is an image's height and
    width, a multiple of 16.
    """

    def __init__(self, name: str, seed: int, side: int = 224, classes: int = 1000) -> None:
        super().__init__(name, seed)
        self.image, self.classes = (1, 3, side, side), classes

    def images(self) -> SampledValue:
        """Declare the input. The samples are noise, and a bright coarse pattern with a little noise."""
        _, channels, height, width = self.image
        noise = self.normal(*self.image[1:], std=1)
        coarse = self.normal(channels, height // 16, width // 16, std=1)
        pattern = coarse.repeat(16, axis=1).repeat(16, axis=2)
        pattern += self.random.uniform(0, 1, self.image[1:]).astype(np.float32)
        return SampledValue(self.input("pixel_values", self.image), np.stack([noise, pattern]))

    def conv(
        self, x: SampledValue, at: str, channels: int, kernel: int, stride: int = 1, pad: int = 0, groups: int = 1
    ) -> SampledValue:
        """A convolution without bias, to be followed by ``norm``."""
        weight = self._filters(x, channels, kernel, groups)
        y = convolve(x.sample, weight, stride, pad, groups)
        return SampledValue(self._conv_node(x, at, (weight,), stride, pad, groups), y)

    def conv_bias(
        self, x: SampledValue, at: str, channels: int, kernel: int, stride: int = 1, pad: int = 0
    ) -> SampledValue:
        """A convolution with bias whose channels have unit deviation and a mean near zero."""
        weight = self._filters(x, channels, kernel, 1)
        y = convolve(x.sample, weight, stride, pad)
        mean, deviation = y.mean((0, 2, 3)).round(4), y.std((0, 2, 3)).round(4)
        weight /= deviation[:, None, None, None]
        bias = self.offsets(channels) - mean / deviation
        y /= _per_channel(deviation)
        y += _per_channel(bias)
        return SampledValue(self._conv_node(x, at, (weight, bias), stride, pad, 1), y)

    def norm(self, x: SampledValue, at: str) -> SampledValue:
        """Batch normalisation with the statistics of its input."""
        mean, var = x.sample.mean((0, 2, 3)).round(4), x.sample.var((0, 2, 3)).round(4)
        scale, bias = self.scales(x.sample.shape[1]), self.offsets(x.sample.shape[1])
        factor = scale / np.sqrt(var + np.float32(1e-5))
        inputs = {"weight": scale, "bias": bias, "running_mean": mean, "running_var": var}
        names = (self.param(f"{at}.{k}", v) for k, v in inputs.items())
        y = self.node("BatchNormalization", (x.name, *names), at, epsilon=1e-5, momentum=0.9)
        return SampledValue(y, x.sample * _per_channel(factor) + _per_channel(bias - mean * factor))

    def relu(self, x: SampledValue, at: str) -> SampledValue:
        return SampledValue(self.node("Relu", (x.name,), at), np.maximum(x.sample, 0))

    def relu6(self, x: SampledValue, at: str) -> SampledValue:
        bounds = self.constant(0), self.constant(6)
        return SampledValue(self.node("Clip", (x.name, *bounds), at), x.sample.clip(0, 6))

    def concat(self, x: SampledValue, y: SampledValue, at: str) -> SampledValue:
        """Join the channels of two values."""
        return SampledValue(self.node("Concat", (x.name, y.name), at, axis=1), np.concatenate((x.sample, y.sample), 1))

    def max_pool(
        self, x: SampledValue, at: str, kernel: int, stride: int, pad: int = 0, ceil: bool = False
    ) -> SampledValue:
        """Max pooling. ``ceil`` only marks the node: it may not change the extent of this input."""
        extents = x.sample.shape[2:]
        assert not ceil or all((e + 2 * pad - kernel) % stride == 0 for e in extents), "ceil would change the extent"
        window = {"kernel_shape": (kernel, kernel), "strides": (stride, stride), "pads": (pad,) * 4}
        y = self.node("MaxPool", (x.name,), at, ceil_mode=int(ceil), **window)
        return SampledValue(y, np.maximum.reduce(list(_window_taps(x.sample, kernel, stride, pad, -np.inf))))

    def classify(self, x: SampledValue, at: str) -> None:
        """Average over the image, then the dense layer to the classes, the output ``logits``."""
        pooled = self.global_average(x, "avgpool")
        self.dense_output(self.flatten(pooled), at)

    def global_average(self, x: SampledValue, at: str) -> SampledValue:
        return SampledValue(self.node("GlobalAveragePool", (x.name,), at), x.sample.mean((2, 3), keepdims=True))

    def flatten(self, x: SampledValue) -> SampledValue:
        return SampledValue(self.node("Flatten", (x.name,), "", axis=1), x.sample.reshape(len(x.sample), -1))

    def dense(self, x: SampledValue, at: str, features: int) -> SampledValue:
        """A dense layer whose outputs have unit deviation over the features of a sample."""
        rms = np.sqrt(np.square(x.sample).mean()).round(4)
        weight = self.normal(features, x.sample.shape[1], std=float(1 / (rms * np.sqrt(x.sample.shape[1]))))
        bias = self.offsets(features)
        names = self.param(f"{at}.weight", weight), self.param(f"{at}.bias", bias)
        return SampledValue(self.node("Gemm", (x.name, *names), at, transB=1), x.sample @ weight.T + bias)

    def dense_output(self, x: SampledValue, at: str) -> None:
        """The last dense layer; its result is the output ``logits``."""
        self.output(self.dense(x, at, self.classes).name, "logits", (1, self.classes))

    def _filters(self, x: SampledValue, channels: int, kernel: int, groups: int) -> np.ndarray:
        fan_in = x.sample.shape[1] // groups * kernel * kernel
        return self.normal(channels, x.sample.shape[1] // groups, kernel, kernel, std=(2 / fan_in) ** 0.5)

    def _conv_node(
        self, x: SampledValue, at: str, params: tuple[np.ndarray, ...], stride: int, pad: int, groups: int
    ) -> str:
        names = (self.param(f"{at}.{k}", v) for k, v in zip(("weight", "bias"), params, strict=False))
        window = {"kernel_shape": params[0].shape[2:], "strides": (stride, stride), "pads": (pad,) * 4}
        return self.node("Conv", (x.name, *names), at, group=groups, dilations=(1, 1), **window)


def convolve(x: np.ndarray, weight: np.ndarray, stride: int = 1, pad: int = 0, groups: int = 1) -> np.ndarray:
    """2-D convolution of ``x`` (N x C x H x W) with ``weight`` (F x C/groups x K x K): one product for each tap."""
    filters, depth, kernel, _ = weight.shape
    taps = weight.reshape(groups, filters // groups, depth, kernel * kernel)
    total: np.ndarray | None = None
    extents: tuple[int, ...] = ()
    for i, window in enumerate(_window_taps(x, kernel, stride, pad, 0)):
        extents = window.shape[2:]
        columns = window.reshape(len(x), groups, depth, -1)
        part = taps[None, ..., i] * columns if depth == 1 == filters // groups else taps[None, ..., i] @ columns
        total = part if total is None else np.add(total, part, out=total)
    assert total is not None, "a kernel has a tap"
    return total.reshape(len(x), filters, *extents)


def _window_taps(x: np.ndarray, kernel: int, stride: int, pad: int, fill: float):
    """For each place in a kernel's window, row by row: what the windows see there."""
    x = np.pad(x, ((0, 0), (0, 0), (pad, pad), (pad, pad)), constant_values=fill)
    height, width = ((e - kernel) // stride + 1 for e in x.shape[2:])
    for i in range(kernel):
        for j in range(kernel):
            yield x[:, :, i : i + stride * height : stride, j : j + stride * width : stride]


def _per_channel(channels: np.ndarray) -> np.ndarray:
    return channels[:, None, None]
