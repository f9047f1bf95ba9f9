"""What goes when the cache is full, what lives on then, and processes side by side."""

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

from cache_case import KEY, built, check, count, only

import tilewright as tw
from tilewright.driver.cache import compile_cache
from tilewright.driver.cache.entries import Entry
from tilewright.driver.cache.store import Cache
from tilewright.runtime.artifact.weights import WeightsWriter
from tilewright.tools import compile as compile_tool


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


def test_weights_that_cannot_be_written_there_are_made_elsewhere(folder, path, monkeypatch):
    write, failed = WeightsWriter.write, []

    def fail_once(self, name, array):
        if not failed:
            failed.append(name)
            raise tw.ArtifactError(f"cannot write weight '{name}': No space left on device")
        write(self, name, array)

    monkeypatch.setattr(WeightsWriter, "write", fail_once)
    lib = built(path)
    assert failed and any("No space left on device" in note for note in lib.report.notes)
    check(lib)


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
from tilewright.driver.cache.store import Cache
model, folder, number = sys.argv[1], sys.argv[2], int(sys.argv[3])
if number == 0:
    for _ in range(100):
        cache = Cache(folder and __import__("pathlib").Path(folder))
        cache.trim(0)
        assert not cache.notes, cache.notes
else:
    for i in range(3):
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

    with ThreadPoolExecutor(3) as pool:
        for done in pool.map(run, range(3)):
            assert done.returncode == 0, done.stderr
    cache = Cache(folder)
    assert compile_cache.verify(cache) == [] and cache.notes == []
