"""The expected results of a model: those of onnxruntime, or of onnx's reference if onnxruntime lacks an op.

Nodes run one by one, so every value in the model is known. They run with noise on request: each rounding is then one of
many possible ones, and the spread of the results shows how far apart correct answers may be (stochastic
arithmetic: J. Vignes, "A stochastic arithmetic for reliable scientific computation", 1993).
"""

from __future__ import annotations

import importlib
import warnings
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import ModelProto, NodeProto, defs, helper, inliner, numpy_helper, shape_inference
from onnx.reference import ReferenceEvaluator

from tilewright.core.errors import first_line
from tilewright.tools.debugging.oracle_difference import FLOATS, has_float_elements
from tilewright.tools.debugging.oracle_faults import find_fault, nested_graphs
from tilewright.tools.debugging.oracle_noise import EXACT, Noise, shaken_operands, shaken_results

Arrays = Mapping[str, np.ndarray]
ORDER = ("onnxruntime", "reference")  # who is asked first
_NEWEST = 26  # onnxruntime's opset: of newer models it takes no node, be it the same as before


class NoOracle(Exception):
    """Neither onnxruntime nor the reference runs a node; the message says which, and why."""


def require_reference() -> None:
    """Raise ModuleNotFoundError where onnxruntime is not installed."""
    importlib.import_module("onnxruntime")


class Oracle:
    """A model that is evaluated node by node; what a node's evaluation needs is made once."""

    def __init__(self, model: ModelProto, order: Sequence[str] = ORDER) -> None:
        model = inliner.inline_local_functions(model) if model.functions else model
        self._opsets = list(model.opset_import)
        self._weights = {tensor.name: numpy_helper.to_array(tensor) for tensor in model.graph.initializer}
        self._steps = [NodeOracle(node, self._opsets, order) for node in model.graph.node]
        self._dead = last_read(model.graph.node)

    def values(
        self, inputs: Arrays, noise: Noise | None = None, names: Collection[str] | None = None
    ) -> dict[str, Any]:
        """Every value of the model by name, those of its inputs too. Raises NoOracle.

        Of ``names`` alone where they are given: others that nodes make are held no longer than they are read.
        """
        values: dict[str, Any] = {**self._weights, **inputs, "": None}
        for step, dead in zip(self._steps, self._dead, strict=True):
            values.update(step(values, noise))
            for name in dead:
                if names is not None and name not in names:
                    del values[name]
        return values


