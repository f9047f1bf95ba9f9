"""Words of C: names, literals, comments, tables."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence

from ...core.printed import line_text, one_line

_LONGEST = 120  # characters of a name


def make_identifier(text: str) -> str:
    """A C name made of a text, which may begin with a digit; of a long one, both ends."""
    name = re.sub(r"\W+", "_", text, flags=re.ASCII).strip("_") or "tensor"
    return name if len(name) <= _LONGEST else f"{name[: _LONGEST // 2]}_{name[-_LONGEST // 2 :]}"


def prefix(text: str) -> str:
    """A prefix of C names; those that begin with ``tw_`` are taken."""
    name = make_identifier(text)
    return f"model_{name}" if name[0].isdigit() or name == "tw" or name.startswith("tw_") else name


def make_distinct(stems: Iterable[str]) -> list[str]:
    """Names made of these, which differ also in capitals, as macros have them."""
    taken: set[str] = set()
    names: list[str] = []
    for stem in stems:
        name, count = stem, 1
        while name.upper() in taken:
            count += 1
            name = f"{stem}_{count}"
        taken.add(name.upper())
        names.append(name)
    return names


def format_string(text: str) -> str:
    """A C string literal of a text that the program prints, or compares with what can be printed."""
    plain = set(range(32, 127)) - set(b'"\\?')
    return '"' + "".join(chr(b) if b in plain else f"\\{b:03o}" for b in line_text(text).encode()) + '"'


def format_comment(text: str) -> str:
    """A C comment of one line."""
    return f"/* {one_line(text).replace('*/', '* /').replace('/*', '/ *')} */"


def format_array(declared: str, rows: Sequence[str]) -> str:
    """A constant array."""
    return f"static const {declared}[] = {{\n" + "".join(f"  {row},\n" for row in rows) + "};\n"


def format_struct(declared: str, fields: dict[str, object]) -> str:
    """A constant structure."""
    lines = "".join(f"  .{name} = {value},\n" for name, value in fields.items())
    return f"static const {declared} = {{\n{lines}}};\n"


def format_number(value: float | bool) -> str:
    """A C literal of type int64_t or double; a whole number that is too large is the largest there is."""
    if isinstance(value, float):
        names = {math.inf: "INFINITY", -math.inf: "-INFINITY"}
        return value.hex() if math.isfinite(value) else names.get(value, "NAN")
    if not -(1 << 63) < value < (1 << 63) - 1:
        return "INT64_MAX" if value > 0 else "INT64_MIN"
    return str(int(value))
