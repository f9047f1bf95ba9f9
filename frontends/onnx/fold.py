"""Evaluate nodes on known values while importing: shape arithmetic, and whatever else depends on constants alone."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence

import numpy as np
import onnx
from onnx import helper
from onnx.reference import ReferenceEvaluator

from ...model import numpy_dtype
from .tensor import Tensor

FOLD_LIMIT = 1 << 16  # elements of all inputs together

# Their results may be much larger than their inputs: the converters make splats, views or params of them.
_GROWING = {"ConstantOfShape", "Expand", "Tile", "Range", "EyeLike", "OneHot", "Resize", "Upsample", "Pad"}
_RANDOM = {"RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike", "Bernoulli", "Multinomial"}
_NOT_FOLDED = _GROWING | _RANDOM | {"Dropout"}


def fold(node: onnx.NodeProto, inputs: Sequence[Tensor | None], opset: int) -> list[np.ndarray] | None:
    """The node's outputs where all its inputs are known and onnx's reference evaluates it, else None."""
    if node.domain not in ("", "ai.onnx") or node.op_type in _NOT_FOLDED or not any(inputs):
        return None
    if opset < 7 and any(a.name == "broadcast" for a in node.attribute):  # which the reference does not look at
        return None
    if any(t is not None and (t.known is None or not _native(t.dtype)) for t in inputs):
        return None
    if sum(t.size for t in inputs if t is not None) > FOLD_LIMIT or any(a.HasField("g") for a in node.attribute):
        return None
    feeds = {name: t.known for name, t in zip(node.input, inputs, strict=True) if t is not None and t.known is not None}
    return _evaluate(node, feeds, opset)


def _evaluate(node: onnx.NodeProto, feeds: Mapping[str, np.ndarray], opset: int) -> list[np.ndarray] | None:
    outputs = [name for name in node.output if name]
    function = helper.make_function(
        "tilewright", "fold", list(feeds), outputs, [node], [helper.make_opsetid("", opset)], []
    )
    try:
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            made = ReferenceEvaluator(function).run(None, dict(feeds), attributes={})
    except Exception:  # the reference lacks ops and versions and says so in many ways; the converter is asked next
        return None
    results = iter([np.asarray(a) if isinstance(a, np.ndarray | np.generic) else None for a in made])
    arrays = [next(results) if name else np.empty(0) for name in node.output]
    if any(a is None or not _native(a.dtype.name) for a in arrays):
        return None
    return [a for a in arrays if a is not None]


def _native(dtype: str) -> bool:
    try:
        return numpy_dtype(dtype).kind in "biuf" and dtype not in ("int4", "uint4")
    except TypeError:
        return False
