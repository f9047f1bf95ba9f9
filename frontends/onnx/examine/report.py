"""Everything about a model that the import can say: what it holds, and all that cannot be converted."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, replace

import onnx
from onnx import ValueInfoProto

from ....codegens.service import partition_network
from ....core.codegens import CodegenChoice
from ....core.dims import InputShapes
from ....core.dims import format_extent as dim_text
from ....core.errors import ModelError, UnsupportedError
from ....core.limits import ORDINARY, ModelLimits
from ....core.model import Model, TensorInfo
from ....core.questions import ask
from ....core.report import CheckReport, Node, Operator, Problem, Verdict
from ....core.report import Tensor as Described
from ....core.sizes import Sym, has_dynamic_extents
from .. import ops
from ..convert.graph import Graph
from ..importer import convert_model, prefixing_errors
from ..proto.check import check_model
from ..proto.nodes import Place, op_title
from ..proto.weights import Detached, ModelSource, detach, type_name
from ..regions.network import describe_network
from ..shapes.inputs import (
    check_readable,
    find_dynamic_shapes,
    fixed_inputs,
    format_shape_option,
    given_shapes,
    model_inputs,
)
from ..state.refusals import Refusal, Refusals
from ..state.standins import FAILED, Failed
from . import inventory
from .inventory import FileNode
from .remedies import suggest_remedy
from .trial_shapes import propose_shapes


def examine(
    source: ModelSource,
    input_shapes: InputShapes | None = None,
    limits: ModelLimits = ORDINARY,
    codegens: CodegenChoice | None = None,
) -> tuple[CheckReport, Model | None]:
    """The report, without the work of a run; and the model, where its shapes are known and nothing is unsupported.

    ``codegens`` are those of the user that are asked what they support; they compile nothing.

    Raises ModelError where the file is no valid model, or the given shapes are not those of its inputs.
    """
    ops.load_converters()
    detached = detach(source, limits)
    with prefixing_errors(detached.what):
        opsets = check_model(detached)
        found = inventory.file_nodes(detached.proto)
        tensors = inventory.collect_tensors(detached.proto, found)
        done = _try_convert(detached, opsets, input_shapes or {}, bool(codegens and codegens.names))
        taken, notes = _ask_codegens(done, codegens)
    refusals = [refusal for refusal in done.graph.refusals if refusal.place not in taken]
    nodes = _judge_nodes(found, done.graph.refusals, taken)
    problems = _problems(found, refusals, opsets)
    report = CheckReport(
        model=detached.what,
        supported=not problems,
        ir_version=detached.proto.ir_version,
        opsets={domain or "ai.onnx": version for domain, version in opsets.items()},
        inputs=tuple(_describe_inputs(detached, input_shapes or {})),
        outputs=tuple(map(inventory.describe_value, detached.proto.graph.output)),
        operators=tuple(_operators(nodes)),
        nodes=tuple(nodes),
        dtypes=tuple(_dtypes(detached.proto, found, done.graph)),
        parameters=inventory.count_parameters(tensors),
        problems=tuple(problems),
        give=tuple(done.give),
        notes=(*notes, *done.notes),
    )
    return report, done.model


def _ask_codegens(done: _Converted, codegens: CodegenChoice | None) -> tuple[set[Place], Sequence[str]]:
    """The places of the nodes that code generators of the user take, and what is to be said about them."""
    if codegens is None or not codegens.names:
        return set(), ()
    described = describe_network(done.graph, done.inputs, codegens.target)
    found = ask(partition_network, described.network, codegens.names)
    nodes = [described.places[number] for region in found.regions for number in region.members]
    return {done.graph.scope.place(done.graph.scope.nodes[place]) for place in nodes}, found.notes


def _describe_inputs(detached: Detached, given: InputShapes) -> Iterator[Described]:
    """The inputs as the file declares them, with what is given of dimensions that stay open."""
    graph = detached.proto.graph
    shapes = given_shapes(graph, given, detached.what)
    for value in model_inputs(graph):
        found, shape = inventory.describe_value(value), shapes.get(value.name, ())
        own = found.shape or ["?"] * len(shape)
        told = [dim_text(n, f"{value.name}.{i}") if isinstance(n, Sym) else own[i] for i, n in enumerate(shape)]
        yield replace(found, shape=tuple(told)) if has_dynamic_extents(shape) else found


@dataclass
class _Converted:
    """The model, if it is one and its shapes are not just tried; its graph and inputs; options with shapes that fit;
    and notes."""

    model: Model | None
    graph: Graph
    inputs: Sequence[TensorInfo]
    give: Sequence[str]
    notes: Sequence[str]


def _try_convert(detached: Detached, opsets: dict[str, int], given: InputShapes, lenient: bool) -> _Converted:
    """Convert with the shapes that are there. Where they are open, try some: what is refused rarely depends on them.

    ``lenient``: see ``convert_model``. Ranges are taken as they are, for so the model is meant to be compiled.
    """
    graph, what = detached.proto.graph, detached.what
    unreadable = _unreadable(model_inputs(graph))
    missing = dict.fromkeys(unreadable, FAILED)
    ranges = any(map(has_dynamic_extents, given_shapes(graph, given, what).values()))
    open_ = {n: s for n, s in find_dynamic_shapes(graph, given, what, unreadable).items() if s is None or not ranges}

    def convert_with(without: Mapping[str, Failed], tried: Mapping[str, Sequence[int]], *notes: str) -> _Converted:
        inputs = fixed_inputs(graph, {**given, **tried}, what, without)
        model, made = convert_model(detached, opsets, inputs, without, lenient=lenient)
        for name, reason in unreadable.items():
            made.refusals.add_other("input", name, reason)
        give = [format_shape_option(name, shape) for name, shape in tried.items()]
        return _Converted(None if tried else model, made, inputs, give, [*notes, *made.notes])

    if not open_:
        return convert_with(missing, {})
    reasons = []
    for shapes in propose_shapes(open_):
        try:
            return convert_with(missing, shapes)
        except ModelError as error:
            reasons.append(str(error).removeprefix(f"{what}: "))
    note = (
        "no extents that were tried for the open shapes fit, so not all nodes could be checked: give the model's own"
        f" with --input-shape ({reasons[0]})"
    )
    return convert_with(missing | {name: Failed(_dtype(graph, name)) for name in open_}, {}, note)


def _dtype(graph: onnx.GraphProto, name: str) -> str:
    return next(inventory.describe_value(i).dtype for i in graph.input if i.name == name)


def _unreadable(inputs: Sequence[ValueInfoProto]) -> dict[str, str]:
    """Why inputs cannot be taken: they are no tensors, or have a dtype that we lack."""
    refused = {}
    for value in inputs:
        try:
            check_readable(value)
        except UnsupportedError:
            refused[value.name] = f"type {inventory.describe_value(value).dtype}"
    return refused


def _judge_nodes(nodes: Sequence[FileNode], refusals: Refusals, taken: Set[Place]) -> list[Node]:
    refused = {refusal.place for refusal in refusals}

    def verdict(place: Place) -> Verdict:
        if place in taken:
            return "codegen"
        if place in refused:
            return "unsupported"
        if place in refusals.failed:
            return "unchecked"
        if place not in refusals.converted:
            return "unused"
        return "host" if place in refusals.hosted else "compiled"

    return [Node(node.name, op_title(node.proto), node.where, verdict(node.place)) for node in nodes]


def _operators(nodes: Sequence[Node]) -> list[Operator]:
    verdicts: dict[str, Counter[Verdict]] = {}
    for node in nodes:
        verdicts.setdefault(node.op, Counter())[node.verdict] += 1
    made = [Operator(op, found.total(), dict(found)) for op, found in verdicts.items()]
    return sorted(made, key=lambda operator: (-operator.count, operator.op))


def _problems(nodes: Sequence[FileNode], refusals: Iterable[Refusal], opsets: Mapping[str, int]) -> list[Problem]:
    """Every reason once, with all nodes that have it, in the file's order; last what is no node."""
    by_place: dict[Place | None, list[int]] = {}
    for index, node in enumerate(nodes):
        by_place.setdefault(node.place, []).append(index)
    found: dict[tuple[str, str, str, str], dict[tuple[int, str], None]] = {}
    for refusal in refusals:
        at = by_place.get(refusal.place, [])
        op = op_title(nodes[at[0]].proto) if at else refusal.op
        reason = refusal.reason if op == refusal.op else f"its definition uses {refusal.op}: {refusal.reason}"
        labels = [(index, nodes[index].label) for index in at] or [(len(nodes), refusal.node)]
        found.setdefault((op, reason, *suggest_remedy(refusal, opsets)), {}).update(dict.fromkeys(labels))
    return [
        Problem(op, kind, reason, tuple(label for _, label in sorted(labels)), words)
        for (op, reason, kind, words), labels in sorted(found.items(), key=lambda item: min(item[1])[0])
    ]


def _dtypes(model: onnx.ModelProto, nodes: Sequence[FileNode], graph: Graph) -> list[str]:
    """The element types of tensors in the file, of values that it declares, and of those that were converted."""
    graphs = inventory.collect_graphs(model, nodes)
    values = [v for g in graphs for v in (*g.input, *g.output, *g.value_info)]
    names = {name for value in values for name in inventory.element_types(value.type)}
    names.update(type_name(t.data_type) for t in inventory.collect_tensors(model, nodes))
    names.update(value.dtype for value in graph.scope.values.values() if value.dtype)
    return sorted(names - {"undefined"})
