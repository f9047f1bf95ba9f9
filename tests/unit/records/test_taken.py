"""What a compilation takes of records: programs, kernels, the cache, and records that do not fit any more."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper
from samples import campaign

import tilewright as tw
from tilewright.core.program import Kernel
from tilewright.driver import api
from tilewright.driver.cache.store import Cache
from tilewright.driver.compilation import Compilation
from tilewright.driver.planning import plan
from tilewright.passes import pipeline
from tilewright.passes.tuned import compile_tuned_kernel
from tilewright.records import Winner, target_key
from tilewright.records.database import Database
from tilewright.tools import compile as compile_tool
from tilewright.tools import explain as explain_tool
from tilewright.tools import run as run_tool
from tilewright.workers import Pool

W = np.random.default_rng(0).standard_normal((32, 48), np.float32) / 8
X = np.random.default_rng(1).standard_normal((40, 32), np.float32)


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> str:
    """``y = tanh(x @ w)``"""
    nodes = [helper.make_node("MatMul", ["x", "w"], ["m"], "matmul"), helper.make_node("Tanh", ["m"], ["y"], "tanh")]
    x, y = (helper.make_tensor_value_info(n, onnx.TensorProto.FLOAT, [40, k]) for n, k in (("x", 32), ("y", 48)))
    graph = helper.make_graph(nodes, "net", [x], [y], [numpy_helper.from_array(W, "w")])
    path = str(tmp_path_factory.mktemp("taken") / "net.onnx")
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=10), path)
    return path


@pytest.fixture(scope="module")
def kernel(path: str) -> Kernel:
    """The model's product, compiled by its own schedule."""
    return product(path)


def other(kernel: Kernel, rows: int = 5) -> tw.Schedule:
    """Another schedule for the kernel."""
    plain = tw.Schedule.start(tw.Schedule.from_json(kernel.schedule_json).values)
    [block] = plain.result.value.packed
    made = plain.tile("m", rows, "n", block.size).vectorize("n.1").unroll("m.1").unroll("k", 2)
    return made.pack(block.argument, block.axis, block.size).parallel("m.0")


def winner(kernel: Kernel, schedule: tw.Schedule, **others: Any) -> Winner:
    """The record of a schedule that won, for this machine and as many threads as a program gets."""
    data = schedule.to_json()
    options, values, steps = api.make_options(), json.dumps(data["values"]), json.dumps(data["steps"])
    return replace(Winner(kernel.name, target_key(options.target), options.threads, values, steps), **others)


def save(folder: Path, winners: Sequence[Winner], name: str = "records.sqlite") -> Path:
    with Database.open(folder / name) as database:
        database.accept(winners)
    return folder / name


def product(path: str, records: Any = True, **options: Any) -> Kernel:
    """The product's kernel as it is compiled then."""
    made = api.stepwise(path, options=api.make_options(records=records, cache=False, **options), workers=0)
    return next(k for k in made.kernels.values() if k.name.startswith("matmul"))


@pytest.mark.parametrize("executor", ["objects", "engine"])
@pytest.mark.parametrize("workers", [0, 2])
def test_a_program_takes_them(path: str, kernel: Kernel, tmp_path: Path, executor: Any, workers: int) -> None:
    beside = json.dumps(json.loads(kernel.schedule_json)["steps"])
    records = save(tmp_path, [winner(kernel, other(kernel), default_steps=beside)])
    lib = tw.compile(path, cache=False, executor=executor, workers=workers, records=records)
    np.testing.assert_allclose(lib(X)[0], np.tanh(X @ W), rtol=1e-5, atol=1e-6)
    assert lib.report.notes == ["tuned schedules: 1 of 1 kernel"]


def test_the_kernel_has_that_schedule(path: str, kernel: Kernel, tmp_path: Path) -> None:
    made = product(path, save(tmp_path, [winner(kernel, other(kernel))]))
    assert made.schedule == str(other(kernel)) != kernel.schedule
    assert (made.tuned, kernel.tuned) == (True, False)


