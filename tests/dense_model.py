"""A dense layer for any number of rows, and inputs for it."""

import numpy as np
import onnx
from onnx import numpy_helper

W = np.random.default_rng(0).standard_normal((16, 8), np.float32)
B = np.arange(8, dtype=np.float32)


def dense() -> onnx.ModelProto:
    """``y = (relu(x @ w) + b) * scale``: ``w`` is prepared, ``b`` is used as it is."""
    made = onnx.parser.parse_model(
        '<ir_version: 10, opset_import: ["": 18]> g (float[n, 16] x, float[n, 1] scale) => (float[n, 8] y)'
        " { m = MatMul(x, w) r = Relu(m) s = Add(r, b) y = Mul(s, scale) }"
    )
    made.graph.initializer.extend([numpy_helper.from_array(W, "w"), numpy_helper.from_array(B, "b")])
    return made


def inputs(n: int) -> tuple[np.ndarray, np.ndarray]:
    """``x`` and ``scale`` of n rows."""
    random = np.random.default_rng(n)
    return random.standard_normal((n, 16), np.float32), random.standard_normal((n, 1), np.float32)
