"""``tilewright profile``: the table, the files, what is refused."""

import csv
import json

import numpy as np
import onnx
import pytest

import tilewright as tw
from tilewright.runtime.profile.profiler import Report
from tilewright.tools import compile as compile_model
from tilewright.tools import profile_model


@pytest.fixture
def path(tmp_path):
    """``softmax(exp(x))``"""
    text = """<ir_version: 10, opset_import: ["": 18]> net (float[n, 24] x) => (float[n, 24] y)
    { e = Exp(x) y = Softmax(e) }"""
    made = onnx.parser.parse_model(text)
    for node in made.graph.node:
        node.name = node.op_type.lower()
    onnx.save(made, tmp_path / "net.onnx")
    return str(tmp_path / "net.onnx")


CLOSED = ("--input-shape", "x:16,24", "--threads", "1", "--rounds", "3")


def test_json_is_the_report(path, capsys):
    assert profile_model.main([path, "--json", *CLOSED]) == 0
    report = Report.from_json(capsys.readouterr().out)
    assert (report.model, report.runs, report.executor) == ("net", 3, "ahead of time")
    assert {node for row in report.rows for node in row.nodes} == {"exp", "softmax"}
    assert {row.count for row in report.rows} == {3} and report.device["threads"] == 1
    assert report.rates is not None and set(report.rates) == {"flops", "bytes"}


def test_the_table_and_the_files(path, tmp_path, capsys):
    files = tmp_path / "net.csv", tmp_path / "net.trace.json"
    assert profile_model.main([path, *CLOSED, "--by", "node", "--csv", str(files[0]), "--trace", str(files[1])]) == 0
    out = capsys.readouterr().out
    assert out.startswith("net: 3 runs, ") and "% peak" in out and "softmax" in out
    with open(files[0]) as file:
        assert {row["count"] for row in csv.DictReader(file)} == {"3"}
    assert {event["ph"] for event in json.loads(files[1].read_text())["traceEvents"]} == {"M", "X"}


def test_compile_writes_a_program_with_a_profile(path, tmp_path):
    program = tmp_path / "net.so"
    words = [path, "--profile", "--quiet", "-o", str(program), "--input-shape", "x:2,24", "--workers", "0"]
    assert compile_model.main(words) == 0
    module = tw.load_module(program)
    module(np.ones((2, 24), np.float32))
    assert module.manifest.profile and module.profiler.report().runs == 1


def test_a_compiled_program_and_given_inputs(path, tmp_path, capsys):
    program = tw.compile(path, workers=0, cache=False).export_library(tmp_path / "net.so")
    np.savez(tmp_path / "x.npz", x=np.ones((5, 24), np.float32))
    words = [str(program), "--inputs", str(tmp_path / "x.npz"), "--json", "--rounds", "2", "--threads", "2"]
    assert profile_model.main(words) == 0
    report = Report.from_json(capsys.readouterr().out)
    assert report.executor == "kernel by kernel" and report.runs == 2


@pytest.mark.parametrize(
    "argv, words",
    [
        (["--rounds", "0"], "--rounds is 0"),
        (["--threads", "0"], "--threads is 0"),
        (["--top", "-1"], "--top is -1"),
        (["--csv", "no/such/x.csv"], "there is no folder no/such"),
        ([], "give --input-shape x:1,24, or the arrays with --inputs"),
    ],
)
def test_refuses(path, argv, words, capsys):
    assert profile_model.main([path, *argv]) == 2
    err = capsys.readouterr().err
    assert words in err and err.count("\n") == 1
