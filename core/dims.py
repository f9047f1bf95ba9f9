"""The notation for one dimension of an input: a number, a range, a name for either, or nothing.

``--input-shape`` takes it, and commands print it: ``3``, ``1..8``, ``1..``, ``n``, ``n=1..8``
and ``?``.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from .errors import ModelError
from .intervals import Interval
from .sizes import Extent, bounds_of

ShapeTexts = Mapping[str, Sequence[int | str]]  # by input: numbers, and texts as ``parse`` takes them
InputShapes = Mapping[str, Sequence[int | str] | int | str]  # the same, and by the name of a size what that is

SIZES = Interval(0)  # what an extent may be of which nothing is known
_NAME = re.compile(r"[A-Za-z_]\w*", re.ASCII)
_SIZES = re.compile(r"(?:(?P<name>[A-Za-z_]\w*)=)?(?P<low>\d+)(?P<to>\.\.(?P<high>\d+)?)?", re.ASCII)


@dataclass(frozen=True)
class Dim:
    """A dimension that stays open: the name of its symbol, "" for the file's own, and the sizes that it may have."""

    name: str = ""
    within: Interval = SIZES


Given = int | Dim


def parse(text: str) -> Given:
    """The dimension that a text says; ModelError for one that says none."""
    if text == "?":
        return Dim()
    if _NAME.fullmatch(text):
        return Dim(text)
    found = _SIZES.fullmatch(text)
    if not found:
        raise ModelError(f"'{text}' is not a dimension: give a number, a range (1..8), a name, both (name=1..8), or ?")
    low = int(found["low"])
    high = low if found["to"] is None else int(found["high"]) if found["high"] else None
    if high is not None and high < low:
        raise ModelError(f"'{text}' is a range without a size")
    return low if low == high and not found["name"] else Dim(found["name"] or "", Interval(low, high))


def option_text(name: str, said: Sequence[int | str] | int | str) -> str:
    """One of ``InputShapes`` as ``--input-shape`` takes it: ``x:1..8,3`` or ``batch=1..8``."""
    return f"{name}={said}" if isinstance(said, (int, str)) else f"{name}:{','.join(map(str, said))}"


def freeze(shapes: InputShapes | None) -> dict[str, tuple[int | str, ...] | int | str]:
    """The user's shapes as tuples. Raises ModelError for a value that is neither a shape nor a size."""
    return {name: _freeze(name, said) for name, said in (shapes or {}).items()}


def _freeze(name: str, said: object) -> tuple[int | str, ...] | int | str:
    if isinstance(said, (int, str)):
        return said
    try:
        return tuple(said)  # type: ignore[arg-type]  # who has no types may give anything
    except TypeError:
        raise ModelError(
            f"input_shapes has {said!r} for '{name}': give an input's shape as a list, or the size of a name"
        ) from None


def format_extent(extent: Extent, unnamed: str = "") -> str:
    """An extent as ``parse`` takes it, with the range of a symbol that has one; the name ``unnamed`` is left out."""
    within = bounds_of(extent)
    if isinstance(extent, int) or not extent.is_symbol:
        return str(extent)
    name = "" if str(extent) == unnamed else str(extent)
    if within == SIZES:
        return name or "?"
    return f"{name}={within}" if name else str(within)
