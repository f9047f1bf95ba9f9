"""Entries for ops that move elements, or make them."""

from __future__ import annotations

import math
from functools import partial
from typing import Any

import numpy as np
from fuzz.elementwise import Entry
from fuzz.graph import DTYPES, LARGEST, Graph, Rejected
from onnx import numpy_helper

from tilewright.core.model import numpy_dtype

ANY = DTYPES


def transpose(g: Graph) -> None:
    x = g.tensor(ANY)
    order = list(range(g.rank(x)))
    g.random.shuffle(order)
    g.node("Transpose", [x], perm=order if g.chance(0.9) and order else None)


def reshape(g: Graph) -> None:
    x = g.tensor(ANY)
    size, shape = math.prod(g.shape(x)), []
    left = size
    while left > 1 and len(shape) < 4:
        shape.append(g.one_of([n for n in range(1, left + 1) if left % n == 0]))
        left //= shape[-1]
    shape = [*shape, left] if left != 1 or g.chance(0.3) else shape
    if shape and size and g.chance(0.3):
        shape[g.integer(0, len(shape) - 1)] = -1
    g.node("Reshape", [x, g.known(np.array(shape, np.int64))], allowzero=1 if 0 in shape and g.opset >= 14 else None)


def flatten(g: Graph) -> None:
    x = g.tensor(g.allows("Flatten"))
    g.node("Flatten", [x], axis=g.integer(0, g.rank(x)))


def squeeze(g: Graph) -> None:
    x = g.tensor(ANY, where=lambda a: 1 in a.shape)
    axes = g.some([i for i, n in enumerate(g.shape(x)) if n == 1], 1)
    _with_axes(g, "Squeeze", x, axes)


def unsqueeze(g: Graph) -> None:
    x = g.tensor(ANY, (0, 4))
    _with_axes(g, "Unsqueeze", x, g.some(range(g.rank(x) + 1), 1)[: 5 - g.rank(x)])


def _with_axes(g: Graph, op: str, x: str, axes: list[int]) -> None:
    if g.has_attribute(op, "axes"):
        g.node(op, [x], axes=axes)
    else:
        g.node(op, [x, g.known(axes)])


def concat(g: Graph) -> None:
    x = g.tensor(ANY, (1, 5))
    axis, shape, names = g.axis(g.rank(x)), list(g.shape(x)), []
    for _ in range(g.integer(0, 3)):
        shape[axis] = g.integer(0 if g.chance(0.05) else 1, 6)
        names.append(g.like(x, shape) if g.chance(0.7) else x)
    names.insert(g.integer(0, len(names)), x)
    g.node("Concat", names, axis=axis)


def split(g: Graph) -> None:
    x = g.tensor(ANY, (1, 5), where=lambda a: max(a.shape, default=0) > 1)
    axis = g.one_of([i for i, n in enumerate(g.shape(x)) if n > 1])
    extent = g.shape(x)[axis]
    cuts = sorted(g.some(range(1, extent), 1)[:3])
    sizes = [b - a for a, b in zip([0, *cuts], [*cuts, extent], strict=True)]
    count = len(sizes)
    if g.opset >= 18 and g.chance(0.4):
        g.node("Split", [x], count, axis=axis, num_outputs=count)
    elif g.has_attribute("Split", "split"):
        g.node("Split", [x], count, axis=axis, split=sizes)
    else:
        g.node("Split", [x, g.known(sizes)], count, axis=axis)


def slice_(g: Graph) -> None:
    x = g.tensor(ANY, (1, 5))
    axes = g.axes(g.rank(x), 1)
    starts, ends, steps = [], [], []
    for axis in axes:
        n = g.shape(x)[axis]
        step = g.one_of([1, 1, 1, 2, 3, -1, -2]) if g.opset >= 10 else 1
        bounds = sorted(g.integer(0, max(n, 1)) for _ in range(2))
        start, end = bounds if step > 0 else (bounds[1] - 1, bounds[0] - 1)
        starts.append(start - n if g.chance(0.2) and 0 < start < n else start)
        ends.append(g.one_of([2**31 - 1, n + 3]) if step > 0 and g.chance(0.2) else -(2**31) if end < 0 else end)
        steps.append(step)
    if g.opset < 10:
        g.node("Slice", [x], axes=axes, starts=starts, ends=ends)
        return
    kind = g.one_of(["int64", "int32"])
    names = [g.known(numbers, kind) for numbers in (starts, ends, axes, steps)]
    g.node("Slice", [x, *names[: 4 if set(steps) != {1} else 3]])


