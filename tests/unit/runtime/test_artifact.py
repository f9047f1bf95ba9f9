"""Programs on disk: written whole or not at all, loaded without MLIR, refused in words."""

import os
import re
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from handmade import SHAPE, affine, affine_module, copy_module, copy_program
from refused import refused
from safetensors.numpy import load_file
from samples import campaign

import tilewright as tw
from tilewright.runtime.artifact import on_disk, shared
from tilewright.runtime.module import Module

X = np.random.default_rng(3).random(SHAPE, np.float32)

IN_A_FRESH_PROCESS = """
import sys
import numpy as np
import tilewright as tw
module = tw.load_module(sys.argv[1])
np.save(sys.argv[3], module(np.load(sys.argv[2]))[0])
assert not {"mlir", "llvm", "onnx", "loky"} & set(sys.modules), sorted(sys.modules)
"""


@pytest.fixture
def exported(tmp_path) -> Path:
    return affine_module(2).export_library(tmp_path / "affine.so")


def files(folder: Path) -> list[str]:
    return sorted(os.listdir(folder))


@campaign("affine.so-objects", "affine.tw-engine")
@pytest.mark.parametrize("executor", ["objects", "engine"])
@pytest.mark.parametrize("name", ["affine.so", "affine.tw"])
def test_a_fresh_process_runs_it_without_mlir(tmp_path, executor, name):
    path = affine_module(2, executor).export_library(tmp_path / name)
    assert path == tmp_path / name
    np.save(tmp_path / "x.npy", X)
    arguments = [str(path), str(tmp_path / "x.npy"), str(tmp_path / "y.npy")]
    subprocess.run([sys.executable, "-c", IN_A_FRESH_PROCESS, *arguments], check=True)
    np.testing.assert_allclose(np.load(tmp_path / "y.npy"), affine(X), rtol=1e-6)


def test_weights_lie_beside_it_and_nothing_else(exported):
    assert files(exported.parent) == ["affine.safetensors", "affine.so"]
    assert set(load_file(exported.with_suffix(".safetensors"))) == {"w.packed", "b"}


def test_a_program_without_weights_is_one_file(tmp_path):
    path = copy_module("float32", (4,)).export_library(tmp_path / "copy.so")
    assert files(tmp_path) == ["copy.so"]
    np.testing.assert_array_equal(tw.load_module(path)(np.ones(4, np.float32))[0], np.ones(4))


def test_it_has_no_text_relocations_no_executable_stack_and_shows_packed_functions_only(exported):
    def read(*command: str) -> str:
        return subprocess.run([*command, str(exported)], check=True, capture_output=True, text=True).stdout

    assert "TEXTREL" not in read("readelf", "-d")
    assert "RWE" not in read("readelf", "-lW")
    defined = [line.split()[-1] for line in read("nm", "-D", "--defined-only").splitlines()]
    assert defined == [f"__tvm_ffi_{name}" for name in ("create", "kernel", "metadata", "run_calls")]


def test_a_loaded_program_is_exported_again(exported, tmp_path):
    again = tw.load_module(exported).export_library(tmp_path / "again.so")
    shutil.rmtree(tmp_path / "affine.so", ignore_errors=True)
    np.testing.assert_allclose(tw.load_module(again)(X)[0], affine(X), rtol=1e-6)


def test_a_replaced_file_is_loaded_anew_while_the_old_one_runs(tmp_path):
    path = tmp_path / "program.so"
    copy_module("float32", SHAPE).export_library(path)
    old = tw.load_module(path)
    affine_module(2).export_library(path)
    np.testing.assert_allclose(tw.load_module(path)(X)[0], affine(X), rtol=1e-6)
    np.testing.assert_array_equal(old(X)[0], X)


def test_constants_of_a_loaded_program_are_in_the_process(exported):
    """Masked loads of pages that nobody has read yet are slow."""
    module = tw.load_module(exported)
    entries = re.split(r"^(?=[0-9a-f]+-[0-9a-f]+ )", Path("/proc/self/smaps").read_text(), flags=re.MULTILINE)
    own = [each for each in entries if str(exported.resolve()) in each and " r--p " in each.splitlines()[0]]
    sizes = [re.findall(r"^(?:Size|Rss): +(\d+) kB", each, re.MULTILINE) for each in own]
    assert sizes and all(size == present for size, present in sizes)
    del module


def test_two_loads_of_one_file_are_two_programs(exported):
    first, second = tw.load_module(exported), tw.load_module(exported, num_threads=1)
    np.testing.assert_array_equal(first(X)[0], second(X)[0])
    del first
    np.testing.assert_allclose(second(X)[0], affine(X), rtol=1e-6)


def test_exporting_twice_makes_two_files(tmp_path):
    module = affine_module(2)
    first, second = module.export_library(tmp_path / "a.so"), module.export_library(tmp_path / "b.so")
    weights = [path.with_suffix(".safetensors") for path in (first, second)]
    assert not weights[0].samefile(weights[1])
    assert weights[0].read_bytes() == weights[1].read_bytes()


