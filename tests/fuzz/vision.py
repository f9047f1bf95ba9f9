"""Entries for ops on images: sampling at computed places, regions, boxes, patches."""

from __future__ import annotations

from typing import Any

import numpy as np
from fuzz.elementwise import Entry
from fuzz.graph import Graph, Rejected
from fuzz.values import finite

from tilewright.tools.debugging.oracle_difference import has_float_elements


def _image(g: Graph, op: str, rank: int | tuple[int, int] = 4, most: int = 400) -> str:
    """A small tensor of batch, channels and spatial axes, of ordinary numbers."""
    return g.tensor(g.allows(op), rank, where=lambda a: 0 < a.size <= most and finite(a), style="ordinary")


def affine_grid(g: Graph) -> None:
    corners = g.one_of([None, 0, 1])
    spatial = [g.integer(2 if corners else 1, 6) for _ in range(g.integer(2, 3))]  # where is the corner of one element?
    batch, rank = g.integer(1, 3), len(spatial)
    theta = g.fresh(g.one_of(g.allows("AffineGrid")), (batch, rank, rank + 1), "ordinary")
    g.node("AffineGrid", [theta, g.known([batch, g.integer(1, 3), *spatial])], align_corners=corners)


def grid_sample(g: Graph) -> None:
    modern = g.opset >= 20
    x = _image(g, "GridSample", (4, 5) if modern else 4)
    rank = g.rank(x) - 2
    places = [g.integer(1, 5) for _ in range(rank)]
    random = np.random.default_rng(g.random.getrandbits(64))
    where = random.uniform(-1.3, 1.3, (g.shape(x)[0], *places, rank)).astype(np.float32)
    grid = where if g.dtype(x) not in ("float64", "float16") else where.astype(g.dtype(x))
    modes = ["linear", "nearest", "cubic"] if modern else ["bilinear", "nearest", "bicubic"]
    mode = g.one_of([None, *(modes[:2] if rank == 3 else modes)]) if has_float_elements(g.values[x]) else "nearest"
    padding = g.one_of([None, "zeros", "border", "reflection"])
    g.node("GridSample", [x, g.leaf(grid)], mode=mode, padding_mode=padding, align_corners=g.one_of([None, 0, 1]))


def col2im(g: Graph) -> None:
    rank = g.integer(1, 3)
    block = [g.integer(1, 3) for _ in range(rank)]
    given: dict[str, Any] = {}
    if g.chance(0.4):
        given["dilations"] = [g.integer(1, 2) for _ in block]
    if g.chance(0.4):
        given["strides"] = [g.integer(1, 3) for _ in block]
    if g.chance(0.4):
        given["pads"] = [g.integer(0, 1) for _ in block * 2]
    ones = [1] * rank
    dilations, strides, pads = (
        given.get("dilations", ones),
        given.get("strides", ones),
        given.get("pads", ones * 0 or [0] * 2 * rank),
    )
    counts = [g.integer(1, 4) for _ in block]
    # The least image that has so many blocks, and perhaps a rest.
    image = [
        (count - 1) * stride + (k - 1) * dilation + 1 - pads[i] - pads[i + rank] + g.integer(0, stride - 1)
        for i, (count, stride, k, dilation) in enumerate(zip(counts, strides, block, dilations, strict=True))
    ]
    if min(image) < 1:
        raise Rejected
    shape = (g.integer(1, 2), g.integer(1, 3) * int(np.prod(block)), int(np.prod(counts)))
    dtype = g.one_of([d for d in ("float32", "float32", "float64", "float16", "int32") if d in g.allows("Col2Im")])
    g.node("Col2Im", [g.fresh(dtype, shape, "ordinary"), g.known(image), g.known(block)], **given)


