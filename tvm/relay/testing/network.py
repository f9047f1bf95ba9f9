"""Writes the networks of ``relay.testing`` as ONNX models, layer by layer."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from ....core.errors import ModelError
from ... import nd
from ...ir import IRModule
from ..frontend import from_onnx

_OPSET = 18
_SEED = 0


class Network:
    """A network under construction: values are names, ``shapes`` what they have, weights are random numbers."""

    def __init__(self, name: str, shape: Sequence[int], layout: str = "NCHW", dtype: str = "float32") -> None:
        if dtype != "float32":
            raise ModelError(f"the networks of relay.testing are float32, not {dtype}: leave dtype out")
        if layout not in ("NCHW", "NHWC"):
            raise ModelError(f"layout is '{layout}': the networks of relay.testing have 'NCHW' and 'NHWC'")
        self.name = name
        self.shapes: dict[str, tuple[int, ...]] = {"data": tuple(shape)}
        self._nodes: list[tuple[str, list[str], str, dict[str, Any]]] = []
        self._weights: dict[str, np.ndarray] = {}
        self._random = np.random.default_rng(_SEED)
        self.data = "data"
        if layout == "NHWC":  # the compiler lays images as it needs them
            self.data = self._add("Transpose", ["data"], tuple(shape[n] for n in (0, 3, 1, 2)), perm=[0, 3, 1, 2])

    def conv(
        self,
        x: str,
        name: str,
        channels: int,
        kernel: int,
        stride: int = 1,
        pad: int = 0,
        groups: int = 1,
        bias: bool = False,
    ) -> str:
        """A convolution of square windows."""
        number, taken, *sides = self.shapes[x]
        inputs = [x, self._weight(f"{name}_weight", (channels, taken // groups, kernel, kernel))]
        if bias:
            inputs.append(self._constant(f"{name}_bias", channels, 0))
        shape = (number, channels, *((side + 2 * pad - kernel) // stride + 1 for side in sides))
        return self._add("Conv", inputs, shape, strides=[stride] * 2, pads=[pad] * 4, group=groups)

    def norm(self, x: str, name: str) -> str:
        """A batch norm of what is trained no more."""
        values = (("gamma", 1), ("beta", 0), ("moving_mean", 0), ("moving_var", 1))
        count = self.shapes[x][1]
        inputs = [x, *(self._constant(f"{name}_{each}", count, value) for each, value in values)]
        return self._add("BatchNormalization", inputs, self.shapes[x], epsilon=2e-5)

    def relu(self, x: str) -> str:
        """What is more than 0."""
        return self._add("Relu", [x], self.shapes[x])

    def add(self, x: str, y: str) -> str:
        """The sum of two values."""
        return self._add("Add", [x, y], self.shapes[x])

    def concat(self, *values: str) -> str:
        """Values behind each other, along the channels."""
        first = self.shapes[values[0]]
        channels = sum(self.shapes[each][1] for each in values)
        return self._add("Concat", list(values), (first[0], channels, *first[2:]), axis=1)

    def max_pool(self, x: str, kernel: int, stride: int, pad: int = 0) -> str:
        """The greatest of square windows."""
        sides = ((side + 2 * pad - kernel) // stride + 1 for side in self.shapes[x][2:])
        shape = (*self.shapes[x][:2], *sides)
        return self._add("MaxPool", [x], shape, kernel_shape=[kernel] * 2, strides=[stride] * 2, pads=[pad] * 4)

    def mean_of_images(self, x: str) -> str:
        """The mean of each channel, as rows."""
        return self.flatten(self._add("GlobalAveragePool", [x], (*self.shapes[x][:2], 1, 1)))

    def flatten(self, x: str) -> str:
        """Each image as a row."""
        number, *rest = self.shapes[x]
        return self._add("Flatten", [x], (number, math.prod(rest)))

    def dense(self, x: str, name: str, units: int) -> str:
        """A product with a weight, and a bias."""
        number, taken = self.shapes[x]
        inputs = [x, self._weight(f"{name}_weight", (units, taken)), self._constant(f"{name}_bias", units, 0)]
        return self._add("Gemm", inputs, (number, units), transB=1)

    def finish(self, x: str) -> tuple[IRModule, dict[str, nd.NDArray]]:
        """The network that ends with the softmax of ``x``, and its weights."""
        from onnx import TensorProto, helper, numpy_helper

        result = self._add("Softmax", [x], self.shapes[x], axis=1)
        nodes = [helper.make_node(op, inputs, [made], made, **facts) for op, inputs, made, facts in self._nodes]
        infos = [helper.make_tensor_value_info(each, TensorProto.FLOAT, self.shapes[each]) for each in ("data", result)]
        weights = [numpy_helper.from_array(value, name) for name, value in self._weights.items()]
        graph = helper.make_graph(nodes, self.name, infos[:1], infos[1:], weights)
        opset = helper.make_opsetid("", _OPSET)
        return from_onnx(helper.make_model(graph, opset_imports=[opset], ir_version=8))

    def _add(self, op: str, inputs: list[str], shape: tuple[int, ...], **facts: Any) -> str:
        name = f"{op.lower()}_{len(self._nodes)}"
        self._nodes.append((op, inputs, name, facts))
        self.shapes[name] = shape
        return name

    def _weight(self, name: str, shape: tuple[int, ...]) -> str:
        """Numbers of the size that keeps that of what they are multiplied with (Xavier's)."""
        reach = math.prod(shape[2:])
        bound = math.sqrt(3 / ((shape[0] + shape[1]) * reach / 2))
        self._weights[name] = self._random.uniform(-bound, bound, shape).astype(np.float32)
        return name

    def _constant(self, name: str, count: int, value: float) -> str:
        self._weights[name] = np.full(count, value, np.float32)
        return name


Workload = tuple[IRModule, dict[str, nd.NDArray]]
