"""Tables on a terminal: they fit its width, and no number of theirs is broken or cut."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import onnx
import pytest
from small_network import network

from tilewright.tools import _tables, cache, check, explain, profile_model
from tilewright.tools._tables import fact_lines, fit_columns, markdown_lines, table_lines

HEAD = ("ms", "% time", "MB", "quartiles", "nodes", "kernel")
ROWS = [
    HEAD,
    ("10.652", "79.7%", "1234567.25", "10.12-11.98 (9)", "/features/0/Conv + /features/1/Relu", "conv_add_8a8415d0"),
    ("0.762", "5.7%", "3.12", "0.11-0.19 (9)", "a_node_with_a_name_of_more_than_24_characters", "matmul_3e710bfb"),
]


@pytest.mark.parametrize("width", [60, 70, 80, 100, 120, 200])
def test_a_table_fits_and_numbers_are_whole(width: int) -> None:
    lines = fit_columns(ROWS, width, words=("nodes", "kernel"), spare=("kernel", "MB"))
    assert all(len(line) <= width for line in lines)
    text = "\n".join(lines)
    for row in ROWS[1:]:
        for name, cell in zip(HEAD[:4], row, strict=False):
            left_out = name == "MB" and "kernel, MB (" in " ".join(text.split())
            assert left_out or all(word in text.split() for word in cell.split()), cell
    assert ("not shown" in text) == (width < 100)


def test_columns_are_left_out_in_the_order_that_is_given() -> None:
    assert fit_columns(ROWS, 80, ("nodes", "kernel"), ("kernel", "MB"))[-1].startswith(
        "not shown for want of width: kernel ("
    )
    narrow = " ".join(fit_columns(ROWS, 60, ("nodes", "kernel"), ("kernel", "MB")))
    assert "kernel, MB" in narrow and "conv_add" not in narrow and "1234567.25" not in narrow


def test_words_are_broken_and_nothing_of_them_is_lost() -> None:
    lines = fit_columns(ROWS, 60, ("nodes", "kernel"), ("kernel", "MB"))
    start = lines[0].index("nodes")
    column = "".join(line[start:].strip() for line in lines[2:])
    assert "a_node_with_a_name_of_more_than_24_characters" in column


def test_numbers_stand_under_each_other_and_words_at_the_left() -> None:
    assert fit_columns([("name", "ms"), ("a", "1.25"), ("bcd", "10.50")], 80) == [
        "name     ms",
        "-----------",
        "a      1.25",
        "bcd   10.50",
    ]


def test_a_pipe_has_all_of_it() -> None:
    [head, *rows] = table_lines(ROWS, ("nodes",), HEAD)
    assert head.split("  ")[0] == "ms" and all(cell in " ".join(rows) for row in ROWS[1:] for cell in row)


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> int:
    monkeypatch.setattr(_tables, "terminal_width", lambda: 80)
    return 80


def test_long_facts_go_on_below_their_beginning(terminal: int) -> None:
    lines = list(fact_lines([("nodes", " + ".join(f"layer{i}" for i in range(20))), ("kernel", "k")], 10, "  "))
    assert all(len(line) <= terminal for line in lines) and lines[-1] == "  kernel    k"
    assert len(lines) > 2 and all(line.startswith(" " * 12) for line in lines[1:-1])


def test_what_check_says_fits_a_terminal(terminal: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    onnx.save(network(), tmp_path / "net.onnx")
    assert check.main([str(tmp_path / "net.onnx")]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert all(len(line) <= terminal for line in lines)


def test_markdown_is_a_table_on_a_terminal(terminal: int) -> None:
    rows = [["network", *(f"runtime {i}" for i in range(4)), "ours / the faster"]]
    rows += [["mobilenet_v2_of_a_long_name", *["123.4 (120.1-125.9)"] * 4, "**0.79** (0.78-0.82)"]]
    text = ["Measured:", "", *(f"| {' | '.join(row)} |" for row in (rows[0], ["---"] * 6, rows[1])), "", "The end."]
    lines = list(markdown_lines(text))
    assert all(len(line) <= terminal and "|" not in line for line in lines)
    assert lines[0] == "Measured:" and lines[-2] == "The end."
    found = " ".join(lines).split()
    assert found.count("123.4") == found.count("(120.1-125.9)") == 3
    assert "ours / the faster, runtime 3" in " ".join(found), "the last columns are left out"


def test_markdown_in_a_pipe_is_markdown() -> None:
    assert list(markdown_lines(["| a |", "|---|", "| 1 |"])) == ["| a |", "|---|", "| 1 |"]


def kernel(number: int, calls: int = 1) -> dict[str, Any]:
    """What ``explain`` says of a kernel whose names are long."""
    nodes = [[f"/model/decoder/layers.{number}/attention/{what}" for what in ("q_proj/MatMul", "Add")]] * calls
    return {
        "name": f"matmul_add_max_{number:08x}", "nodes": nodes, "calls": calls, "seconds": 1.23456, "share": 0.987,
        "flops": 12_345_678_901, "bytes": 123_456_789_012, "flops_per_second": 1.5e12, "bytes_per_second": 2.5e11,
        "bound": "compute", "peak_share": 12.34, "inputs": ["1x512x32xf32"] * 6, "results": ["1x512xf32"], "layout": "",
        "steps": 31, "schedule": SCHEDULE, "note": "", "codegen": "", "reason": "", "tuned": None,
    }  # fmt: skip


SCHEDULE = """parallel d1.0 in 13 x 4 + 3:
  stage %7:
    for %7.d3 by 1:
      for %7.d4 by 1:
        tile %7.d0 x %7.d1 of 6 x 6: unroll %7.d0, vectorize %7.d1, tensorize linear_transform
  for d3.0 in 2 x 32:
    tile d1 x d2 of 4 x 16: unroll d1, vectorize d2"""


def test_what_explain_prints_fits_a_terminal(terminal: int, capsys: pytest.CaptureFixture[str]) -> None:
    explain._print_kernels([kernel(1), kernel(2, calls=5)], full=False)
    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines)) <= terminal
    head = lines[0].split()
    assert "nodes" in head and "kernel" not in head, "names of nodes come before hashes"


def test_a_schedule_in_few_lines_and_in_full() -> None:
    few = [text for label, text in explain._kernel_facts(kernel(1)) if label in ("schedule", "")]
    assert few[-3:] == [
        "31 steps: parallel d1.0 in 13 x 4 + 3",
        "%7 ahead: 2 loops around a tile of 6 x 6, tensorize linear_transform",
        "1 loop around a tile of 4 x 16",
    ]
    full = [text for _, text in explain._kernel_facts(kernel(1), full=True)]
    assert full[-7:] == [f"31 steps: {SCHEDULE.splitlines()[0]}", *SCHEDULE.splitlines()[1:]]


def test_a_long_schedule_says_how_much_is_left_out() -> None:
    long = "parallel in 64 shares:\n" + "\n".join(f"  copy %arg{i}[0:] at [0]: 3" for i in range(20))
    lines = explain._schedule({"schedule": long, "steps": 64, "codegen": ""}, full=False)
    assert len(lines) == 8 and lines[-1] == "and 14 more: --full shows all"
    assert explain.schedule_parts(["tile row of 8: vectorize row"]) == ["one thread", "tile of 8"]


def test_nodes_are_said_once_where_there_is_one_call() -> None:
    labels = [label for label, _ in explain._kernel_facts(kernel(1) | {"nodes": [["conv"]]})]
    assert "nodes" not in labels and explain._title(kernel(1) | {"nodes": [["conv"]]}) == "conv"
    assert explain._title(kernel(1, calls=3)).endswith(" (and 2 more)")


def test_labels_of_the_plot_do_not_lie_on_each_other() -> None:
    from matplotlib.text import Annotation

    from tilewright.tools import _plot

    close = [
        kernel(i) | {"flops": 1000 + i, "bytes": 1000, "flops_per_second": 1e9 + i, "share": 0.1} for i in range(10)
    ]
    machine = {"flops": 1e11, "bytes": 1e10}
    figure = _plot.draw_picture({"model": "m.onnx", "seconds": 1.0, "machine": machine, "kernels": close})
    renderer = figure.canvas.get_renderer()  # type: ignore[attr-defined]
    roof, bars = figure.axes
    numbers = [text for text in roof.texts if isinstance(text, Annotation)]
    assert sorted(text.get_text() for text in numbers) == sorted(map(str, range(1, 11)))
    boxes = [_plot.label_box(text, renderer) for text in numbers]
    beside = [text.get_window_extent(renderer) for text in (*bars.texts, *bars.get_yticklabels())]
    for group in (boxes, beside):
        assert not [pair for pair in itertools.combinations(group, 2) if pair[0].overlaps(pair[1])]
    names = [label.get_text() for label in bars.get_yticklabels()]
    assert names[0].startswith("1  /model/decoder/layers.0/attention") and "\nmatmul_add_max_" in names[0]


def test_the_tables_of_commands_name_columns_that_they_have() -> None:
    from tilewright.runtime.profile.profiler import Report

    head = Report("m", "aot", {}, 1, (), rates={"flops": 1.0, "bytes": 1.0}).cells()[0]
    assert set(profile_model._SPARE) <= set(head) and {"nodes", "kernel"} <= set(head)
    assert set(explain._SPARE) <= set(explain._COLUMNS)
    assert len(cache._COLUMNS) == len(set(cache._COLUMNS))
