"""The check that something is refused as users should be told: with one line."""

from __future__ import annotations

from collections.abc import Callable

import pytest

import tilewright as tw


def refused(action: Callable[[], object], match: str, kind: type[tw.TilewrightError] = tw.ArtifactError) -> None:
    """Assert that ``action`` raises an error of one line that matches."""
    with pytest.raises(kind, match=match) as info:
        action()
    assert "\n" not in str(info.value)
