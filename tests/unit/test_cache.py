"""The compile cache: hits and misses, damage, limits, folders that cannot be used, processes side by side."""

import errno
import json
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import external_data_helper, helper, numpy_helper

import tilewright as tw
from tilewright import cache as store
from tilewright import digests, reuse
from tilewright.cache import Cache, Entry
from tilewright.runtime import weights as weights_file
from tilewright.sizes import static
from tilewright.tools import cache as cache_tool
from tilewright.tools import cli
from tilewright.tools import compile as compile_tool

KEY = "ab" * 32


def model(value: float = 1.0, external: bool = False) -> onnx.ModelProto:
    """``y = tanh(x @ w)``: one prepared weight."""
    nodes = [helper.make_node("MatMul", ["x", "w"], ["m"], "matmul"), helper.make_node("Tanh", ["m"], ["y"], "tanh")]
    x = helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, ["n", 32])
    y = helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, ["n", 48])
    graph = helper.make_graph(nodes, "net", [x], [y], [numpy_helper.from_array(weight(value), "w")])
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=10)
    if external:
        external_data_helper.convert_model_to_external_data(made, location="w.bin", size_threshold=0)
    return made


def weight(value: float = 1.0) -> np.ndarray:
    return np.full((32, 48), value, np.float32) / 32


