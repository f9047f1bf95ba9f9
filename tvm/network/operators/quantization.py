"""Operators on quantized numbers (``relay.qnn``), which stand for ``scale * (number - zero point)``.

What is rounded goes to the nearest number, and from the middle of two to the even one, as ONNX's nodes do.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..registry import operator
from ..writer import Value, Values, Writer
from .convolution import Layouts, Sizes, Window, convolve
from .dense import turn
from .elementwise import as_dtype

_STORED = ("int8", "uint8", "int16", "uint16")
_ROUNDINGS = ("None", "UPWARD", "TONEAREST")


def _as_zero(w: Writer, zero_point: Value, dtype: str) -> Value:
    """A zero point with the dtype of what it belongs to."""
    if zero_point.data is None:
        return as_dtype(w, zero_point, dtype)
    numbers = np.asarray(zero_point.data)
    if not np.array_equal(numbers.astype(dtype), numbers):
        w.refuse(f"the zero point {numbers.tolist()} is no {dtype}")
    return w.constant(numbers.astype(dtype))


def _quantize(w: Writer, data: Value, scale: Value, zero_point: Value, axis: int, dtype: str) -> Value:
    if dtype not in _STORED:
        w.refuse(f"out_dtype is '{dtype}': it is {', '.join(_STORED)}")
    return w.node("QuantizeLinear", data, scale, _as_zero(w, zero_point, dtype), axis=axis % max(data.rank, 1))


def _dequantize(w: Writer, data: Value, scale: Value, zero_point: Value, axis: int) -> Value:
    place = axis % max(data.rank, 1)
    if data.dtype in _STORED:
        return w.node("DequantizeLinear", data, scale, _as_zero(w, zero_point, data.dtype), axis=place)
    zero, along = as_dtype(w, zero_point, data.dtype), w.ints(-1, *(1 for _ in range(data.rank - place - 1)))
    if zero_point.rank:
        zero = w.node("Reshape", zero, along)
    if scale.rank:
        scale = w.node("Reshape", scale, along)
    return w.node("Mul", as_dtype(w, w.node("Sub", data, zero), scale.dtype), scale)


@operator("qnn.quantize")
def quantize(
    w: Writer, data: Value, output_scale: Value, output_zero_point: Value, axis: int = -1, out_dtype: str = "int8"
) -> Value:
    """Floats as quantized numbers; scales and zero points may be one for each place of ``axis``."""
    return _quantize(w, data, output_scale, output_zero_point, axis, out_dtype)


@operator("qnn.dequantize")
def dequantize(
    w: Writer, data: Value, input_scale: Value, input_zero_point: Value, axis: int = -1, out_dtype: str = "float32"
) -> Value:
    """Quantized numbers as floats."""
    return as_dtype(w, _dequantize(w, data, input_scale, input_zero_point, axis), out_dtype)


@operator("qnn.requantize")
def requantize(
    w: Writer,
    data: Value,
    input_scale: Value,
    input_zero_point: Value,
    output_scale: Value,
    output_zero_point: Value,
    axis: int = -1,
    rounding: str = "None",
    compute_dtype: str = "None",
    out_dtype: str = "int8",
) -> Value:
    """Quantized numbers with another scale and zero point: of sums of products bytes again."""
    if rounding not in _ROUNDINGS:
        w.refuse(f"rounding is '{rounding}': it is {', '.join(_ROUNDINGS)}")
    real = _dequantize(w, data, input_scale, input_zero_point, axis)
    return _quantize(w, real, output_scale, output_zero_point, axis, out_dtype)


@operator("qnn.dense")
def dense(
    w: Writer,
    data: Value,
    weight: Value,
    input_zero_point: Value,
    kernel_zero_point: Value,
    input_scale: Value,
    kernel_scale: Value,
    units: int | None = None,
    out_dtype: str = "int32",
) -> Value:
    """Rows by a weight that has a row for each of the results; the sums have both scales' product for theirs."""
    w.assume(weight, (units or 0, data.shape[-1]), data.dtype)
    return _multiply(w, (data, turn(w, weight)), (input_zero_point, kernel_zero_point), out_dtype)


