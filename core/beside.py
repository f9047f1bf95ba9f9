"""Work of a job that can be done beside the rest of it: in a copy of the process where it may have one, else after."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from contextvars import ContextVar
from typing import Any, TypeVar

_Made = TypeVar("_Made")
# Of some work what begins it, and gives what finishes it.
Beginner = Callable[[Callable[[], Any]], AbstractContextManager[Callable[[], Any]]]

_beginner: ContextVar[Beginner | None] = ContextVar("tilewright_beginner", default=None)


def begin_beside(work: Callable[[], _Made]) -> AbstractContextManager[Callable[[], _Made]]:
    """Begin ``work``, which makes plain data; what the block gets gives that, and raises what the work raises.

    The work must not need what the block changes: only what is asked for in the end is sure to be done after it.
    """
    beginner = _beginner.get()
    return contextlib.nullcontext(work) if beginner is None else beginner(work)


@contextlib.contextmanager
def beginning_by(beginner: Beginner | None) -> Iterator[None]:
    """Let ``beginner`` begin the work of the block."""
    token = _beginner.set(beginner)
    try:
        yield
    finally:
        _beginner.reset(token)
