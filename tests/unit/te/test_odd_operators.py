"""Operators that no network has, with schedules of the compiler's own: right on sizes that are multiples of nothing."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from samples import campaign

import tilewright as tw
from tilewright import te
from tilewright.core.target import detect_host
from tilewright.driver import api
from tilewright.tuning.expressions import make_computation
from tilewright.tuning.tasks import extract_tasks

Operator = Callable[[], list[te.Tensor]]


def place(*shape: int, name: str = "a", dtype: str = "float32") -> te.Tensor:
    return te.placeholder(shape, name=name, dtype=dtype)


def sum_over(extent: int, name: str = "k") -> te.IterVar:
    return te.reduce_axis((0, extent), name=name)


def banded_vector() -> list[te.Tensor]:
    a, x, k = place(61, 33), place(94, name="x"), sum_over(33)
    return [a, x, te.compute((61,), lambda i: te.sum(a[i, k] * x[i + k], axis=k), name="o")]


def banded_matrix() -> list[te.Tensor]:
    a, x, k = place(37, 5), place(42, 29, name="x"), sum_over(5)
    return [a, x, te.compute((37, 29), lambda i, j: te.sum(a[i, k] * x[i + k, j], axis=k), name="o")]


def banded_exponents() -> list[te.Tensor]:
    a, x, k = place(61, 33), place(94, name="x"), sum_over(33)
    return [a, x, te.compute((61,), lambda i: te.sum(te.exp(a[i, k]) * x[i + k], axis=k), name="o")]


def batched_bands() -> list[te.Tensor]:
    a, x, k = place(3, 31, 7), place(3, 38, name="x"), sum_over(7)
    return [a, x, te.compute((3, 31), lambda b, i: te.sum(a[b, i, k] * x[b, i + k], axis=k), name="o")]


def local_filters() -> list[te.Tensor]:
    """A filter for each place."""
    x, w, k, c = place(24, 7), place(19, 5, 7, 13, name="w"), sum_over(5), sum_over(7, "c")
    return [x, w, te.compute((19, 13), lambda i, f: te.sum(x[i + k, c] * w[i, k, c, f], axis=[k, c]), name="o")]


def shortest_ways() -> list[te.Tensor]:
    a, b, k = place(23, 31), place(31, 45, name="b"), sum_over(31)
    return [a, b, te.compute((23, 45), lambda i, j: te.min(a[i, k] + b[k, j], axis=k), name="o")]


def scaled_distances() -> list[te.Tensor]:
    a, b, c, k = place(13, 31), place(31, 45, name="b"), place(45, name="c"), sum_over(31)
    return [a, b, c, te.compute((13, 45), lambda i, j: te.sum(te.abs(a[i, k] * b[k, j] - c[j]), axis=k), name="o")]


def few_columns() -> list[te.Tensor]:
    a, b, k = place(23, 67), place(67, 3, name="b"), sum_over(67)
    return [a, b, te.compute((23, 3), lambda i, j: te.max(a[i, k] - b[k, j], axis=k), name="o")]


def pairs_of_rows() -> list[te.Tensor]:
    a, b, k = place(23, 31), place(19, 31, name="b"), sum_over(31)
    return [a, b, te.compute((23, 19), lambda i, j: te.sum(te.abs(a[i, k] - b[j, k]), axis=k), name="o")]


def diagonal() -> list[te.Tensor]:
    a = place(37, 37)
    return [a, te.compute((37,), lambda i: a[i, i] * 2.0, name="o")]


def diagonal_rows() -> list[te.Tensor]:
    a = place(7, 7, 35)
    return [a, te.compute((7, 35), lambda i, j: te.exp(a[i, i, j]), name="o")]


def skewed_rows() -> list[te.Tensor]:
    a, k = place(29, 66), sum_over(37)
    return [a, te.compute((29,), lambda i: te.max(a[i, k + i], axis=k), name="o")]


def traces() -> list[te.Tensor]:
    a, k = place(35, 9, 9), sum_over(9)
    return [a, te.compute((35,), lambda i: te.sum(a[i, k, k], axis=k), name="o")]


def reversed_sums() -> list[te.Tensor]:
    x, v, k = place(83, name="x"), place(17, name="v"), sum_over(17)
    return [x, v, te.compute((66,), lambda i: te.sum(x[i + k] * v[16 - k] * v[k], axis=k), name="o")]


def bilinear_forms() -> list[te.Tensor]:
    """The contiguous dim of the first operand is the other one of those that are summed up."""
    x, w, y = place(5, 37, name="x"), place(7, 37, 37, name="w"), place(5, 37, name="y")
    p, q = sum_over(37, "p"), sum_over(37, "q")
    return [x, w, y, te.compute((5, 7), lambda i, j: te.sum(x[i, p] * w[j, p, q] * y[i, q], axis=[p, q]), name="o")]


def distances_by_matrices() -> list[te.Tensor]:
    x, m, s = place(9, 19, name="x"), place(5, 19, name="m"), place(5, 19, 19, name="s")
    p, q = sum_over(19, "p"), sum_over(19, "q")

    def distance(i: te.IterVar, j: te.IterVar) -> te.Expr:
        return te.sum((x[i, p] - m[j, p]) * s[j, p, q] * (x[i, q] - m[j, q]), axis=[p, q])

    return [x, m, s, te.compute((9, 5), distance, name="o")]


def local_products() -> list[te.Tensor]:
    """Of each row with those that follow it, as local attention has them."""
    q, k, e = place(33, 37, name="q"), place(54, 37, name="k"), sum_over(37, "e")
    return [q, k, te.compute((33, 21), lambda i, j: te.sum(q[i, e] * k[i + j, e], axis=e), name="o")]


def crossed_sums() -> list[te.Tensor]:
    """Whichever loop is the row, elements of the other operand lie apart."""
    x, y, p, q = place(5, 13, 17, name="x"), place(17, 13, name="y"), sum_over(13, "p"), sum_over(17, "q")
    return [x, y, te.compute((5,), lambda i: te.sum(x[i, p, q] * y[q, p], axis=[p, q]), name="o")]


def slanted_sums() -> list[te.Tensor]:
    """The last tile of rows has one, whose sum walks a diagonal."""
    a, k = place(35, 3), sum_over(3)
    return [a, te.compute((33,), lambda i: te.sum(a[i + k, k], axis=k), name="o")]


def bits_that_differ() -> list[te.Tensor]:
    a, b, k = place(13, 5, dtype="int32"), place(21, 5, name="b", dtype="int32"), sum_over(5)

    def count(i: te.IterVar, j: te.IterVar) -> te.Expr:
        v = a[i, k] ^ b[j, k]
        v = v - ((v >> 1) & 0x55555555)
        v = (v & 0x33333333) + ((v >> 2) & 0x33333333)
        return te.sum((((v + (v >> 4)) & 0x0F0F0F0F) * 0x01010101) >> 24, axis=k)

    return [a, b, te.compute((13, 21), count, name="o")]


def turned_sums() -> list[te.Tensor]:
    """The first axis of the result is the one that both operands lie along."""
    a, b, k = place(29, 24, name="a"), place(57, 13, 24, name="b"), sum_over(29)
    return [a, b, te.compute((24, 13), lambda i, j: te.sum(a[k, i] * b[2 * k, j, i], axis=k), name="o")]


def turned_maxima() -> list[te.Tensor]:
    a, k = place(7, 29, 49), sum_over(29)
    return [a, te.compute((49, 7), lambda i, j: te.max(a[j, k, i], axis=k), name="o")]


def weighted_squares() -> list[te.Tensor]:
    """An operand of single elements lies as the result does not."""
    a, w, k = place(29, 7, 49), place(7, 49, name="w"), sum_over(29)
    return [a, w, te.compute((49, 7), lambda i, j: te.sum(a[k, j, i] * w[j, i], axis=k), name="o")]


def skewed_pairs() -> list[te.Tensor]:
    """Of the second operand, vectors walk two dims."""
    a, b, k = place(31, 9, 21), place(29, 21, name="b"), sum_over(31)
    return [a, b, te.compute((9, 21), lambda i, j: te.sum(a[k, i, j] * b[i + j, j], axis=k), name="o")]


def scattered_vector() -> list[te.Tensor]:
    """Neither the vector nor the matrix lies along the result, nor both along one sum."""
    v, m = place(3, 13, 7, name="v"), place(7, 13, 37, 3, name="m")
    p, q, r = sum_over(13, "p"), sum_over(7, "q"), sum_over(3, "r")
    return [v, m, te.compute((37,), lambda i: te.sum(v[r, p, q] * m[q, p, i, r], axis=[p, q, r]), name="o")]


def correlations() -> list[te.Tensor]:
    a, b, k = place(17, 6, 21), place(17, 8, 25, name="b"), sum_over(17)

    def volume(y: te.IterVar, x: te.IterVar, i: te.IterVar, j: te.IterVar) -> te.Expr:
        return te.sum(a[k, i, j] * b[k, i + y, j + x], axis=k)

    return [a, b, te.compute((3, 5, 6, 21), volume, name="o")]


def repeated_diagonal() -> list[te.Tensor]:
    """Nothing that is read shows how long the sum is."""
    a, k = place(17, 17), sum_over(31)
    return [a, te.compute((17,), lambda i: te.sum(a[i, i], axis=k), name="o")]


def clamped_windows() -> list[te.Tensor]:
    """What goes backwards and is held at the first element, as one copy."""
    a, w, k = place(83), place(16, name="w"), sum_over(16)
    return [a, w, te.compute((83,), lambda i: te.sum(a[te.max(i - k, 0)] * w[k], axis=k), name="o")]


def bordered_windows() -> list[te.Tensor]:
    a, w, y, x = place(19, 37), place(3, 5, name="w"), sum_over(3, "y"), sum_over(5, "x")

    def inside(i: te.Expr, j: te.Expr) -> te.Expr:
        return te.if_then_else(te.all(i >= 0, i < 19, j >= 0, j < 37), a[i, j], 0.0)

    return [
        a,
        w,
        te.compute((19, 37), lambda i, j: te.sum(inside(i + y - 1, j + x - 2) * w[y, x], axis=[y, x]), name="o"),
    ]


def halved_windows() -> list[te.Tensor]:
    """A quotient that is one number, whose axis the rest of the places does not have alone."""
    a, b, k = place(1, 2), place(8, 6, name="b"), sum_over(8)
    return [a, b, te.compute((2, 6), lambda i, j: te.sum(a[i // 2, te.max(i - k, 0)] * b[k, j], axis=k), name="o")]


def circular_windows() -> list[te.Tensor]:
    a, w, k = place(64), place(7, name="w"), sum_over(7)
    return [a, w, te.compute((64,), lambda i: te.sum(a[(i * 2 - k) % 64] * w[k], axis=k), name="o")]


def backward_rows() -> list[te.Tensor]:
    """Each element is read once: there is no copy."""
    a, b, k = place(9, 33), place(9, 33, name="b"), sum_over(33)
    return [a, b, te.compute((9,), lambda i: te.sum(a[i, 32 - k] * b[i, k], axis=k), name="o")]


OPERATORS: list[Operator] = [
    banded_vector, banded_matrix, banded_exponents, batched_bands, local_filters, shortest_ways, scaled_distances,
    few_columns, pairs_of_rows, diagonal, diagonal_rows, skewed_rows, traces, reversed_sums, bits_that_differ,
    bilinear_forms, distances_by_matrices, local_products, crossed_sums, slanted_sums,
    turned_sums, turned_maxima, weighted_squares, skewed_pairs, scattered_vector, correlations,
    repeated_diagonal, clamped_windows, bordered_windows, circular_windows, backward_rows,
    halved_windows,
]  # fmt: skip


def draw(tensor: te.Tensor, random: np.random.Generator) -> np.ndarray:
    shape = tuple(int(extent) for extent in tensor.shape)
    if tensor.dtype == "int32":
        return random.integers(-(2**31), 2**31, shape).astype(np.int32)
    return random.standard_normal(shape).astype(np.float32)


@campaign(
    "1",
    "2-batched_bands",
    "2-few_columns",
    "2-reversed_sums",
    "2-local_products",
    "2-turned_maxima",
    "2-scattered_vector",
    "2-clamped_windows",
)
@pytest.mark.parametrize("operator", OPERATORS, ids=lambda operator: operator.__name__)
@pytest.mark.parametrize("threads", [1, 2])
def test_an_odd_operator_is_right(operator: Operator, threads: int) -> None:
    *inputs, output = operator()
    schedule = te.create_schedule(output.op)
    schedule[output.op].auto()
    random = np.random.default_rng(0)
    arrays = [draw(tensor, random) for tensor in inputs]
    built = tw.build(schedule, [*inputs, output], num_threads=threads, records=False, workers=0)
    [wanted] = te.evaluate([output], dict(zip(inputs, arrays, strict=True)))
    np.testing.assert_allclose(built.run(arrays)[0], wanted, rtol=1e-4, atol=1e-4)


def open_bands(n: Any) -> list[te.Tensor]:
    a, x, k = te.placeholder((n, 33), name="a"), te.placeholder((n + 33, 29), name="x"), sum_over(33)
    return [a, x, te.compute((n, 29), lambda i, j: te.sum(a[i, k] * x[i + k, j], axis=k), name="o")]


def open_ways(n: Any) -> list[te.Tensor]:
    a, b, k = te.placeholder((23, n), name="a"), te.placeholder((n, 45), name="b"), te.reduce_axis((0, n), name="k")
    return [a, b, te.compute((23, 45), lambda i, j: te.min(a[i, k] + b[k, j], axis=k), name="o")]


def open_slants(n: Any) -> list[te.Tensor]:
    """Sums go in chunks, which add to what is there: no tile may be computed twice."""
    a, b, k = te.placeholder((n, n + 6), name="a"), te.placeholder((5,), name="b"), te.reduce_axis((0, n), name="k")
    return [a, b, te.compute((7, 5), lambda i, j: te.sum(a[k, k + i] * b[j], axis=k), name="o")]


def open_clamps(n: Any) -> list[te.Tensor]:
    a, b, k = te.placeholder((n,), name="a"), te.placeholder((n, 3), name="b"), te.reduce_axis((0, n), name="k")
    return [a, b, te.compute((n, 3), lambda i, j: te.sum(a[te.max(i - k, 0)] * b[k, j], axis=k), name="o")]


def open_diagonal(n: Any) -> list[te.Tensor]:
    a = te.placeholder((n, n), name="a")
    return [a, te.compute((n,), lambda i: a[i, i] * 2.0, name="o")]


@pytest.mark.parametrize(
    ("operator", "shapes"),
    [
        (open_bands, lambda n: [(n, 33), (n + 33, 29)]),
        (open_ways, lambda n: [(23, n), (n, 45)]),
        (open_diagonal, lambda n: [(n, n)]),
        (open_slants, lambda n: [(n, n + 6), (5,)]),
        (open_clamps, lambda n: [(n,), (n, 3)]),
    ],
    ids=lambda value: value.__name__.strip("<>"),
)
def test_an_odd_operator_of_open_sizes_is_right(
    operator: Callable[[Any], list[te.Tensor]], shapes: Callable[[int], list[tuple[int, ...]]]
) -> None:
    *inputs, output = operator(te.var("n"))
    schedule = te.create_schedule(output.op)
    schedule[output.op].auto()
    built = tw.build(schedule, [*inputs, output], num_threads=2, records=False, workers=0)
    random = np.random.default_rng(0)
    for n in (1, 7, 64, 131):
        arrays = [random.standard_normal(shape).astype(np.float32) for shape in shapes(n)]
        [wanted] = te.evaluate([output], dict(zip(inputs, arrays, strict=True)))
        np.testing.assert_allclose(built.run(arrays)[0], wanted, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(
    ("operator", "loops"),
    [
        (batched_bands, ["d0*d1 in 3 x 1, 31 x 1", "element"]),  # the code generator makes vectors of so short a sum
        (banded_vector, ["row"]),
        (banded_matrix, ["vectorize d1"]),
        (shortest_ways, ["vectorize d1"]),
        (scaled_distances, ["vectorize d1"]),
        (few_columns, ["row"]),
        (pairs_of_rows, ["for k", "vectorize d1"]),  # those of the second operand are moved
        (turned_sums, {16: ["tile d0.1 x d1.1 of 16 x "], 8: ["tile d0.1 x d1.1 of 8 x "]}),
        (turned_maxima, {16: ["tile d0.1 of 32"], 8: ["tile d0.1 x d1.1 of 8 x 2"]}),
        (weighted_squares, ["tile d0.1"]),
        (skewed_pairs, ["vectorize d0"]),  # both axes are one: the second operand is moved to where they lie
        (scattered_vector, ["vectorize n"]),
        (clamped_windows, ["for kw", "vectorize ow"]),
        (bordered_windows, ["for kw", "vectorize ow"]),
        # Rows of other images read the same.
        (
            correlations,
            {16: ["for d1 in 5 x 1:\n", "tile d0.1 x d3.1 of 3 x 16"], 8: ["d2*d1 in", "tile d0.1 x d3.1 of 3 x 8"]},
        ),
    ],
    ids=lambda value: value.__name__ if callable(value) else "",
)
def test_vectors_lie_where_operands_do(operator: Operator, loops: list[str] | dict[int, list[str]]) -> None:
    """``loops`` are those of all CPUs, or by the lanes of the CPU."""
    computation = make_computation(operator, ())
    tasks = extract_tasks((computation,), options=api.make_options(num_threads=1, records=False), workers=0)
    text = "\n".join(str(task.default) for task in tasks)
    expected = loops if isinstance(loops, list) else loops[detect_host().lanes]
    assert all(loop in text for loop in expected), text


def test_sums_of_open_sizes_have_blocks_of_rows() -> None:
    """The first operand lies along the sum, the second one along the result: as rows of sums they took fifty times."""
    m, n = te.var("m"), te.var("n")
    a, b, k = te.placeholder((m, n), name="a"), te.placeholder((n, 45), name="b"), te.reduce_axis((0, n), name="k")
    output = te.compute((m, 45), lambda i, j: te.min(a[i, k] + b[k, j], axis=k), name="o")
    schedule = te.create_schedule(output.op)
    schedule.auto()
    built = tw.build(schedule, [a, b, output], num_threads=1, records=False, workers=0)
    assert "vectorize d1" in built.get_source("schedule") and "element" not in built.get_source("schedule")


@pytest.mark.parametrize("operator", [bilinear_forms, distances_by_matrices, local_products])
def test_rows_of_sums_are_vectors(operator: Operator) -> None:
    """Along the loop whose steps lie apart in no operand: along another one they would be scalars, or gathers."""
    *inputs, output = operator()
    schedule = te.create_schedule(output.op)
    schedule.auto()
    built = tw.build(schedule, [*inputs, output], "x86 -mcpu=x86-64-v3", records=False, workers=0)
    code = built.get_source("asm")
    assert re.search(r"vfmadd\w+ps\b.*ymm", code) and not re.search(r"v(gather|insert)\w*ps", code)


def moments(n: object, m: object) -> list[te.Tensor]:
    a, k = te.placeholder((n, m), name="a"), te.reduce_axis((0, m), name="k")
    both = te.comm_reducer(
        lambda x, y: (x[0] + y[0], te.max(x[1], y[1])), lambda t, u: (te.const(0, t), te.min_value(u)), "both"
    )
    return [a, *te.compute((n,), lambda i: both((a[i, k], a[i, k] * 2.0), axis=k), name="o")]


def places(n: object, m: object) -> list[te.Tensor]:
    a, k = te.placeholder((n, m), name="a"), te.reduce_axis((0, m), name="k")
    best = te.comm_reducer(
        lambda x, y: (te.select(x[1] >= y[1], x[0], y[0]), te.max(x[1], y[1])),
        lambda t, u: (te.const(-1, t), te.min_value(u)),
        "best",
    )
    return [a, *te.compute((n,), lambda i: best((k.astype("int32"), a[i, k]), axis=k), name="o")]


@pytest.mark.parametrize("opened", [False, True])
def test_results_of_a_reduction_that_need_nothing_of_each_other_are_kernels_of_their_own(opened: bool) -> None:
    """Sum and greatest of a row have vectors and threads; the place of the greatest is found beside it."""
    array = np.random.default_rng(1).standard_normal((67, 45)).astype(np.float32)
    sizes = (te.var("n"), te.var("m")) if opened else array.shape
    for operator, kernels in ((moments, 2), (places, 1)):
        a, *outputs = operator(*sizes)
        schedule = te.create_schedule([each.op for each in outputs[:1]])
        schedule.auto()
        built = tw.build(schedule, [a, *outputs], num_threads=2, records=False, workers=0)
        assert len(built.manifest.kernels) == kernels
        for made, wanted in zip(built.run([array]), te.evaluate(outputs, {a: array}), strict=True):
            np.testing.assert_allclose(made, wanted, rtol=1e-4, atol=1e-4)


def test_columns_of_several_results_have_vectors() -> None:
    """The place of the greatest of each column: rows go by one after another, and columns lie in vectors."""
    a, k = place(45, 131), sum_over(45)
    best = te.comm_reducer(
        lambda x, y: (te.select(x[1] >= y[1], x[0], y[0]), te.select(x[1] >= y[1], x[1], y[1])),
        lambda t, u: (te.const(-1, t), te.min_value(u)),
        "best",
    )
    outputs = te.compute((131,), lambda j: best((k.astype("int32"), a[k, j]), axis=k), name="o")
    schedule = te.create_schedule([outputs[0].op])
    schedule.auto()
    built = tw.build(schedule, [a, *outputs], "x86 -mcpu=x86-64-v3", records=False, workers=0)
    array = np.random.default_rng(1).standard_normal((45, 131)).astype(np.float32)
    found, greatest = built.run([array])
    np.testing.assert_array_equal(found, array.argmax(0))
    np.testing.assert_array_equal(greatest, array.max(0))
    assert re.search(r"v(max|cmp\w+)ps\b.*ymm", built.get_source("asm"))
