"""TopK, NonZero and Unique against onnxruntime."""

from __future__ import annotations

import numpy as np
import pytest
from onnx_case import check_node, node_model
from samples import campaign

import tilewright as tw
from tilewright.core.errors import ModelError
from tilewright.dialects.bounds import MOST_HALVED
from tilewright.driver import api
from tilewright.frontends import import_model
from tilewright.tools.debugging.oracle import make_session
from tilewright.tools.networks.open_sizes import open_sizes

RANDOM = np.random.default_rng(0)


@pytest.mark.parametrize("largest", [0, 1])
@pytest.mark.parametrize(("extent", "k"), [(1, 1), (2, 2), (3, 2), (5, 5), (8, 8), (9, 1), (33, 20), (100, 64)])
def test_top_k_with_equal_values(extent, k, largest):
    x = RANDOM.integers(-9, 9, (2, extent, 3)).astype(np.float32)
    check_node("TopK", x, np.array([k]), known=[1], outputs=2, axis=1, largest=largest)


def test_top_k_of_other_types_and_versions():
    x = RANDOM.random((2, 31), np.float32)
    check_node("TopK", x, outputs=2, opset=9, k=11)
    check_node("TopK", x, np.array([31]), known=[1], outputs=2, opset=10)
    check_node("TopK", x.astype(np.float16), np.array([4]), known=[1], outputs=2)
    check_node("TopK", RANDOM.integers(-9, 9, (2, 31)), np.array([30]), known=[1], outputs=2)


@campaign("0-4-40-0", "1-3-607-200")
@pytest.mark.parametrize(
    ("rows", "extent", "k"), [(1, 1000, 5), (3, 607, 200), (2, 64, 32), (4, 40, 0), (1, 9, 4), (5, 70, 12)]
)
@pytest.mark.parametrize("largest", [0, 1])
def test_few_of_many_are_chosen(rows, extent, k, largest):
    """Equal values keep their order, also where they are chosen, put back and chosen again."""
    for x in (RANDOM.integers(0, 9, (rows, extent)), np.arange(rows * extent)[::-1].reshape(rows, extent) // 3):
        check_node("TopK", x.astype(np.float32), np.array([k]), known=[1], outputs=2, largest=largest)
        check_node("TopK", x.astype(np.uint8), np.array([k]), known=[1], outputs=2, largest=largest)
        check_node("TopK", x.astype(np.int64), np.array([k]), known=[1], outputs=2, largest=largest)


@campaign("300-10-0", "1100-60-0", "20000-30-1")
@pytest.mark.parametrize("largest", [0, 1])
@pytest.mark.parametrize(("extent", "k"), [(300, 10), (300, 299), (1100, 60), (20000, 30)])
def test_chosen_numbers_of_compiled_programs(extent, k, largest):
    """In rows that stay in a cache, and in longer ones; also where nearly all numbers are equal, or as far as can be."""
    ends = np.array([-(2**31), -1, 0, 2**31 - 1], np.int32)
    few = np.where(np.arange(3 * extent) % 97 == 5, np.float32(np.inf), np.float32(1)).reshape(3, extent)
    for x in (RANDOM.standard_normal((3, extent), np.float32), few, RANDOM.choice(ends, (3, extent))):
        model, inputs = node_model("TopK", [x, np.array([k])], [1], outputs=2, largest=largest)
        got = tw.compile(model, workers=0, num_threads=1, cache=False).run(inputs)
        for a, want in zip(got, make_session(model).run(None, inputs), strict=True):
            np.testing.assert_array_equal(a, want)


def _sort_first(x: np.ndarray, axis: int, k: int, largest: bool) -> np.ndarray:
    """The places of the first elements; equal ones keep their order, and what is no number comes last."""

    def order(column: np.ndarray) -> np.ndarray:
        items = [number.item() for number in column]
        key = [(number != number, 0 if number != number else -number if largest else number) for number in items]
        return np.array(sorted(range(len(items)), key=key.__getitem__)[:k])

    return np.apply_along_axis(order, axis, x)


@campaign(every=4)
@pytest.mark.parametrize("largest", [0, 1])
@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int32, np.int64])
@pytest.mark.parametrize(
    ("shape", "axis", "k"), [((3, 40), 0, 2), ((7, 6, 9), 1, 6), ((33, 5), 1, 3), ((2, 1, 2), 0, 2)]
)
def test_few_elements_of_compiled_programs(dtype, shape, axis, k, largest):
    """Along any axis, of whatever numbers; the columns may be open."""
    numbers = [-9, 0, 1, 9, np.nan, np.inf, -np.inf, -0.0] if np.dtype(dtype).kind == "f" else [
        0, 1, -1, np.iinfo(dtype).min, np.iinfo(dtype).max
    ]  # fmt: skip
    x = RANDOM.choice(np.array(numbers, dtype), shape)
    model, inputs = node_model("TopK", [x, np.array([k])], [1], outputs=2, largest=largest, axis=axis)
    got = tw.compile(model, workers=0, num_threads=1, cache=False).run(inputs)
    expected = _sort_first(x, axis, k, bool(largest))
    np.testing.assert_array_equal(got[1], expected)
    np.testing.assert_array_equal(got[0], np.take_along_axis(x, expected, axis))


