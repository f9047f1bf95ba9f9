"""ONNX to ``Model``: read, check, fix the shapes, convert what the outputs need."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

import onnx

from ...dialects import func, ir
from ...dialects.context import diagnostics, make_context
from ...dialects.types import tensor_type
from ...errors import ModelError, UnsupportedError
from ...model import Model, TensorInfo
from . import ops
from .check import check_model
from .graph import Graph, Refusal
from .inputs import fixed_inputs
from .tensor import Tensor
from .weights import Detached, Source, detach


def import_onnx(source: Source, input_shapes: Mapping[str, Sequence[int]] | None = None, name: str = "") -> Model:
    """Import a model from a path, bytes or a ModelProto.

    ``input_shapes`` gives inputs whose shape the file leaves open. Raises ModelError where the model is not valid or
    lacks something, UnsupportedError (all reasons in one line) where it uses what has no converter.
    """
    ops.load()
    detached = detach(source)
    with _named(detached.what):
        return _import(detached, input_shapes or {}, name)


@contextmanager
def _named(what: str) -> Iterator[None]:
    """Let every error begin with the model's name."""
    try:
        yield
    except ModelError as error:
        if str(error).startswith(f"{what}: "):
            raise
        raise type(error)(f"{what}: {error}") from error


def _import(detached: Detached, input_shapes: Mapping[str, Sequence[int]], name: str) -> Model:
    opsets = check_model(detached)
    proto = detached.proto.graph
    inputs = fixed_inputs(proto, input_shapes, detached.what)
    with make_context(), ir.Location.unknown(), diagnostics("import"):
        module = ir.Module.create()
        with ir.InsertionPoint(module.body):
            main = func.FuncOp("main", ([tensor_type(_ints(i), i.dtype) for i in inputs], []))
        graph = Graph(detached, main.add_entry_block(), opsets)
        with ir.InsertionPoint(graph.block):
            outputs = _convert(graph, proto, inputs)
            func.ReturnOp([t.value for t in outputs])
        _finish(main, graph, inputs)
        module.operation.verify()
    results = tuple(TensorInfo(o.name, t.shape, t.dtype) for o, t in zip(proto.output, outputs, strict=True))
    title = name or (detached.path.stem if detached.path else proto.name) or "model"
    return Model(module, tuple(inputs), results, graph.params, title, tuple(detached.files))


def _convert(graph: Graph, proto: onnx.GraphProto, inputs: Sequence[TensorInfo]) -> list[Tensor]:
    scope = graph.scope
    for info, argument in zip(inputs, graph.block.arguments, strict=False):
        scope.values[info.name] = _input(info, argument)
    scope.weights.update({t.name: t for t in proto.initializer})
    scope.add_nodes(proto.node)
    outputs = graph.convert(o.name for o in proto.output)
    if graph.refusals:
        raise UnsupportedError(f"{graph.detached.what}: {_all_reasons(graph.refusals)}")
    return [t for t in outputs if isinstance(t, Tensor)]


def _input(info: TensorInfo, argument: ir.Value) -> Tensor:
    return Tensor(info.dtype, tuple(_ints(info)), lambda: argument)


def _finish(main: func.FuncOp, graph: Graph, inputs: Sequence[TensorInfo]) -> None:
    """Give the function its type and the attributes of its arguments."""
    block = main.entry_block
    results = [value.type for value in block.operations[len(block.operations) - 1].operands]
    type_ = ir.FunctionType.get([argument.type for argument in block.arguments], results)
    main.attributes["function_type"] = ir.TypeAttr.get(type_)
    names = [("tw.name", info.name) for info in inputs] + [("tw.param", name) for name in graph.params]
    attributes = [ir.DictAttr.get({key: ir.StringAttr.get(name)}) for key, name in names]
    main.arg_attrs = attributes


def _all_reasons(refusals: Sequence[Refusal]) -> str:
    """Every refusal once, with the nodes that it is about: one line."""
    nodes: dict[tuple[str, str], list[str]] = {}
    for refusal in refusals:
        nodes.setdefault((refusal.op, refusal.reason), []).append(refusal.node)
    parts = []
    for (op, reason), names in nodes.items():
        more = f" and {len(names) - 3} more" if len(names) > 3 else ""
        parts.append(f"{op} ({', '.join(dict.fromkeys(names[:3]))}{more}): {reason}")
    return " ".join(f"cannot be imported: {'; '.join(parts)}".split())  # names may hold line breaks


def _ints(info: TensorInfo) -> tuple[int, ...]:
    return tuple(int(n) for n in info.shape if isinstance(n, int))
