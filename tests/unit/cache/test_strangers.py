"""Entries, and folders on the way to them, that others may have put there: none is used, and the compilation goes on."""

from __future__ import annotations

import itertools
import json
import os
import stat
from collections.abc import Callable
from pathlib import Path

import pytest
from cache_case import KEY, built, check, only
from samples import some_of

from tilewright.core import own_files
from tilewright.driver.cache import compile_cache
from tilewright.driver.cache.entries import Entry
from tilewright.driver.cache.store import Cache
from tilewright.tools import cache as cache_tool

NOBODY = 65534


def open_to_others(path: Path) -> None:
    """Let everybody write to it."""
    path.chmod(path.stat().st_mode | 0o002)


def open_to_the_group(path: Path) -> None:
    """Let the group write to it."""
    path.chmod(path.stat().st_mode | 0o020)


def give_away(path: Path) -> None:
    """Let it be another user's."""
    if os.geteuid() != 0:
        pytest.skip("only root gives files away")
    os.chown(path, NOBODY, NOBODY)


def link_away(path: Path) -> None:
    """Put a link in its place, to it under another name."""
    moved = path.with_name(f"moved-{path.name}")
    path.rename(moved)
    path.symlink_to(moved)


WAYS = [open_to_others, open_to_the_group, give_away, link_away]
LEVELS = ["file", "folder", "kind"]
ways = pytest.mark.parametrize("spoil", WAYS)


@pytest.mark.parametrize(
    ("kind", "level", "spoil"), some_of(itertools.product(["programs", "weights", "sources"], LEVELS, WAYS), 3)
)
def test_what_may_be_of_others_is_not_used_and_told_once(folder, path, kind, level, spoil: Callable[[Path], None]):
    built(path)
    strange = [only(folder, kind), *only(folder, kind).parents][LEVELS.index(level)]
    spoil(strange)
    lib = built(path)
    assert not lib.report.cached
    [note] = lib.report.notes
    assert str(strange) in note and "remove it" in note and "chmod" not in note and "\n" not in note
    check(lib)


def test_a_planted_kernel_is_compiled_again(folder, path):
    built(path)
    for item in Cache(folder).items():
        if item.kind == "kernels":
            open_to_others(item.path)
    lib = built(path, num_threads=1)
    assert lib.report.cached_kernels == 0 and len(lib.report.notes) == 1
    check(lib)


@ways
def test_verify_names_and_removes_them(folder, path, spoil, capsys):
    built(path)
    strange = [only(folder, "programs"), only(folder, "weights").parent, folder / "sources"]
    for each in strange:
        spoil(each)
    assert cache_tool.main(["verify", "--json"]) == cache_tool.DAMAGED
    found = json.loads(capsys.readouterr().out)["strangers"]
    assert {each["path"] for each in found} >= set(map(str, strange)) and all(each["removed"] for each in found)
    assert not any(each.is_symlink() or each.exists() for each in strange)
    cache_tool.main(["verify"])
    assert cache_tool.main(["verify"]) == 0
    lib = built(path)
    assert not lib.report.cached and lib.report.notes == []
    assert built(path).report.cached


def test_verify_says_it_to_people(folder, path, capsys):
    built(path)
    open_to_others(only(folder, "programs"))
    strange = only_strange(folder)
    assert cache_tool.main(["verify"]) == cache_tool.DAMAGED
    out = capsys.readouterr().out
    assert f"removed {strange}: can be written by others, so it was not used" in out and "1 not ours alone" in out


def only_strange(folder: Path) -> Path:
    """The one thing in a cache that may be of others."""
    [found] = Cache(folder).strangers()
    return found.path


def test_no_link_leads_verify_or_prune_out_of_the_cache(folder, path, tmp_path):
    built(path)
    mine = tmp_path / "mine"
    (mine / "inner").mkdir(parents=True)
    for at in (mine / "letter", mine / "inner" / "letter"):
        at.write_text("no entry of a cache")
    (folder / "kernels" / "zz").symlink_to(mine)
    (folder / "digests").rename(folder / "old")
    (folder / "digests").symlink_to(mine)
    cache = Cache(folder)
    compile_cache.verify(cache)
    cache.trim(0)
    assert all(cache.remove(found) for found in cache.strangers())
    assert (mine / "letter").exists() and (mine / "inner" / "letter").exists()
    assert not (folder / "digests").is_symlink()


@ways
def test_nothing_is_written_into_folders_of_others(tmp_path, spoil):
    cache = Cache(tmp_path / "cache")
    cache.write("kernels", KEY, Entry(0))
    at = cache.path("kernels", KEY)
    at.unlink()
    spoil(at.parent)
    cache.write("kernels", KEY, Entry(1))
    assert not at.exists() and len(cache.notes) == 1
    cache.write("programs", KEY, Entry(2))  # in folders that are ours
    assert cache.read("programs", KEY) == Entry(2)


def test_what_was_planted_is_not_remembered_as_checked(folder, path):
    built(path)
    weights = only(folder, "weights")
    open_to_others(weights.parent)
    for item in Cache(folder).items():
        if item.kind != "weights":
            item.path.unlink()
    weights.write_bytes(weights.read_bytes()[:-1] + b"\x7f")
    built(path)
    weights.parent.chmod(0o700)
    check(built(path))


def test_what_is_written_is_ours_alone_whatever_the_umask(folder, path):
    before = os.umask(0)
    try:
        built(path)
    finally:
        os.umask(before)
    assert built(path).report.cached
    assert not [entry for entry in folder.rglob("*") if stat.S_IMODE(entry.stat().st_mode) & 0o022]


def test_a_pipe_is_not_waited_for(tmp_path):
    cache = Cache(tmp_path / "cache")
    cache.write("kernels", KEY, Entry(0))
    cache.path("kernels", KEY).unlink()
    os.mkfifo(cache.path("kernels", KEY))
    assert cache.read("kernels", KEY) is None
    assert "is not a regular file" in cache.notes[0]


def test_what_is_checked_is_what_was_opened(tmp_path, monkeypatch):
    """A file of others that takes the place between the look-up and the check is seen."""
    cache = Cache(tmp_path / "cache")
    cache.write("kernels", KEY, Entry(0))
    at, real = cache.path("kernels", KEY), os.open

    def swap(name, flags, *rest, **more):
        if name == at.name:
            at.unlink()
            at.write_bytes(b"planted")
            at.chmod(0o666)
        return real(name, flags, *rest, **more)

    monkeypatch.setattr(own_files.os, "open", swap)
    assert cache.read("kernels", KEY) is None
    assert "can be written by others" in cache.notes[0]


@pytest.mark.parametrize(
    "mode, owner, why",
    [
        (stat.S_IFREG | 0o600, 0, ""),
        (stat.S_IFREG | 0o644, 0, ""),
        (stat.S_IFREG | 0o620, 0, "can be written by others"),
        (stat.S_IFREG | 0o602, 0, "can be written by others"),
        (stat.S_IFREG | 0o600, 1, "belongs to another user"),
        (stat.S_IFIFO | 0o600, 0, "is not a regular file"),
        (stat.S_IFDIR | 0o700, 0, "is not a regular file"),
        (stat.S_IFLNK | 0o777, 0, "is a link"),
    ],
)
def test_what_is_refused(mode, owner, why):
    found = os.stat_result((mode, 0, 0, 1, os.geteuid() + owner, 0, 0, 0, 0, 0))
    assert own_files.explain_refusal(found) == why
