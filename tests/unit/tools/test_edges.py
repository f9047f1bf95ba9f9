"""What a user's shell does to commands: wrong values, odd paths, missing files and packages, closed pipes, signals."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import onnx
import pytest
from dense_model import dense
from handmade import affine_module
from samples import leaving

import tilewright as tw
from tilewright.tools import bench, cli
from tilewright.tools import compile as compile_tool
from tilewright.tools.run import main as run

pytestmark = pytest.mark.shares_kernels
TILEWRIGHT = (sys.executable, "-m", "tilewright.tools.cli")
COMPILE_HERE = ["compile", "open.onnx", "--workers", "0", "--no-cache"]
NO_MLIR = "import sys\nfor name in ('mlir', 'llvm'): sys.modules[name] = None\n"  # which Python runs as it starts


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A program of one size, ``fixed.so``, and one for any size with its model, ``open.so`` and ``open.onnx``."""
    folder = tmp_path_factory.mktemp("edges")
    affine_module(2).export_library(folder / "fixed.so")
    onnx.save(dense(), folder / "open.onnx")
    tw.compile(str(folder / "open.onnx"), workers=0).export_library(folder / "open.so")
    return folder


@pytest.fixture(autouse=True)
def there(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)


def refused(words: Sequence[str], capsys: pytest.CaptureFixture[str]) -> str:
    """The one line with which a command refuses; nothing new may be there then."""
    before = sorted(Path().rglob("*"))
    try:
        code = cli.main(words)
    except SystemExit as end:
        code = end.code
    out, err = capsys.readouterr()
    assert (code, out, err.count("\n")) == (2, "", 1), (code, out, err)
    assert sorted(Path().rglob("*")) == before
    return err


@pytest.mark.parametrize("sizes", [["x:3,16"], ["n=3"], ["x:?,16", "scale:3,1"]])
def test_sizes_of_made_up_inputs_are_given_for_a_compiled_program(sizes, capsys):
    words = [word for size in sizes for word in ("--input-shape", size)]
    assert run(["open.so", *words]) == 0
    assert capsys.readouterr().out == "y float32[3,8]\n"
    assert cli.main(["profile", "open.so", "--rounds", "1", *words]) == 0


@pytest.mark.parametrize(
    "words, message",
    [
        (["run", "open.so"], "give its size with --input-shape"),
        (["profile", "open.so", "--input-shape", "x:?,16"], "give --input-shape x:1,16, or the arrays with --inputs"),
        (["run", "fixed.so", "--input-shape", "x:9,9"], "fixed.so: input 'x' is 64,128, which does not allow 9"),
        (["run", "fixed.so", "--input-shape", "q:9,9"], "fixed.so: has no input 'q'; its inputs are x"),
        (["run", "fixed.so", "--input-shape", "n=9"], "there is no size 'n'; those of the inputs are none"),
        (["run", "open.so", "--input-shape", "x:2,16", "--input-shape", "n=3"], "'n' is 2 and 3: give it one size"),
        (["run", "open.so", "--input-shape", "x:1..8,16"], "'1..8' for 'x' is not a size: it is compiled already"),
        (["run", "open.onnx", "--input-shape", "seq=1"], "there is no size 'seq'; those of the inputs are n"),
        (["run", "open.onnx", "--input-shape", "n=1", "--input-shape", "n=1"], "'n' is given twice"),
        (["run", "open.onnx", "--input-shape", "n="], "'n=' is not NAME=SIZE: '' is not a dimension"),
        (["run", "open.onnx", "--input-shape", "=1"], "'=1' is not NAME=SIZE: it has no name"),
        (["check", "open.onnx", "--input-shape", "x:4,16", "--input-shape", "n=2"], "'n' is given as 2, and as 4 of 'x'"),
    ],
)  # fmt: skip
def test_sizes_that_do_not_fit_are_refused(words, message, capsys):
    assert message in refused(words, capsys)


def test_arrays_have_the_size_that_is_given(capsys, tmp_path):
    np.savez(tmp_path / "x.npz", x=np.ones((2, 16), np.float32), scale=np.ones((2, 1), np.float32))
    given = ["run", "open.so", "--inputs", str(tmp_path / "x.npz"), "--input-shape"]
    assert cli.main([*given, "n=2"]) == 0
    capsys.readouterr()
    assert "has 'x' of shape (2, 16), expected (3, 16)" in refused([*given, "n=3"], capsys)


@pytest.mark.parametrize("option", [{"n": 3}, {"n": "3"}, {"x": ["n", 16], "n": 3}, {"x": [3, 16]}])
def test_a_size_by_name_is_that_of_all_inputs_that_have_it(option):
    module = tw.compile("open.onnx", input_shapes=option, workers=0, cache=False)
    assert [info.shape for info in module.inputs] == [(3, 16), (3, 1)]


