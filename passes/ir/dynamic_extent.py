"""Extents that only the run knows, as tensor types show them."""

from __future__ import annotations

from collections.abc import Hashable

from ...dialects.types import DYNAMIC


class DynamicExtent(int):
    """A ``?`` of a tensor type: less than 0, equal to no number, and not comparable with the ``?`` of another tensor.

    Two ``?`` say nothing of whether they are the same size. ``SizeClasses`` gives extents that do: two of one function
    are equal where its ops prove it.

    identity: which size it is. within: what it was proved in (a function); None where it was read from a type alone.
    """

    identity: Hashable
    within: object

    def __new__(cls, identity: Hashable, within: object = None) -> DynamicExtent:
        made = super().__new__(cls, DYNAMIC)
        made.identity, made.within = identity, within
        return made

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, DynamicExtent):
            if isinstance(other, int) and other < 0:
                raise TypeError("an extent is compared with the mark of unknown ones: ask whether it is less than 0")
            return False
        proved = self.within is not None and other.within is not None and self.within == other.within
        if proved or (self.within is None and other.within is None and self.identity == other.identity):
            return self.identity == other.identity
        raise TypeError("two unknown extents are compared by their types: ask SizeClasses whether they are equal")

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __hash__(self) -> int:
        return hash(self.identity)

    def __repr__(self) -> str:
        return "?"

    __str__ = __repr__
