"""A code generator of your own whose runtime is Python: it interprets a JSON of the subgraph by numpy."""

import json
import tempfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx

import tilewright as tw


def softmax(x: np.ndarray, *, axis: int = -1) -> np.ndarray:
    powers = np.exp(x - x.max(axis=axis, keepdims=True))
    return powers / powers.sum(axis=axis, keepdims=True)


# What the interpreter knows: functions of arrays, with ONNX's attributes as keywords.
FUNCTIONS = {
    "Add": np.add,
    "Mul": np.multiply,
    "MatMul": np.matmul,
    "Relu": lambda x: np.maximum(x, 0),
    "Softmax": softmax,
    "Transpose": lambda x, *, perm=None: np.ascontiguousarray(np.transpose(x, perm)),
}


def supports(subgraph: tw.Subgraph) -> bool:
    """Take nodes of ONNX's own domain that the interpreter knows, of whatever sizes."""
    return all(node.domain == "" and node.op_type in FUNCTIONS for node in subgraph.nodes)


def compile_json(subgraph: tw.Subgraph) -> tw.HostCode:
    """Write a subgraph as JSON; its constants are passed to the function, from the program's file of weights."""
    constants = tuple(value.name for value in subgraph.constants)
    record = {
        "arguments": [*(value.name for value in subgraph.inputs), *constants],
        "nodes": [
            {
                "op": node.op_type,
                "attributes": dict(node.attributes),
                "inputs": [value.name for value in node.inputs],
                "output": node.outputs[0].name,
            }
            for node in subgraph.nodes
        ],
        "outputs": [value.name for value in subgraph.outputs],
    }
    return tw.HostCode(json.dumps(record).encode(), constants)


def load(payload: bytes) -> Callable[..., tuple[np.ndarray, ...]]:
    """Make the function that a program calls: it takes the arguments in order, and gives the outputs."""
    record = json.loads(payload)

    def run(*arrays: np.ndarray) -> tuple[np.ndarray, ...]:
        values = dict(zip(record["arguments"], arrays, strict=True))
        for node in record["nodes"]:
            inputs = [values[name] for name in node["inputs"]]
            values[node["output"]] = FUNCTIONS[node["op"]](*inputs, **node["attributes"])
        return tuple(values[name] for name in record["outputs"])

    return run


def make_model() -> onnx.ModelProto:
    """Attention over n rows, with an exponential that is left to Tilewright."""
    model = onnx.parser.parse_model("""
    <ir_version: 10, opset_import: ["": 21]>
    attention (float[n, 16] x) => (float[n, 16] y)
    {
      q = MatMul(x, w)
      k = Transpose<perm: ints = [1, 0]>(x)
      s = MatMul(q, k)
      p = Softmax<axis: int = -1>(s)
      a = MatMul(p, x)
      y = Exp(a)
    }
    """)
    weight = np.random.default_rng(0).standard_normal((16, 16)).astype(np.float32) / 16
    model.graph.initializer.append(onnx.numpy_helper.from_array(weight, "w"))
    return model


if __name__ == "__main__":
    model = make_model()
    tw.register_codegen("json", supports, compile_json, load=load, dynamic=True)
    program = tw.compile(model)
    x = np.random.default_rng(1).standard_normal((5, 16)).astype(np.float32)
    expected = tw.compile(model, codegens=[]).run([x])[0]
    np.testing.assert_allclose(program.run([x])[0], expected, rtol=1e-5, atol=1e-5)
    with tempfile.TemporaryDirectory() as folder:
        path = program.export_library(Path(folder, "attention.so"))
        loaded = tw.load_module(path)  # a process that only does this registers "json" with load= alone
        np.testing.assert_allclose(loaded.run([x])[0], expected, rtol=1e-5, atol=1e-5)
        print("the subgraph's JSON runs in", path.name)
