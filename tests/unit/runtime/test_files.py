"""Files appear whole or not at all, and take no other thing's place."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tilewright.core.errors import ArtifactError
from tilewright.runtime.process.files import replacing_file


def test_a_file_takes_anothers_place(tmp_path: Path) -> None:
    (tmp_path / "made").write_text("old")
    with replacing_file(tmp_path / "made") as file:
        file.write_text("new")
    assert [path.read_text() for path in tmp_path.iterdir()] == ["new"]


def test_what_is_no_regular_file_stays(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    refusal = pytest.raises(ArtifactError, match=r"pipe: it is there, and is no regular file; give another name$")
    with refusal, replacing_file(tmp_path / "pipe") as file:
        file.write_text("new")
    assert [path.is_fifo() for path in tmp_path.iterdir()] == [True]
