"""How far from another a right result of one node may lie: noise of that size."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from onnx import NodeProto

# Relative errors that a right result of one node may have. Twice the rounding of a narrow type: we compute in float32
# where others round between; of a wide one some units in the last place, as exp and its like are approximated.
_NOISE = {"float64": 2.0**-46, "float32": 2.0**-20, "float16": 2.0**-9, "bfloat16": 2.0**-6}
# What these give is chosen or moved, not computed.
EXACT = {
    *("Abs", "ArgMax", "ArgMin", "BitCast", "Cast", "CastLike", "Ceil", "CenterCropPad", "Clip", "Compress", "Concat"),
    *("Constant", "ConstantOfShape", "DepthToSpace", "Dropout", "Expand", "EyeLike", "Flatten", "Floor", "Gather"),
    *("GatherElements", "GatherND", "GlobalMaxPool", "Hardmax", "Identity", "If", "Max", "MaxPool", "MaxUnpool", "Min"),
    *("Neg", "OneHot", "Pad", "ReduceMax", "ReduceMin", "Relu", "Reshape", "ReverseSequence", "Round", "Sign", "Slice"),
    *("SpaceToDepth", "Split", "Squeeze", "ThresholdedRelu", "Tile", "TopK", "Transpose", "Trilu", "Unique"),
    *("Unsqueeze", "Where"),
}
# Of these every element counts alone: noise of the result is noise enough. All else adds, so its terms have noise too.
_ELEMENTWISE = {
    *("Acos", "Acosh", "Add", "Asin", "Asinh", "Atan", "Atanh", "Celu", "Cos", "Cosh", "Div", "Elu", "Erf", "Exp"),
    *("HardSigmoid", "HardSwish", "LeakyRelu", "Log", "Mish", "Mod", "Mul", "PRelu", "Pow", "Range"),
    *("Reciprocal", "Scatter", "ScatterElements", "ScatterND", "Selu", "Shrink", "Sigmoid", "Sin", "Sinh", "Softplus"),
    *("Softsign", "Sqrt", "Sub", "Swish", "Tan", "Tanh"),
}
# Of these an oracle computes in float32 whatever the dtype, as the op's definition or an attribute has it.
_SINGLE = {
    *("AffineGrid", "Attention", "BlackmanWindow", "DFT", "DeformConv", "Erf", "Gelu", "GridSample"),
    *("GroupNormalization", "HammingWindow", "HannWindow", "HardSwish", "LayerNormalization", "RMSNormalization"),
    *("STFT", "Shrink"),
}
# Of these errors are as large in small results as in large ones, and so many times those of the type: onnxruntime
# approximates a layer's activations and the powers of an LRN, sums of cosines cancel, and so do those of a cubic
# Resize, whose weights are rounded. What is put on a grid of 8 bits at each step may go to the next place of it.
_ROUGH = {"BlackmanWindow": 1, "DFT": 4, "GRU": 4, "HammingWindow": 1, "HannWindow": 1, "LSTM": 4, "RNN": 4, "STFT": 4}
_ROUGH |= {"DynamicQuantizeLSTM": 1 << 12, "LRN": 16}
# An attention rounds each score for itself, which the noise of its inputs, common to many scores, does not show.
_ROUGH |= dict.fromkeys(("Attention", "GroupQueryAttention", "MultiHeadAttention"), 2.0**-3)
_TINY = 2.0**-20  # results that are smaller may all be 0 for onnxruntime
# The greatest result counts as at least so much: the activations that onnxruntime's layers multiply are wrong by as
# much beside 0 as beside 1.
_GREATEST = {"GRU": 0.25, "LSTM": 0.25, "RNN": 0.25}
_HUGE = 2.0**100  # sums of such terms overflow in one order, or scaled late, and not in another, or scaled early
# Of these onnxruntime computes a factor between 0 and 1 from such numbers, in float32: it is 0 where it should be tiny.
_GATED = {"BiasGelu", "FastGelu", "Gelu", "QuickGelu", "Swish"}


class Noise:
    """Errors of one size up or down; those of 2 i and 2 i + 1 are opposite: each limit is met from both sides."""

    def __init__(self, number: int) -> None:
        self._random = np.random.default_rng(number // 2)
        self._side = 1 - 2 * (number % 2)
        self._first = number // 2 % 2 == 0
        self.lost = -np.inf if self._first else np.inf  # what may be in place of NaN

    @property
    def flushes(self) -> bool:
        """Return whether denormals are zeros: all of them, or none."""
        return self._side < 0

    @property
    def clears(self) -> bool:
        """Return whether numbers within the error are zeros; in others of the kind they have either sign."""
        return self._side < 0 and self._first

    def signs(self, shape: tuple[int, ...]) -> np.ndarray:
        """1 or -1 for each element."""
        return self._side * self._random.choice((-1, 1), shape)


def shaken_operands(node: NodeProto, feeds: Mapping[str, Any], noise: Noise) -> dict[str, Any]:
    """A node's inputs by name, those with noise whose rounding shows in more than one element of a result."""
    if node.op_type in EXACT or node.op_type in _ELEMENTWISE:
        return dict(feeds)
    data = _data(node) if node.op_type == "Resize" else feeds
    return {name: _perturb(node, v, noise) if name in data else v for name, v in feeds.items()}