@campaign(
    "64-2-False-float32-0",
    "64-2-False-float64-1",
    "61-9-False-int32-0",
    "61-9-False-int64-1",
    "19-19-False-uint64-1",
    "61-9-True-float64-0",
    "12-12-True-float32-1",
)
@pytest.mark.parametrize("largest", [0, 1])
@pytest.mark.parametrize("dtype", [np.float32, np.int32, np.uint8, np.float64, np.int64, np.uint64])
@pytest.mark.parametrize(
    ("extent", "k", "opened"), [(64, 2, False), (61, 9, False), (19, 19, False), (61, 9, True), (12, 12, True)]
)
def test_short_rows_of_compiled_programs(dtype, extent, k, opened, largest):
    """Also of the least and the greatest numbers, of equal ones, and of what is no number."""
    limits = np.finfo(dtype) if np.issubdtype(dtype, np.floating) else np.iinfo(dtype)
    special = [limits.max, limits.min, 0, 1] + ([np.nan, np.inf] if isinstance(limits, np.finfo) else [])
    few, all_equal = RANDOM.choice(np.array(special, dtype), (4, extent)), np.full((1, extent), limits.max, dtype)
    x = np.concatenate([few, all_equal, RANDOM.integers(0, 99, (3, extent)).astype(dtype)])
    model, _ = node_model("TopK", [x, np.array([k])], [1], outputs=2, largest=largest)
    model = open_sizes(model)[0] if opened else model
    values, indices = tw.compile(model, workers=0, num_threads=1, cache=False).run({"in0": x})
    places = np.arange(extent)
    for row, found in zip(x, indices, strict=True):
        ranks = np.unique(row, return_inverse=True)[1]
        want = np.lexsort((places, -ranks if largest else ranks, row != row))[:k]
        np.testing.assert_array_equal(found, want)
    np.testing.assert_array_equal(values, np.take_along_axis(x, indices, 1))


def test_threads_share_rows():
    model, _ = node_model("TopK", [RANDOM.random((50, 300), np.float32), np.array([7])], [1], outputs=2)
    made = api.stepwise(model, options=api.make_options("x86"))
    [kernel] = [kernel for kernel in made.kernels.values() if kernel.schedule and "around nests" in kernel.schedule]
    assert kernel.extent == 50


@campaign("float32-300-3-0", "float32-300-290-1", "float64-16484-30-0")
@pytest.mark.parametrize("largest", [0, 1])
@pytest.mark.parametrize(
    ("dtype", "extent", "k"),
    [(np.float32, 300, 3), (np.float32, 300, 290), (np.float64, 300, 290), (np.float64, MOST_HALVED + 100, 30)],
)
def test_no_number_comes_last(dtype, extent, k, largest):
    x = RANDOM.integers(-9, 9, (2, extent)).astype(dtype)
    x[:, ::2] = np.nan
    model, _ = node_model("TopK", [x, np.array([k])], [1], outputs=2, largest=largest)
    _, indices = tw.compile(model, workers=0, num_threads=1, cache=False).run({"in0": x})
    np.testing.assert_array_equal(indices, np.argsort(-x if largest else x, axis=1, kind="stable")[:, :k])


