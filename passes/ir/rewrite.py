"""The one loop of passes that replace single ops: match, emit at the op's place, replace."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ...dialects import ir
from ...dialects.walk import collect, find_named
from .edit import replace

OpMatch = type[ir.OpView] | tuple[type[ir.OpView], ...] | Callable[[ir.Operation], bool]
Emit = Callable[[ir.Operation], ir.Value | Sequence[ir.Value] | None]


def rewrite(root: ir.Module | ir.OpView | ir.Operation, match: OpMatch, emit: Emit, *names: str) -> None:
    """Replace the ops in ``root`` that match, inner ones before the ops around them.

    ``match`` is a class of ops, several, or a predicate, of ops of these ``names`` if there are any. ``emit`` runs at
    the place and the location of an op that matched when the rewrite began. It returns the values that take the place
    of the op's results, or None to leave the op as it is.
    """
    for op in _find_matches(root, match, names):
        with ir.InsertionPoint(op), op.location:
            made = emit(op)
        if made is not None:
            replace(op, [made] if isinstance(made, ir.Value) else made)


def _find_matches(
    root: ir.Module | ir.OpView | ir.Operation, match: OpMatch, names: tuple[str, ...]
) -> list[ir.Operation]:
    classes: Any = (match,) if isinstance(match, type) else match
    if not isinstance(classes, tuple):
        return collect(root, classes, *names)
    return find_named(root, *(kind.OPERATION_NAME for kind in classes))
