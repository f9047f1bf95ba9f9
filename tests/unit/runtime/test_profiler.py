"""``Report``: what it says of counted calls, and the forms it is written in."""

import csv
import io
import json
import math
from typing import Any

import pytest

import tilewright as tw
from tilewright.runtime.executors.counters import Event
from tilewright.runtime.profile.profiler import KEYS, Report, Row

TYPES: dict[str, Any] = {"inputs": ("4x8xf32", "8x2xf32"), "results": ("4x2xf32",), "layout": "weight in blocks of 2"}
ROWS = (
    Row("conv_add_0123abcd", ("conv", 'add, "1"'), **TYPES, count=4, total=4000, least=500, most=2000, flops=8000),
    Row("pad_89abcdef", count=4, total=1000, least=200, most=300, bytes=4096),
    Row("conv_add_0123abcd", ("conv2",), **TYPES, count=4, total=2500, least=600, most=700, flops=8000, bytes=64),
    Row("conv_add_76543210", ("last",), ("2xf32",), count=0),
    Row("Unique", ("distinct",), host=True, count=4, total=500, least=100, most=150),
)
TRACE = (Event(0, 10_500, 1000, 77), Event(1, 11_500, 250, 77), Event(2, 11_000, 600, 99))
DEVICE = {"cpu": "1 x CPU", "target": "x86", "threads": 1}
RATES = {"flops": 8e9, "bytes": 16e9}


def report(**changed: Any) -> Report:
    known: dict[str, Any] = {"elapsed": 10_000, "rates": RATES, "trace": TRACE}
    return Report("net", "ahead of time", DEVICE, 4, ROWS, **(known | changed))


def test_the_shares_are_of_all_calls():
    made = report()
    assert [made.share(row) for row in made.rows] == [0.5, 0.125, 0.3125, 0, 0.0625]
    assert sum(map(made.share, made.rows)) == pytest.approx(1)


def test_rates_of_a_row():
    row = ROWS[2]
    assert row.mean == 625
    assert row.flops_per_second == pytest.approx(8000 / 2500e-9)
    assert row.bytes_per_second == pytest.approx(64 / 2500e-9)
    assert report().peak_share(row) == pytest.approx(8000 / 8e9 / 2500e-9)
    assert (report().bound_of(row), report().bound_of(ROWS[1])) == ("compute", "memory")


@pytest.mark.parametrize("rates", [None, RATES])
def test_no_figure_is_no_number(rates):
    for record in report(rates=rates).records():
        for value in record.values():
            assert not isinstance(value, float) or math.isfinite(value), record
    assert {record["peak_share"] is None for record in report(rates=rates).records()} == {rates is None}


def test_a_report_of_nothing():
    nothing = Report("net", "ahead of time", DEVICE, 0, ())
    assert nothing.records() == [] and nothing.by_op().rows == ()
    assert nothing.table().startswith("net: 0 runs, 0.000 ms each")
    assert list(csv.DictReader(io.StringIO(nothing.csv()))) == []
    assert Report.from_json(nothing.json()) == nothing


@pytest.mark.parametrize("made", [report(), report(rates=None, elapsed=None, trace=()), report().by_node()])
def test_json_round_trip(made):
    assert Report.from_json(made.json()) == made


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"format": 0}', '{"format": 1, "rows": [{}], "trace": []}'])
def test_refuses_text_that_is_no_report(text):
    with pytest.raises(tw.InputError, match="the text is not a profile") as error:
        Report.from_json(text)
    assert "\n" not in str(error.value)


def test_csv_has_a_line_for_each_row():
    records = list(csv.DictReader(io.StringIO(report().csv("order"))))
    assert [record["name"] for record in records] == [row.name for row in ROWS]
    assert records[0]["nodes"] == 'conv + add, "1"'
    assert [int(record["count"]) for record in records] == [4, 4, 4, 0, 4]
    assert float(records[0]["total_seconds"]) == pytest.approx(4e-6)
    assert sum(float(record["share"]) for record in records) == pytest.approx(1)


@pytest.mark.parametrize(
    "key, first",
    [("time", 4000), ("mean", 4000), ("min", 2500), ("max", 4000), ("bytes", 1000), ("order", 4000), ("name", 500)],
)
def test_sorted_by(key, first):
    assert report().sort_rows(key)[0].total == first


def test_every_key_sorts_and_another_is_refused():
    assert all(len(report().sort_rows(key)) == len(ROWS) for key in KEYS)
    with pytest.raises(tw.InputError, match="not sorted by 'speed': choose from time, mean"):
        report().sort_rows("speed")  # type: ignore


def test_rows_of_a_kernel_together():
    first, *_ = made = report().by_kernel().sort_rows()
    assert [row.name for row in made] == ["conv_add_0123abcd", "pad_89abcdef", "Unique", "conv_add_76543210"]
    assert (first.count, first.total, first.least, first.most) == (8, 6500, 500, 2000)
    assert (first.flops, first.bytes) == (16000, 64)
    assert first.nodes == ("conv", 'add, "1"', "conv2") and first.inputs == TYPES["inputs"]


def test_rows_of_an_op_together_and_their_trace():
    made = report().by_op()
    assert [row.name for row in made.rows] == ["conv_add", "pad", "Unique"]
    assert made.rows[0].inputs == () and (made.rows[0].least, made.rows[0].count) == (500, 8)
    assert [event.call for event in made.trace] == [0, 1, 0]
    assert sum(map(made.share, made.rows)) == pytest.approx(1)


def test_rows_of_nodes_together():
    names = [row.name for row in report().by_node().rows]
    assert names == ['conv + add, "1"', "pad_89abcdef (made by the compiler)", "conv2", "last", "distinct"]


def test_programs_are_kept_apart():
    rows = (Row("k_01234567", count=1, total=1), Row("k_01234567", count=1, total=2, program="x:1,2"))
    assert len(Report("net", "", {}, 2, rows).by_kernel().rows) == 2


@pytest.mark.parametrize("rates, columns", [(None, 12), (RATES, 14)])
def test_the_table(rates, columns):
    made = report(rates=rates)
    head, *cells = made.cells()
    assert {len(row) for row in (head, *cells)} == {columns} and len(cells) == len(ROWS)
    assert len(made.cells(top=2)) == 3
    text = made.table()
    assert "net: 4 runs, 0.003 ms each" in text and "80.0% of the time in calls" in text
    assert "cpu 1 x CPU, target x86, threads 1" in text
    assert 'conv + add, "1"' in text and "Unique (host)" in text


def test_the_trace_is_of_complete_events():
    made = json.loads(report().chrome_trace())
    assert made["displayTimeUnit"] == "ms"
    meta = [event for event in made["traceEvents"] if event["ph"] == "M"]
    assert [event["name"] for event in meta] == ["process_name", "thread_name", "thread_name"]
    assert meta[0]["args"] == {"name": "net"}
    events = [event for event in made["traceEvents"] if event["ph"] != "M"]
    assert len(events) == len(TRACE)
    for event in events:
        assert event["ph"] == "X" and {"name", "cat", "ts", "dur", "pid", "tid", "args"} <= set(event)
        assert event["ts"] >= 0 and event["dur"] >= 0
    assert [(event["name"], event["ts"], event["dur"], event["tid"]) for event in events] == [
        ("conv_add", 0.0, 1.0, 0),
        ("pad", 1.0, 0.25, 0),
        ("conv_add", 0.5, pytest.approx(0.6), 1),
    ]
    assert events[0]["args"]["nodes"] == ["conv", 'add, "1"'] and events[0]["args"]["flops"] == 2000
