"""The outputs of a run: a list of arrays in the order of the model's outputs, also accessible by name."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, SupportsIndex, overload

import numpy as np

from ..core.errors import InputError


class Outputs(list[np.ndarray]):
    """A list of arrays that are found by name, too: ``outputs["logits"]``; ``names`` are theirs, in its order.

    It is a list in all else: what changes it in place leaves the names to the positions that they had.
    """

    __slots__ = ("names",)
    names: tuple[str, ...]

    @overload
    def __getitem__(self, key: SupportsIndex | str) -> np.ndarray: ...
    @overload
    def __getitem__(self, key: slice) -> list[np.ndarray]: ...
    def __getitem__(self, key: Any) -> Any:
        """The array of this position or name, or a list of a slice's; InputError for a name that no output has."""
        if isinstance(key, str):
            return list.__getitem__(self, find_position(key, self.names))
        return list.__getitem__(self, key)

    def items(self) -> Iterator[tuple[str, np.ndarray]]:
        """Pairs of name and array: ``dict(outputs.items())``."""
        return zip(self.names, self, strict=False)

    def of(self, names: Sequence[str]) -> Outputs:
        """Those of these names, in their order; InputError for a name that no output has."""
        made = Outputs(self[name] for name in names)
        made.names = tuple(names)
        return made


def find_position(name: str, names: Sequence[str]) -> int:
    """The position of the output of this name; InputError where there is none."""
    try:
        return names.index(name)
    except ValueError:
        known = ", ".join(map(repr, names)) or "none"
        raise InputError(f"the program has no output '{name}': its outputs are {known}") from None
