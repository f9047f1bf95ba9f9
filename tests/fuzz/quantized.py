"""Entries for quantization: to narrow types and back, products of bytes, and chains of Q/DQ pairs as quantizers write."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
from fuzz.elementwise import Entry
from fuzz.graph import Graph, Rejected
from fuzz.values import finite
from onnx import TensorProto, helper

from tilewright.core.model import NARROW, numpy_dtype

BYTES = ("int8", "uint8")


def number(dtype: str) -> int:
    """ONNX's number of a dtype."""
    return helper.np_dtype_to_tensor_dtype(numpy_dtype(dtype))


def codes(g: Graph, dtype: str, shape: tuple[int, ...], known: bool = False) -> str:
    """A tensor of any numbers of a narrow type, or of a few of a wider one."""
    if dtype not in NARROW and dtype not in BYTES:
        return g.fresh(dtype, shape, "ordinary")
    made = draw_codes(g, dtype, shape)
    return g.known(made, dtype) if known else g.leaf(made)


def draw_codes(g: Graph, dtype: str, shape: tuple[int, ...]) -> np.ndarray:
    """Any numbers of a narrow type."""
    random = np.random.default_rng(g.random.getrandbits(64))
    bits = NARROW.get(dtype, 8)
    made = random.integers(0, 1 << bits, shape).astype(np.uint8).view(numpy_dtype(dtype))
    if dtype.startswith("float"):
        made = np.where(np.isfinite(made.astype(np.float32)), made, np.zeros((), made.dtype))
    return made


def scales(g: Graph, shape: tuple[int, ...], dtype: str = "float32") -> str:
    random = np.random.default_rng(g.random.getrandbits(64))
    ways = (lambda: random.uniform(0.01, 0.2, shape), lambda: 2.0 ** random.integers(-6, 1, shape))
    return g.known(np.asarray(g.one_of(ways)()), dtype)


def zero_point(g: Graph, dtype: str, shape: tuple[int, ...]) -> str:
    """Zero points: zero for floats and wide integers."""
    if dtype.startswith("float") or dtype == "int32":
        return g.known(np.zeros(shape), dtype)
    return codes(g, dtype, shape, known=True)


def _granularity(g: Graph, op: str, shape: tuple[int, ...]) -> tuple[tuple[int, ...], dict[str, Any]]:
    """The shape of scales, and the attributes that tell: for all, for each place on an axis, or for blocks of it."""
    kinds = ["all"] + ["axis"] * (g.opset >= 13 and len(shape) > 0) + ["block"] * (g.opset >= 21 and len(shape) > 0)
    kind = g.one_of(kinds)
    if kind == "all":
        return g.one_of([(), ()] + [(1,)] * (g.opset < 13)), {}
    axis = g.axis(len(shape))
    if kind == "axis":
        return (shape[axis],), {"axis": axis}
    size = g.one_of([n for n in range(1, shape[axis] + 1) if shape[axis] % n == 0])
    blocks = list(shape)
    blocks[axis] //= size
    return tuple(blocks), {"axis": axis, "block_size": size}


def quantize(g: Graph) -> None:
    x = g.tensor(g.allows("QuantizeLinear"), (0, 4), where=lambda a: a.size > 0 and finite(a))
    if g.dtype(x) == "int32":
        raise Rejected
    dtype = g.one_of(g.allows("QuantizeLinear", 2))
    shape, given = _granularity(g, "QuantizeLinear", g.shape(x))
    each = scales(g, shape, g.dtype(x) if g.opset >= 19 else "float32")
    zero = zero_point(g, dtype, shape) if g.chance(0.7) else None
    if zero is None and g.has_attribute("QuantizeLinear", "output_dtype") and g.chance(0.7):
        given["output_dtype"] = number(dtype)
    if dtype.startswith("float8") and g.chance(0.4):
        given["saturate"] = g.integer(0, 1)
    g.node("QuantizeLinear", [x, each, zero], **given)


