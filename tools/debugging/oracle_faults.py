"""Where an oracle is known to be wrong: there it is not asked. Each fault is as narrow as is known, with its reason."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from onnx import GraphProto, NodeProto

Feeds = Mapping[str, Any]  # a node's inputs by name, those that are known


@dataclass(frozen=True)
class Fault:
    """``who`` is wrong about ``op`` where ``when`` holds, for a reason."""

    who: str
    op: str
    when: Callable[[NodeProto, Feeds], bool]
    reason: str


def find_fault(who: str, node: NodeProto, feeds: Feeds) -> str:
    """Why an oracle is not to be asked about a node on these inputs; empty where it is."""
    inner = [n for graph in nested_graphs(node) for n in graph.node]
    for known in FAULTS:
        if (known.who, known.op) == (who, node.op_type) and known.when(node, feeds):
            return known.reason
    return next(filter(None, (find_fault(who, n, {}) for n in inner)), "")


def nested_graphs(node: NodeProto) -> Iterator[GraphProto]:
    """The graphs in a node's attributes."""
    for attribute in node.attribute:
        yield from [attribute.g] if attribute.HasField("g") else attribute.graphs


def _shape(node: NodeProto, feeds: Feeds, index: int = 0) -> tuple[int, ...]:
    """The shape of an input; () where it is not known, as in a nested graph."""
    value = feeds.get(node.input[index])
    return getattr(value, "shape", ())


def _infer_unpool_shape(node: NodeProto, feeds: Feeds) -> list[int]:
    """The shape of a MaxUnpool's result where none is given."""
    batch, channels, *spatial = _shape(node, feeds)
    given = {a.name: list(a.ints) for a in node.attribute}
    strides, pads = given.get("strides", [1] * len(spatial)), given.get("pads", [0] * 2 * len(spatial))
    cut = [a + b for a, b in zip(pads, pads[len(spatial) :], strict=False)]
    sides = zip(spatial, strides, given["kernel_shape"], cut, strict=True)
    return [batch, channels, *((n - 1) * stride + k - less for n, stride, k, less in sides)]


def _ignored_by_layers(node: NodeProto, feeds: Feeds) -> bool:
    """Return whether a recurrent layer has what the reference does not read."""
    names = {a.name for a in node.attribute}
    ignored = {"clip", "input_forget", *(["activations"] if node.op_type != "RNN" else [])}
    return bool(names & ignored) or (len(node.input) > 4 and node.input[4] != "")


def _has_no_steps(node: NodeProto, feeds: Feeds) -> bool:
    """Return whether a recurrent layer has a sequence of no elements."""
    lengths = feeds.get(node.input[4]) if len(node.input) > 4 else None
    return 0 in _shape(node, feeds) or (lengths is not None and not np.all(lengths))


def _underflows(node: NodeProto, feeds: Feeds) -> bool:
    """Return whether numbers lie so far apart that the exponential of their distance is no normal number."""
    values = [np.asarray(a, np.float64) for a in feeds.values() if a.size]
    return not all(np.ptp(a) < 80 for a in values)


def _off_swallows_on(node: NodeProto, feeds: Feeds) -> bool:
    """Return whether adding the difference of two values, or 0, to the second one misses the expected value."""
    values = feeds.get(node.input[2])
    if values is None or not values.dtype.name.startswith(("float", "bfloat")):
        return False
    with np.errstate(all="ignore"):
        off, on = values
        return bool(off + (on - off) != on or not np.isfinite(on - off))


def _squares_overflow(node: NodeProto, feeds: Feeds) -> bool:
    """Return whether there are int32 numbers whose squares do not add up to one."""
    data = feeds.get(node.input[0])
    return data is not None and data.dtype == np.int32 and bool((data.astype(np.float64) ** 2).sum() >= 2.0**31)


