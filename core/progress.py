"""How far a long piece of work is: told to who asked for it, and to the log ``tilewright``."""

from __future__ import annotations

import logging
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TextIO

from .printed import line_text

LOG = logging.getLogger("tilewright")
_OFTEN = 2.0  # seconds between two lines about one stage, for who reads lines


@dataclass(frozen=True)
class Progress:
    """A stage and its progress: ``done`` of ``total``, which is 0 if nothing is counted.

    Times are in seconds: ``elapsed`` since the start, ``remaining`` an estimate for this stage, or the upper limit of
    a search; None if unknown.
    """

    text: str
    done: int
    total: int
    elapsed: float
    remaining: float | None

    def __str__(self) -> str:
        count = f": {self.done} of {self.total}" if self.total else ""
        left = f", about {_format_seconds(self.remaining)} left" if self.remaining is not None else ""
        return f"{self.text}{count}, {_format_seconds(self.elapsed)}{left}"


Listener = Callable[[Progress], object]
Say = Callable[..., object]  # a ``Teller``, or what takes the same


def tell_nobody(*told: object) -> None:
    """Tells nobody."""


class Teller:
    """Tells a listener, and the log, what is being done: ``tell("compiling kernels", 3, 20)``.

    Calls come from the thread that does the work. What a listener raises ends that work.
    """

    def __init__(self, listener: Listener | None = None) -> None:
        self._listener = listener
        self._began = self._stage_began = time.monotonic()
        self._stage = ""
        self._counted: tuple[int, int] = 0, 0
        self._end: float | None = None
        self._logged = 0.0

    def __call__(self, text: str, done: int = 0, total: int = 0, end: float | None = None) -> None:
        """Now this is being done; ``end`` is when it ends at the latest, by the monotonic clock."""
        now = time.monotonic()
        first = text != self._stage
        if first:
            self._stage, self._stage_began = text, now
        self._counted, self._end = (done, total), end
        if self._listener is not None:
            self._listener(self.now())
        if first or now - self._logged >= _OFTEN:
            self._logged = now
            LOG.info("%s", line_text(str(self.now())))

    def now(self) -> Progress:
        """Where it is at this moment."""
        now, (done, total) = time.monotonic(), self._counted
        left = [] if self._end is None else [max(0.0, self._end - now)]
        if 0 < done < total:
            left.append((now - self._stage_began) / done * (total - done))
        return Progress(self._stage, done, total, now - self._began, min(left, default=None))


Listening = Listener | Teller | bool | None  # how a user may ask to be told


def make_teller(progress: Listening) -> Teller:
    """A teller for a listener; True prints lines on stderr."""
    if isinstance(progress, Teller):
        return progress
    return Teller(Lines() if progress is True else progress or None)


class Lines:
    """Prints a line for each stage, and another one when it has gone on for some seconds."""

    def __init__(self, file: TextIO | None = None) -> None:
        self._file = file
        self._stage, self._last = "", 0.0

    def __call__(self, progress: Progress) -> None:
        now = time.monotonic()
        if progress.text != self._stage or now - self._last >= _OFTEN:
            self._stage, self._last = progress.text, now
            print(line_text(str(progress)), file=self._file or sys.stderr, flush=True)


def _format_seconds(seconds: float) -> str:
    """``7 s``, ``2 min 5 s``"""
    whole = round(seconds)
    return f"{whole} s" if whole < 60 else f"{whole // 60} min {whole % 60} s"
