"""One-node models, and the comparison of what we import with what onnxruntime says."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper, shape_inference
from reference import run_model

from tilewright.frontends import import_model
from tilewright.tools.debugging.oracle import make_session


def model_of(
    nodes: Sequence[onnx.NodeProto],
    inputs: dict[str, np.ndarray],
    outputs: Sequence[str],
    weights: dict[str, np.ndarray] | None = None,
    opset: int = 18,
    functions: Sequence[onnx.FunctionProto] = (),
    domains: Sequence[str] = (),
) -> onnx.ModelProto:
    """A model of these nodes; the outputs' types come from shape inference."""
    graph = helper.make_graph(
        list(nodes),
        "case",
        [
            helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(a.dtype), a.shape)
            for n, a in inputs.items()
        ],
        [helper.make_value_info(n, onnx.TypeProto()) for n in outputs],
        [numpy_helper.from_array(a, n) for n, a in (weights or {}).items()],
    )
    opsets = [helper.make_opsetid("", opset), *(helper.make_opsetid(d, 1) for d in domains)]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=10, functions=list(functions))
    inferred = shape_inference.infer_shapes(model)
    for output, known in zip(model.graph.output, inferred.graph.output, strict=True):
        output.CopyFrom(known)
    return model


def node_model(
    op: str,
    arrays: Sequence[np.ndarray | None],
    known: Collection[int] = (),
    outputs: int = 1,
    opset: int = 18,
    **attributes: Any,
) -> tuple[onnx.ModelProto, dict[str, np.ndarray]]:
    """A model of one node and its inputs; ``known`` are positions of inputs that are initialisers."""
    names = [f"in{i}" if a is not None else "" for i, a in enumerate(arrays)]
    given = {n: a for i, (n, a) in enumerate(zip(names, arrays, strict=True)) if a is not None and i not in known}
    weights = {names[i]: a for i in known if (a := arrays[i]) is not None}
    results = [f"out{i}" for i in range(outputs)]
    node = helper.make_node(op, names, results, name=f"the_{op}", **attributes)
    return model_of([node], given, results, weights, opset), given


def check_node(
    op: str,
    *arrays: np.ndarray | None,
    known: Collection[int] = (),
    outputs: int = 1,
    opset: int = 18,
    rtol: float = 1e-5,
    atol: float = 1e-6,
    **attributes: Any,
) -> None:
    """The node's outputs, as imported and run by the reference executor, are onnxruntime's."""
    model, inputs = node_model(op, arrays, known, outputs, opset, **attributes)
    check_model(model, inputs, rtol, atol)


def foreign_model(
    op: str,
    arrays: Sequence[np.ndarray | None],
    domain: str,
    results: Sequence[str] = ("float32",),
    known: Collection[int] = (),
    opset: int = 18,
    version: int = 1,
    **attributes: Any,
) -> tuple[onnx.ModelProto, dict[str, np.ndarray]]:
    """A model of one node of another domain and its inputs; ``results`` are the outputs' dtypes, "" for one left out."""
    names = [f"in{i}" if a is not None else "" for i, a in enumerate(arrays)]
    given = {n: a for i, (n, a) in enumerate(zip(names, arrays, strict=True)) if a is not None and i not in known}
    weights = [numpy_helper.from_array(a, names[i]) for i in known if (a := arrays[i]) is not None]
    outputs = [f"out{i}" if dtype else "" for i, dtype in enumerate(results)]
    kinds = [helper.np_dtype_to_tensor_dtype(np.dtype(dtype)) for dtype in results if dtype]
    graph = helper.make_graph(
        [helper.make_node(op, names, outputs, name=f"the_{op}", domain=domain, **attributes)],
        "case",
        [helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(a.dtype), a.shape) for n, a in given.items()],
        [helper.make_tensor_value_info(n, k, None) for n, k in zip(filter(None, outputs), kinds, strict=True)],
        weights,
    )
    opsets = [helper.make_opsetid("", opset), *([helper.make_opsetid(domain, version)] if domain else [])]
    return helper.make_model(graph, opset_imports=opsets, ir_version=10), given


def check_model(model: onnx.ModelProto, inputs: dict[str, np.ndarray], rtol: float = 1e-5, atol: float = 1e-6) -> None:
    """The model's outputs, as imported and run by the reference executor, are onnxruntime's."""
    expected = make_session(model).run(None, inputs)
    imported = import_model(model)
    for info, got, want in zip(imported.outputs, run_model(imported, inputs), expected, strict=True):
        want = np.asarray(want)
        assert (info.dtype, info.shape) == (want.dtype.name, want.shape)
        np.testing.assert_allclose(got, want, rtol=rtol, atol=atol, err_msg=str(imported.module))
