"""Sizes that only the run knows: one normal form, and answers that hold whatever the symbols are."""

import pickle

import pytest

from tilewright.errors import OpenExtentError
from tilewright.sizes import Sym, floordiv, if_equal, if_less, largest, lowest, mod, product, smallest

N, M = Sym("n"), Sym("m")


def test_equal_sizes_have_one_form():
    assert (N + 2) * 3 == 3 * N + 6
    assert N * M - M * N == 0
    assert product([N, 4, M]) == M * 4 * N
    assert hash(N + M) == hash(M + N)
    assert N != M


def test_what_cancels_is_a_number():
    assert (N + 5) - N == 5
    assert isinstance(floordiv(12 * N, N), int)
    assert floordiv(6 * N + 4, 2) == 3 * N + 2
    assert (6 * N) % 3 == 0


def test_a_quotient_with_a_rest_is_a_symbol_of_its_own():
    half = floordiv(N + 1, 2)
    assert half == floordiv(1 + N, 2)
    assert half != floordiv(N, 2)

    assert lowest(half) == 0


@pytest.mark.parametrize(
    ("found", "want"),
    [
        (largest(N, 0), N),
        (smallest(N, N + 1), N),
        (if_equal(N, N, 1, 2), 1),
        (if_equal(N + 1, 0, 1, 2), 2),
        (if_less(N, 0, 1, 2), 2),
        (if_equal(M, N, 7, 7), 7),
    ],
)
def test_choices_that_hold_always_are_made_at_once(found, want):
    assert found == want


def test_multiples_are_divided_apart():
    assert floordiv(2 * N - 1, 2) == N - 1
    assert floordiv(4 * N + M + 9, 4) == N + 2 + floordiv(M + 1, 4)
    assert mod(6 * N + M - 1, 3) == mod(M + 2, 3)


def test_choices_that_the_run_makes_keep_their_bounds():
    chosen = if_equal(N, 1, M, N)
    assert isinstance(chosen, Sym)
    assert lowest(chosen) == 0
    assert lowest(Sym("loaded", None)) is None


@pytest.mark.parametrize("use", [int, bool, lambda n: n < 7, lambda n: list(range(n)), lambda n: n > M])
def test_what_needs_a_number_is_refused(use):
    with pytest.raises(OpenExtentError, match="known only at run time"):
        use(N)


def test_comparisons_that_always_hold_are_answered():
    assert N + 1 > 0
    assert not N < 0
    assert bool(N + 1)


def test_a_size_survives_a_pickle():
    size = floordiv(N * 2 + 3, 4) * M
    assert pickle.loads(pickle.dumps(size)) == size
