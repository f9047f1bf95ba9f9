"""``tilewright inspect``: what it says of programs of all kinds, whole and spoilt."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import onnx
import pytest
from cache_case import model
from handmade import affine_module, copy_module

from tilewright.core.program import METADATA_SECTION
from tilewright.runtime.artifact import elf, shared
from tilewright.runtime.artifact.manifest import ABI
from tilewright.tools import cli
from tilewright.tools import compile as compile_tool
from tilewright.tools.inspect_artifact import DAMAGED, main


def record(capsys: pytest.CaptureFixture[str], *words: object, code: int = 0) -> dict[str, Any]:
    assert main([*map(str, words), "--json"]) == code
    return json.loads(capsys.readouterr().out)


def lines(capsys: pytest.CaptureFixture[str], *words: object) -> list[str]:
    assert main([*map(str, words)]) == 0
    return capsys.readouterr().out.splitlines()


@pytest.fixture
def exported(tmp_path: Path) -> Path:
    return affine_module(2).export_library(tmp_path / "affine.so")


def compiled(tmp_path: Path, *words: str) -> str:
    onnx.save(model(), tmp_path / "net.onnx")
    assert compile_tool.main([str(tmp_path / "net.onnx"), "--workers", "0", "--quiet", *words]) == 0
    return str(tmp_path / "net.so")


def test_it_says_all_of_a_program_with_several(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    target = "x86 -mcpu=x86-64-v2,x86-64-v3"
    asked = ["--input-shape", "x:1..8,32", "--specialize", "x:4,32", "--threads", "1"]
    found = record(capsys, compiled(tmp_path, "--target", target, *asked))
    assert (found["kind"], found["sealed"], found["name"], found["abi"]) == ("shared library", True, "net", ABI)
    assert found["source"] == hashlib.sha256((tmp_path / "net.onnx").read_bytes()).hexdigest()
    assert found["options"] == {"num_threads": 1, "opt_level": 3} and found["compiler"]
    assert found["inputs"] == [{"name": "x", "shape": ["n", 32], "dtype": "float32"}]
    assert found["ranges"] == {"n": [1, 8]} and found["specializations"] == ["x:4,32"]
    assert [each["target"] for each in found["variants"]] == ["x86 -mcpu=x86-64-v2", "x86 -mcpu=x86-64-v3"]
    first, _ = found["variants"]
    assert first["cpu_features"] == ["sse3", "ssse3", "sse4.1", "sse4.2", "popcnt"] and first["lacking"] == []
    open_, own = first["programs"]
    assert (open_["dynamic"], own["dynamic"], own["calls"], own["kernels"]) == (True, False, 1, 1)
    assert own["flops"] >= 2 * 4 * 32 * 48
    assert len(found["flush_denormals"]) == 4
    text = "\n".join(lines(capsys, tmp_path / "net.so"))
    assert "inputs: x float32[n=1..8,32]" in text and "denormals: taken for zero while 4 of 4 kernels run" in text
    assert "\n  x:4,32: 1 call of 1 kernel, arena 0 B, weights " in text


def test_the_last_that_runs_here_is_chosen(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    path = compiled(tmp_path, "--target", "x86 -mcpu=x86-64-v2,x86-64-v3", "--input-shape", "x:4,32")
    monkeypatch.setattr("tilewright.core.target.host_features", lambda: ("sse3", "ssse3", "sse4.1", "sse4.2", "popcnt"))
    found = record(capsys, path)["variants"]
    assert [(each["chosen"], "avx2" in each["lacking"]) for each in found] == [(True, False), (False, True)]
    monkeypatch.setattr("tilewright.core.target.host_features", lambda: ())
    assert not any(each["chosen"] for each in record(capsys, path)["variants"])
    assert "this CPU lacks popcnt, sse3" in "\n".join(lines(capsys, path))


def replaced(file: Path, data: bytes) -> None:
    """Put another file there: a module that is still used may have mapped the old one."""
    file.unlink()
    file.write_bytes(data)


@pytest.mark.parametrize("name", ["affine.so", "affine.tw"])
def test_weights_beside_it(tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str) -> None:
    path = affine_module(2).export_library(tmp_path / name)
    weights = record(capsys, path, "--verify")["weights"]
    file = Path(weights["file"])
    assert (weights["place"], weights["tensors"], weights["bytes"]) == ("beside", 2, 2 * 64 * 128 * 4)
    assert (weights["there"], weights["problem"], weights["verified"]) == (True, None, True)
    replaced(file, file.read_bytes()[:-1] + b"!")
    assert record(capsys, path)["weights"]["problem"] is None
    problem = record(capsys, path, "--verify", code=DAMAGED)["weights"]["problem"]
    assert "is damaged: it is not as it was written" in problem
    replaced(file, file.read_bytes()[:-1])
    assert "is truncated" in record(capsys, path)["weights"]["problem"]
    file.unlink()
    weights = record(capsys, path)["weights"]
    assert not weights["there"] and "is missing" in weights["problem"]
    assert record(capsys, path, "--verify", code=DAMAGED)["weights"] == {**weights, "verified": True}
    assert any(line.startswith("weights: 2 tensors") and "is missing" in line for line in lines(capsys, path))


def test_weights_inside_and_none(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = compiled(tmp_path, "--weights", "inside", "--input-shape", "x:4,32")
    weights = record(capsys, path, "--verify")["weights"]
    assert (weights["place"], weights["file"], weights["there"], weights["problem"]) == ("inside", None, True, None)
    plain = copy_module("float32", (4,)).export_library(tmp_path / "copy.so")
    assert record(capsys, plain)["weights"]["place"] == "none"
    assert {"weights: none", "denormals: kept by all kernels"} < set(lines(capsys, plain))


def test_objects(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    compiled(tmp_path, "--emit", "obj", "--input-shape", "x:4,32")
    found = record(capsys, tmp_path / "net.o")
    assert (found["kind"], found["sealed"], found["weights"]["problem"]) == ("relocatable object", None, None)


def test_other_versions_are_shown_as_far_as_possible(exported: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data = exported.read_bytes()
    text = elf.read_section(data, METADATA_SECTION)
    assert text is not None
    other = json.dumps({"format": 99, "abi": 3, "name": "net", "compiler": "9.9", "new": []}).encode()
    exported.write_bytes(data.replace(text, other.ljust(len(text)))[: -shared._SEAL_BYTES])
    shared.seal(exported)
    found = record(capsys, exported)
    assert (found["format"], found["abi"], found["name"], found["compiler"]) == (99, 3, "net", "9.9")
    assert "made by Tilewright 9.9, whose programs differ" in found["note"]
    assert {"format: 99", "compiler: 9.9", "target: None"} < set(lines(capsys, exported))


def test_what_is_no_program_is_refused_in_one_line(
    exported: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data = exported.read_bytes()
    text = elf.read_section(data, METADATA_SECTION)
    assert text is not None
    spoilt = data[: -shared._SEAL_BYTES].replace(text, b"[".ljust(len(text)))
    for name, content, message in (
        ("none.so", None, "there is no program"),
        ("text.so", b"hello", "is not a program made by Tilewright"),
        ("half.so", data[: len(data) // 2], "it ends before its section headers do"),
        ("flipped.so", data[:999] + bytes([data[999] ^ 1]) + data[1000:], "is damaged: its checksum"),
        ("spoilt.so", spoilt, "its description is damaged"),
    ):
        if content is not None:
            (tmp_path / name).write_bytes(content)
        assert main([str(tmp_path / name)]) == 2
        error = capsys.readouterr().err
        assert error.count("\n") == 1 and message in error


def test_it_is_a_command(exported: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert "inspect" in cli.format_usage()
    assert cli.main(["inspect", str(exported)]) == 0
    assert capsys.readouterr().out.startswith(f"{exported}: shared library, ")


# A state that grows, and one that is given anew by each run.
STATES = """
<ir_version: 10, opset_import: ["" : 18]>
net (float[s, 4] x, float[past, 4] seen, float[1, 4] mean_in) => (float[all, 4] now, float[1, 4] mean_out) {
  now = Concat <axis = 0> (seen, x)
  rows = Constant <value = int64[1] {0}> ()
  new = ReduceMean (x, rows)
  mean_out = Add (mean_in, new)
}
"""


def test_programs_say_which_states_they_have(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    onnx.save(onnx.parser.parse_model(STATES), tmp_path / "net.onnx")
    for words, states in (
        ([], [("seen", "now", 0), ("mean_in", "mean_out", None)]),
        (["--state", "mean_out=mean_in"], [("mean_in", "mean_out", None)]),
        (["--state", "none"], []),
    ):
        assert compile_tool.main([str(tmp_path / "net.onnx"), "--workers", "0", *words]) == 0
        said = capsys.readouterr().out.splitlines()
        found = record(capsys, tmp_path / "net.so")
        assert [(each["input"], each["output"], each["axis"]) for each in found["states"]] == states
        text = lines(capsys, tmp_path / "net.so")
        for line in (["sessions append to seen"] if len(states) == 2 else []) + ["sessions keep mean_in"] * bool(
            states
        ):
            assert line in said and line in text
        assert any(line.startswith("  sessions: ") for line in text) == (len(states) == 2)
    assert compile_tool.main([str(tmp_path / "net.onnx"), "--state", "mean_out=mean"]) == 2
    assert "the program has no input 'mean'; did you mean 'mean_in'?" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        compile_tool.main([str(tmp_path / "net.onnx"), "--state", "mean_out"])
    assert "'mean_out' is not OUTPUT=INPUT, names of the model's, or none" in capsys.readouterr().err
