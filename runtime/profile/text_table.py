"""Tables as text."""

from __future__ import annotations

from collections.abc import Sequence

from ...core.printed import line_text


def align_columns(rows: Sequence[Sequence[str]]) -> list[str]:
    """Rows of as many cells each as lines, with each column as wide as its widest cell."""
    rows = [[line_text(cell) for cell in row] for row in rows]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
