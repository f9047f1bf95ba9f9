"""Functions of numbers that torch-mlir has no lowering for, or a wrong or slow one."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from .arithmetic import aten

# Lanczos' approximation of the logarithm of the gamma function with g = 7: P. Godfrey, "A note on the computation of
# the convergent Lanczos complex gamma approximation" (2001). 15 digits.
_LANCZOS_SHIFT = 7
_LANCZOS = (0.99999999999980993, 676.5203681218851, -1259.1392167224028, 771.32342877765313, -176.61502916214059)
_LANCZOS += (12.507343278686905, -0.13857109526572012, 9.9843695780195716e-6, 1.5056327351493116e-7)

# Terms of the sine of pi x, the last of which is less than an ulp at a half.
_SINE = tuple((-1) ** k * math.pi ** (2 * k + 1) / math.factorial(2 * k + 1) for k in range(12))

# B(2k) / 2k of the asymptotic series of the digamma function: Abramowitz and Stegun, 6.3.18.
_DIGAMMA = (1 / 12, -1 / 120, 1 / 252, -1 / 240, 1 / 132, -691 / 32760, 1 / 12)
_DIGAMMA_FROM = 8  # where the series has 15 digits

# M. Giles, "Approximating the erfinv function" (GPU Computing Gems, 2012): in w - 2.5, from w = 5 on in sqrt(w) - 3.
_ERFINV_NEAR = (2.81022636e-08, 3.43273939e-07, -3.5233877e-06, -4.39150654e-06, 0.00021858087)
_ERFINV_NEAR += (-0.00125372503, -0.00417768164, 0.246640727, 1.50140941)
_ERFINV_FAR = (-0.000200214257, 0.000100950558, 0.00134934322, -0.00367342844, 0.00573950773)
_ERFINV_FAR += (-0.0076224613, 0.00943887047, 1.00167406, 2.83297682)


def _equal(x: Tensor, y: Any) -> Any:
    """Of floats by what they are not: torch-mlir takes a tensor for equal to itself, NaN too."""
    return torch.logical_not(torch.ne(x, y)) if x.is_floating_point() else NotImplemented


def _angle(y: Tensor, x: Tensor) -> Any:
    """Return ``atan2``: of the smaller side over the larger one, mirrored into the eighth where it belongs."""
    if not (x.is_floating_point() and y.is_floating_point()):
        return NotImplemented
    wide, high = x.abs(), y.abs()
    steep = high > wide
    ratio = torch.where(steep, wide / high, high / wide)
    ratio = torch.where(torch.logical_and(wide == high, wide == float("inf")), 1.0, ratio)
    ratio = torch.where(torch.logical_and(wide == 0, high == 0), 0.0, ratio)
    angle = torch.atan(ratio)
    angle = torch.where(steep, math.pi / 2 - angle, angle)
    angle = torch.where(torch.signbit(x), math.pi - angle, angle)
    return torch.copysign(angle, y)


def _log_gamma(x: Tensor) -> Any:
    """The logarithm of the gamma function's absolute value, in float64; by reflection below 0.5."""
    if not x.is_floating_point():
        return NotImplemented
    wide = x.to(torch.float64)
    mirrored = wide < 0.5
    z = torch.where(mirrored, 1 - wide, wide) - 1
    series = torch.full_like(z, _LANCZOS[0])
    for number, factor in enumerate(_LANCZOS[1:], 1):
        series = series + factor / (z + number)
    t = z + (_LANCZOS_SHIFT + 0.5)
    made = 0.5 * math.log(2 * math.pi) + (z + 0.5) * torch.log(t) - t + torch.log(series)
    sine = _sine_of_part(wide - torch.round(wide)).abs()  # exactly zero at whole numbers
    made = torch.where(mirrored, math.log(math.pi) - torch.log(sine) - made, made)
    return torch.where(wide.abs() == float("inf"), float("inf"), made).to(x.dtype)


def _sine_of_part(part: Tensor) -> Tensor:
    """``sin(pi * part)`` of numbers up to a half, in float64, whose sines would be calls: by Taylor's series."""
    square, made = part * part, torch.zeros_like(part)
    for factor in reversed(_SINE):
        made = made * square + factor
    return made * part


