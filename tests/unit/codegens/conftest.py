"""Each test of code generators has a registry of its own."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tilewright.core import codegens


@pytest.fixture(autouse=True)
def own_codegens() -> Iterator[None]:
    """Each test has a registry of its own."""
    kept = dict(codegens._CODEGENS)
    codegens._CODEGENS.clear()
    yield
    codegens._CODEGENS.clear()
    codegens._CODEGENS.update(kept)
