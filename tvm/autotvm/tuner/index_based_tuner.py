"""Tuners that go through the numbers of configs, in order or at random."""

from __future__ import annotations

from ....core.errors import ExpressionError, InputError
from ..space import ConfigEntity
from ..templates import Task
from .tuner import Tuner


class IndexBaseTuner(Tuner):
    """Tries configs by their numbers, of those from ``range_idx[0]`` to ``range_idx[1]``, both included."""

    def __init__(self, task: Task, range_idx: tuple[int, int] | None = None) -> None:
        super().__init__(task)
        first, last = range_idx or (0, self.space.range_length - 1)
        if not 0 <= first <= last < self.space.range_length:
            raise InputError(f"range_idx is {range_idx}: configs have numbers from 0 to {self.space.range_length - 1}")
        self.begin_idx, self.end_idx = first, last + 1
        self.visited: dict[int, None] = {}
        self.visited_max = self.space.subrange_length(self.begin_idx, self.end_idx)

    def has_next(self) -> bool:
        """See ``Tuner``."""
        return len(self.visited) < self.visited_max

    def next_batch(self, batch_size: int) -> list[ConfigEntity]:
        """See ``Tuner``."""
        made: list[ConfigEntity] = []
        while len(made) < batch_size and self.has_next():
            index = self._choose()
            if index is None:  # of a large space, numbers without a config have counted, too
                self.visited_max = len(self.visited)
                break
            self.visited[index] = None
            made.append(self.space.get(index))
        return made

    def _choose(self) -> int | None:
        """The next number; None where there is no more."""
        raise NotImplementedError


class GridSearchTuner(IndexBaseTuner):
    """Tries configs in the order of their numbers."""

    def _choose(self) -> int | None:
        last = max(self.visited, default=self.begin_idx - 1)
        return self.space.get_next_index(last, start=self.begin_idx, end=self.end_idx)


class RandomTuner(IndexBaseTuner):
    """Tries configs in random order."""

    def _choose(self) -> int | None:
        try:
            return self.space.get_rand_index(self.begin_idx, self.end_idx, to_exclude=self.visited)
        except ExpressionError:
            return None
