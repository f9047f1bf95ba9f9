"""Decisions of the graph passes that rules make, and that records of tuning may make otherwise.

A pass asks by a key that says what is decided about, as a kernel's name does; what it asks is noted, so that tuning
knows which decisions a network has.
"""

from __future__ import annotations

import contextlib
import contextvars
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

PREFIX = "plan:"  # of keys; no kernel's name has a colon

# An option, and the rule's beside which it was measured, None where that is not known.
GivenOption = tuple[int, int | None]


def find_kind(key: str) -> str:
    """The word of a key that says what sort of decision it is."""
    return key.removeprefix(PREFIX).split("_")[0]


@dataclass(frozen=True)
class Choice:
    """A decision: ``options`` in order, the one that the rule takes (``default``), and that which was ``taken``.

    ``nodes`` are the model's that it is about, of all places of the same key.
    """

    key: str
    options: tuple[int, ...]
    default: int
    taken: int
    nodes: tuple[str, ...] = ()

    @property
    def kind(self) -> str:
        """The word of the key that says what sort of decision it is: ``winograd``, ``fuse``."""
        return find_kind(self.key)


@dataclass
class ChoiceTable:
    """The options that are ``given`` by key, and the decisions that were ``asked`` for."""

    given: Mapping[str, GivenOption] = field(default_factory=dict)
    asked: dict[str, Choice] = field(default_factory=dict)


_TABLE: contextvars.ContextVar[ChoiceTable | None] = contextvars.ContextVar("tilewright_choices", default=None)


@contextlib.contextmanager
def collect_choices(given: Mapping[str, GivenOption]) -> Iterator[ChoiceTable]:
    """Let passes in the block take options that are given; the table notes what they ask for."""
    token = _TABLE.set(table := ChoiceTable(given))
    try:
        yield table
    finally:
        _TABLE.reset(token)


def choose_option(key: str, options: Sequence[int], default: int, nodes: Sequence[str] = ()) -> int:
    """The option that is given for a key, if it is one of these.

    The default otherwise, and where the given one was measured beside another default.
    """
    if (table := _TABLE.get()) is None:
        return default
    option, beside = table.given.get(key, (default, None))
    taken = option if option in options and beside in (None, default) else default
    known = table.asked.get(key)
    if known is None:
        table.asked[key] = Choice(key, tuple(options), default, taken, tuple(nodes))
    else:
        table.asked[key] = replace(known, nodes=tuple(dict.fromkeys((*known.nodes, *nodes))))
    return taken
