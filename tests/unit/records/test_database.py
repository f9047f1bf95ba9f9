"""The database of records: what it keeps of several trials, several writers, killed processes, and files of others."""

from __future__ import annotations

import math
import os
import signal
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from record_case import TRIAL, WINNER

from tilewright.core.errors import RecordError
from tilewright.records import ERRORS, Trial
from tilewright.records.database import Counts, Database
from tilewright.records.lookup import read_file
from tilewright.records.sqlite_file import prepare_file


@pytest.fixture
def database(tmp_path: Path) -> Database:
    return Database.open(tmp_path / "records.sqlite")


def steps(number: int) -> Trial:
    """The same trial of another schedule."""
    return replace(TRIAL, steps=f'[["split", "n", {number}]]')


def test_what_is_added_is_read_back(tmp_path: Path, database: Database) -> None:
    odd = replace(TRIAL, kernel="a\x1b[31m\n'\";--", reason="\x00\ud800".encode(errors="replace").decode(), load=1e-300)
    failed = replace(steps(8), seconds=(), default_seconds=(), error="crash", process="host:1:2.5", version="0.1")
    assert database.add(TRIAL, odd, failed) == 3
    database.accept([WINNER])
    database.close()
    with Database.open(tmp_path / "records.sqlite", readonly=True) as again:
        assert again.trials() == [TRIAL, odd, failed] and again.trials("matmul_1a2b3c4d") == [TRIAL, failed]
        assert again.winners() == [WINNER] and again.winners("x86-512", 1) == []
        assert again.counts() == Counts(3, 1) and again.verify() == []
        with pytest.raises(RecordError, match="readonly database"):
            again.add(steps(4))


def test_of_two_trials_of_one_schedule_the_one_that_says_more_stays(database: Database) -> None:
    longer = replace(TRIAL, seconds=(1.0,) * 3, default_seconds=(2.0,) * 3, time=4.0)
    beside = replace(TRIAL, default_steps='[["split", "m", 3]]', time=5.0)
    wrong = replace(TRIAL, seconds=(), default_seconds=(), error="wrong", time=1.0)
    pairs = (TRIAL, TRIAL), (longer, longer), (TRIAL, longer), (beside, beside), (longer, beside)
    for given, kept in (*pairs, (wrong, wrong), (longer, wrong)):
        database.add(given)
        assert database.trials() == [kept]
    database.add(replace(TRIAL, version="0.2"))
    assert len(database.trials()) == 2, "a trial of another version is another"


def test_the_best_trial_has_the_least_ratio(database: Database) -> None:
    asked = ("matmul_1a2b3c4d", "x86-512", 2)
    assert database.best(*asked) is None
    database.add(replace(steps(2), error="timeout", seconds=(), default_seconds=()))
    assert database.best(*asked) is None
    fast = replace(steps(3), seconds=(1.0, 1.0), default_seconds=(4.0, 4.0))
    database.add(TRIAL, fast)
    assert database.best(*asked) == fast and database.best("matmul_1a2b3c4d", "x86-512", 1) is None
    database.add(replace(fast, error="wrong", seconds=(), default_seconds=(), version="0.2", time=6.0))
    assert database.best(*asked) == TRIAL, "what a later version found wrong is none"


def test_a_ratio_has_an_interval() -> None:
    assert TRIAL.ratio == 0.75 and TRIAL.interval == (0.5, 1.0)
    twenty = replace(TRIAL, seconds=tuple(range(1, 21)), default_seconds=(1.0,) * 20)
    assert twenty.ratio == 10.5 and twenty.interval == (6, 15)  # the sign test's, as in tables
    assert all(math.isinf(replace(TRIAL, error=error).ratio) for error in ERRORS[1:])


def test_winners_are_accepted_rejected_and_replaced(database: Database) -> None:
    other = replace(WINNER, kernel="conv_1a2b3c4d")
    database.accept([WINNER, other])
    database.accept([replace(WINNER, ratio=0.7, time=1.0)])
    assert {(w.kernel, w.ratio) for w in database.winners()} == {("matmul_1a2b3c4d", 0.7), ("conv_1a2b3c4d", 0.5)}
    assert database.reject([WINNER.kernel], threads=1) == 0
    assert database.reject([WINNER.kernel], "x86-512", 2) == 1 and database.winners() == [other]


