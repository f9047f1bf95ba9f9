"""Which of torch's operators are decomposed before torch-mlir sees them, and into what."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Sequence
from functools import partial, reduce
from typing import Any

import torch
from torch_mlir.extras.fx_decomp_util import get_decomposition_table

from .arithmetic import ARITHMETIC
from .grouped import grouped_mm, grouped_product
from .onnx_operators import list_onnx_operators
from .operators import GROUPED
from .special_functions import SPECIAL_FUNCTIONS

_HALF = (torch.float16, torch.bfloat16)


def make_decompositions(open_sizes: bool = False, sized: Collection[Any] = ()) -> dict[Any, Callable[..., Any]]:
    """By operator, the function that computes it with others; with ``open_sizes`` for a program that has such ones.

    Arguments of the operators ``sized`` depend on these: they become no nodes of ONNX's, whose attributes are known.

    torch-mlir's own choice, what it has no lowering for (``arithmetic.py``), and here those whose own choice loses what
    an operator is: variances go through float64 there, and a clamp gives numbers for NaN.
    """
    aten = torch.ops.aten
    return (
        dict(get_decomposition_table())
        | ARITHMETIC
        | SPECIAL_FUNCTIONS
        | list_onnx_operators(open_sizes, sized)
        | {
            aten.native_layer_norm.default: _layer_norm,
            aten.native_group_norm.default: _group_norm,
            aten._native_batch_norm_legit_no_training.default: _batch_norm,
            aten.convolution.default: _convolution,
            aten.var.correction: _variance,
            aten.var_mean.correction: _variance_and_mean,
            aten.scaled_dot_product_attention.default: _decompose_attention,
            aten._scaled_dot_product_flash_attention_for_cpu.default: _flash_attention,
            aten._native_multi_head_attention.default: _multi_head_attention,
            aten._transformer_encoder_layer_fwd.default: _encoder_layer,
            aten.index_put.default: _index_put,
            aten._unsafe_index_put.default: _unsafe_index_put,
            aten.constant_pad_nd.default: _pad,
            aten.roll.default: _roll,
            aten.histc.default: _histc,
            aten._grouped_mm.default: partial(grouped_mm, open_sizes),
            GROUPED: partial(grouped_product, open_sizes),
            aten.clamp.default: _clamp,
            aten.clamp_min.default: lambda x, low: _clamp(x, low, None),
            aten.clamp_max.default: lambda x, high: _clamp(x, None, high),
            aten.hardtanh.default: lambda x, low=-1.0, high=1.0: _clamp(x, low, high),
        }
    )


def _layer_norm(
    x: torch.Tensor, shape: Sequence[int], weight: torch.Tensor | None, bias: torch.Tensor | None, eps: float
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Over the last dims; with the mean and one over the deviation of each row."""
    y, mean, inverse = _normalize(x, list(range(x.dim() - len(shape), x.dim())), eps)
    return _affine(y, weight, bias).to(x.dtype), mean, inverse


