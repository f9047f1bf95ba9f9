"""Trials as lines of TVM's tuners, and what is read of TVM's own; what a schedule changes, in words."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from dataclasses import replace

import pytest
from record_case import TRIAL

from tilewright.core.errors import RecordError
from tilewright.records import ERRORS, Trial
from tilewright.records.changes import describe_changes
from tilewright.records.tvm_lines import (
    is_foreign,
    read_auto_scheduler,
    read_autotvm,
    write_auto_scheduler,
    write_autotvm,
)

VALUES = json.dumps({
    "result": {"axes": [["m", 64], ["n", 96]], "sums": [["k", 32]], "packed": [[1, "n", 32]]},
    "%arg0": {"axes": [["%arg0.d0", 64], ["%arg0.d1", 32]], "read": True},
})  # fmt: skip
DEFAULT = [["split", "m", 8], ["split", "n", 32], ["reorder", "m.0", "n.0", "k", "m.1", "n.1"], ["unroll", "m.1"],
           ["vectorize", "n.1"], ["parallel", "m.0"]]  # fmt: skip
OTHER = [["tile", "m", 4, "n", 32], ["cache_read", "%arg0", "m.0"], ["compute_at", "%arg0", "n.0"],
         ["unroll", "k", 4, True], ["unroll", "m.1"], ["vectorize", "n.1"], ["tensorize", "m.1", "outer_product"],
         ["pack", 1, "n", 32], ["fuse", "m.0", "n.0"], ["parallel", "m.0*n.0"]]  # fmt: skip
MADE = replace(TRIAL, target="x86-512-48k-2048k-1a2b3c4d", values=VALUES, steps=json.dumps(OTHER), load=0.5,
               default_steps=json.dumps(DEFAULT), process="host:1:2.5", version="0.1.0", took=0.25)  # fmt: skip

# As TVM 0.19 writes them.
AUTOTVM = (
    '{"input": ["llvm -keys=cpu -mtriple=x86_64-unknown-linux-gnu -num-cores=4", "tutorial/matmul", [128, 128, 128,'
    ' "float32"], {}], "config": {"index": 11, "code_hash": null, "entity": [["tile_y", "sp", [-1, 8]], ["tile_x", "sp",'
    ' [-1, 2]]]}, "result": [[0.0004146], 0, 0.3476836681365967, 1795420082.157395], "version": 0.2, "tvm_version":'
    ' "0.19.0"}'
)
AUTO_SCHEDULER = (
    '{"i": [["[\\"matmul_add\\", 128, 128, 128, \\"float32\\"]", "llvm -keys=cpu", [1, 64, 64, 0, 0, 0, 0, 0], "", 1,'
    ' []], [[], [["SP", 2, 0, 128, [4, 2, 2], 1], ["RE", 2, [0, 4, 1]], ["AN", 4, 0, 3]]]], "r": [[0.00025], 0, 2.5,'
    ' 1795420082], "v": "v0.6"}'
)
FORMATS = {"autotvm": (write_autotvm, read_autotvm), "auto_scheduler": (write_auto_scheduler, read_auto_scheduler)}


@pytest.mark.parametrize("form", FORMATS)
def test_a_trial_is_read_back_whole(form: str) -> None:
    write, read = FORMATS[form]
    failed = [replace(MADE, seconds=(), default_seconds=(), error=error, reason="a\nb") for error in ERRORS[1:]]
    for trial in (
        MADE,
        TRIAL,
        *failed,
        replace(TRIAL, values="3", steps='[["split"], 3, ["odd", []], ["unroll", [1]]]'),
    ):
        line = write(trial)
        assert read(line) == trial and len(line.splitlines()) == 1


def test_an_autotvm_line_has_tvms_form() -> None:
    made, theirs = json.loads(write_autotvm(MADE)), json.loads(AUTOTVM)
    assert made.keys() == theirs.keys() and made["config"].keys() == theirs["config"].keys()
    target, task, arguments, named = made["input"]
    assert target == "llvm -keys=cpu -mtriple=x86_64-unknown-linux-gnu -num-cores=2"
    assert (task, arguments, named) == (MADE.kernel, [64, 96, 32], {})
    knobs = made["config"]["entity"]
    assert knobs[:2] == [["split m", "sp", [-1, 4]], ["split n", "sp", [-1, 32]]]
    assert ["unroll m.1", "an", ["unroll"]] in knobs and ["vectorize n.1", "an", ["vec"]] in knobs
    assert len({name for name, _, _ in knobs}) == len(knobs) and {kind for _, kind, _ in knobs} <= {"sp", "an", "ot"}
    reordered = json.loads(write_autotvm(replace(MADE, steps=json.dumps(DEFAULT))))["config"]["entity"]
    assert ["reorder", "re", [0, 2, 4, 1, 3]] in reordered
    assert made["result"] == [[1.0, 3.0], 0, 0.25, 5.0]
    failed = json.loads(write_autotvm(replace(MADE, seconds=(), default_seconds=(), error="wrong")))
    assert failed["result"][:2] == [[1e9], 5]


def test_an_auto_scheduler_line_has_tvms_form() -> None:
    made = json.loads(write_auto_scheduler(MADE))
    [task, [_, steps]] = made["i"]
    workload, target, hardware, host, layout, inputs = task
    assert json.loads(workload) == [MADE.kernel, 64, 96, 32] and target.startswith("llvm -keys=cpu -mtriple=x86_64")
    assert (hardware, host, layout, inputs) == ([2, 64, 64, 0, 0, 0, 0, 0], "", 1, [])
    assert steps[:-1] == [
        ["SP", 1, 0, 64, [4], 1],
        ["SP", 1, 2, 96, [32], 1],
        ["RE", 1, [0, 2, 4, 1, 3]],
        ["CHR", 0, "local", [1]],
        ["CA", 0, 1, 1],
        ["PR", 1, 2, "auto_unroll_max_step$4"],
        ["AN", 1, 3, 1],
        ["AN", 1, 4, 2],
        ["FU", 1, [0, 1]],
        ["AN", 1, 0, 3],
    ]
    assert made["r"] == [[1.0, 3.0], 0, 0.25, 5.0] and made["v"] == "v0.6"


def test_tvms_own_lines_are_read_as_far_as_they_mean_something() -> None:
    trial = read_autotvm(AUTOTVM)
    assert trial.kernel == "tutorial/matmul(128, 128, 128, 'float32')" and trial.threads == 4
    assert (trial.seconds, trial.took, trial.error, trial.version) == (
        (0.0004146,),
        0.3476836681365967,
        "",
        "TVM 0.19.0",
    )
    assert is_foreign(trial) and math.isinf(trial.ratio) and not is_foreign(MADE)
    other = read_auto_scheduler(AUTO_SCHEDULER)
    assert other.kernel == '["matmul_add", 128, 128, 128, "float32"]' and other.seconds == (0.00025,)
    assert json.loads(other.steps)[0] == ["SP", 2, 0, 128, [4, 2, 2], 1]
    for number, error in ((1, "refused"), (3, "compile"), (4, "crash"), (5, "wrong"), (7, "timeout"), (99, "crash")):
        failed = read_autotvm(AUTOTVM.replace("[[0.0004146], 0,", f"[[1000000000.0], {number},"))
        assert (failed.error, failed.seconds) == (error, ())


@pytest.mark.parametrize(
    "read, line, said",
    [
        (read_autotvm, "[]", "no object with 'input'"),
        (read_autotvm, AUTOTVM.replace("0.0004146", '"fast"'), "no number"),
        (read_autotvm, AUTOTVM.replace("0.0004146", "NaN"), "no number"),
        (read_autotvm, AUTOTVM.replace('"tutorial/matmul"', "3"), "names no task"),
        (
            read_autotvm,
            AUTOTVM.replace("[[0.0004146], 0, 0.3476836681365967, 1795420082.157395]", "3"),
            "not a list of 4",
        ),
        (read_autotvm, AUTOTVM.replace("[-1, 8]", "[" * 5000 + "]" * 5000), "no JSON|too deeply"),
        (read_autotvm, AUTOTVM.replace('["tile_y", "sp", [-1, 8]]', '["tilewright", "ot", [1]]'), "is no object"),
        (read_auto_scheduler, AUTO_SCHEDULER.replace('"llvm -keys=cpu"', "{}"), "'target' is no text"),
        (read_auto_scheduler, write_auto_scheduler(MADE).replace("tilewright$", "tilewright$("), "no JSON"),
    ],
)
def test_lines_of_anything_else_are_refused(read: Callable[[str], Trial], line: str, said: str) -> None:
    with pytest.raises(RecordError, match=said):
        read(line)


def test_what_a_schedule_changes_is_said_in_words() -> None:
    assert describe_changes(json.dumps(DEFAULT), json.dumps(DEFAULT)) == []
    assert describe_changes(json.dumps(DEFAULT), json.dumps(OTHER)) == [
        "m in steps of 8 -> 4",
        "%arg0 staged in n.0",
        "k unrolled 4 at once apart",
        "m.1 as outer_product",
        "argument 1 packed along n by 32",
        "m.0*n.0 joined",
        "threads share m.0 -> m.0*n.0",
        "without order m.0, n.0, k, m.1, n.1",
    ]


def test_copies_in_parts_and_in_phases_are_said_in_words() -> None:
    old = [["cache_read", "%arg0", "m.0", 2], ["cache_split", "%arg1", "", 16], ["cache_split", "%arg2", "n.0"]]
    new = [["cache_read", "%arg0", "m.0"], ["cache_split", "%arg1", "m.0", 14], ["cache_split", "%arg2", "n.0"]]
    assert describe_changes(json.dumps(old), json.dumps(new)) == [
        "%arg0 staged in m.0 in 2 phases -> in m.0",
        "%arg1 in parts ahead, matrices of 16 rows -> in m.0, matrices of 14 rows",
    ]


@pytest.mark.parametrize(
    "steps", ["3", "[3]", '["split"]', '[["split", "m"]]', '[["unroll", "m", [1]]]', "[[[]]]", "{", '[{"a": 1}]']
)
def test_what_are_no_steps_is_said_too(steps: str) -> None:
    assert all(isinstance(change, str) for change in describe_changes("[]", steps))
