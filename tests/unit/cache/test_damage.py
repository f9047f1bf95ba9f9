"""Entries that are damaged, and folders that cannot be used or must not be."""

import errno
import os
from pathlib import Path

import pytest
from cache_case import KEY, built, check, damage, only

from tilewright.core import own_files
from tilewright.driver.cache import store
from tilewright.driver.cache.entries import Entry
from tilewright.driver.cache.store import Cache
from tilewright.runtime.artifact import weights as weights_file
from tilewright.tools import cache as cache_tool


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
    assert lib.report.cached_kernels == lib.report.kernels - 1
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
    assert "can be written by others" in note and "remove it" in note and "chmod" not in note
    assert cache_tool.main(["ls"]) == 2


def test_a_folder_of_another_user_is_not_used(folder, path, monkeypatch):
    built(path)
    monkeypatch.setattr(own_files.os, "geteuid", lambda: os.getuid() + 1)
    lib = built(path)
    assert not lib.report.cached and len(lib.report.notes) == 1
    assert "belongs to another user" in lib.report.notes[0]