def test_they_are_found_where_the_user_has_them_unless_that_is_off(
    path: str, kernel: Kernel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TILEWRIGHT_RECORDS", str(save(tmp_path, [winner(kernel, other(kernel))])))
    assert product(path).tuned
    assert not product(path, False).tuned
    threads = api.make_options().threads + 1
    assert not product(path, num_threads=threads).tuned, "of another number of threads"
    assert not product(path, target="x86 -mattr=-fma").tuned, "of another target"


def test_a_schedule_by_hand_counts_before_them(path: str, kernel: Kernel, tmp_path: Path) -> None:
    records = save(tmp_path, [winner(kernel, other(kernel))])
    with tw.PassContext(config={"schedules": {kernel.name: other(kernel, 4)}}):
        made = product(path, records)
    assert (made.schedule, made.tuned) == (str(other(kernel, 4)), False)


@campaign(
    "is for another-0",
    "there is no loop 'q'-2",
    "cannot be carried out-0",
    "cannot be carried out-2",
    "no primitive 'evaluate'-0",
    "a schedule as JSON is-2",
    "beside another default schedule-0",
)
@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize(
    "what, said",
    [
        ({"values": '{"result": {"axes": [["m", 40], ["n", 4]]}}', "steps": "[]"}, "is for another"),
        ({"steps": '[["split", "q", 4]]'}, "there is no loop 'q'"),
        ({"steps": "[]"}, "cannot be carried out"),
        ({"steps": '[["evaluate", "1"]]'}, "no primitive 'evaluate'"),
        ({"values": "3"}, "a schedule as JSON is"),
        ({"default_steps": '[["split", "m", 3]]'}, "beside another default schedule"),
    ],
)
def test_one_that_does_not_fit_leaves_the_kernel_its_own(
    path: str, kernel: Kernel, tmp_path: Path, what: dict[str, str], said: str, workers: int
) -> None:
    records = save(tmp_path, [winner(kernel, other(kernel), **what)])
    lib = tw.compile(path, cache=tmp_path / "cache", records=records, workers=workers)
    np.testing.assert_allclose(lib(X)[0], np.tanh(X @ W), rtol=1e-5, atol=1e-6)
    [note] = lib.report.notes
    assert said in note and kernel.name in note and "tune again" in note and "\n" not in note
    again = tw.compile(path, cache=tmp_path / "cache", records=records, workers=workers)
    assert again.report.cached and again.report.notes == [note]


def test_one_that_ends_a_worker_is_left_out(
    path: str, kernel: Kernel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = Pool.run

    def fail(self: Pool, jobs: Sequence[Any], *others: Any) -> list[Any]:
        if any(job.function.__name__ == "compile_tuned_kernel" for job in jobs):
            raise tw.InternalError("a worker crashed")
        return run(self, jobs, *others)

    monkeypatch.setattr(Pool, "run", fail)
    lib = tw.compile(path, cache=False, records=save(tmp_path, [winner(kernel, other(kernel))]), workers=0)
    np.testing.assert_allclose(lib(X)[0], np.tanh(X @ W), rtol=1e-5, atol=1e-6)
    assert lib.report.notes == ["compiled without the schedules from records, with which it failed: a worker crashed"]


def test_one_that_needs_too_much_memory_is_left(path: str, kernel: Kernel) -> None:
    options = api.make_options(cache=False)
    planned = plan(Compilation.start(path, options, 0), "").plan
    staged = other(kernel).cache_read("%arg1")
    given = (planned.kernels[kernel.name], kernel.name, options.target, tw.PassContext(), json.dumps(staged.to_json()))
    fitting, large = (compile_tuned_kernel(*given, most) for most in (1 << 30, 100))
    assert fitting.tuned and fitting.scratch_bytes > 100
    assert not large.tuned and "bytes in each thread, more than the 100" in large.note


def test_the_cache_tells_them_apart(path: str, kernel: Kernel, tmp_path: Path) -> None:
    def cached(records: Any) -> tuple[bool, int]:
        lib = tw.compile(path, cache=tmp_path / "cache", records=records, workers=0)
        np.testing.assert_allclose(lib(X)[0], np.tanh(X @ W), rtol=1e-5, atol=1e-6)
        return lib.report.cached, lib.report.cached_kernels

    first, second = (save(tmp_path, [winner(kernel, other(kernel, r))], f"{r}.sqlite") for r in (5, 4))
    others = save(tmp_path, [replace(winner(kernel, other(kernel)), kernel="conv_1a2b3c4d")], "others.sqlite")
    assert cached(False) == (False, 0)
    assert cached(False) == (True, 1)
    assert cached(others) == (True, 1), "records of other kernels change nothing"
    assert cached(first) == (False, 0) and cached(first) == (True, 1)
    assert cached(second) == (False, 0) and cached(False) == (True, 1) and cached(first) == (True, 1)
    assert sum(item.kind == "kernels" for item in Cache(tmp_path / "cache").items()) == 3


def test_texts_of_stages_have_them(path: str, kernel: Kernel, tmp_path: Path) -> None:
    options = api.make_options(records=save(tmp_path, [winner(kernel, other(kernel))]))
    plain, tuned = (api.emit(path, "schedule", options=each, workers=0) for each in (api.make_options(), options))
    assert plain != tuned
    for records in (True, tmp_path / "records.sqlite"):
        assert api.emit(path, "llvm-dialect", options=api.make_options(records=records), workers=0)


def test_a_file_that_is_given_has_to_be_one(path: str, tmp_path: Path) -> None:
    for name, text, said in (("no.sqlite", None, "No such file"), ("bad", "something", "is no database of records")):
        if text:
            (tmp_path / name).write_text(text)
        with pytest.raises(tw.RecordError, match=said) as caught:
            tw.compile(path, records=tmp_path / name)
        assert "\n" not in str(caught.value)
    with pytest.raises(tw.CompileError, match="records is 3: give True, False"):
        tw.compile(path, records=3)  # type: ignore[arg-type]


def test_a_damaged_file_of_the_users_is_a_note(path: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "records.sqlite").write_text("something")
    monkeypatch.setenv("TILEWRIGHT_RECORDS", str(tmp_path / "records.sqlite"))
    for cached in (False, True):
        lib = tw.compile(path, cache=tmp_path / "cache", workers=0)
        assert lib.report.cached == cached and ["compiled without them" in note for note in lib.report.notes] == [True]
    monkeypatch.delenv("TILEWRIGHT_RECORDS")
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "none"))
    assert tw.compile(path, cache=tmp_path / "cache", workers=0).report.notes == []


