"""Numbers at several sizes, as extents."""

from __future__ import annotations

import pytest

from tilewright.core.sizes import Extent, Sym, floor_divide, min_of
from tilewright.frontends.linalg.fitting import Fit, value_at

B, H, W = Sym("b"), Sym("h"), Sym("w")
HALF = floor_divide(H + 1, 2)
POINTS = ({"b": 56, "h": 113, "w": 117}, {"b": 4, "h": 97, "w": 129}, {"b": 57, "h": 72, "w": 88})
KNOWN = (B, H, W, HALF)
FOUND: dict[str, Extent] = {
    "a number": 7,
    "a symbol": B,
    "a sum": H + 2,
    "what is left": 300 - W,
    "a multiple": 3 * HALF + 1,
    "a product": B * H,
    "several": 8 * B * HALF * W,
    "a product of sums": 2 * (H + 1) * B,
    "a square": H * H,
}


@pytest.mark.parametrize("extent", FOUND.values(), ids=FOUND)
def test_finds_what_the_numbers_are_made_of(extent: Extent):
    numbers = tuple(value_at(extent, point) for point in POINTS)
    assert Fit(POINTS, KNOWN).extent(numbers) == extent


def test_says_nothing_of_other_numbers():
    assert Fit(POINTS, KNOWN).extent((1, 2, 5)) is None
    assert Fit(POINTS, (B, H)).extent(tuple(value_at(HALF, point) for point in POINTS)) is None


def test_values_of_functions_are_numbers():
    assert value_at(min_of(H, W) * 2 + HALF, {"h": 9, "w": 4}) == 13
