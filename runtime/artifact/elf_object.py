"""Relocatable ELF objects of data alone, written without a compiler: bytes need not go through one."""

from __future__ import annotations

import struct

from .elf import HEADER, SECTION

_SYMBOL = struct.Struct("<IBBHQQ")
_RELOCATABLE, _VERSION = 1, 1
_PROGBITS, _SYMTAB, _STRTAB = 1, 2, 3
_ALLOCATED = 2
_GLOBAL_OBJECT = 1 << 4 | 1
_HIDDEN = 2


def data_object(data: bytes, section: str, symbol: str, alignment: int, like: bytes) -> bytes:
    """An object for the machine of the object ``like``, with ``data`` as its one read-only section.

    ``symbol`` is where the data begins; only what it is linked with sees that.
    """
    names = "".join(f"\0{name}" for name in (section, ".symtab", ".strtab", ".note.GNU-stack", symbol)) + "\0"
    symbols = bytes(_SYMBOL.size) + _SYMBOL.pack(_name_offset(names, symbol), _GLOBAL_OBJECT, _HIDDEN, 1, 0, len(data))
    contents = (
        (section, _PROGBITS, _ALLOCATED, data, (0, 0, alignment, 0)),
        (".symtab", _SYMTAB, 0, symbols, (3, 1, 8, _SYMBOL.size)),  # names are in the third; the first one is local
        (".strtab", _STRTAB, 0, names.encode(), (0, 0, 1, 0)),
        (".note.GNU-stack", _PROGBITS, 0, b"", (0, 0, 1, 0)),  # which says that the stack need not be executable
    )
    body, rows = bytearray(HEADER.size), [bytes(SECTION.size)]
    for name, kind, flags, content, (link, info, aligned, size) in contents:
        body += bytes(-len(body) % aligned)
        rows.append(
            SECTION.pack(_name_offset(names, name), kind, flags, 0, len(body), len(content), link, info, aligned, size)
        )
        body += content
    body += bytes(-len(body) % 8)
    ident, _, machine, _, _, _, _, flags, *_ = HEADER.unpack_from(like)
    fixed = (_RELOCATABLE, machine, _VERSION, 0, 0, len(body), flags, HEADER.size, 0, 0, SECTION.size, len(rows), 3)
    HEADER.pack_into(body, 0, ident, *fixed)
    return bytes(body + b"".join(rows))


def _name_offset(names: str, name: str) -> int:
    """Where a name begins in the table of names."""
    return names.index(f"\0{name}\0") + 1
