"""Entries for convolutions, pooling, norms over channels, resizing and recurrent layers."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
from fuzz.elementwise import Entry
from fuzz.graph import Graph, Rejected
from fuzz.values import finite, not_nan, steady

from tilewright.tools.debugging.oracle_difference import has_float_elements


def _images(g: Graph, op: str, ranks: tuple[int, int] = (3, 5)) -> str:
    """A tensor of batch, channels and one to three further axes."""
    return g.tensor(g.allows(op), ranks, where=lambda a: a.size > 0 and not_nan(a) and steady(a))


def _window(g: Graph, spatial: tuple[int, ...], pool: bool) -> dict[str, Any]:
    """A window's attributes that fit the spatial extents."""
    kernel = [g.integer(1, min(n, 4)) for n in spatial]
    dilations = [g.integer(1, 2) if (k - 1) * 2 < n else 1 for k, n in zip(kernel, spatial, strict=True)]
    made: dict[str, Any] = {"kernel_shape": kernel}
    if g.chance(0.6):
        made["strides"] = [g.integer(1, 3) for _ in spatial]
    if g.chance(0.4):
        made["dilations"] = dilations
    reach = [(k - 1) * d for k, d in zip(kernel, made.get("dilations", [1] * len(kernel)), strict=True)]
    covered = all(k >= s for k, s in zip(kernel, made.get("strides", kernel), strict=True))  # else SAME would cut
    if g.chance(0.15) and "dilations" not in made and covered:
        made["auto_pad"] = g.one_of(["SAME_UPPER", "SAME_LOWER", "VALID"])
    elif g.chance(0.6):
        made["pads"] = [
            g.integer(0, min(2, r if not pool else min(r, k - 1))) for r, k in zip(reach * 2, kernel * 2, strict=True)
        ]
    return made


