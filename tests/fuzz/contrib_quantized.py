"""Entries for what onnxruntime's quantiser writes in its domain ``com.microsoft``: ops on tensors of bytes."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
from exact_weights import halve
from fuzz.contrib import contrib
from fuzz.elementwise import Entry
from fuzz.graph import Graph
from fuzz.quantized import BYTES, codes, draw_codes, scales, zero_point


def _parameters(g: Graph, kind: str) -> list[str | None]:
    """A scale and a zero point of a whole tensor."""
    return [scales(g, ()), zero_point(g, kind, ())]


def _operand(g: Graph, kind: str, rank: int | tuple[int, int] = (1, 4)) -> list[str | None]:
    """A tensor of bytes, mostly one that is there, with its scale and zero point."""
    x = g.tensor((kind,), rank, where=lambda a: a.size > 0)
    return [x, *_parameters(g, kind)]


def unary(op: str, g: Graph) -> None:
    kind = g.one_of(BYTES)
    alpha = g.random.uniform(-0.3, 0.9) if op == "QLinearLeakyRelu" else None
    contrib(g, op, [*_operand(g, kind), *_parameters(g, kind)], alpha=alpha)


def binary(op: str, g: Graph) -> None:
    kind = g.one_of(BYTES)
    left = _operand(g, kind)
    assert left[0]
    shape = g.shape(left[0])
    other = codes(g, kind, g.one_of([shape, shape[-1:], tuple(n if g.chance(0.7) else 1 for n in shape)]))
    contrib(g, op, [*left, other, *_parameters(g, kind), *_parameters(g, kind)])


def concat(g: Graph) -> None:
    kind, shape = g.one_of(BYTES), [g.integer(1, 6) for _ in range(g.integer(1, 4))]
    axis = g.integer(0, len(shape) - 1)
    inputs = _parameters(g, kind)
    for _ in range(g.integer(1, 3)):
        shape[axis] = g.integer(1, 6)
        inputs += [codes(g, kind, tuple(shape)), *_parameters(g, kind)]
    contrib(g, "QLinearConcat", inputs, axis=axis)


def global_pool(g: Graph) -> None:
    kind, last = g.one_of(BYTES), g.integer(0, 1)
    x = codes(g, kind, (g.integer(1, 2), g.integer(1, 9), g.integer(1, 9), g.integer(1, 9)))
    inputs = [x, *_parameters(g, kind), *_parameters(g, kind)]
    contrib(g, "QLinearGlobalAveragePool", inputs, channels_last=last)


def average_pool(g: Graph) -> None:
    kind, window = g.one_of(BYTES), [g.integer(1, 3) for _ in range(2)]
    x = codes(g, kind, (g.integer(1, 2), g.integer(1, 5), g.integer(3, 9), g.integer(3, 9)))
    given: dict[str, Any] = {"kernel_shape": window, "strides": [g.integer(1, 2)] * 2}
    given |= {"pads": [g.integer(0, k - 1) for k in window * 2], "count_include_pad": g.integer(0, 1)}
    contrib(g, "QLinearAveragePool", [x, *_parameters(g, kind), *_parameters(g, kind)], **given)


def softmax(g: Graph) -> None:
    kind = g.one_of(BYTES)
    operand = _operand(g, kind, (2, 4))
    scale = [g.known(1 / 256, "float32"), g.known(0 if kind == "uint8" else -128, kind)]
    contrib(g, "QLinearSoftmax", [*operand, *scale], opset=13, axis=-1)


def qgemm(g: Graph) -> None:
    a, b = g.integer(0, 1), g.integer(0, 1)
    rows, inner, columns = g.integer(1, 9), g.integer(1, 20), g.integer(1, 20)
    kind, each = g.one_of(BYTES), g.one_of([(), (columns,)])
    narrow = "int8" if kind == "int8" else g.one_of(BYTES)
    inputs = [codes(g, kind, (inner, rows) if a else (rows, inner)), *_parameters(g, kind)]
    inputs += [_weight_codes(g, narrow, (columns, inner) if b else (inner, columns))]
    inputs += [scales(g, each), g.known(np.zeros(each), narrow)]
    inputs.append(g.known([g.integer(-500, 500) for _ in range(columns)], "int32") if g.chance(0.6) else None)
    inputs += [g.known(g.random.uniform(0.1, 2), "float32"), zero_point(g, kind, ())] if g.chance(0.7) else []
    contrib(g, "QGemm", inputs, transA=a, transB=b, alpha=g.one_of([None, 0.5]))


def _weight(g: Graph, inner: int, columns: int) -> list[str | None]:
    """A weight of bytes, with its scale and zero point, or those of each column."""
    kind, each = g.one_of(BYTES), g.one_of([(), (columns,)])
    return [_weight_codes(g, kind, (inner, columns)), scales(g, each), zero_point(g, kind, each)]


def _weight_codes(g: Graph, kind: str, shape: tuple[int, ...]) -> str:
    """A weight's numbers, whose products onnxruntime sums exactly: no reference knows these operators."""
    return g.known(halve(draw_codes(g, kind, shape)), kind)


