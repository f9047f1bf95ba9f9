"""A bound on the calls of a module that are under way at a time."""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Iterator
from contextlib import contextmanager

from ...core.errors import InputError
from .deadline import Deadline


class Limit:
    """Lets so many threads in at a time; others wait.

    A thread that is in comes in again without waiting: a signal's handler may call the module that it interrupts. So
    no thread waits for itself, and as none waits for another one inside, all come in sooner or later.
    """

    def __init__(self, most: int) -> None:
        if isinstance(most, bool) or not isinstance(most, int) or most < 1:
            raise InputError(f"max_concurrency must be at least 1, got {most!r}")
        self._most = most
        self.forget()
        _limits.add(self)

    def forget(self) -> None:
        """Nobody is in: in a forked child, the other threads are not there."""
        self._free = threading.Semaphore(self._most)
        self._inside = threading.local()

    @contextmanager
    def holding_place(self, deadline: Deadline | None = None) -> Iterator[None]:
        """Be inside for the time of a block. TimeoutError where the ``deadline`` comes first."""
        if getattr(self._inside, "yes", False):
            yield
            return
        free, inside = self._free, self._inside
        while not free.acquire(timeout=None if deadline is None else deadline.check()):
            pass
        inside.yes = True
        try:
            yield
        finally:
            inside.yes = False
            free.release()


_limits: weakref.WeakSet[Limit] = weakref.WeakSet()


def _forget_all() -> None:
    for limit in list(_limits):
        limit.forget()


os.register_at_fork(after_in_child=_forget_all)
