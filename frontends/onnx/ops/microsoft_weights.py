"""Weights of a few bits, as a product with what is unpacked and dequantised: MatMulNBits, MatMulBnb4.

`keep-packed` undoes that for MatMulNBits.
"""

from __future__ import annotations

import numpy as np

from ....core.sizes import count_elements
from ....dialects import arith, ir, scalars
from ....dialects.types import element_type
from ..algorithms.quantization import dequantize, quantize
from ..primitives.gathers import take
from ..primitives.movement import concat, cut
from ..primitives.products import contract
from ..state.context import Context
from ..state.contrib import contrib
from ..values.tensor import Tensor

_BYTES = 4  # the level that lets rows be rounded to bytes


@contrib("MatMulNBits", shapes="a[*m K] bias[N]")
def matmul_n_bits(
    ctx: Context,
    a: Tensor,
    b: Tensor,
    scales: Tensor,
    zero_points: Tensor | None = None,
    g_idx: Tensor | None = None,
    bias: Tensor | None = None,
    *,
    K: int,
    N: int,
    block_size: int,
    bits: int = 4,
    accuracy_level: int = 0,
    weight_prepacked: int = 0,
) -> Tensor:
    """``a`` times the transpose of (N, K) weights: (number - zero point) * scale, of which each block of K has one.

    At level 4 each row of ``a`` becomes bytes, block by block, as in onnxruntime. The other levels ask for no more than
    floats are.
    """
    if g_idx is not None or weight_prepacked:
        ctx.unsupported("g_idx" if g_idx is not None else "weights that are packed for one device; export them plain")
    if bits not in (2, 4, 8) or block_size < 1 or block_size * bits % 8:
        ctx.unsupported(f"blocks of {block_size} weights of {bits} bits")
    blocks = -(-K // block_size)
    b = ctx.demand_shape(b, "B", N, blocks, block_size * bits // 8)
    if b.dtype != "uint8":
        ctx.invalid(f"the weight has dtype {b.dtype}, it must be uint8")
    ctx.demand_equal(scales.size, N * blocks, f"scales of shape {list(scales.shape)} for {N} rows of {blocks} blocks")
    numbers = ctx.reshape(unpack_bits(ctx, b, bits), (N, blocks, block_size))
    weights = _dequantize(ctx, numbers, ctx.reshape(scales, (N, blocks, 1)), _zeros(ctx, zero_points, bits, N, blocks))
    weights = cut(ctx, ctx.reshape(weights, (N, blocks * block_size)), {1: range(K)})
    rows = ctx.reshape(a, (a.size // max(K, 1), K))
    if accuracy_level == _BYTES and a.dtype == "float32" and K % block_size == 0:
        rows = ctx.reshape(_round_blocks(ctx, ctx.reshape(rows, (rows.shape[0], blocks, block_size))), rows.shape)
    product = contract(ctx, "mk,nk->mn", rows, weights)
    if bias is not None:
        product = ctx.elementwise(scalars.add, product, bias)
    return ctx.reshape(product, (*a.shape[:-1], N))


# The numbers of bitsandbytes' codes of four bits: a float with a sign, two bits of exponent and one of mantissa, over
# its greatest one; and quantiles of the normal distribution (QLoRA, Dettmers et al. 2023, appendix E).
_FP4 = (0.0, 0.0052083333, 0.66666667, 1.0, 0.33333333, 0.5, 0.16666667, 0.25)
_NF4 = (
    *(-1.0, -0.6961928009986877, -0.5250730514526367, -0.39491748809814453),
    *(-0.28444138169288635, -0.18477343022823334, -0.09105003625154495, 0.0),
    *(0.07958029955625534, 0.16093020141124725, 0.24611230194568634, 0.33791524171829224),
    *(0.44070982933044434, 0.5626170039176941, 0.7229568362236023, 1.0),
)
_BNB_NUMBERS = ((*_FP4, *(-n for n in _FP4)), _NF4)  # by ``quant_type``


@contrib("MatMulBnb4", shapes="a[*m K]")
def matmul_bnb4(
    ctx: Context,
    a: Tensor,
    b: Tensor,
    absmax: Tensor,
    *,
    K: int,
    N: int,
    block_size: int,
    quant_type: int,
    training_mode: int = 0,
    transB: int = 1,
) -> Tensor:
    """``a`` times the transpose of (N, K) weights: numbers times the greatest magnitude of their block.

    A number is a code of four bits, the higher ones of a byte first.
    """
    if not transB or quant_type not in (0, 1) or block_size < 1 or b.dtype != "uint8":
        ctx.unsupported(f"transB={transB}, quant_type={quant_type}, blocks of {block_size} weights, dtype {b.dtype}")
    count = N * K
    b = ctx.demand_shape(ctx.reshape(b, [b.size]), "B", (count + 1) // 2)
    absmax = ctx.demand_shape(absmax, "absmax", -(-count // block_size))
    pairs = ctx.reshape(unpack_bits(ctx, b, 4), (b.shape[0], 2))
    high_first = concat(ctx, *(cut(ctx, pairs, {1: range(i, i + 1)}) for i in (1, 0)), axis=1)
    codes = cut(ctx, ctx.reshape(high_first, (pairs.size,)), {0: range(count)})
    table = ctx.const(np.array(_BNB_NUMBERS[quant_type], np.float32))
    numbers = take(ctx, table, ctx.cast(codes, "int64"), inside=True)
    scales = take(ctx, absmax, ctx.const(np.arange(count) // block_size), inside=True)
    weights = ctx.reshape(ctx.elementwise(scalars.mul, scales, numbers), (N, K))
    rows = ctx.reshape(a, (count_elements(a.shape[:-1]), K))
    return ctx.reshape(contract(ctx, "mk,nk->mn", rows, weights), (*a.shape[:-1], N))


def _round_blocks(ctx: Context, parts: Tensor) -> Tensor:
    """What becomes of the rows of the last axis on a grid of 127 steps to their greatest magnitude."""
    greatest = ctx.reduce(scalars.maximum, 0, ctx.elementwise(scalars.absolute, parts), [-1], keepdims=True)

    def steps(top: ir.Value) -> ir.Value:
        nothing = scalars.compare("eq", top, scalars.like(top, 0))
        return scalars.select(nothing, scalars.like(top, 1), scalars.multiply_by(top, 1 / 127))

    scale = ctx.elementwise(steps, greatest)
    return dequantize(ctx, quantize(ctx, parts, scale, None, "int8"), scale, None, parts.dtype)


def unpack_bits(ctx: Context, packed: Tensor, bits: int) -> Tensor:
    """The numbers in bytes, the lowest bits first: the last axis grows by 8 / bits."""
    each = 8 // bits
    shifts = ctx.const(np.arange(each) * bits, "uint8")

    def body(byte: ir.Value, shift: ir.Value) -> ir.Value:
        return arith.andi(arith.shrui(byte, shift), scalars.like(byte, (1 << bits) - 1))

    apart = ctx.elementwise(body, ctx.reshape(packed, (*packed.shape, 1)), shifts)
    return ctx.reshape(apart, (*packed.shape[:-1], packed.shape[-1] * each))


def _zeros(ctx: Context, given: Tensor | None, bits: int, rows: int, blocks: int) -> Tensor:
    """Zero points as (rows, blocks, 1): packed like the weights, or floats; the middle where there are none."""
    if given is None:
        return ctx.const(1 << (bits - 1), "uint8")
    packed = given.dtype == "uint8"
    columns = -(-blocks * bits // 8) if packed else blocks
    misfit = f"zero_points of shape {list(given.shape)} for {rows} rows of {blocks} blocks"
    ctx.demand_equal(given.size, rows * columns, misfit)
    whole = ctx.reshape(given, (rows, columns))
    if packed:
        whole = cut(ctx, unpack_bits(ctx, whole, bits), {1: range(blocks)})
    return ctx.reshape(whole, (rows, blocks, 1))


def _dequantize(ctx: Context, numbers: Tensor, scales: Tensor, zeros: Tensor) -> Tensor:
    wide = scalars.compute_type(element_type(scales.dtype))

    def real(value: ir.Value) -> ir.Value:
        return value if scalars.is_float(value) else arith.uitofp(wide, value)

    def body(scale: ir.Value, number: ir.Value, zero: ir.Value) -> ir.Value:
        return scalars.mul(scalars.sub(real(number), real(zero)), scale)

    return ctx.elementwise(body, scales, numbers, zeros)
