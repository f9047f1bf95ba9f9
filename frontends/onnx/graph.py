"""Conversion of graphs: which nodes are needed and in which order, names, weights, nested graphs and functions."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache

import numpy as np
import onnx
from onnx import AttributeProto, NodeProto, TensorProto, helper

from ...dialects import builders, ir
from ...dialects.types import element_type
from ...errors import ModelError, UnsupportedError
from ...model import Param, TensorInfo
from . import functions, registry
from .context import Context, Unsupported
from .fold import fold
from .nodes import captures, chosen_branch, has_body, node_captures, op_title, title, wrong_dtype
from .tensor import Tensor
from .weights import Detached, dtype_name


class _Failed:
    """Stands for the outputs of a node that could not be converted."""


FAILED = _Failed()

_MAX_FLOATS = 4  # elements of a constant of floats in the IR, unless it is a splat


@dataclass
class Scope:
    """Names of one graph: what is converted, what makes the rest, and the graph around it."""

    opsets: dict[str, int]
    outer: Scope | None = None
    node_name: str = ""  # of the call, for the nodes inside a function's body
    values: dict[str, Tensor | _Failed] = field(default_factory=dict)
    weights: dict[str, TensorProto] = field(default_factory=dict)
    producers: dict[str, int] = field(default_factory=dict)
    nodes: Sequence[NodeProto] = ()

    def add_nodes(self, nodes: Sequence[NodeProto]) -> None:
        """Take the graph's nodes; a name may be made only once."""
        self.nodes = nodes
        for index, node in enumerate(nodes):
            for name in filter(None, node.output):
                if name in self.producers:
                    raise ModelError(f"node '{title(node, index)}' makes '{name}', which another node makes as well")
                self.producers[name] = index


@dataclass(frozen=True)
class Refusal:
    """Why a node could not be converted."""

    op: str
    node: str
    reason: str


