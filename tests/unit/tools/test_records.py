"""``tilewright records``: what it shows of records, and how they are shared, checked and removed."""

from __future__ import annotations

import json
import time
from dataclasses import replace
from pathlib import Path

import pytest
from record_case import TRIAL, WINNER

from tilewright.records import Trial
from tilewright.records.database import Database
from tilewright.tools import cli

EVIL = "a\x1b]0;t\x07\x1b[2J\nFORGED\rFORGED\u2028\u202e [red]"
VALUES = '{"result": {"axes": [["m", 64], ["n", 96]]}}'
STEPS = '[["split", "n", 32], ["reorder", "m", "n.0", "n.1"], ["vectorize", "n.1"], ["parallel", "m"]]'
BEST = replace(TRIAL, values=VALUES, steps=STEPS, version="0.1", default_steps=STEPS.replace("32", "16"))
CRASHED = Trial(TRIAL.kernel, TRIAL.target, 2, VALUES, "[]", error="crash", reason="signal 11", time=6.0)


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The user's records: two trials and a winner."""
    path = tmp_path / "user.sqlite"
    monkeypatch.setenv("TILEWRIGHT_RECORDS", str(path))
    with Database.open(path) as database:
        database.add(BEST, CRASHED)
        database.accept([replace(WINNER, values=VALUES, steps=STEPS, time=time.time() - 3 * 86400)])
    return path


def run(*words: str | Path) -> int:
    return cli.main(["records", *map(str, words)])


def counts(path: Path) -> tuple[int, int]:
    with Database.open(path, readonly=True) as database:
        return database.counts()


