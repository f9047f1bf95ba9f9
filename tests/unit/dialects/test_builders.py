"""The builders' IR, run by the reference executor, against numpy."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from reference import run

from tilewright.dialects import builders, func, ir, scalars
from tilewright.dialects.context import make_context
from tilewright.dialects.types import tensor_type

X = np.arange(24, dtype=np.float32).reshape(2, 3, 4)


def build(body: Callable[..., ir.Value], arrays: Sequence[np.ndarray]) -> ir.Module:
    """A module whose ``@main`` is what ``body`` makes of its arguments."""
    types = [tensor_type(a.shape, a.dtype.name) for a in arrays]
    module = ir.Module.create()
    with ir.InsertionPoint(module.body):
        main = func.FuncOp("main", (types, []))
        with ir.InsertionPoint(main.add_entry_block()):
            result = body(*main.entry_block.arguments)
            func.ReturnOp([result])
    main.attributes["function_type"] = ir.TypeAttr.get(ir.FunctionType.get(types, [result.type]))
    assert module.operation.verify()
    return module


def result_of(body: Callable[..., ir.Value], *arrays: np.ndarray) -> np.ndarray:
    with make_context(), ir.Location.unknown():
        return run(build(body, arrays), arrays)[0]


def check(body: Callable[..., ir.Value], expected: np.ndarray, *arrays: np.ndarray) -> None:
    np.testing.assert_allclose(result_of(body, *arrays), expected, rtol=1e-5, atol=1e-5)


def f32() -> ir.Type:
    return ir.F32Type.get()


def test_constants_and_fills():
    check(lambda: builders.constant(X[0], f32()), X[0])
    check(lambda: builders.constant(np.broadcast_to(np.float32(3), (100, 2)), f32()), np.full((100, 2), 3))
    check(lambda: builders.full([2, 2], builders.scalar(1.5, f32())), np.full((2, 2), 1.5))


def test_a_large_constant_is_refused():
    with make_context(), ir.Location.unknown(), pytest.raises(ValueError, match="make it a param"):
        build(lambda: builders.constant(np.arange(65, dtype=np.float32), f32()), [])


def test_broadcast_maps_are_zero_only_where_an_extent_is_repeated():
    with make_context(), ir.Location.unknown():
        text = str(
            build(lambda a, b: builders.elementwise(scalars.add, a, b, elem=f32()), [X, np.ones((1, 3, 1), "float32")])
        )
    assert "(d0, d1, d2) -> (0, d1, 0)" in text


def test_reduce():
    check(lambda x: builders.reduce(scalars.add, 0, x, [0, -1]), X.sum((0, 2)), X)
    check(lambda x: builders.reduce(scalars.maximum, float("-inf"), x, [0, 1, 2]), X.max(), X)


@pytest.mark.parametrize("spec", ["ij,kj->ik", "ij,jk->ik", "ij,ij->i", "ij,kl->ijkl", "bij,bjk->bik", "bij,bkj->bki"])
def test_contract(spec):
    extents = {"i": 2, "j": 3, "k": 4, "l": 2, "b": 2}
    random = np.random.default_rng(0)
    a, b = (random.standard_normal([extents[c] for c in term]).astype("f4") for term in spec.split("->")[0].split(","))
    check(lambda x, y: builders.contract(spec, x, y), np.einsum(spec, a, b), a, b)


def test_contract_broadcasts_extents_of_one():
    a, b = X[:1], np.ones((5, 4, 2), np.float32)
    check(lambda x, y: builders.contract("bij,bjk->bik", x, y), a @ b, a, b)


def test_half_precision_contracts_in_single():
    ones = np.ones((1, 4000), np.float16)
    assert result_of(lambda x, y: builders.contract("ij,kj->ik", x, y), ones, ones).item() == 4000


@pytest.mark.parametrize("groups", [1, 2, 4])
def test_convolution(groups):
    random = np.random.default_rng(0)
    x, w = (random.standard_normal(s).astype(np.float32) for s in ((1, 4, 9, 8), (4, 4 // groups, 3, 2)))
    expected = np.zeros((1, 4, 4, 6), np.float32)
    for f in range(4):
        first = f // (4 // groups) * (4 // groups)
        for i, j in np.ndindex(4, 6):
            expected[0, f, i, j] = (x[0, first : first + 4 // groups, 2 * i : 2 * i + 3, j : j + 3 : 2] * w[f]).sum()
    check(lambda a, b: builders.conv(a, b, [2, 1], [1, 2], groups), expected, x, w)


def test_pool():
    windows = np.lib.stride_tricks.sliding_window_view(X[None], (2, 2), (2, 3))[:, :, :, ::2]
    check(
        lambda x: builders.pool(x, [2, 2], [1, 2], [1, 1], scalars.maximum, float("-inf")),
        windows.max((-1, -2)),
        X[None],
    )


def test_a_window_larger_than_its_input_is_refused():
    with make_context(), ir.Location.unknown(), pytest.raises(ValueError, match="larger than the padded input"):
        build(lambda x: builders.pool(x, [4, 4], [1, 1], [1, 1], scalars.maximum, 0), [X[None]])


@pytest.mark.parametrize("steps", [(1, 1, 1), (1, 2, 3), (1, -1, 2)])
def test_slice(steps):
    starts = [0, 2 if steps[1] < 0 else 0, 1]
    expected = X[:, :: steps[1], 1 :: steps[2]]
    check(lambda x: builders.slice_(x, starts, expected.shape, steps), expected, X)


def test_insert_pad_concat_transpose():
    expected = X.copy()
    expected[:1, ::2, 1:] = 0
    zeros = np.zeros((1, 2, 3), np.float32)
    check(lambda x, z: builders.insert(z, x, [0, 0, 1], [1, 2, 1]), expected, X, zeros)
    padded = np.pad(X, ((0, 1), (2, 0), (0, 0)), constant_values=9)
    check(lambda x: builders.pad(x, [0, 2, 0], [1, 0, 0], builders.scalar(9, f32())), padded, X)
    check(lambda x: builders.concat([x, x], 1), np.concatenate([X, X], 1), X)
    check(lambda x: builders.transpose(x, [2, 0, 1]), X.transpose(2, 0, 1), X)


def test_index_map_reads_anywhere():
    check(
        lambda x: builders.index_map([4, 3], f32(), lambda i, j: builders.extract(x, [scalars.like(i, 1), j, i])),
        X[1].T,
        X,
    )


SHAPES = [(24,), (2, 12), (4, 6), (1, 24, 1), (3, 1, 8), (2, 3, 4), (6, 2, 2), (1, 1, 24)]


@settings(max_examples=20, deadline=None)
@given(source=st.sampled_from(SHAPES), target=st.sampled_from(SHAPES))
def test_reshape(source, target):
    check(lambda x: builders.reshape(x, target), X.reshape(target), X.reshape(source))


def test_reshape_from_and_to_scalars_and_empty_tensors():
    one = X[:1, :1, :1]
    check(lambda x: builders.reshape(x, []), one.reshape(()), one)
    check(lambda x: builders.reshape(x, [1, 1]), one.reshape(1, 1), one.reshape(()))
    assert result_of(lambda x: builders.reshape(x, [0, 5]), np.zeros((3, 0), np.float32)).shape == (0, 5)
