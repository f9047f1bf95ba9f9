"""Sizes within ranges: whatever the symbols are, an answer that is given holds, and bounds contain every value."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from tilewright.core.dims import Dim, format_extent, parse
from tilewright.core.errors import DynamicExtentError, ModelError
from tilewright.core.intervals import Interval
from tilewright.core.sizes import (
    Extent,
    Sym,
    bounds_of,
    floor_divide,
    floor_mod,
    if_equal,
    if_less,
    is_less,
    lower_bound_of,
    max_of,
    may_be_equal,
    min_of,
)

RANGES = {"n": (1, 8), "m": (0, 5), "k": (3, None), "t": (-4, 2), "u": (None, None)}
N, M, K = (Sym(name, *RANGES[name]) for name in "nmk")


@dataclass(frozen=True)
class Case:
    """An expression, and what it is for numbers in the place of the symbols."""

    extent: Extent
    value: int


TWO: Mapping[str, tuple[Callable[..., Extent], Callable[..., int]]] = {
    "+": (operator.add, operator.add),
    "-": (operator.sub, operator.sub),
    "*": (operator.mul, operator.mul),
    "//": (floor_divide, operator.floordiv),
    "%": (floor_mod, operator.mod),
    "min": (min_of, min),
    "max": (max_of, max),
}
FOUR: Mapping[str, tuple[Callable[..., Extent], Callable[..., int]]] = {
    "if_equal": (if_equal, lambda a, b, x, y: x if a == b else y),
    "if_less": (if_less, lambda a, b, x, y: x if a < b else y),
}


def symbols() -> st.SearchStrategy[dict[str, Case]]:
    """A size for each symbol, within its range."""
    ends = {name: (-9 if low is None else low, 20 if high is None else high) for name, (low, high) in RANGES.items()}
    numbers = st.fixed_dictionaries({name: st.integers(*end) for name, end in ends.items()})
    return numbers.map(lambda found: {name: Case(Sym(name, *RANGES[name]), n) for name, n in found.items()})


def expression(draw: st.DrawFn, leaves: Mapping[str, Case], depth: int) -> Case:
    if depth == 0 or draw(st.booleans()):
        number = draw(st.integers(-5, 12))
        return draw(st.sampled_from([Case(number, number), *leaves.values()]))
    name = draw(st.sampled_from([*TWO, *FOUR]))
    make, compute = {**TWO, **FOUR}[name]
    parts = [expression(draw, leaves, depth - 1) for _ in range(2 if name in TWO else 4)]
    assume(name not in ("//", "%") or parts[1].value)
    return Case(make(*(p.extent for p in parts)), compute(*(p.value for p in parts)))


@st.composite
def pairs(draw: st.DrawFn) -> tuple[Case, Case]:
    leaves = draw(symbols())
    return expression(draw, leaves, 3), expression(draw, leaves, 3)


@settings(max_examples=300, deadline=None)
@given(pairs())
def test_answers_hold_whatever_the_symbols_are(found: tuple[Case, Case]):
    a, b = found
    assert a.value in bounds_of(a.extent)
    assert b.value in bounds_of(b.extent)
    if not may_be_equal([a.extent], [b.extent]):
        assert a.value != b.value
    try:
        assert is_less(a.extent, b.extent) == (a.value < b.value)
    except DynamicExtentError:
        assert isinstance(a.extent - b.extent, Sym)
    if isinstance(a.extent, int):
        assert a.extent == a.value


@pytest.mark.parametrize(
    "holds",
    [N >= 1, N <= 8, N < 9, N * 4 <= 32, N + M > 0, K > 2, -N < 0, floor_divide(N, 3) <= 2, N % 4 < 4, N * K >= 3],
)
def test_what_the_range_decides_is_decided(holds):
    assert holds is True


def test_choices_that_the_range_decides_are_made_at_once():
    assert if_equal(N, 9, 1, 2) == 2
    assert if_equal(Sym("batch", 2, 8), 1, 5, M) == M
    assert min_of(N, 8) == N and max_of(N, M + 8) == M + 8
    assert floor_divide(N, 9) == 0
    assert not may_be_equal([N], [9]) and may_be_equal([N], [8])


@pytest.mark.parametrize("use", [lambda: N < 8, lambda: N > 1, lambda: N <= M, lambda: K < 1000, lambda: bool(M)])
def test_what_the_range_leaves_open_is_refused(use):
    with pytest.raises(DynamicExtentError, match="known only at run time"):
        use()


def test_computed_sizes_keep_their_bounds():
    assert bounds_of(N * 3 + M - 1) == Interval(2, 28)
    assert bounds_of(max_of(N, K)) == Interval(3)
    assert bounds_of(M * -1) == Interval(-5, 0)
    assert lower_bound_of(Sym("any", None)) is None


@pytest.mark.parametrize(
    ("written", "found"),
    [
        ("3", 3),
        ("?", Dim()),
        ("1..8", Dim("", Interval(1, 8))),
        ("2..", Dim("", Interval(2))),
        ("n", Dim("n")),
        ("n8", Dim("n8")),
        ("n=1..8", Dim("n", Interval(1, 8))),
        ("n=4", Dim("n", Interval(4, 4))),
        ("5..5", 5),
    ],
)
def test_what_a_user_says_of_a_dimension(written, found):
    assert parse(written) == found


@pytest.mark.parametrize("written", ["", "-1", "8..1", "..8", "n8..9", "n=", "=3", "n m", "1...3", "1.5", "n=?"])
def test_what_says_no_dimension_is_refused(written):
    with pytest.raises(ModelError, match=r"is not a dimension|is a range without a size"):
        parse(written)


def test_what_is_written_is_read_again():
    for extent, words in ((N, "n=1..8"), (Sym("batch"), "batch"), (Sym("x.0"), "?"), (Sym("x.0", 2), "2.."), (7, "7")):
        assert format_extent(extent, "x.0") == words
    assert format_extent(N * 2) == "2*n"