def _digamma(x: Tensor) -> Any:
    """The derivative of the logarithm of the gamma function, in float64; by reflection below zero."""
    if not x.is_floating_point():
        return NotImplemented
    wide = x.to(torch.float64)
    mirrored = wide < 0
    z = torch.where(mirrored, 1 - wide, wide)
    made = torch.zeros_like(z)
    for number in range(_DIGAMMA_FROM):
        made = made - 1 / (z + number)
    z = z + _DIGAMMA_FROM
    inverse = 1 / (z * z)
    series = torch.zeros_like(z)
    for factor in reversed(_DIGAMMA):
        series = (series + factor) * inverse
    made = made + torch.log(z) - 0.5 / z - series
    parts = wide - torch.round(wide)
    made = torch.where(mirrored, made - math.pi / torch.tan(math.pi * parts), made)
    made = torch.where(torch.logical_and(mirrored, parts == 0), float("nan"), made)
    made = torch.where(wide == float("inf"), wide, made)
    return torch.where(wide == 0, -1 / wide, made).to(x.dtype)


def _inverse_erf(x: Tensor) -> Any:
    """By polynomials, of doubles with two steps of Newton's method behind them."""
    if not x.is_floating_point():
        return NotImplemented
    wide = x if x.dtype == torch.float64 else x.float()
    w = -torch.log((1 - wide) * (1 + wide))
    near, far = w - 2.5, torch.sqrt(w) - 3
    made = torch.where(w < 5, _polynomial(_ERFINV_NEAR, near), _polynomial(_ERFINV_FAR, far)) * wide
    for _ in range(2 if x.dtype == torch.float64 else 0):
        made = made - (torch.erf(made) - wide) / (2 / math.sqrt(math.pi) * torch.exp(-made * made))
    return torch.where(wide.abs() == 1, wide * float("inf"), made).to(x.dtype)


def _polynomial(factors: tuple[float, ...], x: Tensor) -> Tensor:
    made = torch.full_like(x, factors[0])
    for factor in factors[1:]:
        made = made * x + factor
    return made


def _x_log_y(x: Tensor, y: Tensor) -> Any:
    """Zero wherever ``x`` is, unless ``y`` is NaN."""
    if not (x.is_floating_point() and y.is_floating_point()):
        return NotImplemented
    return torch.where(torch.logical_and(x == 0.0, torch.logical_not(y != y)), 0.0, x * torch.log(y))


def _remainder_of_number(x: Tensor, y: float) -> Any:
    """Return ``fmod`` by a number, as by a tensor of it."""
    return torch.fmod(x, torch.full_like(x, y)) if x.is_floating_point() else NotImplemented


def _is_close(x: Tensor, y: Tensor, rtol: float = 1e-05, atol: float = 1e-08, equal_nan: bool = False) -> Any:
    if not (x.is_floating_point() and y.is_floating_point()):
        return NotImplemented
    near = torch.logical_and((x - y).abs() <= atol + rtol * y.abs(), torch.isfinite(y))
    made = torch.logical_or(x == y, near)
    return torch.logical_or(made, torch.logical_and(x != x, y != y)) if equal_nan else made


def _rrelu(x: Tensor, noise: Tensor, lower: float = 1 / 8, upper: float = 1 / 3, training: bool = False) -> Any:
    """At inference the slope is the mean of those that are drawn in training."""
    return NotImplemented if training else (torch.where(x < 0, x * ((lower + upper) / 2), x), noise)


def _gelu(x: Tensor, approximate: str = "none") -> Any:
    """By tanh; torch-mlir has another number there than sqrt(2 / pi), which is off by one in five thousand."""
    if approximate != "tanh":
        return NotImplemented
    wide = x.float() if x.dtype in (torch.float16, torch.bfloat16) else x
    line = math.sqrt(2 / math.pi) * (wide + 0.044715 * wide * wide * wide)
    return (0.5 * wide * (1 + torch.tanh(line))).to(x.dtype)


SPECIAL_FUNCTIONS: dict[Any, Callable[..., Any]] = {
    aten.gelu.default: _gelu,
    aten.rrelu_with_noise_functional.default: _rrelu,
    aten.eq.Tensor: _equal,
    aten.atan2.default: _angle,
    aten.lgamma.default: _log_gamma,
    aten.digamma.default: _digamma,
    aten.erfinv.default: _inverse_erf,
    aten.xlogy.Tensor: _x_log_y,
    aten.isclose.default: _is_close,
    aten.fmod.Scalar: _remainder_of_number,
}
