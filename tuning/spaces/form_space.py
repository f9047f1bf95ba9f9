"""A space of schedules of several kinds: in vectors, and in parts of bfloat16."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property

from ...core.errors import ScheduleError
from ...core.target import Target
from ...passes.schedule.language.schedule import Schedule
from .nest_space import NestSpace
from .recipe import read_recipe
from .space import Knob, Point, Space


@dataclass(frozen=True)
class FormSpace:
    """The schedules of several spaces, the first of which has the default.

    The first knob says whose schedule a point is. The knobs of the others then make no difference to it.
    """

    spaces: tuple[NestSpace, ...]

    @property
    def knobs(self) -> tuple[Knob, ...]:
        """See ``Space``."""
        return self._knobs

    @property
    def default(self) -> Point:
        """See ``Space``."""
        return (0, *(option for space in self.spaces for option in space.default))

    @cached_property
    def _knobs(self) -> tuple[Knob, ...]:
        """The choice between the spaces, and the knobs of each; those of others than the first begin with its name."""
        names = [_name_form(space.start) for space in self.spaces]
        of_others = [
            Knob(f"{name}.{knob.name}", knob.options, knob.nearby)
            for name, space in zip(names[1:], self.spaces[1:], strict=True)
            for knob in space.knobs
        ]
        return (Knob("form", tuple(names)), *self.spaces[0].knobs, *of_others)

    def schedule(self, point: Point) -> Schedule | None:
        """See ``Space``."""
        begin, end = self._place(point[0])
        return self.spaces[point[0]].schedule(point[begin:end])

    def find(self, schedule: Schedule) -> Point | None:
        """See ``Space``."""
        for number, space in enumerate(self.spaces):
            if (found := space.find(schedule)) is not None:
                (begin, end), default = self._place(number), self.default
                return (number, *default[1:begin], *found, *default[end:])
        return None

    def _place(self, number: int) -> tuple[int, int]:
        """Where the options of a space are in points."""
        counts = [len(space.knobs) for space in self.spaces]
        begin = 1 + sum(counts[:number])
        return begin, begin + counts[number]


def make_space(default: Schedule, others: Iterable[Schedule], target: Target) -> Space:
    """The space around a kernel's schedule, and those of other kinds that are made of cuts, sums and stages, too."""
    spaces = [NestSpace(default, target)]
    for other in others:
        with suppress(ScheduleError):
            read_recipe(other)
            spaces.append(NestSpace(other, target))
    return FormSpace(tuple(spaces)) if len(spaces) > 1 else spaces[0]


def _name_form(schedule: Schedule) -> str:
    return "parts" if any(stage.splits for stage in schedule.stages) else "vectors"
