"""The values that converters take and give: an SSA value, or a value known while importing, with dtype and shape."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ....core.sizes import Extent, count_elements, has_dynamic_extents
from ....dialects import ir
from ....dialects.types import is_float, is_signed


class Tensor:
    """A tensor of the model: its dtype (Tilewright's name), its shape, and where its value comes from.

    ``known`` is the value as a numpy array where the import knows it: small initialisers and constants, and what is
    computed from them alone. ``value`` is the SSA value; a known tensor or a weight enters the IR only when it is asked
    for. ``load`` reads a weight's data, mapped, without putting it into the IR. ``items`` are the elements of a small
    integer tensor as sizes, some of which the run alone knows: what is computed from the shapes of dynamic tensors.
    """

    __slots__ = ("_make", "_value", "dtype", "items", "known", "load", "shape")

    # Of extents. A converter that needs a number where there is a symbol refuses by that: the symbol raises.
    shape: tuple[Any, ...]

    def __init__(
        self,
        dtype: str,
        shape: tuple[Extent, ...],
        make: Callable[[], ir.Value],
        known: np.ndarray | None = None,
        load: Callable[[], np.ndarray] | None = None,
        items: tuple[Extent, ...] | None = None,
    ) -> None:
        self.dtype = dtype
        self.shape = shape
        self.known = known
        self.load = load
        self.items = items
        self._make = make
        self._value: ir.Value | None = None

    @property
    def value(self) -> ir.Value:
        """The SSA value, put into the IR on first use."""
        if self._value is None:
            self._value = self._make()
        return self._value

    @property
    def rank(self) -> int:
        """The number of axes."""
        return len(self.shape)

    @property
    def size(self) -> Any:
        """The number of elements."""
        return count_elements(self.shape)

    @property
    def is_dynamic(self) -> bool:
        """Whether an extent is known only when the program runs."""
        return has_dynamic_extents(self.shape)

    @property
    def signed(self) -> bool:
        """Whether integer arithmetic on it is signed; a bool counts as unsigned."""
        return is_signed(self.dtype)

    @property
    def floating(self) -> bool:
        """Whether its elements are floating-point numbers."""
        return is_float(self.dtype)

    def __repr__(self) -> str:
        known = "" if self.known is None else f" = {np.array2string(self.known, threshold=8)}"
        return f"{self.dtype}{list(self.shape)}{known}"
