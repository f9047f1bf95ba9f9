"""What a process writes on its way goes with it, also where the process was killed."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from tilewright.core.scratch import scratch_folder

_HOLD = """
import sys
from pathlib import Path
from tilewright.core.scratch import scratch_folder
with scratch_folder() as folder:
    Path(folder, "made").write_text("half of it")
    print(folder, flush=True)
    sys.stdin.read()
"""


def _hold(home: Path) -> tuple[subprocess.Popen[str], Path]:
    """A process with a folder in ``home`` that looks as if it were old, and that folder."""
    process = subprocess.Popen(
        [sys.executable, "-c", _HOLD],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "TMPDIR": str(home)},
    )
    assert process.stdout is not None
    folder = Path(process.stdout.readline().strip())
    os.utime(folder, (0, 0))
    return process, folder


def test_the_folders_of_killed_processes_are_removed_by_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    (living, used), (killed, left) = _hold(tmp_path), _hold(tmp_path)
    (tmp_path / "tilewright-scratch-link").symlink_to(used)
    killed.kill()
    killed.communicate()
    assert left.exists()
    with scratch_folder() as folder:
        assert list(Path(folder).iterdir()) == []
        assert not left.exists()
        assert (used / "made").read_text() == "half of it"
    living.communicate("")
    assert [path.name for path in tmp_path.iterdir()] == ["tilewright-scratch-link"]
