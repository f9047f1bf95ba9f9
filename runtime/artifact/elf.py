"""Sections of ELF files, read without loading them."""

from __future__ import annotations

import struct

_MAGIC = b"\x7fELF\x02\x01"  # 64 bits, little endian
HEADER = struct.Struct("<16sHHIQQQIHHHHHH")
SECTION = struct.Struct("<IIQQQQIIQQ")
_SYMBOL = struct.Struct("<IBBHQQ")
_FUNCTION, _OPEN = 2, (1, 2)  # a symbol's type; how it is bound: for all, or where nobody else has one


_MACHINES = {62: "x86_64", 183: "aarch64"}


class ElfError(ValueError):
    """The bytes are no ELF file, or end before what its headers name."""


def is_elf(data: bytes) -> bool:
    """Return whether the bytes begin as a 64-bit little-endian ELF file does."""
    return data.startswith(_MAGIC)


def read_machine(data: bytes) -> str:
    """Linux's name of an ELF file's machine; "" for one that is no target."""
    return _MACHINES.get(int.from_bytes(data[18:20], "little"), "")


def read_section(data: bytes, name: str) -> bytes | None:
    """The content of the first section of this name; None without one. ElfError for what is no whole ELF file."""
    try:
        header = HEADER.unpack_from(data)
        begin, size, count, names = header[6], header[11], header[12], header[13]
        if not is_elf(data) or size != SECTION.size or names >= count:
            raise ElfError("its header is not that of a 64-bit ELF file")
        rows = [SECTION.unpack_from(data, begin + size * i) for i in range(count)]
    except (struct.error, OverflowError) as error:
        raise ElfError("it ends before its section headers do") from error
    texts = _section_content(data, rows[names])
    for row in rows:
        if _text_at(texts, row[0]) == name:
            return _section_content(data, row)
    return None


def defined_functions(data: bytes) -> set[str]:
    """The names of the functions that an object has for others. ElfError for what is no whole ELF file."""
    symbols, names = read_section(data, ".symtab") or b"", read_section(data, ".strtab") or b""
    whole = len(symbols) // _SYMBOL.size * _SYMBOL.size
    return {
        _text_at(names, name)
        for name, kind, _, section, _, _ in _SYMBOL.iter_unpack(symbols[:whole])
        if kind & 15 == _FUNCTION and kind >> 4 in _OPEN and section != 0
    }


def _text_at(texts: bytes, begin: int) -> str:
    return texts[begin:].split(b"\0", 1)[0].decode(errors="replace")


def _section_content(data: bytes, row: tuple[int, ...]) -> bytes:
    offset, size = row[4], row[5]
    if offset + size > len(data):
        raise ElfError(f"it has {len(data)} bytes of {offset + size}")
    return data[offset : offset + size]
