"""Programs in TVM's spellings, as modules that are asked, saved in several formats, and loaded by a session."""

from __future__ import annotations

import tarfile
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tilewright as tw
import tilewright.tvm as tvm
import tilewright.tvm.testing
from tilewright.tvm import rpc, te
from tilewright.tvm.contrib import cc, tar, utils


@pytest.fixture(scope="module")
def built() -> Any:
    n = te.var("n")
    a = te.placeholder((n,), name="A")
    b = te.compute((n,), lambda i: a[i] + 1, name="B")
    return tvm.build(te.create_schedule(b.op), [a, b], "llvm", name="addone")


def test_a_device_says_what_it_is():
    device = tvm.cpu(0)
    assert device.exist and (device.device_type, device.device_id) == (1, 0)
    assert device.max_threads_per_block is None and device.sync() is None
    tensor = tvm.nd.array(np.ones(2, "float32"), device)
    assert tensor.device == tensor.ctx == tvm.device("llvm", 0) == device and isinstance(
        tensor.device, tvm.runtime.Device
    )


def run(module: Any) -> list[float]:
    made = tvm.nd.empty((3,), "float32")
    module(tvm.nd.array(np.arange(3, dtype="float32")), made)
    return made.numpy().tolist()


def test_what_a_module_is(built: Any):
    assert (built.type_key, built.format, built.is_dso_exportable, built.is_binary_serializable) == (
        *("llvm", "", True, False),
    )
    assert built.is_runnable and built.implements_function("addone") and not built.implements_function("other")
    assert "@" in built.get_source() and "ret" in built.get_source("asm")
    timed = built.time_evaluator("addone", tvm.cpu(), number=1, repeat=2, cooldown_interval_ms=0.01)
    assert len(timed(tvm.nd.array(np.ones(2, "float32")), tvm.nd.empty((2,), "float32")).results) == 2
    assert tvm.runtime.enabled("llvm") and not tvm.runtime.enabled("cuda") and tvm.runtime.num_threads() > 0
    assert tvm.testing.enabled_targets() == [("llvm", tvm.cpu(0))] and tvm.testing.device_enabled("llvm")
    assert tvm.runtime.convert(1024) == 1024 and tvm.runtime.convert([1, "a"]) == [1, "a"]
    assert tvm.runtime.convert(lambda x: x + 1)(2) == 3


@pytest.mark.parametrize(
    ("name", "given"),
    [
        ("a.so", {}),
        ("b.tar", {}),
        ("c.so", {"cc": "gcc", "options": ["-O1"]}),
        ("d.so", {"fcompile": cc.create_shared}),
        ("e.so", {"fcompile": cc.cross_compiler("gcc")}),
        ("f.archive", {"fcompile": tar.tar}),
    ],
)
def test_formats(built: Any, name: str, given: dict[str, Any]):
    temp = utils.tempdir()
    built.export_library(temp.relpath(name), **given)
    loaded = tvm.runtime.load_module(temp.relpath(name), "tar" if "archive" in name else "")
    assert run(loaded) == [1, 2, 3] and loaded.type_key == "library"
    loaded.export_library(temp.relpath("again.tar"))  # a library is kept as it is
    assert run(tvm.runtime.load_module(temp.relpath("again.tar"))) == [1, 2, 3]
    assert loaded.is_binary_serializable == (name.endswith("so"))


def test_texts_and_objects(built: Any):
    temp = utils.tempdir()
    for name, fmt in (("a.ll", ""), ("a.s", ""), ("b", "o"), ("c", "ll")):
        built.save(temp.relpath(name), fmt)
    assert {"a.ll", "a.s", "b", "c"} <= {*temp.listdir()}
    cc.create_shared(temp.relpath("b.so"), temp.relpath("b"))
    assert run(tvm.runtime.load_module(temp.relpath("b.so"))) == [1, 2, 3]


def test_a_session_with_this_process(built: Any):
    temp, remote = utils.tempdir(), rpc.LocalSession()
    built.export_library(temp.relpath("lib.tar"))
    remote.upload(temp.relpath("lib.tar"))
    assert run(remote.load_module("lib.tar")) == [1, 2, 3] and remote.cpu() == tvm.cpu(0)
    remote.upload(b"xy", "data")
    assert remote.download("data") == b"xy"
    remote.remove("data")
    with pytest.raises(tw.ArtifactError, match="has no 'data'"):
        remote.download("data")


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda module, path: module.save(path("x.bc")), tw.InputError, "not written as bitcode"),
        (lambda module, path: module.export_library(path("x.so"), addons=[1]), tw.InputError, "leave addons out"),
        (
            lambda module, path: module.time_evaluator("addone", f_preproc="cache_flush_cpu_non_first_arg"),
            *(tw.InputError, "caches are not flushed"),
        ),
        (lambda module, path: tar.untar(path("none.tar"), path("x")), tw.ArtifactError, "No such file"),
        (lambda module, path: rpc.LocalSession().upload(path("none.so")), tw.ArtifactError, "cannot upload"),
        (lambda module, path: rpc.LocalSession().upload(b"x"), tw.InputError, "by a name"),
    ],
)
def test_what_has_no_meaning_here_is_refused_in_words(
    built: Any, call: Callable[[Any, Callable[[str], str]], Any], error: type[Exception], message: str
):
    with pytest.raises(error, match=message):
        call(built, utils.tempdir().relpath)


@pytest.mark.parametrize("name, kind", [("../x", tarfile.REGTYPE), ("/x", tarfile.REGTYPE), ("x", tarfile.SYMTYPE)])
def test_an_archive_of_what_lies_outside_is_refused(name: str, kind: bytes, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delattr(tarfile, "data_filter", raising=False)  # as with Python before 3.11.4
    temp = utils.tempdir()
    with tarfile.open(temp.relpath("x.tar"), "w") as archive:
        member = tarfile.TarInfo(name)
        member.type, member.linkname = kind, "/etc"
        archive.addfile(member)
    with pytest.raises(tw.ArtifactError, match="is no file or folder inside of it"):
        tvm.runtime.load_module(temp.relpath("x.tar"))


def test_an_archive_of_something_else():
    temp = utils.tempdir()
    with open(temp.relpath("x.txt"), "w") as file:
        file.write("x")
    tar.tar(temp.relpath("x.tar"), [temp.relpath("x.txt")])
    with pytest.raises(tw.ArtifactError, match="no program in it"):
        tvm.runtime.load_module(temp.relpath("x.tar"))