def _splits_nothing(node: NodeProto, feeds: Feeds) -> bool:
    """Return whether an empty string is split by a delimiter."""
    texts, delimited = feeds.get(node.input[0]), any(a.name == "delimiter" and a.s for a in node.attribute)
    return texts is not None and delimited and bool((texts == "").any())


def _strides_same(node: NodeProto, feeds: Feeds) -> bool:
    """Return whether a window whose padding keeps the extent goes in steps of more than one element."""
    given = {a.name: a for a in node.attribute}
    same = "auto_pad" in given and given["auto_pad"].s.startswith(b"SAME")
    return same and "strides" in given and max(given["strides"].ints, default=1) > 1


def _cuts_extrapolation(node: NodeProto, feeds: Feeds) -> bool:
    """Return whether integers are resized to values with a fraction."""
    data = feeds.get(node.input[0])
    fraction = any(a.name == "extrapolation_value" and not a.f.is_integer() for a in node.attribute)
    return data is not None and data.dtype.kind in "iu" and fraction


def _is_minus_infinity(node: NodeProto, feeds: Feeds) -> bool:
    """Return whether a number is -inf."""
    data = feeds.get(node.input[0])
    return data is not None and bool((data == -np.inf).any())


def _averages_nothing(node: NodeProto, feeds: Feeds) -> bool:
    """Return whether integers are averaged of which there may be none."""
    data = feeds.get(node.input[0])
    return data is not None and data.dtype.kind in "iu" and 0 in data.shape


def _sums_large_integers(node: NodeProto, feeds: Feeds) -> bool:
    """Return whether there are integers that no float64 holds, or whose sum none does."""
    data = feeds.get(node.input[0])
    return data is not None and data.dtype.kind in "iu" and bool(np.abs(data.astype(np.float64)).sum() >= 2.0**53)


def _joins_misfits(node: NodeProto, feeds: Feeds) -> bool:
    """Return whether a sequence mixes empty tensors with others whose extents differ besides the axis."""
    parts = [np.asarray(part) for part in feeds.get(node.input[0], [])]
    [axis] = [a.i for a in node.attribute if a.name == "axis"]
    rests = {tuple(n for i, n in enumerate(a.shape) if i != axis % a.ndim) for a in parts if a.ndim}
    return any(not a.size for a in parts) and len(rests) > 1


def _stacks_nothing(node: NodeProto, feeds: Feeds) -> bool:
    """Return whether a Loop of no iterations has scan outputs whose shapes its body does not tell."""
    body, (count, condition) = next(nested_graphs(node)), (feeds.get(name) for name in node.input[:2])
    stacked = body.output[len(body.input) - 1 :]
    runs = (count is None or int(count) > 0) and (condition is None or bool(condition))
    return not runs and not all(output.type.tensor_type.HasField("shape") for output in stacked)


def _stacks(node: NodeProto) -> bool:
    """Return whether a Loop has scan outputs."""
    body = next(nested_graphs(node))
    return len(body.output) + 1 > len(body.input)


