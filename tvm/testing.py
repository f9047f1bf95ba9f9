"""``tvm.testing``: comparisons of arrays."""

from __future__ import annotations

from typing import Any

import numpy as np


def assert_allclose(actual: Any, desired: Any, rtol: float = 1e-7, atol: float = 1e-7) -> None:
    """Raise AssertionError where arrays differ by more than ``atol`` and ``rtol`` times the desired."""
    found, wanted = np.asanyarray(actual), np.asanyarray(desired)
    np.testing.assert_allclose(found.shape, wanted.shape)
    np.testing.assert_allclose(found, wanted, rtol=rtol, atol=atol, verbose=True)
