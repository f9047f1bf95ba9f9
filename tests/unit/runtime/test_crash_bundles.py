"""Failures of the compiler in a worker: the error names step and job, and a bundle lets the step be taken again."""

import json
import os
import re
import stat
from pathlib import Path
from typing import Any

import pytest
from worker_jobs import fail_in_a_pass

import tilewright as tw
from tilewright.driver import jobs
from tilewright.tools import opt
from tilewright.workers import Pool, crash_bundle
from tilewright.workers.process import FACTS, MODULE, Job, Limits

KERNEL = "kernel 'k' (nodes conv1)"
# The instruction is none of x86-64's, which LLVM's code generator says with an abort.
UNSELECTABLE = """
func.func @k(%x: tensor<8xi32>) -> tensor<8xi32> {
  %zero = arith.constant 0 : index
  %one = arith.constant 1 : index
  %end = arith.constant 8 : index
  %r = scf.for %i = %zero to %end step %one iter_args(%t = %x) -> (tensor<8xi32>) {
    %y = llvm.call_intrinsic "llvm.x86.rdpid"() : () -> i32
    %u = tensor.insert %y into %t[%i] : tensor<8xi32>
    scf.yield %u : tensor<8xi32>
  }
  return %r : tensor<8xi32>
}
"""


@pytest.fixture(scope="module")
def pool():
    own = Pool(1)
    yield own
    own.shutdown()


@pytest.fixture
def crashes(tmp_path, monkeypatch) -> Path:
    """A folder of its own for a test's bundles."""
    monkeypatch.setenv("TILEWRIGHT_CRASH_DIR", str(tmp_path / "crashes"))
    return tmp_path / "crashes"


def fail(pool: Pool, way: str, **limits: Any) -> str:
    """The error of a job that fails in a pass."""
    with pytest.raises(tw.InternalError) as error:
        pool.with_limits(Limits(**limits)).run([Job(KERNEL, fail_in_a_pass, (way,))])
    assert "\n" not in str(error.value)
    return str(error.value)


def only(folder: Path) -> tuple[dict, str]:
    """The record and the module of the one bundle that is there."""
    [path] = folder.iterdir()
    return json.loads((path / crash_bundle.RECORD).read_text()), (path / MODULE).read_text()


@pytest.mark.parametrize(
    ("way", "limits", "said"),
    [
        ("abort", {}, r"the compiler crashed \(SIGABRT\) in pass 'failing' of {}: Assertion `false' failed."),
        ("segfault", {}, r"the compiler crashed \(SIGSEGV\) in pass 'failing' of {}"),
        ("spin", {"cpu_seconds": 3}, "{} took more than 3 s to compile, at pass 'failing'"),
        pytest.param(
            *("sleep", {"cpu_seconds": 1}, "{} took more than 1 s to compile, at pass 'failing'"),
            marks=pytest.mark.slow,
        ),
        ("memory", {"memory": 1 << 30}, "out of memory in pass 'failing' of {}"),
        ("bug", {}, "internal error in pass 'failing' of {}: KeyError: 'nothing'"),
    ],
)
def test_a_failure_names_pass_and_job_and_saves_the_module_before_the_pass(pool, crashes, way, limits, said):
    error = fail(pool, way, **limits)
    assert re.match(said.format(re.escape(KERNEL)) + "; `tilewright opt --repro /", error)
    record, module = only(crashes)
    assert error.startswith(record["error"])
    assert 'sym_name = "renamed"' in module, "the module is not that before the pass"
    assert record["step"]["passes"] == f"failing{{way={way}}}"
    assert record["command"].startswith("tilewright opt ") and f"--passes=failing{{way={way}}}" in record["command"]
    assert record["versions"]["tilewright"] and record["versions"]["cpu_features"]


def test_what_python_was_doing_when_it_crashed_is_in_the_bundle(pool, crashes):
    fail(pool, "segfault")
    assert any("worker_jobs.py" in line for line in only(crashes)[0]["said"])


def test_a_step_that_fails_once_only_is_no_failure(pool, crashes, tmp_path):
    job = Job(KERNEL, fail_in_a_pass, ("abort", str(tmp_path / "failed")))
    assert pool.run([job]) == ["done"]
    assert not crashes.exists()


