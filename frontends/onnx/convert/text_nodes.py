"""Nodes that move strings: kernels move their numbers, and the host finds the strings by these.

A tensor of strings is one of int64: its strings are counted from 1 on, over all such operands of a node, and 0 stands
for the empty string, as what operators fill with is 0. So each operator that moves elements moves strings.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import onnx

from ..state.context import Context
from ..state.refusals import Unsupported
from ..state.standins import TensorOrFailed
from ..values.attributes import ML_DOMAIN
from ..values.choices import Unranked
from ..values.objects import TEXT, Element, Object
from ..values.tensor import Tensor

# Whose results hold strings of their operands, and whose results depend on the shape of one alone.
_MOVING = frozenset((
    "CenterCropPad", "Compress", "Concat", "DepthToSpace", "Expand", "Flatten", "Gather", "GatherElements",
    "GatherND", "OneHot", "Pad", "Reshape", "ReverseSequence", "Scatter", "ScatterElements", "ScatterND", "Slice",
    "SpaceToDepth", "Split", "Squeeze", "TensorScatter", "Tile", "Transpose", "Trilu", "Unsqueeze", "Where",
))  # fmt: skip
_MEASURING = frozenset(("RandomNormalLike", "RandomUniformLike", "Shape", "Size"))


def moves_text(node: onnx.NodeProto, domain: str, inputs: Sequence[Tensor | None]) -> bool:
    """Return whether a node moves or measures strings, which are among its operands."""
    if not any(t is not None and t.dtype == TEXT for t in inputs):
        return False
    if domain == ML_DOMAIN:
        return node.op_type == "ArrayFeatureExtractor"
    return not domain and node.op_type in _MOVING | _MEASURING


def move_text(
    ctx: Context, inputs: Sequence[Tensor | None], convert: Callable[[list[Tensor | None]], Sequence[TensorOrFailed]]
) -> list[TensorOrFailed]:
    """The outputs of a node that ``moves_text``; ``convert`` gives those for numbers in the strings' place."""
    if any(a.name == "reduction" and a.s != b"none" for a in ctx.node.attribute):
        raise Unsupported("a reduction of strings")
    texts = [t for t in inputs if isinstance(t, Object)]
    numbers = iter(_number_texts(ctx, texts))
    made = convert([next(numbers) if isinstance(t, Object) else t for t in inputs])
    if ctx.node.op_type in _MEASURING:
        return list(made)
    return [_pick(ctx, t, texts) if isinstance(t, Tensor) else t for t in made]


def _number_texts(ctx: Context, texts: Sequence[Object]) -> Sequence[Tensor]:
    """The strings' numbers: constants where the import knows the strings."""
    if any(text.strings is None for text in texts):
        return ctx.host("number_text", texts, *(Element("int64", text.rank) for text in texts))
    known = [text.strings for text in texts if text.strings is not None]
    ends = np.cumsum([strings.size for strings in known])
    pairs = zip(known, ends, strict=True)
    return [ctx.const(np.arange(end - s.size + 1, end + 1).reshape(s.shape), "int64") for s, end in pairs]


def _pick(ctx: Context, numbers: Tensor, texts: Sequence[Object]) -> Tensor:
    """The strings of numbers."""
    if isinstance(numbers, Unranked):
        raise Unsupported("the rank of the strings that it moves is known only at run time")
    ctx.demand_size(numbers.shape, "int64")  # of pointers to strings, too
    result, known = Element(TEXT, numbers.rank), [text.strings for text in texts if text.strings is not None]
    if len(known) < len(texts):
        return ctx.host("pick_text", [numbers, *texts], result, items=None)[0]
    table = np.concatenate([np.array([""], object), *(strings.reshape(-1) for strings in known)])
    if numbers.known is not None:
        return ctx.graph.entry.add_text(np.asarray(table[numbers.known], dtype=object))
    return ctx.host("pick_text", [numbers], result, items=table[1:].tolist())[0]