def dynamic_matmul(g: Graph) -> None:
    rows, inner, columns = g.integer(1, 9), g.integer(1, 20), g.integer(1, 20)
    bias = g.fresh("float32", (columns,), "ordinary") if g.chance(0.5) else None
    x = g.fresh("float32", (*g.one_of([(), (2,)]), rows, inner), "ordinary")
    contrib(g, "DynamicQuantizeMatMul", [x, *_weight(g, inner, columns), bias])


def matmul_to_float(g: Graph) -> None:
    rows, inner, columns = g.integer(1, 9), g.integer(1, 20), g.integer(1, 20)
    kind = g.one_of(BYTES)
    weight, scale, zero = _weight(g, inner, columns)
    bias = g.fresh("float32", (columns,), "ordinary") if g.chance(0.5) else None
    a_scale, a_zero = _parameters(g, kind)
    contrib(g, "MatMulIntegerToFloat", [codes(g, kind, (rows, inner)), weight, a_scale, scale, a_zero, zero, bias])


def dynamic_lstm(g: Graph) -> None:
    """An LSTM whose weights are bytes; each of its directions has a scale, or each of its columns."""
    steps, batch, width, hidden = (g.integer(1, n) for n in (4, 3, 9, 5))
    direction = g.one_of(["forward", "reverse", "bidirectional"])
    ways, kind = 2 if direction == "bidirectional" else 1, g.one_of(BYTES)
    x = g.fresh("float32", (steps, batch, width), "ordinary")
    w, r = (_weight_codes(g, kind, (ways, n, 4 * hidden)) for n in (width, hidden))
    each = g.one_of([(ways,), (ways, 4 * hidden)])
    quantized = [scales(g, each), g.known(np.zeros(each), kind)]
    quantized += [scales(g, each), g.known(np.zeros(each), kind)]
    bias = g.fresh("float32", (ways, 8 * hidden), "ordinary") if g.chance(0.6) else None
    inputs = [x, w, r, bias, None, None, None, None, *quantized]
    made = contrib(g, "DynamicQuantizeLSTM", inputs, g.integer(1, 3), hidden_size=hidden, direction=direction)
    g.operands = [name for name in g.operands if name not in made]  # which places of a grid would decide


ENTRIES: dict[str, Entry] = {
    **{op: partial(unary, op) for op in ("QLinearLeakyRelu", "QLinearSigmoid")},
    **{op: partial(binary, op) for op in ("QLinearAdd", "QLinearMul")},
    "DynamicQuantizeLSTM": dynamic_lstm,
    "DynamicQuantizeMatMul": dynamic_matmul,
    "MatMulIntegerToFloat": matmul_to_float,
    "QGemm": qgemm,
    "QLinearAveragePool": average_pool,
    "QLinearConcat": concat,
    "QLinearGlobalAveragePool": global_pool,
    "QLinearSoftmax": softmax,
}
