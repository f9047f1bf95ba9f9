"""Weights in a ``.safetensors`` file: written tensor by tensor, mapped for reading.

The data begins at a multiple of 64 bytes, and so does each tensor whose size is one (the format allows no holes): those
come first, the others behind them, wide elements before narrow ones, so that each is aligned to its elements.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import hashlib
import mmap
import os
import stat
import tempfile
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from ...core.errors import ArtifactError
from ...core.model import TensorInfo, numpy_dtype
from ..process.files import create_nameless, digest
from ..tensors.reused_memory import ReusedMemory
from . import weights_header

DATA_ALIGNMENT = 64
_SMALL = 32 << 20  # bytes that may be in memory until they are all written; new pages of a mapped file cost more
_PERIOD = 0.03  # seconds, in which some 30 MB are written
_BLANK = "0" * 64  # stands for the fingerprint until all data is written


def _order(info: TensorInfo) -> tuple[bool, int]:
    return info.nbytes % DATA_ALIGNMENT != 0, -numpy_dtype(info.dtype).itemsize


def _compute_fingerprint(blank_header: bytes, source: int | bytes, end: int) -> str:
    """The name of a weights file's content: a hash of its data, and of its header as it is without a fingerprint."""
    begin = len(blank_header)
    return hashlib.sha256(blank_header + digest(source, begin, end).encode()).hexdigest()


def lay_out_file(params: Sequence[TensorInfo], fingerprint: str) -> tuple[bytes, dict[str, tuple[int, int]]]:
    """The file's header, and where each tensor begins and ends in the file."""
    entries: dict[str, tuple[str, tuple[int, ...], int, int]] = {}
    end = 0
    for info in sorted(params, key=_order):
        begin, end = end, end + info.nbytes
        entries[info.name] = (*_storage_of(info), begin, end)
    header = weights_header.encode_header(entries, fingerprint, DATA_ALIGNMENT)
    return header, {name: (len(header) + a, len(header) + b) for name, (_, _, a, b) in entries.items()}


def _storage_of(info: TensorInfo) -> tuple[str, tuple[int, ...]]:
    """A tensor's dtype and shape in the file: bytes, where the format has no such dtype."""
    name = weights_header.NAMES.get(info.dtype)
    return (name, info.static_shape) if name else (weights_header.BYTES, (info.nbytes,))


def _map_to_write(descriptor: int, size: int) -> mmap.mmap | None:
    """The file as memory; None where its file system cannot do that (some of networks and of virtual machines)."""
    try:
        return mmap.mmap(descriptor, size)
    except OSError:
        return None


@contextmanager
def _leaving_memory(mapped: mmap.mmap) -> Iterator[None]:
    """Take pages of a mapped file out of memory while they are written, and at the end: the file has them."""
    done = threading.Event()

    def watch() -> None:
        while not done.wait(_PERIOD):
            mapped.madvise(mmap.MADV_DONTNEED)

    thread = threading.Thread(target=watch, daemon=True)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()
        mapped.madvise(mmap.MADV_DONTNEED)


