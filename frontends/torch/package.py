"""The file of an exported program, a zip archive, read in a worker: what is where in it, and its checked text.

``torch.export.save`` stores entries as they are. Compressed ones are refused: then nothing is larger than the file.
"""

from __future__ import annotations

import os
import stat
import zipfile
from collections.abc import Mapping
from typing import BinaryIO, NamedTuple

from torch._export.serde import schema
from torch.export.pt2_archive import constants as places

from ...core.errors import ModelError
from ...core.limits import ModelLimits
from .program_text import REMEDY, BadProgramError, Checker, ProgramText, bytes_of, check_program, load_json

MODEL = "model"  # what torch.export.save calls the program
MOST_ENTRIES = 1_000_000
_SPREAD, _SPREAD_BYTES = 4, 256 << 20  # what weights may have together, against the file: some share elements


class Stored(NamedTuple):
    """A weight or a constant, and where its elements are in the file: ``begin`` and ``nbytes`` of their storage."""

    name: str
    begin: int
    nbytes: int
    dtype: int
    sizes: tuple[int, ...]
    strides: tuple[int, ...]
    offset: int
    is_param: bool
    requires_grad: bool


class Package(NamedTuple):
    """All that is read of a file."""

    program: ProgramText
    weights: tuple[Stored, ...]
    constants: tuple[Stored, ...]


def refuse_odd_file(path: str, label: str, limits: ModelLimits) -> None:
    """ModelError for what is no regular file, or a larger one than it may be."""
    try:
        status = os.stat(path)
    except OSError as error:
        raise ModelError(f"{label}: cannot be read: {error.strerror or error}") from None
    except ValueError:
        raise ModelError(f"{label!r}: cannot be read: the path has a null character") from None
    if not stat.S_ISREG(status.st_mode):
        raise ModelError(f"{label}: cannot be read: it is not a regular file")
    if limits.file_bytes is not None and status.st_size > limits.file_bytes:
        raise ModelError(f"{label} has {status.st_size} bytes, at most {limits.file_bytes} are read of a model like it")


def read_package(path: str, label: str, limits: ModelLimits) -> Package:
    """The file at a path, which errors call ``label``. ModelError for what is no exported program, or may do harm."""
    refuse_odd_file(path, label, limits)
    try:
        with open(path, "rb") as file:
            if file.read(4) != b"PK\x03\x04":
                raise ModelError(f"{label} is no exported program: {REMEDY}")
            return _package(file, limits)
    except BadProgramError as error:
        raise ModelError(f"{label} {error}: {error.remedy}") from None
    except (zipfile.BadZipFile, NotImplementedError, EOFError, OSError, ValueError) as error:
        reason = " ".join(str(error).split())[:200] or type(error).__name__
        raise ModelError(f"{label} cannot be read as an exported program: {reason}") from None


def _package(file: BinaryIO, limits: ModelLimits) -> Package:
    entries = _entries(file)
    if _read_text(file, entries, places.ARCHIVE_FORMAT_PATH, 100) != places.ARCHIVE_FORMAT_VALUE.encode():
        raise BadProgramError("is no exported program but another archive of torch")
    if "byteorder" in entries and _read_text(file, entries, "byteorder", 100) != b"little":
        raise BadProgramError("has its numbers in an order of bytes that this machine does not have")
    model = places.MODELS_FILENAME_FORMAT.format(MODEL)
    if model not in entries:
        raise BadProgramError("is no exported program but another archive of torch")
    if any(name.startswith(places.AOTINDUCTOR_DIR) for name in entries):
        raise BadProgramError("has compiled code, which is not run")
    for folder in (places.WEIGHTS_DIR, places.CONSTANTS_DIR):
        if f"{folder}{MODEL}.pt" in entries:
            raise BadProgramError("has pickled weights, as older versions of torch wrote them")
    program = check_program(_read_text(file, entries, model, limits.text_bytes), limits)
    size = os.fstat(file.fileno()).st_size
    weights = _read_stored(file, entries, places.WEIGHTS_DIR, places.WEIGHTS_CONFIG_FILENAME_FORMAT, limits)
    constants = _read_stored(file, entries, places.CONSTANTS_DIR, places.CONSTANTS_CONFIG_FILENAME_FORMAT, limits)
    if sum(map(_dense_bytes, (*weights, *constants))) > _SPREAD * size + _SPREAD_BYTES:
        raise BadProgramError("has weights that are far larger than it, whose elements repeat")
    return Package(program, weights, constants)


