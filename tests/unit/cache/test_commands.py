"""The cache's settings, and what the commands say and do about it."""

import json
from pathlib import Path

import pytest
from cache_case import built, check, damage, only

import tilewright as tw
from tilewright.core.own_files import cache_folder
from tilewright.driver.cache import compile_cache
from tilewright.driver.cache.store import Cache
from tilewright.tools import cache as cache_tool
from tilewright.tools import cli
from tilewright.tools import compile as compile_tool


@pytest.mark.parametrize(
    "text, nbytes", [("1000", 1000), ("4GiB", 4 << 30), ("1.5 MB", 1_500_000), ("2k", 2000), ("0", 0)]
)
def test_sizes(text, nbytes):
    assert compile_cache.parse_size(text, "it") == nbytes


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
    assert cache_folder() == Path(want)


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
    compile_cache.verify(Cache(folder))
    assert {item.path: round(item.used, 3) for item in Cache(folder).items()} == before


def test_the_compile_command_says_where_it_was_from(folder, path, capsys):
    words = [path, "--input-shape", "x:4,32", "--workers", "0"]
    for extra, start in (([], "compiled in"), ([], "taken from the cache in"), (["--no-cache"], "compiled in")):
        assert compile_tool.main([*words, *extra]) == 0
        assert capsys.readouterr().out.splitlines()[2].startswith(start)
    assert compile_tool.main([*words, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["cached"] is True
    check(tw.load_module(path.replace(".onnx", ".so")))