class WeightsWriter:
    """Writes a nameless weights file in ``folder``, tensor by tensor in any order, in several threads.

    Nothing is left of it when the process ends or the writer is closed, unless ``Weights.save`` gives it a name.
    """

    def __init__(self, params: Sequence[TensorInfo], folder: Path | None = None) -> None:
        self._params = params
        self._header, self._places = lay_out_file(params, _BLANK)
        self._missing = set(self._places)
        self._end = max((end for _, end in self._places.values()), default=len(self._header))
        folder = folder or Path(tempfile.gettempdir())
        try:
            self._file = os.fdopen(create_nameless(folder), "r+b")
            os.posix_fallocate(self._file.fileno(), 0, self._end)  # a mapped page without room on disk is a signal
            os.pwrite(self._file.fileno(), self._header, 0)
        except OSError as error:
            raise ArtifactError(f"cannot write weights in {folder}: {error.strerror}") from error
        self._mapped = _map_to_write(self._file.fileno(), self._end)

    def __enter__(self) -> WeightsWriter:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    @contextmanager
    def place(self, info: TensorInfo, memory: ReusedMemory) -> Iterator[np.ndarray]:
        """An array to be filled with one tensor: in ``memory``, or where a large one lies in the file.

        What has been written is soon out of this process's memory, of which what it is made from takes enough.
        """
        begin, end = self._places[info.name]
        if self._mapped is None or end - begin <= _SMALL:
            array = memory.take(end - begin).view(numpy_dtype(info.dtype)).reshape(info.shape)
            yield array
            self.write(info.name, array)
            return
        with _leaving_memory(self._mapped):
            yield np.frombuffer(self._mapped, np.uint8)[begin:end].view(numpy_dtype(info.dtype)).reshape(info.shape)
        self._missing.discard(info.name)

    def write(self, name: str, array: np.ndarray) -> None:
        """Write the data of one tensor; its size must be the one announced."""
        begin, end = self._places[name]
        data = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
        if data.nbytes != end - begin:
            raise ArtifactError(f"weight '{name}' has {data.nbytes} bytes, {end - begin} were announced")
        try:
            while begin < end:
                begin += os.pwrite(self._file.fileno(), data[begin - end :].data, begin)
        except OSError as error:
            raise ArtifactError(f"cannot write weight '{name}': {error.strerror}") from error
        self._missing.discard(name)

    def finish(self) -> Weights:
        """Write the fingerprint, a hash of the content, and map the file. All tensors must have been written."""
        if self._missing:
            raise ArtifactError(f"weight '{min(self._missing)}' was never written")
        try:
            fingerprint = _compute_fingerprint(self._header, self._file.fileno(), self._end)
            os.pwrite(self._file.fileno(), lay_out_file(self._params, fingerprint)[0], 0)
        except OSError as error:
            raise ArtifactError(f"cannot write weights: {error.strerror}") from error
        return Weights.of_file(os.dup(self._file.fileno()), "the weights")


