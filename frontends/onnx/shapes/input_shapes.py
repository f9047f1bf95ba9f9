"""Shapes that a user gives inputs, against those in the file: which extents are numbers, which are symbols."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from ....core.dims import SIZES, Dim, Given, InputShapes, ShapeTexts, parse
from ....core.errors import ModelError
from ....core.intervals import Interval
from ....core.sizes import Extent, Sym

Own = int | str  # an extent in the file, or the name of an open one ("" if it has none)

_EXPRESSION = re.compile(r"[*(,]| [+-] |^-")  # what texts of computed sizes have


@dataclass
class Agreed:
    """What the file and the user say together.

    ``shapes`` are those of the inputs that were given one, ``named`` the extents of the file's names that the user says
    something about, ``within`` what symbols may be.
    """

    shapes: dict[str, tuple[Extent, ...]] = field(default_factory=dict)
    named: dict[str, Extent] = field(default_factory=dict)
    within: dict[str, Interval] = field(default_factory=dict)

    def extent(self, own: Own, unnamed: str) -> Extent:
        """A dimension of the file that the user does not give; ``unnamed`` is its symbol's name where it has none."""
        if isinstance(own, int):
            return own
        return self.named[own] if own in self.named else self.symbol(own or unnamed)

    def symbol(self, name: str) -> Extent:
        """The symbol of a name; a number where that is all that it may be."""
        within = self.within.get(name, SIZES)
        if within.low is not None and within.low == within.high:
            return within.low
        return Sym(f"'{name}'" if _EXPRESSION.search(name) else name, within.low, within.high)


def by_input(declared: Mapping[str, Sequence[Own] | None], given: InputShapes, what: str) -> dict[str, list[int | str]]:
    """What a user gives as shapes of inputs alone: a size that is given by its name is put where it is.

    Raises ModelError for a name that no input has, in the file or as a user's shape calls it.
    """
    shapes = {name: list(said) for name, said in given.items() if not isinstance(said, (int, str))}
    for name, said in given.items():
        if isinstance(said, (int, str)) and not _put(name, said, declared, shapes, what):
            raise ModelError(f"{what}: there is no size '{name}'; those of the inputs are {_names(declared) or 'none'}")
    return shapes


def _put(
    name: str,
    said: int | str,
    declared: Mapping[str, Sequence[Own] | None],
    shapes: dict[str, list[int | str]],
    what: str,
) -> bool:
    """Put a size where the inputs' shapes, or the user's, have its name; whether any has."""
    found = False
    for input_, own in declared.items():
        told = shapes.get(input_, ["?"] * len(own or ()))
        names = own if own is not None and len(own) == len(told) else [""] * len(told)
        for axis, dim in enumerate(names):
            if name not in (dim, told[axis]) and (dim != "" or name != f"{input_}.{axis}"):
                continue
            if told[axis] not in ("?", name, said, str(said)):
                raise ModelError(f"{what}: '{name}' is given as {said}, and as {told[axis]} of '{input_}': give one")
            shapes[input_], found = told, True
            told[axis] = said
    return found


def _names(declared: Mapping[str, Sequence[Own] | None]) -> str:
    """The names of the inputs' open sizes."""
    axes = ((name, axis, dim) for name, own in declared.items() for axis, dim in enumerate(own or ()))
    return ", ".join(dict.fromkeys(dim or f"{name}.{axis}" for name, axis, dim in axes if isinstance(dim, str)))


def agree_shapes(declared: Mapping[str, Sequence[Own] | None], given: ShapeTexts, what: str) -> Agreed:
    """Check given shapes against the file's (None is of any rank). Raises ModelError where they do not agree.

    What is given for a dimension counts for all inputs that have it by the same name in the file.
    """
    axes = {name: list(_parse_axes(name, declared[name], given[name], what)) for name in given if name in declared}
    result = Agreed()
    for axis in (axis for shape in axes.values() for axis in shape):
        _narrow(result.within, axis, what)
    numbers_last = sorted((a for shape in axes.values() for a in shape), key=lambda a: isinstance(a.said, int))
    for axis in numbers_last:
        if isinstance(axis.own, str) and axis.own and axis.said != Dim():
            result.named[axis.own] = axis.said if isinstance(axis.said, int) else result.symbol(axis.symbol)
    for name, shape in axes.items():
        result.shapes[name] = tuple(axis.extent(result) for axis in shape)
    return result


@dataclass(frozen=True)
class _Axis:
    """One dimension of an input that was given a shape: what the file has, and what the user says."""

    input: str
    number: int
    own: Own
    said: Given

    @property
    def unnamed(self) -> str:
        return f"{self.input}.{self.number}"

    @property
    def symbol(self) -> str:
        """The name of its symbol, if it is open."""
        name = self.said.name if isinstance(self.said, Dim) else ""
        return name or (self.own if isinstance(self.own, str) else "") or self.unnamed

    def extent(self, result: Agreed) -> Extent:
        """The number that is given, else the symbol."""
        if isinstance(self.said, int):
            return self.said
        return result.extent(self.own, self.unnamed) if self.said == Dim() else result.symbol(self.symbol)


def _parse_axes(name: str, declared: Sequence[Own] | None, given: Sequence[int | str], what: str) -> Iterator[_Axis]:
    """The dimensions of a given shape."""
    said = [_said(name, extent, given, what) for extent in given]
    own = [""] * len(said) if declared is None else declared
    if len(said) != len(own):
        raise ModelError(
            f"{what}: input '{name}' has {len(own)} dimensions ({shape_text(own)}), the given shape {len(said)}"
            f" ({shape_text(given)}); give --input-shape {name}:{example_text(own)}"
        )
    fitted = [text if isinstance(dim, str) else dim for text, dim in zip(given, own, strict=True)]
    for number, (extent, dim) in enumerate(zip(said, own, strict=True)):
        if isinstance(dim, int) and (extent != dim if isinstance(extent, int) else dim not in extent.within):
            raise ModelError(
                f"{what}: input '{name}' is {shape_text(own)} in the file, which does not allow {shape_text(given)};"
                f" give --input-shape {name}:{shape_text(fitted)}"
            )
        yield _Axis(name, number, dim, extent)


def _said(name: str, extent: object, given: Sequence[object], what: str) -> Given:
    if isinstance(extent, str):
        try:
            return parse(extent)
        except ModelError as error:
            raise ModelError(f"{what}: the shape given for input '{name}': {error}") from error
    if isinstance(extent, bool) or not isinstance(extent, int) or extent < 0:
        raise ModelError(
            f"{what}: the shape {list(given)} for input '{name}' has to be of extents that are not negative"
        )
    return extent


def _narrow(within: dict[str, Interval], axis: _Axis, what: str) -> None:
    """Leave of a symbol's sizes what is said about them here."""
    if isinstance(axis.said, int):
        return
    said = axis.said.within if isinstance(axis.own, str) else Interval(axis.own, axis.own)
    before = within.get(axis.symbol, SIZES)
    if (both := before.intersection(said)) is None:
        raise ModelError(f"{what}: '{axis.symbol}' is given as {before} and as {said}: no size is both")
    within[axis.symbol] = both


def shape_text(shape: Sequence[int | str]) -> str:
    """A shape in messages."""
    return ",".join(str(n) if n != "" else "?" for n in shape) or "a scalar"


def example_text(shape: Sequence[Extent | str]) -> str:
    """A shape with a number for each name."""
    return ",".join("1" if isinstance(n, str) else str(n) for n in shape)