def test_a_crash_of_the_code_generator_comes_again_by_repro(pool, crashes, capsys):
    settings = jobs.Settings(tw.Target.parse("x86 -mcpu=x86-64"))
    with pytest.raises(tw.InternalError, match=r"SIGABRT\) in step 'emit-object' of kernel 'k' .*Cannot select"):
        pool.run([Job(KERNEL, jobs.compile_kernel, (UNSELECTABLE.encode(), settings))])
    [path] = crashes.iterdir()
    assert opt.main(["--repro", str(path)]) == 2
    out, err = capsys.readouterr()
    assert out == "" and err.count("\n") == 1 and "crashed (SIGABRT)" in err and "Cannot select" in err
    assert list(crashes.iterdir()) == [path], "the repetition has left a bundle of its own"


def recorded(folder: Path, **facts: object) -> Path:
    """What a worker leaves of a step, the first."""
    folder.mkdir()
    usual = {"name": "cse", "passes": "cse", "emit": "", "target": "", "opt_level": 3, "schedules": {}}
    (folder / FACTS).write_text(json.dumps({**usual, **facts, "number": 1}))
    (folder / MODULE).write_text("func.func private @k()")
    return folder


def saved(folder: Path, **facts: object) -> str:
    """The path of a bundle that is made of it."""
    note = crash_bundle.save_bundle(recorded(folder, **facts), 1, "it failed", "", Limits(), KERNEL)
    return note.removeprefix("; `tilewright opt --repro ").removesuffix("` runs it again")


def test_a_pass_that_works_now_says_so(crashes, tmp_path, capsys):
    assert opt.main(["--repro", saved(tmp_path / "steps")]) == 0
    assert capsys.readouterr().out == "cse works now, where it had failed: it failed\n"


def test_an_import_is_taken_again_from_the_model_file(crashes, tmp_path, capsys):
    path = saved(tmp_path / "steps", **{"name": "import", "import": str(tmp_path / "no.onnx"), "input_shapes": {}})
    assert not (Path(path) / MODULE).exists()
    assert opt.main(["--repro", path]) == 2
    assert "no.onnx" in capsys.readouterr().err


def test_the_newest_bundles_stay(crashes, tmp_path, monkeypatch):
    monkeypatch.setattr(crash_bundle, "MOST", 2)
    paths = [saved(tmp_path / str(i), name=f"pass{i}") for i in range(3)]
    assert len(list(crashes.iterdir())) == 2 and Path(paths[2]).is_dir()
    assert stat.S_IMODE(crashes.stat().st_mode) == 0o700


def test_where_no_bundle_can_be_written_the_error_says_so(pool, tmp_path, monkeypatch):
    (tmp_path / "file").touch()
    monkeypatch.setenv("TILEWRIGHT_CRASH_DIR", str(tmp_path / "file"))
    error = fail(pool, "bug")
    assert error.startswith(f"internal error in pass 'failing' of {KERNEL}: KeyError: 'nothing'; no crash bundle: ")
    assert str(tmp_path / "file") in error


def test_a_full_disk_leaves_no_half_of_a_bundle(crashes, tmp_path, monkeypatch):
    def full(source: Path, destination: Path) -> None:
        destination.write_text("half")
        raise OSError(28, os.strerror(28))

    monkeypatch.setattr("shutil.copyfile", full)
    note = crash_bundle.save_bundle(recorded(tmp_path / "steps"), 1, "it failed", "", Limits(), KERNEL)
    assert note == f"; no crash bundle: cannot write to {crashes}: No space left on device"
    assert list(crashes.iterdir()) == []


@pytest.mark.parametrize("text", [None, "", "[]", "{}", '{"step": 1, "error": ""}'])
def test_repro_refuses_what_is_no_bundle(tmp_path, capsys, text):
    if text is not None:
        (tmp_path / crash_bundle.RECORD).write_text(text)
    assert opt.main(["--repro", str(tmp_path)]) == 2
    err = capsys.readouterr().err
    assert err.count("\n") == 1 and str(tmp_path) in err
