"""Registers that hold matrices (AMX): their sizes, and the steps of sums that fill them.

A register has up to 16 rows of up to 64 bytes. The instruction multiplies a matrix of 16 rows of data by one of a
packed weight, each row of which has a group of four steps of the sum (bytes; of bfloat16 two) for 16 columns, and adds
the products to a matrix of 16 x 16 sums of 32 bits. It takes 16 cycles whatever the matrices' sizes are, and does the
work of 256 instructions on vectors of bytes.
"""

from __future__ import annotations

from collections.abc import Sequence

ROWS = COLUMNS = 16
ROW_BYTES = 64
# Sums that a tile has: beside these there are a row of matrices of the weight and one of the data.
MOST_SUMS = 4
_WORD = 4  # bytes of a group
# Parts of bfloat16 whose sum a float32 is, and the steps of a sum that a row of such a matrix has.
PARTS, PARTS_STEP = 3, ROW_BYTES // 2
# Matrices of rows that are multiplied together, and columns: those of two matrices.
MOST_ROW_MATRICES, SPLIT_WIDTH = 2, 2 * COLUMNS
# Of the products of parts those that a float32 has room for, by parts of the data and of the weight. Neighbours share
# one of both.
PART_PRODUCTS = ((0, 2), (0, 1), (1, 1), (1, 0), (0, 0), (2, 0))
# With fewer rows, or steps at once, vectors are as fast.
_FEWEST_ROWS, _FEWEST_BYTES = 4, 16


def steps_at_once(length: int, group: int) -> int:
    """How many of ``length`` steps of a sum an instruction takes, the same in each one; 0 for too few.

    They go in groups of so many. Rows of the data are read in place, so that none may be longer than what is left of
    it.
    """
    most, least = (size * group // _WORD for size in (ROW_BYTES, _FEWEST_BYTES))
    return next((n for n in range(most, least - 1, -group) if length % n == 0), 0)


def pad_length(length: int, group: int) -> int:
    """The length, in groups of so many, to which a sum is padded that the fewest instructions are to take.

    Of several instructions each takes a whole line of a row. Steps of 60 bytes lie in two lines: products of 640 x 513
    by 512 take 1.2 times as long.
    """
    least, most = (size * group // _WORD for size in (_FEWEST_BYTES, ROW_BYTES))
    count = -(-length // most)
    return count * most if count > 1 else max(least, -(-length // group) * group)


def count_matrices(rows: Sequence[int], width: int) -> int:
    """The matrices of sums of a tile: of ``width`` columns, whose rows lie along some axes."""
    along = long_axis(rows)
    others = [extent for axis, extent in enumerate(rows) if axis != along]
    count = -(-rows[along] // ROWS) * -(-width // COLUMNS)
    for extent in others:
        count *= extent
    return count


def long_axis(rows: Sequence[int]) -> int:
    """The axis of a tile's rows along which the rows of its matrices lie: the longest, the last of several."""
    return max(range(len(rows)), key=lambda axis: (rows[axis], axis))


def fills_matrices(rows: Sequence[int], width: int, length: int, group: int) -> bool:
    """Return whether registers hold a tile's sums, of ``length`` steps in groups, and vectors would be slower."""
    if not rows or max(rows) < _FEWEST_ROWS or width % COLUMNS or not steps_at_once(length, group):
        return False
    return count_matrices(rows, width) <= MOST_SUMS
