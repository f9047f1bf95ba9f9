"""Discrete Fourier transforms of the rows of a matrix.

A short one is a product with a table of cosines and sines. A long one of a length with factors is two rounds of shorter
ones (Cooley and Tukey), any other a convolution with a chirp (Bluestein), which takes transforms of a power of two.
Tables are computed in f64, whatever the transform is in.
"""

from __future__ import annotations

import math

import numpy as np

from ....core.sizes import min_of
from ....dialects import builders, ir, scalars
from ..primitives.movement import cut
from ..state.context import Context
from ..values.tensor import Tensor

# The longest transform by a table, which has the square of the length. Of a length with factors, the lesser of which is
# so large at least, two rounds take less: 256 complex numbers 0.3 of the time.
_DIRECT, _SHORT, _LEAST_FACTOR = 512, 64, 8

# Transforms are those of rows (batch, length, parts): the parts are the real one, and the imaginary one unless it is 0.


def transform(ctx: Context, x: Tensor, sign: int, count: int) -> Tensor:
    """``y[k] = Σ x[n] exp(sign 2πi kn / N)`` for the first ``count`` k, not scaled, with both parts."""
    length = x.shape[1]
    factor = _find_factor(length)
    if length <= _DIRECT and not factor:
        return _by_table(ctx, x, _waves(length, sign)[:, :count])
    y = _in_two_rounds(ctx, x, sign, factor) if factor else _by_chirp(ctx, x, sign)
    return cut(ctx, y, {1: range(count)})


def real_inverse(ctx: Context, x: Tensor, length: int) -> Tensor:
    """The real sequence of this length whose spectrum begins with ``x`` and goes on with conjugates; not scaled."""
    half = length // 2 + 1
    x = resize(ctx, x, half)
    if length > _DIRECT or _find_factor(length):
        return cut(ctx, transform(ctx, _with_conjugates(ctx, x, length), 1, length), {2: range(1)})
    k = np.arange(half)
    times = np.where((k == 0) | (2 * k == length), 1, 2)[:, None]  # what has no conjugate counts once
    waves = _waves(length, 1)[:half] * times
    own = np.where(times == 1, 0, -np.imag(waves))  # and has no imaginary part
    return _multiply_table(ctx, x, np.stack([np.real(waves), own], axis=1)[..., None])


def _find_factor(length: int) -> int:
    """A factor by which two rounds take less than the table, or 0."""
    factors = range(math.isqrt(length), _LEAST_FACTOR - 1, -1) if length > _SHORT else ()
    return next((f for f in factors if length % f == 0), 0)


def resize(ctx: Context, x: Tensor, length: int) -> Tensor:
    """The first ``length`` elements of each row, with zeros where there are less."""
    batch, given, parts = x.shape
    kept = min_of(given, length)
    used = builders.slice_(x.value, [0] * 3, [batch, kept, parts])
    high = [0, length - kept, 0]
    return ctx.wrap(builders.pad(used, [0] * 3, high, ctx.scalar(0, x.dtype)), x.dtype)


def multiply_rows(ctx: Context, x: Tensor, factors: np.ndarray) -> Tensor:
    """Each row times complex numbers."""
    real, imaginary = np.real(factors)[:, None], np.imag(factors)[:, None]
    if x.shape[2] == 1:
        return ctx.elementwise(scalars.mul, x, ctx.const(np.concatenate([real, imaginary], axis=1), x.dtype))
    crossed = ctx.const(np.concatenate([-imaginary, imaginary], axis=1), x.dtype)

    def body(a: ir.Value, other: ir.Value, along: ir.Value, across: ir.Value) -> ir.Value:
        return scalars.fma(a, along, scalars.mul(other, across))

    return ctx.elementwise(body, x, cut(ctx, x, {2: range(1, -1, -1)}), ctx.const(real, x.dtype), crossed)


def _waves(length: int, sign: int) -> np.ndarray:
    """``exp(sign 2πi kn / N)``; the angle is reduced before it is one."""
    n = np.arange(length)
    return np.exp(sign * 2j * np.pi / length * (np.outer(n, n) % length))


def _by_table(ctx: Context, x: Tensor, waves: np.ndarray) -> Tensor:
    """``(a + bi)`` times a number as what becomes of its parts."""
    a, b = np.real(waves), np.imag(waves)
    real, imaginary = (np.stack(pair, axis=-1) for pair in ((a, b), (-b, a)))
    return _multiply_table(ctx, x, np.stack([real, imaginary][: x.shape[2]], axis=1))


def _multiply_table(ctx: Context, x: Tensor, table: np.ndarray) -> Tensor:
    """Rows times a table (length, parts, length of the result, its parts)."""
    length, parts, count, made = table.shape
    rows = ctx.reshape(x, [x.shape[0], length * parts])
    matrix = ctx.const(table.reshape(length * parts, count * made), x.dtype)
    product = ctx.wrap(builders.contract("bn,nk->bk", rows.value, matrix.value), x.dtype)
    return ctx.reshape(product, [x.shape[0], count, made])


def _in_two_rounds(ctx: Context, x: Tensor, sign: int, first: int) -> Tensor:
    """With N = AB, n = Bp + q and k = r + As: transforms over p, factors of q and r, transforms over q."""
    batch, length, parts = x.shape
    second = length // first
    columns = ctx.transpose(ctx.reshape(x, [batch, first, second, parts]), [0, 2, 1, 3])
    inner = transform(ctx, ctx.reshape(columns, [batch * second, first, parts]), sign, first)
    turns = np.outer(np.arange(second), np.arange(first)).reshape(-1)
    turned = multiply_rows(ctx, ctx.reshape(inner, [batch, length, 2]), np.exp(sign * 2j * np.pi / length * turns))
    rows = ctx.transpose(ctx.reshape(turned, [batch, second, first, 2]), [0, 2, 1, 3])
    outer = transform(ctx, ctx.reshape(rows, [batch * first, second, 2]), sign, second)
    ordered = ctx.transpose(ctx.reshape(outer, [batch, first, second, 2]), [0, 2, 1, 3])
    return ctx.reshape(ordered, [batch, length, 2])


def _by_chirp(ctx: Context, x: Tensor, sign: int) -> Tensor:
    """By 2kn = k² + n² - (k - n)²: what is left between two products with a chirp is a convolution with it."""
    length = x.shape[1]
    padded = 1 << (2 * length - 2).bit_length()
    n = np.arange(length)
    chirp = np.exp(sign * 1j * np.pi / length * (n * n % (2 * length)))
    kernel = np.zeros(padded, np.complex128)
    kernel[:length] = kernel[-n] = chirp.conj()
    spectrum = transform(ctx, resize(ctx, multiply_rows(ctx, x, chirp), padded), -1, padded)
    convolved = transform(ctx, multiply_rows(ctx, spectrum, np.fft.fft(kernel) / padded), 1, length)
    return multiply_rows(ctx, convolved, chirp)


def _with_conjugates(ctx: Context, x: Tensor, length: int) -> Tensor:
    """A whole spectrum from its first half."""
    rest = cut(ctx, x, {1: range(length - x.shape[1], 0, -1)})
    signs = ctx.const(np.array([1, -1][: x.shape[2]]), x.dtype)
    return ctx.wrap(builders.concat([x.value, ctx.elementwise(scalars.mul, rest, signs).value], 1), x.dtype)
