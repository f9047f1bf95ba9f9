"""A network of six small nodes, two of whose values are outputs, for the tools that take models apart."""

from __future__ import annotations

import numpy as np
import onnx
from onnx import helper
from onnx_case import model_of

X = np.random.default_rng(0).standard_normal((4, 6)).astype(np.float32)
W = np.random.default_rng(1).standard_normal((6, 8)).astype(np.float32)


def node(op: str, inputs: str, outputs: str, **attributes) -> onnx.NodeProto:
    """A node that is called after its op; its inputs and outputs are words."""
    return helper.make_node(op, inputs.split(), outputs.split(), f"the_{op}", **attributes)


def network(reshaped: bool = False) -> onnx.ModelProto:
    """The network of input ``x`` and weight ``w``; its fourth node is a Softmax or, ``reshaped``, a Reshape."""
    nodes = [
        node("MatMul", "x w", "a"),
        node("Relu", "a", "b"),
        node("Exp", "b", "c"),
        node("Reshape", "c s", "d") if reshaped else node("Softmax", "c", "d", axis=1),
        node("Transpose", "d", "e", perm=[1, 0]),
        node("Sigmoid", "b", "f"),
    ]
    weights = {"w": W, "s": np.array([-1, 4])} if reshaped else {"w": W}
    return model_of(nodes, {"x": X}, ["e", "f"], weights)