class NodeOracle:
    """One node, evaluated on values by name."""

    def __init__(self, node: NodeProto, opsets: Sequence[onnx.OperatorSetIdProto], order: Sequence[str] = ORDER):
        self._node, self._opsets, self._order = node, _own_opsets(node, opsets), order
        self._needs = find_reads(node)
        self._made: dict[Any, Any] = {}

    def __call__(self, values: Mapping[str, Any], noise: Noise | None = None) -> dict[str, Any]:
        """The node's outputs by name. Raises NoOracle."""
        if noise is not None and self._node.op_type == "If":
            return self._by_nodes(values, noise)
        feeds = {name: values[name] for name in self._needs}
        if noise is not None:
            feeds = shaken_operands(self._node, feeds, noise)
        results, reasons = None, []
        for who in self._order:
            if reason := find_fault(who, self._node, feeds):
                reasons.append(f"{who}: {reason}")
                continue
            try:
                results = _RUNTIMES[who](self, feeds)
                break
            except Exception as error:  # both refuse in many ways
                reasons.append(f"{who}: {first_line(error)}")
        if results is None:
            raise NoOracle(f"{self._node.name or self._node.op_type} ({self._node.op_type}): {'; '.join(reasons)}")
        if noise is not None:
            results = shaken_results(self._node, feeds, results, noise)
        return dict(zip((name for name in self._node.output if name), results, strict=True))

    def _by_nodes(self, values: Mapping[str, Any], noise: Noise) -> dict[str, Any]:
        """The outputs of an If, each node of whose branch has noise of its own."""
        which, graph = find_taken_branch(self._node, values)
        if which not in self._made:
            model = helper.make_model(graph, opset_imports=self._opsets)
            self._made[which] = Oracle(model, self._order)
        names = [output.name for output in graph.output]
        inner = self._made[which].values(values, noise, names)
        return {name: inner[made] for name, made in zip(self._node.output, names, strict=True) if name}

    def onnxruntime(self, feeds: Arrays) -> list[Any]:
        """The outputs by onnxruntime, without its optimisations."""
        key = tuple((name, value_type(value).SerializeToString()) for name, value in feeds.items())
        if key not in self._made:
            model = self._model(feeds)
            self._made[key] = make_session(model, optimize=False), _result_types(model)
        made, types = self._made[key]
        return [_of_bytes(value, dtype) for value, dtype in zip(made.run(None, dict(feeds)), types, strict=True)]

    def reference(self, feeds: Arrays) -> list[Any]:
        """The outputs by the reference evaluator. It is numpy, which rounds a narrow float at each step: it gets and
        gives float32, and the results are rounded to their types, unless they are chosen or moved."""
        exact = EXACT | {"QuantizeLinear"}  # whose division is of its scale's type
        wide = feeds if self._node.op_type in exact else self._widen_floats(feeds)
        if "reference" not in self._made:
            self._made["reference"] = ReferenceEvaluator(self._model(wide)), _result_types(self._model(feeds))
        evaluator, types = self._made["reference"]
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            made = evaluator.run(None, dict(wide))
            return [_of_type(value, dtype) for value, dtype in zip(made, types, strict=True)]

    def _widen_floats(self, feeds: Arrays) -> Arrays:
        """Narrow floats as float32 where the op takes that; not in nested graphs, whose weights would stay narrow."""
        schema = _schema(self._node, self._opsets)
        if any(True for _ in nested_graphs(self._node)) or schema is None:
            return feeds
        allowed = {c.type_param_str: c.allowed_type_strs for c in schema.type_constraints}
        formal = _input_types(self._node, schema)
        takes = {n for n, t in zip(self._node.input, formal, strict=True) if "tensor(float)" in allowed.get(t, ())}
        return {n: _single(a) if n in takes else a for n, a in feeds.items()}

    def _model(self, feeds: Arrays) -> ModelProto:
        inputs = [helper.make_value_info(name, value_type(value)) for name, value in feeds.items()]
        outputs = [helper.make_value_info(name, onnx.TypeProto()) for name in self._node.output if name]
        graph = helper.make_graph([self._node], "node", inputs, outputs)
        return helper.make_model(graph, opset_imports=self._opsets, ir_version=10)


_RUNTIMES = {"onnxruntime": NodeOracle.onnxruntime, "reference": NodeOracle.reference}


def make_session(model: ModelProto | bytes | str | Path, optimize: bool = True) -> Any:
    """An onnxruntime session of a model, its bytes or its file, on one thread, that keeps its warnings to itself.

    Threads of a pool would wait in a loop and take the cores from others; DynamicQuantizeLSTM's grid depends on them.
    """
    ort = importlib.import_module("onnxruntime")
    options = ort.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 4
    if not optimize:
        options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    source = model.SerializeToString() if isinstance(model, ModelProto) else model
    return ort.InferenceSession(source, options, providers=["CPUExecutionProvider"])


def find_taken_branch(node: NodeProto, values: Mapping[str, Any]) -> tuple[str, onnx.GraphProto]:
    """The branch of an If that runs on these values, and the attribute that has it."""
    which = "then_branch" if np.asarray(values[node.input[0]]).item() else "else_branch"
    return which, next(attribute.g for attribute in node.attribute if attribute.name == which)


def last_read(nodes: Sequence[NodeProto]) -> list[list[str]]:
    """For each of the nodes in order the values made by any of them that no later one reads, and it or none does."""
    last = {name: i for i, node in enumerate(nodes) for name in node.output if name}
    for i, node in enumerate(nodes):
        last.update({name: i for name in find_reads(node) if name in last})
    dead: list[list[str]] = [[] for _ in nodes]
    for name, i in last.items():
        dead[i].append(name)
    return dead


def find_reads(node: NodeProto) -> list[str]:
    """The names of values that a node reads, those that its nested graphs take from outside included."""
    names = [name for name in node.input if name]
    for graph in nested_graphs(node):
        own = {t.name for t in graph.initializer} | {i.name for i in graph.input}
        own |= {name for inner in graph.node for name in inner.output}
        reads = [name for inner in graph.node for name in find_reads(inner)] + [o.name for o in graph.output]
        names += [name for name in reads if name not in own]
    return list(dict.fromkeys(names))


