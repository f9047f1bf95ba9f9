"""Objects and shared libraries that code generators give: what is wrong with them, and how programs take them in."""

from __future__ import annotations

import ctypes
import os
import tempfile
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from ..core.cpus import ARCHITECTURES
from ..core.errors import ArtifactError, CompileError
from ..core.scratch import scratch_folder
from ..core.subgraph_code import SubgraphCode
from ..runtime.artifact import elf
from ..runtime.artifact.elf_object import data_object
from ..runtime.c.archive import run_llvm_tool
from ..workers.isolation import call_isolated

ELF_MAGIC = b"\x7fELF"
LIBRARY_SECTION = ".tilewright.library"  # of an object with the bytes of a shared library

_RELOCATABLE, _LIBRARY = 1, 3
_OWN = {"_init", "_fini", "_GLOBAL_OFFSET_TABLE_"}  # what a linker puts into libraries, or leaves open in objects
# Relocations that an object in a shared library cannot have: 32-bit addresses, and thread-local data of a program.
_FIXED = {"x86_64": {10, 11, 12, 14, 23}, "aarch64": {258, 259, 260}}
_LOAD_SECONDS = 60.0


def check_code(code: bytes, symbol: str | None, target: str, what: str) -> tuple[str, bool]:
    """The name of the function that code is called by, and whether it is a shared library.

    Raises CompileError, which begins with ``what``, for code of another kind or for another architecture, without the
    function, with fixed addresses, that needs what programs do not have, or a library that cannot be loaded here.
    """
    kind = int.from_bytes(code[16:18], "little") if elf.is_elf(code) else 0
    if kind not in (_RELOCATABLE, _LIBRARY):
        raise CompileError(f"{what}: its code is no object and no shared library (ELF, 64 bits)")
    library = kind == _LIBRARY
    machine, wanted = elf.read_machine(code), ARCHITECTURES[target.partition(" ")[0]].machine
    if machine != wanted:
        raise CompileError(f"{what}: its code is for {machine or 'another machine'}, the program's target is {wanted}")
    try:
        symbols = elf.list_symbols(code, library)
        relocations = set(elf.list_relocations(code)) if not library else set()
    except elf.ElfError as error:
        raise CompileError(f"{what}: its code is damaged: {error}") from error
    function = _find_function(symbols, symbol, what)
    if relocations & _FIXED[wanted]:
        raise CompileError(f"{what}: its object has fixed addresses: compile it with -fPIC")
    if wanted == os.uname().machine:
        if library:
            call_isolated(partial(_load_library, code, function), _LOAD_SECONDS, what)
        else:
            _refuse_unknown(symbols, what)
    return function, library


def _find_function(symbols: Sequence[elf.Symbol], symbol: str | None, what: str) -> str:
    functions = [each.name for each in symbols if each.defined and each.function and each.name not in _OWN]
    if symbol is None:
        if len(functions) != 1:
            raise CompileError(
                f"{what}: its code has {len(functions)} visible functions: name one (tw.NativeCode(symbol=...))"
            )
        return functions[0]
    if symbol not in functions:
        names = ", ".join(f"'{name}'" for name in functions[:5]) or "none"
        raise CompileError(f"{what}: its code has no visible function '{symbol}', it has {names}")
    return symbol


def _refuse_unknown(symbols: Sequence[elf.Symbol], what: str) -> None:
    """Raise CompileError for a symbol that an object needs, and that C's library does not have."""
    libraries = [ctypes.CDLL("libc.so.6"), ctypes.CDLL("libm.so.6")]
    for each in symbols:
        if each.defined or each.weak or each.name in _OWN:
            continue
        if not any(hasattr(library, each.name) for library in libraries):
            raise CompileError(
                f"{what}: its object needs '{each.name}', which C's library does not have: put it into the object, or "
                "give a shared library, which brings what it needs"
            )


def _load_library(code: bytes, function: str) -> None:
    with tempfile.NamedTemporaryFile(suffix=".so") as file:
        file.write(code)
        file.flush()
        getattr(ctypes.CDLL(file.name), function)


def make_linkable(code: SubgraphCode) -> bytes:
    """Code as an object that programs are linked with: it defines ``symbol`` and shows nothing else.

    Of a shared library that is where its bytes are, behind their number in 8 bytes. CompileError for an object that
    LLVM's tools cannot read.
    """
    if code.library:
        data = len(code.code).to_bytes(8, "little") + code.code
        return data_object(data, f"{LIBRARY_SECTION}.{code.symbol}", code.symbol, 16, like=code.code)
    with scratch_folder() as folder:
        file = Path(folder, "code.o")
        file.write_bytes(code.code)
        options = (
            f"--keep-global-symbol={code.function}",
            f"--redefine-sym={code.function}={code.symbol}",
            f"--set-symbol-visibility={code.function}=hidden",
        )
        try:
            run_llvm_tool("llvm-objcopy", *options, file)
        except ArtifactError as error:
            raise CompileError(f"{code.what}: its object cannot be taken in: {error}") from error
        return file.read_bytes()