def deform_conv(g: Graph) -> None:
    dtype = g.one_of(["float32", "float32", "float64"])
    group, offsets = g.integer(1, 2), g.integer(1, 2)
    channels = group * offsets * g.integer(1, 2)
    height, width = g.integer(3, 7), g.integer(3, 7)
    kernel, strides = [g.integer(1, 3), g.integer(1, 3)], [g.integer(1, 2), g.integer(1, 2)]
    pads = [g.integer(0, 1) for _ in range(4)]
    out = [(n + pads[i] + pads[i + 2] - kernel[i]) // strides[i] + 1 for i, n in enumerate((height, width))]
    batch, features, taps = g.integer(1, 2), group * g.integer(1, 3), kernel[0] * kernel[1]
    x = g.fresh(dtype, (batch, channels, height, width), "ordinary")
    w = g.fresh(dtype, (features, channels // group, *kernel), "ordinary")
    offset = g.fresh(dtype, (batch, offsets * taps * 2, *out), "ordinary")
    bias = g.fresh(dtype, (features,), "ordinary") if g.chance(0.5) else None
    mask = g.fresh(dtype, (batch, offsets * taps, *out), "ordinary") if g.chance(0.5) else None
    given: dict[str, Any] = {"kernel_shape": kernel, "strides": strides, "pads": pads}
    g.node("DeformConv", [x, w, offset, bias, mask], group=group, offset_group=offsets, **given)


def max_unpool(g: Graph) -> None:
    x = g.tensor(("float32",), (3, 4), where=lambda a: a.size > 0 and finite(a) and min(a.shape[2:]) > 1)
    rank = g.rank(x) - 2
    kernel = [2] * rank
    strides = g.one_of([kernel, [g.integer(2, 3) for _ in kernel]])
    made, indices = g.node("MaxPool", [x], 2, kernel_shape=kernel, strides=strides)
    shape = g.known(g.shape(x)) if g.chance(0.5) else None
    if shape is None and any(i >= n for i, n in [(int(g.values[indices].max()), _unpooled(g, made, kernel, strides))]):
        raise Rejected
    g.node("MaxUnpool", [made, indices, shape], kernel_shape=kernel, strides=strides)


def _unpooled(g: Graph, x: str, kernel: list[int], strides: list[int]) -> int:
    """How many elements MaxUnpool's result has without a given shape."""
    shape = g.shape(x)
    extents = [(n - 1) * s + k for n, s, k in zip(shape[2:], strides, kernel, strict=True)]
    return int(np.prod([*shape[:2], *extents]))


def roi_align(g: Graph) -> None:
    x = _image(g, "RoiAlign")
    batch, _, height, width = g.shape(x)
    count = g.integer(1, 4)
    random = np.random.default_rng(g.random.getrandbits(64))
    corners = random.uniform(0, 1, (count, 2, 2)) * (width, height)
    boxes = np.concatenate([corners.min(axis=1), corners.max(axis=1)], axis=1).astype(g.values[x].dtype)
    which = g.leaf(random.integers(0, batch, count).astype(np.int64))
    given: dict[str, Any] = {"output_height": g.integer(1, 4), "output_width": g.integer(1, 4)}
    if g.has_attribute("RoiAlign", "coordinate_transformation_mode"):
        given["coordinate_transformation_mode"] = g.one_of([None, "half_pixel", "output_half_pixel"])
    mode, ratio = g.one_of([None, "avg", "max"]), g.one_of([None, 1, 2])
    g.node("RoiAlign", [x, g.leaf(boxes), which], mode=mode, sampling_ratio=ratio, spatial_scale=1.0, **given)


def max_roi_pool(g: Graph) -> None:
    x = g.tensor(("float32",), 4, where=lambda a: 0 < a.size <= 400 and finite(a))
    batch, _, height, width = g.shape(x)
    rows = []
    for _ in range(g.integer(1, 3)):
        xs, ys = (sorted(g.integer(0, n - 1) for _ in range(2)) for n in (width, height))
        rows.append([g.integer(0, batch - 1), xs[0], ys[0], xs[1], ys[1]])
    rois = g.leaf(np.array(rows, np.float32))
    g.node("MaxRoiPool", [x, rois], pooled_shape=[g.integer(1, 3), g.integer(1, 3)])


def non_max_suppression(g: Graph) -> None:
    batch, classes, count = g.integer(1, 2), g.integer(1, 3), g.integer(1, 12)
    random = np.random.default_rng(g.random.getrandbits(64))
    centred = g.integer(0, 1)
    boxes = random.uniform(0, 1, (batch, count, 4)).astype(np.float32)
    scores = random.permutation(batch * classes * count).reshape(batch, classes, count).astype(np.float32) / 64
    limits: list[str | None] = [
        g.known([g.integer(0, 5)]) if g.chance(0.9) else None,
        g.known([g.random.uniform(0, 1)], "float32") if g.chance(0.7) else None,
        g.known([g.random.uniform(0, 1)], "float32") if g.chance(0.5) else None,
    ]
    g.node("NonMaxSuppression", [g.leaf(boxes), g.leaf(scores), *limits], center_point_box=centred)


def determinant(g: Graph) -> None:
    n = g.integer(1, 5)
    batch = g.shape_of((0, 2))
    if 0 in batch:
        raise Rejected
    g.node("Det", [g.fresh(g.one_of(["float32", "float32", "float64"]), (*batch, n, n), "ordinary")])


ENTRIES: dict[str, Entry] = {
    "AffineGrid": affine_grid,
    "Col2Im": col2im,
    "DeformConv": deform_conv,
    "Det": determinant,
    "GridSample": grid_sample,
    "MaxRoiPool": max_roi_pool,
    "MaxUnpool": max_unpool,
    "NonMaxSuppression": non_max_suppression,
    "RoiAlign": roi_align,
}
