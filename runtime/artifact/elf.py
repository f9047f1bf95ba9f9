"""Sections of ELF files, read without loading them."""

from __future__ import annotations

import struct

_MAGIC = b"\x7fELF\x02\x01"  # 64 bits, little endian
HEADER = struct.Struct("<16sHHIQQQIHHHHHH")
SECTION = struct.Struct("<IIQQQQIIQQ")


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
        if texts[row[0] :].split(b"\0", 1)[0] == name.encode():
            return _section_content(data, row)
    return None


def _section_content(data: bytes, row: tuple[int, ...]) -> bytes:
    offset, size = row[4], row[5]
    if offset + size > len(data):
        raise ElfError(f"it has {len(data)} bytes of {offset + size}")
    return data[offset : offset + size]
