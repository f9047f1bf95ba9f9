"""Samples of the parameters of a test: the others are left to ``make test-all``."""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Collection, Container, Iterable
from typing import Any

import pytest

_MARK = "campaign"


def campaign(*kept: str, every: int = 0) -> pytest.MarkDecorator:
    """Mark a test of many cases of the same paths: `make test` takes a sample of them, `make test-all` all.

    The sample is those that are named, each by its id or a part of it between two hyphens, or one of so many.
    """
    return getattr(pytest.mark, _MARK)(*kept, every=every)


def leave_campaigns(items: Collection[pytest.Item], whole: bool) -> None:
    """Leave the cases of campaigns that are not in their samples to `make test-all`.

    Those for other CPUs have a sample of their own. UsageError for a name that no case has, where ``whole`` files were
    collected.
    """
    seen: dict[str, int] = defaultdict(int)
    unknown: dict[tuple[str, str], bool] = {}
    for item in items:
        mark = item.get_closest_marker(_MARK)
        if mark is None or not isinstance(item, pytest.Function):
            continue
        test = item.nodeid.partition("[")[0]
        named = [name for name in mark.args if f"-{name}-" in f"-{item.callspec.id}-"]
        unknown |= {(test, name): (name not in named) and unknown.get((test, name), True) for name in mark.args}
        if item.get_closest_marker("other_cpu"):
            continue
        every = mark.kwargs["every"]
        taken = named or (every and seen[test] % every == 0)
        seen[test] += 1
        if not taken:
            item.add_marker(pytest.mark.slow)
    if whole and any(unknown.values()):
        raise pytest.UsageError(
            f"campaigns name cases that are not there: {[c for c, missing in unknown.items() if missing]}"
        )


def some_of(values: Iterable[tuple[Any, ...]], every: int) -> list[Any]:
    """Parameters, of which each ``every``-th is always tested; the others are left to ``make test-all``."""
    marks = itertools.cycle([(), *[(pytest.mark.slow,)] * (every - 1)])
    return [pytest.param(*value, marks=mark) for value, mark in zip(values, marks, strict=False)]


def leaving(values: Iterable[Any], slow: Container[Any]) -> list[Any]:
    """Parameters, of which those that are ``slow`` are left to ``make test-all``."""
    marked = [(value, (pytest.mark.slow,) if value in slow else ()) for value in values]
    return [pytest.param(*value if isinstance(value, tuple) else (value,), marks=marks) for value, marks in marked]
