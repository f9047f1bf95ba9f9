"""Cast, CastLike and BitCast."""

from __future__ import annotations

from onnx import TensorProto

from ....dialects import arith, builders
from ....dialects.types import bits, element_type
from ..proto.weights import dtype_name
from ..state.context import Context
from ..state.registry import op
from ..values.objects import TEXT
from ..values.tensor import Tensor
from .text import format_text, parse_text


@op("Cast")
def cast_to(ctx: Context, x: Tensor, *, to: int, saturate: int = 1, round_mode: str = "up") -> Tensor:
    if to == TensorProto.STRING:
        return format_text(ctx, x)
    dtype = dtype_name(to, "the result")
    return parse_text(ctx, x, dtype) if x.dtype == TEXT else ctx.cast(x, dtype, bool(saturate), round_mode)


@op("CastLike")
def cast_like(ctx: Context, x: Tensor, target: Tensor, *, saturate: int = 1, round_mode: str = "up") -> Tensor:
    if target.dtype == TEXT:
        return format_text(ctx, x)
    dtype = target.dtype
    return parse_text(ctx, x, dtype) if x.dtype == TEXT else ctx.cast(x, dtype, bool(saturate), round_mode)


@op("BitCast", since=26)
def bit_cast(ctx: Context, x: Tensor, *, to: int) -> Tensor:
    """The same bits under another dtype of the same width; what is not 0 is made the bool 1, the only other one."""
    dtype = dtype_name(to, "the result")
    if bits(x.dtype) != bits(dtype):
        ctx.invalid(f"{x.dtype} and {dtype} have not the same width")
    if dtype == "bool":
        return ctx.cast(x, dtype)
    elem = element_type(dtype)
    if elem == builders.element_of(x.value):
        return ctx.wrap(x.value, dtype)
    out, each = builders.empty(x.shape, elem), range(x.rank)
    made = builders.generic([x.value], [out], [each, each], "p" * x.rank, lambda a, _: arith.bitcast(elem, a))
    return ctx.wrap(made[0], dtype)
