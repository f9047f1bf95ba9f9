"""Nodes of networks on images: windows of all kinds over many channels, norms, resizes, and what lies between them.

An image's batch, height and width are names; so are its channels, now and then, where a node has no weights for them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
from fuzz.sizes.graph import Dim, Graph, Rejected, Value, changed, times

FLOAT = ("float32",)
NAMES = ("n", "h", "w", "c")
POOLS = {
    "n": (0, 1, 1, 1, 2, 3, 5, 8, 17),
    "h": (0, 1, 2, 3, 4, 5, 7, 8, 13, 14, 16, 28, 31, 32, 56, 61, 64, 112, 130, 224),
    "w": (1, 2, 3, 4, 6, 7, 8, 9, 14, 15, 16, 17, 28, 33, 40, 56, 64, 67, 112, 129, 224, 257),
    "c": (1, 2, 3, 4, 5, 8, 12, 16, 19, 32, 33, 64, 96),
}
CHANNELS = (1, 2, 3, 3, 4, 6, 8, 8, 12, 16, 16, 19, 24, 32, 32, 40, 48, 64, 64, 72, 96, 128)
_RANKS = (4, 4, 4, 4, 4, 3, 3, 5)


def _is_image(value: Value) -> bool:
    return value.rank in (3, 4, 5) and value.bound < 1000


def _image(graph: Graph, known: bool = True) -> str:
    """An image of known channels, or of any."""

    def fits(value: Value) -> bool:
        return _is_image(value) and (isinstance(value.dims[1], int) or not known)

    fitting = [name for name, v in graph.values.items() if v.dtype == "float32" and fits(v)]
    if fitting and graph.chance(0.9):
        return graph.one_of(fitting[-3:] if graph.chance(0.7) else fitting)
    rank = graph.one_of(_RANKS)
    channels = graph.one_of(CHANNELS) if known or graph.chance(0.7) else "c"
    batch = "n" if graph.chance(0.8) else graph.one_of((1, 2))
    spatial = {3: ("w",), 4: ("h", "w"), 5: ("h", 4, "w")}[rank]
    given = [d if graph.chance(0.85) else graph.one_of((1, 7, 16)) for d in spatial]
    return graph.input("float32", (batch, channels, *given), exact=False)


def _window(graph: Graph, spatial: Sequence[Dim], pool: bool = False) -> tuple[dict[str, Any], list[Dim]]:
    """The attributes of a window, and the extents of what it makes."""
    one = graph.one_of((1, 2, 3, 3, 3, 5, 7) if not pool else (1, 2, 2, 3, 3, 5))
    kernel = [one if graph.chance(0.8) else graph.one_of((1, 2, 3, 5)) for _ in spatial]
    stride = graph.one_of((1, 1, 1, 2, 2, 3))
    strides = [stride if graph.chance(0.85) else graph.one_of((1, 2)) for _ in spatial]
    dilation = graph.one_of((1, 1, 1, 1, 2, 3))
    dilations = [dilation if k > 1 else 1 for k in kernel]
    given: dict[str, Any] = {"kernel_shape": kernel, "strides": strides, "dilations": dilations}
    kind = graph.random.random()
    if kind < 0.15 and dilation == 1 and all(k >= s for k, s in zip(kernel, strides, strict=True)):
        given["auto_pad"] = graph.one_of(("SAME_UPPER", "SAME_LOWER"))
        return given, [f"(({d} + {s - 1}) // {s})" for d, s in zip(spatial, strides, strict=True)]
    reach = [(k - 1) * d for k, d in zip(kernel, dilations, strict=True)]
    most = [min(r, k - 1) if pool else r for r, k in zip(reach, kernel, strict=True)]
    if kind < 0.7:
        pads = [m // 2 if pool else r // 2 for m, r in zip(most, reach, strict=True)] * 2
    elif kind < 0.85:
        pads = [graph.random.randint(0, m) for m in (*most, *most)]
    else:
        pads = [0] * (2 * len(spatial))
    given["pads"] = pads
    ceil = pool and graph.chance(0.25)
    if ceil:
        given["ceil_mode"] = 1
    made: list[Dim] = []
    for i, (d, s, r) in enumerate(zip(spatial, strides, reach, strict=True)):
        before, after = pads[i], pads[i + len(spatial)]
        rest = f"({d} + {before + after - r - 1})"
        made.append(f"max({rest} // {s} + 1, 0)" if not ceil else f"max(-(-{rest} // {s}) + 1, 0)")
    return given, made


def conv(graph: Graph) -> None:
    """A convolution: dense, in groups, of single channels, or by pixels; mostly followed by what networks have there."""
    a = _image(graph)
    x = graph.values[a]
    channels = int(x.dims[1])
    given, spatial = _window(graph, x.dims[2:])
    kind = graph.random.random()
    if kind < 0.25:
        group, features = channels, channels * graph.one_of((1, 1, 1, 2))
    elif kind < 0.4:
        group = graph.one_of([g for g in (2, 3, 4, 8) if channels % g == 0])
        features = group * graph.one_of((1, 2, 4, 8))
    else:
        group, features = 1, graph.one_of(CHANNELS)
    if len(x.dims) == 5 and channels * features > 1024:
        raise Rejected
    made = Value("float32", (x.dims[0], features, *spatial), 2 * x.bound)
    shape = (features, channels // group, *given["kernel_shape"])
    w = weight(graph, shape, int(np.prod(shape[1:]))) if graph.chance(0.9) else graph.input("float32", shape)
    if w in graph.inputs:
        made = changed(made, bound=50 * x.bound)
    names = [a, w] if graph.chance(0.3) else [a, w, weight(graph, (features,))]
    graph.works.append(times(*made.dims, *shape[1:]))
    b = graph.node("Conv", names, made, group=group, **given)
    if graph.chance(0.6):
        _after(graph, b)


def _after(graph: Graph, name: str) -> None:
    """What follows a convolution: a norm, an activation, a residual."""
    x = graph.values[name]
    if graph.chance(0.3):
        name = _normed(graph, name)
    if graph.chance(0.3):
        others = [o for o, v in graph.values.items() if v.dims == x.dims and v.dtype == x.dtype and o != name]
        other = graph.one_of(others) if others else graph.input("float32", x.dims)
        name = graph.node("Add", [name, other] if graph.chance(0.5) else [other, name], x)
    kind = graph.one_of(("Relu", "Relu", "Silu", "Clip", "HardSwish", "LeakyRelu", "PRelu", "Gelu", "none"))
    if kind == "Silu":
        gate = graph.hidden("Sigmoid", [name], x)
        graph.node("Mul", [name, gate], x)
    elif kind == "Clip":
        graph.node("Clip", [name, graph.known(0, "float32"), graph.known(6, "float32")], x)
    elif kind == "PRelu":
        channels = x.dims[1]
        graph.node("PRelu", [name, weight(graph, (int(channels), *[1] * (x.rank - 2)))], x)
    elif kind == "Gelu":
        inner = graph.hidden("Div", [name, graph.known(1.4142135, "float32")], x)
        inner = graph.hidden("Erf", [inner], x)
        inner = graph.hidden("Add", [inner, graph.known(1, "float32")], x)
        inner = graph.hidden("Mul", [name, inner], x)
        graph.node("Mul", [inner, graph.known(0.5, "float32")], x)
    elif kind != "none":
        graph.node(kind, [name], x)


def weight(graph: Graph, shape: tuple[int, ...], sums: int = 1) -> str:
    """A weight of random numbers, by which sums of so many products have the size of what is multiplied."""
    generator = np.random.default_rng(graph.random.getrandbits(32))
    return graph.known(generator.uniform(-1, 1, shape) * (3 / sums) ** 0.5, "float32")


def conv_transpose(graph: Graph) -> None:
    """A node of this kind."""
    a = _image(graph)
    x = graph.values[a]
    channels, spatial = int(x.dims[1]), x.dims[2:]
    if len(spatial) > 2:
        raise Rejected
    group = graph.one_of([g for g in (1, 1, 1, 2, channels) if channels % g == 0])
    each = graph.one_of((1, 2, 3, 8, 16, 21)) if group < channels or group == 1 else 1
    k, s = graph.one_of(((2, 2), (3, 2), (4, 2), (3, 1), (4, 4), (5, 3), (1, 2)))
    pad = [graph.random.randint(0, max(k - s, 0)) for _ in range(2 * len(spatial))]
    more = [graph.random.randint(0, s - 1) if graph.chance(0.2) else 0 for _ in spatial]
    made = []
    for i, d in enumerate(spatial):
        made.append(f"max(({d} - 1) * {s} + {k - pad[i] - pad[i + len(spatial)] + more[i]}, 0)")
    shape = (channels, each, *[k] * len(spatial))
    names = [a, weight(graph, shape, channels // group * max(k // s, 1) ** 2)]
    names += [weight(graph, (each * group,))] if graph.chance(0.5) else []
    value = Value("float32", (x.dims[0], each * group, *made), 3 * x.bound)
    graph.works.append(times(*x.dims, *shape[1:]))
    strides = [s] * len(spatial)
    b = graph.node("ConvTranspose", names, value, group=group, strides=strides, pads=pad, output_padding=more)
    if graph.chance(0.3):
        _after(graph, b)


def pool(op: str, graph: Graph) -> None:
    """A node of this kind."""
    a = _image(graph, known=False)
    x = graph.values[a]
    given, spatial = _window(graph, x.dims[2:], pool=True)
    if op == "AveragePool":
        given["count_include_pad"] = int(graph.chance(0.5))
    if op != "MaxPool":
        del given["dilations"]
    made = changed(x, dims=(*x.dims[:2], *spatial))
    graph.node(op, [a], made, **given)


def _normed(graph: Graph, name: str) -> str:
    x = graph.values[name]
    channels = int(x.dims[1])
    facts = [weight(graph, (channels,)) for _ in range(3)]
    facts.append(graph.known(np.random.default_rng(channels).uniform(0.5, 2, channels).astype(np.float32), "float32"))
    return graph.node("BatchNormalization", [name, *facts], changed(x, bound=2 * x.bound), epsilon=0.01)


def norm(op: str, graph: Graph) -> None:
    """A norm over channels, images or groups of channels."""
    a = _image(graph)
    x = graph.values[a]
    channels = int(x.dims[1])
    if op == "BatchNormalization":
        _normed(graph, a)
    elif op == "InstanceNormalization":
        graph.node(op, [a, weight(graph, (channels,)), weight(graph, (channels,))], changed(x, bound=10), epsilon=0.1)
    else:
        groups = graph.one_of([g for g in (1, 2, 3, 4, 8) if channels % g == 0])
        shape = graph.known([0, groups, -1])
        b = graph.hidden("Reshape", [a, shape], changed(x, dims=(x.dims[0], groups, "n")))
        ones = [graph.known([v] * groups, "float32") for v in (1, 0)]
        b = graph.hidden("InstanceNormalization", [b, *ones], x, epsilon=0.1)
        size = graph.hidden("Shape", [a], Value("int64", (x.rank,)))
        b = graph.hidden("Reshape", [b, size], changed(x, bound=10))
        b = graph.hidden("Mul", [b, weight(graph, (channels, *[1] * (x.rank - 2)))], changed(x, bound=10))
        graph.node("Add", [b, weight(graph, (channels, *[1] * (x.rank - 2)))], changed(x, bound=10))


def squeeze_excite(graph: Graph) -> None:
    """Channels by weights that all of the image decides."""
    a = _image(graph)
    x = graph.values[a]
    channels, few = int(x.dims[1]), graph.one_of((1, 2, 4, 8))
    ones = [1] * (x.rank - 2)
    middle = changed(x, dims=(x.dims[0], channels, *ones))
    if graph.chance(0.5):
        b = graph.hidden("GlobalAveragePool", [a], middle)
    else:
        b = graph.hidden("ReduceMean", [a, graph.known(list(range(2, x.rank)))], middle, keepdims=1)
    b = graph.hidden("Conv", [b, weight(graph, (few, channels, *ones), channels)], middle)
    b = graph.hidden("Relu", [b], middle)
    b = graph.hidden("Conv", [b, weight(graph, (channels, few, *ones), few)], middle)
    b = graph.hidden(graph.one_of(("Sigmoid", "HardSigmoid")), [b], middle)
    graph.node("Mul", [a, b] if graph.chance(0.5) else [b, a], x)


def resize(graph: Graph) -> None:
    """Rows and columns by scales, or to the sizes of another image."""
    a = _image(graph, known=False)
    x = graph.values[a]
    if x.rank != 4:
        raise Rejected
    mode = graph.one_of(("nearest", "nearest", "linear", "linear", "cubic"))
    where = graph.one_of(("half_pixel", "asymmetric", "align_corners", "pytorch_half_pixel"))
    given: dict[str, Any] = {"mode": mode, "coordinate_transformation_mode": where}
    if mode == "nearest":
        given["nearest_mode"] = graph.one_of(("floor", "round_prefer_floor"))
        given["coordinate_transformation_mode"] = graph.one_of(("half_pixel", "asymmetric"))
    others = [n for n, v in graph.values.items() if v.rank == 4 and v.dims != x.dims]
    if others and graph.chance(0.4):
        b = graph.one_of(others)
        sizes = [graph.size_of(a, 0), graph.size_of(a, 1), graph.size_of(b, 2), graph.size_of(b, 3)]
        shape = graph.hidden("Concat", sizes, Value("int64", (4,)), axis=0)
        dims = (*x.dims[:2], *graph.values[b].dims[2:])
        graph.node("Resize", [a, "", "", shape], changed(x, dims=dims, bound=2 * x.bound), **given)
        return
    scale = graph.one_of((2, 2, 2, 3, 0.5, 1.5))
    text = {0.5: "({} // 2)", 1.5: "({} * 3 // 2)"}.get(scale, f"({{}} * {scale})")
    dims = (*x.dims[:2], *(text.format(d) for d in x.dims[2:]))
    scales = graph.known([1, 1, scale, scale], "float32")
    graph.node("Resize", [a, "", scales], changed(x, dims=dims, bound=2 * x.bound), **given)


def concat(graph: Graph) -> None:
    """Images of one size, side by side along the channels."""
    a = _image(graph)
    x = graph.values[a]
    same = [n for n, v in graph.values.items() if v.dtype == "float32" and v.rank == x.rank and _beside(v, x)]
    names = [a, *(graph.one_of(same) for _ in range(graph.random.randint(1, 3)))]
    if graph.chance(0.2) or len(set(names)) == 1:
        names.append(graph.input("float32", (x.dims[0], graph.one_of(CHANNELS), *x.dims[2:])))
    graph.random.shuffle(names)
    channels = sum(int(graph.values[n].dims[1]) for n in names)
    bound = max(graph.values[n].bound for n in names)
    graph.node("Concat", names, Value("float32", (x.dims[0], channels, *x.dims[2:]), bound), axis=1)


def _beside(a: Value, b: Value) -> bool:
    return isinstance(a.dims[1], int) and (a.dims[0], a.dims[2:]) == (b.dims[0], b.dims[2:])


def split(graph: Graph) -> None:
    """The halves of the channels, or a part of them by a slice."""
    a = _image(graph)
    x = graph.values[a]
    channels = int(x.dims[1])
    if graph.chance(0.5):
        first = graph.random.randint(1, max(channels - 1, 1))
        if first == channels:
            raise Rejected
        made = [changed(x, dims=(x.dims[0], c, *x.dims[2:])) for c in (first, channels - first)]
        graph.node("Split", [a, graph.known([first, channels - first])], *made, axis=1)
        return
    start, step = graph.random.randint(0, channels - 1), graph.one_of((1, 1, 2))
    made = changed(x, dims=(x.dims[0], len(range(start, channels, step)), *x.dims[2:]))
    graph.node("Slice", [a, *(graph.known([v]) for v in (start, 1 << 62, 1, step))], made)


def shuffle(graph: Graph) -> None:
    """The channels of groups in turn, by Reshape and Transpose."""
    a = _image(graph)
    x = graph.values[a]
    channels = int(x.dims[1])
    if x.rank != 4 or (isinstance(x.dims[2], str) and isinstance(x.dims[3], str) and isinstance(x.dims[0], int)):
        raise Rejected
    groups = graph.one_of([g for g in (2, 3, 4) if channels % g == 0])
    sizes = [graph.size_of(a, 0), graph.known([groups, channels // groups]), graph.size_of(a, 2), graph.size_of(a, 3)]
    shape = graph.hidden("Concat", sizes, Value("int64", (5,)), axis=0)
    b = graph.hidden("Reshape", [a, shape], x, allowzero=1)
    b = graph.hidden("Transpose", [b], x, perm=[0, 2, 1, 3, 4])
    size = graph.hidden("Shape", [a], Value("int64", (4,)))
    graph.node("Reshape", [b, size], x, allowzero=1)


def depth_to_space(graph: Graph) -> None:
    """A node of this kind, or its reverse."""
    a = _image(graph)
    x = graph.values[a]
    if x.rank != 4:
        raise Rejected
    n, c, h, w = x.dims
    block = graph.one_of((2, 2, 3, 4))
    if int(c) % block**2 == 0 and graph.chance(0.7):
        made = changed(x, dims=(n, int(c) // block**2, times(h, block), times(w, block)))
        graph.node("DepthToSpace", [a], made, blocksize=block, mode=graph.one_of(("DCR", "CRD")))
    else:
        made = changed(x, dims=(n, int(c) * 4, f"({h} // 2)", f"({w} // 2)"))
        graph.node("SpaceToDepth", [a], made, blocksize=2)


def pad(graph: Graph) -> None:
    """A border around rows and columns, or a part of the image."""
    a = _image(graph, known=False)
    x = graph.values[a]
    more = [0, 0, *(graph.one_of((0, 1, 1, 2, 3)) for _ in x.dims[2:])]
    less = [0, 0, *(graph.one_of((0, 1, 1, 2)) for _ in x.dims[2:])]
    if graph.chance(0.15):
        more[1] = graph.one_of((1, 3, 5))
    if graph.chance(0.2):
        more = [-1 if m == 1 else m for m in more]
    dims = tuple(d if p + q == 0 else f"({d} + {p + q})" for d, p, q in zip(x.dims, more, less, strict=True))
    if isinstance(x.dims[1], int) and isinstance(dims[1], str):
        dims = (dims[0], x.dims[1] + more[1] + less[1], *dims[2:])
    mode = graph.one_of(("constant", "constant", "edge", "reflect"))
    value = [graph.known(graph.one_of((0, 1.5)), "float32")] if mode == "constant" else []
    graph.node("Pad", [a, graph.known([*more, *less]), *value], changed(x, dims=dims), mode=mode)


def crop(graph: Graph) -> None:
    """Every second pixel, or an image without its border."""
    a = _image(graph, known=False)
    x = graph.values[a]
    step = graph.one_of((1, 2))
    start = graph.one_of((0, 1))
    axes = list(range(2, x.rank))
    dims = [*x.dims[:2], *(f"(max({d} - {start}, 0) + {step - 1}) // {step}" for d in x.dims[2:])]
    dims = [f"({d})" if isinstance(d, str) and "//" in d else d for d in dims]
    count = len(axes)
    inputs = [a, *(graph.known([v] * count) for v in (start, 1 << 62)), graph.known(axes), graph.known([step] * count)]
    graph.node("Slice", inputs, changed(x, dims=tuple(dims)))


def head(graph: Graph) -> None:
    """A mean of all pixels and a product, or numbers for each pixel."""
    a = _image(graph)
    x = graph.values[a]
    channels, out = int(x.dims[1]), graph.one_of((1, 5, 10, 64))
    if graph.chance(0.5):
        b = graph.hidden("GlobalAveragePool", [a], changed(x, dims=(*x.dims[:2], *[1] * (x.rank - 2))))
        b = graph.hidden("Flatten", [b], x, axis=1)
        made = Value("float32", (x.dims[0], out), 2 * x.bound)
        graph.node("Gemm", [b, weight(graph, (out, channels), channels), weight(graph, (out,))], made, transB=1)
    else:
        axes = graph.one_of(([1], list(range(2, x.rank)), [x.rank - 1], [0, *range(2, x.rank)]))
        op = graph.one_of(("ReduceMean", "ReduceMax", "ReduceSum", "ReduceL2"))
        dims = tuple(1 if i in axes else d for i, d in enumerate(x.dims))
        bound = x.bound * (100 if op in ("ReduceSum", "ReduceL2") else 1)
        graph.node(op, [a, graph.known(axes)], changed(x, dims=dims, bound=bound), keepdims=1)


def channel_softmax(graph: Graph) -> None:
    """A softmax over the channels of each pixel, or along rows."""
    a = _image(graph, known=False)
    x = graph.values[a]
    axis = graph.one_of((1, 1, -1, 2))
    graph.node(graph.one_of(("Softmax", "LogSoftmax")), [a], changed(x, bound=30), axis=axis)


def tokens(graph: Graph) -> None:
    """The pixels as rows of channels."""
    a = _image(graph)
    x = graph.values[a]
    n, c, *spatial = x.dims
    sizes = [graph.size_of(a, 0), graph.known([c, -1])]
    shape = graph.hidden("Concat", sizes, Value("int64", (3,)), axis=0)
    b = graph.hidden("Reshape", [a, shape], x)
    made = changed(x, dims=(n, times(*spatial), c))
    b = graph.node("Transpose", [b], made, perm=[0, 2, 1])
    if graph.chance(0.5):
        out = graph.one_of((16, 33, 64))
        graph.works.append(times(*made.dims, out))
        graph.node("MatMul", [b, weight(graph, (int(c), out), int(c))], changed(made, dims=(*made.dims[:2], out)))


def grid(graph: Graph) -> None:
    """An image read at places that an input has."""
    a = _image(graph, known=False)
    x = graph.values[a]
    if x.rank != 4:
        raise Rejected
    places = graph.input("float32", (x.dims[0], graph.one_of(("h", 5)), graph.one_of(("w", 9)), 2), exact=False)
    dims = (*x.dims[:2], *graph.values[places].dims[1:3])
    half = graph.hidden("Mul", [places, graph.known(0.53, "float32")], graph.values[places])
    graph.node(
        "GridSample",
        [a, half],
        changed(x, dims=dims),
        mode="bilinear",
        padding_mode=graph.one_of(("zeros", "border", "reflection")),
        align_corners=graph.one_of((0, 1)),
    )


_OFTEN = (conv,) * 3 + (conv_transpose, partial(pool, "MaxPool"), partial(pool, "AveragePool"), resize, concat)
ENTRIES: list[tuple[Callable[[Graph], None], float]] = [
    *((make, 3.0) for make in _OFTEN),
    *((partial(norm, op), 1.0) for op in ("BatchNormalization", "InstanceNormalization", "groups")),
    *((make, 1.5) for make in (squeeze_excite, split, pad, crop, head, tokens)),
    *((make, 0.8) for make in (shuffle, depth_to_space, channel_softmax, grid)),
]
