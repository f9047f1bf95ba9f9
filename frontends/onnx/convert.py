"""Conversion between dtypes as ONNX's Cast has it."""

from __future__ import annotations

from ...dialects import arith, float8, ir, scalars
from ...dialects.types import element_type, is_float, is_integer, is_signed
from .context import Context
from .tensor import Tensor

NIBBLES = ("int4", "uint4")


def cast(ctx: Context, x: Tensor, dtype: str, saturate: bool = True) -> Tensor:
    """``x`` as ``dtype``: floats to integers toward zero, numbers to bool by ``!= 0``, integers modulo 2ⁿ.

    ``saturate`` is about float8 alone: what is too large becomes the largest number, else infinity or NaN.
    """
    if x.dtype == dtype:
        return x
    source, target = x.dtype, element_type(dtype)

    def body(value: ir.Value) -> ir.Value:
        if source in NIBBLES:  # numpy's int4 leaves the byte's other half zero: an input's sign is to be spread here
            value = _nibble(value, source)
        if dtype == "bool":
            return scalars.truth(value)
        if is_float(dtype):
            return _to_float(value, source, target, saturate)
        made = _to_integer(value, source, dtype)
        return _nibble(made, dtype) if dtype in NIBBLES else made

    return ctx.elementwise(body, x, dtype=dtype)


def _to_float(value: ir.Value, source: str, target: ir.Type, saturate: bool) -> ir.Value:
    wide = scalars.compute_type(target)
    if not is_float(source):
        value = (arith.sitofp if is_signed(source) else arith.uitofp)(wide, value)
    value = scalars.narrow(value, wide)
    if float8.is_float8(target):
        return float8.encode(value, target, saturate)
    return value


def _to_integer(value: ir.Value, source: str, dtype: str) -> ir.Value:
    target = element_type(dtype)
    if is_float(source):
        if dtype == "uint64":
            return arith.fptoui(target, value)
        # Through a wider signed integer negative numbers wrap, as C compilers have it in practice.
        bits = 32 if scalars.width(target) < 32 or dtype == "int32" else 64
        value = arith.fptosi(ir.IntegerType.get_signless(bits), value)
    if value.type == target:
        return value
    if scalars.width(value) > scalars.width(target):
        return arith.trunci(target, value)
    signed = is_float(source) or (is_integer(source) and is_signed(source))
    return (arith.extsi if signed else arith.extui)(target, value)


def _nibble(value: ir.Value, dtype: str) -> ir.Value:
    """The low four bits, with their sign."""
    four = scalars.like(value, 4)
    shift = arith.shrsi if is_signed(dtype) else arith.shrui
    return shift(arith.shli(value, four), four)
