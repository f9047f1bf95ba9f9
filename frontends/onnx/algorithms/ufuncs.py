"""Floats in bodies as numpy's functions take them, so that a formula is written once for arrays and for IR."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.lib.mixins import NDArrayOperatorsMixin

from ....dialects import ir, math, scalars

_EMITTED: dict[np.ufunc, Callable[..., ir.Value]] = {
    np.add: scalars.add,
    np.subtract: scalars.sub,
    np.multiply: scalars.mul,
    np.true_divide: scalars.div,
    np.minimum: scalars.minimum,
    np.maximum: scalars.maximum,
    np.absolute: math.absf,
    np.log10: math.log10,
    np.power: math.powf,
    np.floor: math.floor,
    np.ceil: math.ceil,
    np.rint: math.roundeven,
    np.less: lambda a, b: scalars.compare("lt", a, b),
    np.less_equal: lambda a, b: scalars.compare("le", a, b),
}


class Emitted(NDArrayOperatorsMixin):
    """A float in a body, on which numpy's functions and Python's operators emit IR; numbers become its type."""

    def __init__(self, value: ir.Value) -> None:
        self.value = value

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **options: Any) -> Emitted:
        values = [o.value if isinstance(o, Emitted) else scalars.like(self.value, float(o)) for o in inputs]
        return Emitted(_EMITTED[ufunc](*values))


def select_emitted(condition: Emitted, then: Emitted, otherwise: Emitted) -> Emitted:
    """``then`` where the condition holds; both are computed."""
    return Emitted(scalars.select(condition.value, then.value, otherwise.value))
