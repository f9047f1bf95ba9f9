"""Every test of kernels runs for this machine's CPU, for one with 8 lanes, and for one with 4 and no FMA."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from cpu_targets import other_targets, slow_targets
from kernel_runner import kernels_for

from tilewright.core.target import Target

TARGETS = ("x86", *other_targets("haswell"), *slow_targets("x86-64-v2"))


@pytest.fixture(autouse=True, scope="module", params=TARGETS)
def target(request: pytest.FixtureRequest) -> Iterator[Target]:
    """The target of the module's kernels."""
    with kernels_for(request.param) as chosen:
        yield chosen
