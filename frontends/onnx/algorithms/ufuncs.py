"""Formulas that are written once, in numpy's functions, for numbers that the import knows and for those in the IR."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.lib.mixins import NDArrayOperatorsMixin

from ....core.model import numpy_dtype
from ....core.sizes import Extent, has_dynamic_extents, require_static
from ....dialects import builders, ir, math, scalars
from ....dialects.types import element_type
from ..state.casts import cast_body
from ..state.context import Context
from ..values.tensor import Tensor

Number = Any  # a number or an array of them: numpy's, or a value in the IR that takes numpy's functions

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
    np.greater: lambda a, b: scalars.compare("gt", a, b),
    np.bitwise_or: scalars.either,
}


class Emitted(NDArrayOperatorsMixin):
    """A float or a condition in a body, on which numpy's functions and Python's operators emit IR.

    Numbers become its type.
    """

    def __init__(self, value: ir.Value) -> None:
        self.value = value

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **options: Any) -> Emitted:
        return Emitted(_EMITTED[ufunc](*map(self._emit, inputs)))

    def __array_function__(self, function: Callable[..., Any], types: Any, args: Any, options: Any) -> Emitted:
        """``np.where``: both sides are computed."""
        assert function is np.where
        condition, *sides = args
        kind = next(side for side in sides if isinstance(side, Emitted))
        return Emitted(scalars.select(condition.value, *map(kind._emit, sides)))

    def _emit(self, number: Any) -> ir.Value:
        return number.value if isinstance(number, Emitted) else scalars.like(self.value, float(number))


def evaluate(
    ctx: Context,
    formula: Callable[..., Number],
    *numbers: Tensor | Extent,
    dtype: str,
    shape: Sequence[Extent] = (),
    to: str | None = None,
) -> Tensor:
    """``formula(at, *numbers)`` for each element of a shape: by numpy if all numbers are known, else in the IR.

    It is computed in ``dtype``, a float type, in which it gets the numbers and ``at``, the element's index along each
    axis. ``to`` is the result's dtype if that is another one. Tensors broadcast to the shape. A shape that is larger
    than the limits allow is refused.
    """
    to, tensors = to or dtype, [n for n in numbers if isinstance(n, Tensor)]
    extents = [n for n in numbers if not isinstance(n, Tensor)]
    if not has_dynamic_extents((*extents, *shape)) and all(t.known is not None for t in tensors):
        counts = [require_static(n) for n in shape]
        ctx.demand_size(counts, dtype)
        arrays = [np.asarray(n.known if isinstance(n, Tensor) else n).astype(dtype) for n in numbers]
        places = [i.astype(dtype) for i in np.indices(counts, sparse=True)]
        with np.errstate(all="ignore"):
            made = np.asarray(formula(places, *arrays)).astype(numpy_dtype(to))
        return ctx.const(np.broadcast_to(made, counts), to)
    kind = element_type(dtype)

    def body(*values: ir.Value) -> ir.Value:
        left = iter(values)
        given = [
            cast_body(n.dtype, dtype, True, "up")(next(left)) if isinstance(n, Tensor) else scalars.const(n, kind)
            for n in numbers
        ]
        places = [scalars.from_index(builders.linalg_index(i), kind) for i in range(len(shape))]
        made = formula([*map(Emitted, places)], *map(Emitted, given)).value
        return made if to == dtype else cast_body(dtype, to, True, "up")(made)

    return ctx.elementwise(body, *tensors, dtype=to, shape=tuple(shape))
