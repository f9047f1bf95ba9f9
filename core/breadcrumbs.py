"""Breadcrumbs: the steps that a job takes, noted one by one, so that who ends it, or finds it dead, knows where it was.

A step is a node's conversion, a pass, or code generation. Code that takes one writes ``with step("pass 'fuse-ops'"):``;
who wants to hear of steps writes ``with following(trail):`` around the job. Where nobody does, a step costs nothing.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any

_NODES = 3  # that are named where there are more


@dataclass(frozen=True)
class Snapshot:
    """All that it takes to do a step again: a module as text, and what `tilewright opt` has to be told."""

    module: str
    facts: Mapping[str, Any]


@dataclass
class Trail:
    """The steps of one job.

    ``moved`` is called when a step begins or ends, ``begins`` before one that can be done again, with a number from 1,
    and a function that takes the snapshot; what they raise ends the job.
    """

    moved: Callable[[Trail], object] = lambda trail: None
    begins: Callable[[int, Callable[[], Snapshot]], object] = lambda number, take: None
    _steps: list[tuple[str, int]] = field(default_factory=list)  # under way, the innermost last
    _failed: tuple[str, int] | None = None
    _count: int = 0

    @property
    def where(self) -> str:
        """The steps that are under way, or that the last error came from: "upstream pass 'cse' of pass 'bufferize'"."""
        if self._failed:
            return self._failed[0]
        return " of ".join(what for what, _ in reversed(self._steps) if what)

    @property
    def number(self) -> int:
        """Which of the steps that can be done again is the innermost of these; 0 for none."""
        if self._failed:
            return self._failed[1]
        return self._steps[-1][1] if self._steps else 0

    @contextlib.contextmanager
    def step(self, what: str, take: Callable[[], Snapshot] | None) -> Iterator[None]:
        """Note the step while the block runs."""
        self._failed, number = None, self.number
        if take is not None:
            self._count = number = self._count + 1
        self._steps.append((what, number))
        try:
            self.moved(self)
            if take is not None:
                self.begins(number, take)
            yield
        except BaseException:
            self._failed = self._failed or (self.where, self.number)
            raise
        finally:
            self._steps.pop()
        self._failed = None
        self.moved(self)


_CURRENT: ContextVar[Trail | None] = ContextVar("tilewright_trail", default=None)


@contextlib.contextmanager
def reporting_to(trail: Trail) -> Iterator[Trail]:
    """Let the steps of the block be told to ``trail``."""
    token = _CURRENT.set(trail)
    try:
        yield trail
    finally:
        _CURRENT.reset(token)


def step(what: str, take: Callable[[], Snapshot] | None = None) -> contextlib.AbstractContextManager[None]:
    """The block is a step of the job, called ``what`` ("" where it is all of it).

    ``take`` says what it begins with, where it can be done again from that alone.
    """
    trail = _CURRENT.get()
    return contextlib.nullcontext() if trail is None else trail.step(what, take)


def in_words(nodes: Sequence[str]) -> str:
    """The model's nodes that something is about, to be put behind it: " (nodes conv1, relu1)"; "" for none."""
    if not nodes:
        return ""
    others = " and others" if len(nodes) > _NODES else ""
    return f" (node{'s' if len(nodes) > 1 else ''} {', '.join(nodes[:_NODES])}{others})"
