"""Progress of long work: counts, times, callbacks, lines and the log."""

from __future__ import annotations

import io
import logging
from pathlib import Path
from typing import Any

import onnx
import pytest
from small_network import X, network

import tilewright as tw
from tilewright.core import progress
from tilewright.core.progress import Lines, Progress, Teller
from tilewright.driver.cache import compile_cache
from tilewright.driver.cache.store import Cache
from tilewright.tools import _output


class Clock:
    """Time as a test says."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 100.0
        monkeypatch.setattr(progress.time, "monotonic", lambda: self.now)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    return Clock(monkeypatch)


def test_what_remains_follows_from_what_is_done(clock: Clock) -> None:
    seen: list[Progress] = []
    tell = Teller(seen.append)
    tell("importing")
    clock.now += 5
    tell("compiling kernels", 0, 40)
    clock.now += 3
    tell("compiling kernels", 10, 40)
    assert seen == [
        Progress("importing", 0, 0, 0.0, None),
        Progress("compiling kernels", 0, 40, 5.0, None),
        Progress("compiling kernels", 10, 40, 8.0, 9.0),
    ]
    assert [str(each) for each in seen[::2]] == ["importing, 0 s", "compiling kernels: 10 of 40, 8 s, about 9 s left"]
    clock.now += 120
    assert str(tell.now()) == "compiling kernels: 10 of 40, 2 min 8 s, about 6 min 9 s left"


def test_a_search_ends_when_its_time_is_up(clock: Clock) -> None:
    tell = Teller()
    tell("comparing nodes", 1, 100, clock.now + 30)
    clock.now += 10
    assert tell.now().remaining == 20, "which is less than 99 times 10 s"
    clock.now += 60
    assert tell.now().remaining == 0


def test_lines_are_few(clock: Clock) -> None:
    out = io.StringIO()
    lines = Lines(out)
    for number in range(100):
        lines(Progress("compiling", number, 100, 0, None))
        clock.now += 0.125
    lines(Progress("linking\x1b[2J\n", 0, 0, 0, None))
    text = out.getvalue().splitlines()
    assert len(text) == 8 and text[1].startswith("compiling: 16 of 100") and text[-1] == "linking\\x1b[2J\\n, 0 s"


@pytest.mark.parametrize("workers", [0, 1])
def test_a_compilation_tells_each_kernel(workers: int, caplog: pytest.LogCaptureFixture) -> None:
    seen: list[Progress] = []
    with caplog.at_level(logging.INFO, "tilewright"):
        lib = tw.compile(network(), workers=workers, cache=False, progress=seen.append)
    assert lib.run([X])
    counts = [(each.done, each.total) for each in seen if each.text == "compiling kernels"]
    total = counts[0][1]
    assert counts == [(i, total) for i in range(total + 1)] and total >= lib.report.kernels
    assert [each.elapsed for each in seen] == sorted(each.elapsed for each in seen)
    stages = list(dict.fromkeys(each.text for each in seen))
    assert stages[0].startswith("importing") and stages[1:] == [
        "compiling kernels",
        "preparing weights",
        "making the entry",
    ]
    logged = [record.getMessage() for record in caplog.records if record.name == "tilewright"]
    assert all(any(line.startswith(stage) for line in logged) for stage in stages)
    assert logged[-1].startswith("compiled in ") and {record.levelname for record in caplog.records} == {"INFO"}


def test_nothing_is_said_unasked(capfd: pytest.CaptureFixture[str]) -> None:
    tw.compile(network(), workers=0, cache=False)
    assert capfd.readouterr() == ("", "")
    tw.compile(network(), workers=0, cache=False, progress=True)
    out, err = capfd.readouterr()
    assert out == "" and "compiling kernels: 0 of " in err


def test_kernels_of_the_cache_count_as_done(tmp_path: Path) -> None:
    seen: list[Progress] = []
    tw.compile(network(), workers=0, cache=tmp_path)
    made = tw.compile(network(), workers=0, cache=tmp_path, num_threads=1, progress=seen.append)
    assert made.report.cached_kernels and not made.report.cached
    first = next(each for each in seen if each.text == "compiling kernels")
    assert first.done == made.report.cached_kernels


def test_who_listens_can_end_the_work() -> None:
    class EnoughError(Exception):
        pass

    def listen(seen: Progress) -> None:
        if seen.done:
            raise EnoughError

    for workers in (0, 1):
        with pytest.raises(EnoughError):
            tw.compile(network(), workers=workers, cache=False, progress=listen)
        assert tw.compile(network(), workers=workers, cache=False).run([X])


def test_a_command_shows_counts_and_times_on_a_terminal(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    import argparse

    monkeypatch.setattr("sys.stderr.isatty", lambda: True, raising=False)
    monkeypatch.setenv("TTY_COMPATIBLE", "1")
    args: Any = argparse.Namespace(quiet=False, json=False)
    with _output.showing_progress("measuring [x]\x1b[2J", args, animated=False) as say:
        for number in range(3):
            say("measuring [x]\x1b[2J", number, 9)
    err = capsys.readouterr().err
    assert "measuring [x]\\x1b[2J: 2 of 9" in err and "left" in err
    args.quiet = True
    with _output.showing_progress("measuring", args) as say:
        say("more", 1, 2)
    assert capsys.readouterr().err == ""


def test_models_of_files_are_named(tmp_path: Path) -> None:
    onnx.save(network(), tmp_path / "net.onnx")
    seen: list[Progress] = []
    tw.compile(tmp_path / "net.onnx", workers=0, cache=False, progress=seen.append)
    assert seen[0].text == f"importing {tmp_path / 'net.onnx'}"


def test_rounds_and_entries_are_counted(tmp_path: Path) -> None:
    rounds: list[int] = []
    lib = tw.compile(network(), workers=0, cache=tmp_path)
    lib.profile([X], rounds=3, on_round=rounds.append)
    assert rounds == [0, 1, 2]
    counts: list[tuple[int, int]] = []
    cache = Cache(tmp_path, 1 << 30)
    assert compile_cache.verify(cache, lambda *count: counts.append(count)) == []
    assert counts == [(i, len(cache.items())) for i in range(len(cache.items()))] and counts
