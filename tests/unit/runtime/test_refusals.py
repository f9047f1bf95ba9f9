"""What loading and exporting refuse, each in one line: wrong files, damaged weights, a full disk."""

from __future__ import annotations

import errno
import json
import os
import resource
import struct
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import process_memory
import pytest
from handmade import SHAPE, affine, affine_module
from onnx import helper, numpy_helper
from process_memory import memory, private
from refused import refused

import tilewright as tw
from tilewright.core.model import TensorInfo
from tilewright.core.program import METADATA_SECTION
from tilewright.runtime.artifact import elf, on_disk, shared
from tilewright.runtime.artifact.weights import Weights, WeightsWriter

X = np.random.default_rng(3).random(SHAPE, np.float32)


@pytest.fixture
def exported(tmp_path: Path) -> Path:
    return affine_module(2).export_library(tmp_path / "affine.so")


def saying(path: Path, **changes: Any) -> Path:
    """A library whose manifest says something else, which must not be longer; sealed as the compiler would."""
    data = path.read_bytes()
    text = elf.read_section(data, METADATA_SECTION)
    assert text is not None
    said = json.dumps(json.loads(text) | changes, sort_keys=True, ensure_ascii=False, separators=(",", ":")).encode()
    assert len(said) <= len(text)
    at = data.index(text)
    path.write_bytes(data[:at] + said.ljust(len(text)) + data[at + len(text) : -shared._SEAL_BYTES])
    shared.seal(path)
    return path


@pytest.mark.parametrize("changes", [{"format": 9}, {"format": 99}, {"abi": 9}, {"format": "x"}])
def test_another_version(exported: Path, changes: Any) -> None:
    saying(exported, compiler="9.9", **changes)
    refused(lambda: tw.load_module(exported), r"affine.so: made by Tilewright 9.9, whose programs differ: compile")


def test_another_cpu(exported: Path) -> None:
    saying(exported, cpu_features=["sse3", "quantum"])
    refused(
        lambda: tw.load_module(exported), "affine.so: compiled for target 'x86', a CPU with quantum, which this one"
    )
    refused(lambda: tw.load_module(exported, variant="haswell"), "there is no variant 'haswell'; .* 'x86'")


@pytest.mark.parametrize("name", ["pipe.so", "pipe.o"])
def test_a_pipe_is_not_waited_for(tmp_path: Path, name: str) -> None:
    os.mkfifo(tmp_path / name)
    refused(lambda: tw.load_module(tmp_path / name), f"cannot read .*{name}: it is not a regular file")


def test_pipes_and_folders_in_the_place_of_parts(exported: Path, tmp_path: Path) -> None:
    weights = exported.with_suffix(".safetensors")
    weights.unlink()
    os.mkfifo(weights)
    refused(lambda: tw.load_module(exported), "affine.safetensors is not a weights file")
    weights.unlink()
    weights.mkdir()
    refused(lambda: tw.load_module(exported), "affine.safetensors is not a weights file")
    folder = affine_module(2).export_library(tmp_path / "p.tw")
    (folder / "0000.o").unlink()
    os.mkfifo(folder / "0000.o")
    refused(lambda: tw.load_module(folder), "cannot read .*p.tw: it is not a regular file")
    refused(lambda: tw.load_module(tmp_path), "is not a program made by Tilewright, or incomplete")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_what_may_not_be_read(exported: Path) -> None:
    exported.chmod(0)
    refused(lambda: tw.load_module(exported), "cannot read .*affine.so: Permission denied")


def test_a_link_to_nothing(tmp_path: Path) -> None:
    (tmp_path / "gone.so").symlink_to(tmp_path / "none.so")
    refused(lambda: tw.load_module(tmp_path / "gone.so"), "cannot read .*gone.so: No such file")


def test_changed_weights_are_found_when_asked(exported: Path) -> None:
    weights = exported.with_suffix(".safetensors")
    data = bytearray(weights.read_bytes())
    data[-1] ^= 1
    weights.unlink()  # the module that was exported may have mapped it
    weights.write_bytes(data)
    tw.load_module(exported)
    refused(lambda: tw.load_module(exported, verify=True), "affine.safetensors is damaged: it is not as it was written")


