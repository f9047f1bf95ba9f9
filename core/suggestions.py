"""Suggestions for a word that is not known."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

_LIKENESS = 0.6  # of two words, 1 being the same


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """``; did you mean 'compile'?``, or nothing where no known word is like it."""
    found = difflib.get_close_matches(word, list(known), 1, _LIKENESS)
    return f"; did you mean '{found[0]}'?" if found else ""
