"""Tensors whose rank only the run knows: what branches of different ranks, or a loop, make."""

from __future__ import annotations

from collections.abc import Sequence

from onnx import NodeProto

from .context import Unsupported
from .standins import Value
from .tensor import Tensor

# Ops that broadcast their inputs, so that leading axes of extent 1 make no difference where another input has them.
_BROADCASTING = {"Add", "And", "BitShift", "BitwiseAnd", "BitwiseOr", "BitwiseXor", "Div", "Equal", "Greater"}
_BROADCASTING |= {"GreaterOrEqual", "Less", "LessOrEqual", "Max", "Mean", "Min", "Mod", "Mul", "Or", "Pow", "Sub"}
_BROADCASTING |= {"Sum", "Where", "Xor"}
# Inputs of which only the elements or the dtype count.
_SHAPELESS = {("Reshape", 0), ("Size", 0), ("CastLike", 1), ("Identity", 0), ("If", 0)}


class AnyRank(Tensor):
    """A tensor of which only the run knows how many of its first axes are there: ``least`` are sure.

    Its shape, and its value, have all of them; those that are not sure have extent 1.
    """

    __slots__ = ("least",)

    least: int


def least_rank(tensor: Tensor) -> int:
    """The number of axes that a tensor has for sure."""
    return tensor.least if isinstance(tensor, AnyRank) else tensor.rank


def refuse_rank(node: NodeProto, inputs: Sequence[Value | None]) -> None:
    """Raise Unsupported where a node's result depends on a rank that only the run knows."""
    tensors = [t for t in inputs if isinstance(t, Tensor)]
    sure = max(map(least_rank, tensors), default=0)
    broadcasts = node.op_type in _BROADCASTING and all(t.rank <= sure for t in tensors)
    for i, tensor in enumerate(inputs):
        if isinstance(tensor, AnyRank) and not broadcasts and not _is_shapeless(node, i):
            raise Unsupported(f"the rank of input '{node.input[i]}' is known only at run time")


def _is_shapeless(node: NodeProto, i: int) -> bool:
    """Whether an input's leading axes of extent 1 make no difference to a node."""
    all_axes = node.op_type == "Squeeze" and len(node.input) == 1 and not node.attribute
    return all_axes or (node.op_type, i) in _SHAPELESS
