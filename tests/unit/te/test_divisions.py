"""Quotients and rests of indices: of bounds that are known they need no signs, and some are no division at all."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from samples import campaign

import tilewright as tw
from tilewright import te
from tilewright.te.expr import Operation
from tilewright.te.regions import Division, as_linear

N = 61
# Of an index from 0 to 60: expressions that begin below 0, end beyond, cross some multiples, one, or none.
INDICES: dict[str, Callable[[Any], Any]] = {
    "i": lambda i: i,
    "i - 7": lambda i: i - 7,
    "60 - i": lambda i: N - 1 - i,
    "3 i - 100": lambda i: 3 * i - 100,
    "i + 200": lambda i: i + 200,
    "-i": lambda i: 0 - i,
    "i // 3 - 9": lambda i: i // 3 - 9,
}
DIVISORS = (1, 2, 7, 61, 64, 300)


def build(args: list[te.Tensor], vectors: bool, name: str, outputs: int = 1) -> tw.Module:
    """The program of the last of the tensors."""
    s = te.create_schedule([made.op for made in args[-outputs:]])
    for made in args[-outputs:] if vectors else ():
        s[made].auto()
    return tw.build(s, args, num_threads=1, name=name)


@campaign("i-loops", "i - 7-loops", "60 - i-loops", "3 i - 100-loops", "i + 200-loops", "-i-loops", "i // 3 - 9-loops")
@pytest.mark.parametrize("vectors", [False, True], ids=["loops", "auto"])
@pytest.mark.parametrize("index", INDICES.values(), ids=INDICES)
def test_quotients_and_rests_round_down(index: Callable[[Any], Any], vectors: bool) -> None:
    """As values, and as places of a table, of numbers from -150 to 299."""
    table = te.placeholder((450,), name="table", dtype="int32")

    def list_values(i: Any) -> list[Any]:
        return [made for d in DIVISORS for made in (index(i) // d, index(i) % d)]

    wanted = np.stack(list_values(np.arange(N)))
    count = len(wanted)

    def choose(row: Any, values: list[Any]) -> Any:
        made = values[-1]
        for number in reversed(range(count - 1)):
            made = te.if_then_else(row == number, values[number], made)
        return made

    values = te.compute((count, N), lambda r, i: choose(r, list_values(i)), name="values")
    read = [te.compute((N,), lambda i, n=n: table[list_values(i)[n] + 150], name=f"read{n}") for n in range(count)]
    numbers = np.arange(-150, 300, dtype=np.int32)
    np.testing.assert_array_equal(build([table, values], vectors, "values")(numbers)[0], wanted)
    places = (2, 3, 4, 5, 6, 7, 10, 11)
    found = build([table, *(read[number] for number in places)], vectors, "reads", len(places))(numbers)
    np.testing.assert_array_equal(found, wanted[list(places)])


def test_a_rest_of_what_is_less_is_no_division() -> None:
    """So an op reads in place what it would else gather."""
    n = te.var("n")
    a, whole = te.placeholder((N,), name="a"), te.placeholder((n,), name="b")
    for tensor, extent in ((a, N), (whole, n)):
        op = te.compute((extent,), lambda i, t=tensor, e=extent: t[(e - 1 - i) % e], name="o").op
        [rest] = op.body[0].indices
        linear = as_linear(rest)
        assert isinstance(rest, Operation) and linear is not None and [*linear.terms.values()] == [-1]


@pytest.mark.parametrize(
    "low, divisor, shift, quotient", [(0, 70, 0, 0), (-3, 5, 1, None), (-70, 7, 10, None), (64, 64, 0, 1)]
)
def test_divisions_are_moved_above_zero(low: int, divisor: int, shift: int, quotient: int | None) -> None:
    i = te.compute((N,), lambda i: i + low, name="o").op.axis[0]
    expr = (i + low) % divisor
    assert isinstance(expr, Operation) and Division.of(expr) == Division(divisor, shift, quotient)


@pytest.mark.parametrize("dtype", ["float32", "int8", "float64", "uint16"])
@pytest.mark.parametrize("rows, columns", [(1, 7), (5, 7), (5, 16), (1, 45), (5, 133)])
def test_rows_from_their_end(dtype: str, rows: int, columns: int) -> None:
    """Elements of any type that count down along a row are loaded as a vector."""
    a = te.placeholder((rows, columns), name="a", dtype=dtype)
    turned = te.compute((rows, columns), lambda i, j: a[i, (columns - 1 - j) % columns], name="o")
    x = np.random.default_rng(0).integers(0, 100, (rows, columns)).astype(dtype)
    np.testing.assert_array_equal(build([a, turned], True, "turned")(x)[0], x[:, ::-1])
    moved = te.compute((rows, columns), lambda i, j: a[rows - 1 - i, (j + 3) % columns], name="o")
    np.testing.assert_array_equal(build([a, moved], True, "moved")(x)[0], np.roll(x[::-1], -3, 1))


def test_rows_of_open_length_from_their_end() -> None:
    n = te.var("n")
    a = te.placeholder((n,), name="a")
    turned = build([a, te.compute((n,), lambda i: a[(n - 1 - i) % n], name="o")], True, "turned")
    for length in (1, 15, 16, 33, 100):
        x = np.arange(length, dtype=np.float32)
        np.testing.assert_array_equal(turned(x)[0], x[::-1])