class Graph:
    """The state of one import: the function that is being made, its weights, and what was refused."""

    def __init__(self, detached: Detached, block: ir.Block, opsets: dict[str, int]) -> None:
        self.detached = detached
        self.block = block
        self.params: dict[str, Param] = {}
        self.refusals: list[Refusal] = []
        self.scope = Scope(opsets)
        self._functions = {(f.domain, f.name, f.overload): f for f in detached.proto.functions}

    def initializer(self, tensor: TensorProto, name: str) -> Tensor:
        """A tensor of the file: known if it is small, else a weight that becomes a param when it is used."""
        dtype = dtype_name(tensor.data_type, f"tensor '{name}'")
        source = self.detached.source(tensor)
        shape = tuple(tensor.dims)
        if int(np.prod(shape, dtype=np.int64)) <= builders.MAX_CONSTANT:
            return self.known(np.array(self.detached.array(tensor)), dtype, name)
        param = Param(TensorInfo(name, shape, dtype), source)
        return Tensor(dtype, shape, lambda: self._argument(param), load=param.array)

    def known(self, array: np.ndarray, dtype: str, name: str) -> Tensor:
        """A value that the import knows: a constant in the IR if it is small or a splat, else a param."""
        # What a convolution's channels are scaled with is no part of a kernel: kernels that differ in it are one.
        most = _MAX_FLOATS if dtype.startswith(("float", "bfloat")) else builders.MAX_CONSTANT
        if array.size <= most or builders.is_splat(array):
            return Tensor(dtype, array.shape, lambda: self._constant(array, dtype), known=array)
        param = Param(TensorInfo(name, array.shape, dtype), np.ascontiguousarray(array))
        return Tensor(dtype, array.shape, lambda: self._argument(param), known=array)

    def _constant(self, array: np.ndarray, dtype: str) -> ir.Value:
        # At the entry, so that it is in sight from every region.
        with ir.InsertionPoint.at_block_begin(self.block):
            return builders.constant(array, element_type(dtype))

    def _argument(self, param: Param) -> ir.Value:
        info = param.info
        name, count = info.name, 1
        while name in self.params:  # the same name in different nested graphs
            name, count = f"{info.name}_{count}", count + 1
        shape = tuple(int(n) for n in info.shape if isinstance(n, int))
        self.params[name] = Param(TensorInfo(name, shape, info.dtype), param.source)
        return self.block.add_argument(builders.ranked(shape, element_type(info.dtype)), ir.Location.name(name))

    def convert(self, outputs: Iterable[str]) -> list[Tensor | _Failed]:
        """Convert what these names of the current scope need, and give their tensors."""
        outputs = list(outputs)
        for name in outputs:
            self._resolve(name)
        return [self._lookup(name) for name in outputs]

    def _resolve(self, name: str) -> None:
        """Convert the producer of a name after those of all that it needs, without recursion: graphs are deep."""
        stack, waiting = [name], set[str]()
        while stack:
            scope, index = self._producer(stack[-1])
            if scope is None:
                stack.pop()
                continue
            node = scope.nodes[index]
            missing = [n for n in self._needs(node) if self._producer(n)[0] is not None]
            if missing:
                if waiting.intersection(missing):
                    raise ModelError(f"node '{title(node, index)}' depends on its own output '{stack[-1]}': a cycle")
                waiting.add(stack[-1])
                stack.extend(missing)
                continue
            waiting.discard(stack.pop())
            self._convert_node(node, index, scope)

    def _producer(self, name: str) -> tuple[Scope | None, int]:
        """The scope and position of the node that still has to be converted for a name; None where none has to."""
        scope: Scope | None = self.scope
        while scope is not None:
            if name in scope.values or name in scope.weights:
                return None, 0
            if name in scope.producers:
                return scope, scope.producers[name]
            scope = scope.outer
        raise ModelError(f"'{name}' is used, but no node, input or initializer makes it")

    def _lookup(self, name: str) -> Tensor | _Failed:
        scope: Scope | None = self.scope
        while scope is not None:
            if name in scope.values:
                return scope.values[name]
            if name in scope.weights:
                scope.values[name] = self.initializer(scope.weights[name], name)
                return scope.values[name]
            scope = scope.outer
        raise ModelError(f"'{name}' is used before it is made")

    def _needs(self, node: NodeProto) -> list[str]:
        """The names that must be there before the node; of an If that is decided, those of one branch only."""
        names = [n for n in node.input if n]
        if node.op_type == "If" and self._producer(names[0])[0] is None:
            branch = chosen_branch(node, self._lookup(names[0]))
            return names + (captures(branch) if branch is not None else node_captures(node))
        return names if node.op_type == "If" else names + node_captures(node)

    def _convert_node(self, node: NodeProto, index: int, scope: Scope) -> None:
        name = scope.node_name or title(node, index)
        inputs = [self._lookup(n) if n else None for n in node.input]
        outputs: Sequence[Tensor | _Failed]
        caller, self.scope = self.scope, scope
        try:
            with ir.Location.name(name):
                outputs = self._outputs(node, name, inputs)
        except (Unsupported, UnsupportedError) as refusal:
            if str(refusal):
                self.refusals.append(Refusal(op_title(node), name, str(refusal)))
            outputs = [FAILED] * len(node.output)
        except ValueError as error:  # a builder refuses shapes that do not fit together
            raise ModelError(f"node '{name}' ({node.op_type}): {error}") from error
        finally:
            self.scope = caller
        for output, tensor in zip(node.output, outputs, strict=False):
            if output:
                scope.values[output] = tensor
        for output in node.output[len(outputs) :]:
            self.refusals.append(Refusal(op_title(node), name, f"output '{output}' is not supported"))
            scope.values[output] = FAILED

    def _outputs(
        self, node: NodeProto, name: str, inputs: Sequence[Tensor | _Failed | None]
    ) -> Sequence[Tensor | _Failed]:
        domain = "" if node.domain == "ai.onnx" else node.domain
        opset = self.scope.opsets.get(domain, 0)
        tensors = [t for t in inputs if not isinstance(t, _Failed)]
        complete = len(tensors) == len(inputs)
        local = self._functions.get((node.domain, node.op_type, node.overload))
        if local is not None:
            return self._call(functions.local_body(local, node), node, inputs, name)
        if complete and (folded := fold(node, tensors, opset)) is not None:
            return [self.known(a, a.dtype.name, out) for a, out in zip(folded, node.output, strict=True)]
        converter = registry.find(domain, node.op_type, opset)
        if converter is None:
            body = functions.schema_body(node, tensors, opset) if complete else None
            if body is not None:
                return self._call(body, node, inputs, name)
            if not complete and has_body(node.op_type, opset, domain):
                return [FAILED] * len(node.output)
            known = bool(registry.registered(domain))
            raise Unsupported(f"no converter at opset {opset}" if known else f"the domain '{domain}' is unknown")
        if not complete:
            return [FAILED] * len(node.output)
        if reason := wrong_dtype(node, domain, tensors):
            raise Unsupported(reason)
        return self._apply(converter, Context(self, node, name, opset), tensors)

    def _apply(
        self, converter: Callable[..., object], ctx: Context, inputs: Sequence[Tensor | None]
    ) -> Sequence[Tensor]:
        attributes = {a.name: self._attribute(a) for a in ctx.node.attribute}
        positional, keywords, variadic = _signature(converter)
        for name in attributes:
            if name not in keywords:
                ctx.unsupported(f"attribute '{name}'")
        if not variadic and len(inputs) > positional:
            ctx.unsupported(f"{len(inputs)} inputs")
        padded = [*inputs, *[None] * (positional - len(inputs))]
        made = converter(ctx, *padded, **attributes)
        return [made] if isinstance(made, Tensor) else list(made)  # type: ignore[call-overload]

    def _attribute(self, attribute: AttributeProto) -> object:
        value = helper.get_attribute_value(attribute)
        match attribute.type:
            case AttributeProto.STRING:
                return value.decode()
            case AttributeProto.STRINGS:
                return [v.decode() for v in value]
            case AttributeProto.INTS | AttributeProto.FLOATS:
                return list(value)
            case AttributeProto.TENSOR:
                return value if attribute.t.data_type == TensorProto.STRING else self.detached.array(value)
        return value

    def _call(
        self, body: functions.Body, node: NodeProto, inputs: Sequence[Tensor | _Failed | None], name: str
    ) -> Sequence[Tensor | _Failed]:
        """Convert a function's body in place of its call, as far as the outputs that the call uses need it."""
        bound = {n: t for n, t in zip(body.inputs, inputs, strict=False) if t is not None}
        nodes = _without_absent(body, bound)
        opsets = {("" if d == "ai.onnx" else d): v for d, v in body.opsets.items()}
        scope = Scope({**self.scope.opsets, **opsets}, node_name=name, values=dict(bound))
        scope.add_nodes(nodes)
        used = [inner for inner, outer in zip(body.outputs, node.output, strict=False) if outer]
        made = iter(self._within(scope, used))
        return [next(made) if outer else FAILED for outer in node.output[: len(body.outputs)]]

    def convert_subgraph(self, graph: onnx.GraphProto, inputs: Sequence[Tensor]) -> list[Tensor]:
        """Convert a nested graph at the current insertion point; names of the outer graphs are in sight."""
        scope = Scope(self.scope.opsets, outer=self.scope, node_name=self.scope.node_name)
        scope.values.update({i.name: t for i, t in zip(graph.input, inputs, strict=True)})
        scope.weights.update({t.name: t for t in graph.initializer})
        scope.add_nodes(graph.node)
        made = self._within(scope, [o.name for o in graph.output])
        if any(isinstance(t, _Failed) for t in made):
            raise Unsupported("")  # its own nodes have said why
        return [t for t in made if isinstance(t, Tensor)]

    def _within(self, scope: Scope, outputs: Sequence[str]) -> list[Tensor | _Failed]:
        caller, self.scope = self.scope, scope
        try:
            return self.convert(outputs)
        finally:
            self.scope = caller


@lru_cache
def _signature(converter: Callable[..., object]) -> tuple[int, set[str], bool]:
    """The number of inputs a converter takes by position, its attributes, and whether more inputs may follow."""
    parameters = list(inspect.signature(converter).parameters.values())[1:]  # without ctx
    positional = sum(p.kind is p.POSITIONAL_OR_KEYWORD for p in parameters)
    keywords = {p.name for p in parameters if p.kind is p.KEYWORD_ONLY}
    return positional, keywords, any(p.kind is p.VAR_POSITIONAL for p in parameters)


def _without_absent(body: functions.Body, bound: dict[str, Tensor | _Failed]) -> list[NodeProto]:
    """The body's nodes, with the names of inputs that the call leaves out removed."""
    absent = set(body.inputs) - set(bound)
    nodes = []
    for node in body.nodes:
        if absent.intersection(node.input):
            copy = NodeProto()
            copy.CopyFrom(node)
            copy.input[:] = ["" if n in absent else n for n in node.input]
            node = copy
        nodes.append(node)
    return nodes