def test_a_name_may_have_a_range():
    module = tw.compile("open.onnx", input_shapes={"n": "2..5"}, workers=0, cache=False)
    with pytest.raises(tw.InputError, match=r"2\.\.5"):
        module.run({"x": np.ones((6, 16), np.float32), "scale": np.ones((6, 1), np.float32)})
    with pytest.raises(tw.ModelError, match=r"input_shapes has 1\.5 for 'n': give an input's shape as a list"):
        tw.compile("open.onnx", input_shapes={"n": 1.5})  # type: ignore[dict-item]


@pytest.mark.parametrize(
    "words, message",
    [
        (["compile", ""], "argument model: the name of a file is empty"),
        (["compile", "."], "'.' is a folder"),
        (["compile", "open.onnx", "-o", ""], "argument -o/--output: the name of a file is empty"),
        (["compile", "open.onnx", "-o", "none/x.so"], "there is no folder none"),
        (["compile", "open.onnx", "--emit", "asm", "-o", "open.onnx"], "cannot write open.onnx: 'open.onnx' is read"),
        (["compile", "fixed.so"], "'fixed.so' is compiled already: give its ONNX model"),
        (["compile", "open.onnx", "--threads", "99999999999999999999"], "it must be at most 1024"),
        (["compile", "open.onnx", "--print-ir-after", "fuze-ops"], "there is no pass 'fuze-ops', only 'fuse-ops'"),
        (["compile", "open.onnx", "--emit", "linalg", "--print-ir-after", "x"], "there is no pass 'x';"),
        (["compile", "open.onnx", "--dump-dir", "open.onnx"], "cannot write into open.onnx: File exists"),
        (["compile", "open.onnx", "--schedules", "deep.json"], "they are nested too deeply"),
        (["check", "fixed.so"], "'fixed.so' is compiled already: give its ONNX model"),
        (["explain", "fixed.so"], "'fixed.so' is compiled already: give its ONNX model"),
        (["explain", "open.onnx", "--seed", "-1", "--input-shape", "n=1"], "--seed is -1"),
        (["header", ""], "argument program: the name of a file is empty"),
        (["header"], "no program given"),
        (["header", "fixed.so", "--link-flags"], "leave the program out"),
        (["header", "fixed.so", "-o", "fixed.so"], "cannot write fixed.so: 'fixed.so' is read"),
        (["header", "fixed.so", "-o", "a.h", "--example", "a.h"], "cannot write a.h: -o writes it"),
        (["inspect", "libm.a"], "libm.a is a static library"),
        (["run", "fixed.so", "--threads", "99999999999999999999"], "num_threads must be at most 1024"),
        (["run", "fixed.so", "--untrusted"], "is compiled already, and code"),
        (["run", "fixed.so", "--outputs", "y.npz", "--expect", "y.npz"], "'y.npz' is read; give --outputs another name"),
        (["run", "fixed.so", "--seed", "-1"], "--seed is -1"),
        (["run", "fixed.so", "--print-top", "-1"], "--print-top is -1"),
        (["run", "fixed.so", "--rtol", "nan"], "'nan' is not a number that is 0 or more"),
        (["profile", "fixed.so", "--csv", "a", "--trace", "a"], "cannot write a: --csv writes it"),
        (["profile", "fixed.so", "--seed", "-1"], "--seed is -1"),
        (["bench", "fixed.so", "--seed", "-1"], "--seed is -1"),
        (["bench", "fixed.so", "-o", "fixed.so"], "'fixed.so' is read"),
        (["bench", "--kernels", "softmax", "--threads", "2"], "--kernels measures its standard kernels on one thread"),
        (["debug", "open.onnx", "--timeout", "nan"], "'nan' is not a number that is more than 0"),
        (["debug", "open.onnx", "--save", "open.onnx"], "cannot write into open.onnx: it is not a folder"),
        (["debug", "open.onnx", "--input-shape", "n=2", "--atol", "1"], "--atol needs --rtol"),
        (["reduce", "open.onnx", "-o", "open.onnx"], "'open.onnx' is read"),
        (["cache", "ls", "5MB"], "ls takes neither a size nor --all"),
        (["opt", "deep.json", "--passes", "fuse-ops{"], "the options in 'fuse-ops{' have no end"),
        (["opt", "deep.json", "--print-ir-after", "x"], "there is no pass 'x'"),
        (["zoo", "resnet18"], "resnet18.onnx: the file there is not from the zoo"),
    ],
)  # fmt: skip
def test_wrong_values_are_refused_in_one_line(words, message, capsys):
    Path("deep.json").write_text("[" * 100_000)
    Path("resnet18.onnx").write_text("a user's own")
    assert message in refused(words, capsys)


def test_a_misspelt_pass_is_an_error_of_a_context():
    for context in (tw.PassContext(disabled_pass=["fuse_ops"]), tw.PassContext(required_pass=["fuse_ops"])):
        with context, pytest.raises(tw.CompileError, match="there is no pass 'fuse_ops', only 'fuse-ops'"):
            tw.compile("open.onnx", workers=0)


