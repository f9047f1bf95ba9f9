"""``tvm.testing``: comparisons of arrays, and what runs here."""

from __future__ import annotations

from typing import Any

import numpy as np

from .nd import cpu


def assert_allclose(actual: Any, desired: Any, rtol: float = 1e-7, atol: float = 1e-7) -> None:
    """Raise AssertionError where arrays differ by more than ``atol`` and ``rtol`` times the desired."""
    found, wanted = np.asanyarray(actual), np.asanyarray(desired)
    np.testing.assert_allclose(found.shape, wanted.shape)
    np.testing.assert_allclose(found, wanted, rtol=rtol, atol=atol, verbose=True)


def device_enabled(target: Any) -> bool:
    """Return whether programs for a target run here, which those of the CPU do."""
    return str(target).split()[0] in ("llvm", "cpu")


def enabled_targets() -> list[tuple[str, Any]]:
    """The targets that programs run on here, each with its device."""
    return [("llvm", cpu(0))]
