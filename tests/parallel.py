"""Many calls in child processes: what crashes or hangs is one lost answer, and the rest goes on."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from tilewright.tools.debugging.isolation import Child


def call_all(function: Callable[[Any], Any], arguments: Sequence[Any], processes: int, seconds: float) -> Iterator[Any]:
    """``function`` of each argument, in order and as soon as it is there; a call that takes longer than ``seconds`` or
    dies gives a ``Lost``.

    Function, arguments and answers are pickled. The function should not raise: that is a death too.
    """
    children = [Child(function, seconds) for _ in range(processes)]
    mine = threading.local()

    def start() -> None:
        mine.child = children.pop()

    with ThreadPoolExecutor(processes, initializer=start) as pool:
        yield from pool.map(lambda argument: mine.child.call(argument), arguments)