def test_a_kernel_without_a_record_is_compiled_as_before(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    seen = []

    def compile_kernel(bytecode: bytes, target: Any, context: Any, made: Any = pipeline.compile_kernel) -> Kernel:
        seen.append(context.config)
        return made(bytecode, target, context)

    monkeypatch.setattr(pipeline, "compile_kernel", compile_kernel)
    tw.compile(path, cache=False, workers=0)
    assert seen and not any(seen)


def test_the_commands_take_them(path: str, kernel: Kernel, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    records = str(save(tmp_path, [winner(kernel, other(kernel))]))
    words = [path, "-o", str(tmp_path / "net.so"), "--workers", "0"]
    assert compile_tool.main([*words, "--records", records]) == 0
    assert "note: tuned schedules: 1 of 1 kernel" in capsys.readouterr().err
    assert compile_tool.main([*words, "--no-records"]) == 0
    assert "tuned" not in capsys.readouterr().err
    for more, said in (([], "two choices"), (["-o", records], "is read"), (["--records", f"{path}.no"], "cannot read")):
        given = [*words, "--records", records, *(more or ["--no-records"])]
        assert compile_tool.main(given) == 2
        error = capsys.readouterr().err
        assert said in error and error.count("\n") == 1
    assert run_tool.main([str(tmp_path / "net.so"), "--records", records]) == 2
    assert "is compiled already: give its ONNX model with --records" in capsys.readouterr().err


def test_explain_says_which_schedules_are_tuned(
    path: str, kernel: Kernel, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    found = winner(kernel, other(kernel), ratio=0.8, low=0.75, high=0.9, network="net")
    words = [path, "--rounds", "1", "--no-cache", "--records", str(save(tmp_path, [found]))]
    assert explain_tool.main(words) == 0
    out = capsys.readouterr().out
    assert "tuned schedules, from records: 1 of the kernels" in out
    assert "tuned     0.80 of the time of its own schedule (0.75 to 0.90) when it was tuned, for net\n" in out
    assert explain_tool.main([*words, "--json"]) == 0
    [shown] = [k for k in json.loads(capsys.readouterr().out)["kernels"] if k["name"] == kernel.name]
    assert (shown["tuned"]["ratio"], shown["schedule"]) == (0.8, str(other(kernel)))
