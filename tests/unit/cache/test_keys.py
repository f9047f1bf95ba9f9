"""What a compilation is found by in the compile cache: hits, misses, and what is not kept."""

import os
import subprocess
import sys
from dataclasses import replace
from typing import Any

import onnx
import pytest
from cache_case import built, check, count, model

import tilewright as tw
from tilewright.driver.cache import digests
from tilewright.driver.cache.store import Cache
from tilewright.tools import compile as compile_tool


def test_a_second_compilation_is_from_the_cache(folder, path):
    first, second = built(path), built(path)
    assert (first.report.cached, second.report.cached) == (False, True)
    assert set(second.report.seconds) == {"cache", "link"}
    assert second.report.of_program() == first.report.of_program()
    assert second.report.notes == []
    assert second.manifest == first.manifest
    for lib in (first, second):
        check(lib)


def test_a_program_with_a_profile_is_another_one(folder, path):
    built(path)
    first, second = built(path, profile=True), built(path, profile=True)
    assert (first.report.cached, second.report.cached) == (False, True)
    assert (first.manifest.profile, second.manifest.profile, built(path).manifest.profile) == (True, True, False)
    check(second)
    assert second.profiler.report().runs == 1


def test_a_hit_starts_no_worker_and_imports_no_mlir(folder, path):
    built(path)
    code = (
        "import sys, tilewright as tw\n"
        "assert tw.compile(sys.argv[1], input_shapes={'x': (4, 32)}).report.cached\n"
        "assert not {'mlir', 'onnx', 'llvm', 'loky'} & set(sys.modules), sorted(sys.modules)\n"
    )
    subprocess.run([sys.executable, "-c", code, path], check=True)


@pytest.mark.parametrize("off", [{"cache": False}, {"executor": "engine"}])
def test_it_can_be_left_out(folder, path, off):
    built(path)
    assert not built(path, **off).report.cached


def test_size_zero_switches_it_off(folder, path, monkeypatch):
    monkeypatch.setenv("TILEWRIGHT_CACHE_SIZE", "0")
    assert not any(built(path).report.cached for _ in range(2))
    assert not folder.exists()
    built(path, cache=folder)  # but not one that is asked for
    assert built(path, cache=folder).report.cached


def test_passes_that_are_watched_run(folder, path, tmp_path):
    from tilewright.passes.infra.instruments import Timing

    built(path)
    before = [item.path for item in Cache(folder).items()]
    timing = Timing()
    with tw.PassContext(instruments=[timing]):
        assert not built(path).report.cached
    assert {"outline", "vectorize"} < set(timing.seconds)
    dump = ["--dump-dir", str(tmp_path / "dump"), "--input-shape", "x:4,32", "--quiet", "--workers", "0"]
    assert compile_tool.main([path, *dump]) == 0
    assert any((tmp_path / "dump").iterdir())
    assert sorted(before) == sorted(item.path for item in Cache(folder).items())