@operator("qnn.batch_matmul")
def batch_matmul(
    w: Writer,
    x: Value,
    y: Value,
    x_zero_point: Value,
    y_zero_point: Value,
    x_scale: Value,
    y_scale: Value,
    out_dtype: str = "int32",
) -> Value:
    """Products of matrices, one for each of a batch, the second of which is transposed."""
    return _multiply(w, (x, turn(w, y)), (x_zero_point, y_zero_point), out_dtype)


def _multiply(w: Writer, matrices: tuple[Value, Value], zeros: tuple[Value, Value], out_dtype: str) -> Value:
    given = [_as_zero(w, zero, of.dtype) for zero, of in zip(zeros, matrices, strict=True)]
    return as_dtype(w, w.node("MatMulInteger", *matrices, *given), out_dtype)


@operator("qnn.conv2d")
def conv2d(
    w: Writer,
    data: Value,
    kernel: Value,
    input_zero_point: Value,
    kernel_zero_point: Value,
    input_scale: Value,
    kernel_scale: Value,
    kernel_size: Sizes | None = None,
    channels: int | None = None,
    strides: Sizes = (1, 1),
    padding: Sizes = (0, 0),
    dilation: Sizes = (1, 1),
    groups: int = 1,
    data_layout: str = "NCHW",
    kernel_layout: str = "OIHW",
    out_layout: str = "",
    out_dtype: str = "int32",
) -> Value:
    """A convolution, which pads with the zero point; the sums have both scales' product for theirs."""
    window = Window.of(w, strides, padding, dilation, groups, "HW")
    layouts = Layouts("HW", data_layout, kernel_layout, out_layout)
    zeros = (
        _as_zero(w, input_zero_point, data.dtype),
        _as_zero(w, kernel_zero_point, kernel.dtype if kernel.type else data.dtype),
    )
    return convolve(w, data, kernel, window, (channels, kernel_size), layouts, out_dtype, zeros)


def _register_pair(name: str, node: str, what: str) -> Callable[..., Any]:
    """An operator on two tensors, each of its own scale."""

    def convert(
        w: Writer,
        lhs: Value,
        rhs: Value,
        lhs_scale: Value,
        lhs_zero_point: Value,
        rhs_scale: Value,
        rhs_zero_point: Value,
        output_scale: Value,
        output_zero_point: Value,
        lhs_axis: int = -1,
        rhs_axis: int = -1,
    ) -> Value:
        left = _dequantize(w, lhs, lhs_scale, lhs_zero_point, lhs_axis)
        right = _dequantize(w, rhs, rhs_scale, rhs_zero_point, rhs_axis)
        return _quantize(w, w.node(node, left, right), output_scale, output_zero_point, -1, lhs.dtype)

    convert.__doc__ = what
    return operator(f"qnn.{name}")(convert)


add = _register_pair("add", "Add", "The sum of two tensors, which may have several scales.")
subtract = _register_pair("subtract", "Sub", "The difference of two tensors, which may have several scales.")
mul = _register_pair("mul", "Mul", "The product of two tensors, which may have several scales.")


@operator("qnn.concatenate")
def concatenate(
    w: Writer,
    data: Values,
    input_scales: Values,
    input_zero_points: Values,
    output_scale: Value,
    output_zero_point: Value,
    axis: int = 0,
) -> Value:
    """Tensors of several scales after each other, with one."""
    given = zip(data, input_scales, input_zero_points, strict=True)
    real = [_dequantize(w, each, scale, zero, -1) for each, scale, zero in given]
    return _quantize(w, w.node("Concat", *real, axis=axis), output_scale, output_zero_point, -1, data[0].dtype)
