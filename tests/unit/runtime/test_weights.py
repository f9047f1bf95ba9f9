"""The weights file: aligned, without holes, in the format's own terms."""

import errno
import mmap
import os
import time

import ml_dtypes
import numpy as np
import pytest
from safetensors import safe_open

import tilewright as tw
from tilewright.core.model import FileSlice, Param, TensorInfo, numpy_dtype
from tilewright.core.sizes import require_static
from tilewright.runtime.artifact.weights import Weights, WeightsWriter, lay_out_file
from tilewright.runtime.tensors.reused_memory import ReusedMemory
from tilewright.runtime.tensors.tensor import aligned_bytes

INFOS = [
    TensorInfo("bytes", (3,), "int8"),
    TensorInfo("bias", (5,), "float32"),
    TensorInfo("kernel", (16, 32), "float32"),
    TensorInfo("half", (7,), "bfloat16"),
    TensorInfo("wide", (3,), "int64"),
    TensorInfo("f8", (9,), "float8_e4m3fnuz"),
    TensorInfo("nothing", (0, 4), "float32"),
    TensorInfo("scalar", (), "float64"),
    TensorInfo("große Gewichte", (64,), "uint8"),
]


def values() -> dict[str, np.ndarray]:
    random = np.random.default_rng(0)
    return {
        i.name: random.integers(0, 100, tuple(map(require_static, i.shape))).astype(numpy_dtype(i.dtype)) for i in INFOS
    }


def test_tensors_are_aligned_and_leave_no_holes():
    header, places = lay_out_file(INFOS, "abc")
    assert len(header) % 64 == 0
    end = len(header)
    for begin, behind in sorted(places.values()):
        assert begin == end
        end = behind
    for info in INFOS:
        begin, behind = places[info.name]
        assert begin % numpy_dtype(info.dtype).itemsize == 0
        assert begin % 64 == 0 or (behind - begin) % 64


def test_the_formats_own_library_reads_it(tmp_path):
    path = tmp_path / "w.safetensors"
    with WeightsWriter(INFOS, tmp_path) as writer:
        for name, value in reversed(values().items()):
            writer.write(name, value)
        made = writer.finish()
        made.save(path)
    assert [p.name for p in tmp_path.iterdir()] == ["w.safetensors"]
    with safe_open(path, "np") as file:
        assert file.metadata() == {"tilewright.fingerprint": made.fingerprint}
        for info in INFOS:
            if info.dtype in ("float32", "int8", "int64", "float64", "uint8"):
                np.testing.assert_array_equal(file.get_tensor(info.name), values()[info.name])


def test_addresses_are_those_of_the_data(tmp_path):
    with WeightsWriter(INFOS, tmp_path) as writer:
        for name, value in values().items():
            writer.write(name, value)
        weights = writer.finish()
    assert list(tmp_path.iterdir()) == []
    base = weights.data.ctypes.data
    for info, address in zip(INFOS, weights.addresses(INFOS, weights.fingerprint), strict=True):
        begin = int(address) - base
        assert weights.data[begin : begin + info.nbytes].tobytes() == values()[info.name].tobytes()


def test_refuses_what_was_not_announced(tmp_path):
    with WeightsWriter(INFOS, tmp_path) as writer:
        with pytest.raises(tw.ArtifactError, match="'bias' has 4 bytes, 20 were announced"):
            writer.write("bias", np.zeros(1, np.float32))
        with pytest.raises(tw.ArtifactError, match="was never written"):
            writer.finish()
    with pytest.raises(tw.ArtifactError, match="cannot write weights in"):
        WeightsWriter(INFOS, tmp_path / "none")


def test_refuses_a_tensor_that_is_not_there(tmp_path):
    info = TensorInfo("a", (4,), "float32")
    with WeightsWriter([info], tmp_path) as writer:
        writer.write("a", np.zeros(4, np.float32))
        weights = writer.finish()
    assert isinstance(weights, Weights)
    with pytest.raises(tw.ArtifactError, match="does not have the weight 'b' of 16 bytes"):
        weights.addresses([TensorInfo("b", (4,), "float32")], weights.fingerprint)
    with pytest.raises(tw.ArtifactError, match="does not have the weight 'a' of 32 bytes"):
        weights.addresses([TensorInfo("a", (8,), "float32")], weights.fingerprint)


def test_saving_a_nameless_file_names_it(tmp_path):
    info = TensorInfo("a", (4,), "bfloat16")
    with WeightsWriter([info], tmp_path) as writer:
        writer.write("a", np.ones(4, ml_dtypes.bfloat16))
        weights = writer.finish()
    weights.save(tmp_path / "one")
    if (tmp_path / "one").stat().st_dev == os.fstat(weights.fileno()).st_dev:
        assert (tmp_path / "one").stat().st_ino == os.fstat(weights.fileno()).st_ino


def test_the_fingerprint_is_the_contents(tmp_path):
    infos = [TensorInfo("a", (4,), "float32"), TensorInfo("b", (5 << 20,), "float32")]

    def made(first: float, last: float) -> Weights:
        with WeightsWriter(infos, tmp_path) as writer:
            writer.write("a", np.full(4, first, np.float32))
            writer.write("b", np.full(5 << 20, last, np.float32))
            return writer.finish()

    assert made(1, 2).fingerprint == made(1, 2).fingerprint
    assert len({made(a, b).fingerprint for a, b in ((1, 2), (1, 3), (2, 2))}) == 3
    weights = made(1, 2)
    weights.save(tmp_path / "w")
    assert Weights.open(tmp_path / "w").intact()
    with (tmp_path / "w").open("r+b") as file:
        file.seek(-1, os.SEEK_END)
        file.write(b"x")
    assert not Weights.open(tmp_path / "w").intact()


