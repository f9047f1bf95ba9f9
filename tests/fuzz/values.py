"""Numbers for the inputs of random models: ordinary ones, and in some share those that have rules of their own."""

from __future__ import annotations

from random import Random

import ml_dtypes
import numpy as np

from tilewright.core.model import numpy_dtype


def draw_array(random: Random, dtype: str, shape: tuple[int, ...], style: str = "") -> np.ndarray:
    """An array; ``style`` may be "ordinary" (neither NaN nor extremes), "positive" or "nonzero" (both ordinary)."""
    generator = np.random.default_rng(random.getrandbits(64))
    kind = numpy_dtype(dtype)
    if dtype == "bool":
        return np.asarray(generator.random(shape) < random.choice((0.5, 0.5, 0.1, 0.9)))
    if dtype.startswith(("int", "uint")):
        return _integers(random, generator, kind, shape, style)
    return _floats(random, generator, kind, shape, style)


def _integers(
    random: Random, generator: np.random.Generator, dtype: np.dtype, shape: tuple[int, ...], style: str
) -> np.ndarray:
    info = ml_dtypes.iinfo(dtype)
    low = 1 if style == "positive" else max(info.min, -5)
    made = np.asarray(generator.integers(low, 8, shape)).astype(dtype)
    if not style and random.random() < 0.1:
        extremes = np.array([info.min, info.max, info.max // 2, 0], dtype)
        made = np.where(generator.random(shape) < 0.3, generator.choice(extremes, shape), made)
    return np.where(made == 0, made.dtype.type(1), made) if style else made


def _floats(
    random: Random, generator: np.random.Generator, dtype: np.dtype, shape: tuple[int, ...], style: str
) -> np.ndarray:
    ways = (
        lambda: generator.standard_normal(shape),
        lambda: generator.integers(-4, 5, shape).astype(np.float64),
        lambda: generator.uniform(-10, 10, shape),
        lambda: generator.standard_normal(shape) * 10.0 ** generator.integers(-3, 3, shape),
    )
    made = np.asarray(random.choice(ways)())
    if style in ("positive", "nonzero"):
        made = np.abs(made) + 0.125 if style == "positive" else np.where(np.abs(made) < 0.125, 1.0, made)
    if not style and random.random() < 0.08:
        info = ml_dtypes.finfo(dtype)
        special = np.array(
            [np.nan, np.inf, -np.inf, -0.0, float(info.smallest_subnormal), float(info.max), float(info.min)]
        )
        made = np.where(generator.random(shape) < random.choice((0.05, 0.3)), generator.choice(special, shape), made)
    with np.errstate(all="ignore"):
        return np.asarray(made).astype(dtype)


def finite(array: np.ndarray) -> bool:
    """Whether there is neither NaN nor infinity, nor a number that has hardly a neighbour, nor text."""
    if array.dtype.kind in "biuOUST":
        return array.dtype.kind in "biu"
    wide = np.abs(array.astype(np.float64))
    return bool(np.all(wide < 1e4))


def steady(array: np.ndarray) -> bool:
    """Whether sums in any order, and of zeros more or less, are the same but for rounding: NaN stays NaN."""
    return finite(np.where(np.isnan(wide), 0.0, wide)) if (wide := array.astype(np.float64)).size else True


def not_nan(array: np.ndarray) -> bool:
    """Whether all can be compared."""
    return array.dtype.kind in "biu" or not np.isnan(array.astype(np.float64)).any()