def shaken_results(node: NodeProto, feeds: Mapping[str, Any], results: list[Any], noise: Noise) -> list[Any]:
    """A node's results for these inputs, with noise unless the node is exact."""
    if node.op_type in EXACT:
        return results
    gated = _find_gated_operand(node, feeds)
    shaken = [_perturb(node, value, noise, gated) for value in results]
    if noise.flushes and _multiplies_beyond(node, feeds):
        shaken = [np.where(value == 0, np.array(np.nan, value.dtype), value) for value in shaken]
    return [_saturate(value, noise) for value in shaken] if noise.flushes and _may_overflow(node, feeds) else shaken


def _may_overflow(node: NodeProto, feeds: Mapping[str, Any]) -> bool:
    """Return whether a sum's terms, which are finite, may be so large that it is infinite in between."""
    floats = [a.astype(np.float64) for a in feeds.values() if getattr(a, "dtype", np.dtype(bool)).name in _NOISE]
    return node.op_type not in _ELEMENTWISE and any((np.isfinite(a) & (np.abs(a) > _HUGE)).any() for a in floats)


def _multiplies_beyond(node: NodeProto, feeds: Mapping[str, Any]) -> bool:
    """Return whether zeros are multiplied by numbers whose product is infinite: computed first, it yields NaN."""
    data = feeds.get(node.input[0]) if node.op_type == "ReduceProd" else None
    if not isinstance(data, np.ndarray) or data.dtype.name not in _NOISE:
        return False
    with np.errstate(all="ignore"):
        return bool((data == 0).any() and np.log2(np.abs(data[data != 0].astype(np.float64))).clip(0).sum() > 100)


def _saturate(value: Any, noise: Noise) -> Any:
    """The value with great finite numbers in place of infinities, and infinities in place of NaN."""
    if not isinstance(value, np.ndarray) or value.dtype.name not in _NOISE:
        return value
    most = np.finfo(np.float64 if value.dtype.itemsize > 4 else np.float32).max / 2
    exact = value.astype(np.float64)
    return np.where(np.isnan(exact), noise.lost, np.clip(exact, -most, most)).astype(value.dtype)


def _data(resize: NodeProto) -> list[str]:
    """A Resize's operands that are computed with: the image and, before the sizes, the region."""
    return list(resize.input[: 2 if len(resize.input) > 2 else 1])


def _find_gated_operand(node: NodeProto, feeds: Mapping[str, Any]) -> Any:
    """The operand of a factor whose error is of float32's size even if the factor is tiny; 0 without one."""
    if node.op_type in _GATED:
        with np.errstate(all="ignore"):
            return sum(np.abs(a.astype(np.float64)) for a in feeds.values())
    if node.op_type == "Softmax":  # what is 0 may be a normal number for who takes its logarithm before it underflows
        return 2.0**-126 / _NOISE["float32"]
    sigmoid = any(a.name == "activation" and a.s == b"Sigmoid" for a in node.attribute)
    return float(sigmoid or node.op_type == "Sigmoid")


def _perturb(node: NodeProto, value: Any, noise: Noise, gated: Any = 0.0) -> Any:
    """The value with an error of its type's size in each element, or float32's; a denormal may also be zero.

    Errors are relative to the element, or to ``gated`` if that is more, or several times as large to the greatest.
    """
    if not isinstance(value, np.ndarray) or value.dtype.name not in _NOISE or not value.size:
        return value
    cubic = node.op_type == "Resize" and any(a.s == b"cubic" for a in node.attribute)
    signs, rough = noise.signs(value.shape), _ROUGH.get(node.op_type, int(cubic))
    size = max(_NOISE[value.dtype.name], _NOISE["float32"] if cubic or node.op_type in _SINGLE else 0)
    with np.errstate(all="ignore"):
        exact = value.astype(np.float64)
        if rough:
            error = rough * size * max(np.max(np.abs(exact)), _GREATEST.get(node.op_type, _TINY))
        else:
            least = gated * min(size, _NOISE["float32"])
            error = np.where(size * np.abs(exact) < least, least, size * exact)
        shaken = np.where(np.isfinite(exact), exact + signs * error, exact)
        smallest = 2.0**-126 if node.op_type == "Softmax" else np.where(gated, 0, 2.0**-126)
        smallest = np.maximum(smallest, error) if rough else smallest
        shaken = shaken.astype(value.dtype)
        shaken = np.where(np.isfinite(exact) & ~np.isfinite(shaken.astype(np.float64)), value, shaken)
    return np.where(
        (np.abs(exact) < smallest) & (noise.clears if rough else noise.flushes), np.zeros((), value.dtype), shaken
    )
