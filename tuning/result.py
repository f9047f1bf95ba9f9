"""What came of tuning a network."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any

from ..core.printed import count_text
from .measuring.racing import RatioInterval
from .plan_choices import ChoiceResult
from .verdict import HeldContest


@dataclass(frozen=True)
class TaskResult:
    """What came of one kernel.

    nodes: what it computes. calls: in a run. share: of the program's time, by its default schedule, ``seconds`` of a
    call. best: the time of the best schedule over that. change: what that does otherwise, "" for nothing. accepted:
    whether the network has taken it. failures: how many trials ended in each error. correlation: of what the search
    predicted with what was measured. skipped: why it was not tuned, "" where it was. history: the best ratio after each
    trial. coverage: of each option of a knob that was measured, its place among the options, how often, and
    its best ratio.
    """

    name: str
    nodes: tuple[str, ...]
    calls: int
    share: float
    seconds: float
    bound_share: float
    best: RatioInterval
    change: str
    accepted: bool
    trials: int
    failures: dict[str, int]
    correlation: float = 0.0
    skipped: str = ""
    history: tuple[float, ...] = ()
    coverage: dict[str, dict[str, tuple[int, int, float]]] = field(default_factory=dict)


@dataclass(frozen=True)
class TuningResult:
    """What came of tuning: its ``tasks``, the slowest first, and the network's own verdict.

    ratio: the time of the network with the accepted schedules and decisions over that without; 1 where none is
    accepted. estimate: what the kernels' own times say of the schedules. contests: the sets of kernels, or of decisions
    of the plan, that were tried in the network, with what that gave. seconds: of the search, without these. records:
    the file that has all of it. wrong: schedules that computed something else, which is an error of the compiler's.
    schedules: the accepted ones as JSON by kernel. notes: what was wrong with machines that measured. choices:
    decisions of the plan, as Winograd's algorithm. end: why the search ended, as "its time was over". stays: whether
    what is accepted had been before, and nothing faster was found.
    """

    name: str
    target: str
    threads: int
    tasks: tuple[TaskResult, ...]
    ratio: RatioInterval
    estimate: float
    contests: tuple[HeldContest, ...]
    trials: int
    seconds: float
    records: str
    schedules: dict[str, Any]
    wrong: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    choices: tuple[ChoiceResult, ...] = ()
    end: str = ""
    stays: bool = False

    @property
    def accepted(self) -> tuple[str, ...]:
        """The kernels whose schedules the network has taken."""
        return tuple(task.name for task in self.tasks if task.accepted)

    def __str__(self) -> str:
        taken = count_text(len(self.accepted), "kernel")
        decided = sum(choice.accepted for choice in self.choices)
        if not self.accepted and not decided:
            return f"{self.name}: no schedule makes it faster for certain; it stays as it is ({self.trials} trials)"
        r, ways = self.ratio, [f"{'earlier' if self.stays else 'other'} schedules of {taken}"] if self.accepted else []
        ways += [count_text(decided, "other decision") + " of the plan"] if decided else []
        return f"{self.name}: {r.ratio:.3f} of its time ({r.low:.3f} to {r.high:.3f}) with {' and '.join(ways)}"

    def to_json(self) -> dict[str, Any]:
        """As a dictionary that JSON can hold."""
        return asdict(self)
