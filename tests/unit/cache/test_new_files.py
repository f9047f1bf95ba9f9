"""Files that the cache has never seen: a worker starts for them before the cache is asked."""

from __future__ import annotations

from pathlib import Path

import pytest

from tilewright.core.own_files import cache_folder
from tilewright.driver import pools
from tilewright.driver.cache import digests
from tilewright.driver.cache.new_files import is_new
from tilewright.driver.cache.store import INDEXED_BYTES, Cache
from tilewright.tools import cli


def _write_large(folder: Path) -> Path:
    path = folder / "large.onnx"
    path.write_bytes(bytes(INDEXED_BYTES))
    return path


def test_a_large_file_is_new_until_its_hash_is_remembered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TILEWRIGHT_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setattr(digests, "_SETTLED_NS", -1)
    path = _write_large(tmp_path)
    assert is_new(str(path))
    digests.file_digest(path.resolve(), Cache(cache_folder()))
    assert not is_new(str(path))


def test_small_and_missing_files_are_not_new(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TILEWRIGHT_CACHE_DIR", str(tmp_path / "cache"))
    small = tmp_path / "small.onnx"
    small.write_bytes(b"small")
    assert not is_new(str(small))
    assert not is_new(str(tmp_path / "missing.onnx"))
    assert not is_new(str(tmp_path))


@pytest.mark.parametrize("more, started", [([], True), (["--workers", "1"], False)])
def test_a_worker_starts_early_for_a_new_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, more: list[str], started: bool
) -> None:
    monkeypatch.setenv("TILEWRIGHT_CACHE_DIR", str(tmp_path / "cache"))
    made: list[int | None] = []

    class Pool:
        def start(self) -> None:
            made.append(None)

    monkeypatch.setattr(pools, "find_pool", lambda count: Pool())
    cli._start_worker([str(_write_large(tmp_path)), *more])
    assert bool(made) == started
