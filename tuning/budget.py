"""How long to search: seconds, trials, until nothing gets better, or until somebody ends it."""

from __future__ import annotations

import math
import re
import time as clock
from dataclasses import dataclass, field

from ..core.errors import InputError

_SECONDS_OF_UNIT = {"s": 1, "m": 60, "min": 60, "h": 3600}
_FLAT = 0.002  # of the program's time: less is no improvement


def parse_seconds(text: str, what: str) -> float:
    """Seconds of "5m", "90s", "1.5h" or "300". InputError, naming ``what``, for anything else."""
    match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*(s|m|min|h|)\s*", text)
    if match is None or not float(match[1]):
        raise InputError(f"{what} is '{text}': give a time such as 90s, 5m or 1h")
    return float(match[1]) * _SECONDS_OF_UNIT[match[2] or "s"]


def _read_clock() -> float:
    return clock.monotonic()


@dataclass
class Budget:
    """The end of a search, whichever comes first; None is no end.

    seconds: of the search, without the check of the network after it. trials: of all tasks together. flat: seconds in
    which the program's time does not get better by one part in five hundred, and no less than ``flat_trials`` trials.
    interrupted: whether it is to end now.
    """

    seconds: float | None = None
    trials: int | None = None
    flat: float | None = None
    flat_trials: int = 0
    interrupted: bool = False
    _began: float = field(default_factory=_read_clock)
    _improved: float = field(default_factory=_read_clock)
    _level: float = math.inf
    _spent: int = 0
    _improved_at: int = 0  # of the trials spent

    def start(self, used: float = 0.0) -> None:
        """Begin to count now, with so many seconds used before."""
        self._improved = clock.monotonic()
        self._began = self._improved - used

    @property
    def used_seconds(self) -> float:
        """Seconds since it began."""
        return clock.monotonic() - self._began

    @property
    def used_trials(self) -> int:
        """Trials so far."""
        return self._spent

    def note(self, trials: int, ratio: float) -> None:
        """Count trials, after which the program's time is ``ratio`` of the default's."""
        self._spent += trials
        if ratio < self._level * (1 - _FLAT):
            self._level, self._improved, self._improved_at = ratio, clock.monotonic(), self._spent

    def trials_left(self, wanted: int) -> int:
        """How many of so many trials may be made."""
        return wanted if self.trials is None else max(0, min(wanted, self.trials - self._spent))

    def interrupt(self) -> None:
        """Let the search end soon."""
        self.interrupted = True

    @property
    def is_over(self) -> bool:
        """Return whether the search is at its end."""
        return bool(self.end)

    @property
    def end(self) -> str:
        """Why the search is at its end, as "its time was over"; "" where it is not."""
        now = clock.monotonic()
        if self.interrupted:
            return "it was interrupted"
        if self.seconds is not None and now - self._began >= self.seconds:
            return "its time was over"
        many = self._spent - self._improved_at >= self.flat_trials
        if self.flat is not None and now - self._improved >= self.flat and many:
            return f"nothing had got better for {self.flat:.0f} s"
        if self.trials is not None and self._spent >= self.trials:
            return "all its trials were made"
        return ""
