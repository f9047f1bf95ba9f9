"""Where records are looked for, and which count; lines of JSON."""

from __future__ import annotations

import io
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from record_case import TRIAL, WINNER

from tilewright.core.errors import RecordError
from tilewright.core.target import Target
from tilewright.records import Trial, Winner, find_winners, lookup, target_key, user_file
from tilewright.records.database import Database
from tilewright.records.lines import LONGEST_LINE, iterate_lines, read_line, write_line


@pytest.fixture(autouse=True)
def _places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TILEWRIGHT_RECORDS", str(tmp_path / "user.sqlite"))
    monkeypatch.setattr(lookup, "SHIPPED_FILE", tmp_path / "shipped.jsonl")
    (tmp_path / "project" / "inside").mkdir(parents=True)
    monkeypatch.chdir(tmp_path / "project" / "inside")


def save(path: Path, *winners: Winner) -> None:
    with Database.open(path) as database:
        database.accept(winners)


def found(notes: list[str] | None = None) -> dict[str, str]:
    """The networks whose winners are found, by kernel."""
    return {name: winner.network for name, winner in find_winners("x86-512", 2, notes=notes).items()}


def test_the_users_counts_before_the_projects_and_that_before_the_wheels(tmp_path: Path) -> None:
    assert found() == {}
    (tmp_path / "shipped.jsonl").write_text(
        "".join(write_line(replace(WINNER, kernel=k, network="shipped")) + "\n" for k in "abc")
    )
    assert found() == {"a": "shipped", "b": "shipped", "c": "shipped"}
    project = tmp_path / "project" / lookup.PROJECT_FILE
    save(project, *(replace(WINNER, kernel=k, network="project") for k in "bcd"))
    save(user_file(), replace(WINNER, kernel="c", network="user"), replace(WINNER, kernel="e", threads=1))
    assert found() == {"a": "shipped", "b": "project", "c": "user", "d": "project"}
    assert find_winners("x86-512", 2, [project]).keys() == {"b", "c", "d"}
    assert find_winners("x86-512", 2, [tmp_path / "shipped.jsonl"]).keys() == {"a", "b", "c"}
    assert find_winners("x86-256", 2) == {} and find_winners("x86-512", 1).keys() == {"e"}


def test_nothing_is_loaded_where_there_are_no_files() -> None:
    code = (
        "import sys; from tilewright.core.target import Target; from tilewright.records import find_winners\n"
        "assert find_winners(Target(), 2) == {} and 'sqlite3' not in sys.modules and 'mlir' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_a_file_that_others_may_write_is_not_looked_at(tmp_path: Path) -> None:
    project = tmp_path / "project" / lookup.PROJECT_FILE
    save(project, WINNER)
    project.chmod(0o666)
    notes: list[str] = []
    assert found(notes) == {} and ["can be written by all" in note for note in notes] == [True]
    assert find_winners("x86-512", 2, [project]), "but one that is named is"


def test_a_damaged_file_is_a_note_and_the_others_count(tmp_path: Path) -> None:
    user_file().write_text("something")
    save(tmp_path / "project" / lookup.PROJECT_FILE, WINNER)
    notes: list[str] = []
    assert len(found(notes)) == 1 and ["compiled without them" in note for note in notes] == [True]
    with pytest.raises(RecordError, match="is no database of records"):
        find_winners("x86-512", 2, [user_file()])


def test_a_working_folder_that_is_gone_has_no_project(tmp_path: Path) -> None:
    os.rmdir(tmp_path / "project" / "inside")
    assert found() == {}


def test_a_users_file_without_a_variable_is_among_the_users_data(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TILEWRIGHT_RECORDS")
    for home, want in (("/d", "/d/tilewright/records.sqlite"), ("d", "/h/.local/share/tilewright/records.sqlite")):
        monkeypatch.setenv("XDG_DATA_HOME", home)
        monkeypatch.setenv("HOME", "/h")
        assert user_file() == Path(want)


def test_a_targets_key_is_of_what_schedules_depend_on() -> None:
    host = Target.parse("x86")
    same = (replace(host, cpu="haswell", cores=host.cores + 1, changes=("+fma",)), replace(host, l3_bytes=1))
    others = (replace(host, features=host.features[1:]), replace(host, l2_bytes=1 << 20, l1_bytes=1 << 14),
              replace(host, lanes=host.lanes * 2), replace(host, arch="aarch64"))  # fmt: skip
    assert {target_key(each) for each in same} == {target_key(host)}
    assert len({target_key(each) for each in (host, *others)}) == 5


@pytest.mark.parametrize("record", [TRIAL, WINNER])
def test_a_record_is_a_line(record: Trial | Winner) -> None:
    odd = replace(record, kernel="a\x1b\n\u2028\U0001f600")
    assert read_line(write_line(odd)) == odd and len(write_line(odd).splitlines()) == 1


@pytest.mark.parametrize(
    "line, said",
    [
        ("[" * 100_000, "it is no JSON"),
        ("3", "it is neither"),
        ('{"trial": 3}', "it is neither"),
        ('{"trial": {}}', "it has no 'kernel'"),
        (write_line(TRIAL).replace("[1.0, 3.0]", "[1.0, Infinity]"), "no number"),
        (write_line(TRIAL).replace("[1.0, 3.0]", "[1.0, -3]"), "less than 0"),
        (write_line(TRIAL).replace("[1.0, 3.0]", "[1.0, 1" + "0" * 400 + "]"), "no number"),
        (write_line(TRIAL).replace('"threads": 2', '"threads": true'), "no number of threads"),
        (write_line(WINNER).replace('"network": "resnet50"', '"network": ["resnet50"]'), "'network' is no text"),
    ],
)
def test_a_line_of_anything_else_is_refused(line: str, said: str) -> None:
    with pytest.raises(RecordError, match=said):
        read_line(line)


def test_lines_are_bounded() -> None:
    data = b"\xef\xbb\xbfone\n\n" + b"x" * (3 * LONGEST_LINE) + b"\n\xff\n  two  \r\nthree"
    found = [(n, line if isinstance(line, str) else "refused") for n, line in iterate_lines(io.BytesIO(data))]
    assert found == [(1, "one"), (3, "refused"), (4, "refused"), (5, "two"), (6, "three")]
