"""What is known of a task while it is tuned."""

from __future__ import annotations

from collections import Counter, deque
from dataclasses import dataclass, field

from .laboratory import Prepared
from .measuring.racing import UNCHANGED, RatioInterval
from .search.searcher import Searcher
from .spaces.space import Point, Space, describe_change, option_text

# A task that has had no trial may gain so much, and half of it after so many trials without a gain.
_HOPE, _HALF = 0.25, 12
# Of the best times at most so much is hoped for beyond what the machine's rates allow.
_CLOSE = 0.95


@dataclass
class TaskProgress:
    """A task, its search, and the best schedule so far.

    share: of the program's time, by the default. bound_share: how near the default is to the machine's bound.
    history: the best ratio after each trial. failures: how many trials ended in each error. suggested: points to be
    measured before those of the search.
    """

    prepared: Prepared
    space: Space
    search: Searcher
    share: float
    bound_share: float = 0.0
    best: RatioInterval = UNCHANGED
    best_point: Point | None = None
    trials: int = 0
    refused: int = 0
    history: list[float] = field(default_factory=list)
    failures: Counter[str] = field(default_factory=Counter)
    exhausted: bool = False
    tried: list[tuple[Point, float]] = field(default_factory=list)
    suggested: deque[Point] = field(default_factory=deque)

    @property
    def name(self) -> str:
        """The kernel's."""
        return self.prepared.task.name

    @property
    def is_close(self) -> bool:
        """Return whether the default is so near to the bound that no trial is worth it."""
        return self.bound_share >= _CLOSE

    @property
    def expected_gain(self) -> float:
        """Of the program's time, what more trials of this task may gain."""
        if self.exhausted or self.is_close:
            return 0.0
        recent = self.history[-_HALF:]
        gained = recent[0] / recent[-1] - 1 if recent else 0.0
        hope = max(_HOPE * 0.5 ** (self.trials / _HALF), gained, 0.002)
        left = 1.0 - min(self.bound_share / self.best.ratio, 1.0) if self.bound_share else 1.0
        return self.share * self.best.ratio * min(hope, max(left, 0.02))

    def note(self, point: Point, ratio: RatioInterval, error: str) -> None:
        """Take a trial's outcome."""
        self.trials += 1
        if error:
            self.failures[error] += 1
        self.tried.append((point, ratio.ratio))
        # The bound counts, not the median: of many candidates the luckiest would have the best of these.
        if not error and ratio.high < self.best.high and ratio.ratio < self.best.ratio:
            self.best, self.best_point = ratio, point
        self.history.append(self.best.ratio)

    @property
    def change(self) -> str:
        """What the best schedule does otherwise than the default; "" where this is the best."""
        return describe_change(self.space, self.best_point) if self.best_point is not None else ""

    def count_options(self) -> dict[str, dict[str, tuple[int, int, float]]]:
        """Of each option of a knob that was measured: its place among the options, how often, and the best ratio."""
        found: dict[str, dict[str, tuple[int, int, float]]] = {}
        for point, ratio in self.tried:
            for knob, number in zip(self.space.knobs, point, strict=True):
                seen = found.setdefault(knob.name, {})
                text = option_text(knob.options[number])
                _, count, best = seen.get(text, (number, 0, ratio))
                seen[text] = (number, count + 1, min(best, ratio))
        return found


def estimate_ratio(tasks: list[TaskProgress]) -> float:
    """The program's time over the default's, by the kernels' own."""
    return 1.0 - sum(task.share * (1 - task.best.ratio) for task in tasks)