INFOS = [TensorInfo("a", (4, 4), "float32"), TensorInfo("b", (2, 8), "float32"), TensorInfo("c", (3,), "int8")]


@pytest.fixture
def weights_file(tmp_path: Path) -> Path:
    with WeightsWriter(INFOS, tmp_path) as writer:
        for info in INFOS:
            writer.write(info.name, np.zeros(info.static_shape, info.dtype))
        writer.finish().save(tmp_path / "w.safetensors")
    return tmp_path / "w.safetensors"


def with_header(path: Path, change: Callable[[dict[str, Any]], object] | bytes) -> Path:
    """The file with another header: changed as JSON, or as it is given."""
    data = path.read_bytes()
    end = 8 + struct.unpack_from("<Q", data)[0]
    header = change
    if not isinstance(change, bytes):
        record = json.loads(data[8:end])
        change(record)
        header = json.dumps(record).encode()
    assert isinstance(header, bytes)
    header += b" " * (-(8 + len(header)) % 64)
    path.write_bytes(struct.pack("<Q", len(header)) + header + data[end:])
    return path


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda h: h["b"].update(data_offsets=[0, 64]), "the place of 'b' overlaps another"),
        (lambda h: h["b"].update(data_offsets=[32, 96]), "the place of 'b' overlaps another"),
        (lambda h: h["c"].update(data_offsets=[131, 134]), "the place of 'c' leaves a hole before it"),
        (
            lambda h: h.update(d={"dtype": "U8", "shape": [9], "data_offsets": [131, 140]}),
            "truncated: it has .* bytes of",
        ),
        (lambda h: h.pop("c"), "damaged: 3 bytes follow its last weight"),
        (lambda h: h["a"].update(data_offsets=[64, 0]), "its header is not of that format"),
        (lambda h: h["a"].update(data_offsets=[-64, 0]), "its header is not of that format"),
        (lambda h: h["a"].update(data_offsets=[0.0, 64.0]), "its header is not of that format"),
        (lambda h: h["a"].update(shape=[1 << 70]), "its header is not of that format"),
        (lambda h: h["a"].update(shape=[True, 16]), "its header is not of that format"),
        (lambda h: h["a"].update(dtype="F128"), "its header is not of that format"),
        (lambda h: h["a"].pop("dtype"), "its header is not of that format"),
        (lambda h: h.update(__metadata__=[]), "its header is not of that format"),
        (lambda h: h.update(__metadata__={}), "has the weights of another program"),
        (lambda h: h["a"].update(dtype="I32"), r"has the weight 'a' as I32\[4, 4\], the program has F32\[4, 4\]"),
        (lambda h: h["a"].update(shape=[2, 8]), r"has the weight 'a' as F32\[2, 8\], the program has F32\[4, 4\]"),
        (lambda h: h.update(x=h.pop("a")), "does not have the weight 'a' of 64 bytes"),
        (b'{"a": 1, "a": 2}', "its header has 'a' twice"),
        (b"[" * 100_000, "its header is not of that format"),
        (b"[]", "its header is not of that format"),
        (b"\xff\xfe", "its header is not of that format"),
    ],
)
def test_headers_that_cannot_be(weights_file: Path, change: Any, message: str) -> None:
    fingerprint = Weights.open(weights_file).fingerprint
    with_header(weights_file, change)
    refused(lambda: Weights.open(weights_file).check(INFOS, fingerprint), message)


def test_places_that_are_not_aligned(tmp_path: Path, weights_file: Path) -> None:
    def exchange(header: dict[str, Any]) -> None:
        header["c"]["data_offsets"], header["b"]["data_offsets"] = [64, 67], [67, 131]

    fingerprint = Weights.open(weights_file).fingerprint
    with_header(weights_file, exchange)
    refused(lambda: Weights.open(weights_file).check(INFOS, fingerprint), "weight 'b' at .*, no multiple of 64")