def dequantize(g: Graph) -> None:
    dtype = g.one_of(g.allows("DequantizeLinear"))
    there = [o for o in g.operands if g.dtype(o) == dtype and g.values[o].size]
    x = g.one_of(there) if there else codes(g, dtype, tuple(n or 1 for n in g.shape_of((0, 4))))
    shape, given = _granularity(g, "DequantizeLinear", g.shape(x))
    scale = g.one_of(
        ["float32", "float32", *(d for d in ("float16", "bfloat16") if d in g.allows("DequantizeLinear", 1))]
    )
    g.node(
        "DequantizeLinear",
        [x, scales(g, shape, scale), zero_point(g, dtype, shape) if g.chance(0.7) else None],
        **given,
    )


def dynamic_quantize(g: Graph) -> None:
    x = g.tensor(("float32",), (0, 4), where=lambda a: a.size > 0 and finite(a))
    g.node("DynamicQuantizeLinear", [x], 3)


def matmul_integer(g: Graph) -> None:
    rows, inner, columns = g.integer(1, 9), g.integer(1, 20), g.integer(1, 20)
    batch = g.one_of([(), (), (g.integer(1, 3),)])
    kinds = g.one_of(BYTES), g.one_of(BYTES)
    a, b = codes(g, kinds[0], (*batch, rows, inner)), codes(g, kinds[1], (inner, columns), g.chance(0.6))
    zeros: list[str | None] = [zero_point(g, kind, ()) if g.chance(0.6) else None for kind in kinds]
    if zeros[1] and g.chance(0.3):
        zeros[1] = zero_point(g, kinds[1], (columns,))
    g.node("MatMulInteger", [a, b, *zeros])


def _convolution(g: Graph) -> tuple[tuple[int, ...], tuple[int, ...], dict[str, Any]]:
    """The shapes of an image and a weight, and a window."""
    group, per, features = g.one_of([1, 1, 2]), g.integer(1, 4), g.integer(1, 9)
    spatial = [g.integer(3, 8) for _ in range(g.integer(1, 2))]
    kernel = [g.integer(1, 3) for _ in spatial]
    given: dict[str, Any] = {"kernel_shape": kernel, "group": group}
    if g.chance(0.5):
        given["pads"] = [g.integer(0, k - 1) for k in kernel * 2]
    if g.chance(0.4):
        given["strides"] = [g.integer(1, 2) for _ in spatial]
    return (g.integer(1, 2), group * per, *spatial), (group * features, per, *kernel), given


def conv_integer(g: Graph) -> None:
    image, weight, given = _convolution(g)
    kinds = "uint8", g.one_of(BYTES)
    zeros = [zero_point(g, kinds[0], ()) if g.chance(0.6) else None, None]
    x, w = codes(g, kinds[0], image), codes(g, kinds[1], weight, known=True)
    g.node("ConvInteger", [x, w, *zeros], **given)


def qlinear_conv(g: Graph) -> None:
    image, weight, given = _convolution(g)
    kind, narrow = g.one_of(BYTES), "int8" if g.chance(0.7) else "uint8"
    each = g.one_of([(), (weight[0],)]) if narrow == "int8" else ()
    zero = g.known(np.zeros(each), narrow) if narrow == "int8" else zero_point(g, narrow, ())
    inputs: list[str | None] = [codes(g, kind, image), scales(g, ()), zero_point(g, kind, ())]
    inputs += [codes(g, narrow, weight, known=True), scales(g, each), zero]
    inputs += [g.known(g.random.uniform(0.1, 2), "float32"), zero_point(g, kind, ())]
    if g.chance(0.5):
        inputs.append(g.known(np.array([g.integer(-500, 500) for _ in range(weight[0])]), "int32"))
    g.node("QLinearConv", inputs, **given)


def qlinear_matmul(g: Graph) -> None:
    rows, inner, columns = g.integer(1, 9), g.integer(1, 20), g.integer(1, 20)
    kind, narrow = "uint8", g.one_of(BYTES)
    if g.chance(0.4):
        kind = narrow = "int8"
    inputs = [codes(g, kind, (rows, inner)), scales(g, ()), zero_point(g, kind, ())]
    inputs += [codes(g, narrow, (inner, columns), known=g.chance(0.7)), scales(g, ()), zero_point(g, narrow, ())]
    g.node("QLinearMatMul", [*inputs, g.known(g.random.uniform(0.1, 2), "float32"), zero_point(g, kind, ())])