def test_databases_are_merged_in_any_order(tmp_path: Path) -> None:
    parts = [
        ([TRIAL, steps(2)], [WINNER]),
        ([replace(TRIAL, seconds=(1.0,) * 3, default_seconds=(2.0,) * 3), steps(3)], [replace(WINNER, time=8.0)]),
        ([replace(TRIAL, error="wrong", seconds=(), default_seconds=())], [replace(WINNER, threads=1)]),
    ]
    for number, (trials, winners) in enumerate(parts):
        with Database.open(tmp_path / f"{number}.sqlite") as made:
            made.add(*trials)
            made.accept(winners)
    found = []
    for order in ((0, 1, 2), (2, 1, 0), (1, 0, 2)):
        with Database.open(tmp_path / f"merged-{order}.sqlite") as merged:
            for number in (*order, *order):
                with Database.open(tmp_path / f"{number}.sqlite", readonly=True) as part:
                    merged.merge(part)
            found.append((sorted(map(repr, merged.trials())), sorted(map(repr, merged.winners()))))
    assert found[0] == found[1] == found[2] and len(found[0][0]) == 3
    assert "time=8.0" in "".join(found[0][1]), "the later winner stays"


def test_prune_removes_what_is_asked_for(database: Database) -> None:
    database.add(TRIAL, replace(steps(2), time=50.0), replace(steps(3), error="crash", seconds=(), default_seconds=()))
    database.add(replace(TRIAL, kernel="conv_1a2b3c4d"))
    database.accept([WINNER])
    assert database.prune(failed=True, kernel="conv*") == (0, 0)
    assert database.prune(failed=True) == (1, 0)
    assert database.prune(before=10.0, kernel="matmul_*") == (1, 1)
    assert database.prune(kernel="conv_1a2b3c4d") == (1, 0)
    assert [trial.time for trial in database.trials()] == [50.0]


@pytest.mark.parametrize(
    "change, said",
    [
        ({"seconds": (math.nan,)}, "'seconds' has what is no number"),
        ({"threads": -1}, "no number of threads"),
        ({"steps": "["}, "'steps' is no JSON"),
        ({"values": "x" * 300_000}, "more than 262144 characters"),
        ({"error": "odd"}, "not one of refused, compile"),
        ({"seconds": (1.0,)}, "not as many seconds"),
    ],
)
def test_what_could_not_be_read_back_is_refused(database: Database, change: dict[str, Any], said: str) -> None:
    with pytest.raises(RecordError, match=said):
        database.add(steps(2), replace(TRIAL, **change))
    assert database.trials() == [], "all or none"
    database.add(replace(TRIAL, reason="x" * 10_000))
    assert len(database.trials()[0].reason) == 4096


_WRITER = """
import sys
from dataclasses import replace
from tilewright.records import Trial
from tilewright.records.database import Database
path, name, count = sys.argv[1], sys.argv[2], int(sys.argv[3])
with Database.open(path) as database:
    for number in range(count):
        database.add(Trial(name, "x86", 1, "{}", f'[["split", "n", {number}]]', (1.0,), (2.0,)))
        print(number, flush=True)
"""


def test_several_processes_write_at_once(tmp_path: Path) -> None:
    path = tmp_path / "records.sqlite"
    running = [
        subprocess.Popen([sys.executable, "-c", _WRITER, path, f"kernel_{i}", "30"], stdout=subprocess.DEVNULL)
        for i in range(3)
    ]
    assert [process.wait() for process in running] == [0, 0, 0]
    with Database.open(path, readonly=True) as database:
        assert database.counts() == (90, 0) and database.verify() == []


def test_tables_made_while_a_file_is_checked_are_not_another_programs(tmp_path: Path) -> None:
    path = tmp_path / "records.sqlite"
    with closing(sqlite3.connect(path, isolation_level=None)) as first:

        def make_tables(statement: str) -> None:
            if "sqlite_master" in statement:
                first.set_trace_callback(None)
                with closing(sqlite3.connect(path, 0.0, isolation_level=None)) as second:
                    refused.append(_refusal(lambda: prepare_file(second, path, readonly=False)))

        refused: list[str] = []
        first.set_trace_callback(make_tables)
        prepare_file(first, path, readonly=False)
    assert refused == ["database is locked"]
    with Database.open(path, readonly=True) as database:
        assert database.verify() == []


def _refusal(call: Callable[[], None]) -> str:
    try:
        call()
    except sqlite3.OperationalError as error:
        return str(error)
    return ""