def test_what_the_program_depends_on_is_in_its_key(folder, path, tmp_path):
    built(path)
    narrow = replace(host(), lanes=host().lanes // 2)
    others: list[dict[str, Any]] = [{"opt_level": 2}, {"num_threads": 1}, {"rows": 5}, {"target": narrow}]
    for other in others:
        assert not built(path, **other).report.cached, other
    assert not built(model().SerializeToString()).report.cached  # the program's name is another
    os.rename(path, tmp_path / "other.onnx")
    assert not built(str(tmp_path / "other.onnx")).report.cached
    os.rename(tmp_path / "other.onnx", path)
    assert built(path).report.cached


def test_a_level_does_not_get_the_kernels_of_another(folder, path):
    """Also not those that prepare weights, which are compiled at a lower one unless a context says which."""
    with tw.PassContext(opt_level=3):
        built(path)
    at_one = built(path, opt_level=1)
    assert (at_one.report.cached, at_one.report.cached_kernels) == (False, 0)


def host() -> tw.Target:
    return tw.Target.parse("x86")


def test_bytes_and_protos_are_the_same_model(folder):
    built(model().SerializeToString())
    assert built(model()).report.cached
    assert not built(model(2.0)).report.cached


def test_another_content_is_another_program(folder, path):
    built(path)
    seen = os.stat(path)
    onnx.save(model(2.0), path)
    os.utime(path, ns=(seen.st_atime_ns, seen.st_mtime_ns))
    changed = built(path)
    assert not changed.report.cached
    assert changed.report.cached_kernels == changed.report.kernels
    check(changed, 2.0)


def test_external_data_belongs_to_the_model(folder, tmp_path):
    path = str(tmp_path / "net.onnx")
    for value, cached in ((1.0, False), (2.0, False), (1.0, True), (2.0, True)):
        (tmp_path / "w.bin").unlink(missing_ok=True)  # onnx would append to it
        onnx.save(model(value, external=True), path)
        lib = built(path)
        assert lib.report.cached == cached
        check(lib, value)
    (tmp_path / "w.bin").unlink()
    with pytest.raises(tw.ModelError, match=r"w\.bin"):
        built(path)


def test_a_large_files_hash_is_remembered_until_it_changes(folder, tmp_path, monkeypatch):
    monkeypatch.setattr(digests, "_SETTLED_NS", -1)
    file, cache = tmp_path / "large", Cache(folder)
    file.write_bytes(bytes(2 << 20))
    first, state = digests.file_digest(file, cache)
    monkeypatch.setattr(digests, "digest", lambda *_: "read again")
    assert digests.file_digest(file, cache) == (first, state)
    with file.open("r+b") as opened:
        opened.write(b"x")
    os.utime(file, ns=(state[1], state[1]))  # the change time tells
    assert digests.file_digest(file, cache)[0] == "read again"


def test_a_hash_is_not_remembered_of_a_file_that_was_just_written(folder, tmp_path):
    file, cache = tmp_path / "large", Cache(folder)
    file.write_bytes(bytes(2 << 20))
    digests.file_digest(file, cache)
    assert cache.items() == []


def test_a_model_that_changes_while_it_is_compiled_is_not_kept(folder, path, monkeypatch):
    from tilewright.driver import jobs

    def plan(*arguments, plan_file=jobs.plan_file):
        made = plan_file(*arguments)
        onnx.save(model(2.0), path)
        return made

    monkeypatch.setattr(jobs, "plan_file", plan)
    lib = built(path)
    assert ["not cached" in note for note in lib.report.notes] == [True]
    assert count(folder, "programs") == 0


@pytest.mark.parametrize("what", ["hash_compiler", "hash_machine"])
def test_another_compiler_or_machine_finds_nothing(folder, path, what, monkeypatch):
    built(path)
    monkeypatch.setattr(digests, what, lambda: "another")
    lib = built(path)
    assert (lib.report.cached, lib.report.cached_kernels) == (False, 0)


def test_the_compilers_source_is_part_of_the_key(tmp_path):
    for name in ("driver/planning.py", "passes/graph/x.py", "passes/lower/entry.mlir"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("1")
    seen = {digests.source_digest(tmp_path)}
    for name in ("driver/planning.py", "passes/graph/x.py", "passes/lower/entry.mlir"):
        (tmp_path / name).write_text("2")
        seen.add(digests.source_digest(tmp_path))
    assert len(seen) == 4


def test_source_that_was_edited_before_it_was_hashed_has_a_hash_of_its_own(monkeypatch):
    assert digests.hash_compiler.__wrapped__() == digests.hash_compiler.__wrapped__()
    monkeypatch.setattr(digests, "has_changed", lambda: True)
    assert digests.hash_compiler.__wrapped__() != digests.hash_compiler.__wrapped__()


def test_an_edited_file_changes_the_state_of_the_source(tmp_path, monkeypatch):
    (tmp_path / "core").mkdir()
    (tmp_path / "core" / "x.py").write_text("1")
    monkeypatch.setattr(digests, "ROOT", tmp_path)
    monkeypatch.setattr(digests, "_STATE_AT_START", digests._source_state())
    assert not digests.has_changed()
    (tmp_path / "core" / "x.py").write_text("22")
    assert digests.has_changed()


def test_every_folder_of_the_compiler_counts():
    folders = {p.parent.name for p in digests.ROOT.glob("*/__init__.py")} - {"tests", "build"}
    assert folders - {"tools", "tuning", "tvm"} == set(digests.COMPILER_FOLDERS)  # which compile nothing of their own


def test_nothing_is_kept_when_the_compiler_was_edited(folder, path, monkeypatch):
    monkeypatch.setattr(digests, "has_changed", lambda: True)
    assert len(built(path).report.notes) == 1
    assert not [item for item in Cache(folder).items() if item.kind != "digests"]
