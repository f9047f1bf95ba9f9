"""What one schedule does otherwise than another, in words, from the steps of both."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from typing import Any

Facts = dict[str, str]

_WIDEST = 40  # characters of a name in a sentence


def describe_changes(default: str, steps: str) -> list[str]:
    """What ``steps`` change, a phrase each: ``m in steps of 14 -> 7``; none where both make the same loops.

    Both are the JSON of a schedule's steps, from anywhere: what is no step is called so.
    """
    before, after = list_facts(default), list_facts(steps)
    changes = []
    for name in dict.fromkeys((*after, *before)):
        old, new = before.get(name), after.get(name)
        if old == new:
            continue
        if old is None:
            changes.append(f"{name} {new}".strip())
        elif new is None:
            changes.append(f"without {name} {old}".strip())
        else:
            changes.append(f"{name} {old} -> {new}")
    return changes


def list_facts(steps: str) -> Facts:
    """What a schedule's steps say, by what they say it of."""
    facts: Facts = {}
    try:
        read = json.loads(steps)
    except (ValueError, RecursionError):
        return {"steps": "that are no JSON"}
    for step in read if isinstance(read, list) else [read]:
        try:
            name, *arguments = step
            add = _FACTS.get(name) if isinstance(name, str) else None
            if add is None:
                facts[_shorten(json.dumps(step))] = ""
            else:
                facts |= add(*arguments)
        except (TypeError, ValueError):
            facts[_shorten(json.dumps(step))] = ""
    return facts


def _say_split(loop: str, factor: int) -> Facts:
    return {f"{loop} in steps of": str(int(factor))}


def _say_tile(rows: str, row_factor: int, columns: str, column_factor: int) -> Facts:
    return _say_split(rows, row_factor) | _say_split(columns, column_factor)


def _say_reorder(*loops: str) -> Facts:
    return {"order": _list_loops(loops)}


def _say_fuse(*loops: str) -> Facts:
    return {f"{'*'.join(map(_shorten, map(str, loops)))} joined": ""}


def _say_parallel(loop: str) -> Facts:
    return {"threads share": _shorten(loop)}


def _say_vectorize(loop: str) -> Facts:
    return {"vectors along": _shorten(loop)}


def _say_unroll(loop: str, factor: int = 0, apart: bool = False) -> Facts:
    how = f"{int(factor)} at once{' apart' if apart else ''}" if factor else "whole"
    return {f"{_shorten(loop)} unrolled": how}


def _say_overlap(loop: str) -> Facts:
    return {f"{_shorten(loop)} overlapping": ""}


def _say_stage(value: str, at: str = "", phases: int = 1) -> Facts:
    rows = f" in {int(phases)} phases" if phases != 1 else ""
    return {f"{_shorten(value)} staged": f"{f'in {_shorten(at)}' if at else 'ahead'}{rows}"}


def _say_split_stage(value: str, at: str = "", rows: int = 0) -> Facts:
    matrices = f", matrices of {int(rows)} rows" if rows else ""
    return {f"{_shorten(value)} in parts": f"{f'in {_shorten(at)}' if at else 'ahead'}{matrices}"}


def _say_pack(argument: int, axis: str, block: int) -> Facts:
    return {f"argument {int(argument)} packed along {_shorten(axis)} by": str(int(block))}


def _say_tensorize(loop: str, intrinsic: str) -> Facts:
    return {f"{_shorten(loop)} as": _shorten(intrinsic)}


_FACTS: Mapping[str, Callable[..., Facts]] = {
    "split": _say_split,
    "tile": _say_tile,
    "reorder": _say_reorder,
    "fuse": _say_fuse,
    "parallel": _say_parallel,
    "vectorize": _say_vectorize,
    "unroll": _say_unroll,
    "overlap": _say_overlap,
    "cache_read": _say_stage,
    "cache_write": _say_stage,
    "cache_split": _say_split_stage,
    "compute_at": _say_stage,
    "pack": _say_pack,
    "tensorize": _say_tensorize,
}


def _list_loops(names: Iterable[Any]) -> str:
    return ", ".join(_shorten(str(name)) for name in names)


def _shorten(text: str) -> str:
    return text if len(text) <= _WIDEST else f"{text[: _WIDEST - 3]}..."
