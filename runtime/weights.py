"""Weights in a ``.safetensors`` file: written tensor by tensor, mapped for reading.

The data begins at a multiple of 64 bytes, and so does each tensor whose size is one (the format allows no holes): those
come first, the others behind them, wide elements before narrow ones, so that each is aligned to its elements.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import mmap
import os
import struct
import tempfile
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from ..errors import ArtifactError
from ..model import TensorInfo, numpy_dtype
from .files import create_nameless, digest
from .tensor import empty

ALIGNMENT = 64
_HEADER_LIMIT = 100 << 20  # as in the format's own library
_FINGERPRINT = "tilewright.fingerprint"
_SMALL = 16 << 20  # bytes that may be in memory until they are all written
_PERIOD = 0.03  # seconds, in which some 30 MB are written
_BLANK = "0" * 64  # stands for the fingerprint until all data is written

# The format's names; a dtype that it lacks is stored as bytes, and the program's manifest knows better.
_NAMES = {
    "bool": "BOOL",
    **{f"int{bits}": f"I{bits}" for bits in (8, 16, 32, 64)},
    **{f"uint{bits}": f"U{bits}" for bits in (8, 16, 32, 64)},
    **{f"float{bits}": f"F{bits}" for bits in (16, 32, 64)},
    "bfloat16": "BF16",
    "float8_e4m3fn": "F8_E4M3",
    "float8_e5m2": "F8_E5M2",
}
DTYPES = {name: dtype for dtype, name in _NAMES.items()}  # by the format's names


def _order(info: TensorInfo) -> tuple[bool, int]:
    return info.nbytes % ALIGNMENT != 0, -numpy_dtype(info.dtype).itemsize


def _fingerprint(blank_header: bytes, descriptor: int, end: int) -> str:
    """The name of a weights file's content: a hash of its data, and of its header as it is without a fingerprint."""
    begin = len(blank_header)
    return hashlib.sha256(blank_header + digest(descriptor, begin, end).encode()).hexdigest()


def layout(params: Sequence[TensorInfo], fingerprint: str) -> tuple[bytes, dict[str, tuple[int, int]]]:
    """The file's header, and where each tensor begins and ends in the file."""
    entries: dict[str, object] = {"__metadata__": {_FINGERPRINT: fingerprint}}
    places: dict[str, tuple[int, int]] = {}
    end = 0
    for info in sorted(params, key=_order):
        begin, end = end, end + info.nbytes
        known = info.dtype in _NAMES
        shape = list(info.shape) if known else [info.nbytes]
        entries[info.name] = {"dtype": _NAMES.get(info.dtype, "U8"), "shape": shape, "data_offsets": [begin, end]}
        places[info.name] = begin, end
    text = json.dumps(entries, ensure_ascii=False, separators=(",", ":")).encode()
    text += b" " * (-(8 + len(text)) % ALIGNMENT)
    header = struct.pack("<Q", len(text)) + text
    return header, {name: (len(header) + a, len(header) + b) for name, (a, b) in places.items()}


def _map_to_write(descriptor: int, size: int) -> mmap.mmap | None:
    """The file as memory; None where its file system cannot do that (some of networks and of virtual machines)."""
    try:
        return mmap.mmap(descriptor, size)
    except OSError:
        return None


@contextmanager
def _leaving_memory(mapped: mmap.mmap, size: int) -> Iterator[None]:
    """Take pages of a mapped file out of memory while ``size`` bytes of it are written, and at the end: the file has
    them."""
    done = threading.Event()

    def watch() -> None:
        while not done.wait(_PERIOD):
            mapped.madvise(mmap.MADV_DONTNEED)

    thread = threading.Thread(target=watch, daemon=True)
    if size > _SMALL:
        thread.start()
    try:
        yield
    finally:
        done.set()
        if size > _SMALL:
            thread.join()
        mapped.madvise(mmap.MADV_DONTNEED)


