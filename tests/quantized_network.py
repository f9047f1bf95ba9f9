"""A network of quantised numbers in the form that frontends make, for tests of passes."""

from __future__ import annotations

from collections.abc import Callable

from networks import build, channels, padded

from tilewright.core.model import Model
from tilewright.dialects import arith, builders, ir, math, scalars


def _i8() -> ir.Type:
    return ir.IntegerType.get_signless(8)


def _i32() -> ir.Type:
    return ir.IntegerType.get_signless(32)


def _float(body: Callable[..., ir.Value], *values: ir.Value) -> ir.Value:
    return builders.elementwise(body, *values, elem=ir.F32Type.get())


def quantize(x: ir.Value, step: float, zero: int, signed: bool) -> ir.Value:
    """Bytes of a tensor of floats, by one step and zero point."""
    low, high = (-128, 127) if signed else (0, 255)

    def body(value: ir.Value) -> ir.Value:
        value = math.roundeven(scalars.div(value, scalars.like(value, step)))
        value = scalars.maximum(value, scalars.like(value, low - zero))
        value = scalars.minimum(value, scalars.like(value, high - zero))
        whole = arith.fptosi(_i32(), value)
        return arith.trunci(_i8(), scalars.add(whole, scalars.like(whole, zero)))

    return builders.elementwise(body, x, elem=_i8())


def dequantize(x: ir.Value, scale: float | ir.Value, zero: int, signed: bool) -> ir.Value:
    """Floats of a tensor of bytes; the scale may be a tensor that broadcasts to it."""

    def widened(value: ir.Value) -> ir.Value:
        wide = (arith.extsi if signed else arith.extui)(_i32(), value)
        return arith.sitofp(ir.F32Type.get(), scalars.sub(wide, scalars.like(wide, zero)))

    if isinstance(scale, ir.Value):
        return _float(lambda v, s: scalars.mul(widened(v), s), x, scale)
    return _float(lambda v: scalars.mul(made := widened(v), scalars.like(made, scale)), x)


def quantized() -> Model:
    """Products of unsigned and signed bytes, with what is around them folded and what must stay."""

    def weight(w: ir.Value, scale: float | ir.Value, signed: bool = True) -> ir.Value:
        zero = 0 if signed else 128
        return dequantize(quantize(w, 0.02, zero, signed), scale, zero, signed)

    def body(x, w1, s1, b1, w2, b2, w3, w4):
        x = dequantize(quantize(x, 0.03, 100, signed=False), 0.03, 100, signed=False)
        y = builders.conv(padded(x, 1), weight(w1, builders.reshape(s1, (8, 1, 1, 1))), (1, 1), (1, 1))
        y = _float(lambda v, b: scalars.maximum(scalars.add(v, b), scalars.like(v, 0)), y, channels(b1))
        y = dequantize(bytes_ := quantize(y, 0.05, -90, signed=True), 0.05, -90, signed=True)
        z = builders.conv(padded(y, 1), weight(w2, 0.02), (2, 2), (1, 1), groups=2)
        z = _float(scalars.add, z, channels(b2))
        z = dequantize(quantize(z, 0.04, 7, signed=False), 0.04, 7, signed=False)
        rows = builders.reshape(builders.transpose(z, (0, 2, 3, 1)), (9, 8))
        dense = builders.contract("mk,kn->mn", rows, weight(w3, 0.02, signed=False))
        depthwise = builders.conv(y, weight(w4, 0.02), (1, 1), (1, 1), groups=8)
        return dense, depthwise, dequantize(bytes_, 0.05, -90, signed=True)

    weights = {"w1": (8, 3, 3, 3), "s1": (8,), "b1": (8,), "w2": (8, 4, 3, 3), "b2": (8,), "w3": (8, 6)}
    return build(body, {"x": (1, 3, 6, 6)}, weights | {"w4": (8, 1, 2, 2)})
