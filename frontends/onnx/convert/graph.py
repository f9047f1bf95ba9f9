"""Conversion of graphs: which nodes are needed and in which order, names, weights, nested graphs and functions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from functools import cached_property

import onnx
from onnx import AttributeProto, NodeProto, TensorProto, helper

from ....core.breadcrumbs import step
from ....core.custom_ops import registered_ops
from ....core.errors import ModelError, UnsupportedError
from ....core.model import check_size
from ....core.questions import ask
from ....core.sizes import Extent
from ....dialects import ir
from ..control.cases import Waiting, convert_cases
from ..proto.nodes import bodies_of, find_captures, node_captures, op_title, title_of
from ..proto.weights import Detached, type_name
from ..state import registry
from ..state.context import Context
from ..state.graph_state import GraphState
from ..state.refusals import Unsupported
from ..state.scope import Scope
from ..state.standins import FAILED, Failed, StandIn, TensorOrFailed, assume_made, hand_on_standins, of_type, stand_ins
from ..values.objects import Object
from ..values.tensor import Tensor
from . import custom, functions
from .fold import fold
from .fold_sizes import as_tensors, fold_sizes
from .old_opsets import as_oldest
from .region import DOMAIN, CompiledRegion, convert_region, take_constant
from .schemas import has_body, mixed_dtypes, unknown_attribute, unknown_op
from .signatures import read_signature, refuse_results, refuse_use
from .text_nodes import move_text, moves_text


class Graph(GraphState):
    """The conversion of one model's graphs."""

    def __init__(
        self,
        detached: Detached,
        block: ir.Block,
        opsets: dict[str, int],
        regions: Mapping[str, CompiledRegion] | None = None,
        assumed: Mapping[str, Extent] | None = None,
    ) -> None:
        """``regions`` are what nodes of ``region.DOMAIN`` stand for. With ``assumed``, extents of the inputs by their
        names, the conversion goes on behind a node that is refused as if it were none, where its types are known."""
        super().__init__(detached, block, opsets)
        self._regions, self._assumed = regions or {}, assumed
        self._functions = {(f.domain, f.name, f.overload): f for f in detached.proto.functions}

    def convert(self, outputs: Iterable[str]) -> list[TensorOrFailed]:
        """Convert what these names of the current scope need, and give their tensors."""
        outputs = list(outputs)
        while (choice := (waiting := self._resolve_all(outputs)).choice) is not None:
            node = choice.maker.node
            try:
                convert_cases(self, choice, waiting, outputs)
            except (Unsupported, UnsupportedError) as refusal:
                self.refusals.add(node, choice.maker.name, self.scope.place(node), refusal)
                self.scope.values.update((name, FAILED) for name in outputs if name in waiting.needs)
        return [self._lookup(name) for name in outputs]

    def resolve_in(self, scope: Scope, outputs: Iterable[str]) -> None:
        """Convert what these names of a scope need, but for what waits for a choice."""
        caller, self.scope = self.scope, scope
        try:
            self._resolve_all(outputs)
        finally:
            self.scope = caller

    def _resolve_all(self, outputs: Iterable[str]) -> Waiting:
        """What waits, once all has been converted that these names of the current scope need and that does not."""
        waiting = Waiting()
        for name in outputs:
            self._resolve(name, waiting)
        return waiting

    def _resolve(self, name: str, waiting: Waiting) -> None:
        """Convert the producer of a name after those of all that it needs, without recursion: graphs are deep."""
        stack, begun = [name], set[str]()
        while stack:
            scope, index = (None, 0) if stack[-1] in waiting.needs else self.scope.producer(stack[-1])
            if scope is None:
                stack.pop()
                continue
            node = scope.nodes[index]
            needs = self._needs(node, waiting)
            missing = [n for n in needs if n not in waiting.needs and self.scope.producer(n)[0] is not None]
            if missing:
                if begun.intersection(missing):
                    raise ModelError(f"node '{title_of(node, index)}' depends on its own output '{stack[-1]}': a cycle")
                begun.add(stack[-1])
                stack.extend(missing)
                continue
            begun.discard(stack.pop())
            if not waiting.takes(node, needs, self.scope.choice(needs)):
                self._convert_node(node, index, scope)

    def _lookup(self, name: str) -> TensorOrFailed:
        for scope in self.scope.around():
            if name in scope.values:
                return scope.values[name]
            if name in scope.weights:
                try:
                    scope.values[name] = self.entry.initializer(scope.weights[name], name)
                except UnsupportedError:
                    self.refusals.add_other("tensor", name, f"dtype {type_name(scope.weights[name].data_type)}")
                    scope.values[name] = FAILED
                return scope.values[name]
        raise ModelError(f"'{name}' is used before it is made")

    def _needs(self, node: NodeProto, waiting: Waiting) -> list[str]:
        """The names that must be there before the node; of an If that is decided, those of one branch only."""
        names = [n for n in node.input if n]
        condition = names[0] if node.op_type == "If" and names else ""
        if condition and condition not in waiting.needs and self.scope.producer(condition)[0] is None:
            branch = _chosen_branch(node, self._lookup(condition))
            return names + (find_captures(branch) if branch is not None else node_captures(node))
        return names if node.op_type == "If" else names + node_captures(node)

    def _convert_node(self, node: NodeProto, index: int, scope: Scope) -> None:
        name = scope.node_name or title_of(node, index)
        inputs = [self._lookup(n) if n else None for n in node.input]
        outputs: Sequence[TensorOrFailed]
        caller, self.scope = self.scope, scope
        before = len(self.refusals)
        try:
            with step(f"node '{name}' ({node.op_type})"), ir.Location.name(name):
                outputs = hand_on_standins(inputs, self._outputs(node, name, inputs))
            whole = len(self.refusals) == before  # nothing inside of it, if it is a function, has failed
            (self.refusals.converted if whole else self.refusals.failed).add(scope.place(node))
        except (Unsupported, UnsupportedError) as refusal:
            outputs = self._record_failure(node, name, refusal, inputs)
            if self._assumed is not None:
                declared = [self.scope.declared.get(output) for output in node.output]
                outputs = [assume_made(t, d, self._assumed) for t, d in zip(outputs, declared, strict=True)]
        except Exception as error:
            if self.refusals:  # what could not be made may be the cause
                outputs = self._record_failure(node, name, Unsupported(""), inputs)
            elif isinstance(error, ValueError | ArithmeticError):  # shapes that do not fit together, absurd numbers
                raise ModelError(f"node '{name}' ({node.op_type}): {error}") from error
            else:
                raise
        finally:
            self.scope = caller
        for output, tensor in zip(node.output, outputs, strict=False):
            if isinstance(tensor, Tensor) and not isinstance(tensor, Object):
                what = f"node '{name}' ({op_title(node)}): its output"
                check_size(tensor.shape, tensor.dtype, what, self.detached.limits)
            if output:
                scope.values[output] = tensor
        for output in node.output[len(outputs) :]:
            reason = Unsupported(f"output '{output}' is not supported", "output")
            self.refusals.add(node, name, scope.place(node), reason)
            scope.values[output] = FAILED

    def _record_failure(
        self, node: NodeProto, name: str, refusal: Exception, inputs: Sequence[TensorOrFailed | None]
    ) -> list[TensorOrFailed]:
        """What stands for the outputs of a node that failed, once the nodes of its bodies are looked at as well."""
        self.refusals.add(node, name, self.scope.place(node), refusal)
        chosen = _chosen_branch(node, inputs[0]) if node.op_type == "If" and inputs else None
        for body in bodies_of(node) if chosen is None else ():  # of an If that is decided, all was tried
            with suppress(Exception):  # for want of values
                self._within(self._inner(body, [of_type(i.type) for i in body.input]), [o.name for o in body.output])
        return stand_ins(node, inputs, self.scope.opsets, self.scope.declared)

    def _outputs(self, node: NodeProto, name: str, inputs: Sequence[TensorOrFailed | None]) -> Sequence[TensorOrFailed]:
        domain = "" if node.domain == "ai.onnx" else node.domain
        opset = self.scope.opsets.get(domain, 0)
        tensors = [t for t in inputs if not isinstance(t, Failed)]
        complete = len(tensors) == len(inputs)
        if domain and custom.name_of(node) in self._operators:
            return self._custom(Context(self, node, name, opset), tensors if complete else None)
        if domain == DOMAIN and complete and node.name in self._regions:
            return self._region(Context(self, node, name, opset), [t for t in tensors if t is not None])
        local = self._functions.get((node.domain, node.op_type, node.overload))
        if local is not None:
            return self._call(functions.local_body(local, node), node, inputs, name, f"{node.domain}.{node.op_type}")
        node, opset = as_oldest(node, domain, opset)
        if attribute := unknown_attribute(node, domain, opset):
            raise Unsupported(f"attribute '{attribute}' is unknown at opset {opset}", "attribute")
        if mixed := mixed_dtypes(node, domain, opset, inputs):
            raise Unsupported(mixed, "dtype")
        converter = registry.find(domain, node.op_type, opset)
        if complete and moves_text(node, domain, tensors):
            ctx = Context(self, node, name, opset)
            return move_text(ctx, tensors, lambda numbers: self._outputs(node, name, numbers))
        if complete and (folded := fold(node, tensors, opset)) is not None:
            return [self.entry.add_known(a, a.dtype.name, out) for a, out in zip(folded, node.output, strict=True)]
        if complete and (sizes := fold_sizes(node, tensors)) is not None:
            return as_tensors(Context(self, node, name, opset), sizes, tensors)
        if converter is None:
            body = functions.schema_body(node, tensors, opset) if complete else None
            if body is not None:
                return self._call(body, node, inputs, name)
            if not complete and has_body(node.op_type, opset, domain):
                raise Unsupported("")
            raise Unsupported(unknown_op(domain, opset, known=bool(registry.registered_names(domain))), "operator")
        refuse_use(converter, node, domain, opset, inputs)
        if not complete:
            raise Unsupported("")
        attributes = {a.name: self.read_attribute(a) for a in node.attribute}
        padded = [*tensors, *[None] * (read_signature(converter)[0] - len(tensors))]
        made = converter(Context(self, node, name, opset), *padded, **attributes)
        results = [FAILED if t is None else t for t in ([made] if isinstance(made, Tensor) else made)]
        refuse_results(node, domain, opset, results)
        return results

    @cached_property
    def _operators(self) -> frozenset[str]:
        """The operators that the user has registered; who has no such nodes need not ask."""
        return ask(registered_ops)

    def _custom(self, ctx: Context, inputs: Sequence[Tensor | None] | None) -> Sequence[TensorOrFailed]:
        """The outputs of a node of an operator that the user has registered; its inputs are None if one failed."""
        if inputs is None:
            raise Unsupported("")
        attributes = {a.name: self.read_attribute(a) for a in ctx.node.attribute}
        return [FAILED if t is None else t for t in custom.convert_custom(ctx, inputs, attributes)]

    def _region(self, ctx: Context, tensors: Sequence[Tensor]) -> Sequence[Tensor]:
        """The outputs of a node that stands for a subgraph."""
        region, names = self._regions[ctx.node.name], ctx.node.input
        first = len(region.subgraph.inputs)
        constants = [take_constant(ctx, t, name) for t, name in zip(tensors[first:], names[first:], strict=True)]
        return convert_region(ctx, region, [*tensors[:first], *constants])

    def read_attribute(self, attribute: AttributeProto) -> object:
        """The value of an attribute: a number, a text, a list of these, an array, or a graph as it is."""
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
        self,
        body: functions.FunctionBody,
        node: NodeProto,
        inputs: Sequence[TensorOrFailed | None],
        name: str,
        function: str = "",
    ) -> Sequence[TensorOrFailed]:
        """Convert a function's body in place of its call, as far as the outputs that the call uses need it.

        ``function`` is a model-local one; the nodes of a schema's body are in no file.
        """
        bound = {n: t for n, t in zip(body.inputs, inputs, strict=False) if t is not None}
        opsets = {("" if d == "ai.onnx" else d): v for d, v in body.opsets.items()}
        caller = None if function and not self.scope.caller else self.scope.place(node)
        scope = Scope({**self.scope.opsets, **opsets}, None, name, function, caller, dict(bound))
        scope.add_nodes(functions.without_absent(body, bound))
        used = [inner for inner, outer in zip(body.outputs, node.output, strict=False) if outer]
        made = iter(self._within(scope, used))
        return [next(made) if outer else FAILED for outer in node.output[: len(body.outputs)]]

    def convert_subgraph(self, graph: onnx.GraphProto, inputs: Sequence[Tensor]) -> list[Tensor]:
        """Convert a nested graph at the current insertion point; names of the outer graphs are in sight."""
        return self.made_in(self._inner(graph, inputs), [o.name for o in graph.output])

    def made_in(self, scope: Scope, outputs: Sequence[str]) -> list[Tensor]:
        """Convert what these names of a scope need; the nodes that are refused say why, and so is what needs them."""
        made = self._within(scope, outputs)
        if any(isinstance(t, Failed | StandIn) for t in made):
            raise Unsupported("")
        return [t for t in made if isinstance(t, Tensor)]

    def _inner(self, graph: onnx.GraphProto, inputs: Sequence[TensorOrFailed]) -> Scope:
        scope = self.scope.make_inner({i.name: t for i, t in zip(graph.input, inputs, strict=True)})
        scope.add_graph(graph)
        return scope

    def _within(self, scope: Scope, outputs: Sequence[str]) -> list[TensorOrFailed]:
        caller, self.scope = self.scope, scope
        try:
            return self.convert(outputs)
        finally:
            self.scope = caller


def _chosen_branch(node: NodeProto, condition: object) -> onnx.GraphProto | None:
    """The branch of an If whose condition is known, else None."""
    if not isinstance(condition, Tensor) or condition.known is None or condition.size != 1:
        return None
    name = "then_branch" if bool(condition.known.reshape(-1)[0]) else "else_branch"
    return next((a.g for a in node.attribute if a.name == name), None)