def conv(g: Graph) -> None:
    x = _images(g, "Conv")
    _, channels, *spatial = g.shape(x)
    window = _window(g, tuple(spatial), pool=False)
    group = g.one_of([n for n in range(1, channels + 1) if channels % n == 0]) if g.chance(0.4) else 1
    features = group * (g.integer(1, 3) if group > 1 else g.integer(1, 20))
    w = g.fresh(g.dtype(x), (features, channels // group, *window["kernel_shape"]), "ordinary")
    b = g.fresh(g.dtype(x), (features,)) if g.chance(0.5) else None
    g.node("Conv", [x, w, b], group=group if group > 1 or g.chance(0.3) else None, **window)


def conv_transpose(g: Graph) -> None:
    x = _images(g, "ConvTranspose", ranks=(3, 4))
    _, channels, *spatial = g.shape(x)
    group = g.one_of([n for n in range(1, channels + 1) if channels % n == 0]) if g.chance(0.3) else 1
    kernel = [g.integer(1, 4) for _ in spatial]
    strides = [g.integer(1, 3) for _ in spatial]
    given: dict[str, Any] = {"kernel_shape": kernel, "strides": strides, "group": group}
    if g.chance(0.5):
        given["pads"] = [g.integer(0, k - 1) for k in kernel * 2]
    if g.chance(0.3):
        given["output_padding"] = [g.integer(0, s - 1) for s in strides]
    if g.chance(0.3):
        given["dilations"] = [g.integer(1, 2) for _ in spatial]
    features = g.integer(1, 6)
    b = g.fresh(g.dtype(x), (features * group,)) if g.chance(0.5) else None
    w = g.fresh(g.dtype(x), (channels, features, *kernel), "ordinary")
    [y] = g.node("ConvTranspose", [x, w, b], **given)
    if not g.values[y].size:  # padding takes away more than there is
        raise Rejected


def pool(op: str, g: Graph) -> None:
    x = _images(g, op)
    window = _window(g, g.shape(x)[2:], pool=True)
    if "dilations" in window and not g.has_attribute(op, "dilations"):
        del window["dilations"]
        window.pop("pads", None)
    if g.has_attribute(op, "ceil_mode") and g.chance(0.3):
        window["ceil_mode"] = 1
    if op == "AveragePool":
        window["count_include_pad"] = g.one_of([0, 1, None])
    outputs = 2 if op == "MaxPool" and g.opset >= 8 and g.chance(0.2) else 1
    if outputs == 2:
        window.pop("dilations", None)
    g.node(op, [x], outputs, **window)


def global_pool(op: str, g: Graph) -> None:
    g.node(op, [_images(g, op)])


def batch_norm(g: Graph) -> None:
    x = _images(g, "BatchNormalization", ranks=(2, 5))
    channels, dtype = g.shape(x)[1], g.dtype(x)
    styles = ("", "", "ordinary", "positive")
    rest = [g.fresh(dtype, (channels,), style) for style in styles]
    g.node("BatchNormalization", [x, *rest], epsilon=g.one_of([None, 1e-3]))


def instance_norm(g: Graph) -> None:
    x = g.tensor(g.allows("InstanceNormalization"), (3, 5), where=lambda a: a.size > 0 and finite(a))
    g.node("InstanceNormalization", [x, *(g.fresh(g.dtype(x), (g.shape(x)[1],), "ordinary") for _ in range(2))])


def group_norm(g: Graph) -> None:
    x = g.tensor(g.allows("GroupNormalization"), (3, 5), where=lambda a: a.size > 0 and finite(a))
    channels = g.shape(x)[1]
    groups = g.one_of([n for n in range(1, channels + 1) if channels % n == 0])
    each = channels if g.opset >= 21 else groups
    g.node("GroupNormalization", [x, *(g.fresh(g.dtype(x), (each,), "ordinary") for _ in range(2))], num_groups=groups)


def lrn(g: Graph) -> None:
    x = g.tensor(("float32",), 4, where=lambda a: a.size > 0 and finite(a))
    g.node("LRN", [x], size=g.one_of([1, 3, 5]), alpha=g.one_of([None, 0.01]), bias=g.one_of([None, 2.0]))


def resize(g: Graph) -> None:
    if g.opset < 11:
        raise Rejected
    x = g.tensor(g.allows("Resize"), (1, 4), where=lambda a: a.size > 0 and finite(a))
    floats = has_float_elements(g.values[x])  # others are rounded, and who is right at a half is chance
    mode = g.one_of(["nearest", "linear", "cubic"]) if floats else "nearest"
    if g.opset >= 18 and g.chance(0.3):
        _resize_along(g, x, mode)
        return
    shape = g.shape(x)
    if mode == "cubic" and len(shape) not in (2, 4):
        mode = "linear"
    free = [i >= len(shape) - 2 if mode != "nearest" else True for i in range(len(shape))]
    sizes = [g.integer(1, 2 * n + 1) if ok else n for n, ok in zip(shape, free, strict=True)]
    where = g.one_of(["half_pixel", "asymmetric", "align_corners", "pytorch_half_pixel", None])
    given: dict[str, Any] = {"mode": mode, "coordinate_transformation_mode": where}
    if mode == "nearest":
        given["nearest_mode"] = g.one_of([None, "floor", "ceil", "round_prefer_ceil", "round_prefer_floor"])
    if mode == "cubic":
        given |= {"cubic_coeff_a": g.one_of([None, -0.5]), "exclude_outside": g.one_of([None, 1])}
    absent = None if g.opset >= 13 else g.known([], "float32")
    if g.chance(0.5):
        g.node("Resize", [x, absent, absent, g.known(sizes)], **given)
    else:
        scales = [g.one_of([0.5, 2.0, 1.5, 3.0, 1.0]) if ok else 1.0 for ok in free]
        if any(int(n * s) < 1 for n, s in zip(shape, scales, strict=True)):
            raise Rejected
        g.node("Resize", [x, absent, g.known(scales, "float32")], **given)


def _resize_along(g: Graph, x: str, mode: str) -> None:
    """A Resize of some axes: with one scale for all, a region, or a filter that widens where it makes smaller."""
    axes = sorted(g.some(range(g.rank(x)), 1))[-2:]
    given: dict[str, Any] = {"mode": mode, "axes": axes}
    if mode != "nearest" and g.chance(0.5):
        given["antialias"] = 1
    if g.chance(0.3):
        given |= {"coordinate_transformation_mode": "tf_crop_and_resize", "extrapolation_value": 1.5}
        starts = [g.random.uniform(-0.2, 0.5) for _ in axes]
        roi: str | None = g.known([*starts, *(a + g.random.uniform(0.2, 1) for a in starts)], "float32")
    else:
        roi = None
        given["keep_aspect_ratio_policy"] = g.one_of([None, "stretch", "not_larger", "not_smaller"])
    g.node("Resize", [x, roi, None, g.known([g.integer(1, 9) for _ in axes])], **given)


def recurrent(op: str, g: Graph) -> None:
    gates = {"RNN": 1, "GRU": 3, "LSTM": 4}[op]
    x = g.tensor(
        [d for d in g.allows(op) if d == "float32"], 3, where=lambda a: a.size > 0 and finite(a), style="ordinary"
    )
    batch_first = g.opset >= 14 and g.chance(0.2)
    steps, batch, width = g.shape(x) if not batch_first else (g.shape(x)[i] for i in (1, 0, 2))
    hidden, direction = g.integer(1, 5), g.one_of([None, "forward", "reverse", "bidirectional"])
    ways = 2 if direction == "bidirectional" else 1
    leaf = partial(g.fresh, g.dtype(x), style="ordinary")
    inputs: list[str | None] = [x, leaf((ways, gates * hidden, width)), leaf((ways, gates * hidden, hidden))]
    inputs.append(leaf((ways, 2 * gates * hidden)) if g.chance(0.6) else None)
    inputs.append(g.leaf(np.array([g.integer(1, steps) for _ in range(batch)], np.int32)) if g.chance(0.3) else None)
    states = (batch, ways, hidden) if batch_first else (ways, batch, hidden)
    inputs += [leaf(states) if g.chance(0.4) else None for _ in range(2 if op == "LSTM" else 1)]
    if op == "LSTM" and g.chance(0.3):
        inputs.append(leaf((ways, 3 * hidden)))  # peepholes
    more: dict[str, Any] = {"linear_before_reset": g.integer(0, 1)} if op == "GRU" else {}
    if g.chance(0.3):
        more |= _activations(g, ways * {"RNN": 1, "GRU": 2, "LSTM": 3}[op], bounded=op != "RNN")
    if batch_first:
        more["layout"] = 1
    if g.chance(0.15):
        more["clip"] = g.random.uniform(0.2, 3)
    g.node(op, inputs, g.integer(1, 3 if op == "LSTM" else 2), hidden_size=hidden, direction=direction, **more)


def _activations(g: Graph, count: int, bounded: bool) -> dict[str, Any]:
    """Activations by name, and the numbers of those that have some; gates without bounds would multiply every error."""
    choices = ["Tanh", "Sigmoid", "Softsign", "HardSigmoid", *([] if bounded else ["Relu", "LeakyRelu"])]
    names = [g.one_of(choices) for _ in range(count)]
    alphas = {"HardSigmoid": 0.3, "LeakyRelu": 0.02}
    given: dict[str, Any] = {"activations": names}
    if any(name in alphas for name in names):
        given["activation_alpha"] = [alphas[name] for name in names if name in alphas]
    if "HardSigmoid" in names:
        given["activation_beta"] = [0.4 for name in names if name == "HardSigmoid"]
    return given


ENTRIES: dict[str, Entry] = {
    **{op: partial(pool, op) for op in ("AveragePool", "MaxPool", "LpPool")},
    **{op: partial(global_pool, op) for op in ("GlobalAveragePool", "GlobalMaxPool", "GlobalLpPool")},
    **{op: partial(recurrent, op) for op in ("RNN", "GRU", "LSTM")},
    "BatchNormalization": batch_norm,
    "Conv": conv,
    "ConvTranspose": conv_transpose,
    "GroupNormalization": group_norm,
    "InstanceNormalization": instance_norm,
    "LRN": lrn,
    "Resize": resize,
}
