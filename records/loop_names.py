"""The loops of a kernel's result by their places, as primitives change them: numbers for formats that have no names."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..core.errors import RecordError
from .lines import parse_line


class LoopNames:
    """The loops of a kernel, outermost first, and the values that may be staged; made from the JSON of a schedule's
    values. What is no loop has the place -1."""

    def __init__(self, axes: Sequence[tuple[str, int | str]], values: Sequence[str]) -> None:
        self.axes = list(axes)
        self._loops = [name for name, _ in axes]
        self._extents: dict[str, int | str | None] = dict(axes)
        self._values = list(values)

    @staticmethod
    def of(values: str) -> LoopNames:
        """The plain loops of a kernel; none for values that are none of a schedule."""
        try:
            read = parse_line(values)
        except RecordError:
            read = None
        known = read if isinstance(read, dict) else {}
        result = known.get("result")
        entries = [*_entries(result, "axes"), *_entries(result, "sums")]
        return LoopNames(entries, [*(name for name in known if name != "result"), "result"])

    def find(self, loop: Any) -> int:
        """The place of a loop."""
        return self._loops.index(loop) if loop in self._loops else -1

    def stage(self, value: Any) -> int:
        """The number of a value: operands and what is computed ahead come before the result."""
        return self._values.index(value) if value in self._values else len(self._values) - 1

    def extent(self, loop: Any) -> int | str | None:
        """The elements that a loop goes over."""
        return self._extents.get(loop)

    @property
    def places(self) -> dict[str, int]:
        """The places of all loops."""
        return {loop: place for place, loop in enumerate(self._loops)}

    def find_order(self, loops: Sequence[Any]) -> list[int]:
        """The places of all loops after some of them have changed places; empty where one of them is none."""
        places = [self.find(loop) for loop in loops]
        if -1 in places or len(set(places)) != len(places):
            return []
        taken = iter(places)
        return [next(taken) if place in places else place for place in range(len(self._loops))]

    def move_inside(self, inner: Sequence[str]) -> None:
        """Let these loops be the innermost ones, in this order."""
        self._loops = [*(name for name in self._loops if name not in inner), *inner]

    def apply(self, name: str, arguments: Sequence[Any]) -> None:
        """Change the loops as a primitive does; those of other values, and what is no primitive, change nothing."""
        if name == "split" and len(arguments) == 2 and (place := self.find(arguments[0])) >= 0:
            loop, factor = arguments
            self._loops[place : place + 1] = [f"{loop}.0", f"{loop}.1"]
            self._extents |= {f"{loop}.0": self._extents.get(loop), f"{loop}.1": factor}
        elif name == "tile" and len(arguments) == 4:
            rows, row_factor, columns, column_factor = arguments
            self.apply("split", [rows, row_factor])
            self.apply("split", [columns, column_factor])
            self.move_inside([name for name in (f"{rows}.1", f"{columns}.1") if name in self._loops])
        elif name == "reorder":
            if order := self.find_order(arguments):
                self._loops = [self._loops[place] for place in order]
        elif name == "fuse" and len(arguments) > 1 and all(self.find(loop) >= 0 for loop in arguments):
            place = self.find(arguments[0])
            self._loops = [loop for loop in self._loops if loop not in arguments]
            self._loops.insert(place, "*".join(arguments))


def _entries(value: Any, name: str) -> list[tuple[str, int | str]]:
    """The axes of a value that are any."""
    found = value.get(name) if isinstance(value, dict) else None
    entries = found if isinstance(found, list) else []
    pairs = [entry for entry in entries if isinstance(entry, list) and len(entry) == 2]
    return [(axis, extent) for axis, extent in pairs if isinstance(axis, str) and isinstance(extent, int | str)]
