"""ONNX to ``Model``: read, check, fix the shapes, convert what the outputs need."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace

import onnx

from ...core.codegens import CodegenChoice
from ...core.dims import InputShapes
from ...core.errors import ModelError, UnsupportedError
from ...core.externals import Externals
from ...core.limits import ORDINARY, ModelLimits
from ...core.model import OBJECTS, Model, TensorInfo, check_size
from ...core.sizes import Extent, Sym
from ...dialects import builders, extents, func, ir, tw
from ...dialects.context import diagnostics, join_context
from ...dialects.types import element_type
from . import ops
from .convert.graph import Graph
from .proto.check import check_model
from .proto.weights import Detached, ModelSource, detach
from .regions.cut import Cut, cut_network, keep_sizes
from .shapes.inputs import fixed_inputs
from .state.refusals import Refusal
from .state.standins import Failed
from .values.choices import Unranked
from .values.objects import Element, Object, element_of_type
from .values.tensor import Tensor


def import_onnx(
    source: ModelSource,
    input_shapes: InputShapes | None = None,
    name: str = "",
    limits: ModelLimits = ORDINARY,
    codegens: CodegenChoice | None = None,
) -> Model:
    """Import a model from a path, bytes or a ModelProto.

    ``input_shapes`` gives inputs whose shape the file leaves open; ``codegens`` of the user compile parts of it. Raises
    ModelError where the model is not valid or lacks something, UnsupportedError (all reasons in one line) where it uses
    what has no converter, and CompileError where a code generator fails.
    """
    ops.load_converters()
    detached = detach(source, limits)
    with prefixing_errors(detached.what):
        opsets = check_model(detached)
        inputs = fixed_inputs(detached.proto.graph, input_shapes or {}, detached.what)
        cut = Cut(detached)
        if codegens is not None and codegens.names:
            _, tried = convert_model(detached, opsets, inputs, lenient=True)
            cut = cut_network(tried, inputs, codegens)
        model, graph = convert_model(cut.detached, opsets, inputs, name=name, cut=cut)
        if model is None:
            raise UnsupportedError("; ".join([f"{detached.what}: {_all_reasons(graph.refusals)}", *cut.notes]))
        return model


def read_inputs(
    source: ModelSource, input_shapes: InputShapes | None = None, limits: ModelLimits = ORDINARY
) -> tuple[TensorInfo, ...]:
    """The inputs that ``import_onnx`` would give the model. Raises as it does, for the inputs alone."""
    detached = detach(source, limits)
    with prefixing_errors(detached.what):
        return tuple(fixed_inputs(detached.proto.graph, input_shapes or {}, detached.what))


@contextmanager
def prefixing_errors(what: str) -> Iterator[None]:
    """Let every error begin with the model's name."""
    try:
        yield
    except ModelError as error:
        if str(error).startswith(f"{what}: "):
            raise
        raise type(error)(f"{what}: {error}") from error


def convert_model(
    detached: Detached,
    opsets: dict[str, int],
    inputs: Sequence[TensorInfo],
    missing: Mapping[str, Failed] | None = None,
    name: str = "",
    cut: Cut | None = None,
    lenient: bool = False,
) -> tuple[Model | None, Graph]:
    """The model, or None where the graph's refusals say why it is none; ``missing`` are inputs without a value.

    ``cut`` says what code generators have taken. A ``lenient`` conversion goes on behind nodes that are refused, where
    their types are known: code generators may take them.
    """
    proto = detached.proto.graph
    for info in inputs:
        check_size(info.shape, info.dtype, f"input '{info.name}'", detached.limits)
    with join_context(), ir.Location.unknown(), diagnostics("import"), extents.scope(appending=True):
        module = ir.Module.create()
        with ir.InsertionPoint(module.body):
            main = func.FuncOp("main", ([_make_input_type(i) for i in inputs], []))
        assumed = _name_extents(proto, inputs) if lenient else None
        graph = Graph(detached, main.add_entry_block(), opsets, cut.regions if cut else {}, assumed)
        graph.scope.values.update(missing or {})
        if cut is not None:
            keep_sizes(graph, cut)
        with ir.InsertionPoint(graph.entry.block):
            outputs = _convert_graph(graph, proto, inputs)
            if graph.refusals or missing:
                return None, graph
            func.ReturnOp([t.value for t in outputs])
        graph.entry.drop_unused()
        _finish(main, graph, inputs)
        module.operation.verify()
    results = tuple(_describe_output(o.name, t) for o, t in zip(proto.output, outputs, strict=True))
    title = name or (detached.path.stem if detached.path else proto.name) or "model"
    model = Model(module, tuple(inputs), results, graph.entry.params, title, tuple(detached.files))
    notes, externals = (*(cut.notes if cut else ()), *graph.notes), Externals.join(graph.entry.externals)
    made = replace(model, notes=notes, externals=externals, generated=tuple(graph.entry.code.values()))
    return made, graph


