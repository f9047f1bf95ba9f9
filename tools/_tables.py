"""Tables and facts for people: aligned in a pipe, laid out for its width on a terminal."""

from __future__ import annotations

import shutil
import sys
import textwrap
from collections.abc import Iterable, Iterator, Sequence

from tilewright.core.printed import line_text
from tilewright.runtime.profile.text_table import align_columns

Rows = Sequence[Sequence[str]]

_GAP = "  "
_NARROWEST = 24  # columns that words are given at least, where they are as long


def terminal_width() -> int | None:
    """The columns of the terminal that stdout is; None where it is none."""
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else None


def table_lines(rows: Rows, words: Sequence[str] = (), spare: Sequence[str] = ()) -> list[str]:
    """Rows, the head first, as lines for stdout: see ``fit_columns``. In a pipe there is no width, and all is there."""
    width = terminal_width()
    return align_columns(rows) if width is None else fit_columns(rows, width, words, spare)


def fit_columns(rows: Rows, width: int, words: Sequence[str] = (), spare: Sequence[str] = ()) -> list[str]:
    """Rows, the head first, as lines of at most ``width`` characters.

    The columns ``words`` are broken where they must; all others between words alone, so that no number is. Where that
    does not do, the columns ``spare`` are left out one by one, the first one first, and a last line says which.
    """
    columns = [[line_text(cell) for cell in column] for column in zip(*rows, strict=True)]
    missing: list[str] = []
    for name in spare:
        if _width(map(_least, columns, [c[0] in words for c in columns])) <= width:
            break
        columns = [column for column in columns if column[0] != name]
        missing.append(name)
    lines = list(_laid_out(columns, width, words))
    note = f"not shown for want of width: {', '.join(missing)} (a pipe and --json have all)"
    return [*lines, *(textwrap.wrap(note, width) if missing else [])]


def _laid_out(columns: Sequence[Sequence[str]], width: int, words: Sequence[str]) -> Iterator[str]:
    breakable = [column[0] in words for column in columns]
    widths = list(map(_least, columns, breakable))
    rest = width - _width(widths)
    for i in sorted(range(len(columns)), key=lambda i: breakable[i]):  # what is left goes to words last
        more = max(0, min(max(map(len, columns[i])) - widths[i], rest))
        widths[i] += more
        rest -= more
    numbers = [any(cell[:1].isdigit() for cell in c[1:]) and not b for c, b in zip(columns, breakable, strict=True)]
    for number, row in enumerate(zip(*columns, strict=True)):
        cells = [
            textwrap.wrap(cell, w, break_long_words=b, break_on_hyphens=False) or [""]
            for cell, w, b in zip(row, widths, breakable, strict=True)
        ]
        for i in range(max(map(len, cells))):
            parts = [cell[i] if i < len(cell) else "" for cell in cells]
            yield _GAP.join(
                part.rjust(w) if n else part.ljust(w) for part, w, n in zip(parts, widths, numbers, strict=True)
            ).rstrip()
        if number == 0:
            yield "-" * min(width, _width(widths))


def _least(column: Sequence[str], breakable: bool) -> int:
    """The columns of the screen that a column of the table needs."""
    if breakable:
        return min(_NARROWEST, max(map(len, column)))
    return max((len(word) for cell in column for word in cell.split()), default=0)


def _width(widths: Iterable[int]) -> int:
    each = list(widths)
    return sum(each) + len(_GAP) * (len(each) - 1)


def fact_lines(facts: Iterable[tuple[str, str]], label: int, indent: str = "") -> Iterator[str]:
    """Facts with their names before them; on a terminal a long one goes on below its beginning."""
    for name, text in facts:
        begin = f"{indent}{name:<{label}}"
        yield from wrap_line([begin + text], len(begin))


def wrap_line(lines: Iterable[str], indent: int = 2) -> Iterator[str]:
    """Lines for stdout; on a terminal those that are longer are broken between words, and go on behind an indent."""
    width = terminal_width()
    for line in lines:
        if width is None or len(line) <= width:
            yield line
        else:
            yield from textwrap.wrap(line, width, subsequent_indent=" " * indent, break_on_hyphens=False)


def markdown_lines(lines: Iterable[str]) -> Iterator[str]:
    """A text of markdown; on a terminal its tables are laid out for that, without what markdown needs."""
    if terminal_width() is None:
        yield from lines
        return
    rows: list[list[str]] = []
    for line in (*lines, ""):
        if line.startswith("|"):
            rows.append([cell.strip().strip("*") for cell in line.strip("|").split("|")])
            continue
        if rows:
            [head, _, *body] = rows  # the second one is markdown's rule
            yield from table_lines([head, *body], words=head[:1], spare=head[:1:-1])
            rows = []
        yield line