def test_a_folder_in_place_of_a_library_says_why(monkeypatch, capsys, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("CC", raising=False)
    assert compile_tool.main(["open.onnx", "--workers", "0", "-o", str(tmp_path / "net.so")]) == 0
    out, err = capsys.readouterr()
    assert "note: net.tw is a folder of objects, in place of net.so: there is no C compiler to link with" in err
    assert "net.tw (" in out.splitlines()[-1]
    monkeypatch.setenv("CC", '"cc')
    assert compile_tool.main(["open.onnx", "--workers", "0", "-o", str(tmp_path / "net.so")]) == 2
    assert "which is not a command: No closing quotation" in capsys.readouterr().err


@pytest.mark.parametrize("name", [b"\xff.onnx", b"new\nline.onnx", b"\x1b[31m.onnx"])
def test_paths_may_be_any_bytes(name, tmp_path, capsys):
    path = os.fsdecode(os.fsencode(tmp_path) + b"/" + name)
    onnx.save(dense(), path)
    assert compile_tool.main([path, "--input-shape", "n=2", "--workers", "0"]) == 0
    program = f"{path.removesuffix('.onnx')}.so"
    for words in (["run", program], ["inspect", program], ["header", program], ["run", program, "--json"]):
        assert cli.main(words) == 0
    assert all(line.isprintable() for line in capsys.readouterr().out.splitlines())


@pytest.mark.parametrize(
    "words", leaving([["--help"], ["zoo", "--list"], ["compile", "--help"], ["opt", "--list"]], [["opt", "--list"]])
)
def test_a_reader_that_leaves_is_no_failure(words):
    read, write = os.pipe()
    os.close(read)
    done = subprocess.run([*TILEWRIGHT, *words], stdout=write, stderr=subprocess.PIPE, text=True, timeout=300)
    os.close(write)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize(
    "words", leaving([["--help"], ["zoo", "--list"], ["run", "fixed.so"], ["opt", "--list"]], [["opt", "--list"]])
)
def test_what_cannot_be_printed_is_an_error(words):
    with open("/dev/full", "w") as full:
        done = subprocess.run([*TILEWRIGHT, *words], stdout=full, stderr=subprocess.PIPE, text=True, timeout=300)
    assert (done.returncode, done.stderr) == (2, "error: '<stdout>': No space left on device\n")


@pytest.mark.parametrize(
    "words, code",
    leaving([("zoo --list", 0), ("run fixed.so", 0), ("zoo nothing", 2), ("opt -", 0)], [("run fixed.so", 0)]),
)
def test_streams_may_be_closed(words, code):
    line = f"{sys.executable} -m tilewright.tools.cli {words} <&- >&- 2>&-"
    assert subprocess.run(["sh", "-c", line], timeout=300).returncode == code


@pytest.mark.parametrize(
    "words",
    leaving(
        [["compile", "open.onnx"], ["check", "open.onnx"], ["opt", "--list"], COMPILE_HERE],
        [["check", "open.onnx"], COMPILE_HERE],
    ),
)
def test_compiling_without_mlir_says_what_is_missing(words, tmp_path):
    (tmp_path / "sitecustomize.py").write_text(NO_MLIR)
    env = {**os.environ, "PYTHONPATH": str(tmp_path), "TILEWRIGHT_CACHE_DIR": str(tmp_path / "cache")}
    done = subprocess.run([*TILEWRIGHT, *words], capture_output=True, text=True, env=env, timeout=300)
    assert done.returncode == 2 and done.stderr.count("\n") == 1
    assert done.stderr.startswith("error: compiling needs MLIR, which is not installed: pip install ")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_signal_leaves_nothing_behind(number, tmp_path):
    temporary, out = tmp_path / "tmp", tmp_path / "out"
    for folder in (temporary, out):
        folder.mkdir()
    env = {**os.environ, "TMPDIR": str(temporary)}
    words = ["compile", "open.onnx", "--no-cache", "-o", str(out / "net.so")]
    with subprocess.Popen([*TILEWRIGHT, *words], env=env, stderr=subprocess.PIPE) as process:
        end = time.monotonic() + 120
        while not list(temporary.glob("tilewright-*")) and time.monotonic() < end:
            time.sleep(0.01)
        assert list(temporary.glob("tilewright-*"))  # it is at work
        process.send_signal(number)
        _, err = process.communicate(timeout=60)
    assert (process.returncode, err) == (128 + number, b"")
    assert [list(temporary.iterdir()), list(out.iterdir())] == [[], []]


def test_bench_measures_a_program_for_the_size_that_is_given(monkeypatch, capsys):
    monkeypatch.setattr(bench.model_bench, "SLICE_SECONDS", 0.0)
    assert bench.main(["open.so", "--input-shape", "n=3", "--rounds", "1"]) == 0
    assert "open.so: 1 rounds" in capsys.readouterr().out
