"""Which of torch's operators are decomposed before torch-mlir sees them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch_mlir.extras.fx_decomp_util import get_decomposition_table


def decompositions() -> dict[Any, Callable[..., Any]]:
    """By operator, the function that computes it with others: torch-mlir's own choice."""
    return dict(get_decomposition_table())
