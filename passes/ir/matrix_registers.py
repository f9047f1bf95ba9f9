"""Registers that hold matrices (AMX): their sizes, and the steps of sums that fill them.

A register has up to 16 rows of up to 64 bytes. The instruction multiplies a matrix of 16 rows of data by one of a
packed weight, each row of which has a group of four steps of the sum for 16 columns, and adds the products to a matrix
of 16 x 16 sums of 32 bits. It takes 16 cycles whatever the matrices' sizes are, and does the work of 64 vectors'.
"""

from __future__ import annotations

from collections.abc import Sequence

from .dot_instructions import GROUP

ROWS = COLUMNS = 16
ROW_BYTES = 64
# Sums that a tile has: beside these there are a row of matrices of the weight and one of the data.
MOST_SUMS = 4
# With fewer rows, or steps at once, vectors are as fast.
_FEWEST_ROWS, _FEWEST_STEPS = 4, 16


def steps_at_once(length: int) -> int:
    """How many of ``length`` steps of a sum of bytes an instruction takes, the same in each one; 0 for too few.

    Rows of the data are read in place, so that none may be longer than what is left of it.
    """
    fitting = (n for n in range(ROW_BYTES, _FEWEST_STEPS - 1, -GROUP) if length % n == 0)
    return next(fitting, 0)


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


def fills_matrices(rows: Sequence[int], width: int, length: int) -> bool:
    """Return whether registers hold a tile's sums, of ``length`` steps each, and vectors would be slower."""
    if not rows or max(rows) < _FEWEST_ROWS or width % COLUMNS or not steps_at_once(length):
        return False
    return count_matrices(rows, width) <= MOST_SUMS