def _describe_output(name: str, value: Tensor) -> TensorInfo:
    shape = () if isinstance(value, Object) else value.shape
    return TensorInfo(name, shape, value.dtype, not isinstance(value, Unranked))


def _name_extents(proto: onnx.GraphProto, inputs: Sequence[TensorInfo]) -> dict[str, Extent]:
    """The extents of inputs by the names that the file has for them."""
    declared = {value.name: value.type.tensor_type.shape.dim for value in proto.input}
    pairs = (pair for info in inputs for pair in zip(declared[info.name], info.shape, strict=False))
    return {dim.dim_param: extent for dim, extent in pairs if dim.dim_param}


def _convert_graph(graph: Graph, proto: onnx.GraphProto, inputs: Sequence[TensorInfo]) -> list[Tensor]:
    scope = graph.scope
    bound: set[Sym] = set()
    declared = {value.name: element_of_type(value.type) for value in proto.input}
    for info, argument in zip(inputs, graph.entry.block.arguments, strict=False):
        scope.values[info.name] = _input(info, argument, bound, declared[info.name])
    scope.add_graph(proto)
    return [t for t in graph.convert(o.name for o in proto.output) if isinstance(t, Tensor)]


def _make_input_type(info: TensorInfo) -> ir.Type:
    if info.dtype in OBJECTS:
        return ir.NoneType.get()
    return builders.ranked_type(info.shape, element_type(info.dtype))


def _input(info: TensorInfo, argument: ir.Value, bound: set[Sym], declared: Element) -> Tensor:
    """An input as a tensor; symbols that it is the first to have are bound to its extents."""
    if info.dtype in OBJECTS:
        return Object(declared, lambda: argument)
    for axis, extent in enumerate(info.shape):
        if isinstance(extent, Sym) and extent not in bound:
            extents.bind(str(extent), extents.dim(argument, axis))
            bound.add(extent)
    extents.note(argument, info.shape)
    return Tensor(info.dtype, info.shape, lambda: argument)


def _finish(main: func.FuncOp, graph: Graph, inputs: Sequence[TensorInfo]) -> None:
    """Give the function its type and the attributes of its arguments."""
    block = main.entry_block
    results = [value.type for value in block.operations[len(block.operations) - 1].operands]
    type_ = ir.FunctionType.get([argument.type for argument in block.arguments], results)
    main.attributes["function_type"] = ir.TypeAttr.get(type_)
    names = [(tw.NAME, info.name) for info in inputs] + [(tw.PARAM, name) for name in graph.entry.params]
    attributes = [ir.DictAttr.get({key: ir.StringAttr.get(name)}) for key, name in names]
    main.arg_attrs = attributes


def _all_reasons(refusals: Iterable[Refusal]) -> str:
    """Every refusal once, with the nodes that it is about: one line."""
    nodes: dict[tuple[str, str], list[str]] = {}
    for refusal in refusals:
        nodes.setdefault((refusal.op, refusal.reason), []).append(refusal.node)
    parts = []
    for (op, reason), names in nodes.items():
        more = f" and {len(names) - 3} more" if len(names) > 3 else ""
        parts.append(f"{op} ({', '.join(dict.fromkeys(names[:3]))}{more}): {reason}")
    return " ".join(f"cannot be imported: {'; '.join(parts)}".split())  # names may hold line breaks
