"""Evaluate nodes on known values while importing: shape arithmetic, and whatever else depends on constants alone."""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping, Sequence

import numpy as np
import onnx
from onnx import helper

from ....core.model import NARROW, numpy_dtype
from ..values.tensor import Tensor

FOLD_LIMIT = 1 << 16  # elements of all inputs together
RESULT_LIMIT = 1 << 22  # elements of what inputs broadcast to, and of a window

# What the reference does as the standard has it, in all versions and types: arithmetic on shapes and the like, what
# gives shapes that only values tell, and windows. Of the rest it has no old versions (Softmax), computes in float32
# (Erf), gives other shapes (GlobalMaxPool), takes along another axis (Unique), divides in float64 (QuantizeLinear) or
# takes the logarithm of what has become 0 (SoftmaxCrossEntropyLoss). What makes much of little (Expand) stays a view.
_TRUSTED = {
    *("Abs", "Add", "And", "ArgMax", "ArgMin", "BitShift", "BitwiseAnd", "BitwiseNot", "BitwiseOr", "BitwiseXor"),
    *("BlackmanWindow", "Cast", "CastLike", "Ceil", "Clip", "Compress", "Concat", "Constant", "CumSum", "Div"),
    *("Equal", "Exp", "Flatten", "Floor", "Gather", "GatherElements", "GatherND", "Greater", "GreaterOrEqual"),
    *("HammingWindow", "HannWindow", "Identity", "Less", "LessOrEqual", "Log", "MatMul", "Max", "Min", "Mod", "Mul"),
    *("Neg", "NonZero", "Not", "Or", "Pow", "Reciprocal", "ReduceMax", "ReduceMin", "ReduceProd", "ReduceSum"),
    *("Relu", "Reshape", "Round", "ScatterElements", "ScatterND", "Shape", "Sign", "Size", "Slice", "Split", "Sqrt"),
    *("Squeeze", "Sub", "Sum", "TopK", "Transpose", "Trilu", "Unsqueeze", "Where", "Xor"),
}


def fold(node: onnx.NodeProto, inputs: Sequence[Tensor | None], opset: int) -> list[np.ndarray] | None:
    """The node's outputs where all its inputs are known and onnx's reference evaluates it rightly, else None."""
    if node.domain not in ("", "ai.onnx") or node.op_type not in _TRUSTED or not any(inputs):
        return None
    if any(a.name == "axes" and node.op_type == "Unsqueeze" and list(a.ints) != sorted(a.ints) for a in node.attribute):
        return None  # the reference puts them in one by one, in the order given
    if opset < 7 and any(a.name == "broadcast" for a in node.attribute):  # which the reference does not look at
        return None
    if any(t is not None and (t.known is None or not _native(t.dtype)) for t in inputs):
        return None
    if sum(t.size for t in inputs if t is not None) > FOLD_LIMIT or any(a.HasField("g") for a in node.attribute):
        return None
    if _elements(node, [t.known for t in inputs if t is not None and t.known is not None]) > RESULT_LIMIT:
        return None
    feeds = {name: t.known for name, t in zip(node.input, inputs, strict=True) if t is not None and t.known is not None}
    return _evaluate(node, feeds, opset)


def _evaluate(node: onnx.NodeProto, feeds: Mapping[str, np.ndarray], opset: int) -> list[np.ndarray] | None:
    outputs = [name for name in node.output if name]
    function = helper.make_function(
        "tilewright", "fold", list(feeds), outputs, [node], [helper.make_opsetid("", opset)], []
    )
    from onnx.reference import ReferenceEvaluator  # 18 ms, and few models have nodes to fold

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


def _elements(node: onnx.NodeProto, known: Sequence[np.ndarray]) -> int:
    """How many elements an elementwise op on these arrays has, or the window of this size."""
    if node.op_type.endswith("Window"):
        return int(known[0].max(initial=0))
    try:
        return math.prod(np.broadcast_shapes(*(array.shape for array in known)))
    except ValueError:  # it is no elementwise op
        return 0


def _native(dtype: str) -> bool:
    try:
        return numpy_dtype(dtype).kind in "biuf" and dtype not in NARROW
    except TypeError:
        return False
