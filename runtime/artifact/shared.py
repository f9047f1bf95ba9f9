"""Shared libraries: made from objects by the system's C compiler, sealed, and checked before they are loaded.

A seal is a line behind the library's last byte with the SHA-256 of all before it, so that damage is found before the
system's loader sees it. It says nothing of who made the file.
"""

from __future__ import annotations

import ctypes
import hashlib
import importlib.util
import mmap
import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from ...core.errors import ArtifactError, first_line
from ...core.scratch import scratch_folder
from ..process.ffi import tvm_ffi
from ..process.files import read_regular
from ..process.threads import load_openmp
from . import elf

_COMPILERS = ("cc", "gcc", "clang")
# Only packed functions are visible, so no program can meet another's kernels. Symbols of tvm-ffi and of OpenMP are
# open: the process that loads the library has them.
_VERSION_SCRIPT = "{ global: __tvm_ffi_*; local: *; };"
_FLAGS = ("-shared", "-Wl,-z,noexecstack", "-Wl,-z,text", "-Wl,-z,relro", "-Wl,-z,now", "-lm")
# Bytes of a library's constants that are read as it is loaded; weights may follow.
_MOST_TOUCHED = 1 << 22
_SEAL = b"\ntilewright sha256:"
_SEAL_BYTES = len(_SEAL) + 64 + 1


def find_compiler(machine: str = "") -> list[str] | None:
    """The command that links: ``$CC``, the system's compiler, or that of the package ziglang; None without any.

    ``machine`` is what objects are for, as Linux calls it, where that is not this machine.
    """
    foreign = machine not in ("", os.uname().machine)
    if os.environ.get("CC"):
        try:
            return shlex.split(os.environ["CC"])
        except ValueError as error:
            raise ArtifactError(f"CC is {os.environ['CC']!r}, which is not a command: {error}") from error
    found = next(filter(None, map(shutil.which, [f"{machine}-linux-gnu-gcc"] if foreign else _COMPILERS)), None)
    if found:
        return [found]
    if importlib.util.find_spec("ziglang"):
        return [sys.executable, "-m", "ziglang", "cc", *(["-target", f"{machine}-linux-gnu"] if foreign else [])]
    return None


def no_compiler(machine: str) -> str:
    """Why nothing can be linked for a machine, and what would do."""
    own = machine == os.uname().machine
    name = " or ".join(_COMPILERS) if own else f"{machine}-linux-gnu-gcc"
    return f"there is no C compiler to link with: install {name}, or the package ziglang, or set CC"


def link_shared(objects: Sequence[bytes], output: Path, command: Sequence[str]) -> None:
    """Link objects into the shared library ``output``; ArtifactError with the linker's first words if it fails."""
    with scratch_folder() as folder:
        script = Path(folder, "exports")
        script.write_text(_VERSION_SCRIPT)
        _run_linker(command, [f"-Wl,--version-script={script}", *_FLAGS], objects, output, Path(folder))


def link_relocatable(objects: Sequence[bytes], output: Path, command: Sequence[str]) -> None:
    """Join objects into one; ArtifactError if it fails."""
    with scratch_folder() as folder:
        _run_linker(command, ["-r", "-nostdlib"], objects, output, Path(folder))


def _run_linker(
    command: Sequence[str], flags: Sequence[str], objects: Sequence[bytes], output: Path, folder: Path
) -> None:
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


def seal(library: Path) -> None:
    """Add the line that ``read_shared`` checks."""
    digest = hashlib.sha256(library.read_bytes()).hexdigest()
    with library.open("ab") as file:
        file.write(_SEAL + digest.encode() + b"\n")


def is_sealed(library: bytes) -> bool:
    """Return whether a library that ``read_shared`` took has a seal."""
    return library[-_SEAL_BYTES:].startswith(_SEAL)


def read_shared(path: Path, sealed: bool = True) -> bytes:
    """The bytes of a shared library; ArtifactError for what is no library, or has a seal that does not fit, or none."""
    try:
        data = read_regular(path)
    except OSError as error:
        raise ArtifactError(f"cannot read {path}: {error.strerror}") from error
    if not elf.is_elf(data):
        raise ArtifactError(f"{path} is not a program made by Tilewright")
    body, end = data[:-_SEAL_BYTES], data[-_SEAL_BYTES:]
    if not is_sealed(data):
        if not sealed:
            return data
        raise ArtifactError(f"{path} is not a program made by Tilewright, or is truncated: its checksum is missing")
    if end != _SEAL + hashlib.sha256(body).hexdigest().encode() + b"\n":
        raise ArtifactError(f"{path} is damaged: its checksum is not that of its content; copy or compile it again")
    return data


def open_shared(path: Path) -> tvm_ffi.Module:
    """Load a shared library that ``read_shared`` took; ArtifactError where the system does not."""
    load_openmp()
    with scratch_folder() as folder:
        # A name that no library was loaded from: the system's loader gives an older library of the same name, even
        # when the file is another by now.
        name = Path(folder, path.name.encode(errors="replace").decode())  # tvm-ffi takes no other names
        name.symlink_to(path.resolve())
        try:
            module = tvm_ffi.load_module(name)
        except (RuntimeError, ValueError, OSError) as error:
            raise ArtifactError(f"cannot load {path}: {first_line(error).replace(str(name), path.name)}") from error
    _touch_constants(path)
    return module


def _touch_constants(path: Path) -> None:
    """Read a byte of each page of a loaded library's constants, so that all of them are in the process.

    A load whose mask leaves out all lanes reads nothing, but where its page has not been read yet the processor finds
    that out by microcode, each time: kernels with such constants (IsNaN) took 3.5 times as long.
    """
    try:
        maps = Path("/proc/self/maps").read_text().splitlines()
    except (OSError, UnicodeDecodeError):
        return  # no Linux, or it does not say
    file = os.path.realpath(path)
    for line in maps:
        span, access, _, _, _, *name = line.split(maxsplit=5)
        if name == [file] and access == "r--p":
            start, end = (int(word, 16) for word in span.split("-"))
            for address in range(start, min(end, start + _MOST_TOUCHED), mmap.PAGESIZE):
                ctypes.string_at(address, 1)