def test_saving_a_named_file_copies_it(tmp_path):
    info = TensorInfo("a", (4,), "bfloat16")
    with WeightsWriter([info], tmp_path) as writer:
        writer.write("a", np.ones(4, ml_dtypes.bfloat16))
        weights = writer.finish()
    weights.save(tmp_path / "one")
    weights.save(tmp_path / "two")
    assert (tmp_path / "one").read_bytes() == (tmp_path / "two").read_bytes()
    assert not (tmp_path / "one").samefile(tmp_path / "two")


@pytest.mark.parametrize(("small", "mapped"), [(0, True), (0, False), (64, True)])
def test_tensors_are_made_where_they_lie_or_in_reused_memory(tmp_path, monkeypatch, small, mapped):
    monkeypatch.setattr("tilewright.runtime.artifact.weights._SMALL", small)
    if not mapped:
        monkeypatch.setattr("tilewright.runtime.artifact.weights._map_to_write", lambda descriptor, size: None)
    memory = ReusedMemory(1 << 10)
    with WeightsWriter(INFOS, tmp_path) as writer, WeightsWriter(INFOS, tmp_path) as other:
        for info in INFOS:
            memory.begin()
            with writer.place(info, memory) as array:
                assert (array.shape, array.dtype) == (info.shape, numpy_dtype(info.dtype))
                array[...] = values()[info.name]
            other.write(info.name, values()[info.name])
        assert writer.finish().fingerprint == other.finish().fingerprint


def test_memory_is_reused_by_the_next_piece_of_work_alone():
    memory = ReusedMemory(256)
    sizes = (100, 1, 64)
    memory.begin()
    for size in sizes:  # the first piece of work says how much it takes
        memory.take(size)
    memory.begin()
    pieces = [memory.take(size) for size in sizes]
    assert [piece.nbytes for piece in pieces] == [100, 1, 64]
    assert all(piece.ctypes.data % 64 == 0 for piece in pieces)
    first, large = pieces[0], memory.take(1000)
    memory.begin()
    again = [memory.take(128), memory.take(200)]
    assert np.shares_memory(again[0], first)
    kept = [*pieces, large, again[1]]
    assert not any(np.shares_memory(a, b) for i, a in enumerate(kept) for b in kept[:i]), "what a piece has is its own"


def test_a_tensor_that_failed_was_never_written(tmp_path):
    info = TensorInfo("a", (4,), "float32")
    with WeightsWriter([info], tmp_path) as writer:
        with pytest.raises(KeyError), writer.place(info, ReusedMemory(64)):
            raise KeyError
        with pytest.raises(tw.ArtifactError, match="'a' was never written"):
            writer.finish()


def resident(kind: str) -> int:
    """Bytes of files that are in this process's memory: of a disk (RssFile), or of one in memory (RssShmem)."""
    with open("/proc/self/status") as file:
        [kilobytes] = [line.split()[1] for line in file if line.startswith(f"{kind}:")]
    return int(kilobytes) << 10


def test_what_is_written_leaves_the_memory(tmp_path):
    info = TensorInfo("a", (24 << 20,), "float32")
    with WeightsWriter([info], tmp_path) as writer:
        before = resident("RssFile") + resident("RssShmem")
        with writer.place(info, ReusedMemory(0)) as array:
            array[: 12 << 20] = 1
            deadline = time.monotonic() + 60
            while resident("RssFile") + resident("RssShmem") > before + (8 << 20):
                assert time.monotonic() < deadline, "the first half stays in memory"
                time.sleep(0.01)
            array[12 << 20 :] = 2
        assert resident("RssFile") + resident("RssShmem") < before + (8 << 20)
        [made] = writer.finish().arrays([info])
    assert np.all(made[: 12 << 20] == 1) and np.all(made[12 << 20 :] == 2)


def test_a_full_disk_is_found_before_anything_is_computed(tmp_path, monkeypatch):
    def full(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "posix_fallocate", full)
    with pytest.raises(tw.ArtifactError, match=r"cannot write weights in .*: No space left on device"):
        WeightsWriter(INFOS, tmp_path)


@pytest.mark.parametrize("offset", [0, 4, 3, mmap.PAGESIZE + 1])
def test_data_at_any_byte_is_in_memory_once(tmp_path, offset):
    data = np.arange(6 << 20, dtype=np.float32)
    (tmp_path / "x").write_bytes(bytes(offset) + data.tobytes())
    param = Param(TensorInfo("w", (3, 2 << 20), "float32"), FileSlice(tmp_path / "x", offset, data.nbytes))
    before = resident("RssFile")
    array = param.read_aligned(aligned_bytes)
    assert array.ctypes.data % 4 == 0 and array.flags.c_contiguous
    np.testing.assert_array_equal(array, data.reshape(3, -1))
    assert resident("RssFile") - before < (0 if offset % 4 else array.nbytes) + (4 << 20), "the file's pages stay"


def test_an_array_is_its_own_data():
    info = TensorInfo("w", (2, 3), "float32")
    array = np.arange(6, dtype=np.float32)
    assert np.shares_memory(Param(info, array).read_aligned(aligned_bytes), array)


def test_a_file_that_became_shorter_is_refused(tmp_path):
    (tmp_path / "x").write_bytes(bytes(12))
    param = Param(TensorInfo("w", (3,), "float32"), FileSlice(tmp_path / "x", 1, 12))
    with pytest.raises(tw.ModelError, match=r"x became shorter while it was read"):
        param.read_aligned(aligned_bytes)
