"""Decompositions of torch's resizing: to nodes of ONNX's Resize, and of adaptive pools to means of windows."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch._decomp import decomposition_table

from ..nodes import Constant
from .arithmetic import aten
from .nodes import make_node

_RESIZED_FLOATS = (torch.float32, torch.float64)
_WIDENED_FLOATS = (torch.float16, torch.bfloat16)
_LINEAR = ("upsample_linear1d", "upsample_bilinear2d", "upsample_trilinear3d")
# Elements at the places where they begin, and those whose middles are nearest.
_NEAREST = {"coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"}
_NEAREST_MIDDLE = {"coordinate_transformation_mode": "half_pixel", "nearest_mode": "round_prefer_ceil"}
# Operators of interpolation, and the mode of ONNX's that each is.
_MODES = {**dict.fromkeys(_LINEAR, "linear"), "upsample_bicubic2d": "cubic"}


def list_resizing() -> dict[Any, Callable[..., Any]]:
    """By operator, the function that makes others of it."""
    found: dict[Any, Callable[..., Any]] = {}
    for name, mode in _MODES.items():
        overloads = getattr(aten, name)
        found[overloads.vec] = partial(_interpolate, overloads.vec, mode)
        found[overloads.default] = partial(_interpolate_to, overloads.default, mode)
    for rank in (1, 2, 3):
        for name, how in ((f"upsample_nearest{rank}d", _NEAREST), (f"_upsample_nearest_exact{rank}d", _NEAREST_MIDDLE)):
            overloads = getattr(aten, name)
            found[overloads.vec] = partial(_repeat_nearest, overloads.vec, how)
            found[overloads.default] = partial(_repeat_nearest_to, overloads.default, how)
    for operator in (aten._adaptive_avg_pool2d.default, aten._adaptive_avg_pool3d.default):
        found[operator] = partial(_adaptive_mean, operator)
    return found


def _interpolate(
    operator: Any,
    mode: str,
    x: Tensor,
    size: Sequence[int] | None,
    align_corners: bool,
    factors: Sequence[float] | None,
) -> Any:
    """To a size, or by factors."""
    if x.dtype not in (*_RESIZED_FLOATS, *_WIDENED_FLOATS) or (factors is not None and not _are_whole(x, factors)):
        return _leave(operator, x, size, align_corners, factors)
    corners = "align_corners" if align_corners else "half_pixel"
    wide = x if x.dtype in _RESIZED_FLOATS else x.float()
    return _make_resize(wide, size, factors, mode=mode, coordinate_transformation_mode=corners).to(x.dtype)


def _interpolate_to(
    operator: Any,
    mode: str,
    x: Tensor,
    size: Sequence[int],
    align_corners: bool,
    *factors: float | None,
) -> Any:
    given = [factor for factor in factors if factor is not None]
    if given:
        return _leave(operator, x, size, align_corners, *factors)
    return _interpolate(operator, mode, x, size, align_corners, None)


def _repeat_nearest(
    operator: Any,
    how: Mapping[str, str],
    x: Tensor,
    size: Sequence[int] | None,
    factors: Sequence[float] | None,
) -> Any:
    """The nearest elements, where each is repeated as many times, or one of as many is taken.

    Others depend on how places are rounded.
    """
    if factors is not None:
        equal = all(float(factor).is_integer() for factor in factors)
    else:
        equal = not any(m % n and n % m for n, m in zip(x.shape[2:], size or (), strict=True))
    if x.dtype not in _RESIZED_FLOATS or not equal:
        return _leave(operator, x, size, factors)
    return _make_resize(x, size, factors, mode="nearest", **how)


def _repeat_nearest_to(
    operator: Any, how: Mapping[str, str], x: Tensor, size: Sequence[int], *factors: float | None
) -> Any:
    if any(factor is not None for factor in factors):
        return _leave(operator, x, size, *factors)
    return _repeat_nearest(operator, how, x, size, None)


def _are_whole(x: Tensor, factors: Sequence[float]) -> bool:
    """Return whether factors make whole extents: else a part of the last element is left out."""
    return all((n * factor).is_integer() for n, factor in zip(x.shape[2:], factors, strict=True))


def _make_resize(x: Tensor, size: Sequence[int] | None, factors: Sequence[float] | None, **how: Any) -> Tensor:
    """To a size; by factors, where these are whole numbers, which any size may have."""
    sides = x.shape[2:]
    made = list(size or ())
    if factors is not None:
        made = [int(n * factor) for n, factor in zip(sides, factors, strict=True)]
    if factors is not None and all(float(factor).is_integer() for factor in factors):
        inputs = (x, None, Constant([float(factor) for factor in factors], "float32"))
    else:
        inputs = (x, None, None, Constant(made, "int64"))
    axes = list(range(2, x.dim()))
    return make_node("Resize", inputs, [([*x.shape[:2], *made], x.dtype)], axes=axes, **how)


def _leave(operator: Any, *arguments: Any) -> Any:
    """What torch makes of an operator by itself."""
    known = decomposition_table.get(operator)
    return NotImplemented if known is None else known(*arguments)


def _adaptive_mean(operator: Any, x: Tensor, size: Sequence[int]) -> Any:
    """By windows that are not equal: the means of each dim's windows in turn, those of rows first."""
    sides = x.shape[-len(size) :]
    if x.dtype not in _RESIZED_FLOATS or all(n % m == 0 for n, m in zip(sides, size, strict=True)):
        return _leave(operator, x, size)
    for dim, (n, m) in enumerate(zip(sides, size, strict=True), -len(size)):
        ends = [(i * n // m, -(-(i + 1) * n // m)) for i in range(m)]
        x = torch.cat([x.narrow(dim, first, end - first).mean(dim, keepdim=True) for first, end in ends], dim)
    return x
