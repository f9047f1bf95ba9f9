"""How tiles are computed: what a nest says of it, and the attribute that a script says it with."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any

from ....core.errors import ScheduleError
from ....core.target import Target
from ....dialects import ir
from ...ir.kernel import integer_attr
from ..language.checks import MAX_STEPS
from ..language.loopnest import INTRINSICS, MAX_TILE, Nest
from .grouped_sums import find_dot_product, operand_bits
from .tiler import Form
from .values import name_value

_MOST = {"at_once": MAX_STEPS, "rows_at_once": MAX_STEPS, "row_chunk": MAX_TILE}


@dataclass(frozen=True)
class TileForm:
    """What a nest says of its tiles.

    sums: the loops over what is summed up that are no rows, outermost first, by name.
    at_once, apart: how many steps of the innermost are taken at once, and whether these lie apart.
    row_chunk, rows_at_once: elements of one step along whole rows (0: there are none), and steps at once.
    intrinsic: what the tile's op becomes.
    across: whether a tile has several whole rows, whose elements are computed one after another.
    """

    sums: tuple[str, ...] = ()
    at_once: int = 1
    apart: bool = False
    row_chunk: int = 0
    rows_at_once: int = 1
    intrinsic: str = ""
    across: bool = False

    @staticmethod
    def of(nest: Nest) -> TileForm:
        """The form of the tiles of a nest."""
        sums = tuple(loop.axis for loop in nest.inner if loop.axis != nest.value.row)
        along_rows = len(sums) < len(nest.inner) and nest.inner[-1].axis == nest.value.row
        factor, apart = (nest.inner[-1].factor, nest.inner[-1].apart) if nest.inner else (1, False)
        steps = (1, factor) if along_rows else (factor, 1)
        return TileForm(sums, steps[0], apart, nest.row_chunk, steps[1], nest.intrinsic, nest.across)

    def write(self) -> ir.DictAttr:
        """The form as an attribute, without what is as it is by default."""
        written = {}
        for field in dataclasses.fields(self):
            if (value := getattr(self, field.name)) != field.default:
                written[field.name] = _ATTRIBUTES[type(value)](value)
        return ir.DictAttr.get(written)

    @staticmethod
    def read(attribute: ir.Attribute) -> TileForm:
        """The form that an attribute says. Raises ScheduleError for what is none."""
        known = {field.name: field.default for field in dataclasses.fields(TileForm)}
        if not isinstance(attribute, ir.DictAttr):
            raise ScheduleError(f"a tile's form is a dictionary with {', '.join(known)}, not {attribute}")
        given: dict[str, Any] = {}
        for entry in attribute:
            value = _value_of(entry.attr)
            if entry.name not in known or type(value) is not type(known[entry.name]):
                raise ScheduleError(f"a tile's form has no '{entry.name} = {entry.attr}'; it has {', '.join(known)}")
            if entry.name in _MOST and not 0 <= value <= _MOST[entry.name]:
                raise ScheduleError(f"'{entry.name}' of a tile's form is {value}: give at most {_MOST[entry.name]}")
            given[entry.name] = value
        if given.get("intrinsic", "") not in ("", *INTRINSICS):
            raise ScheduleError(f"a tile can become {', '.join(INTRINSICS)}, not '{given['intrinsic']}'")
        return TileForm(**given)

    def apply(self, value: ir.Value, name: str, lanes: int, target: Target | None = None) -> Form:
        """The form for tiles of a value of a kernel, which schedules call by ``name``.

        ``lanes`` are of float32 in a vector, ``target`` has the instructions for sums of products of bytes. Raises
        ScheduleError for sums that the value has not.
        """
        named = name_value(value, name)
        if missing := [word for word in self.sums if word not in named.sums]:
            there = ", ".join(named.sums) or "none"
            raise ScheduleError(f"a tile's form names a sum over '{missing[0]}'; the sums of the kernel are {there}")
        axes = [axis.name for axis in named.value.axes]
        bits = operand_bits(named.anchor) if named.anchor is not None else 0
        dots = self.intrinsic == "dot_product"
        dot = find_dot_product(named.anchor, target) if dots and named.anchor is not None and target else None
        if self.intrinsic == "dot_product" and target is not None and dot is None:
            raise ScheduleError(
                "only sums of products of bytes or bfloat16 that the CPU has can be made of dot_product"
            )
        return Form(
            row_chunk=self.row_chunk,
            rows_at_once=self.rows_at_once,
            anchor=named.anchor,
            sums=tuple(named.sums[word] for word in self.sums),
            at_once=self.at_once,
            apart=self.apart,
            outer_product=self.intrinsic == "outer_product",
            dot=dot,
            matrices=target is not None and target.multiplies_matrices(bits),
            target=target,
            across=self.across,
            row_axis=axes.index(named.value.row) if self.across and named.value.row in axes else None,
            lanes=lanes,
        )


_ATTRIBUTES: dict[type, Any] = {
    bool: lambda _: ir.UnitAttr.get(),
    int: integer_attr,
    str: lambda word: ir.StringAttr.get(word),
    tuple: lambda words: ir.ArrayAttr.get([ir.StringAttr.get(word) for word in words]),
}


def _value_of(attribute: ir.Attribute) -> Any:
    if isinstance(attribute, ir.ArrayAttr):
        return tuple(ir.StringAttr(word).value for word in attribute if isinstance(word, ir.StringAttr))
    if isinstance(attribute, ir.UnitAttr):
        return True
    return attribute.value if isinstance(attribute, ir.StringAttr | ir.IntegerAttr) else None
