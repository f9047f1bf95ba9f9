"""Text from a model, made safe to print. Names may be anything: 10 MB, line breaks, control codes of a terminal.

All output for people passes through here: messages of errors (``errors.py``), lines and tables of commands
(``tools/_output.py``) and of reports (``runtime/text_table.py``), comments and texts of C (``runtime/c_text.py``).
JSON, CSV and traces are for programs and contain names unchanged.
"""

from __future__ import annotations

import re

LONGEST_WORD = 256  # characters; paths are words
LONGEST = 4000  # characters of a message: what lists the problems of a model may be long
LONGEST_LINE = 20_000  # of a command's line, which may list a model's inputs

_LONG_WORD = re.compile(rf"\S{{{LONGEST_WORD + 1},}}")


def one_line(text: str, longest: int = LONGEST) -> str:
    """A text as one line of printable characters, with what is too long in it cut out in the middle."""
    line = " ".join(shorten(word, LONGEST_WORD) for word in text.split())
    return shorten(escape(shorten(line, longest)), longest)


def name_text(text: str) -> str:
    """A name as a part of a line: of a long one, both ends."""
    return one_line(text, LONGEST_WORD)


def line_text(text: str, longest: int = LONGEST_LINE) -> str:
    """A line that is laid out, whose spaces stay, as printable characters; what is too long in it is cut as above."""
    if len(text) <= LONGEST_WORD and text.isprintable():
        return text
    line = _LONG_WORD.sub(lambda word: shorten(word[0], LONGEST_WORD), text)
    return shorten(escape(shorten(line, longest)), longest)


def escape(text: str) -> str:
    """The text with its control and format characters (overrides of its direction, too) as Python would write them."""
    return text if text.isprintable() else "".join(c if c.isprintable() else repr(c)[1:-1] for c in text)


def shorten(text: str, longest: int) -> str:
    """The text, or its beginning and end around how much is missing: of ``longest`` characters, from 24 on."""
    if len(text) <= longest:
        return text
    kept = max(longest - len(f"[{len(text)} characters]"), 0) // 2
    return f"{text[:kept]}[{len(text) - 2 * kept} characters]{text[len(text) - kept :]}"


def count_text(number: int, thing: str) -> str:
    """``1 kernel``, ``2 kernels``"""
    return f"{number} {thing}" if number == 1 else f"{number} {thing}s"


def size_text(nbytes: int) -> str:
    """A number of bytes for people: ``102.4 MB``."""
    size, unit = float(nbytes), "B"
    for unit in ("B", "kB", "MB", "GB"):
        if size < 1000 or unit == "GB":
            break
        size /= 1000
    return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"