def _entries(file: BinaryIO) -> dict[str, tuple[int, int]]:
    """Where the entries' bytes begin, and how many there are, by their names without the archive's own."""
    with zipfile.ZipFile(file) as archive:
        infos = archive.infolist()
    if len(infos) > MOST_ENTRIES:
        raise BadProgramError(f"has {len(infos)} entries")
    found: dict[str, tuple[int, int]] = {}
    end, roots = 0, set()
    for info in sorted(infos, key=lambda info: info.header_offset):
        root, _, name = info.filename.partition("/")
        roots.add(root)
        if name in found:
            raise BadProgramError(f"has the entry '{name[:60]}' twice")
        if info.compress_type != zipfile.ZIP_STORED or info.compress_size != info.file_size or info.flag_bits & 1:
            raise BadProgramError(f"has the entry '{name[:60]}' compressed, and only stored ones are read")
        if info.header_offset < end:
            raise BadProgramError("has entries that overlap")
        file.seek(info.header_offset)
        header = file.read(30)
        if header[:4] != b"PK\x03\x04" or len(header) < 30:
            raise BadProgramError("has an entry without a header")
        name_bytes, extra_bytes = (int.from_bytes(header[at : at + 2], "little") for at in (26, 28))
        begin = info.header_offset + len(header) + name_bytes + extra_bytes
        end = begin + info.file_size
        if end > archive.start_dir:
            raise BadProgramError("ends within an entry")
        found[name] = begin, info.file_size
    if len(roots) > 1:
        raise BadProgramError("has entries in several folders")
    return found


def _read_text(file: BinaryIO, entries: Mapping[str, tuple[int, int]], name: str, most: int) -> bytes:
    if name not in entries:
        raise BadProgramError(f"is no exported program but another archive of torch, without '{name}'")
    begin, nbytes = entries[name]
    if nbytes > most:
        raise BadProgramError(f"has {nbytes} bytes of '{name}', at most {most} are read")
    file.seek(begin)
    return file.read(nbytes)


def _read_stored(
    file: BinaryIO, entries: Mapping[str, tuple[int, int]], folder: str, form: str, limits: ModelLimits
) -> tuple[Stored, ...]:
    """The weights or the constants, which are plain tensors, each within what the file has of it."""
    config = load_json(_read_text(file, entries, form.format(MODEL), limits.text_bytes))
    _refuse_pickles(config)
    made = Checker(limits).value(schema.PayloadConfig, config, "the weights")["config"]
    return tuple(_read_tensor(name, entry, entries, folder) for name, entry in made.items())


def _refuse_pickles(config: object) -> None:
    inner = config.get("config") if isinstance(config, dict) else None
    for name, entry in (inner if isinstance(inner, dict) else {}).items():
        kept = entry.get("path_name") if isinstance(entry, dict) else None
        plain = str(kept).startswith((places.WEIGHT_FILENAME_PREFIX, places.TENSOR_CONSTANT_FILENAME_PREFIX))
        if not plain or entry.get("use_pickle") is not False:
            raise BadProgramError(f"has '{name[:60]}' as a pickle, which is code, and not run: make it a plain tensor")


def _read_tensor(name: str, entry: Mapping, entries: Mapping[str, tuple[int, int]], folder: str) -> Stored:
    meta = entry["tensor_meta"]
    if meta is None or f"{folder}{entry['path_name']}" not in entries:
        raise BadProgramError(f"has no data of '{name}'")
    if meta["device"]["type"] != "cpu":
        raise BadProgramError(f"has '{name}' on {meta['device']['type']}: move it to the CPU first, by module.cpu()")
    numbers = [number.get("as_int") for number in (*meta["sizes"], *meta["strides"], meta["storage_offset"])]
    if any(number is None or not 0 <= number < 1 << 63 for number in numbers):
        raise BadProgramError(f"has '{name}' with a shape that is no numbers")
    rank = len(meta["sizes"])
    sizes, strides, offset = tuple(numbers[:rank]), tuple(numbers[rank:-1]), numbers[-1]
    begin, nbytes = entries[f"{folder}{entry['path_name']}"]
    element = bytes_of(meta["dtype"])
    last = offset + sum((size - 1) * stride for size, stride in zip(sizes, strides, strict=True))
    if (0 not in sizes and (last + 1) * element > nbytes) or nbytes % element:
        raise BadProgramError(f"has {nbytes} bytes of '{name}', which do not fit its shape {list(sizes)}")
    grad = meta["requires_grad"]
    return Stored(name, begin, nbytes, meta["dtype"], sizes, strides, offset, entry["is_param"], grad)


def _dense_bytes(tensor: Stored) -> int:
    total = bytes_of(tensor.dtype)
    for size in tensor.sizes:
        total *= size
    return total
