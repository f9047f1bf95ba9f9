"""The matrices of minimal filtering: a correlation's outputs from few products (Toom-Cook)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction

import numpy as np

# Interpolation points besides infinity, by their number. Small and balanced ones keep the rounding error low: of 4x4
# outputs of 3x3 taps on 512 channels it is 1.3e-6 against 2.7e-6 with the usual 0, 1, -1, 2, -2 (a direct sum has
# 2.8e-7); of 4 outputs of 5 taps on 256 channels 1.4e-6 (6.7e-7). Pairs +-p share half of their arithmetic.
_PAIRS: dict[int, tuple[Fraction, ...]] = {
    3: (Fraction(1),),
    5: (Fraction(3, 4), Fraction(3, 2)),
    7: (Fraction(1), Fraction(1, 2), Fraction(2)),
}
_POINTS: dict[int, tuple[Fraction, ...]] = {
    2: (Fraction(0), Fraction(1)),
    **{count: (Fraction(0), *(p * sign for p in pairs for sign in (1, -1))) for count, pairs in _PAIRS.items()},
}
_SCALES = (1, 2, 4)
Matrices = tuple[np.ndarray, np.ndarray, np.ndarray]


def count_points(outputs: int, taps: int, stride: int = 1) -> int:
    """The extent of a patch that so many outputs, one after the other, are made of."""
    return stride * (outputs - 1) + taps


def list_phases(outputs: int, taps: int, stride: int) -> list[tuple[int, int]]:
    """The points and the taps of each part of a window: what begins at the same place of each step of a stride."""
    parts = [len(range(phase, taps, stride)) for phase in range(min(stride, taps))]
    return [(count_points(outputs, part), part) for part in parts]


def has_matrices(outputs: int, taps: int, stride: int = 1) -> bool:
    """Return whether ``make_matrices`` knows points for so many outputs and taps."""
    phases = list_phases(outputs, taps, stride)
    known = all(part == 1 or extent - 1 in _POINTS for extent, part in phases)
    return known and sum(extent for extent, _ in phases) == count_points(outputs, taps, stride)


def make_matrices(outputs: int, taps: int, stride: int = 1) -> Matrices:
    """``A^T``, ``G`` and ``B^T``, float64, of ``y = A^T [(G g) * (B^T d)]``: 4x6, 6x3 and 6x6 for 4 outputs, 3 taps.

    With a stride of 2 the even and the odd taps are two correlations, each of every other element of the data, whose
    outputs are added: 3 outputs of 3 taps take 4 + 3 products in place of 9.
    """
    extent = count_points(outputs, taps, stride)
    back, small, forth = np.zeros((outputs, extent)), np.zeros((extent, taps)), np.zeros((extent, extent))
    first = 0
    for phase, (points, part) in enumerate(list_phases(outputs, taps, stride)):
        made = range(first, first := first + points)
        back[:, made], some, others = _make_correlation(outputs, part)
        small[np.ix_(made, range(phase, taps, stride))] = some
        forth[np.ix_(made, range(phase, extent, stride))] = others
    return back, small, forth


def make_integer_matrices(outputs: int, taps: int, stride: int = 1) -> tuple[Matrices, int] | None:
    """``make_matrices`` of integers, which give outputs times a power of two, and that; None where there are none."""
    back, small, forth = make_matrices(outputs, taps, stride)
    parts = [next((n for n in _SCALES if _are_integers(n * row)), 0) for row in forth]
    if 0 in parts or not _are_integers(back):
        return None
    shares = np.array(parts)[:, None]
    scale = next((n for n in _SCALES if _are_integers(n * small / shares)), 0)
    return ((back, scale * small / shares, forth * shares), scale) if scale else None


def _are_integers(numbers: np.ndarray) -> bool:
    return bool((numbers == np.round(numbers)).all())


def _make_correlation(outputs: int, taps: int) -> Matrices:
    """The matrices of stride 1.

    A correlation is the transpose of a product of polynomials, which is found from its values at some points and its
    leading coefficient (Toom-Cook). Denominators of ``B^T`` are moved into ``G``. Outputs of one tap are products.
    """
    if taps == 1:
        return np.eye(outputs), np.ones((outputs, 1)), np.eye(outputs)
    extent = count_points(outputs, taps)
    points = _POINTS[extent - 1]
    sums, small, whole = (
        [[p**k for k in range(size)] for p in points] + [_make_leading_row(size)] for size in (outputs, taps, extent)
    )
    inverse = _inverse(whole)
    forth = [[inverse[k][i] for k in range(extent)] for i in range(extent)]
    scales = [math.lcm(*(x.denominator for x in row)) // _largest_power(row) for row in forth]
    forth = [[x * scale for x in row] for row, scale in zip(forth, scales, strict=True)]
    small = [[x / scale for x in row] for row, scale in zip(small, scales, strict=True)]
    back = [[sums[p][k] for p in range(extent)] for k in range(outputs)]
    return _to_float_array(back), _to_float_array(small), _to_float_array(forth)


def _to_float_array(rows: Sequence[Sequence[Fraction]]) -> np.ndarray:
    return np.array([[float(x) for x in row] for row in rows])


def _largest_power(row: Sequence[Fraction]) -> int:
    """The power of two in the row's common denominator: it can stay, float32 holds it exactly."""
    lcm = math.lcm(*(x.denominator for x in row))
    return lcm & -lcm


def _make_leading_row(size: int) -> list[Fraction]:
    return [Fraction(int(k == size - 1)) for k in range(size)]


def _inverse(matrix: list[list[Fraction]]) -> list[list[Fraction]]:
    """Gauss and Jordan's, exact."""
    size = len(matrix)
    rows = [[*row, *(Fraction(int(i == k)) for k in range(size))] for i, row in enumerate(matrix)]
    for i in range(size):
        pivot = next(k for k in range(i, size) if rows[k][i])
        rows[i], rows[pivot] = rows[pivot], rows[i]
        rows[i] = [x / rows[i][i] for x in rows[i]]
        for k in range(size):
            if k != i and (factor := rows[k][i]):
                rows[k] = [a - factor * b for a, b in zip(rows[k], rows[i], strict=True)]
    return [row[size:] for row in rows]
