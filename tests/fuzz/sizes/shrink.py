"""A finding with fewer nodes: what one value needs alone, behind values that are given as inputs."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx
from fuzz.sizes.generator import Run
from fuzz.sizes.judge import Outcome, Way, judge
from onnx import helper

from tilewright.tools.debugging.isolation import Child, Lost
from tilewright.tools.debugging.oracle import find_reads, make_session

Case = tuple[onnx.ModelProto, list[Run]]


def shrunk(
    model: onnx.ModelProto, runs: Sequence[Run], outcome: Outcome, seconds: float, way: Way | None = None
) -> tuple[onnx.ModelProto, list[Run], Outcome]:
    """The smallest model found that fails in the same way, on the sizes to blame alone, and how it does."""
    child = Child(_judge, seconds)
    best, last = (model, list(runs)), outcome

    def fails(case: Case) -> Outcome | None:
        found = child.call((case[0].SerializeToString(), case[1], way))
        if isinstance(found, Lost):
            found = Outcome("hang" if found.reason.startswith("no answer") else "crash", found.reason)
        alike = found.is_finding and (found.kind == last.kind or {found.kind, last.kind} <= {"crash", "guard"})
        return found if alike else None

    if outcome.kind not in ("crash", "hang") and (found := fails((model, [runs[outcome.run]]))):
        best, last = (model, [runs[outcome.run]]), found
    for name in (name for node in model.graph.node for name in node.output):  # the first value that is wrong, alone
        case = _of(best, [name])
        if found := fails(case):
            best, last = case, found
            break
    for node in list(best[0].graph.node)[:-1]:
        case = _without(best, node)
        if case and (found := fails(case)):
            best, last = case, found
    return *best, last


def _judge(argument: tuple[bytes, list[Run], Way | None]) -> Outcome:
    return judge(onnx.load_from_string(argument[0]), *argument[1:])


def _of(case: Case, outputs: list[str]) -> Case:
    """The part of a model that makes these values."""
    model, runs = case
    kept: list[onnx.NodeProto] = []
    wanted = set(outputs)
    for node in reversed(model.graph.node):
        if wanted.intersection(node.output):
            kept.insert(0, node)
            wanted.update(find_reads(node))
    made = onnx.ModelProto()
    made.CopyFrom(model)
    graph = made.graph
    del graph.node[:], graph.input[:], graph.initializer[:], graph.output[:]
    graph.node.extend(kept)
    graph.input.extend(i for i in model.graph.input if i.name in wanted)
    graph.initializer.extend(i for i in model.graph.initializer if i.name in wanted)
    graph.output.extend(helper.make_empty_tensor_value_info(name) for name in outputs)
    names = {i.name for i in graph.input}
    given = [(sizes, {name: a for name, a in arrays.items() if name in names}) for sizes, arrays in runs]
    typed = onnx.shape_inference.infer_shapes(made).graph.output
    for output, known in zip(graph.output, typed, strict=True):
        output.CopyFrom(known)
        output.type.tensor_type.ClearField("shape")
    return made, given


def _without(case: Case, node: onnx.NodeProto) -> Case | None:
    """The model with a node's results as inputs, whose extents have names of their own; None where that cannot be."""
    model, runs = case
    names = [name for name in node.output if name]
    try:
        exposed = onnx.ModelProto()
        exposed.CopyFrom(model)
        exposed.graph.output.extend(helper.make_empty_tensor_value_info(name) for name in names)
        oracle = make_session(exposed)
        values = [dict(zip(names, oracle.run(names, arrays), strict=True)) for _, arrays in runs]
    except Exception:
        return None
    made = onnx.ModelProto()
    made.CopyFrom(model)
    left = [n for n in model.graph.node if list(n.output) != list(node.output)]
    del made.graph.node[:]
    made.graph.node.extend(left)
    for name in names:
        array = np.asarray(values[0][name])
        kind = helper.np_dtype_to_tensor_dtype(array.dtype)
        dims = [f"{name}_{axis}" for axis in range(array.ndim)]
        made.graph.input.append(helper.make_tensor_value_info(name, kind, dims))
    given = [(sizes, {**arrays, **found}) for (sizes, arrays), found in zip(runs, values, strict=True)]
    return _of((made, given), [output.name for output in model.graph.output])
