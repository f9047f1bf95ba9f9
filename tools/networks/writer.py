"""Writes an ONNX graph node by node, named as exporters name things."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx
from onnx import helper

from tilewright.tools.networks.producer import PRODUCER

OPSET = 18


@dataclass(frozen=True)
class SampledValue:
    """A value of the graph, and its content for the samples that weights are fitted to."""

    name: str
    sample: np.ndarray


class Writer:
    """An ONNX model under construction (``model``) and its source of random weights.

    ``at`` is the dotted path of the layer that a node belongs to, as in the original code: node ``Conv`` at
    ``layer1.0.conv1`` is named ``/layer1/0/conv1/Conv``.
    """

    def __init__(self, name: str, seed: int) -> None:
        self.model = onnx.ModelProto(ir_version=8, producer_name=PRODUCER)
        self.model.opset_import.add(domain="", version=OPSET)
        self.graph = self.model.graph
        self.graph.name = name
        self.random = np.random.default_rng(seed)
        self._uses: Counter[str] = Counter()
        self._constants: dict[tuple[str, tuple[int, ...], bytes], str] = {}

    def input(self, name: str, shape: tuple[int, ...], dtype: type = np.float32) -> str:
        """Declare an input of the graph."""
        self.graph.input.append(_value_info(name, shape, dtype))
        return name

    def output(self, value: str, name: str, shape: tuple[int, ...]) -> None:
        """Declare ``value`` as the float32 output ``name``: its node then writes it under that name."""
        for node in self.graph.node:
            for field in (node.input, node.output):
                field[:] = [name if n == value else n for n in field]
        self.graph.output.append(_value_info(name, shape, np.float32))

    def param(self, name: str, array: np.ndarray) -> str:
        """Add an initializer. Its data is raw bytes, and copied only once."""
        tensor = self.graph.initializer.add(name=name, dims=array.shape)
        tensor.data_type = helper.np_dtype_to_tensor_dtype(array.dtype)
        tensor.raw_data = array.tobytes()
        return name

    def constant(self, value: Any, dtype: type = np.float32) -> str:
        """A small constant as a Constant node; equal ones exist once."""
        array = np.asarray(value, dtype)
        key = (array.dtype.str, array.shape, array.tobytes())
        if key not in self._constants:
            tensor = onnx.numpy_helper.from_array(array)
            self._constants[key] = self.node("Constant", (), "constants", value=tensor)
        return self._constants[key]

    def shape(self, *extents: int) -> str:
        """An int64 vector constant: a target shape, axes, split sizes."""
        return self.constant(extents, np.int64)

    def node(self, op: str, inputs: tuple[str, ...], at: str, **attributes: Any) -> str:
        """Add a node with one output and return the output's name."""
        return self.nodes(op, inputs, at, 1, **attributes)[0]

    def add(self, x: SampledValue, y: SampledValue, at: str) -> SampledValue:
        """The sum of two values."""
        return SampledValue(self.node("Add", (x.name, y.name), at), x.sample + y.sample)

    def nodes(self, op: str, inputs: tuple[str, ...], at: str, count: int, **attributes: Any) -> list[str]:
        """Add a node with ``count`` outputs and return their names."""
        name = "/" + "/".join((*filter(None, at.split(".")), op))
        uses = self._uses[name]
        self._uses[name] += 1
        name += f"_{uses}" if uses else ""
        outputs = [f"{name}_output_{i}" for i in range(count)]
        self.graph.node.append(helper.make_node(op, inputs, outputs, name=name, **attributes))
        return outputs

    def normal(self, *shape: int, std: float) -> np.ndarray:
        """Normally distributed float32 values around zero."""
        values = self.random.standard_normal(shape, np.float32)
        values *= np.float32(std)
        return values

    def offsets(self, count: int, scale: float = 1.0) -> np.ndarray:
        """Values for a bias: 0.1 to 0.3 times ``scale``, of either sign, so that a forgotten one shows."""
        signs = self.random.choice(np.array([-1, 1], np.float32), count)
        return signs * (self.random.uniform(0.1, 0.3, count) * scale).astype(np.float32)

    def scales(self, count: int) -> np.ndarray:
        """Values for a normalisation's weight: around one."""
        return self.random.uniform(0.7, 1.3, count).astype(np.float32)


def _value_info(name: str, shape: tuple[int, ...], dtype: type) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(np.dtype(dtype)), shape)
