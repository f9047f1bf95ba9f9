"""Activations, biases and scales."""

from __future__ import annotations

from .... import te
from ..elementwise import map_elements
from ..tag import BROADCAST

__all__ = ["bias_add", "leaky_relu", "prelu", "relu", "scale_shift_nchw", "scale_shift_nhwc"]


def relu(x: te.Tensor) -> te.Tensor:
    """max(x, 0)"""
    return map_elements(x, lambda each: te.max(each, te.const(0, x.dtype)), "T_relu")


def leaky_relu(x: te.Tensor, alpha: float) -> te.Tensor:
    """``x`` where it is positive, else ``alpha`` times that."""
    zero, slope = te.const(0, x.dtype), te.const(alpha, x.dtype)
    return map_elements(x, lambda each: te.select(each > zero, each, each * slope), "T_leaky_relu")


def prelu(x: te.Tensor, slope: te.Tensor, axis: int = 1) -> te.Tensor:
    """``x`` where it is positive, else that times a slope for each index of an axis."""
    zero = te.const(0, x.dtype)
    return te.compute(
        x.shape, lambda *i: te.select(x(*i) > zero, x(*i), x(*i) * slope(i[axis])), name="T_prelu", tag=BROADCAST
    )


def bias_add(data: te.Tensor, bias: te.Tensor, axis: int = 1) -> te.Tensor:
    """A tensor, and a number for each index of an axis added."""
    return te.compute(data.shape, lambda *i: data(*i) + bias(i[axis]), name="T_bias_add", tag=BROADCAST)


def scale_shift_nchw(Input: te.Tensor, Scale: te.Tensor, Shift: te.Tensor) -> te.Tensor:
    """Images of channels first, each channel with its factor and its summand."""
    return _scale_shift(Input, Scale, Shift, 1)


def scale_shift_nhwc(Input: te.Tensor, Scale: te.Tensor, Shift: te.Tensor) -> te.Tensor:
    """Images of channels last, each channel with its factor and its summand."""
    return _scale_shift(Input, Scale, Shift, 3)


def _scale_shift(data: te.Tensor, scale: te.Tensor, shift: te.Tensor, axis: int) -> te.Tensor:
    return te.compute(
        data.shape, lambda *i: data(*i) * scale(i[axis]) + shift(i[axis]), name="ScaleShift", tag=BROADCAST
    )
