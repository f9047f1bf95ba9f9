"""The model's nodes at which a pass over a whole graph fails, found by running it on beginnings of the graph."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from ..workers.fork import ENDLESS, Outcome, attempt

_FIRST_PART = 0.25  # of the time: for the failure as it was
# A beginning may take this long, and so many times what the longest took that did not fail: it has up to twice its ops.
_SECONDS, _FACTOR = 1.0, 5


def nodes_at_fault(facts: Mapping[str, Any], module: str, seconds: float) -> list[str]:
    """The names of the nodes whose op makes a pass fail: without it and what is behind it the pass works.

    ``facts`` and the text at the path ``module`` are those of a recorded step. This is a worker's job: what is tried
    runs in forks of it. Nothing where the op is not found in so many ``seconds``, where the failure does not come
    again, and for steps that are no passes.
    """
    if not facts.get("passes"):
        return []
    from ..dialects import ir
    from ..dialects.context import make_context
    from ..passes import by_command, prefix

    target, context = by_command.restore_context(facts)
    with make_context(), ir.Location.unknown(), context:
        whole = by_command.parse(Path(module).read_text(), module)
        ops = prefix.ops_of(whole)

        def run(count: int) -> None:
            if count < len(ops):
                prefix.cut(whole, count)
            by_command.apply(facts["passes"], whole, target, context)

        found = first_failing(len(ops), lambda count, limit: attempt(lambda: run(count), limit), seconds)
        return [] if found is None else prefix.nodes_of(ops[found - 1])


def first_failing(total: int, run: Callable[[int, float], Outcome], seconds: float) -> int | None:
    """A count from 1 to ``total`` that fails as ``total`` does, while one less does not, by ``run(count, limit)``.

    None where that cannot be said in so many ``seconds``, or where ``total`` does not fail, or 0 does too.
    """
    search = _Search(run, seconds)
    if not search.begin(total) or search.fails(0):
        return None
    works, fails = 0, min(1, total)
    while fails < total and not search.fails(fails):
        works, fails = fails, min(2 * fails, total)
    while fails - works > 1:
        middle = (works + fails) // 2
        if search.fails(middle):
            fails = middle
        else:
            works = middle
    return None if search.exhausted else fails


class _Search:
    """Runs with a count. When the time is up, each further one counts as a failure, so that the search ends."""

    def __init__(self, run: Callable[[int, float], Outcome], seconds: float) -> None:
        self.exhausted = False
        self._run, self._seconds = run, seconds
        self._end = time.monotonic() + seconds
        self._slowest = 0.0  # of the runs that did not fail
        self._expected = ""

    def begin(self, total: int) -> bool:
        """Run the whole; True if it fails."""
        self._expected = _kind(self._run(total, self._seconds * _FIRST_PART))
        return bool(self._expected)

    def fails(self, count: int) -> bool:
        """Run a beginning; True if it fails as the whole does."""
        limit = min(_SECONDS, self._seconds / 10) + _FACTOR * self._slowest
        self.exhausted = self.exhausted or time.monotonic() + limit > self._end
        if self.exhausted:
            return True
        outcome = self._run(count, limit)
        if _kind(outcome) == self._expected:
            return True
        self._slowest = max(self._slowest, outcome.seconds)
        return False


def _kind(outcome: Outcome) -> str:
    """The kind of a failure; a run without an end may be stopped by its time or by its memory."""
    return ENDLESS if outcome.how == MemoryError.__name__ else outcome.how
