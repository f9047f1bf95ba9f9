"""Facts that passes ask of many ops, found once for all that are alike."""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

# Facts by all that tells them. Attributes keep their context alive, so what is known ends with the work.
_FACTS: ContextVar[dict[Hashable, Any] | None] = ContextVar("tilewright_facts", default=None)


@contextmanager
def remembering_facts() -> Iterator[None]:
    """Find facts about ops that are alike once, in passes over one module: each pass asks for them."""
    token = _FACTS.set({})
    try:
        yield
    finally:
        _FACTS.reset(token)


def known_facts() -> dict[Hashable, Any] | None:
    """The facts that are known, to look up and to add to; None where nobody remembers any."""
    return _FACTS.get()
