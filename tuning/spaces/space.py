"""What a space is: points, each an option for each knob, and the schedules that they mean."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any, Protocol

from ...passes.schedule.language.schedule import Schedule

# The number of an option for each knob.
Point = tuple[int, ...]

_TRIES = 4000  # of random points, before a space counts as having no more legal ones


@dataclass(frozen=True)
class Knob:
    """One choice. ``options`` are in an order in which neighbours are alike, unless ``nearby`` gives other ones.

    ``nearby[i]`` are the options that differ least from option ``i``.
    """

    name: str
    options: tuple[Any, ...]
    nearby: tuple[tuple[int, ...], ...] = ()

    def neighbours(self, option: int) -> tuple[int, ...]:
        """The options next to one."""
        if self.nearby:
            return self.nearby[option]
        return tuple(number for number in (option - 1, option + 1) if 0 <= number < len(self.options))


class Space(Protocol):
    """The schedules that a task may have. ``default`` is the point of the one that it has without tuning."""

    @property
    def knobs(self) -> tuple[Knob, ...]: ...

    @property
    def default(self) -> Point: ...

    def schedule(self, point: Point) -> Schedule | None:
        """The schedule of a point; None where it is not legal."""
        ...

    def find(self, schedule: Schedule) -> Point | None:
        """The point of a schedule, or the one most like that of another kernel; None for none, as where it differs."""
        ...


def steps_of(space: Space, point: Point) -> str | None:
    """The primitives of a point's schedule as JSON, which say what it is; None where it is not legal."""
    made = space.schedule(point)
    return None if made is None else json.dumps(made.to_json()["steps"])


def draw_points(space: Space, random: Random, seen: set[str] | None = None) -> Iterator[Point]:
    """Legal points in random order, each schedule once; ``seen`` are those that are not drawn."""
    known = set() if seen is None else seen
    tries = 0
    while tries < _TRIES:
        tries += 1
        point = tuple(random.randrange(len(knob.options)) for knob in space.knobs)
        steps = steps_of(space, point)
        if steps is None or steps in known:
            continue
        known.add(steps)
        tries = 0
        yield point


def list_neighbours(space: Space, point: Point) -> Iterator[Point]:
    """The points that differ from one in one knob, by one step; legal or not."""
    for number, knob in enumerate(space.knobs):
        for option in knob.neighbours(point[number]):
            yield (*point[:number], option, *point[number + 1 :])


def describe_change(space: Space, point: Point) -> str:
    """How a point differs from the default: "tile.n 32 -> 64, order k m n -> m k n"; "" where it does not.

    Options that make no difference to its schedule are left out.
    """
    made = space.schedule(point)
    found = space.find(made) if made is not None else None
    return describe_difference(space.knobs, space.default, point if found is None else found)


def describe_difference(knobs: Sequence[Knob], old: Point, new: Point) -> str:
    """The knobs in which two points differ, with the options of both."""
    changed = [
        f"{knob.name} {option_text(knob.options[a])} -> {option_text(knob.options[b])}"
        for knob, a, b in zip(knobs, old, new, strict=True)
        if a != b
    ]
    return ", ".join(changed)


def option_text(option: Any) -> str:
    """An option in words: an order of loops as their names, outer loops over blocks with a mark."""
    if not isinstance(option, tuple):
        return str(option)
    return " ".join(f"{part[0]}{part[1] * chr(39)}" if isinstance(part, tuple) else str(part) for part in option)
