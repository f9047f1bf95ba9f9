"""A smaller model that fails in the same way: parts are left out as long as a test says that it still does.

Every value of the model is known (from the oracle), so that any set of nodes is a model: what they read from nodes
that are not there becomes an input with the value that it had. Sets of nodes are tried by delta debugging (Zeller and
Hildebrandt, "Simplifying and isolating failure-inducing input", 2002).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import numpy as np
from onnx import ModelProto, NodeProto, TypeProto, helper, inliner, numpy_helper, shape_inference

from tilewright.tools.debugging.oracle import find_reads, tensor_type
from tilewright.tools.debugging.oracle_difference import has_float_elements
from tilewright.tools.debugging.oracle_faults import nested_graphs

KnownValues = Mapping[str, Any]


@dataclass(frozen=True)
class ModelCase:
    """A model whose shapes are fixed and its inputs; ``values`` has the others that are known."""

    model: ModelProto
    inputs: dict[str, np.ndarray]
    values: KnownValues = field(default_factory=dict)

    @property
    def nodes(self) -> Sequence[NodeProto]:
        """The nodes of the graph."""
        return self.model.graph.node


Test = Callable[[ModelCase], bool]
Record = Callable[[ModelProto, Mapping[str, np.ndarray]], KnownValues | None]


def reduce_model(model: ModelProto, inputs: Mapping[str, np.ndarray], fails: Test, record: Record) -> ModelCase:
    """The smallest model found for which ``fails`` holds, as it does for the given one.

    ``record`` gives the value of everything in a model, or None where that cannot be evaluated.
    """
    model = inliner.inline_local_functions(model) if model.functions else model
    values = record(model, inputs)
    case = ModelCase(model, dict(inputs), values if values is not None else _made_up(model, inputs))
    whole = build_case(case, case.nodes)
    case = whole if whole and fails(whole) else case
    steps = (_fewer_outputs, _fewer_nodes, _bypass, _plainer_nodes, _smaller_shapes, _plainer_values)
    before = None
    while before is None or measure_case(case) < measure_case(before):
        before = case
        for step in steps:
            case = step(case, fails, record)
    return case


def measure_case(case: ModelCase) -> tuple[int, ...]:
    """The sizes to minimize, the most important first."""
    arrays = [*case.inputs.values(), *map(numpy_helper.to_array, case.model.graph.initializer)]
    details = sum(len(node.attribute) + len(node.input) for node in case.nodes)
    return len(case.nodes), len(case.model.graph.output), details, sum(a.size for a in arrays), len(arrays)


def build_case(case: ModelCase, nodes: Sequence[NodeProto], outputs: Collection[str] = ()) -> ModelCase | None:
    """The model of some nodes, in order; None where something that they read is not known.

    Its outputs are ``outputs``, by default what was an output and what no node of them reads.
    """
    made = {name for node in nodes for name in node.output if name}
    reads = dict.fromkeys(name for node in nodes for name in find_reads(node))
    kept = {output.name for output in case.model.graph.output}
    outputs = outputs or [name for node in nodes for name in node.output if name in made and _ends(name, reads, kept)]
    weights = [t for t in case.model.graph.initializer if t.name in reads]
    missing = [name for name in reads if name not in made and name not in {t.name for t in weights}]
    inputs = {name: case.inputs.get(name, case.values.get(name)) for name in missing}
    if not nodes or not all(isinstance(array, np.ndarray) for array in inputs.values()):
        return None
    arrays = {name: array for name, array in inputs.items() if array is not None}
    graph = helper.make_graph(
        nodes,
        case.model.graph.name or "reduced",
        [helper.make_value_info(name, _make_type(array)) for name, array in arrays.items()],
        [helper.make_value_info(name, _make_type(case.values.get(name))) for name in outputs],
        weights,
    )
    model = helper.make_model(graph, opset_imports=case.model.opset_import, ir_version=case.model.ir_version)
    if any(not output.type.WhichOneof("value") for output in model.graph.output):
        model = _infer_outputs(model)
    return ModelCase(model, arrays, case.values) if model else None


def _ends(name: str, reads: Collection[str], kept: Collection[str]) -> bool:
    return bool(name) and (name in kept or name not in reads)


def _make_type(array: Any) -> TypeProto:
    if not isinstance(array, np.ndarray):
        return TypeProto()
    return helper.make_tensor_type_proto(tensor_type(array), array.shape)


def _infer_outputs(model: ModelProto) -> ModelProto | None:
    """The model with its outputs' types by shape inference, or None where that finds it wrong."""
    try:
        known = shape_inference.infer_shapes(model, strict_mode=True)
    except Exception:  # the inference of each op refuses in its own words
        return None
    for output, inferred in zip(model.graph.output, known.graph.output, strict=True):
        output.CopyFrom(inferred)
    return model


