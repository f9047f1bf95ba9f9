"""Standard kernels as ONNX models of one layer, to be measured alone: the shapes are those of well-known networks."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import onnx

from tilewright.core.errors import ModelError
from tilewright.tools.networks.writer import Writer


@dataclass(frozen=True)
class KernelModel:
    """A model of one layer.

    ``flops`` counts its multiply-adds as two operations each, of a convolution the direct ones; 0 where it has none.
    ``bytes`` is what it reads and writes; 0 for all of its tensors. ``channels_last`` says that its border is
    converted, which is no part of the layer: in a network its neighbours are channels last too.
    """

    text: str
    write: Callable[[Writer], None]
    flops: int = 0
    bytes: int = 0
    channels_last: bool = False

    def build(self) -> onnx.ModelProto:
        """The model, with random weights: the same at each call."""
        writer = Writer(self.text, seed=0)
        self.write(writer)
        return writer.model


def get(name: str) -> KernelModel:
    """The kernel ``name`` of ``KERNELS``. Raises ModelError for a name that is not there."""
    if name not in KERNELS:
        raise ModelError(f"there is no kernel '{name}': choose from {', '.join(KERNELS)}")
    return KERNELS[name]


def _matmul(m: int, n: int, k: int) -> KernelModel:
    def write(net: Writer) -> None:
        weight = net.param("weight", net.normal(k, n, std=k**-0.5))
        net.output(net.node("MatMul", (net.input("x", (m, k)), weight), "layer"), "y", (m, n))

    return KernelModel(f"matmul {m} x {n} x {k}, constant weight", write, 2 * m * n * k)


def _conv(extent: int, channels: int, filters: int, kernel: int, stride: int = 1, groups: int = 1) -> KernelModel:
    depth, out = channels // groups, extent // stride

    def write(net: Writer) -> None:
        weight = net.normal(filters, depth, kernel, kernel, std=(depth * kernel * kernel) ** -0.5)
        params = net.param("weight", weight), net.param("bias", net.offsets(filters))
        window = {"kernel_shape": (kernel, kernel), "strides": (stride, stride), "pads": (kernel // 2,) * 4}
        x = net.input("x", (1, channels, extent, extent))
        net.output(net.node("Conv", (x, *params), "layer", group=groups, **window), "y", (1, filters, out, out))

    what = "depthwise" if groups > 1 else "convolution"
    to = f", stride {stride}" if stride > 1 else ""
    text = f"{what} {kernel} x {kernel}, {extent}^2, {channels} -> {filters} channels{to}"
    return KernelModel(text, write, 2 * filters * depth * kernel**2 * out**2, channels_last=True)


def _softmax_of_rows(rows: int, columns: int) -> KernelModel:
    def write(net: Writer) -> None:
        x = net.input("x", (rows, columns))
        net.output(net.node("Softmax", (x,), "layer", axis=-1), "y", (rows, columns))

    return KernelModel(f"softmax of {rows} rows of {columns}", write)


def _softmax_of_columns(count: int, rows: int, columns: int) -> KernelModel:
    def write(net: Writer) -> None:
        x = net.input("x", (count, rows, columns))
        net.output(net.node("Softmax", (x,), "layer", axis=1), "y", (count, rows, columns))

    return KernelModel(f"softmax down columns of {rows}, {count} x {columns} of them", write)


def _layer_norm(rows: int, columns: int) -> KernelModel:
    def write(net: Writer) -> None:
        params = net.param("weight", net.scales(columns)), net.param("bias", net.offsets(columns))
        x = net.input("x", (rows, columns))
        net.output(net.node("LayerNormalization", (x, *params), "layer", axis=-1), "y", (rows, columns))

    return KernelModel(f"LayerNorm of {rows} rows of {columns}", write)


def _add_relu(rows: int, columns: int) -> KernelModel:
    def write(net: Writer) -> None:
        x, y = (net.input(name, (rows, columns)) for name in ("a", "b"))
        net.output(net.node("Relu", (net.node("Add", (x, y), "layer"),), "layer"), "y", (rows, columns))

    return KernelModel(f"add and relu, operands of {rows * columns * 4 >> 20} MiB", write)


def _transpose(rows: int, columns: int) -> KernelModel:
    def write(net: Writer) -> None:
        x = net.input("x", (rows, columns))
        net.output(net.node("Transpose", (x,), "layer", perm=(1, 0)), "y", (columns, rows))

    return KernelModel(f"transpose {rows} x {columns}", write)


def _concat_columns(rows: int, columns: int) -> KernelModel:
    def write(net: Writer) -> None:
        parts = tuple(net.input(name, (rows, columns)) for name in ("a", "b"))
        net.output(net.node("Concat", parts, "layer", axis=1), "y", (rows, 2 * columns))

    return KernelModel(f"concat of {rows} rows of {columns} and {columns}", write)


def _gather(rows: int, width: int, count: int) -> KernelModel:
    """An embedding: rows of a table, at places that lie apart."""

    def write(net: Writer) -> None:
        indices = net.param("indices", np.arange(count, dtype=np.int64) * 7919 % rows)
        taken = net.node("Gather", (net.input("table", (rows, width)), indices), "layer", axis=0)
        net.output(taken, "y", (count, width))

    return KernelModel(f"gather of {count} rows of {width}", write, bytes=8 * count * width)


def _attention(heads: int, tokens: int, width: int) -> KernelModel:
    """As exporters write it: a product, a scale, a softmax and a product."""

    def write(net: Writer) -> None:
        query, key, value = (net.input(name, (1, heads, tokens, width)) for name in ("query", "key", "value"))
        turned = net.node("Transpose", (key,), "layer", perm=(0, 1, 3, 2))
        scores = net.node("MatMul", (query, turned), "layer")
        scores = net.node("Mul", (scores, net.constant(np.float32(width**-0.5))), "layer")
        shares = net.node("Softmax", (scores,), "layer", axis=-1)
        net.output(net.node("MatMul", (shares, value), "layer"), "y", (1, heads, tokens, width))

    return KernelModel(f"attention, {heads} heads of {tokens} x {width}", write, 4 * heads * tokens**2 * width)


KERNELS = {
    "matmul": _matmul(1024, 1024, 1024),
    "conv3x3_56": _conv(56, 64, 64, 3),
    "conv3x3_28": _conv(28, 128, 128, 3),
    "conv3x3_14": _conv(14, 256, 256, 3),
    "conv3x3_7": _conv(7, 512, 512, 3),
    "conv1x1_56": _conv(56, 64, 256, 1),
    "conv1x1_28": _conv(28, 128, 512, 1),
    "conv1x1_14": _conv(14, 1024, 256, 1),
    "conv1x1_7": _conv(7, 512, 2048, 1),
    "stem": _conv(224, 3, 64, 7, stride=2),
    "depthwise_56": _conv(56, 144, 144, 3, groups=144),
    "depthwise_14": _conv(14, 384, 384, 3, groups=384),
    "attention_128": _attention(12, 128, 64),
    "attention_384": _attention(12, 384, 64),
    # Data of 32 MiB and more in each tensor, which no cache holds.
    "softmax": _softmax_of_rows(16384, 1024),
    "softmax_1000": _softmax_of_rows(16384, 1000),
    "softmax_columns": _softmax_of_columns(64, 256, 1024),
    "layer_norm": _layer_norm(16384, 768),
    "add_relu": _add_relu(4096, 4096),
    "transpose": _transpose(4096, 4096),
    "concat": _concat_columns(4096, 2048),
    "gather": _gather(30522, 768, 16384),
}
