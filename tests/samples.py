"""Samples of the parameters of a test: the others are left to ``make test-all``."""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from typing import Any

import pytest


def some_of(values: Iterable[tuple[Any, ...]], every: int) -> list[Any]:
    """Parameters, of which each ``every``-th is always tested; the others are left to ``make test-all``."""
    marks = itertools.cycle([(), *[(pytest.mark.slow,)] * (every - 1)])
    return [pytest.param(*value, marks=mark) for value, mark in zip(values, marks, strict=False)]