@pytest.fixture
def folder(tmp_path, monkeypatch) -> Path:
    """The user's cache, which is on."""
    monkeypatch.setenv("TILEWRIGHT_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setenv("TILEWRIGHT_CACHE_SIZE", "100MB")
    return tmp_path / "cache"


@pytest.fixture
def path(tmp_path) -> str:
    onnx.save(model(), tmp_path / "net.onnx")
    return str(tmp_path / "net.onnx")


def built(source, rows=4, **options) -> tw.Module:
    return tw.compile(source, input_shapes={"x": (rows, 32)}, workers=0, **options)


def check(lib: tw.Module, value: float = 1.0) -> None:
    x = np.random.default_rng(0).standard_normal((static(lib.inputs[0].shape[0]), 32), np.float32)
    np.testing.assert_allclose(lib(x)[0], np.tanh(x @ weight(value)), rtol=1e-5, atol=1e-6)


def count(folder: Path, kind: str) -> int:
    return sum(item.kind == kind for item in Cache(folder).items())


def only(folder: Path, kind: str) -> Path:
    [item] = [item for item in Cache(folder).items() if item.kind == kind]
    return item.path


def test_a_second_compilation_is_from_the_cache(folder, path):
    first, second = built(path), built(path)
    assert (first.report.cached, second.report.cached) == (False, True)
    assert set(second.report.seconds) == {"cache", "link"}
    assert second.report.of_program() == first.report.of_program()
    assert second.report.notes == []
    assert second.manifest == first.manifest
    for lib in (first, second):
        check(lib)


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
    from tilewright.passes.instruments import Timing

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
    narrow = replace(host(), lanes=8, registers=16)
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
    assert changed.report.cached_kernels == changed.report.kernels + 1  # and the one that packs the weight
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
    from tilewright import jobs

    def plan(*arguments, plan_file=jobs.plan_file):
        made = plan_file(*arguments)
        onnx.save(model(2.0), path)
        return made

    monkeypatch.setattr(jobs, "plan_file", plan)
    lib = built(path)
    assert ["not cached" in note for note in lib.report.notes] == [True]
    assert count(folder, "programs") == 0


@pytest.mark.parametrize("what", ["compiler", "machine"])
def test_another_compiler_or_machine_finds_nothing(folder, path, what, monkeypatch):
    built(path)
    monkeypatch.setattr(digests, what, lambda: "another")
    lib = built(path)
    assert (lib.report.cached, lib.report.cached_kernels) == (False, 0)


def test_the_compilers_source_is_part_of_the_key(tmp_path):
    for name in ("driver.py", "passes/graph/x.py", "passes/lower/entry.mlir"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("1")
    seen = {digests.source_digest(tmp_path)}
    for name in ("driver.py", "passes/graph/x.py", "passes/lower/entry.mlir"):
        (tmp_path / name).write_text("2")
        seen.add(digests.source_digest(tmp_path))
    assert len(seen) == 4


def test_every_folder_of_the_compiler_counts():
    root = Path(digests.__file__).parent
    folders = {p.parent.name for p in root.glob("*/__init__.py")} - {"tests", "build"}
    assert folders - {"tools", "zoo"} == set(digests.COMPILER_FOLDERS)


def test_nothing_is_kept_when_the_compiler_was_edited(folder, path, monkeypatch):
    monkeypatch.setattr(digests, "changed", lambda: True)
    assert len(built(path).report.notes) == 1
    assert not [item for item in Cache(folder).items() if item.kind != "digests"]


def damage(path: Path, how: str) -> None:
    data = path.read_bytes()
    new = {"flipped": data[:-1] + bytes([data[-1] ^ 1]), "truncated": data[: len(data) // 2], "foreign": b"no entry"}
    path.write_bytes({**new, "empty": b""}[how])


@pytest.mark.parametrize("how", ["flipped", "truncated", "foreign", "empty"])
@pytest.mark.parametrize("kind", ["programs", "weights", "sources"])
def test_a_damaged_entry_is_told_removed_and_made_again(folder, path, kind, how):
    built(path)
    whole = only(folder, kind).read_bytes()
    damage(only(folder, kind), how)
    lib = built(path)
    assert not lib.report.cached
    [note] = lib.report.notes
    assert str(folder) in note and "is damaged" in note and "\n" not in note
    check(lib)
    assert kind == "programs" or only(folder, kind).read_bytes() == whole
    again = built(path)
    assert again.report.cached and again.report.notes == []
    check(again)


def test_a_damaged_kernel_is_compiled_again(folder, path):
    built(path)
    [first, *_] = [item for item in Cache(folder).items() if item.kind == "kernels"]
    damage(first.path, "flipped")
    lib = built(path, num_threads=1)
    assert lib.report.cached_kernels == lib.report.kernels
    assert len(lib.report.notes) == 1
    check(lib)


def test_an_entry_under_another_name_is_no_entry(tmp_path):
    cache = Cache(tmp_path / "cache")
    cache.write("kernels", KEY, Entry({"a": 1}, (b"x", b"yz")))
    assert cache.read("kernels", KEY) == Entry({"a": 1}, (b"x", b"yz"))
    other = KEY.replace("a", "c")
    cache.path("kernels", other).parent.mkdir()
    cache.path("kernels", KEY).rename(cache.path("kernels", other))
    assert cache.read("kernels", other) is None
    assert len(cache.notes) == 1


def test_a_folder_that_cannot_be_made_costs_a_note(path, monkeypatch):
    monkeypatch.setenv("TILEWRIGHT_CACHE_SIZE", "1GB")
    monkeypatch.setenv("TILEWRIGHT_CACHE_DIR", "/proc/self/tilewright")
    lib = built(path)
    [note] = lib.report.notes
    assert "/proc/self/tilewright cannot be written" in note
    check(lib)


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EROFS, errno.EACCES])
def test_a_full_or_read_only_disk_costs_a_note(folder, path, number, monkeypatch):
    def refuse(*_, **__):
        raise OSError(number, os.strerror(number))

    real = weights_file.create_nameless
    monkeypatch.setattr(store.tempfile, "mkstemp", refuse)
    monkeypatch.setattr(
        weights_file, "create_nameless", lambda at: refuse() if folder in (at, *at.parents) else real(at)
    )
    lib = built(path)
    [note] = lib.report.notes
    assert os.strerror(number) in note
    check(lib)
    assert Cache(folder).items() == []


def test_a_full_disk_leaves_nothing_half_written(folder, path, monkeypatch):
    def refuse(self, data):
        self.open("wb").write(data[: len(data) // 2])
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(Path, "write_bytes", refuse)
    lib = built(path)
    assert len(lib.report.notes) == 1
    assert not [file for file in folder.rglob("*") if file.is_file()]


def test_the_folder_is_ours_alone(folder, path):
    built(path)
    assert {entry.stat().st_mode & 0o777 for entry in (folder, *folder.rglob("*")) if entry.is_dir()} == {0o700}


def test_a_folder_that_others_can_write_is_not_used(folder, path):
    built(path)
    folder.chmod(0o777)
    lib = built(path)
    assert not lib.report.cached and lib.report.cached_kernels == 0
    [note] = lib.report.notes
    assert "can be written by others" in note
    assert cache_tool.main(["ls"]) == 2


def test_a_folder_of_another_user_is_not_used(folder, path, monkeypatch):
    built(path)
    monkeypatch.setattr(store.os, "geteuid", lambda: os.getuid() + 1)
    lib = built(path)
    assert not lib.report.cached and len(lib.report.notes) == 1
    assert "belongs to another user" in lib.report.notes[0]


def test_the_least_recently_used_are_evicted(tmp_path):
    cache = Cache(tmp_path / "cache", limit=3000)
    keys = [f"{i:064x}" for i in range(3)]
    for i, name in enumerate(keys):
        cache.write("kernels", name, Entry(i, (bytes(1000),)))
        os.utime(cache.path("kernels", name), (i, 1))
    assert cache.read("kernels", keys[0]) == Entry(0, (bytes(1000),))  # is now the last used
    cache.close()
    assert [cache.read("kernels", name) is None for name in keys] == [False, True, False]


def test_the_cache_keeps_to_its_limit(folder, path, monkeypatch):
    built(path)
    total = sum(item.nbytes for item in Cache(folder).items())
    monkeypatch.setenv("TILEWRIGHT_CACHE_SIZE", str(total + 100))
    built(path, rows=5)
    assert sum(item.nbytes for item in Cache(folder).items()) <= total + 100
    check(built(path, rows=5))


def test_weights_beyond_the_limit_are_not_kept(folder, path, monkeypatch):
    monkeypatch.setenv("TILEWRIGHT_CACHE_SIZE", "4kB")
    lib = built(path)
    [note] = lib.report.notes
    assert "exceed TILEWRIGHT_CACHE_SIZE" in note
    assert count(folder, "weights") == 0


def test_temporary_files_of_killed_processes_go(tmp_path):
    cache = Cache(tmp_path / "cache")
    cache.write("kernels", KEY, Entry(0))
    old, new = (cache.path("kernels", KEY).with_name(f".new-{name}") for name in ("old", "new"))
    old.touch()
    new.touch()
    os.utime(old, (1, 1))
    cache.trim()
    assert (old.exists(), new.exists(), len(cache.items())) == (False, True, 1)


def test_a_module_outlives_its_entry(folder, path, tmp_path):
    made, found = built(path), built(path)
    assert found.report.cached
    Cache(folder).trim(0)
    assert Cache(folder).items() == []
    for i, lib in enumerate((made, found)):
        check(lib)
        check(tw.load_module(lib.export_library(tmp_path / f"{i}.so")))


def test_an_exported_program_does_not_share_files_with_the_cache(folder, path, tmp_path):
    for i, lib in enumerate((built(path), built(path))):
        weights = lib.export_library(tmp_path / f"{i}.so").with_suffix(".safetensors")
        assert not weights.samefile(only(folder, "weights"))
    assert compile_tool.main([path, "--input-shape", "x:4,32", "--quiet"]) == 0
    weights = tmp_path / "net.safetensors"
    weights.write_bytes(bytes(weights.stat().st_size))  # spoils this program, and no other
    lib = built(path)
    assert lib.report.cached and lib.report.notes == []
    check(lib)


PROCESS = """
import sys, numpy as np, tilewright as tw
from tilewright import reuse
from tilewright.cache import Cache
model, folder, number = sys.argv[1], sys.argv[2], int(sys.argv[3])
if number == 0:
    for _ in range(200):
        cache = Cache(folder and __import__("pathlib").Path(folder))
        cache.trim(0)
        assert not cache.notes, cache.notes
else:
    for i in range(6):
        lib = tw.compile(model, input_shapes={"x": (4 + (i + number) % 2, 32)}, workers=0, cache=folder)
        assert not lib.report.notes, lib.report.notes
        rows = lib.inputs[0].shape[0]
        got = lib(np.ones((rows, 32), np.float32))[0]
        assert np.allclose(got, np.tanh(1.0), rtol=1e-5), got
"""


def test_processes_may_share_it_while_one_prunes(folder, path):
    def run(number: int) -> subprocess.CompletedProcess:
        line = [sys.executable, "-c", PROCESS, path, str(folder), str(number)]
        return subprocess.run(line, capture_output=True, text=True)

    with ThreadPoolExecutor(4) as pool:
        for done in pool.map(run, range(4)):
            assert done.returncode == 0, done.stderr
    cache = Cache(folder)
    assert reuse.verify(cache) == [] and cache.notes == []


@pytest.mark.parametrize(
    "text, nbytes", [("1000", 1000), ("4GiB", 4 << 30), ("1.5 MB", 1_500_000), ("2k", 2000), ("0", 0)]
)
def test_sizes(text, nbytes):
    assert reuse.parse_size(text, "it") == nbytes


def test_a_bad_size_is_one_line(path, folder, monkeypatch, capsys):
    monkeypatch.setenv("TILEWRIGHT_CACHE_SIZE", "much")
    assert compile_tool.main([path, "--input-shape", "x:4,32"]) == 2
    assert capsys.readouterr().err.startswith("error: TILEWRIGHT_CACHE_SIZE is 'much': give bytes")


@pytest.mark.parametrize(
    "environment, want",
    [
        ({"TILEWRIGHT_CACHE_DIR": "/a/b", "XDG_CACHE_HOME": "/x"}, "/a/b"),
        ({"XDG_CACHE_HOME": "/x"}, "/x/tilewright"),
        ({"XDG_CACHE_HOME": "relative", "HOME": "/h"}, "/h/.cache/tilewright"),
        ({"HOME": "/h"}, "/h/.cache/tilewright"),
    ],
)
def test_where_it_is(environment, want, monkeypatch):
    for name in ("TILEWRIGHT_CACHE_DIR", "XDG_CACHE_HOME", "HOME"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    assert reuse.default_folder() == Path(want)


def test_the_command_lists_prunes_and_verifies(folder, path, capsys):
    assert cli.main(["cache", "ls"]) == 0
    assert capsys.readouterr().out.endswith("cache: 0 entries, 0 B of 100.0 MB\n")
    assert not folder.exists()
    built(path)
    assert cli.main(["cache", "ls"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines[1:]] == ["kind", "programs", "kernels", "weights", "sources", "digests"]
    assert cli.main(["cache", "ls", "--json"]) == 0
    record = json.loads(capsys.readouterr().out)
    assert record["entries"] == len(record["list"]) == sum(kind["entries"] for kind in record["kinds"].values())
    assert record["bytes"] == sum(entry["bytes"] for entry in record["list"])

    assert cli.main(["cache", "verify", "--quiet"]) == 0
    assert capsys.readouterr().out == ""
    damage(only(folder, "weights"), "flipped")
    (only(folder, "programs").parent / "stranger").write_text("not ours")
    assert cli.main(["cache", "verify"]) == cache_tool.DAMAGED
    out = capsys.readouterr().out
    assert out.count("removed ") == 2 and "2 damaged" in out and "stranger" in out
    assert cli.main(["cache", "verify", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["removed"] == []

    assert cli.main(["cache", "prune"]) == 0
    assert "removed 0 entries" in capsys.readouterr().out
    assert cli.main(["cache", "prune", "1kB"]) == 0
    assert sum(item.nbytes for item in Cache(folder).items()) <= 1000
    assert cli.main(["cache", "prune", "--all", "--json"]) == 0
    assert json.loads(capsys.readouterr().out.splitlines()[-1])["entries"] == 0


def test_to_verify_is_not_to_use(folder, path):
    built(path)
    before = {item.path: round(item.used, 3) for item in Cache(folder).items()}
    reuse.verify(Cache(folder))
    assert {item.path: round(item.used, 3) for item in Cache(folder).items()} == before


def test_the_compile_command_says_where_it_was_from(folder, path, capsys):
    words = [path, "--input-shape", "x:4,32", "--workers", "0"]
    for extra, start in (([], "compiled in"), ([], "taken from the cache in"), (["--no-cache"], "compiled in")):
        assert compile_tool.main([*words, *extra]) == 0
        assert capsys.readouterr().out.splitlines()[2].startswith(start)
    assert compile_tool.main([*words, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["cached"] is True
    check(tw.load_module(path.replace(".onnx", ".so")))
