"""The sets of a first-level cache, which rows that lie apart share."""

from __future__ import annotations

import math

# An x86 core's first cache has 64 sets of lines of 64 bytes: what lies a multiple of 4 kB apart falls into one set, of
# 8 or 12 lines.
_SET_SPAN = 4096
_WAYS = 8


def count_fitting_rows(apart: int) -> int:
    """How many rows, ``apart`` bytes from each other, have a line each in the cache at once."""
    return _WAYS * (_SET_SPAN // math.gcd(apart, _SET_SPAN))
