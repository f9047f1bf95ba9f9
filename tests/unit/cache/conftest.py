"""A cache that is on, and a model file to be compiled."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import onnx
import pytest
from cache_case import model


@pytest.fixture
def folder(tmp_path) -> Iterator[Path]:
    """The user's cache, which is on."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TILEWRIGHT_CACHE_DIR", str(tmp_path / "cache"))
        patch.setenv("TILEWRIGHT_CACHE_SIZE", "100MB")
        yield tmp_path / "cache"


@pytest.fixture
def path(tmp_path) -> str:
    onnx.save(model(), tmp_path / "net.onnx")
    return str(tmp_path / "net.onnx")
