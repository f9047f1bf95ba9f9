"""The minimal time of work, from the rates of the machine: S. Williams et al., "Roofline", CACM 52(4), 2009."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

Bound = Literal["compute", "memory"]


def find_bound(flops: float, nbytes: float, rates: Mapping[str, float]) -> Bound:
    """The bound of work with so many operations and bytes; ``rates`` are ``flops`` and ``bytes`` per second."""
    return "compute" if flops / rates["flops"] > nbytes / rates["bytes"] else "memory"


def peak_share(flops: float, nbytes: float, seconds: float, rates: Mapping[str, float]) -> float:
    """The least time that the work takes over the time that it took; 0 where that is 0.

    It can exceed 1 for work on data that lies in a cache, since the bytes of a second are those of memory.
    """
    return compute_rate(max(flops / rates["flops"], nbytes / rates["bytes"]), seconds)


def compute_rate(amount: float, seconds: float) -> float:
    """``amount`` a second; 0 where no time was spent: for a call in a branch that was not taken."""
    return amount / seconds if seconds else 0.0