def qdq_layer(g: Graph) -> None:
    """A convolution or a product between Q/DQ pairs, with a quantized weight, as static quantization writes it."""
    if g.opset < 13:
        raise Rejected
    kind = g.one_of(BYTES)
    image, weight, given = _convolution(g)
    product = g.chance(0.5)
    if product:
        image, weight = (g.integer(1, 9), weight[1] * 5), (weight[1] * 5, weight[0])
    axis = 1 if product else 0
    each = g.one_of([(), (weight[axis],)])
    x = _pair(g, g.fresh("float32", image, "ordinary"), kind)
    w, zero = codes(g, "int8", weight, known=True), g.known(np.zeros(each), "int8")
    [w] = g.node("DequantizeLinear", [w, scales(g, each), zero], axis=axis if each else None)
    if product:
        [y] = g.node("MatMul", [x, w])
    else:
        bias = g.fresh("float32", (weight[0],), "ordinary") if g.chance(0.5) else None
        [y] = g.node("Conv", [x, w, bias], **given)
    if g.chance(0.4):
        [y] = g.node("Relu", [y])
    _pair(g, y, kind)


def qdq_pair(g: Graph) -> None:
    """An op between Q/DQ pairs that computes nothing or next to nothing."""
    x = g.tensor(("float32",), (1, 4), where=lambda a: a.size > 0 and finite(a), style="ordinary")
    kind = g.one_of(BYTES)
    x = _pair(g, x, kind)
    [y] = g.node(g.one_of(["Relu", "Identity", "Sigmoid", "Transpose"]), [x])
    if g.chance(0.5):
        [y] = g.node("Add", [y, _pair(g, g.like(y, g.shape(y), "ordinary"), kind)])
    _pair(g, y, kind)


def _pair(g: Graph, x: str, kind: str) -> str:
    """The tensor quantized and back, with one scale."""
    scale, zero = scales(g, ()), zero_point(g, kind, ())
    [q] = g.node("QuantizeLinear", [x, scale, zero])
    return g.node("DequantizeLinear", [q, scale, zero])[0]


def narrow_cast(to_narrow: bool, g: Graph) -> None:
    """A Cast to a type of eight bits or less that numpy lacks, or from one."""
    targets = [d for d in g.gives("Cast") if d in NARROW and d != "float8_e8m0fnu"]
    dtype = g.one_of(targets)
    if not to_narrow:
        there = [o for o in g.operands if g.dtype(o) == dtype]
        x = g.one_of(there) if there else codes(g, dtype, g.shape_of((0, 3)))
        g.node("Cast", [x], to=g.one_of([TensorProto.FLOAT, TensorProto.FLOAT16, TensorProto.DOUBLE]))
        return
    x = g.tensor(("float32", "float32", "float16"), (0, 4), where=finite)
    if "int" in dtype and (np.abs(g.values[x].astype(np.float64)) >= 2).any():
        [x] = g.node("Sigmoid", [x])
    saturate = g.one_of([None, 0, 1]) if dtype.startswith("float8") else None
    g.node("Cast", [x], to=number(dtype), saturate=saturate)


def bit_cast(g: Graph) -> None:
    x = g.tensor(g.allows("BitCast"), (0, 4), where=lambda a: a.dtype != np.bool_)
    same = [d for d in g.gives("BitCast") if d not in ("bool", "string") and not d.startswith("complex")]
    bits = NARROW.get(g.dtype(x), 8 * g.values[x].itemsize)
    to = g.one_of([d for d in same if NARROW.get(d, 8 * numpy_dtype(d).itemsize) == bits])
    g.node("BitCast", [x], to=number(to))


ENTRIES: dict[str, Entry] = {
    "BitCast": bit_cast,
    "Cast from narrow": partial(narrow_cast, False),
    "Cast to narrow": partial(narrow_cast, True),
    "ConvInteger": conv_integer,
    "DequantizeLinear": dequantize,
    "DynamicQuantizeLinear": dynamic_quantize,
    "MatMulInteger": matmul_integer,
    "Q/DQ around an op": qdq_pair,
    "Q/DQ layer": qdq_layer,
    "QLinearConv": qlinear_conv,
    "QLinearMatMul": qlinear_matmul,
    "QuantizeLinear": quantize,
}