def test_ls_has_a_row_for_each_kernel(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("ls") == 0
    head, titles, row = capsys.readouterr().out.splitlines()
    assert head == f"{path}: 2 trials, 1 winner" and titles.split()[:3] == ["kernel", "threads", "trials"]
    words = (
        "matmul_1a2b3c4d",
        "2",
        "2",
        "1",
        "0.500",
        "0.400 to 0.600",
        "yes",
        "resnet50",
        "3 d ago",
        "0.1",
        "x86-512",
    )
    assert row.split() == " ".join(words).split()
    assert run("ls", "--json", "--kernel", "conv_*") == 0
    assert json.loads(capsys.readouterr().out)["kernels"] == []


def test_no_records_are_no_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("TILEWRIGHT_RECORDS", str(tmp_path / "none.sqlite"))
    assert run("ls") == 0 and "no records yet" in capsys.readouterr().out
    assert run("verify") == 2 and "there are no records in" in capsys.readouterr().err
    assert not (tmp_path / "none.sqlite").exists()


def test_show_has_the_trials_best_first_and_what_changed(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("show", "matmul_1a2b3c4d") == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "matmul_1a2b3c4d, x86-512, 2 threads: 2 trials, 1 crash"
    assert lines[1].startswith(
        "  taken: 0.500 of the default's time (0.400 to 0.600), resnet50 takes 0.900, 3 d ago, 0.1"
    )
    assert lines[3:5] == [
        "  0.750 of the default's time (0.500 to 1.000) in 2 pairs, 0.1",
        "    n in steps of 16 -> 32",
    ]
    assert lines[5] == "  crash: signal 11, unknown version"
    assert run("show", "matmul_*", "--json") == 0
    found = json.loads(capsys.readouterr().out)
    assert [trial["ratio"] for trial in found["trials"]] == [0.75, None] and len(found["winners"]) == 1
    assert run("show", "conv") == 2 and "has no kernel 'conv'" in capsys.readouterr().err


def test_verify_replays_winners_and_names_other_versions(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("verify") == 0
    assert capsys.readouterr().out.splitlines() == [
        "of version 0.1: 1 winner",
        "1 of 1 winner can be replayed, 0 faults in the file",
    ]
    with Database.open(path) as database:
        database.accept(
            [replace(WINNER, kernel="conv_1a2b3c4d", values=VALUES, steps='[["split", "q", 4]]', version="0.0.1")]
        )
    assert run("verify") == 1
    out = capsys.readouterr().out
    assert "the schedule of conv_1a2b3c4d, 0.0.1, cannot be replayed: there is no loop 'q'" in out
    assert "1 of 2 winners can be replayed" in out


def test_merge_is_a_union(path: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name in "ab":
        with Database.open(tmp_path / name) as database:
            database.add(BEST, replace(BEST, kernel=f"conv_{name}"))
    assert run("merge", tmp_path / "a", tmp_path / "b") == 0
    assert capsys.readouterr().out == f"added 2 trials and 0 winners; {path} has 4 trials and 1 winner\n"
    assert run("merge", tmp_path / "a", tmp_path / "none") == 2 and run("merge", path) == 2
    assert run("merge", path, "--records", tmp_path / "new" / "all.sqlite") == 0 and counts(path) == (4, 1)
    assert counts(tmp_path / "new" / "all.sqlite") == (4, 1)


def test_prune_removes_what_is_asked_for(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("prune") == 2 and "give one of them" in capsys.readouterr().err
    assert run("prune", "--failed") == 0 and counts(path) == (1, 1)
    assert run("prune", "--older-than", "30d") == 0 and counts(path) == (0, 1)
    assert run("prune", "--kernel", "matmul_*") == 0 and counts(path) == (0, 0)


@pytest.mark.parametrize("form", ["json", "autotvm", "auto_scheduler"])
def test_lines_are_written_and_read(path: Path, tmp_path: Path, form: str, capsys: pytest.CaptureFixture[str]) -> None:
    file, other = tmp_path / "lines.jsonl", tmp_path / "other.sqlite"
    assert run("export", "--format", form) == 0
    printed = capsys.readouterr().out
    assert run("export", "--format", form, "-o", file) == 0 and file.read_text() == printed
    assert ("left out 1 winner" in capsys.readouterr().out) == (form != "json")
    assert run("import", file, "--records", other) == 0
    with Database.open(other, readonly=True) as database:
        assert database.trials() == [BEST, CRASHED] and len(database.winners()) == (form == "json")
    assert run("import", file, "--format", form, "--records", other) == 0
    assert " 0 new in " in capsys.readouterr().out
    assert run("export", "--winners", "--kernel", "matmul_*") == 0
    [line] = capsys.readouterr().out.splitlines()
    assert json.loads(line)["winner"]["network"] == "resnet50"


def test_lines_that_are_none_are_counted(path: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "lines"
    foreign = (
        '{"input": ["llvm", "dense", [1], {}], "config": {"entity": []}, "result": [[1e9], 4, 0.5, 7], "version": 0.2}'
    )
    file.write_bytes(b'# notes\n\n{"trial": 1}\n' + foreign.encode() + b"\n\xff\n")
    assert run("import", file) == 0
    assert capsys.readouterr().out.splitlines() == [
        "skipped 3 lines that are no records, the first one is line 1: it is no JSON",
        "1 trial of TVM: results and errors are kept, knobs have no meaning here",
        f"read 1 line, 1 new in {path}",
    ]
    file.write_text("\n# notes\n")
    assert run("import", file) == 2
    error = capsys.readouterr().err
    assert "has no line of records: line 2: it is no JSON" in error and error.count("\n") == 1


def test_texts_of_records_are_shown_as_they_are(path: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    steps = json.dumps([["split", EVIL, 3], [EVIL], ["reorder", EVIL]])
    evil = Trial(
        EVIL, EVIL, 2, "{}", steps, error="crash", reason=EVIL, process=EVIL, version=EVIL, default_steps=steps
    )
    with Database.open(path) as database:
        database.add(evil, replace(evil, default_steps=""))
        database.accept([replace(WINNER, kernel=EVIL, target=EVIL, network=EVIL, version=EVIL, steps=steps)])
    assert run("ls") == run("show", "*") == run("ls", "--json") == run("show", "*", "--json") == 0
    assert run("verify") == 1 and run("export", "--format", "autotvm") == 0 and run("export") == 0
    assert run("export", "--format", "auto_scheduler", "-o", tmp_path / "lines") == 0
    out = capsys.readouterr().out + (tmp_path / "lines").read_text()
    assert all(line.isprintable() and not line.startswith("FORGED") for line in out.splitlines())


@pytest.mark.parametrize(
    "words, said",
    [
        (["ls", "x"], "ls takes no 'x'"),
        (["show"], "needs the name of one kernel"),
        (["show", "a", "b"], "needs the name of one kernel"),
        (["merge"], "merge needs files"),
        (["ls", "--failed"], "ls takes no --failed, which is for prune"),
        (["import", "x", "-o", "y"], "import takes no -o"),
        (["export", "-o", "nowhere/x"], "there is no folder nowhere"),
        (["import", "/dev/null/x"], "cannot read '/dev/null/x'"),
    ],
)
def test_what_cannot_be_done_is_one_line(
    path: Path, words: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(*words) == 2
    error = capsys.readouterr().err
    assert said in error and error.count("\n") == 1
