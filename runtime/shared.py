"""Shared libraries: made from objects by the system's C compiler, and checked before they are loaded."""

from __future__ import annotations

import importlib.util
import os
import shlex
import shutil
import struct
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import tvm_ffi

from ..errors import ArtifactError
from .link import first_line
from .threads import load_openmp

_COMPILERS = ("cc", "gcc", "clang")
# Only packed functions are visible, so no program can meet another's kernels. Symbols of tvm-ffi and of OpenMP are
# open: the process that loads the library has them.
_VERSION_SCRIPT = "{ global: __tvm_ffi_*; local: *; };"
_FLAGS = ("-shared", "-Wl,-z,noexecstack", "-Wl,-z,text", "-Wl,-z,relro", "-Wl,-z,now", "-lm")
_ELF_HEADER = struct.Struct("<16sHHIQQQIHHHHHH")


def compiler() -> list[str] | None:
    """The command that links: ``$CC``, the system's compiler, or that of the package ziglang; None without any."""
    if os.environ.get("CC"):
        return shlex.split(os.environ["CC"])
    found = next(filter(None, map(shutil.which, _COMPILERS)), None)
    if found:
        return [found]
    if importlib.util.find_spec("ziglang"):
        return [sys.executable, "-m", "ziglang", "cc"]
    return None


def link_shared(objects: Sequence[bytes], output: Path, command: Sequence[str]) -> None:
    """Link objects into the shared library ``output``; ArtifactError with the linker's first words if it fails."""
    with tempfile.TemporaryDirectory(prefix="tilewright-") as folder:
        script = Path(folder, "exports")
        script.write_text(_VERSION_SCRIPT)
        _run(command, [f"-Wl,--version-script={script}", *_FLAGS], objects, output, Path(folder))


def link_relocatable(objects: Sequence[bytes], output: Path, command: Sequence[str]) -> None:
    """Join objects into one; ArtifactError if it fails."""
    with tempfile.TemporaryDirectory(prefix="tilewright-") as folder:
        _run(command, ["-r", "-nostdlib"], objects, output, Path(folder))


def _run(command: Sequence[str], flags: Sequence[str], objects: Sequence[bytes], output: Path, folder: Path) -> None:
    line = [*command, *map(str, write_objects(objects, folder)), *flags, "-o", str(output)]
    try:
        done = subprocess.run(line, capture_output=True, text=True)
    except OSError as error:
        raise ArtifactError(f"cannot link with '{command[0]}': {error.strerror}; set CC to a C compiler") from error
    if done.returncode:
        reason = (done.stderr or done.stdout).strip().splitlines() or ["no reason given"]
        raise ArtifactError(f"'{command[0]}' cannot link {output.name}: {reason[0]}")


def write_objects(objects: Sequence[bytes], folder: Path) -> list[Path]:
    """Write objects into a folder, named by their place in the order."""
    files = [folder / f"{i:04}.o" for i in range(len(objects))]
    for file, data in zip(files, objects, strict=True):
        file.write_bytes(data)
    return files


def open_shared(path: Path) -> tuple[tvm_ffi.Module, bytes]:
    """Load a shared library, and give its bytes too. ArtifactError for what is no library, or not whole."""
    try:
        data = path.read_bytes()
    except OSError as error:
        raise ArtifactError(f"cannot read {path}: {error.strerror}") from error
    _check_elf(path, data)
    load_openmp()
    with tempfile.TemporaryDirectory(prefix="tilewright-") as folder:
        # A name that no library was loaded from: the system's loader gives an older library of the same name, even
        # when the file is another by now.
        name = Path(folder, path.name)
        name.symlink_to(path.resolve())
        try:
            return tvm_ffi.load_module(name), data
        except (RuntimeError, ValueError, OSError) as error:
            raise ArtifactError(f"cannot load {path}: {first_line(error).replace(str(name), path.name)}") from error


def _check_elf(path: Path, data: bytes) -> None:
    """The system's loader trusts the file's headers: a truncated library would kill the process."""
    if len(data) < _ELF_HEADER.size or data[:4] != b"\x7fELF":
        raise ArtifactError(f"{path} is not a program made by Tilewright")
    header = _ELF_HEADER.unpack_from(data)
    table_end = header[6] + header[11] * header[12]
    if table_end > len(data):
        raise ArtifactError(f"{path} is truncated: it has {len(data)} bytes of {table_end}")
