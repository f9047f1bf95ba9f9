"""Work beside what a thread does."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import TypeVar

_Made = TypeVar("_Made")


def run_beside(work: Callable[[], _Made]) -> Future[_Made]:
    """Do some work in a thread of its own and return its future; a process that ends does not wait for it.

    That pays for work that leaves the interpreter to others: hashing, reading and writing files.
    """
    made: Future[_Made] = Future()

    def run() -> None:
        try:
            made.set_result(work())
        except BaseException as error:
            made.set_exception(error)

    threading.Thread(target=run, daemon=True).start()
    return made
