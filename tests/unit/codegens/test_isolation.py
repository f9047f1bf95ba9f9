"""Calls of users' functions in a fork."""

from __future__ import annotations

import os
import subprocess
import time
from pathlib import Path

import pytest
from refused import refused

import tilewright as tw
from tilewright.workers.isolation import call_isolated, within_time


def test_a_call_gives_what_pickles_and_changes_nothing_here(capfd: pytest.CaptureFixture[str]):
    seen: list[int] = []

    def work() -> tuple[int, list[int]]:
        seen.append(1)
        print("from the copy")
        return os.getpid(), seen

    child, inside = call_isolated(work, 60, "work")
    assert child != os.getpid() and inside == [1] and seen == []
    assert call_isolated(work, 60, "work", isolate=False) == (os.getpid(), [1])
    assert capfd.readouterr().out == "from the copy\n" * 2


def test_large_results_come_back_whole():
    assert call_isolated(lambda: bytes(5_000_000), 60, "work") == bytes(5_000_000)


def test_what_the_copy_has_started_ends_with_it(tmp_path: Path):
    def work() -> None:
        child = subprocess.Popen(["sleep", "99"])
        (tmp_path / "pid").write_text(str(child.pid))
        child.wait()

    refused(lambda: call_isolated(work, 0.5, "work"), r"work: it took more than 0\.5 s", tw.CompileError)
    started = Path("/proc", (tmp_path / "pid").read_text())
    for _ in range(100):
        if not started.exists() or " Z " in (started / "stat").read_text():
            return
        time.sleep(0.05)
    raise AssertionError("a process that the copy has started goes on")


def test_an_error_has_the_place_where_it_was_raised():
    refused(
        lambda: call_isolated(lambda: [][1], 60, "work"),
        r"work: IndexError: .* \(test_isolation.py:\d+\)",
        tw.CompileError,
    )
    here = lambda: call_isolated(lambda: [][1], 60, "work", isolate=False)  # noqa: E731
    refused(here, r"work: IndexError: .* \(test_isolation.py:\d+\)", tw.CompileError)


def test_the_time_of_what_it_is_for_counts():
    with within_time(lambda: 0.5):
        refused(
            lambda: call_isolated(lambda: time.sleep(9), 60, "work"), "work: the compil.*up", tw.CompileTimeoutError
        )
        assert call_isolated(lambda: 3, 60, "work") == 3
