"""Code generators for tests: one whose runtime is onnx's reference, and one that compiles C; and a model for them."""

from __future__ import annotations

import functools
import subprocess
import tempfile
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Any

import c_programs
import numpy as np
import onnx
import onnx.parser
from onnx import helper, numpy_helper
from onnx.reference import ReferenceEvaluator

import tilewright as tw


def as_model(subgraph: tw.Subgraph) -> onnx.ModelProto:
    """A subgraph as a model of its own; sizes that only the run knows are names."""

    def describe(value: tw.SubgraphValue) -> onnx.ValueInfoProto:
        return helper.make_tensor_value_info(
            value.name, helper.np_dtype_to_tensor_dtype(np.dtype(value.dtype)), value.shape
        )

    def attribute(value: Any) -> Any:
        return numpy_helper.from_array(value) if isinstance(value, np.ndarray) else value

    nodes = [
        helper.make_node(
            node.op_type,
            [value.name if value else "" for value in node.inputs],
            [value.name if value else "" for value in node.outputs],
            domain=node.domain,
            **{name: attribute(value) for name, value in node.attributes.items()},
        )
        for node in subgraph.nodes
    ]
    weights = [numpy_helper.from_array(np.array(value.constant), value.name) for value in subgraph.constants]
    inputs, outputs = (list(map(describe, values)) for values in (subgraph.inputs, subgraph.outputs))
    graph = helper.make_graph(nodes, "g", inputs, outputs, weights)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", subgraph.nodes[0].opset)])


def interpret(payload: bytes) -> Callable[..., Any]:
    """The function of a model's bytes, which onnx's reference computes."""
    model = onnx.load_from_string(payload)
    names = [value.name for value in model.graph.input]
    evaluator = ReferenceEvaluator(model)
    return lambda *arrays: tuple(evaluator.run(None, dict(zip(names, map(np.array, arrays), strict=True))))


def register_reference(taken: Collection[str] | Callable[[str], bool], name: str = "reference", **options: Any) -> None:
    """Register a code generator for the nodes of these names, which onnx's reference computes."""
    takes = taken if callable(taken) else taken.__contains__

    def supports(subgraph: tw.Subgraph) -> bool:
        return all(takes(node.name) for node in subgraph.nodes)

    def compile(subgraph: tw.Subgraph) -> tw.HostCode:
        return tw.HostCode(as_model(subgraph).SerializeToString())

    tw.register_codegen(name, supports, compile, load=interpret, **options)


@functools.cache
def compile_c(text: str, *options: str) -> bytes:
    """An object of C, or with ``-shared`` a library; many tests have the same."""
    c_programs.require_compiler()
    with tempfile.TemporaryDirectory() as folder:
        source, made = Path(folder, "code.c"), Path(folder, "code.o")
        source.write_text(text)
        kind = () if "-shared" in options else ("-c",)
        subprocess.run(["cc", "-O1", "-fPIC", *kind, *options, source, "-o", made], check=True)
        return made.read_bytes()


X = np.arange(-6, 6, dtype=np.float32).reshape(3, 4) / 2
HEAD = '<ir_version: 10, opset_import: ["": 21, "my.domain": 1]>'
BOTH = "int f(const float *x, const float *b, float *s, float *r) {{ for (long i = 0; i < {count}; i++) {{ s[i] = x[i] + b[i % 4]; r[i] = s[i] < 0 ? 0 : s[i]; }} return {status}; }}"


def host_calls(module: tw.Module) -> list[dict[str, Any]]:
    """What the program's calls of functions of the host say."""
    routine = module.manifest.routine
    return [step.facts["attributes"] for step in routine.calls if step.op == "host.call"] if routine else []


def parsed(text: str) -> onnx.ModelProto:
    return onnx.parser.parse_model(f"{HEAD} {text}")


def block(rows: str = "3") -> onnx.ModelProto:
    """Exp, then Add and Relu, which C computes with two outputs, then what reads both."""
    return parsed(
        f"""g (float[{rows}, 4] x) => (float[{rows}, 4] y) <float[4] b = {{1.0, -2.0, 3.0, -4.0}}>
    {{ e = Exp(x) s = Add(e, b) r = Relu(s) y = Mul(s, r) }}"""
    )


def expected(x: np.ndarray = X) -> np.ndarray:
    s = np.exp(x) + np.array([1, -2, 3, -4], np.float32)
    return s * np.maximum(s, 0)


def takes_add_and_relu(subgraph: tw.Subgraph) -> bool:
    return all(node.op_type in ("Add", "Relu") for node in subgraph.nodes)


def write_c(subgraph: tw.Subgraph, status: str = "0") -> str:
    text = BOTH.format(count=" * ".join(map(str, subgraph.outputs[0].shape)), status=status)
    return f"#include <stdint.h>\n{text}".replace(
        "float *r)", f"float *r{''.join(f', int64_t {n}' for n in subgraph.extents)})"
    )


def register_c(*options: str, status: str = "0", **more: Any) -> None:
    def compile(subgraph: tw.Subgraph) -> tw.NativeCode:
        return tw.NativeCode(compile_c(write_c(subgraph, status), *options), "f", ("b",))

    tw.register_codegen("c", takes_add_and_relu, compile, **more)


def compiled(model: onnx.ModelProto, **options: Any) -> tw.Module:
    return tw.compile(model, **{"workers": 0, "num_threads": 1, "cache": False, **options})
