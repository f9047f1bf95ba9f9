"""Gather* and Scatter* whose data, indices and updates have open sizes: one program for all of them."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from open_case import check_open, check_refused
from samples import some_of

from tilewright.core.errors import InputError

RNG = np.random.default_rng(3)


def f(*shape: int) -> np.ndarray:
    return RNG.standard_normal(shape).astype(np.float32)


def at(extent: int, *shape: int) -> np.ndarray:
    """Indices of an axis, from either end."""
    return RNG.integers(-extent, extent, shape) if extent else np.zeros(shape, np.int64)


def rows(extents: tuple[int, ...], *shape: int) -> np.ndarray:
    """Different positions in the first axes, as the last axis of indices."""
    flat = RNG.permutation(int(np.prod(extents)))[: int(np.prod(shape))]
    return np.stack(np.unravel_index(flat, extents), -1).reshape(*shape, len(extents))


@pytest.mark.parametrize("axis", [0, -1])
def test_gather(axis: int):
    sizes = [((4, 5), (2, 3)), ((1, 1), (1, 1)), ((3, 7), (0, 2)), ((0, 0), (2, 0))]
    check_open("Gather", *([f(*x), at(x[axis], *i)] for x, i in sizes), axis=axis)


@pytest.mark.parametrize("axis", [0, 1])
def test_gather_elements(axis: int):
    sizes = [((4, 5), (3, 2)), ((1, 1), (1, 1)), ((6, 6), (6, 6)), ((3, 4), (0, 0)), ((0, 0), (0, 0))]
    check_open("GatherElements", *([f(*x), at(x[axis], *i)] for x, i in sizes), axis=axis)


def test_gather_nd():
    runs = [[f(*x), at(min(x), *i)] for x, i in (((4, 5, 2), (3, 2)), ((1, 1, 1), (1, 2)), ((3, 4, 3), (0, 2)))]
    check_open("GatherND", *runs, fixed=[(1, 1)])


def test_gather_nd_of_vectors_has_one_position_in_a_row():
    check_open("GatherND", *([f(n), at(n, *i, 1)] for n, i in ((7, (3, 2)), (1, (1, 1)), (5, (0, 4)))))


def test_gather_nd_by_positions_of_any_length():
    runs = [[f(4, 5, 2), at(2, 3, n)] for n in (1, 2, 3)]
    module = check_open("GatherND", *runs, [f(1, 2, 3), at(1, 0, 2)])
    for n in (0, 4):
        check_refused(module, "GatherND", [f(4, 5, 2), at(2, 3, n)], "the last axis of its indices .* must have 1 to 3")


def test_gather_nd_by_positions_of_any_length_in_each_batch():
    runs = [[f(2, 3, 4), at(3, 2, 5, n)] for n in (1, 2)]
    module = check_open("GatherND", *runs, batch_dims=1)
    check_refused(module, "GatherND", [f(3, 3, 4), at(3, 2, 5, 2)], "differ in the first 1 axes")


@pytest.mark.parametrize(("axis", "reduction"), some_of(itertools.product([0, 1], ["none", "add", "max"]), 2))
def test_scatter_elements(axis: int, reduction: str):
    runs = []
    for shape, count in (((4, 5), 3), ((1, 1), 1), ((6, 3), 2), ((3, 4), 0)):
        whole = np.argsort(RNG.random(shape), axis=axis)  # different positions along the axis
        indices = np.take(whole, range(count), axis=axis)
        runs.append([f(*shape), indices, f(*indices.shape)])
    check_open("ScatterElements", *runs, axis=axis, reduction=reduction)


@pytest.mark.parametrize("reduction", ["none", "mul", "min"])
def test_scatter_nd(reduction: str):
    sizes = [((4, 5), 3, 2), ((1, 1), 1, 1), ((3, 3), 9, 4), ((2, 2), 0, 3), ((2, 3), 4, 0)]
    runs = [[f(*x, depth), rows(x, count), f(count, depth)] for x, count, depth in sizes]
    check_open("ScatterND", *runs, reduction=reduction)


def test_scatter_nd_of_a_known_box():
    box = np.stack(np.meshgrid([0, 2], [1, 2], indexing="ij"), -1)
    sizes = [(3, 3, 4), (5, 4, 1), (3, 7, 2)]
    check_open("ScatterND", *([f(*size), box, f(2, 2, size[2])] for size in sizes), known=[1])


@pytest.mark.parametrize("starts", [True, False])
def test_tensor_scatter(starts: bool):
    runs = []
    for batch, extent, count in ((2, 5, 3), (1, 1, 1), (3, 4, 4)):
        where = [RNG.integers(0, extent - count + 1, batch)] if starts else []
        runs.append([f(batch, 2, extent, 4), f(batch, 2, count, 4), *where])
    module = check_open("TensorScatter", *runs, opset=24, reference=True)
    with pytest.raises(InputError, match="node 'the_TensorScatter'"):
        module(f(2, 2, 2, 4), *runs[0][1:])


NONE = np.zeros((2, 2), np.int64)
UNFIT = {
    "Gather": ([f(2, 3), NONE], [f(0, 3), NONE]),
    "GatherElements": ([f(2, 3), NONE], [f(2, 1), NONE]),
    "GatherElements of nothing": ([f(2, 3), NONE], [f(0, 3), NONE]),
    "GatherND": ([f(2), np.zeros((3, 1), np.int64)], [f(0), np.zeros((3, 1), np.int64)]),
    "ScatterElements": ([f(2, 3), NONE, f(2, 2)], [f(2, 3), NONE, f(2, 1)]),
    "ScatterElements beside the data": ([f(2, 3), NONE, f(2, 2)], [f(2, 1), NONE, f(2, 2)]),
    "ScatterND": ([f(2, 3), NONE, f(2)], [f(2, 3), NONE, f(3)]),
    "ScatterND of nothing": ([f(2, 3), NONE, f(2)], [f(2, 0), NONE, f(2)]),
    "ScatterND of more positions": ([f(2, 3), NONE, f(2)], [f(2, 3), np.zeros((2, 3), np.int64), f(2)]),
}


@pytest.mark.parametrize("name", UNFIT)
def test_sizes_that_do_not_fit_are_refused_with_the_node(name: str):
    op, (right, wrong) = name.split()[0], UNFIT[name]
    module = check_open(op, right)
    with pytest.raises(InputError, match=f"node 'the_{op}'"):
        module(*wrong)


@pytest.mark.parametrize("op", ["Gather", "GatherElements"])
def test_known_indices_from_the_end_need_an_element(op: str):
    module = check_open(op, [f(3), np.array([-1, 0])], [f(1), np.array([-1, 0])], known=[1])
    with pytest.raises(InputError, match="there is nothing to choose from"):
        module(f(0))