class WeightsWriter:
    """Writes a nameless weights file in ``folder``, one tensor at a time in any order.

    Nothing is left of it when the process ends or the writer is closed, unless ``Weights.save`` gives it a name.
    """

    def __init__(self, params: Sequence[TensorInfo], folder: Path | None = None) -> None:
        self._params = params
        self._header, self._places = layout(params, _BLANK)
        self._missing = set(self._places)
        self._end = max((end for _, end in self._places.values()), default=len(self._header))
        folder = folder or Path(tempfile.gettempdir())
        try:
            self._file = os.fdopen(create_nameless(folder), "r+b")
            os.posix_fallocate(self._file.fileno(), 0, self._end)  # a mapped page without room on disk is a signal
            self._file.write(self._header)
        except OSError as error:
            raise ArtifactError(f"cannot write weights in {folder}: {error.strerror}") from error
        self._mapped = _map_to_write(self._file.fileno(), self._end)

    def __enter__(self) -> WeightsWriter:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    @contextmanager
    def place(self, info: TensorInfo) -> Iterator[np.ndarray]:
        """An array to be filled with one tensor: where it lies in the file, or in memory where no file can be mapped.

        What has been written is soon out of this process's memory, of which what it is made from takes enough.
        """
        begin, end = self._places[info.name]
        if self._mapped is None:
            array = empty(info)
            yield array
            self.write(info.name, array)
            return
        with _leaving_memory(self._mapped, end - begin):
            yield np.frombuffer(self._mapped, np.uint8)[begin:end].view(numpy_dtype(info.dtype)).reshape(info.shape)
        self._missing.discard(info.name)

    def write(self, name: str, array: np.ndarray) -> None:
        """Write the data of one tensor; its size must be the one announced."""
        begin, end = self._places[name]
        data = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
        if data.nbytes != end - begin:
            raise ArtifactError(f"weight '{name}' has {data.nbytes} bytes, {end - begin} were announced")
        try:
            self._file.seek(begin)
            self._file.write(data.data)
        except OSError as error:
            raise ArtifactError(f"cannot write weight '{name}': {error.strerror}") from error
        self._missing.discard(name)

    def finish(self) -> Weights:
        """Write the fingerprint, a hash of the content, and map the file. All tensors must have been written."""
        if self._missing:
            raise ArtifactError(f"weight '{min(self._missing)}' was never written")
        try:
            self._file.flush()
            fingerprint = _fingerprint(self._header, self._file.fileno(), self._end)
            os.pwrite(self._file.fileno(), layout(self._params, fingerprint)[0], 0)
        except OSError as error:
            raise ArtifactError(f"cannot write weights: {error.strerror}") from error
        return Weights(os.dup(self._file.fileno()), "the weights")