def _made_up(model: ModelProto, inputs: Mapping[str, np.ndarray]) -> KnownValues:
    """Values for what shape inference knows, for a model that no oracle runs: failures to compile need no more."""
    fixed = ModelProto()
    fixed.CopyFrom(model)
    for value in fixed.graph.input:
        if value.name in inputs:
            value.type.CopyFrom(_make_type(inputs[value.name]))
    known = _infer_outputs(fixed) or fixed
    values = {}
    for value in shape_inference.infer_shapes(known).graph.value_info:
        kind = value.type.tensor_type
        if kind.HasField("shape") and all(d.HasField("dim_value") for d in kind.shape.dim):
            dtype = helper.tensor_dtype_to_np_dtype(kind.elem_type)
            values[value.name] = np.ones([d.dim_value for d in kind.shape.dim], dtype)
    return values


def _fewer_nodes(case: ModelCase, fails: Test, record: Record) -> ModelCase:
    """Delta debugging: halves of the nodes, or all but one half, then quarters, and so on."""
    parts = 2
    while len(case.nodes) > 1:
        nodes = list(case.nodes)
        bounds = [len(nodes) * i // parts for i in range(parts + 1)]
        chunks = [nodes[a:b] for a, b in pairwise(bounds)]
        rests = [nodes[:a] + nodes[b:] for a, b in pairwise(bounds)]
        found = _first_failing(
            (build_case(case, some) for some in (chunks if parts == 2 else [*chunks, *rests])), fails
        )
        if found:
            case, parts = found, max(2, min(parts - 1, len(found.nodes)))
        elif parts < len(nodes):
            parts = min(len(nodes), 2 * parts)
        else:
            break
    return case


def _fewer_outputs(case: ModelCase, fails: Test, record: Record) -> ModelCase:
    """Leave out outputs, with the nodes that are for them alone."""
    while len(case.model.graph.output) > 1:
        names = [output.name for output in case.model.graph.output]
        wanted = [[name] for name in names] + [[n for n in names if n != name] for name in names]
        found = _first_failing((build_case(case, _for(case.nodes, some), some) for some in wanted), fails)
        if not found:
            break
        case = found
    return case


def _for(nodes: Sequence[NodeProto], outputs: Collection[str]) -> list[NodeProto]:
    """The nodes that some outputs need, in order."""
    wanted, kept = set(outputs), []
    for node in reversed(nodes):
        if wanted.intersection(node.output):
            wanted.update(find_reads(node))
            kept.append(node)
    return kept[::-1]


def _bypass(case: ModelCase, fails: Test, record: Record) -> ModelCase:
    """Leave out a node whose output is read as one of its inputs, where that has the same type."""
    index = 0
    while index < len(case.nodes):
        found = _first_failing((_record_values(c, record) for c in _bypasses(case, index)), fails)
        case, index = (found, index) if found else (case, index + 1)
    return case


def _bypasses(case: ModelCase, index: int) -> Iterator[ModelCase | None]:
    node, values = case.nodes[index], {**case.values, **_read_weights(case.model), **case.inputs}
    after = case.nodes[index + 1 :]
    if len(case.nodes) == 1 or len(node.output) != 1 or not isinstance(values.get(node.output[0]), np.ndarray):
        return
    if any(node.output[0] in find_reads(inner) and any(True for _ in nested_graphs(inner)) for inner in after):
        return
    result = values[node.output[0]]
    kept = {o.name for o in case.model.graph.output} - set(node.output)
    for name in node.input:
        array = values.get(name)
        if not isinstance(array, np.ndarray) or (array.shape, array.dtype) != (result.shape, result.dtype):
            continue
        renamed = [_rename(inner, node.output[0], name) for inner in after]
        nodes = [*case.nodes[:index], *renamed]
        made = {n for inner in nodes for n in inner.output if n}
        reads = {n for inner in nodes for n in find_reads(inner)}
        yield build_case(case, nodes, [n for n in made if n in kept or n not in reads])


def _rename(node: NodeProto, old: str, new: str) -> NodeProto:
    copy = NodeProto()
    copy.CopyFrom(node)
    copy.input[:] = [new if name == old else name for name in node.input]
    return copy


def _plainer_nodes(case: ModelCase, fails: Test, record: Record) -> ModelCase:
    """Leave out attributes and the last inputs, which may be optional."""
    for index in range(len(case.nodes)):
        while found := _first_failing((_record_values(c, record) for c in _plainer(case, index)), fails):
            case = found
    return case


def _plainer(case: ModelCase, index: int) -> Iterator[ModelCase | None]:
    node = case.nodes[index]
    for attribute in node.attribute:
        copy = NodeProto()
        copy.CopyFrom(node)
        copy.attribute.remove(attribute)
        yield _with(case, index, copy)
    if len(node.input) > 1:
        copy = NodeProto()
        copy.CopyFrom(node)
        del copy.input[-1]
        yield _with(case, index, copy)


def _with(case: ModelCase, index: int, node: NodeProto) -> ModelCase | None:
    return build_case(
        case, [*case.nodes[:index], node, *case.nodes[index + 1 :]], [o.name for o in case.model.graph.output]
    )


def _smaller_shapes(case: ModelCase, fails: Test, record: Record) -> ModelCase:
    """Cut extents of inputs and weights: one alone, or all that are equal, wherever they are."""
    while found := _first_failing((_record_values(c, record) for c in _cuts(case)), fails):
        case = found
    return case


def _cuts(case: ModelCase) -> Iterator[ModelCase]:
    arrays = {**case.inputs, **_read_weights(case.model)}
    for extent in sorted({n for a in arrays.values() for n in a.shape if n > 1}, reverse=True):
        for n in dict.fromkeys((1, extent // 2, extent - 1)):
            yield _replace(case, {name: _cut(a, extent, n) for name, a in arrays.items()})
    for name, array in arrays.items():
        for axis, extent in enumerate(array.shape):
            for n in dict.fromkeys((1, extent // 2, extent - 1)) if extent > 1 else ():
                for first in (0, extent - n):
                    yield _replace(case, {name: np.take(array, range(first, first + n), axis)})


def _cut(array: np.ndarray, extent: int, n: int) -> np.ndarray:
    """With every axis of an extent cut to n, as are the extents in a short list of integers: it may be a shape."""
    if array.dtype == np.int64 and array.ndim == 1 and array.size < 8:
        return np.where(array == extent, n, array)
    return array[tuple(slice(n) if old == extent else slice(None) for old in array.shape)]


def _plainer_values(case: ModelCase, fails: Test, record: Record) -> ModelCase:
    """Numbers that are easy to read: ones, zeros, or whole ones."""
    for name, array in {**case.inputs, **_read_weights(case.model)}.items():
        plain = [np.ones_like(array), np.zeros_like(array)]
        if has_float_elements(array):
            with np.errstate(all="ignore"):
                plain.append(np.rint(array.astype(np.float64)).astype(array.dtype))
        if any(array.tobytes() == other.tobytes() for other in plain):
            continue
        case = _first_failing((_record_values(_replace(case, {name: other}), record) for other in plain), fails) or case
    return case


def _read_weights(model: ModelProto) -> dict[str, np.ndarray]:
    return {tensor.name: numpy_helper.to_array(tensor) for tensor in model.graph.initializer}


def _replace(case: ModelCase, arrays: Mapping[str, np.ndarray]) -> ModelCase:
    """With other arrays for some inputs and weights; what is computed from them is not known yet."""
    model = ModelProto()
    model.CopyFrom(case.model)
    for tensor in model.graph.initializer:
        if tensor.name in arrays:
            tensor.CopyFrom(numpy_helper.from_array(np.ascontiguousarray(arrays[tensor.name]), tensor.name))
    inputs = {name: np.ascontiguousarray(arrays.get(name, array)) for name, array in case.inputs.items()}
    return ModelCase(model, inputs)


def _record_values(case: ModelCase | None, record: Record) -> ModelCase | None:
    """With its values computed anew, or None where it is no model that can be evaluated."""
    values = record(case.model, case.inputs) if case else None
    if case is None or values is None:
        return None
    return build_case(ModelCase(case.model, case.inputs, values), case.nodes, [o.name for o in case.model.graph.output])


def _first_failing(cases: Iterator[ModelCase | None], fails: Test) -> ModelCase | None:
    return next((case for case in cases if case is not None and fails(case)), None)
