"""Bodies of loops: are they given what they declare, what does no iteration change, how is one iteration converted."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

import onnx
from onnx import NodeProto

from ....dialects.loops import Draft
from ....dialects.types import is_static_type
from ..proto.nodes import node_captures
from ..proto.weights import DTYPES
from ..state.context import Context
from ..values.forms import Form, form_of
from ..values.tensor import Tensor
from .control_flow import MOST_IN_KERNEL, count_traffic, filling_kernel
from .ranks import demand_ranked

_RANDOM = {
    "RandomNormal",
    "RandomNormalLike",
    "RandomUniform",
    "RandomUniformLike",
    "Bernoulli",
    "Dropout",
    "Multinomial",
}


class LoopBody:
    """A graph that is run again and again.

    Its nodes that depend on none of its inputs (a weight's transpose, say) are converted once, at the insertion point
    where this object is made: before the loop.
    """

    def __init__(self, ctx: Context, graph: onnx.GraphProto, fixed: Mapping[str, Tensor]) -> None:
        """``fixed`` are the inputs that are the same in all iterations, ``inputs`` the names of the others."""
        self._ctx, self._graph = ctx, graph
        self.inputs = [i.name for i in graph.input if i.name not in fixed]
        scope = ctx.graph.scope
        self._around = scope.make_inner(fixed)
        self._around.weights.update({t.name: t for t in graph.initializer})
        self._around.declared.update({v.name: v.type for v in (*graph.value_info, *graph.output)})
        constant, self._nodes = _split_nodes(graph.node, self.inputs)
        self._around.add_nodes(constant)
        used = [name for node in self._nodes for name in (*node.input, *node_captures(node))]
        used += [output.name for output in graph.output]
        ctx.graph.made_in(self._around, [n for n in dict.fromkeys(used) if n in self._around.producers])

    def convert(self, inputs: Sequence[Tensor], outputs: Sequence[int]) -> list[Tensor]:
        """One iteration at the current insertion point; gives the outputs of these positions."""
        around = self._around
        scope = around.make_inner(dict(zip(self.inputs, inputs, strict=True)))
        scope.add_nodes(self._nodes)
        return self._ctx.graph.made_in(scope, [self._graph.output[i].name for i in outputs])

    def add_declared_extents(self, form: Form, output: int) -> Form:
        """What is known of an output of this position, and extents that the graph declares for it."""
        dims = self._graph.output[output].type.tensor_type.shape.dim
        if len(dims) != len(form.shape):
            return form
        said = (dim.dim_value if dim.HasField("dim_value") else n for n, dim in zip(form.shape, dims, strict=True))
        return replace(form, shape=tuple(n if isinstance(n, int) else m for n, m in zip(form.shape, said, strict=True)))

    def is_text(self, output: int) -> bool:
        """Whether the graph declares an output of this position as text."""
        return self._graph.output[output].type.tensor_type.elem_type == onnx.TensorProto.STRING

    def draft(self, forms: Sequence[Form], outputs: Sequence[int]) -> tuple[Draft, list[Tensor]]:
        """One iteration as a draft, whose arguments are the inputs, with the outputs of these positions as results.

        It becomes part of a kernel, and is refused where it needs more than that, or is worth kernels of its own.
        """
        draft = Draft([form.type for form in forms])
        with filling_kernel(self._ctx, draft, dynamic=True):
            made = self.convert([f.wrap(v) for f, v in zip(forms, draft.arguments, strict=True)], outputs)
            draft.results = [t.value for t in made]
            if not all(is_static_type(value.type) for value in (*draft.arguments, *draft.results)):
                self.refuse_long(draft)
        return draft, made

    def refuse_long(self, draft: Draft) -> None:
        """Leave iterations that take long to the program, which runs them on all threads."""
        if count_traffic(draft) > MOST_IN_KERNEL:
            self._ctx.unsupported("an iteration is worth kernels of its own")

    def types(self, forms: Sequence[Form], outputs: Sequence[int]) -> list[Form]:
        """What an iteration gives for inputs of these forms, without a trace of it in the program."""
        draft = Draft([form.type for form in forms])
        with draft.insertion_point():
            made = self.convert([f.wrap(v) for f, v in zip(forms, draft.arguments, strict=True)], outputs)
            demand_ranked(self._ctx, made, "an element of a scan output")
        draft.drop()
        return forms_of(made)


def check_counts(ctx: Context, graph: onnx.GraphProto, inputs: int, carried: int, unseen: int = 0) -> None:
    """Refuse a body that takes another number of inputs, or gives fewer outputs than are carried or read.

    ``unseen`` are outputs that are none of the node: a condition.
    """
    if len(graph.input) != inputs:
        ctx.invalid(f"its body has {len(graph.input)} inputs, it is given {inputs}")
    if len(graph.output) < carried:
        ctx.invalid(f"its body has {len(graph.output)} outputs, it must have at least {carried}")
    if len(ctx.node.output) > len(graph.output) - unseen:
        ctx.invalid(f"it has {len(ctx.node.output)} outputs, its body gives {len(graph.output) - unseen}")


def check_dtypes(ctx: Context, inputs: Sequence[onnx.ValueInfoProto], dtypes: Sequence[str]) -> None:
    """Refuse inputs of other dtypes than the body declares."""
    for declared, given in zip(inputs, dtypes, strict=True):
        dtype = DTYPES.get(declared.type.tensor_type.elem_type)
        if dtype is not None and dtype != given:
            ctx.invalid(f"input '{declared.name}' of its body has dtype {dtype}, what it is given has {given}")


def describe_change(ctx: Context, names: Sequence[str], before: Sequence[Form], after: Sequence[Form]) -> str:
    """Which carried value has another shape after an iteration than before it, in words; "" if none has.

    None may have another dtype.
    """
    for name, old, new in zip(names, before, after, strict=True):
        if old != new:
            words = f"the carried value '{name}' is {old} before an iteration and {new} after it"
            if old.dtype != new.dtype:
                ctx.invalid(words)
            return words
    return ""


def forms_of(tensors: Sequence[Tensor]) -> list[Form]:
    """What is known of each: dtype and shape."""
    return [form_of(t) for t in tensors]


def returned_unchanged(graph: onnx.GraphProto, pairs: Sequence[tuple[int, int]]) -> list[int]:
    """Of pairs of an input's and an output's position, the places of those where the body hands the input on as it is.

    Exporters carry whatever a body uses, weights and shapes as well.
    """
    copies = {n.output[0]: n.input[0] for n in graph.node if n.op_type == "Identity" and n.domain in ("", "ai.onnx")}
    found = []
    for place, (given, handed) in enumerate(pairs):
        name = graph.output[handed].name
        while name in copies:
            name = copies[name]
        if name == graph.input[given].name:
            found.append(place)
    return found


def _split_nodes(nodes: Sequence[NodeProto], inputs: Collection[str]) -> tuple[list[NodeProto], list[NodeProto]]:
    """The nodes that depend on none of the inputs, and the others; what is random differs in each iteration."""
    changing = set(inputs)
    size = -1
    while len(changing) != size:
        size = len(changing)
        for node in nodes:
            if _is_random(node) or changing.intersection((*node.input, *node_captures(node))):
                changing.update(filter(None, node.output))
    constant = [node for node in nodes if not changing.intersection(node.output)]
    return constant, [node for node in nodes if changing.intersection(node.output)]


def _is_random(node: NodeProto) -> bool:
    graphs = [g for a in node.attribute for g in ([a.g] if a.HasField("g") else a.graphs)]
    own = node.domain not in ("", "ai.onnx")  # a function's body may be random
    return own or node.op_type in _RANDOM or any(_is_random(n) for g in graphs for n in g.node)