def tensor_type(array: np.ndarray) -> int:
    """The number that ONNX has for an array's dtype."""
    return helper.np_dtype_to_tensor_dtype(array.dtype)


def value_type(value: Any) -> onnx.TypeProto:
    """The ONNX type of a tensor, or of a list of them (of unknown shapes); of None an empty one."""
    if isinstance(value, list):
        element = helper.make_tensor_type_proto(tensor_type(value[0]) if value else onnx.TensorProto.FLOAT, None)
        return helper.make_sequence_type_proto(element)
    if value is None:
        return onnx.TypeProto()
    return helper.make_tensor_type_proto(tensor_type(value), value.shape)


def _single(value: Any) -> Any:
    """An array of floats narrower than float32 as such ones; anything else as it is."""
    narrow = isinstance(value, np.ndarray) and has_float_elements(value) and value.dtype.itemsize < 4
    return value.astype(np.float32) if narrow else value


def _own_opsets(node: NodeProto, opsets: Sequence[onnx.OperatorSetIdProto]) -> list[onnx.OperatorSetIdProto]:
    """The opset of a node without nested graphs: no newer than the node and onnxruntime need."""
    own = [o for o in opsets if o.domain == node.domain]
    if any(True for _ in nested_graphs(node)) or len(own) != 1:
        return list(opsets)
    version = own[0].version
    if not node.domain and defs.has(node.op_type, version):
        version = min(version, max(_NEWEST, defs.get_schema(node.op_type, version).since_version))
    return [helper.make_opsetid(node.domain, version)]


def _result_types(model: ModelProto) -> list[np.dtype | None]:
    """The dtypes of the outputs of a node's model by its schema; None for what is no tensor or not known."""
    outputs, named = shape_inference.infer_shapes(model).graph.output, _types_of_inputs(model)
    numbers = [o.type.tensor_type.elem_type or named.get(o.name, 0) for o in outputs]
    return [helper.tensor_dtype_to_np_dtype(number) if number else None for number in numbers]


def _types_of_inputs(model: ModelProto) -> dict[str, int]:
    """The element types of a node's outputs that have the type of an input: of some functions onnx infers none."""
    [node], given = model.graph.node, {i.name: i.type.tensor_type.elem_type for i in model.graph.input}
    if (schema := _schema(node, model.opset_import)) is None:
        return {}
    types = {formal: given.get(name, 0) for name, formal in zip(node.input, _input_types(node, schema), strict=True)}
    last = len(schema.outputs) - 1
    return {name: types.get(schema.outputs[min(i, last)].type_str, 0) for i, name in enumerate(node.output)}


def _schema(node: NodeProto, opsets: Iterable[onnx.OperatorSetIdProto]) -> defs.OpSchema | None:
    version = next((o.version for o in opsets if o.domain == node.domain), 0)
    return defs.get_schema(node.op_type, version, node.domain) if defs.has(node.op_type, version, node.domain) else None


def _input_types(node: NodeProto, schema: defs.OpSchema) -> list[str]:
    """The schema's name for the type of each input."""
    return [schema.inputs[min(i, len(schema.inputs) - 1)].type_str for i in range(len(node.input))]


def _of_bytes(value: Any, dtype: np.dtype | None) -> Any:
    """onnxruntime's result as the schema's type: it gives bytes for the floats that numpy lacks."""
    if dtype is None or not dtype.name.startswith("float8") or getattr(value, "dtype", None) != np.uint8:
        return value
    return value.view(dtype)


def _of_type(value: Any, dtype: np.dtype | None) -> Any:
    """The reference's result as the schema's type: it leaves some to numpy, whose sums of uint32 are uint64."""
    if isinstance(value, list):
        return value
    array = np.asarray(value)
    if array.dtype.kind in "UT":  # text
        return array.astype(object)
    if dtype is None or dtype == array.dtype:
        return array
    both = [array.dtype, dtype]
    alike = all(d.kind in "iu" for d in both) or all(d.name.startswith(FLOATS) for d in both)
    return array.astype(dtype) if alike else array
