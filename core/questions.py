"""Questions that a job has for the process that gave it: what only that one knows, such as functions of its user."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from typing import Any

Asker = Callable[[Callable[..., Any], tuple[Any, ...]], Any]

_asker: ContextVar[Asker | None] = ContextVar("asker", default=None)


def ask(function: Callable[..., Any], *arguments: Any) -> Any:
    """Call ``function``, from a module of this package, in the process that sent the job; here if there is none.

    Arguments and answer are plain data. Raises the TilewrightError that the function raises.
    """
    asker = _asker.get()
    return function(*arguments) if asker is None else asker(function, arguments)


@contextlib.contextmanager
def asking_through(asker: Asker) -> Iterator[None]:
    """Let ``asker`` answer the questions of the block."""
    token = _asker.set(asker)
    try:
        yield
    finally:
        _asker.reset(token)