def _group_norm(
    x: torch.Tensor,
    weight: torch.Tensor | None,
    bias: torch.Tensor | None,
    n: int,
    channels: int,
    pixels: int,
    groups: int,
    eps: float,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Over groups of channels and all pixels; with the mean and one over the deviation of each group."""
    y, mean, inverse = _normalize(x.reshape(n, groups, -1), [2], eps)
    sides = (1, channels, *(1 for _ in x.shape[2:]))
    parts = (None if part is None else part.reshape(sides) for part in (weight, bias))
    return _affine(y.reshape(x.shape), *parts).to(x.dtype), mean.reshape(n, groups), inverse.reshape(n, groups)


def _batch_norm(
    x: torch.Tensor,
    weight: torch.Tensor | None,
    bias: torch.Tensor | None,
    mean: torch.Tensor,
    variance: torch.Tensor,
    momentum: float,
    eps: float,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """By running statistics: one factor and one addend for each channel, known ahead of time."""
    factor = torch.rsqrt(variance + eps)
    factor = factor if weight is None else factor * weight
    addend = -mean * factor if bias is None else bias - mean * factor
    sides = (1, -1, *(1 for _ in x.shape[2:]))
    y = x * factor.reshape(sides) + addend.reshape(sides)
    return y.to(x.dtype), x.new_empty(0), x.new_empty(0)


def _convolution(
    x: torch.Tensor,
    weight: torch.Tensor,
    bias: torch.Tensor | None,
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    transposed: bool,
    output_padding: Sequence[int],
    groups: int,
) -> Any:
    """A transposed one with strides, whose input torch-mlir would fill with zeros, as one for each place in a stride.

    ``y[u * s + r] = sum over q of x[u - q] * w[q * s + r]``: a convolution that makes ``s`` times the channels, and
    these put between one another.
    """
    strides, rank = list(stride), x.dim() - 2
    if not transposed or all(s == 1 for s in strides) or any(d != 1 for d in dilation):
        return NotImplemented
    sizes = list(weight.shape[2:])
    steps = [-(-k // s) for k, s in zip(sizes, strides, strict=True)]
    missing = [(0, q * s - k) for k, q, s in zip(sizes, steps, strides, strict=True)]
    weight = _pad_zeros(weight, missing)
    inputs, made = weight.shape[0] // groups, weight.shape[1]
    parts = [n for q, s in zip(steps, strides, strict=True) for n in (q, s)]
    weight = weight.reshape(groups, inputs, made, *parts)
    q_dims, r_dims = ([3 + 2 * i + j for i in range(rank)] for j in (0, 1))
    weight = weight.permute(0, 2, *r_dims, 1, *q_dims).reshape(-1, inputs, *steps)
    weight = weight.flip(list(range(2, rank + 2)))
    ends = [
        (n - 1) * s - p + k + extra
        for n, s, p, k, extra in zip(x.shape[2:], strides, padding, sizes, output_padding, strict=True)
    ]
    wide = [(n + q - 1) * s for n, q, s in zip(x.shape[2:], steps, strides, strict=True)]
    missing = [(0, max(0, end - n)) for end, n in zip(ends, wide, strict=True)]
    ones, none = [1] * rank, [0] * rank
    within = bias is not None and not any(n for _, n in missing)  # then each place has a product to be added to
    each = bias[:, None].expand(-1, math.prod(strides)).reshape(-1) if bias is not None and within else None
    y = torch.ops.aten.convolution(x, weight, each, ones, [q - 1 for q in steps], ones, False, none, groups)
    y = y.reshape(y.shape[0], groups * made, *strides, *y.shape[2:])
    order = [d for i in range(rank) for d in (2 + rank + i, 2 + i)]
    y = _pad_zeros(y.permute(0, 1, *order).reshape(*y.shape[:2], *wide), missing)
    for i, (start, end) in enumerate(zip(padding, ends, strict=True)):
        y = y.narrow(2 + i, start, end - start)
    return y if bias is None or within else y + bias.reshape(-1, *ones)


def _pad_zeros(x: torch.Tensor, edges: Sequence[tuple[int, int]]) -> torch.Tensor:
    """The last dims with so many zeros before and behind them."""
    flat = [n for pair in reversed(edges) for n in pair]
    return torch.constant_pad_nd(x, flat) if any(flat) else x


def _normalize(x: torch.Tensor, dims: list[int], eps: float) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    x = x.float() if x.dtype in _HALF else x
    mean = x.mean(dims, keepdim=True)
    centred = x - mean
    inverse = torch.rsqrt((centred * centred).mean(dims, keepdim=True) + eps)
    return centred * inverse, mean, inverse


def _affine(y: torch.Tensor, weight: torch.Tensor | None, bias: torch.Tensor | None) -> torch.Tensor:
    y = y if weight is None else y * weight
    return y if bias is None else y + bias


def _variance(
    x: torch.Tensor, dim: Sequence[int] | None = None, *, correction: float | None = None, keepdim: bool = False
) -> torch.Tensor:
    """The variance along dims, or of all, in two passes."""
    return _variance_and_mean(x, dim, correction=correction, keepdim=keepdim)[0]


def _variance_and_mean(
    x: torch.Tensor, dim: Sequence[int] | None = None, *, correction: float | None = None, keepdim: bool = False
) -> tuple[torch.Tensor, torch.Tensor]:
    dims = list(dim) if dim else list(range(x.dim()))
    given, x = x.dtype, x.float() if x.dtype in _HALF else x
    mean = x.mean(dims, keepdim=True)
    squares = (x - mean) * (x - mean)
    count = math.prod(x.shape[d] for d in dims) - (1 if correction is None else correction)
    variance = squares.sum(dims, keepdim=keepdim) / count
    return variance.to(given), (mean if keepdim else x.mean(dims)).to(given)


def _decompose_attention(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attn_mask: torch.Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> torch.Tensor:
    """``softmax(query key^T scale + mask) value``; a row that the mask leaves nothing of is zero."""
    if enable_gqa:
        shared = query.shape[-3] // key.shape[-3]
        key, value = key.repeat_interleave(shared, -3), value.repeat_interleave(shared, -3)
    if is_causal:
        rows, columns = (torch.arange(x.shape[-2], device=query.device) for x in (query, key))
        attn_mask = rows[:, None] >= columns
    outer = query.shape[:-2]
    if _is_one_batch(outer, attn_mask):  # then no view is between the products
        attn_mask = None if attn_mask is None else attn_mask.reshape(-1, *attn_mask.shape[-2:])
        query, key, value = (x.reshape(-1, *x.shape[-2:]) for x in (query, key, value))
    scores = query @ key.transpose(-2, -1) * (query.shape[-1] ** -0.5 if scale is None else scale)
    if attn_mask is None:
        made = torch.softmax(scores, -1) @ value
    else:
        if attn_mask.dtype == torch.bool:
            attn_mask = torch.where(attn_mask, 0.0, -math.inf).to(scores.dtype)
        scores = scores + attn_mask
        made = (torch.softmax(scores, -1) if is_causal else _safe_softmax(scores)) @ value
    return made.reshape(*outer, *made.shape[-2:])


def _is_one_batch(outer: Sequence[int], mask: torch.Tensor | None) -> bool:
    """Return whether batch and heads can be one dim: one of them is 1, or a mask is the same for all."""
    if mask is None or all(n == 1 for n in mask.shape[:-2]):
        return True
    return sum(n != 1 for n in outer) <= 1 and len(mask.shape) - 2 == len(outer)


def _safe_softmax(scores: torch.Tensor) -> torch.Tensor:
    """Along the last dim; zero for a row of negative infinities alone, any other row has a sum of one or more."""
    numbers = torch.finfo(scores.dtype)
    powers = torch.exp(scores - _clamp(scores.amax(-1, keepdim=True), numbers.min))
    return powers / _clamp(powers.sum(-1, keepdim=True), numbers.tiny)


def _flash_attention(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    *,
    attn_mask: torch.Tensor | None = None,
    scale: float | None = None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """The same, with sums that the backward pass would need."""
    made = _decompose_attention(query, key, value, attn_mask, dropout_p, is_causal, scale)
    return made, query.new_zeros(query.shape[:-1])


_Affine = tuple[torch.Tensor, torch.Tensor]


def _multi_head_attention(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    size: int,
    heads: int,
    qkv_weight: torch.Tensor,
    qkv_bias: torch.Tensor,
    weight: torch.Tensor,
    bias: torch.Tensor,
    mask: torch.Tensor | None = None,
    need_weights: bool = True,
    average_attn_weights: bool = True,
    mask_type: int | None = None,
) -> Any:
    """nn.MultiheadAttention at inference, without its weights as a result."""
    if need_weights or query is not key or key is not value:
        return NotImplemented
    made = _self_attention(query, heads, (qkv_weight, qkv_bias), (weight, bias), mask, mask_type)
    return made, query.new_empty(0)


def _self_attention(
    x: torch.Tensor, heads: int, split: _Affine, join: _Affine, mask: torch.Tensor | None, mask_type: int | None
) -> torch.Tensor:
    """Of (batch, length, size). A mask says what is left out: of (length, length) for type 0, (batch, length) for 1."""
    batch, length, size = x.shape
    parts = torch.nn.functional.linear(x, *split).reshape(batch, length, 3, heads, size // heads)
    query, key, value = parts.permute(2, 0, 3, 1, 4).unbind()
    if mask is not None:
        mask = ~(mask[:, None, None, :] if mask_type == 1 else mask).to(torch.bool)
    made = _decompose_attention(query, key, value, mask)
    return torch.nn.functional.linear(made.transpose(1, 2).reshape(batch, length, size), *join)


def _encoder_layer(
    x: torch.Tensor,
    size: int,
    heads: int,
    qkv_weight: torch.Tensor,
    qkv_bias: torch.Tensor,
    weight: torch.Tensor,
    bias: torch.Tensor,
    use_gelu: bool,
    norm_first: bool,
    eps: float,
    first_scale: torch.Tensor,
    first_shift: torch.Tensor,
    second_scale: torch.Tensor,
    second_shift: torch.Tensor,
    wide_weight: torch.Tensor,
    wide_bias: torch.Tensor,
    narrow_weight: torch.Tensor,
    narrow_bias: torch.Tensor,
    mask: torch.Tensor | None = None,
    mask_type: int | None = None,
) -> torch.Tensor:
    """nn.TransformerEncoderLayer at inference."""
    functional = torch.nn.functional
    split, join = (qkv_weight, qkv_bias), (weight, bias)
    first, second = (first_scale, first_shift), (second_scale, second_shift)
    activation = functional.gelu if use_gelu else functional.relu

    def attended(x: torch.Tensor) -> torch.Tensor:
        return _self_attention(x, heads, split, join, mask, mask_type)

    def fed_forward(x: torch.Tensor) -> torch.Tensor:
        return functional.linear(activation(functional.linear(x, wide_weight, wide_bias)), narrow_weight, narrow_bias)

    def norm(x: torch.Tensor, affine: _Affine) -> torch.Tensor:
        return functional.layer_norm(x, (size,), *affine, eps)

    if norm_first:
        x = x + attended(norm(x, first))
        return x + fed_forward(norm(x, second))
    x = norm(x + attended(x), first)
    return norm(x + fed_forward(x), second)


def _clamp(x: torch.Tensor, low: float | None = None, high: float | None = None) -> Any:
    """Between two numbers, or within one; torch-mlir's own lowering makes a number of NaN."""
    if not x.dtype.is_floating_point:
        return NotImplemented
    if low is not None:
        x = torch.where(x < low, low, x)
    return x if high is None else torch.where(x > high, high, x)


def _pad(x: torch.Tensor, amounts: Sequence[int], value: float = 0) -> Any:
    """Pad, and slice off first what negative amounts leave out.

    MLIR folds a ``tensor.pad`` that keeps the shape, even if it moves the elements along an axis.
    """
    if all(amount >= 0 for amount in amounts):
        return NotImplemented
    for number, (low, high) in enumerate(zip(amounts[::2], amounts[1::2], strict=True)):
        dim = x.dim() - 1 - number
        first, end = max(-low, 0), x.shape[dim] - max(-high, 0)
        x = torch.ops.aten.slice.Tensor(x, dim, first, end)
    return torch.ops.aten.constant_pad_nd.default(x, [max(amount, 0) for amount in amounts], value)


def _index_put(
    x: torch.Tensor, indices: Sequence[torch.Tensor | None], values: torch.Tensor, accumulate: bool = False
) -> Any:
    """Elements where a mask is true are chosen; torch-mlir collects their places, and reads a place if there is none.

    A mask among other indices is taken where each of these is one place, and the value is one.
    """
    if sum(index is not None and index.dtype == torch.bool for index in indices) != 1:
        return NotImplemented
    dims, dim = [], 0  # the first one that each index is of
    for index in indices:
        dims.append(dim)
        dim += index.dim() if index is not None and index.dtype == torch.bool else 1
    given = [(d, index) for d, index in zip(dims, indices, strict=True) if index is not None]
    if len(given) == 1:
        chosen, values = _spread_mask(x, *given[0], values)
    elif values.numel() == 1 and all(index.dtype == torch.bool or index.numel() == 1 for _, index in given):
        masks = (_unsqueeze_mask(x, d, i if i.dtype == torch.bool else _is_place(i, x.shape[d])) for d, i in given)
        chosen, values = reduce(torch.logical_and, masks), values.reshape([])
    else:
        return NotImplemented
    return torch.where(chosen, x + values if accumulate else values, x)


def _unsafe_index_put(
    x: torch.Tensor, indices: Sequence[torch.Tensor | None], values: torch.Tensor, accumulate: bool = False
) -> torch.Tensor:
    """What checks its indices as well: of the other, torch-mlir takes no dims that are left out."""
    return torch.ops.aten.index_put.default(x, indices, values, accumulate)


def _spread_mask(
    x: torch.Tensor, dim: int, mask: torch.Tensor, values: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """A mask from a dim on, and the values for its true elements, in order, or one for all, as they lie in ``x``."""
    rank = mask.dim()
    values = values.reshape(*[1] * (x.dim() - rank + 1 - values.dim()), *values.shape)
    before, count, behind = values.shape[:dim], values.shape[dim], values.shape[dim + 1 :]
    if count == 1:
        return _unsqueeze_mask(x, dim, mask), values.reshape(*before, *[1] * rank, *behind)
    if count == 0:
        return torch.zeros_like(x, dtype=torch.bool), x
    places = torch.cumsum(mask.reshape(-1).to(torch.int64), 0) - 1
    values = values.index_select(dim, places.clamp(0, count - 1))
    return _unsqueeze_mask(x, dim, mask), values.reshape(*before, *mask.shape, *behind)


def _unsqueeze_mask(x: torch.Tensor, dim: int, mask: torch.Tensor) -> torch.Tensor:
    """A mask of the dims from ``dim`` on, to be broadcast to ``x``."""
    return mask.reshape(*[1] * dim, *mask.shape, *[1] * (x.dim() - dim - mask.dim()))


def _is_place(index: torch.Tensor, size: int) -> torch.Tensor:
    """A mask of one dim, true at an index, which may count from the end."""
    index = index.reshape([])
    return torch.arange(size, device=index.device) == torch.where(index < 0, index + size, index)


def _histc(x: torch.Tensor, bins: int = 100, min: float = 0, max: float = 0) -> Any:
    """How many elements each of the bins between two numbers has; between an input's own extremes torch-mlir's."""
    if not min < max:
        return NotImplemented
    flat = x.reshape(-1)
    places = ((flat - min) * bins / (max - min)).to(torch.int64).clamp(max=bins - 1)
    within = (flat >= min) & (flat <= max)
    found = (places == torch.arange(bins, device=x.device)[:, None]) & within
    return found.to(torch.int64).sum(1).to(x.dtype)


def _roll(x: torch.Tensor, shifts: Sequence[int], dims: Sequence[int] = ()) -> torch.Tensor:
    """Two slices, one behind the other; without dims of all elements in a row, which torch-mlir does not lower."""
    if not dims:
        return _roll(x.reshape(-1), shifts, [0]).reshape(x.shape)
    for shift, dim in zip(shifts, dims, strict=True):
        size = x.shape[dim]
        rest = -shift % size if size else 0
        x = torch.cat((x.narrow(dim, rest, size - rest), x.narrow(dim, 0, rest)), dim) if rest else x
    return x