def test_threads_share_one(database: Database) -> None:
    def write(name: str) -> None:
        for number in range(10):
            database.add(replace(steps(number), kernel=name))

    threads = [threading.Thread(target=write, args=(f"kernel_{i}",)) for i in range(3)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert database.counts() == (30, 0)


def test_a_killed_process_loses_nothing_that_was_committed(tmp_path: Path) -> None:
    path, told = tmp_path / "records.sqlite", 0
    for number in range(4):
        with subprocess.Popen(
            [sys.executable, "-c", _WRITER, path, f"kernel_{number}", "100000"], stdout=subprocess.PIPE, text=True
        ) as process:
            assert process.stdout is not None
            for _ in range(5 + number):
                told += bool(process.stdout.readline())
            process.send_signal(signal.SIGKILL)
        with Database.open(path) as database:
            assert database.verify() == [] and len(database.trials()) >= told


def test_what_reads_beside_an_open_database_does_not_take_its_log(tmp_path: Path) -> None:
    """Where a process closes a file it loses all of its locks: who came next removed the log, and what went there."""
    path = tmp_path / "r.sqlite"
    read = f"from tilewright.records.database import Database\nprint(len(Database.open({str(path)!r}).trials()))"

    def count() -> int:
        return int(subprocess.run([sys.executable, "-c", read], check=True, capture_output=True, text=True).stdout)

    with Database.open(path) as database:
        database.add(steps(1))
        Database.open(path, readonly=True).close()
        read_file(path, "x86", 1)
        assert count() == 1
        database.add(steps(2))
        assert count() == 2  # from the log, which is still there


def test_files_that_are_none_of_ours_are_refused(tmp_path: Path) -> None:
    (tmp_path / "text").write_text('{"trial": {}}\n')
    (tmp_path / "cut").write_bytes(b"SQLite format 3\x00 and no more")
    with sqlite3.connect(tmp_path / "foreign") as foreign:
        foreign.execute("CREATE TABLE trials (a)")
    foreign.close()
    Database.open(tmp_path / "newer").close()
    with sqlite3.connect(tmp_path / "newer") as newer:
        newer.execute("PRAGMA user_version = 99")
    newer.close()
    os.mkfifo(tmp_path / "pipe")
    cases = {
        "text": "is no database of records",
        "cut": "are damaged",
        "foreign": "of another program",
        "newer": "a later version of Tilewright .format 99",
        "pipe": "is no file",
        ".": "is no file",
    }
    for name, said in cases.items():
        before = (tmp_path / name).stat().st_size
        for readonly in (False, True):
            with pytest.raises(RecordError, match=said) as caught:
                Database.open(tmp_path / name, readonly=readonly)
            assert "\n" not in str(caught.value)
        assert (tmp_path / name).stat().st_size == before
    (tmp_path / "empty").touch()
    with pytest.raises(RecordError, match="is empty"):
        Database.open(tmp_path / "empty", readonly=True)
    with pytest.raises(RecordError, match="there are no records in"):
        Database.open(tmp_path / "none", create=False)
    assert not (tmp_path / "none").exists()


def test_damage_is_an_error_and_found(tmp_path: Path) -> None:
    path = tmp_path / "records.sqlite"
    with Database.open(path) as database:
        database.add(*(replace(steps(number), values='"' + "x" * 3000 + '"') for number in range(50)))
    data = bytearray(path.read_bytes())
    for at in range(5 * 4096, len(data), 4096):
        data[at : at + 64] = os.urandom(64)
    path.write_bytes(data)
    with Database.open(path) as database, pytest.raises(RecordError, match="are damaged") as caught:
        assert database.verify()
        database.trials()
    assert "\n" not in str(caught.value)


def test_a_row_that_is_no_record_is_left_out_and_found(tmp_path: Path, database: Database) -> None:
    database.add(TRIAL, steps(2), steps(3))
    database.accept([WINNER])
    changes = ("trials SET seconds = '[1e999]' WHERE rowid = 1", "trials SET kernel = x'00ff' WHERE rowid = 2",
               "winners SET ratio = 'fast'")  # fmt: skip
    with sqlite3.connect(tmp_path / "records.sqlite") as other:
        for change in changes:
            other.execute(f"UPDATE {change}")
    other.close()
    assert database.trials() == [steps(3)] and database.winners() == []
    assert len(database.verify()) == 3 and all("is no record" in line for line in database.verify())


def test_reading_leaves_nothing_behind(tmp_path: Path) -> None:
    path = tmp_path / "records.sqlite"
    with Database.open(path) as writer:
        writer.add(TRIAL)
        with Database.open(path, readonly=True) as reader:
            writer.add(steps(2))
            assert len(reader.trials()) == 2
    with Database.open(path, readonly=True) as reader:
        assert reader.trials() == [TRIAL, steps(2)]
    assert [each.name for each in tmp_path.iterdir()] == ["records.sqlite"]


def test_a_file_in_a_folder_that_cannot_be_written_is_read(tmp_path: Path) -> None:
    folder = tmp_path / "shared"
    with Database.open(folder / "records.sqlite") as database:
        database.accept([WINNER])
    folder.chmod(0o500)
    try:
        with Database.open(folder / "records.sqlite", readonly=True) as database:
            assert database.winners() == [WINNER]
    finally:
        folder.chmod(0o700)
