"""Schedules as text for people, and as JSON for files: the kernel's values, and the primitives from plain loops."""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeVar

from ....core.errors import ScheduleError
from ....core.sizes import Extent, Sym
from .loopnest import RESULT, Axis, Block, KernelValue, Loop, Nest

Made = TypeVar("Made")

# The name of a primitive and its arguments: ("split", "n", 32).
Step = tuple[Any, ...]


def join_names(names: Iterable[str]) -> str:
    """Names for a message: "m, n, k", or "none"."""
    return ", ".join(names) or "none"


def value_text(value: KernelValue | None) -> str:
    """A value for a message: "result of m 128, n 768, sum over k 768"."""
    if value is None:
        return "no more values"
    axes, sums = ([f"{axis.name} {axis.extent}" for axis in axes] for axes in (value.axes, value.sums))
    words = [
        f"{value.name} of {join_names(axes)}",
        *([f"sum over {join_names(sums)}"] if sums else []),
        *map(str, value.packed),
        *(["over an argument"] if value.once else []),
    ]
    return ", ".join(words)


def loop_text(result: Nest, stages: Sequence[Nest]) -> str:
    """The loops as indented lines, stages where they are computed."""
    lines: list[str] = []

    def ahead(at: str, depth: int) -> None:
        for stage in stages:
            if stage.at == at:
                if stage.splits:
                    of = f"{stage.matrix_rows} rows" if stage.matrix_rows else "columns"
                    lines.append(f"{'  ' * depth}stage {stage.value.name} in parts of bfloat16, by {of}")
                    continue
                phases = f" in {stage.phases} phases" if stage.phases > 1 else ""
                lines.append(f"{'  ' * depth}stage {stage.value.name}{phases}:")
                lines.extend(_nest_lines(stage, depth + 1, "by" if at else "in"))

    ahead("", 0)
    for depth, line in enumerate(_nest_lines(result, 0, "in")):
        lines.append(line)
        if depth < len(result.outer):
            ahead(result.outer[depth].name, depth + 1)
    return "\n".join(lines)


def _nest_lines(nest: Nest, depth: int, word: str) -> list[str]:
    """The loops of one nest. Those of a stage in a loop (``by``) go as far as readers need: only steps are known."""
    lines = [*(_loop_line(loop, word) for loop in nest.outer), *(_loop_line(loop, "in") for loop in nest.inner)]
    marks = [f"{loop.kind} {loop.name}" for loop in nest.tile]
    marks += [f"tensorize {nest.intrinsic}"] if nest.intrinsic else []
    marks += [f"pack {block}" for block in nest.packs]
    names, sizes = [loop.name for loop in nest.tile], [str(loop.parts[0].extent) for loop in nest.tile]
    tile = f"tile {' x '.join(names)} of {' x '.join(sizes)}" if names else "element"
    lines.append(f"{tile}: {', '.join(marks)}" if marks else tile)
    return [f"{'  ' * (depth + i)}{line}" for i, line in enumerate(lines)]


def _loop_line(loop: Loop, word: str) -> str:
    kind = "parallel" if loop.kind == "parallel" else "for"
    steps = ", ".join(str(part) if word == "in" else str(part.step) for part in loop.parts)
    at_once = f", {loop.factor} at once{' apart' if loop.apart else ''}" if loop.factor > 1 else ""
    return f"{kind} {loop.name} {word} {steps}{at_once}{', overlapping' if loop.overlap else ''}:"


def values_to_json(values: Sequence[KernelValue]) -> dict[str, Any]:
    """Values by name, each with its axes and extents (a symbol is its name); what is empty is left out."""
    made: dict[str, Any] = {}
    for value in values:
        record = {
            "axes": [[axis.name, _extent(axis.extent)] for axis in value.axes],
            "sums": [[axis.name, _extent(axis.extent)] for axis in value.sums],
            "row": value.row,
            "intrinsic": value.intrinsic,
            "packed": [[block.argument, block.axis, block.size] for block in value.packed],
            "read": value.read,
            "once": value.once,
            "single": list(value.single),
        }
        made[value.name] = {key: entry for key, entry in record.items() if entry or key == "axes"}
    return made


def values_from_json(data: Mapping[str, Any]) -> tuple[KernelValue, ...]:
    """The inverse of ``values_to_json``. Raises ScheduleError for any other data."""
    try:
        return tuple(
            KernelValue(
                name,
                tuple(Axis(str(axis), _extent_of(extent)) for axis, extent in record["axes"]),
                tuple(Axis(str(axis), _extent_of(extent)) for axis, extent in record.get("sums", ())),
                str(record.get("row", "")),
                str(record.get("intrinsic", "")),
                tuple(Block(int(argument), str(axis), int(size)) for argument, axis, size in record.get("packed", ())),
                bool(record.get("read", False)),
                bool(record.get("once", False)),
                tuple(str(axis) for axis in record.get("single", ())),
            )
            for name, record in data.items()
        )
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        reason = f"{type(error).__name__}: {error}"
        raise ScheduleError(
            f"the values of a schedule are not as `tilewright explain --json` shows them: {reason}"
        ) from error


def read_schedule(
    data: Mapping[str, Any] | str,
    start: Callable[[tuple[KernelValue, ...]], Made],
    primitives: Mapping[str, Callable[..., Made]],
) -> Made:
    """Apply the steps of a schedule's JSON to the plain loops that ``start`` makes of its values."""
    try:
        record = json.loads(data) if isinstance(data, str) else data
        values, steps = dict(record["values"]), [(str(name), args) for name, *args in record["steps"]]
    except (KeyError, TypeError, ValueError) as error:
        raise ScheduleError('a schedule as JSON is {"values": {...}, "steps": [["split", "n", 32], ...]}') from error
    if RESULT not in values:
        raise ScheduleError(f"a schedule's values have no '{RESULT}'")
    made = start(values_from_json({RESULT: values[RESULT], **values}))
    for name, arguments in steps:
        if name not in primitives:
            raise ScheduleError(f"there is no primitive {name!r}; there are {join_names(primitives)}")
        try:
            inspect.signature(primitives[name]).bind(made, *arguments)
        except TypeError as error:
            raise ScheduleError(f"{name} does not take {join_names(map(repr, arguments))}: {error}") from error
        made = primitives[name](made, *arguments)
    return made


def _extent(extent: Extent) -> int | str:
    return extent if isinstance(extent, int) else str(extent)


def _extent_of(entry: object) -> Extent:
    if isinstance(entry, str):
        return Sym(entry)
    if isinstance(entry, int) and not isinstance(entry, bool) and entry >= 0:
        return entry
    raise ValueError(f"{entry!r} is no extent")