@pytest.mark.parametrize("data", [b"", b"\0" * 8, b"\0" * 7, struct.pack("<Q", 1 << 63) + b"{}", b"\x02" + bytes(7)])
def test_files_without_a_header(tmp_path: Path, data: bytes) -> None:
    (tmp_path / "w").write_bytes(data)
    refused(lambda: Weights.open(tmp_path / "w"), "w is not a weights file")


def full(*_: Any, **__: Any) -> Any:
    raise OSError(errno.ENOSPC, "No space left on device")


@pytest.mark.parametrize("name", ["p.so", "p.tw", "p.o"])
@pytest.mark.parametrize("part", ["code", "weights"])
def test_a_full_disk_leaves_the_old_program_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, part: str
) -> None:
    folder = tmp_path / "out"
    folder.mkdir()
    module = affine_module(2)

    def export() -> Path:
        save = on_disk.save_object if name.endswith(".o") else on_disk.save
        return save(folder / name, module._program.code, module._program.weights)

    path = export()
    before = {file: file.read_bytes() for file in folder.rglob("*") if file.is_file()}
    with monkeypatch.context() as patch:
        if part == "weights":
            patch.setattr(os, "sendfile", full)
            patch.setattr(os, "link", full)
        else:
            patch.setattr(shared, "write_objects", full)
            patch.setattr(on_disk, "write_objects", full)
        refused(export, f"cannot write .*{'' if part == 'weights' else name}.*: No space left on device")
    assert {file: file.read_bytes() for file in folder.rglob("*") if file.is_file()} == before
    if name != "p.o":
        np.testing.assert_allclose(tw.load_module(path)(X)[0], affine(X), rtol=1e-6)


LIMITED = """
import resource, signal, sys
import tilewright as tw
module = tw.load_module(sys.argv[1])
resource.setrlimit(resource.RLIMIT_FSIZE, (8192, resource.RLIM_INFINITY))
try:
    module.export_library(sys.argv[2])
except tw.ArtifactError as error:
    print(error)
"""


@pytest.mark.parametrize("suffix", [".so", ".tw"])
def test_files_that_may_not_grow(tmp_path: Path, suffix: str) -> None:
    assert resource.getrlimit(resource.RLIMIT_FSIZE)[1] == resource.RLIM_INFINITY
    source = affine_module(2).export_library(tmp_path / f"source{suffix}")
    command = [sys.executable, "-c", LIMITED, str(source), str(tmp_path / f"copy{suffix}")]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    assert done.stdout.count("\n") == 1 and f"copy{suffix}" in done.stdout and "File too large" in done.stdout
    assert not [name for name in os.listdir(tmp_path) if "copy" in name]


SHARED = """
import os, sys
import numpy as np
import tilewright as tw
import tilewright.runtime.module
sys.path.append(sys.argv[2])
from process_memory import private
before = private(os.getpid())
module = tw.load_module(sys.argv[1], num_threads=1)
module(np.ones(module.inputs[0].static_shape, np.float32))
print(before, flush=True)
sys.stdin.readline()
"""


def test_processes_share_the_weights(tmp_path: Path) -> None:
    weight = np.random.default_rng(0).random((4096, 4096), np.float32)
    x, y = (helper.make_tensor_value_info(n, onnx.TensorProto.FLOAT, [1, 4096]) for n in "xy")
    nodes = [helper.make_node("MatMul", ["x", "w"], ["y"])]
    graph = helper.make_graph(nodes, "net", [x], [y], [numpy_helper.from_array(weight, "w")])
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=10)
    path = tw.compile(made, workers=0, cache=False).export_library(tmp_path / "net.so")
    command = [sys.executable, "-c", SHARED, str(path), str(Path(process_memory.__file__).parent)]
    running = [subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) for _ in range(2)]
    try:
        before = [int(process.stdout.readline()) for process in running if process.stdout]
        for process, own in zip(running, before, strict=True):
            assert memory(process.pid)["Rss"] > weight.nbytes
            assert private(process.pid) - own < weight.nbytes // 4
    finally:
        for process in running:
            process.communicate("\n")