class Weights:
    """A mapped weights file. Takes the descriptor over; ``where`` names the file in errors."""

    def __init__(self, descriptor: int, where: str) -> None:
        self.where = where
        self._file = os.fdopen(descriptor, "rb")
        size = os.fstat(descriptor).st_size
        header, begin = self._read_header(size)
        meta = header.pop("__metadata__", {})
        self.fingerprint: str = meta.get(_FINGERPRINT, "") if isinstance(meta, dict) else ""
        self._places = self._read_places(header, begin, size)
        self._begin, self._end = begin, max((b for _, b in self._places.values()), default=begin)
        mapped = mmap.mmap(descriptor, 0, access=mmap.ACCESS_READ)
        self.data = np.frombuffer(mapped, np.uint8)

    @staticmethod
    def open(path: Path) -> Weights:
        """Map the file; ArtifactError if it is not there, not whole or no weights file."""
        try:
            return Weights(os.open(path, os.O_RDONLY | os.O_CLOEXEC), str(path))
        except FileNotFoundError as error:
            raise ArtifactError(f"the weights file {path} is missing: it belongs beside the program") from error
        except OSError as error:
            raise ArtifactError(f"cannot read the weights file {path}: {error.strerror}") from error

    @staticmethod
    def of(data: bytes | memoryview, where: str) -> Weights:
        """A nameless file with the bytes of a weights file; ArtifactError where it cannot be written."""
        try:
            descriptor = create_nameless(Path(tempfile.gettempdir()))
            with os.fdopen(os.dup(descriptor), "wb") as file:
                file.write(data)
        except OSError as error:
            raise ArtifactError(f"cannot write weights in {tempfile.gettempdir()}: {error.strerror}") from error
        return Weights(descriptor, where)

    def _read_header(self, size: int) -> tuple[dict, int]:
        self._file.seek(0)
        prefix = self._file.read(8)
        length = struct.unpack("<Q", prefix)[0] if len(prefix) == 8 else -1
        if not 0 < length <= min(size - 8, _HEADER_LIMIT):
            raise ArtifactError(f"{self.where} is not a weights file, or is truncated")
        try:
            header = json.loads(self._file.read(length))
        except ValueError as error:
            raise ArtifactError(f"{self.where} is not a weights file") from error
        if not isinstance(header, dict):
            raise ArtifactError(f"{self.where} is not a weights file")
        return header, 8 + length

    def _read_places(self, header: dict, begin: int, size: int) -> dict[str, tuple[int, int]]:
        try:
            ends = {name: entry["data_offsets"] for name, entry in header.items()}
            places = {name: (begin + int(a), begin + int(b)) for name, (a, b) in ends.items()}
            good = all(begin <= a <= b for a, b in places.values())
        except (KeyError, TypeError, ValueError) as error:
            raise ArtifactError(f"{self.where} is not a weights file") from error
        end = max((b for _, b in places.values()), default=begin)
        if not good or end > size:
            raise ArtifactError(f"{self.where} is truncated: it has {size} bytes of {end}")
        return places

    def fileno(self) -> int:
        """The descriptor of the mapped file."""
        return self._file.fileno()

    def intact(self) -> bool:
        """Whether the content still has the fingerprint; reads the whole file."""
        header = os.pread(self.fileno(), self._begin, 0)
        blank = header.replace(self.fingerprint.encode(), _BLANK.encode(), 1)
        return self.fingerprint == _fingerprint(blank, self.fileno(), self._end)

    def addresses(self, params: Sequence[TensorInfo], fingerprint: str) -> np.ndarray:
        """The addresses of the tensors; ArtifactError unless this file is the one with that fingerprint."""
        if self.fingerprint != fingerprint:
            raise ArtifactError(f"{self.where} has the weights of another program: copy or compile both files together")
        base = self.data.ctypes.data
        result = np.empty(len(params), np.uint64)
        for i, info in enumerate(params):
            begin, end = self._places.get(info.name, (0, -1))
            if end - begin != info.nbytes:
                raise ArtifactError(f"{self.where} does not have the weight '{info.name}' of {info.nbytes} bytes")
            result[i] = base + begin
        return result

    def arrays(self, params: Sequence[TensorInfo]) -> list[np.ndarray]:
        """The weights as arrays on the mapped file."""
        places = [self._places[info.name] for info in params]
        return [
            self.data[begin:end].view(numpy_dtype(info.dtype)).reshape(info.shape)
            for info, (begin, end) in zip(params, places, strict=True)
        ]

    def save(self, path: Path) -> None:
        """Make ``path``, which no one else may use yet, a file of these weights.

        A nameless file gets the name if it lies on the same file system; else the bytes are copied, by the system and
        not through this process.
        """
        descriptor = self._file.fileno()
        if os.fstat(descriptor).st_nlink == 0:
            path.unlink(missing_ok=True)
            with contextlib.suppress(OSError):
                # The link of /proc is followed by linkat alone, which Python calls only when given a folder.
                os.link(f"/proc/self/fd/{descriptor}", path, src_dir_fd=descriptor, follow_symlinks=True)
                return
        done, size = 0, self.data.nbytes
        with path.open("wb") as target:
            while done < size:
                done += os.sendfile(target.fileno(), descriptor, done, size - done)