class Weights:
    """Weights in memory: a mapped file, or a part of a program's code. ``where`` names them in errors.

    ``data`` are all bytes, the header's too. ``owner`` is kept as long as these are; ``descriptor``, that of the file
    if there is one, is taken over. ArtifactError where the bytes are no weights file.
    """

    def __init__(self, data: np.ndarray, where: str, descriptor: int | None = None, owner: object = None) -> None:
        self.where = where
        self.data = data
        self._owner = owner
        self._file = None if descriptor is None else os.fdopen(descriptor, "rb")
        self._header = weights_header.decode_header(data, where)

    @staticmethod
    def open(path: Path) -> Weights:
        """Map the file; ArtifactError if it is not there, not whole or no weights file."""
        try:
            return Weights.of_file(os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK), str(path))
        except FileNotFoundError as error:
            raise ArtifactError(f"the weights file {path} is missing: it belongs next to the program") from error
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
        return Weights.of_file(descriptor, where)

    @staticmethod
    def of_file(descriptor: int, where: str) -> Weights:
        """Map the file of a descriptor, which is taken over. OSError where the system refuses."""
        try:
            found = os.fstat(descriptor)
            if not stat.S_ISREG(found.st_mode) or not found.st_size:
                raise ArtifactError(f"{where} is not a weights file")
            mapped = mmap.mmap(descriptor, 0, access=mmap.ACCESS_READ)
        except BaseException:
            os.close(descriptor)
            raise
        return Weights(np.frombuffer(mapped, np.uint8), where, descriptor)

    @staticmethod
    def at(address: int, size: int, where: str, owner: object) -> Weights:
        """Weights that lie in memory that ``owner`` keeps."""
        data = np.ctypeslib.as_array((ctypes.c_uint8 * size).from_address(address))
        data.flags.writeable = False
        return Weights(data, where, owner=owner)

    @property
    def fingerprint(self) -> str:
        """The name of the content: of all data, and the header."""
        return self._header.fingerprint

    @property
    def in_file(self) -> bool:
        """Return whether they are in a file of their own."""
        return self._file is not None

    def fileno(self) -> int:
        """The descriptor of the mapped file. ValueError without one."""
        if self._file is None:
            raise ValueError(f"{self.where} have no file of their own")
        return self._file.fileno()

    def intact(self) -> bool:
        """Return whether the content still has the fingerprint; reads all of it."""
        header = self.data[: self._header.begin].tobytes()
        blank = header.replace(self.fingerprint.encode(), _BLANK.encode(), 1)
        source = self.data.tobytes() if self._file is None else self.fileno()
        return self.fingerprint == _compute_fingerprint(blank, source, self._header.end)

    def verify(self) -> None:
        """Raise ArtifactError unless the content is intact."""
        if not self.intact():
            raise ArtifactError(f"{self.where} is damaged: it is not as it was written; copy or compile it again")

    def check(self, params: Sequence[TensorInfo], fingerprint: str) -> None:
        """Raise ArtifactError unless these are the weights with that fingerprint, each as the program wants it."""
        if self.fingerprint != fingerprint:
            raise ArtifactError(f"{self.where} has the weights of another program: copy or compile both files together")
        for info in params:
            self._check_tensor(info)

    def _check_tensor(self, info: TensorInfo) -> None:
        entry = self._header.tensors.get(info.name)
        if entry is None or entry.end - entry.begin != info.nbytes:
            raise ArtifactError(f"{self.where} does not have the weight '{info.name}' of {info.nbytes} bytes")
        if (entry.dtype, entry.shape) != _storage_of(info):
            found, wanted = (
                f"{dtype}{list(shape)}" for dtype, shape in ((entry.dtype, entry.shape), _storage_of(info))
            )
            raise ArtifactError(f"{self.where} has the weight '{info.name}' as {found}, the program has {wanted}")
        aligned = numpy_dtype(info.dtype).itemsize if info.nbytes % DATA_ALIGNMENT else DATA_ALIGNMENT
        if entry.begin % aligned:
            raise ArtifactError(f"{self.where} has the weight '{info.name}' at {entry.begin}, no multiple of {aligned}")

    def addresses(self, params: Sequence[TensorInfo], fingerprint: str) -> np.ndarray:
        """The addresses of the tensors; ArtifactError as ``check``."""
        self.check(params, fingerprint)
        base = self.data.ctypes.data
        return np.array([base + self._header.tensors[info.name].begin for info in params], np.uint64)

    def arrays(self, params: Sequence[TensorInfo]) -> list[np.ndarray]:
        """The weights as arrays where they lie; they were checked."""
        places = [self._header.tensors[info.name] for info in params]
        return [
            self.data[place.begin : place.end].view(numpy_dtype(info.dtype)).reshape(info.shape)
            for info, place in zip(params, places, strict=True)
        ]

    def save(self, path: Path) -> None:
        """Make ``path``, which no one else may use yet, a file of these weights.

        A nameless file gets the name if it lies on the same file system; else the bytes are copied, by the system and
        not through this process.
        """
        descriptor = self.fileno()
        if os.fstat(descriptor).st_nlink == 0:
            path.unlink(missing_ok=True)
            with contextlib.suppress(OSError):
                # The link of /proc is followed by linkat alone, which Python calls only when given a folder.
                os.link(f"/proc/self/fd/{descriptor}", path, src_dir_fd=descriptor, follow_symlinks=True)
                return
        done, size = 0, self.data.nbytes
        with path.open("wb") as target:
            while done < size:
                sent = os.sendfile(target.fileno(), descriptor, done, size - done)
                if not sent:
                    raise OSError(errno.EIO, f"{self.where} became shorter while it was copied")
                done += sent


def load_params(weights: Weights | None, params: Sequence[TensorInfo], fingerprint: str) -> list[np.ndarray]:
    """The weights that a program reads; ArtifactError where they are those of another one."""
    if weights is None:
        return []
    weights.addresses(params, fingerprint)  # which checks that
    return weights.arrays(params)
