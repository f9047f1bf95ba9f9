"""``tilewright tune`` as a command."""

from __future__ import annotations

import errno
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import onnx
import pytest
from onnx import helper

from tilewright.records.database import Database
from tilewright.tools import _tuning_plot, tune
from tilewright.tuning.plan_choices import ChoiceResult
from tilewright.tuning.session import Tuning


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> str:
    """``y = reduce_sum(x * x)`` along the first axis."""
    nodes = [
        helper.make_node("Mul", ["x", "x"], ["m"], "square"),
        helper.make_node("ReduceSum", ["m"], ["y"], "sum", keepdims=1, noop_with_empty_axes=0),
    ]
    x = helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, [33, 45])
    y = helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, [1, 1])
    path = str(tmp_path_factory.mktemp("tune") / "net.onnx")
    graph = helper.make_graph(nodes, "net", [x], [y])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=10), path)
    return path


def test_a_report_as_json(model: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    records = tmp_path / "r.sqlite"
    assert tune.main([model, "--trials", "3", "--threads", "1", "--records", str(records), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["threads"] == 1 and found["trials"] <= 3 and records.exists()
    assert {"ratio", "low", "high"} == set(found["ratio"]) and len(found["tasks"]) >= 1


def test_a_table_and_a_picture(model: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    picture = tmp_path / "p.svg"
    arguments = [model, "--trials", "3", "--threads", "1", "--records", str(tmp_path / "r.sqlite")]
    assert tune.main([*arguments, "--plot", str(picture)]) == 0
    out, err = capsys.readouterr()
    assert "net" in out and "trial" in out and "searching" in err
    assert "<svg" in picture.read_text()


def test_two_interrupts_end_it_with_a_line(
    model: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """What was measured until then is there, and the same command goes on with it."""

    def interrupt(tuning: Tuning) -> None:
        if tuning.stage == "searching" and tuning.budget.used_trials:
            os.kill(os.getpid(), signal.SIGINT)
            os.kill(os.getpid(), signal.SIGINT)

    monkeypatch.setattr(tune, "_line_teller", lambda: interrupt)
    records = tmp_path / "r.sqlite"
    assert tune.main([model, "--trials", "9", "--threads", "1", "--records", str(records)]) == 130
    out, err = capsys.readouterr()
    assert err == f"interrupted: 1 trial of this search is in {records}; the same command goes on\n" and not out
    with Database.open(records, readonly=True) as database:
        assert database.counts().trials >= 1 and not database.verify()


def test_a_picture_that_cannot_be_written_costs_no_report(
    model: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def refuse(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(_tuning_plot, "draw", refuse)
    arguments = [model, "--trials", "2", "--threads", "1", "--records", str(tmp_path / "r.sqlite")]
    assert tune.main([*arguments, "--plot", str(tmp_path / "p.svg")]) == 2
    out, err = capsys.readouterr()
    assert "2 trials in" in out and err.endswith("error: No space left on device\n")


def test_what_was_left_out_of_other_plans_is_said() -> None:
    late = [ChoiceResult(f"plan:winograd_{n}", ("n",), 0, 0, 1.0, False, (2, 4), "no time") for n in range(3)]
    done = ChoiceResult("plan:fuse_a", ("n",), 1, 1, 1.0, False)
    small = ChoiceResult("plan:fuse_b", ("n",), 1, 1, 1.0, False, (0,), "too little")
    assert [*tune._untried_lines([*late, done, small])] == [
        "  not tried: 6 options of 3 decisions of the kind 'winograd': no time",
        "  not tried: 1 option of 1 decision of the kind 'fuse': too little",
    ]


@pytest.mark.parametrize(
    ("nodes", "text"),
    [
        ((), "made by the compiler"),
        (("conv", "relu"), "conv + relu"),
        (
            ("layer4/conv1", "layer4/bn1", "layer4/relu", "layer4/conv2"),
            "layer4/conv1 + layer4/bn1 + layer4/relu and 1 more",
        ),
        (("n" * 100, "relu"), f"{'n' * 12}[76 characters]{'n' * 12} and 1 more"),
    ],
)
def test_nodes_are_named_as_far_as_there_is_room(nodes: tuple[str, ...], text: str) -> None:
    assert tune._nodes_text(nodes, 40) == text


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--time", "soon"], "time is 'soon'"),
        (["--trials", "0"], "trials is 0"),
        (["--threads", "0"], "--threads is 0"),
        (["--plot", "p.gif"], "p.gif"),
        (["--target", "aarch64"], "aarch64"),
    ],
)
def test_what_cannot_be_is_refused_in_one_line(
    model: str, tmp_path: Path, arguments: list[str], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert tune.main([model, "--records", str(tmp_path / "r.sqlite"), "--trials", "1", *arguments]) == 2
    out, err = capsys.readouterr()
    assert words in err and err.count("\n") == 1 and not out


def test_a_folder_that_cannot_be_made_is_one_line(
    model: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("TILEWRIGHT_RECORDS")
    monkeypatch.setenv("XDG_DATA_HOME", "/proc/none")
    assert tune.main([model, "--trials", "1"]) == 2
    out, err = capsys.readouterr()
    assert "/proc/none/tilewright/records.sqlite" in err and "give another file" in err and err.count("\n") == 1
    assert not out


def test_an_interrupt_while_commands_are_imported_shows_no_traceback() -> None:
    lines = (
        "import sys",
        "from tilewright.tools import cli",
        "class Finder:",
        "    def find_spec(self, name, *_):",
        "        if name.endswith('_command'): raise KeyboardInterrupt",
        "sys.meta_path.insert(0, Finder())",
        "sys.exit(cli.main(['tune']))",
    )
    code = "\n".join(lines)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "")


def test_open_sizes_are_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    node = helper.make_node("Relu", ["x"], ["y"], "relu")
    x, y = (helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, ["n", 4]) for name in "xy")
    made = helper.make_model(helper.make_graph([node], "open", [x], [y]), opset_imports=[helper.make_opsetid("", 18)])
    onnx.save(made, str(tmp_path / "open.onnx"))
    arguments = [str(tmp_path / "open.onnx"), "--trials", "1", "--records", str(tmp_path / "r.sqlite")]
    assert tune.main(arguments) == 2
    err = capsys.readouterr().err
    assert "give --input-shape x:" in err and "--specialize of them" in err and err.count("\n") == 1
    assert tune.main([*arguments, "--input-shape", "x:8,4", "--quiet"]) == 0
