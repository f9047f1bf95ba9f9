"""Reductions of a value and its place become one of values and one of places, as any combiner has them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from samples import campaign

import tilewright as tw
from tilewright import te

Better = Callable[[Any, Any], te.Expr]


def best(dtype: str, is_better: Better, lowest: te.Expr, turned: bool) -> list[te.Tensor]:
    a, k = te.placeholder((6, 35), dtype, name="a"), te.reduce_axis((0, 35), name="k")

    def join(x: Any, y: Any) -> Any:
        if turned:
            return tuple(te.if_then_else(is_better(x[1], y[1]), y[n], x[n]) for n in range(2))
        return tuple(te.if_then_else(is_better(x[1], y[1]), x[n], y[n]) for n in range(2))

    reducer = te.comm_reducer(join, lambda place, _: (te.const(-1, place), lowest), name="best")
    return [a, *te.compute((6,), lambda i: reducer((k, a[i, k]), axis=k), name="o")]


def draw(dtype: str) -> np.ndarray:
    """Rows with few different numbers, and one that has nothing but the lowest."""
    made = np.random.default_rng(0).integers(-3, 4, (6, 35)).astype(dtype)
    made[2] = -np.inf if dtype == "float32" else np.iinfo(np.int32).min
    return made


@campaign("first-float32", "last-int32", "last-turned-float32", "first-turned-int32")
@pytest.mark.parametrize("dtype", ["float32", "int32"])
@pytest.mark.parametrize(
    ("is_better", "turned"),
    [
        (lambda x, y: x >= y, False),
        (lambda x, y: x > y, False),
        (lambda x, y: y > x, True),
        (lambda x, y: y >= x, True),
    ],
    ids=["first", "last", "first-turned", "last-turned"],
)
def test_places_of_equal_numbers_are_those_of_the_steps_one_by_one(dtype: str, is_better: Better, turned: bool) -> None:
    array, (a, *outputs) = draw(dtype), best(dtype, is_better, te.min_value(dtype), turned)
    schedule = te.create_schedule([each.op for each in outputs])
    schedule.auto()
    built = tw.build(schedule, [a, *outputs], records=False, workers=0)
    assert "vectorize row" in str(built.get_source("schedule")) or "row_chunk" in str(built.get_source("schedule"))
    for got, wanted in zip(built.run([array]), te.evaluate(outputs, {a: array}), strict=True):
        np.testing.assert_array_equal(got, wanted)


def test_what_is_no_comparison_of_values_goes_step_by_step() -> None:
    """The best value by its distance to 1: as a maximum it would be another one."""
    a, *outputs = best("float32", lambda x, y: abs(x - 1.0) <= abs(y - 1.0), te.const(100.0, "float32"), False)
    schedule = te.create_schedule([each.op for each in outputs])
    schedule.auto()
    built = tw.build(schedule, [a, *outputs], records=False, workers=0)
    array = np.random.default_rng(0).standard_normal((6, 35)).astype(np.float32)
    for got, wanted in zip(built.run([array]), te.evaluate(outputs, {a: array}), strict=True):
        np.testing.assert_array_equal(got, wanted)