def test_without_a_compiler_it_is_a_folder(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", "")
    monkeypatch.delenv("CC", raising=False)
    monkeypatch.setattr(shared.importlib.util, "find_spec", lambda name: None)
    path = affine_module(2).export_library(tmp_path / "affine.so")
    assert path == tmp_path / "affine.tw"
    np.testing.assert_allclose(tw.load_module(path)(X)[0], affine(X), rtol=1e-6)


def test_a_folder_is_replaced_whole(tmp_path):
    copy_module("float32", SHAPE).export_library(tmp_path / "p.tw")
    affine_module(2).export_library(tmp_path / "p.tw")
    assert files(tmp_path) == ["p.tw"]
    np.testing.assert_allclose(tw.load_module(tmp_path / "p.tw")(X)[0], affine(X), rtol=1e-6)


def test_refuses_to_write_where_it_cannot(tmp_path):
    module = affine_module(2)
    refused(lambda: module.export_library(tmp_path / "none" / "a.so"), "there is no folder")
    refused(lambda: module.export_library(tmp_path / "a.dll"), r"ends with .so \(or .tw")
    (tmp_path / "dir.so").mkdir()
    refused(lambda: module.export_library(tmp_path / "dir.so"), "dir.so: it is a folder")
    assert files(tmp_path) == ["dir.so"]


def test_leaves_the_old_program_when_linking_fails(exported, monkeypatch):
    before = exported.read_bytes()
    monkeypatch.setenv("CC", "false")
    refused(lambda: affine_module(2).export_library(exported), "'false' cannot link")
    monkeypatch.setenv("CC", "no-such-compiler")
    refused(lambda: affine_module(2).export_library(exported), "cannot link with 'no-such-compiler'")
    assert exported.read_bytes() == before
    assert files(exported.parent) == ["affine.safetensors", "affine.so"]


def test_refuses_what_is_no_program(tmp_path):
    refused(lambda: tw.load_module(tmp_path / "none.so"), "there is no program .*none.so")
    (tmp_path / "text.so").write_text("hello")
    refused(lambda: tw.load_module(tmp_path / "text.so"), "not a program made by Tilewright")
    (tmp_path / "empty.tw").mkdir()
    refused(lambda: tw.load_module(tmp_path / "empty.tw"), "not a program made by Tilewright")
    other = subprocess.run(["cc", "-shared", "-o", tmp_path / "other.so", "-x", "c", "/dev/null"])
    assert other.returncode == 0
    refused(lambda: tw.load_module(tmp_path / "other.so"), "not a program made by Tilewright")


def test_refuses_what_differs_in_one_bit(exported):
    data = bytearray(exported.read_bytes())
    data[len(data) // 2] ^= 1
    exported.write_bytes(data)
    refused(lambda: tw.load_module(exported), "affine.so is damaged: its checksum")


def test_refuses_a_folder_with_a_changed_or_missing_object(tmp_path):
    folder = affine_module(2).export_library(tmp_path / "p.tw")
    last = sorted(folder.glob("*.o"))[-1]
    data = last.read_bytes()
    last.write_bytes(data[:-1] + bytes([data[-1] ^ 1]))
    refused(lambda: tw.load_module(folder), f"damaged: '{last.name}'")
    last.unlink()
    refused(lambda: tw.load_module(folder), "incomplete")
    sums = (folder / "SHA256SUMS").read_text().splitlines(keepends=True)
    (folder / "SHA256SUMS").write_text("".join(sums[1:-1]))
    refused(lambda: tw.load_module(folder), "the code of program 'affine' is incomplete|not a program")
    (folder / "SHA256SUMS").write_text("what is this")
    refused(lambda: tw.load_module(folder), "p.tw is damaged")


def test_reads_what_a_program_says_without_loading_it(exported):
    _, manifest = on_disk.read_program(exported)
    assert [info.name for info in manifest.inputs] == ["x"]
    assert manifest == tw.load_module(exported).manifest
    assert manifest.calls and {call.kernel for call in manifest.calls} == {kernel.name for kernel in manifest.kernels}
    assert all(kernel.signature.results for kernel in manifest.kernels)


@pytest.mark.parametrize("part", [0.1, 0.5, 0.99])
def test_refuses_a_truncated_library(exported, part):
    data = exported.read_bytes()
    exported.write_bytes(data[: int(len(data) * part)])
    refused(lambda: tw.load_module(exported), "truncated")


def test_refuses_missing_truncated_and_wrong_weights(exported):
    weights = exported.with_suffix(".safetensors")
    data = weights.read_bytes()
    for bad in (data[:5], data[:100], data[:-1], b"\xff" * 200):
        weights.write_bytes(bad)
        refused(lambda: tw.load_module(exported), "affine.safetensors (is truncated|is not a weights file)")
    weights.write_bytes(data.replace(b'"tilewright.fingerprint":"', b'"tilewright.fingerprint":"0', 1)[:-1])
    refused(lambda: tw.load_module(exported), "affine.safetensors")
    weights.unlink()
    refused(lambda: tw.load_module(exported), "weights file .*affine.safetensors is missing")


def test_refuses_the_weights_of_another_program(exported):
    weights = exported.with_suffix(".safetensors")
    text = weights.read_bytes()
    begin = text.index(b'fingerprint":"') + len(b'fingerprint":"')
    weights.write_bytes(text[:begin] + bytes(64).replace(b"\0", b"a") + text[begin + 64 :])
    refused(lambda: tw.load_module(exported), "weights of another program")


def test_refuses_code_for_another_cpu():
    program = copy_program("float32", (4,))
    manifest = replace(program.manifest, cpu_features=("sse3", "quantum"))
    refused(
        lambda: manifest.check_cpu("model.so"),
        "model.so: compiled for target 'x86', a CPU with quantum, which this one lacks",
    )


def test_refuses_another_format_of_description():
    manifest = copy_program("float32", (4,)).manifest
    assert on_disk.Manifest.from_json(manifest.to_json(), "m.so") == manifest
    refused(lambda: on_disk.Manifest.from_json('{"format": 0}', "m.so"), "another version")
    refused(lambda: on_disk.Manifest.from_json("{", "m.so"), "m.so: its description")


def test_a_module_that_is_dropped_frees_its_weights_file():
    module = affine_module(2)
    function = module["main"]
    assert isinstance(module, Module)
    del module
    y = np.empty(SHAPE, np.float32)
    function(X, y)
    np.testing.assert_allclose(y, affine(X), rtol=1e-6)
