"""What a kernel that runs once computes, as steps on numpy's arrays: to compile it takes longer than to do them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class FormulaStep:
    """One operation on registers, which writes the next register. ``runtime/executors/formulas.py`` has them all."""

    op: str
    operands: tuple[int, ...] = ()
    facts: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Formula:
    """The steps of a kernel. The first registers are its arguments, whose ``shapes`` and ``dtypes`` these are."""

    shapes: tuple[tuple[int, ...], ...]
    dtypes: tuple[str, ...]
    steps: tuple[FormulaStep, ...]
    results: tuple[int, ...]
    result_bytes: tuple[int, ...]
    nbytes: int  # of all that the steps write