@campaign("uint64-1", "float64-0")
@pytest.mark.parametrize("largest", [0, 1])
@pytest.mark.parametrize("dtype", [np.int64, np.uint64, np.float64])
def test_numbers_of_64_bits(dtype, largest):
    """Some rows differ in all bits, others in the last ones alone, or but for one number; equal ones keep their order."""
    limits = np.iinfo(np.int64) if dtype == np.float64 else np.iinfo(dtype)
    wide = RANDOM.integers(limits.min, limits.max, (6, 500), dtype if dtype != np.float64 else np.int64, endpoint=True)
    wide[1] %= 50
    wide[2] = wide[2] % 1000 + 7_000_000_000_000
    wide[3] = wide[3] % 40
    wide[3, 100] = limits.max
    wide[4] = 3
    x = wide.astype(dtype)
    if dtype == np.float64:
        x[0, :3] = np.inf, -np.inf, -0.0
        x[5] = RANDOM.standard_normal(500)
    for rows in (x, x[:1]):
        model, inputs = node_model("TopK", [rows, np.array([40])], known=[1], outputs=2, largest=largest)
        values, places = tw.compile(model, workers=0, num_threads=1).run(inputs)
        want = np.argsort(rows if not largest else -rows.astype(np.object_), axis=1, kind="stable")[:, :40]
        np.testing.assert_array_equal(places, want)
        np.testing.assert_array_equal(values, np.take_along_axis(rows, want, 1))


@campaign("float32-6-1", "float64-10-1", "uint8-40-0")
@pytest.mark.parametrize(
    ("dtype", "k", "largest"),
    [(np.float32, 6, 1), (np.float32, 20, 0), (np.float64, 10, 1), (np.uint8, 40, 0), (np.float32, 2, 0)],
)
def test_chosen_numbers_of_dynamic_rows(dtype, k, largest):
    """Rows of all elements, short ones, of whole steps and of a rest, of as many as a cache holds keys of, and more."""
    model, _ = node_model("TopK", [np.ones((1, k), dtype), np.array([k])], [1], outputs=2, largest=largest)
    for number, dim in enumerate(model.graph.input[0].type.tensor_type.shape.dim):
        dim.dim_param = f"n{number}"
    program = tw.compile(model, workers=0, num_threads=1)
    for rows, extent in (
        (2, k),
        (1, k + 1),
        *((2, extent) for extent in (16, 17, 63) if extent >= k),
        (2, 64),
        (3, 65),
        (2, 128),
        (2, 129),
        (1, 300),
        (1, MOST_HALVED),
        (1, MOST_HALVED + 1),
    ):
        spread = RANDOM.integers(0, 120, (rows, extent)).astype(dtype)
        for x in (
            spread,
            np.full((rows, extent), 3, dtype),
            np.arange(rows * extent).reshape(rows, extent).astype(dtype),
        ):
            values, places = program.run({"in0": x})
            want = np.argsort(-x.astype(np.int64) if largest else x, axis=1, kind="stable")[:, :k]
            np.testing.assert_array_equal(places, want)
            np.testing.assert_array_equal(values, np.take_along_axis(x, want, 1))


@campaign("all-129-1", "all-1009-0", "third-1009-1", "open-1009-0")
@pytest.mark.parametrize("largest", [0, 1])
@pytest.mark.parametrize("extent", [129, 1009])
@pytest.mark.parametrize("some", ["all", "third", "open"])
def test_rows_of_64_bits_are_sorted_by_their_leading_bits(extent, largest, some):
    """Rows of few bits, rows whose leading bits are equal in pairs, and rows where they are equal in nearly all."""
    random = np.random.default_rng(extent)
    paired = random.permutation(extent) // 2 * 2**40 + random.integers(0, 9, extent)
    alike = np.concatenate([random.integers(0, 99, extent - 1), [2**62]])
    rows = np.stack([random.integers(-5, 5, extent), random.integers(-(2**62), 2**62, extent), paired, alike])
    k = extent - 1 if some == "all" else extent // 3
    for x in (rows, rows.astype(np.uint64), rows * 1e-300, np.where(rows % 7 == 1, np.nan, rows / 3)):
        model, inputs = node_model("TopK", [x, np.array([k])], [1], outputs=2, largest=largest)
        if some == "open":
            for number, dim in enumerate(model.graph.input[0].type.tensor_type.shape.dim):
                dim.dim_param = f"n{number}"
        values, places = tw.compile(model, workers=0, num_threads=1, cache=False).run(inputs)
        absent = x.dtype.kind == "f" and np.isnan(x)
        backward = (np.where(absent, -np.inf, x) if np.any(absent) else x)[:, ::-1]
        ascending = np.argsort(x, kind="stable")
        descending = extent - 1 - np.argsort(backward, kind="stable")[:, ::-1]
        want = (descending if largest else ascending)[:, :k]
        np.testing.assert_array_equal(places, want)
        np.testing.assert_array_equal(values, np.take_along_axis(x, want, 1))


def test_top_k_has_no_more_than_there_are():
    model, _ = node_model("TopK", [RANDOM.random((2, 5), np.float32), np.array([6])], [1], outputs=2)
    with pytest.raises(ModelError):
        import_model(model)


