"""Tensor expressions at their edges: what wraps, what is empty, what is shared, what only the run knows."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import tilewright as tw
from tilewright import te


def placeholder(*shape: object, dtype: str = "float32", name: str = "A") -> te.Tensor:
    return te.placeholder(shape, dtype, name=name)


def run(made: te.Tensor, inputs: list[te.Tensor], *arrays: object) -> np.ndarray:
    return tw.build(te.create_schedule(made.op), [*inputs, made]).run([np.asarray(each) for each in arrays])[0]


@pytest.mark.parametrize(
    ("extent", "index"),
    [
        (1 << 16, lambda i: i.astype("int16")),
        (100_000, lambda i: i.astype("int16").astype("int32")),
        (300, lambda i: (i.astype("int8") + 1).astype("int64")),
        (3, lambda i: (te.const(1.5, "float32") * 2.0).astype("int32")),
        (10, lambda i: ((i + 4) * (1 << 30) // (1 << 20)).astype("int64")),
    ],
)
def test_an_index_that_wraps_or_is_rounded_reads_nothing_outside(extent: int, index: Callable[..., te.Expr]):
    a = placeholder(extent)
    made = te.compute((extent,), lambda i: a[index(i)], name="C")
    with pytest.raises(tw.InputError, match="outside of its"):
        run(made, [a], np.ones(extent, np.float32))


def test_an_index_is_checked_as_it_is_read():
    a, at = placeholder(10), placeholder(1, dtype="int32", name="I")
    made = te.compute((1,), lambda i: a[at[i] * 65536 * 65536], name="C")
    with pytest.raises(tw.InputError, match=str(1 << 32)):
        run(made, [at, a], np.array([1], np.int32), np.zeros(10, np.float32))


def test_sizes_that_do_not_fit_end_the_run():
    n, m = te.var("n"), te.var("m")
    a, b = placeholder(m), placeholder(n, name="B")
    made = te.compute((n,), lambda i: a[i] + b[i], name="C")
    library = tw.build(te.create_schedule(made.op), [a, b, made])
    np.testing.assert_array_equal(library.run([np.ones(4, np.float32), np.ones(3, np.float32)])[0], [2, 2, 2])
    with pytest.raises(tw.InputError, match="reads axis 0 of 'A' outside of its m elements: 5"):
        library.run([np.ones(3, np.float32), np.zeros(6, np.float32)])


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int32", "uint64"])
def test_shifts_by_all_bits_and_more(dtype: str):
    a, b = placeholder(5, dtype=dtype), placeholder(5, dtype=dtype, name="B")
    made = te.compute((5,), lambda i: (a[i] << b[i]) ^ (a[i] >> b[i]), name="C")
    bits = np.iinfo(dtype).bits
    x, y = np.array([1, 3, 7, 100, 90], dtype), np.array([0, 1, bits - 1, bits, bits + 1], dtype)
    np.testing.assert_array_equal(run(made, [a, b], x, y), te.evaluate([made], {a: x, b: y})[0])
    assert te.evaluate([made], {a: x, b: y})[0][3:].tolist() == [0, 0]
    with pytest.raises(tw.ExpressionError, match="it has"):
        assert a[0] << bits


def test_zeros_of_both_signs_are_two_constants():
    a = placeholder(2)
    made = te.compute((2,), lambda i: 1 / (te.const(-0.0, "float32") + (a[i] + te.const(0.0, "float32")) * -0.0))
    assert run(made, [a], np.ones(2, np.float32)).tolist() == [-np.inf, -np.inf]


def test_an_expression_that_is_shared_is_looked_at_once():
    a = placeholder(4)

    def power(i: te.IterVar) -> te.Expr:
        x = te.if_then_else(i > 0, a[i], a[i] * 0.5)
        for _ in range(40):
            x = te.if_then_else(x > 0, x * x, x)
        return x

    made = te.compute((4,), power, name="C")
    tw.testing.assert_same(te.create_schedule(made.op), [a, made])


@pytest.mark.parametrize("shape", [(3, 0), (0, 3), (3, 0, 2)])
def test_tensors_of_no_elements(shape: tuple[int, ...]):
    a = placeholder(*shape)
    made = te.compute(shape, lambda *i: a(*i) * 2, name="C")
    schedule = te.create_schedule(made.op)
    schedule[made].fuse(*made.op.axis[:2])
    tw.testing.assert_same(schedule, [a, made])


def test_a_reduction_of_nothing_is_what_it_begins_with():
    a, k = placeholder(3), te.reduce_axis((0, 0), "k")
    made = te.compute((3,), lambda i: te.max(a[i] + k.astype("float32"), axis=k), name="C")
    assert te.evaluate([made], {a: np.ones(3, np.float32)})[0].tolist() == [-np.inf] * 3


def test_tensors_of_no_axes():
    a, k = placeholder(5), te.reduce_axis((0, 5), "k")
    total = te.compute((), lambda: te.sum(a[k], axis=k), name="S")
    made = te.compute((5,), lambda i: a[i] - total(), name="C")
    tw.testing.assert_same(te.create_schedule(made.op), [a, made])
    tw.testing.assert_same(te.create_schedule(total.op), [a, total])


@pytest.mark.parametrize("known", [True, False])
@pytest.mark.parametrize(("extent", "factor"), [(20, 8), (9, 8), (200, 16), (7, 4), (16, 8)])
def test_vectors_of_a_reduction_with_a_smaller_last_step(extent: int, factor: int, known: bool):
    size = extent if known else te.var("n")
    a, k = placeholder(size, 7), te.reduce_axis((0, 7), "k")
    made = te.compute((size,), lambda i: te.sum(a[i, k], axis=k), name="C")
    schedule = te.create_schedule(made.op)
    outer, inner = schedule[made].split(made.op.axis[0], factor)
    schedule[made].reorder(outer, k, inner)
    schedule[made].vectorize(inner)
    schedule[made].parallel(outer)
    tw.testing.assert_same(schedule, [a, made], sizes={"n": extent})


@pytest.mark.parametrize("tiled", [False, True])
def test_a_product_of_sizes_that_only_the_run_knows(tiled: bool):
    n, m, size = te.var("n"), te.var("m"), te.var("k")
    a, b, k = placeholder(n, size), placeholder(size, m, name="B"), te.reduce_axis((0, size), "k")
    made = te.compute((n, m), lambda i, j: te.sum(a[i, k] * b[k, j], axis=k), name="C")
    schedule = te.create_schedule(made.op)
    if tiled:
        io, jo, ii, ji = schedule[made].tile(made.op.axis[0], made.op.axis[1], 4, 16)
        ko, ki = schedule[made].split(k, 4)
        schedule[made].reorder(io, jo, ko, ii, ki, ji)
        schedule[made].vectorize(ji)
        schedule[made].parallel(io)
    for sizes in ({"n": 13, "m": 37, "k": 7}, {"n": 1, "m": 16, "k": 8}, {"n": 4, "m": 3, "k": 0}):
        tw.testing.assert_same(schedule, [a, b, made], sizes=sizes)


def test_a_reduction_of_a_size_that_only_the_run_knows_in_a_loop():
    m = te.var("m")
    a, k = placeholder(9, m), te.reduce_axis((0, m), "k")
    total = te.compute((9,), lambda i: te.sum(a[i, k], axis=k), name="S")
    made = te.compute((9, m), lambda i, j: a[i, j] + total[i], name="C")
    schedule = te.create_schedule(made.op)
    schedule[total].compute_at(schedule[made], made.op.axis[0])
    tw.testing.assert_same(schedule, [a, made])


def test_an_element_that_is_read_twice_is_computed_once():
    a, k = placeholder(8, 32), te.reduce_axis((0, 32), "k")
    total = te.compute((8,), lambda i: te.sum(a[i, k], axis=k), name="S")
    made = te.compute((8,), lambda i: te.if_then_else(total[i] > 0, total[i], 0.1 * total[i]), name="C")
    schedule = te.create_schedule(made.op)
    schedule[total].compute_at(schedule[made], made.op.axis[0])
    tw.testing.assert_same(schedule, [a, made])
    assert "each of" not in tw.lower(schedule, [a, made], simple_mode=True)


def test_a_softmax_is_computed_row_by_row():
    a, k, k2 = placeholder(8, 37), te.reduce_axis((0, 37), "k"), te.reduce_axis((0, 37), "k2")
    most = te.compute((8,), lambda i: te.max(a[i, k], axis=k), name="M")
    exps = te.compute((8, 37), lambda i, j: te.exp(a[i, j] - most[i]), name="E")
    total = te.compute((8,), lambda i: te.sum(exps[i, k2], axis=k2), name="S")
    made = te.compute((8, 37), lambda i, j: exps[i, j] / total[i], name="C")
    schedule = te.create_schedule(made.op)
    for stage in (total, exps):
        schedule[stage].compute_at(schedule[made], made.op.axis[0])
    tw.testing.assert_same(schedule, [a, made])


@pytest.mark.parametrize("choose", [lambda made: made[::-1], lambda made: made[0]])
def test_a_reducer_gives_all_of_its_results_in_order(choose: Callable[..., object]):
    a, k = placeholder(4, 8), te.reduce_axis((0, 8), "k")
    both = te.comm_reducer(
        lambda x, y: (x[0] + y[0], x[1] * y[1]), lambda s, t: (te.const(0, s), te.const(1, t)), "both"
    )
    with pytest.raises(tw.ExpressionError, match="in part, or in another order"):
        te.compute((4,), lambda i: choose(both((a[i, k], a[i, k]), axis=k)), name="C")


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: te.const(float("nan"), "int32"), "nan is no int32"),
        (lambda: float(placeholder(3)[0]), "use te's functions"),
        (lambda: range(placeholder(3, dtype="int32")[0]), "use te's functions"),
        (
            lambda: tw.lower(te.create_schedule(made_of_a_size()), [made_of_a_size()]),
            "no part of this schedule|computes",
        ),
    ],
)
def test_what_a_review_found_is_refused_in_words(make: Callable[[], object], message: str):
    with pytest.raises(tw.TilewrightError, match=message):
        make()


def made_of_a_size() -> te.Tensor:
    return te.compute((te.var("n"),), lambda i: i * 2, name="C")


def test_a_step_has_a_largest_size():
    n = te.var("n")
    a = placeholder(n)
    made = te.compute((n,), lambda i: a[i], name="C")
    schedule = te.create_schedule(made.op)
    outer, _ = schedule[made].split(made.op.axis[0], factor=1 << 30)
    for factor in (1 << 64, 4):
        with pytest.raises(tw.ScheduleError, match="at most 2147483647"):
            schedule[made].split(outer, factor=factor)
    with pytest.raises(tw.ScheduleError, match=r"give C, not C\.op"):
        schedule.cache_write(made.op, "local")  # type: ignore[arg-type]


def test_names_are_no_ops_of_the_compilers_own():
    a, k = placeholder(3, 4), te.reduce_axis((0, 4), "k")
    init = te.compute((3,), lambda i: te.sum(a[i, k], axis=k), name="C.init")
    store = te.compute((3,), lambda i: init[i] * 2, name="C.store")
    made = te.compute((3,), lambda i: store[i] + 1, name="C")
    schedule = te.create_schedule(made.op)
    for stage in (store, init):
        schedule[stage].compute_at(schedule[made], made.op.axis[0])
    tw.testing.assert_same(schedule, [a, made])


def test_a_tile_in_a_smaller_last_step_that_threads_share():
    a, k = placeholder(17, 8), te.reduce_axis((0, 8), "k")
    p = te.compute((17, 8), lambda i, j: a[i, j] + a[i, j], name="P")
    c = te.compute((17,), lambda i: te.max(p[i, k], axis=k), name="C")
    schedule = te.create_schedule(c.op)
    outer, reduced, _, _ = schedule[c].tile(c.op.axis[0], k, 5, 8)
    lanes = schedule[p].tile(p.op.axis[0], p.op.axis[1], 4, 8)[3]
    schedule[p].compute_at(schedule[c], reduced)
    schedule[c].parallel(outer)
    schedule[p].vectorize(lanes)
    tw.testing.assert_same(schedule, [a, c])


def test_what_a_reduction_of_several_results_reads_is_computed_in_its_loop():
    a, k = placeholder(16, 7), te.reduce_axis((0, 7), "k")
    both = te.comm_reducer(
        lambda x, y: (x[0] + y[0], te.max(x[1], y[1])), lambda t, u: (te.const(0, t), te.const(0, u))
    )
    c = te.compute((16,), lambda i: both((k.var + 1, a[i, k]), axis=k), name="C")
    schedule = te.create_schedule(c[0].op)
    cached = schedule.cache_read(a, "local", [c[0].op])
    schedule[cached].compute_at(schedule[c[0]], k)
    tw.testing.assert_same(schedule, [a, *c])


@pytest.mark.parametrize("open_rows", [False, True])
def test_tiles_that_are_read_further_on_have_memory_for_that(open_rows: bool):
    rows = te.var("n") if open_rows else 8
    e = placeholder(rows + 2, 9, name="E")
    p = te.compute((rows + 2, 7), lambda i, j: e[i, j] + e[i, j + 1] + e[i, j + 2], name="P")
    q = te.compute((rows + 2, 7), lambda i, j: p[i, j] * 2, name="Q")
    c = te.compute((rows, 7), lambda i, j: q[i, j] + q[i + 1, j] + q[i + 2, j], name="C")
    schedule = te.create_schedule(c.op)
    outer, _, _, _ = schedule[c].tile(c.op.axis[0], c.op.axis[1], 5, 2)
    schedule[q].compute_at(schedule[c], outer)
    schedule[p].compute_inline()
    schedule[q].split(q.op.axis[0], factor=4)
    schedule[c].parallel(outer)
    x = np.random.default_rng(0).random((8 + 2, 9), np.float32)
    found = tw.build(schedule, [e, c], num_threads=2).run([x])[0]
    np.testing.assert_allclose(found, te.evaluate([c], {e: x})[0], rtol=1e-6)


def test_memory_of_tiles_is_bounded_and_that_of_results_is_not():
    n = te.var("n")
    a, k = placeholder(n, 8), te.reduce_axis((0, 8), "k")
    p = te.compute((n, 8), lambda i, j: a[i, j] * 2, name="P")
    c = te.compute((n,), lambda i: te.sum(p[i, k], axis=k), name="C")
    schedule = te.create_schedule(c.op)
    outer, _ = schedule[c].split(c.op.axis[0], factor=5)
    schedule[p].compute_at(schedule[c], outer)
    schedule[p].split(p.op.axis[0], factor=4)
    schedule[c].parallel(outer)
    tw.testing.assert_same(schedule, [a, c], sizes={"n": 33})


def test_a_size_that_is_told_by_a_multiple_of_it():
    n = te.var("n")
    a = placeholder(n * 2 + 1)
    c = te.compute((n,), lambda i: a[i * 2 + 2] - a[i * 2], name="C")
    library = tw.build(te.create_schedule(c.op), [a, c])
    assert library.run([np.arange(7, dtype=np.float32)])[0].tolist() == [2, 2, 2]
    with pytest.raises(tw.InputError, match="axis 0 of 'A'"):
        library.run([np.arange(6, dtype=np.float32)])


@pytest.mark.parametrize("extent", [4, 7])
def test_an_extent_that_is_not_what_its_symbol_says_is_refused(extent: int):
    n = te.var("n")
    a, b = placeholder(n), placeholder(n * 2, name="B")
    c = te.compute((n,), lambda i: a[i] + b[i * 2], name="C")
    with pytest.raises(tw.InputError, match="axis 0 of 'B'"):
        run(c, [a, b], np.ones(3, np.float32), np.ones(extent, np.float32))


def test_sizes_that_are_quotients():
    n = te.var("n")
    a = placeholder(n)
    c = te.compute((n // 2,), lambda i: a[i * 2] + (n // 3).astype("float32"), name="C")
    x = np.arange(7, dtype=np.float32)
    assert te.evaluate([c], {a: x})[0].tolist() == run(c, [a], x).tolist() == [2, 4, 6]
