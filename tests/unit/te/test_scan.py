"""Recurrences: rows that are computed of rows before, held against numpy, and what is no recurrence."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tilewright as tw
from tilewright import te

ROWS, COLUMNS = 7, 12


def check(outputs: list[te.Tensor], inputs: list[te.Tensor], sizes: dict[str, int] | None = None) -> tw.Module:
    """Build a schedule of plain loops, and hold it against numpy."""
    schedule = te.create_schedule([each.op for each in dict.fromkeys(outputs)])
    made = np.random.default_rng(0)
    shapes = [[n if isinstance(n, int) else (sizes or {})[str(n)] for n in t.shape] for t in inputs]
    arrays = [made.integers(-2, 3, s).astype(t.dtype) for s, t in zip(shapes, inputs, strict=True)]
    library = tw.build(schedule, [*inputs, *outputs])
    wanted = te.evaluate(outputs, dict(zip(inputs, arrays, strict=True)))
    for found, expected in zip(library.run(arrays), wanted, strict=True):
        np.testing.assert_allclose(found.astype(np.float32), expected.astype(np.float32), rtol=1e-5, atol=1e-5)
    return library


def sums(m: Any = ROWS, n: Any = COLUMNS) -> tuple[te.Tensor, te.Tensor]:
    x, state = te.placeholder((m, n), name="X"), te.placeholder((m, n), name="state")
    first = te.compute((1, n), lambda _, i: x[0, i], name="first")
    update = te.compute((m, n), lambda t, i: state[t - 1, i] + x[t, i], name="update")
    return x, te.scan(first, update, state, inputs=[x], name="sums")


@pytest.mark.parametrize("open_sizes", [False, True])
def test_sums_of_rows(open_sizes: bool):
    x, made = sums(*((te.var("m"), te.var("n")) if open_sizes else ()))
    library = check([made], [x], {"m": 5, "n": 9})
    array = np.ones((ROWS, COLUMNS), np.float32)
    np.testing.assert_allclose(library.run([array])[0], array.cumsum(0))
    if open_sizes:
        with pytest.raises(tw.InputError):
            library.run([np.ones((0, 3), np.float32)])


def test_the_loops_of_a_scan_are_shown():
    x, made = sums()
    text = tw.lower(te.create_schedule(made.op), [x, made], simple_mode=True)
    assert [line.strip() for line in text.splitlines()[7:11]] == [
        "sums[0:1, ...] = first",
        "for (t, 1, 7) {",
        "update[t, i] = state[t - 1, i] + X[t, i]",
        "sums[t, ...] = update[t, ...]",
    ]


def test_a_step_of_several_stages_and_a_reader():
    x, state = te.placeholder((ROWS, COLUMNS), name="X"), te.placeholder((ROWS, COLUMNS), name="state")
    first = te.compute((1, COLUMNS), lambda _, i: x[0, i])
    twice = te.compute((ROWS, COLUMNS), lambda t, i: state[t - 1, i] * 2, name="twice")
    update = te.compute((ROWS, COLUMNS), lambda t, i: te.max(twice[t, i] + x[t, i], t.astype("float32")), name="update")
    made = te.scan(first, update, state)
    last = te.compute((ROWS, COLUMNS), lambda t, i: made[t, COLUMNS - 1 - i] + made[ROWS - 1, i], name="last")
    check([last], [x])


def test_several_states_and_rows_further_back():
    x = te.placeholder((ROWS, 4), "int32", name="X")
    a, b = te.placeholder((ROWS, 4), "int32", name="a"), te.placeholder((ROWS, 2), "int32", name="b")
    begins = te.compute((2, 4), lambda t, i: t + x[t, i]), te.compute((2, 2), lambda t, i: x[t, i])
    first = te.compute((ROWS, 4), lambda t, i: a[t - 1, i] + a[t - 2, 3 - i], name="u")
    second = te.compute((ROWS, 2), lambda t, i: b[t - 1, 1 - i] + first[t, i] - x[t - 1, i + 2], name="v")
    made = te.scan(list(begins), [first, second], [a, b])
    assert [each.shape for each in made] == [(ROWS, 4), (ROWS, 2)]
    check(list(made), [x])


@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_a_recurrent_layer(dtype: str):
    x, w = te.placeholder((ROWS, COLUMNS), dtype, name="X"), te.placeholder((COLUMNS, COLUMNS), dtype, name="W")
    state, k = te.placeholder((ROWS, COLUMNS), dtype, name="h"), te.reduce_axis((0, COLUMNS), "k")
    hidden = te.compute((ROWS, COLUMNS), lambda t, i: te.sum(state[t - 1, k] * w[k, i], axis=k), name="product")
    update = te.compute((ROWS, COLUMNS), lambda t, i: te.max(te.min(hidden[t, i] * 0.25 + x[t, i], 4), -4), name="u")
    made = te.scan(te.compute((1, COLUMNS), lambda _, i: x[0, i]), update, state)
    check([made], [x, w])


def test_what_a_scan_reads_has_loops_of_its_own():
    x, state = te.placeholder((ROWS, COLUMNS), name="X"), te.placeholder((ROWS, COLUMNS), name="state")
    scaled = te.compute((ROWS, COLUMNS), lambda t, i: x[t, i] * 2, name="scaled")
    update = te.compute((ROWS, COLUMNS), lambda t, i: state[t - 1, i] + scaled[t, i], name="update")
    made = te.scan(te.compute((1, COLUMNS), lambda _, i: scaled[0, i]), update, state)
    schedule = te.create_schedule(made.op)
    cached = schedule.cache_write(scaled, "local")
    schedule[cached].compute_at(schedule[scaled], scaled.op.axis[0])
    schedule[scaled].parallel(scaled.op.axis[0])
    tw.testing.assert_same(schedule, [x, made])
    for call, message in REFUSED:
        with pytest.raises(tw.ScheduleError, match=message):
            call(schedule, scaled, made, update)


REFUSED: list[tuple[Callable[..., Any], str]] = [
    (lambda s, a, c, u: s[a].compute_inline(), "'scan' reads it, and is a scan|have been changed"),
    (lambda s, a, c, u: s[c].compute_inline(), "a scan, whose loops are the compiler's own"),
    (lambda s, a, c, u: s.cache_write(c, "local"), "it is a scan"),
    (lambda s, a, c, u: s.cache_read(a, "local", [c]), "the loops of a scan are not yours"),
    (lambda s, a, c, u: s.rfactor(c, a.op.axis[0]), "it is no reduction"),
    (lambda s, a, c, u: s[c].split(u.op.axis[0], 2), "the loops are none"),
    (lambda s, a, c, u: s[c].compute_at(s[a], a.op.axis[0]), "it is a scan"),
    (lambda s, a, c, u: s[u], "'update' is a step of 'scan'"),
]


def _scan(update: Any, first: Any = None, state: Any = None) -> Any:
    x = te.placeholder((ROWS, COLUMNS), name="X")
    held = te.placeholder((ROWS, COLUMNS), name="state") if state is None else state
    begin = te.compute((1, COLUMNS), lambda _, i: x[0, i]) if first is None else first
    return te.scan(begin, te.compute((ROWS, COLUMNS), lambda t, i: update(t, i, held, x), name="u"), held)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: _scan(lambda t, i, h, x: h[t, i]), r"'u' reads 'state\[t, i\]' .* where it reads 'state\[t - 1\]'"),
        (lambda: _scan(lambda t, i, h, x: h[t - 2, i]), r"where it reads 'state\[t - 1\]'"),
        (lambda: _scan(lambda t, i, h, x: h[0, i]), r"where it reads 'state\[t - 1\]'"),
        (lambda: _scan(lambda t, i, h, x: h[t - 1, i] + x[t - 2, i]), "which may lie outside"),
        (lambda: _scan(lambda t, i, h, x: h[t - 1, i], first=te.placeholder((1, 3))), "begins with rows of"),
        (lambda: _scan(lambda t, i, h, x: h[t - 1, i], first=te.placeholder((9, COLUMNS))), "begins with 9 rows of 7"),
        (lambda: te.scan(5, 6, 7), "is made of tensors"),
        (lambda: te.scan([sums()[1]], [], []), "1 tensors to begin with, 0 updates"),
        (lambda: te.scan(sums()[0], sums()[0], sums()[0]), "the update of 'scan' is a te.compute"),
        (lambda: te.scan(sums()[0], sums()[1], sums()[1]), "it is a te.placeholder"),
        (lambda: te.create_schedule(te.compute((3,), lambda i: te.placeholder((3,), name="A")[i - 1]).op), "reads 'A' at -1"),
    ],
)  # fmt: skip
def test_what_is_no_recurrence_is_refused(make: Callable[[], Any], message: str):
    with pytest.raises(tw.ExpressionError, match=message):
        make()
