"""Random weights for the variables of a network."""

from __future__ import annotations

import math
from typing import Any, NoReturn

import numpy as np

from ....core.errors import ModelError
from ....core.model import numpy_dtype
from ... import nd
from ...network.module import IRModule

Workload = tuple[IRModule, dict[str, nd.NDArray]]
# What variables begin with, by the ends of their names.
_NUMBERS = {"bias": 0.0, "gamma": 1.0, "beta": 0.0, "mean": 0.0, "var": 1.0}


class Initializer:
    """Fills an array by the name of its variable: 0 and 1 for those of norms, and weights by ``_init_weight``."""

    def __init__(self, **given: Any) -> None:
        self._kwargs = given

    def __call__(self, desc: str, arr: np.ndarray) -> None:
        found = next((value for end, value in _NUMBERS.items() if desc.endswith(end)), None)
        if desc.endswith("weight"):
            self._init_weight(desc, arr)
        elif found is not None:
            arr[...] = found
        else:
            self._init_default(desc, arr)

    def _init_weight(self, name: str, arr: np.ndarray) -> None:
        raise NotImplementedError

    def _init_default(self, name: str, arr: np.ndarray) -> NoReturn:
        raise ModelError(
            f"variable '{name}' has no numbers to begin with: names end with weight, {', '.join(_NUMBERS)}, or give"
            " create_workload an initializer"
        )


class Xavier(Initializer):
    """Weights of the size that keeps that of what they are multiplied with."""

    def __init__(self, rnd_type: str = "uniform", factor_type: str = "avg", magnitude: float = 3) -> None:
        super().__init__(rnd_type=rnd_type, factor_type=factor_type, magnitude=magnitude)
        if rnd_type not in ("uniform", "gaussian") or factor_type not in ("avg", "in", "out"):
            raise ModelError("rnd_type is 'uniform' or 'gaussian', factor_type is 'avg', 'in' or 'out'")
        self.rnd_type, self.factor_type, self.magnitude = rnd_type, factor_type, magnitude

    def _init_weight(self, name: str, arr: np.ndarray) -> None:
        if arr.ndim < 2:
            raise ModelError(f"weight '{name}' has one axis: Xavier's numbers are for two and more")
        reach = math.prod(arr.shape[2:])
        factors = {"in": arr.shape[1] * reach, "out": arr.shape[0] * reach}
        factors["avg"] = (factors["in"] + factors["out"]) / 2
        # Of a convolution of each channel alone a filter is all that counts.
        factor = reach if "depthwise" in name else factors[self.factor_type]
        scale = math.sqrt(self.magnitude / max(factor, 1))
        draw = np.random.uniform if self.rnd_type == "uniform" else np.random.normal
        arr[...] = draw(-scale, scale, arr.shape) if self.rnd_type == "uniform" else draw(0, scale, arr.shape)


def create_workload(net: Any, initializer: Initializer | None = None, seed: int = 0) -> Workload:
    """The module of a function, and random weights for all its variables but "data".

    Raises ModelError for variables whose name does not say what they are.
    """
    mod = IRModule.from_expr(net).infer_types()
    np.random.seed(seed)  # as TVM does: the numbers are the same for a seed
    fill = initializer or Xavier()
    params: dict[str, nd.NDArray] = {}
    for each in mod["main"].params:
        shape = each.checked_type.shape
        if each.name_hint == "data" or not all(isinstance(extent, int) for extent in shape):
            continue
        array = np.zeros(shape, numpy_dtype(each.checked_type.dtype))
        fill(each.name_hint, array)
        params[each.name_hint] = nd.array(array)
    return mod, params
