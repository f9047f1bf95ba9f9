"""Models in onnx's textual form, compiled and compared with onnxruntime."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import onnx.parser
import onnxruntime
from onnx import numpy_helper

import tilewright as tw

RANDOM = np.random.default_rng(0)
TYPES = {"float32": "float", "float16": "float16", "int64": "int64", "int32": "int32", "bool": "bool"}
TYPES |= {name: name for name in ("complex64", "complex128")}


def values(*shape: int) -> np.ndarray:
    return RANDOM.standard_normal(shape).astype(np.float32)


def model(
    outputs: str,
    nodes: str,
    inputs: Mapping[str, np.ndarray],
    weights: Mapping[str, np.ndarray] | None = None,
    opset: int = 17,
) -> onnx.ModelProto:
    """A model in onnx's textual form; its inputs and weights have the types of the arrays."""
    shapes = {n: f"[{','.join(map(str, a.shape))}]" if a.ndim else "" for n, a in inputs.items()}
    arguments = [f"{TYPES[a.dtype.name]}{shapes[n]} {n}" for n, a in inputs.items()]
    text = f'<ir_version: 8, opset_import: ["" : {opset}]> g ({", ".join(arguments)}) => ({outputs}) {{ {nodes} }}'
    made = onnx.parser.parse_model(text)
    made.graph.initializer.extend(numpy_helper.from_array(a, n) for n, a in (weights or {}).items())
    return made


def check(made: onnx.ModelProto, inputs: Mapping[str, np.ndarray], tolerance: float = 1e-5) -> None:
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(made.SerializeToString(), options)
    want = [np.asarray(a) for a in session.run(None, dict(inputs))]
    got = tw.compile(made, workers=0, cache=False)(*inputs.values())
    for a, b in zip(got, want, strict=True):
        assert (a.shape, a.dtype) == (b.shape, b.dtype)
        np.testing.assert_allclose(a, b, tolerance, tolerance)
