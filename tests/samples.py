"""Samples of the parameters of a test: the others are left to ``make test-all``."""

from __future__ import annotations

import itertools
from collections.abc import Container, Iterable
from typing import Any

import pytest


def some_of(values: Iterable[tuple[Any, ...]], every: int) -> list[Any]:
    """Parameters, of which each ``every``-th is always tested; the others are left to ``make test-all``."""
    marks = itertools.cycle([(), *[(pytest.mark.slow,)] * (every - 1)])
    return [pytest.param(*value, marks=mark) for value, mark in zip(values, marks, strict=False)]


def leaving(values: Iterable[Any], slow: Container[Any]) -> list[Any]:
    """Parameters, of which those that are ``slow`` are left to ``make test-all``."""
    marked = [(value, (pytest.mark.slow,) if value in slow else ()) for value in values]
    return [pytest.param(*value if isinstance(value, tuple) else (value,), marks=marks) for value, marks in marked]
