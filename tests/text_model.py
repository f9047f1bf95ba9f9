"""Models in onnx's textual form, compiled and compared with onnxruntime."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import onnx.parser
from onnx import numpy_helper
from onnx.reference import ReferenceEvaluator

import tilewright as tw
from tilewright.core.dims import InputShapes
from tilewright.tools.debugging.oracle import make_session

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


def check(
    made: onnx.ModelProto,
    *runs: Mapping[str, np.ndarray],
    tolerance: float = 1e-5,
    reference: bool = False,
    input_shapes: InputShapes | None = None,
) -> tw.Module:
    """One program does for all runs what onnxruntime, or onnx's reference, does. Gives the program."""
    oracle = ReferenceEvaluator(made) if reference else make_session(made)
    module = tw.compile(made, input_shapes=input_shapes, workers=0, num_threads=1, cache=False)
    for inputs in runs:
        want = [np.asarray(array) for array in oracle.run(None, dict(inputs))]
        for got, array in zip(module(*inputs.values()), want, strict=True):
            assert (got.shape, got.dtype) == (array.shape, array.dtype)
            np.testing.assert_allclose(got, array, tolerance, tolerance)
    return module