FAULTS = (
    Fault(
        "reference",
        "MaxPool",
        lambda node, feeds: len(node.output) > 1 and math.prod(_shape(node, feeds)[:2]) > 1,
        "its indices are those in one channel, the op's in the whole tensor",
    ),
    Fault(
        "reference",
        "MaxPool",
        lambda node, feeds: (
            len(_shape(node, feeds)) == 3 and any(a.name == "pads" and any(a.ints) for a in node.attribute)
        ),
        "it makes no room for the padding of one axis",
    ),
    Fault(
        "onnxruntime",
        "MaxUnpool",
        lambda node, feeds: (
            len(node.input) > 2 and not np.array_equal(feeds[node.input[2]], _infer_unpool_shape(node, feeds))
        ),
        "its indices are in the shape that is given; in ONNX's data they are in the one that the window makes",
    ),
    Fault(
        "reference",
        "AveragePool",
        lambda node, feeds: any(a.name == "ceil_mode" and a.i for a in node.attribute),
        "it moves the windows where ceil_mode adds one",
    ),
    *(
        Fault(
            "onnxruntime",
            f"Reduce{name}",
            lambda node, feeds: 0 in _shape(node, feeds),
            "it leaves some axes of a tensor without elements as they are",
        )
        for name in ("L1", "L2", "LogSum", "LogSumExp", "Max", "Mean", "Min", "Prod", "Sum", "SumSquare")
    ),
    *(
        Fault(who, op, _sums_large_integers, f"it computes the {what} in floats")
        for who in ("onnxruntime", "reference")
        for op, what in (("ReduceMean", "mean"), ("Resize", "image"))
    ),
    *(Fault(who, "Normalizer", _squares_overflow, "its squares wrap around") for who in ("onnxruntime", "reference")),
    Fault("reference", "MaxPool", _strides_same, "it makes a result less than the extent over the stride, rounded up"),
    Fault("reference", "Resize", _cuts_extrapolation, "it rounds the number, which onnxruntime cuts off"),
    Fault("onnxruntime", "StringSplit", _splits_nothing, "of an empty text it makes no parts, not an empty one"),
    *(
        Fault(who, "Gelu", _is_minus_infinity, "it multiplies -inf by 0; the limit is 0")
        for who in ("onnxruntime", "reference")
    ),
    Fault("reference", "OneHot", _off_swallows_on, "it adds the difference of on and off to off"),
    *(
        Fault(who, "ReduceMean", _averages_nothing, "a mean of no integers is a division by zero")
        for who in ("onnxruntime", "reference")
    ),
    Fault(
        "reference",
        "GlobalMaxPool",
        lambda node, feeds: len(_shape(node, feeds)) != 4,
        "it reduces two axes, whatever the rank",
    ),
    Fault(
        "reference",
        "Unique",
        lambda node, feeds: any(a.name == "sorted" and not a.i for a in node.attribute),
        "it sorts",
    ),
    Fault(
        "reference",
        "Normalizer",
        lambda node, feeds: any(a.s == b"MAX" for a in node.attribute) or not node.attribute,
        "it divides by the greatest magnitude, the op by the greatest number",
    ),
    *(
        Fault(
            "reference", op, _ignored_by_layers, "it reads neither clip, lengths of sequences nor activations of gates"
        )
        for op in ("RNN", "GRU", "LSTM")
    ),
    *(
        Fault("onnxruntime", op, _has_no_steps, "its last states of what has no steps are zeros or not written at all")
        for op in ("RNN", "GRU", "LSTM")
    ),
    Fault("onnxruntime", "Bernoulli", lambda node, feeds: True, "it draws 1 where it should draw 0"),
    *(
        Fault("reference", op, _underflows, "it takes the logarithm of a softmax, which may be 0")
        for op in ("LogSoftmax", "SoftmaxCrossEntropyLoss")
    ),
    Fault(
        "onnxruntime", "QLinearSoftmax", lambda node, feeds: _shape(node, feeds)[-1:] == (1,), "of one class it gives 0"
    ),
    *(
        Fault(
            who,
            "ReduceLogSumExp",
            lambda node, feeds: any(a.dtype.kind in "iu" for a in list(feeds.values())[:1]),
            "it cuts off what was rounded: log(exp(8)) is 7",
        )
        for who in ("onnxruntime", "reference")
    ),
    Fault("reference", "StringNormalizer", lambda node, feeds: True, "it looks for stop words inside of strings"),
    Fault("onnxruntime", "ConcatFromSequence", _joins_misfits, "it does not look at the shapes of empty parts"),
    Fault("onnxruntime", "Loop", _stacks_nothing, "results of no iterations have no more axes than it knows"),
    Fault("reference", "Loop", lambda node, feeds: not node.input[1], "without a condition it does not iterate"),
    Fault("reference", "Loop", lambda node, feeds: _stacks(node), "it appends the iterations' results without an axis"),
)
