"""Nodes of operators that a user has registered (``tw.register_op``): the host calls their functions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import onnx

from ....core import custom_ops
from ....core.errors import ExpressionError, ModelError
from ....core.model import OBJECTS
from ....core.questions import ask
from ....dialects import builders, extents
from ....dialects.types import element_type
from ....te.computation import Computation
from ....te.emit import emit_operator, operator_text
from ....te.operators import write_operator
from ..state.context import Context
from ..state.refusals import Unsupported
from ..values.objects import TEXT, Element, Object, element_of_type
from ..values.tensor import Tensor

RULE = "give tw.register_op a rule (infer=...), or declare the output in the file (value_info)"

_PLAIN = (int, float, str)


def name_of(node: onnx.NodeProto) -> str:
    """What a node's operator is called, if a user has registered it."""
    return custom_ops.operator_name(node.domain, node.op_type)


def convert_custom(
    ctx: Context, inputs: Sequence[Tensor | None], attributes: Mapping[str, object]
) -> list[Tensor | None]:
    """The call of the operator's function, as far as its outputs are used.

    Their types are those that the operator's rule gives, else those that the file declares. Raises Unsupported where
    neither says enough, and for an attribute that is no number, text or list of these; ModelError for a wrong rule.
    """
    name = name_of(ctx.node)
    for key, value in attributes.items():
        if not all(isinstance(item, _PLAIN) for item in (value if isinstance(value, list) else [value])):
            raise Unsupported(f"attribute '{key}' is no number or text: give a tensor as an input", "attribute")
    if name in ask(custom_ops.written_ops):
        return _convert_written(ctx, inputs, attributes)
    told = _ask_rule(ctx, inputs, attributes)
    wanted = [i for i in range(len(ctx.node.output)) if ctx.wants(i)]
    elements = [_read_declared(ctx, i) if told is None else _to_element(told[i]) for i in wanted]
    shapes = [_declared_shape(ctx, i) if told is None else told[i][0] for i in wanted]
    made = ctx.host(
        name,
        [t for t in inputs if t is not None],
        *elements,
        given=[t is not None for t in inputs],
        outputs=[[i, element.dtype, element.rank] for i, element in zip(wanted, elements, strict=True)],
        attributes=dict(attributes),
    )
    results: list[Tensor | None] = [None] * len(ctx.node.output)
    for i, tensor, shape in zip(wanted, made, shapes, strict=True):
        results[i] = tensor if isinstance(tensor, Object) else _fit_output(ctx, i, tensor, shape)
    return results


def _convert_written(
    ctx: Context, inputs: Sequence[Tensor | None], attributes: Mapping[str, object]
) -> list[Tensor | None]:
    """The ops of an operator that is written as tensor expressions."""
    operands = [None if t is None else _operand(t) for t in inputs]
    try:
        computation = ask(write_operator, name_of(ctx.node), operands, dict(attributes))
    except ModelError as error:
        ctx.invalid(str(error))
    given = [t.value for t in inputs if t is not None]
    outputs = computation.args[len(given) :]
    if computation.by_hand:
        kinds = [builders.ranked_type(each.shape, element_type(each.dtype)) for each in outputs]
        ctx.graph.entry.externals.append(computation.externals)
        call = ctx.graph.entry.call_operator(_operator_text(ctx, computation, len(given)), given, kinds)
        made = [extents.note(value, each.shape) for value, each in zip(call.results, outputs, strict=True)]
    else:
        made = emit_operator(computation, given)
    if len(made) < len(ctx.node.output):
        ctx.invalid(f"it has {len(ctx.node.output)} outputs, its operator computes {len(made)}")
    return [
        ctx.wrap(value, tensor.dtype) if ctx.wants(number) else None
        for number, (value, tensor) in enumerate(zip(made, outputs, strict=True))
    ][: len(ctx.node.output)]


def _operator_text(ctx: Context, computation: Computation, count: int) -> str:
    try:
        return operator_text(computation, count)
    except ExpressionError as error:
        ctx.invalid(f"its schedule cannot be lowered: {error}")


def _ask_rule(
    ctx: Context, inputs: Sequence[Tensor | None], attributes: Mapping[str, object]
) -> Sequence[custom_ops.Result] | None:
    """What the operator's rule says of all outputs; None where it has none."""
    operands = [None if t is None else _operand(t) for t in inputs]
    try:
        told = ask(custom_ops.infer_results, name_of(ctx.node), operands, dict(attributes))
    except ModelError as error:
        ctx.invalid(str(error))
    if told is not None and len(told) < len(ctx.node.output):
        ctx.invalid(f"it has {len(ctx.node.output)} outputs, the rule of its operator (infer) gives {len(told)}")
    return told


def _operand(tensor: Tensor) -> custom_ops.Operand:
    if isinstance(tensor, Object):
        rank = tensor.rank_ if tensor.dtype == TEXT else None
        return custom_ops.Operand(None if rank is None else (None,) * rank, tensor.dtype)
    known = tensor.known
    small = known is not None and known.size <= builders.MAX_CONSTANT
    return custom_ops.Operand(tensor.shape, tensor.dtype, np.array(known) if small else None)


def _to_element(result: custom_ops.Result) -> Element:
    shape, dtype = result
    return Element(dtype, len(shape))


def _read_declared(ctx: Context, index: int) -> Element:
    """The type that the file declares for an output."""
    output = ctx.node.output[index]
    type_ = ctx.graph.scope.declared.get(output)
    element = Element("") if type_ is None else element_of_type(type_)
    if not element.dtype or (element.rank is None and element.dtype not in OBJECTS):
        raise Unsupported(
            f"dtype and rank of output '{output}' are not known: {RULE}",
            "rule",
        )
    return element


def _declared_shape(ctx: Context, index: int) -> custom_ops.Shape:
    dims = ctx.graph.scope.declared[ctx.node.output[index]].tensor_type.shape.dim
    return tuple(d.dim_value if d.HasField("dim_value") else None for d in dims)


def _fit_output(ctx: Context, index: int, tensor: Tensor, shape: custom_ops.Shape) -> Tensor:
    """The result with the extents that are known; the program checks them when it runs."""
    wanted = [own if n is None else n for own, n in zip(tensor.shape, shape, strict=True)]
    said = ", ".join("any" if n is None else str(n) for n in shape)
    return ctx.fit_shape(
        tensor, wanted, f"output {index} of its operator has not the shape [{said}] that was said of it"
    )