@campaign(every=3)
@pytest.mark.parametrize("dtype", ["float32", "float64", "int8", "uint64", "int64", "uint16"])
@pytest.mark.parametrize("count", [1, 2, 37, 300])
@pytest.mark.parametrize("in_order", [0, 1])
def test_distinct_numbers_are_found_without_the_host(dtype, count, in_order):
    """Also where numbers are NaN, which are equal to each other here, or zeros of both signs."""
    few = [-0.0, 0.0, 1.5, np.nan, -np.inf, np.inf, -3]
    if not dtype.startswith("float"):
        few = [np.iinfo(dtype).min, 0, 1, 7, np.iinfo(dtype).max]
    x = RANDOM.choice(np.array(few, dtype), count)
    model, inputs = node_model("Unique", [x], outputs=4, sorted=in_order)
    assert [node.verdict for node in tw.check_model(model).nodes] == ["compiled"]
    got = tw.compile(model, workers=0, num_threads=1, cache=False).run(inputs)
    values, first, inverse, counts = np.unique(x, True, True, True)
    if not in_order:
        order = np.argsort(first)
        values, first, counts, inverse = values[order], first[order], counts[order], np.argsort(order)[inverse]
    for one, other in zip(got, (values, first, inverse, counts), strict=True):
        np.testing.assert_array_equal(one, other)
    np.testing.assert_array_equal(np.signbit(got[0][got[0] == 0]), np.signbit(values[values == 0]))


@campaign(every=3)
@pytest.mark.parametrize("dtype", [np.float32, np.int8, np.int64])
@pytest.mark.parametrize(("shape", "axis"), [((40,), 0), ((30, 3), 0), ((3, 30), -1), ((2, 20, 2), 1), ((1, 5), 0)])
@pytest.mark.parametrize("in_order", [0, 1])
def test_distinct_slices_of_compiled_programs(dtype, shape, axis, in_order):
    x = RANDOM.integers(-1, 2, shape).astype(dtype)
    model, inputs = node_model("Unique", [x], outputs=4, sorted=in_order, axis=axis)
    got = tw.compile(model, workers=0, num_threads=1, cache=False).run(inputs)
    for one, other in zip(got, make_session(model).run(None, inputs), strict=True):
        np.testing.assert_array_equal(one, np.asarray(other))


def test_slices_of_what_is_no_number_are_equal():
    x = np.array([[1, np.nan], [np.nan, 1], [1, 2], [1, np.nan], [np.nan, 1]], np.float64)
    model, inputs = node_model("Unique", [x], outputs=4, axis=0)
    values, first, inverse, counts = tw.compile(model, workers=0, num_threads=1, cache=False).run(inputs)
    np.testing.assert_array_equal(values, x[[2, 0, 1]])
    assert [first.tolist(), inverse.tolist(), counts.tolist()] == [[2, 0, 1], [1, 2, 0, 1, 2], [1, 2, 2]]


def test_unsigned_slices_and_many():
    for x in (np.array([[200, 1], [100, 1]], np.uint8), np.arange(3000).reshape(1500, 2)[::-1].copy()):
        model, inputs = node_model("Unique", [x], outputs=4, axis=0)
        got = tw.compile(model, workers=0, num_threads=1, cache=False).run(inputs)
        for one, other in zip(got, np.unique(x, True, True, True, axis=0), strict=True):
            np.testing.assert_array_equal(one, other.reshape(one.shape))


@pytest.mark.parametrize("shape", [(6,), (3, 50)])
def test_known_values(shape):
    x = RANDOM.integers(0, 4, shape)
    check_node("NonZero", x, known=[0])
    for in_order in (0, 1):
        check_node("Unique", x, known=[0], outputs=4, sorted=in_order)
        check_node("Unique", x[:, :3] if x.ndim == 2 else x, known=[0], outputs=4, sorted=in_order, axis=0)
        check_node("Unique", x[:2, None], known=[0], outputs=4, sorted=in_order, axis=-1)


@pytest.mark.parametrize("shape", [(), (9,), (4, 5), (2, 3, 7, 5), (3, 1, 2), (0, 4)])
@pytest.mark.parametrize("opened", [False, True])
def test_places_of_compiled_programs(shape, opened):
    x = np.asarray(RANDOM.random(shape) < 0.4)
    model, inputs = node_model("NonZero", [x])
    [want] = make_session(model).run(None, inputs)
    [got] = tw.compile(open_sizes(model)[0] if opened and shape else model, workers=0, num_threads=1).run({"in0": x})
    np.testing.assert_array_equal(got, np.asarray(want))
