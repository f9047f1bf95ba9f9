"""Operators on numbers, rows and bags, computed with others, as torch-mlir has no lowering for them."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor

aten = torch.ops.aten


def _is_finite(x: Tensor) -> Tensor:
    return torch.logical_and(x == x, x.abs() != float("inf")) if x.is_floating_point() else torch.ones_like(x) == 1


def _sign_bit(x: Tensor) -> Tensor:
    """Return whether a number is negative, -0.0 too; a NaN is not."""
    return torch.logical_or(x < 0, torch.logical_and(x == 0, x.reciprocal() < 0)) if x.is_floating_point() else x < 0


def _copy_sign(x: Tensor, y: Tensor) -> Tensor:
    return torch.where(_sign_bit(y), -x.abs(), x.abs())


def _hypot(x: Tensor, y: Tensor) -> Tensor:
    """Of the larger leg and the ratio of both, which does not overflow."""
    larger, smaller = torch.maximum(x.abs(), y.abs()), torch.minimum(x.abs(), y.abs())
    ratio = smaller / larger
    same = torch.logical_or(larger == 0, larger == float("inf"))
    return torch.where(same, larger, larger * torch.sqrt(1 + ratio * ratio))


def _power(x: Tensor, exponent: Any) -> Any:
    """Whole powers of integers, by squaring."""
    if x.is_floating_point() or not isinstance(exponent, int) or exponent < 0:
        return NotImplemented
    made, square = torch.ones_like(x), x
    while exponent:
        made = made * square if exponent % 2 else made
        square, exponent = square * square, exponent // 2
    return made


def _with_number(op: Callable[[Tensor, Tensor], Tensor], x: Tensor, number: int) -> Tensor:
    return op(x, torch.full((), number, dtype=x.dtype, device=x.device))


def _fill_like(x: Tensor, number: float, *, dtype: torch.dtype | None = None, **_: Any) -> Any:
    """With a byte, whose constant tensors torch-mlir takes for signed ones: what ``arange`` makes is none."""
    if (dtype or x.dtype) != torch.uint8:
        return NotImplemented
    made = torch.arange(int(number), int(number) + 1, device=x.device).to(torch.uint8)
    return made.reshape([]).expand(x.shape)


def _scatter_strided(x: Tensor, src: Tensor, size: Sequence[int], stride: Sequence[int], offset: int = 0) -> Any:
    """Elements at distances in the memory of a tensor that lies there in order."""
    if not x.is_contiguous():
        return NotImplemented
    places = torch.as_strided(torch.arange(x.numel(), device=x.device), size, stride, offset)
    return _write_at(x, places, src)


def _scatter_diagonal(x: Tensor, src: Tensor, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Tensor:
    places = torch.arange(x.numel(), device=x.device).reshape(x.shape)
    return _write_at(x, torch.diagonal(places, offset, dim1, dim2), src)


def _index(x: Tensor, indices: Sequence[Tensor | None]) -> Any:
    """By int32, which torch-mlir does not compare with sizes."""
    if not any(index is not None and index.dtype == torch.int32 for index in indices):
        return NotImplemented
    wide = [index.to(torch.int64) if index is not None and index.dtype == torch.int32 else index for index in indices]
    return aten.index.Tensor(x, wide)


def _write_at(x: Tensor, places: Tensor, src: Tensor) -> Tensor:
    """``x`` with the elements of ``src`` at places that count through it."""
    flat = x.reshape(-1).index_put((places.reshape(-1),), src.expand(places.shape).reshape(-1))
    return flat.reshape(x.shape)


# Of Chebyshev's series for log(erfc(x) / t) + x², t = 2 / (2 + x): Press et al., Numerical Recipes, "erfcc".
_ERFC = (-1.26551223, 1.00002368, 0.37409196, 0.09678418, -0.18628806, 0.27886807, -1.13520398, 1.48851587)
_ERFC += (-0.82215223, 0.17087277)


def _erfc(x: Tensor) -> Any:
    """Within 1.2e-7 of the value itself, also where ``1 - erf(x)`` would be rounded away."""
    if x.dtype == torch.float64:
        return NotImplemented
    wide = x.to(torch.float32).abs()
    t = 1 / (1 + 0.5 * wide)
    series = torch.zeros_like(t)
    for factor in reversed(_ERFC):
        series = series * t + factor
    made = t * torch.exp(series - wide * wide)
    return torch.where(x >= 0, made, 2 - made).to(x.dtype)


def _sort_stable(x: Tensor, *, stable: bool | None, dim: int = -1, descending: bool = False) -> Any:
    """All sorts are stable."""
    return torch.sort(x, dim=dim, descending=descending)


def _kth_value(x: Tensor, k: int, dim: int = -1, keepdim: bool = False) -> tuple[Tensor, Tensor]:
    values, places = torch.sort(x, dim=dim)
    found = values.narrow(dim, k - 1, 1), places.narrow(dim, k - 1, 1)
    return found if keepdim else (found[0].squeeze(dim), found[1].squeeze(dim))


def _median(x: Tensor, dim: int = -1, keepdim: bool = False) -> tuple[Tensor, Tensor]:
    """The lower one of two; of a row with a NaN that."""
    values, places = torch.sort(x, dim=dim)
    count = x.size(dim)
    chosen = torch.full_like(places.narrow(dim, 0, 1), (count - 1) // 2)
    if x.is_floating_point():
        numbers = (x == x).to(torch.int64).sum(dim, keepdim=True)
        chosen = torch.where(numbers < count, numbers, chosen)
    found = values.gather(dim, chosen), places.gather(dim, chosen)
    return found if keepdim else (found[0].squeeze(dim), found[1].squeeze(dim))


def _median_of_all(x: Tensor) -> Tensor:
    return _median(x.reshape(-1), 0)[0]


def _running_extreme(takes: Callable[[Tensor, Tensor], Tensor], x: Tensor, dim: int) -> tuple[Tensor, Tensor]:
    """The last of the extremes up to each element, and its place; a NaN stays. In log n steps (Hillis and Steele)."""
    places = torch.arange(x.shape[dim], device=x.device) if x.dim() else torch.zeros((), dtype=torch.int64)
    places = places.reshape([-1 if d == dim % x.dim() else 1 for d in range(x.dim())]).expand(x.shape)
    count, step = x.shape[dim] if x.dim() else 1, 1
    while step < count:
        before, old = x.narrow(dim, 0, count - step), places.narrow(dim, 0, count - step)
        own, place = x.narrow(dim, step, count - step), places.narrow(dim, step, count - step)
        taken = torch.logical_or(own != own, torch.logical_and(before == before, takes(own, before)))
        x = torch.cat([x.narrow(dim, 0, step), torch.where(taken, own, before)], dim)
        places = torch.cat([places.narrow(dim, 0, step), torch.where(taken, place, old)], dim)
        step *= 2
    return x, places.clone()


def _adaptive_max_pool(x: Tensor, size: Sequence[int]) -> Any:
    """By windows that are not equal, or without a batch: the maxima of each dim's windows in turn, and where they are
    in the image."""
    sides = x.shape[-len(size) :]
    if x.dim() == len(size) + 2 and all(n % m == 0 for n, m in zip(sides, size, strict=True)):
        return NotImplemented
    places = torch.arange(math.prod(sides), device=x.device).reshape(sides).expand(x.shape)
    for dim, (n, m) in reversed(list(enumerate(zip(sides, size, strict=True), -len(size)))):
        values, found = [], []
        for i in range(m):
            first, end = i * n // m, -(-(i + 1) * n // m)
            best, at = x.narrow(dim, first, end - first).max(dim, keepdim=True)
            values.append(best)
            found.append(places.narrow(dim, first, end - first).gather(dim, at))
        x, places = torch.cat(values, dim), torch.cat(found, dim)
    return x, places


def _search_sorted(
    ordered: Tensor,
    x: Tensor,
    *,
    out_int32: bool = False,
    right: bool = False,
    side: str | None = None,
    sorter: Tensor | None = None,
) -> Any:
    """How many elements of a row are less than each of ``x`` (``right``: or equal)."""
    if sorter is not None:
        return NotImplemented
    row, each = ordered.unsqueeze(-1), x.reshape(-1) if ordered.dim() == 1 else x
    each = each.unsqueeze(-2)  # beside each other, in lanes
    before = row <= each if right or side == "right" else row < each
    return before.to(torch.int32).sum(-2).reshape(x.shape).to(torch.int32 if out_int32 else torch.int64)


def _search_sorted_number(ordered: Tensor, number: float, **how: Any) -> Any:
    return _search_sorted(ordered, torch.full((), number, dtype=ordered.dtype), **how)


def _bucket(x: Tensor, boundaries: Tensor, *, out_int32: bool = False, right: bool = False) -> Any:
    return _search_sorted(boundaries, x, out_int32=out_int32, right=right)


def _distances(x: Tensor, y: Tensor, p: float, compute_mode: int | None) -> Any:
    """Of each row to each row."""
    apart = (x.unsqueeze(-2) - y.unsqueeze(-3)).abs()
    if p == 2:
        return (apart * apart).sum(-1).sqrt()
    if p == 1:
        return apart.sum(-1)
    return apart.amax(-1) if p == float("inf") else NotImplemented


def _pool_batch(op: Callable[..., Any], rank: int, x: Tensor, *how: Any) -> Any:
    """Of an input without a batch as of one with a batch of 1."""
    if x.dim() != rank + 1:
        return NotImplemented
    made = op(x.unsqueeze(0), *how)
    return made.squeeze(0) if isinstance(made, Tensor) else tuple(part.squeeze(0) for part in made)


_SUM, _MEAN, _MAX = 0, 1, 2  # embedding_bag's modes


def _embedding_bag(
    weight: Tensor,
    indices: Tensor,
    offsets: Tensor,
    scale_grad_by_freq: bool = False,
    mode: int = _SUM,
    sparse: bool = False,
    per_sample_weights: Tensor | None = None,
    include_last_offset: bool = False,
    padding_idx: int = -1,
) -> Any:
    """Sums, means or maxima of rows: each row is added to that of its bag. A bag without rows is zero."""
    starts = offsets[:-1] if include_last_offset else offsets
    bags, count = starts.size(0), indices.size(0)
    begun = torch.zeros(count + 1, dtype=torch.int64, device=indices.device)
    begun = begun.index_add(0, starts.to(torch.int64), torch.ones_like(starts, dtype=torch.int64))
    bag = torch.cumsum(begun, 0)[:count] - 1
    rows, kept = weight[indices], torch.ones_like(indices, dtype=torch.int64)
    if padding_idx >= 0:
        kept = (indices != padding_idx).to(torch.int64)
    sizes = torch.zeros(bags, dtype=torch.int64, device=indices.device).index_add(0, bag, kept)
    if mode == _MAX:
        rows = rows if padding_idx < 0 else torch.where(kept.unsqueeze(1) != 0, rows, -float("inf"))
        made = rows.new_full((bags, rows.size(1)), -float("inf"))
        made = made.scatter_reduce(0, bag.unsqueeze(1).expand(rows.shape), rows, "amax")
        made = torch.where(sizes.unsqueeze(1) > 0, made, 0.0)
    else:
        rows = rows if per_sample_weights is None else rows * per_sample_weights.unsqueeze(1)
        rows = rows if padding_idx < 0 else torch.where(kept.unsqueeze(1) != 0, rows, 0.0)
        made = rows.new_zeros(bags, rows.size(1)).index_add(0, bag, rows)
    if mode == _MEAN:
        made = made / sizes.clamp(min=1).to(weight.dtype).unsqueeze(1)
    return made, torch.zeros_like(indices), sizes, torch.zeros_like(offsets)


# Pools, by the number of the axes that their windows move along.
_POOLS = {
    aten.avg_pool2d.default: 2,
    aten.avg_pool3d.default: 3,
    aten.max_pool2d_with_indices.default: 2,
    aten.max_pool3d_with_indices.default: 3,
}

ARITHMETIC: dict[Any, Callable[..., Any]] = {
    aten.isfinite.default: _is_finite,
    aten.signbit.default: _sign_bit,
    aten.copysign.Tensor: _copy_sign,
    aten.hypot.default: _hypot,
    aten.pow.Tensor_Scalar: _power,
    aten.bitwise_or.Scalar: partial(_with_number, torch.bitwise_or),
    aten.bitwise_xor.Scalar: partial(_with_number, torch.bitwise_xor),
    aten.__lshift__.Tensor: torch.bitwise_left_shift,
    aten.__rshift__.Tensor: torch.bitwise_right_shift,
    aten.full_like.default: _fill_like,
    aten.as_strided_scatter.default: _scatter_strided,
    aten.diagonal_scatter.default: _scatter_diagonal,
    aten.index.Tensor: _index,
    aten.erfc.default: _erfc,
    aten.sort.stable: _sort_stable,
    aten.kthvalue.default: _kth_value,
    aten.median.dim: _median,
    aten.median.default: _median_of_all,
    aten.cummax.default: partial(_running_extreme, torch.ge),
    aten.cummin.default: partial(_running_extreme, torch.le),
    aten.adaptive_max_pool2d.default: _adaptive_max_pool,
    aten.adaptive_max_pool3d.default: _adaptive_max_pool,
    **{op: partial(_pool_batch, op, rank) for op, rank in _POOLS.items()},
    aten.searchsorted.Tensor: _search_sorted,
    aten.searchsorted.Scalar: _search_sorted_number,
    aten.bucketize.Tensor: _bucket,
    aten._cdist_forward.default: _distances,
    aten._embedding_bag_forward_only.default: _embedding_bag,
    aten._embedding_bag.default: _embedding_bag,
}
