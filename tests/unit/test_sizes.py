"""Sizes that only the run knows: one normal form, and answers that hold whatever the symbols are."""

import os
import pickle
import subprocess
import sys

import pytest

from tilewright.core import sizes
from tilewright.core.atoms import atoms_of
from tilewright.core.errors import DynamicExtentError
from tilewright.core.intervals import Interval
from tilewright.core.sizes import (
    Extent,
    Sym,
    bounds_of,
    count_elements,
    floor_divide,
    floor_mod,
    if_equal,
    if_less,
    is_less,
    lower_bound_of,
    max_of,
    may_be_equal,
    min_of,
    symbols_of,
)
from tilewright.frontends.linalg.fitting import value_at

N, M, K = Sym("n"), Sym("m"), Sym("k")


def test_equal_sizes_have_one_form():
    assert (N + 2) * 3 == 3 * N + 6
    assert N * M - M * N == 0
    assert count_elements([N, 4, M]) == M * 4 * N
    assert hash(N + M) == hash(M + N)
    assert N != M


def test_what_cancels_is_a_number():
    assert (N + 5) - N == 5
    assert isinstance(floor_divide(12 * N, N), int)
    assert floor_divide(6 * N + 4, 2) == 3 * N + 2
    assert (6 * N) % 3 == 0


def test_a_quotient_with_a_rest_is_a_symbol_of_its_own():
    half = floor_divide(N + 1, 2)
    assert half == floor_divide(1 + N, 2)
    assert half != floor_divide(N, 2)

    assert lower_bound_of(half) == 0


@pytest.mark.parametrize(
    ("found", "want"),
    [
        (max_of(N, 0), N),
        (min_of(N, N + 1), N),
        (if_equal(N, N, 1, 2), 1),
        (if_equal(N + 1, 0, 1, 2), 2),
        (if_less(N, 0, 1, 2), 2),
        (if_equal(M, N, 7, 7), 7),
    ],
)
def test_choices_that_hold_always_are_made_at_once(found, want):
    assert found == want


def test_multiples_are_divided_apart():
    assert floor_divide(2 * N - 1, 2) == N - 1
    assert floor_divide(4 * N + M + 9, 4) == N + 2 + floor_divide(M + 1, 4)
    assert floor_mod(6 * N + M - 1, 3) == floor_mod(M + 2, 3)


def test_choices_that_the_run_makes_keep_their_bounds():
    chosen = if_equal(N, 1, M, N)
    assert isinstance(chosen, Sym)
    assert lower_bound_of(chosen) == 0
    assert lower_bound_of(Sym("loaded", None)) is None


@pytest.mark.parametrize("use", [int, bool, lambda n: n < 7, lambda n: list(range(n)), lambda n: n > M])
def test_what_needs_a_number_is_refused(use):
    with pytest.raises(DynamicExtentError, match="known only at run time"):
        use(N)


def test_comparisons_that_always_hold_are_answered():
    assert N + 1 > 0
    assert not N < 0
    assert bool(N + 1)


def test_a_size_survives_a_pickle():
    size = floor_divide(N * 2 + 3, 4) * M
    assert pickle.loads(pickle.dumps(size)) == size


def deep(levels: int, start: Extent = N) -> Extent:
    """A size whose text would have more than ``2 ** levels`` words: each level reads the one before twice."""
    size = start
    for _ in range(levels):
        size = floor_divide(size * 3 + max_of(size, M), 5) + 1
    return size


def test_deep_sizes_share_what_they_are_made_of():
    size, again = deep(200), deep(200)
    assert isinstance(size, Sym)
    assert len(atoms_of(size)) == 402  # two a level, and two symbols
    assert size == again and hash(size) == hash(again) and size - again == 0
    assert size != deep(200, K) and size != deep(199)
    assert symbols_of(size) == {"n", "m"}
    assert value_at(size, {"n": 7, "m": 5}) == _deep_value(200, 7, 5)


def _deep_value(levels: int, n: int, m: int) -> int:
    for _ in range(levels):
        n = (n * 3 + max(n, m)) // 5 + 1
    return n


def test_deep_sizes_are_pickled_without_recursion():
    data = pickle.dumps([deep(1200), deep(1200)])
    assert len(data) < 1200 * 300
    [size, _] = pickle.loads(data)
    assert size == deep(1200)
    assert isinstance(size, Sym) and len(atoms_of(size)) == 2402


def test_texts_are_short_and_different():
    texts = {str(deep(levels)) for levels in range(60)}
    assert len(texts) == 60
    assert max(map(len, texts)) < 200
    assert str(Sym("x" * 500)) == "x" * 500  # by a symbol's name it is found


def test_comparisons_make_no_text(monkeypatch):
    monkeypatch.setattr(sizes, "short_text", lambda size: pytest.fail(f"a text of {len(atoms_of(size))} atoms"))
    with pytest.raises(DynamicExtentError):
        is_less(deep(50), deep(51))
    assert may_be_equal([deep(50)], [deep(51)])
    assert sorted([deep(50), deep(50)], key=hash)


def test_messages_are_made_when_they_are_read():
    with pytest.raises(DynamicExtentError) as caught:
        is_less(deep(50), deep(51))
    assert "is known only at run time" in str(caught.value)
    assert len(str(caught.value)) < 450
    assert str(pickle.loads(pickle.dumps(caught.value))) == str(caught.value)


def test_polynomials_stay_short():
    def power(levels: int) -> Extent:
        size: Extent = N
        for _ in range(levels):
            size = size * size + M
        return size

    size = power(100)
    assert isinstance(size, Sym) and size == power(100)
    assert len(size.terms) < 65 and max(len(atoms) for atoms, _ in size.terms) < 17
    assert lower_bound_of(size) == 0
    assert value_at(power(6), {"n": 2, "m": 1}) == _power_value(6, 2, 1)
    assert size + 1 - size == 1
    assert pickle.loads(pickle.dumps(size)) == size


def _power_value(levels: int, n: int, m: int) -> int:
    for _ in range(levels):
        n = n * n + m
    return n


def test_the_order_of_terms_is_the_same_in_all_processes():
    code = (
        "from tilewright.core.sizes import Sym, floor_divide, floor_mod, max_of\n"
        "n, m, k = map(Sym, 'nmk')\n"
        "print(n * 5 + max_of(m, n) + floor_mod(k, 7) + floor_divide(n, 3) + floor_divide(m, 3) + floor_divide(k, 3) * floor_mod(n, 5))"
    )
    runs = [
        subprocess.run([sys.executable, "-c", code], env={**os.environ, "PYTHONHASHSEED": seed}, stdout=subprocess.PIPE)
        for seed in ("1", "2", "3")
    ]
    assert len({run.stdout for run in runs}) == 1 and runs[0].stdout


def test_symbols_of_one_name_are_one_size():
    assert Sym("n", 1, 8) == N and hash(Sym("n", 1, 8)) == hash(N)
    assert bounds_of(floor_divide(Sym("n", 1, 8), 2)) == Interval(0, 4)
    assert floor_divide(Sym("n", 1, 8), 2) == floor_divide(N, 2)
