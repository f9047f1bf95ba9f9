"""Transforms by constant matrices: the matrices of Winograd's algorithm, and the code that multiplies with them."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tilewright.dialects import func, ir
from tilewright.dialects.context import make_context
from tilewright.passes.graph.rewriting.minimal_filtering import count_points, has_matrices, make_matrices
from tilewright.passes.schedule.tiling.linear_transform import multiply_matrix

ARITHMETIC = {
    "arith.addf": lambda a, b: a + b,
    "arith.subf": lambda a, b: a - b,
    "arith.mulf": lambda a, b: a * b,
    "vector.fma": lambda a, b, c: a * b + c,
}


def multiplied(matrix: np.ndarray, values: np.ndarray) -> tuple[np.ndarray, int]:
    """What the code of ``multiply_matrix`` computes from numbers, and how many arithmetic ops it has."""
    with make_context(), ir.Location.unknown():
        module = ir.Module.create()
        kind = ir.VectorType.get([4], ir.F32Type.get())
        with ir.InsertionPoint(module.body):
            function = func.FuncOp("f", ([kind] * len(values), []))
        block = function.add_entry_block()
        with ir.InsertionPoint(block):
            results = multiply_matrix(matrix, list(block.arguments))
        numbers: dict[ir.Value, float] = dict(zip(block.arguments, map(float, values), strict=True))
        ops = [op.operation for op in block.operations]
        for op in ops:
            if op.name == "arith.constant":
                splat = ir.DenseFPElementsAttr(op.attributes["value"]).get_splat_value()
                numbers[op.results[0]] = ir.FloatAttr(splat).value
            else:
                numbers[op.results[0]] = ARITHMETIC[op.name](*(numbers[v] for v in op.operands))
        return np.array([numbers[v] for v in results]), sum(op.name != "arith.constant" for op in ops)


@st.composite
def structured(draw: st.DrawFn) -> np.ndarray:
    """Matrices with zeros, ones, and rows and columns that repeat others up to signs."""
    rows, columns = draw(st.integers(1, 6)), draw(st.integers(1, 6))
    entries = st.sampled_from([0.0, 0.0, 1.0, -1.0, 2.0, -0.5, 1.25, 3.0])
    matrix = np.array([[draw(entries) for _ in range(columns)] for _ in range(rows)])
    for axis in (0, 1):
        for _ in range(draw(st.integers(0, 2))):
            a, b = (draw(st.integers(0, matrix.shape[axis] - 1)) for _ in "ab")
            signs = np.array([draw(st.sampled_from([1.0, -1.0])) for _ in range(matrix.shape[1 - axis])])
            np.moveaxis(matrix, axis, 0)[a] = np.moveaxis(matrix, axis, 0)[b] * signs
    return matrix


@given(structured(), st.data())
def test_multiply_is_the_product_in_no_more_operations(matrix: np.ndarray, data: st.DataObject) -> None:
    """All numbers are small multiples of 1/4, so that each sum is exact in whatever order."""
    values = np.array([data.draw(st.integers(-8, 8)) for _ in range(matrix.shape[1])])
    got, ops = multiplied(matrix, values)
    np.testing.assert_array_equal(got, matrix @ values)
    assert ops <= 2 * np.count_nonzero(matrix), "more than a product and a sum for each entry"


# Sums and differences of pairs are shared: +-p are interpolation points together.
@pytest.mark.parametrize("outputs, which, most", [(4, 0, 12), (4, 1, 11), (4, 2, 17), (2, 0, 4), (2, 1, 6), (2, 2, 6)])
def test_the_transforms_share_what_points_of_both_signs_have_in_common(outputs: int, which: int, most: int) -> None:
    matrix = make_matrices(outputs, 3)[which]
    values = np.arange(1.0, matrix.shape[1] + 1)
    got, ops = multiplied(matrix, values)
    np.testing.assert_allclose(got, matrix @ values, rtol=1e-6)
    assert ops <= most < np.count_nonzero(matrix)


WINDOWS = [(1, 1, 1), (2, 3, 1), (4, 3, 1), (2, 5, 1), (4, 5, 1), (2, 2, 1), (3, 2, 1), (2, 3, 2), (3, 3, 2), (2, 5, 2)]


@pytest.mark.parametrize("outputs, taps, stride", WINDOWS)
def test_the_matrices_give_a_correlation(outputs: int, taps: int, stride: int) -> None:
    """``A^T [(G g) * (B^T d)]`` is ``sum(g[i] * d[s * k + i])``: it is bilinear, so unit vectors show it for all."""
    assert has_matrices(outputs, taps, stride)
    back, filters, forth = make_matrices(outputs, taps, stride)
    extent = count_points(outputs, taps, stride)
    assert (back.shape, filters.shape, forth.shape) == ((outputs, extent), (extent, taps), (extent, extent))
    for tap in range(taps):
        for place in range(extent):
            got = back @ (filters[:, tap] * forth[:, place])
            want = [float(place == stride * output + tap) for output in range(outputs)]
            np.testing.assert_allclose(got, want, rtol=0, atol=1e-12)


@pytest.mark.parametrize("outputs, taps, stride", WINDOWS)
def test_the_matrices_of_data_are_exact_in_float32(outputs: int, taps: int, stride: int) -> None:
    """Only the filters' transform is rounded: it is computed once, and its error is one of the weights."""
    for matrix in make_matrices(outputs, taps, stride)[::2]:
        np.testing.assert_array_equal(matrix.astype(np.float32), matrix)
        assert all(Fraction(x).denominator <= 64 for x in matrix.flat)