def pad(g: Graph) -> None:
    x = g.tensor(g.allows("Pad"), (1, 5))
    mode = g.one_of(["constant", "constant", None, "edge", "reflect"] + (["wrap"] if g.opset >= 19 else []))
    most = [2 if mode in (None, "constant", "edge") else n - 1 for n in g.shape(x)] * 2
    pads = [g.integer(0, max(0, min(2, m))) if g.chance(0.6) else 0 for m in most]
    if mode in (None, "constant") and g.chance(0.2) and min(g.shape(x)) > 2:
        pads[g.integer(0, len(pads) - 1)] = -1
    if g.has_attribute("Pad", "pads"):
        g.node("Pad", [x], pads=pads, mode=mode, value=g.random.uniform(-2, 2))
        return
    value = g.fresh(g.dtype(x), ()) if mode in (None, "constant") and g.chance(0.6) else None
    g.node("Pad", [x, g.known(pads), value], mode=mode)


def tile(g: Graph) -> None:
    x = g.tensor(ANY, (1, 5))
    g.node("Tile", [x, g.known([g.one_of([1, 1, 2, 3, 0 if g.chance(0.1) else 1]) for _ in g.shape(x)])])


def expand(g: Graph) -> None:
    x = g.tensor(ANY, (0, 4))
    shape = [g.integer(1, 5) if n == 1 else g.one_of([1, n]) for n in g.shape(x)]
    shape = [g.integer(1, 4), *shape] if g.chance(0.4) else shape
    if math.prod(np.broadcast_shapes(tuple(shape), g.shape(x))) > LARGEST:
        raise Rejected
    g.node("Expand", [x, g.known(np.array(shape, np.int64))])


def range_(g: Graph) -> None:
    dtype = g.one_of(["int64", "int32", "float32"])
    start, step = g.integer(-5, 5), g.one_of([1, 2, -1, 3])
    numbers = (start, start + step * g.integer(0, 20), step)
    g.node("Range", [g.known(n, dtype) for n in numbers])


def constant_of_shape(g: Graph) -> None:
    value = np.array([g.integer(-3, 3)]).astype(numpy_dtype(g.one_of(["float32", "int64", "int32", "bool"])))
    shape = g.known(np.array(g.shape_of((0, 4)), np.int64))
    g.node("ConstantOfShape", [shape], value=numpy_helper.from_array(value) if g.chance(0.8) else None)


def shape(g: Graph) -> None:
    x = g.tensor(ANY)
    ends: dict[str, Any] = (
        {name: g.integer(-2, 3) for name in ("start", "end") if g.chance(0.4)} if g.opset >= 15 else {}
    )
    g.node("Shape", [x], **ends)


def size(g: Graph) -> None:
    g.node("Size", [g.tensor(ANY)])


def trilu(g: Graph) -> None:
    x = g.tensor(g.allows("Trilu"), (2, 4))
    g.node("Trilu", [x, g.known(g.integer(-3, 3)) if g.chance(0.6) else None], upper=g.integer(0, 1))


def eye_like(g: Graph) -> None:
    x = g.tensor(g.allows("EyeLike"), 2)
    g.node("EyeLike", [x], k=g.integer(-2, 2), dtype=g.one_of([None, 1, 7]))


def blocks(op: str, g: Graph) -> None:
    b, more = g.integer(1, 3), g.one_of([None, "DCR", "CRD"]) if op == "DepthToSpace" and g.opset >= 11 else None
    n, c, h, w = (g.integer(1, 3) for _ in range(4))
    full = (n, c * b * b, h, w) if op == "DepthToSpace" else (n, c, h * b, w * b)
    dtype = g.one_of(["float32", "float32", "int32", "float64", "uint8"])
    g.node(op, [g.fresh(dtype, full)], blocksize=b, mode=more)


def reverse_sequence(g: Graph) -> None:
    x = g.tensor(g.allows("ReverseSequence"), (2, 4), where=lambda a: a.size > 0)
    time = g.integer(0, 1)
    steps, batch = g.shape(x)[time], g.shape(x)[1 - time]
    lengths = g.leaf(np.array([g.integer(1, steps) for _ in range(batch)], np.int64))
    g.node("ReverseSequence", [x, lengths], time_axis=time, batch_axis=1 - time)


def crop_pad(g: Graph) -> None:
    x = g.tensor(ANY, (1, 4), where=lambda a: a.size > 0)
    axes = g.axes(g.rank(x), 1)
    g.node("CenterCropPad", [x, g.known([g.integer(1, 8) for _ in axes])], axes=axes)


ENTRIES: dict[str, Entry] = {
    **{op: partial(blocks, op) for op in ("DepthToSpace", "SpaceToDepth")},
    "CenterCropPad": crop_pad,
    "Concat": concat,
    "ConstantOfShape": constant_of_shape,
    "Expand": expand,
    "EyeLike": eye_like,
    "Flatten": flatten,
    "Pad": pad,
    "Range": range_,
    "Reshape": reshape,
    "ReverseSequence": reverse_sequence,
    "Shape": shape,
    "Size": size,
    "Slice": slice_,
    "Split": split,
    "Squeeze": squeeze,
    "Tile": tile,
    "Transpose": transpose,
    "Trilu": trilu,
    "Unsqueeze": unsqueeze,
}
