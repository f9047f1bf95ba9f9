"""Sections and symbols of ELF files, read without loading them."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass

_MAGIC = b"\x7fELF\x02\x01"  # 64 bits, little endian
HEADER = struct.Struct("<16sHHIQQQIHHHHHH")
SECTION = struct.Struct("<IIQQQQIIQQ")
_SYMBOL_ROW = struct.Struct("<IBBHQQ")
_RELOCATION = struct.Struct("<QQq")
_SYMTAB, _RELA, _DYNSYM = 2, 4, 11
_LOADED = 2
_FUNCTION, _LOCAL, _HIDDEN = 2, 0, (1, 2)

_MACHINES = {62: "x86_64", 183: "aarch64"}


class ElfError(ValueError):
    """The bytes are no ELF file, or end before what its headers name."""


def is_elf(data: bytes) -> bool:
    """Return whether the bytes begin as a 64-bit little-endian ELF file does."""
    return data.startswith(_MAGIC)


def read_machine(data: bytes) -> str:
    """Linux's name of an ELF file's machine; "" for one that is no target."""
    return _MACHINES.get(int.from_bytes(data[18:20], "little"), "")


@dataclass(frozen=True)
class Symbol:
    """A symbol that is not local: ``defined`` in the file or elsewhere; a ``weak`` one need not be anywhere."""

    name: str
    defined: bool
    function: bool
    weak: bool


def list_symbols(data: bytes, dynamic: bool = False) -> list[Symbol]:
    """The symbols of an object, or the ``dynamic`` ones of a library, that others see. ElfError as ``read_section``."""
    rows, found = _section_rows(data)[0], []
    for row in rows:
        if row[1] != (_DYNSYM if dynamic else _SYMTAB):
            continue
        if row[6] >= len(rows):
            raise ElfError("its symbols have no names")
        names, table = _section_content(data, rows[row[6]]), _section_content(data, row)
        for at in range(0, len(table) - _SYMBOL_ROW.size + 1, _SYMBOL_ROW.size):
            name, info, other, section, *_ = _SYMBOL_ROW.unpack_from(table, at)
            text = names[name:].split(b"\0", 1)[0].decode(errors="replace")
            if text and info >> 4 != _LOCAL and not (section and other & 3 in _HIDDEN and dynamic):
                found.append(Symbol(text, section != 0, info & 15 == _FUNCTION, info >> 4 == 2))
    return found


def list_defined_functions(data: bytes) -> set[str]:
    """The names of the functions that an object has for others. ElfError as ``read_section``."""
    return {symbol.name for symbol in list_symbols(data) if symbol.defined and symbol.function}


def list_relocations(data: bytes) -> Iterator[int]:
    """The types of an object's relocations in what is loaded. ElfError as ``read_section``."""
    rows, _ = _section_rows(data)
    for row in rows:
        if row[1] == _RELA and row[7] < len(rows) and rows[row[7]][2] & _LOADED:
            content = _section_content(data, row)
            for at in range(0, len(content) - _RELOCATION.size + 1, _RELOCATION.size):
                yield _RELOCATION.unpack_from(content, at)[1] & 0xFFFFFFFF


def read_section(data: bytes, name: str) -> bytes | None:
    """The content of the first section of this name; None without one. ElfError for what is no whole ELF file."""
    rows, names = _section_rows(data)
    texts = _section_content(data, rows[names])
    for row in rows:
        if texts[row[0] :].split(b"\0", 1)[0] == name.encode():
            return _section_content(data, row)
    return None


def _section_rows(data: bytes) -> tuple[list[tuple[int, ...]], int]:
    """The headers of all sections, and the number of the one with their names."""
    try:
        header = HEADER.unpack_from(data)
        begin, size, count, names = header[6], header[11], header[12], header[13]
        if not is_elf(data) or size != SECTION.size or names >= count:
            raise ElfError("its header is not that of a 64-bit ELF file")
        rows = [SECTION.unpack_from(data, begin + size * i) for i in range(count)]
    except (struct.error, OverflowError) as error:
        raise ElfError("it ends before its section headers do") from error
    return rows, names


def _section_content(data: bytes, row: tuple[int, ...]) -> bytes:
    offset, size = row[4], row[5]
    if offset + size > len(data):
        raise ElfError(f"it has {len(data)} bytes of {offset + size}")
    return data[offset : offset + size]
