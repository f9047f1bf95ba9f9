"""Which level, which pass and which limit of fusion make a case wrong."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from tilewright.core.progress import Say, tell_nobody
from tilewright.tools.debugging.verdict import Verdict

LEVELS = range(4)
FUSION, LIMIT = "fuse-ops", "fuse-ops.max_group_size"
# Without these nothing compiles; what they make is what later ones are for.
_INDISPENSABLE = {
    *("outline-control", "outline", "apply-schedule", "bufferize", "plan-scratch", "lower-to-llvm", "wrap-kernel"),
}
_MOST_OPS = 256  # of a group, that a limit is looked for

# Compiles a case in a PassContext of these arguments and judges it.
Judged = Callable[[Mapping[str, Any]], Verdict]


@dataclass(frozen=True)
class Bisection:
    """``levels`` has the kind of verdict of each level. At ``level``, the least that fails, the case is right without
    any one of ``passes``, and where groups have at most ``fuse_limit`` ops (None: no such limit, or it was not looked
    for). ``whole`` says that all passes were tried within the time.
    """

    levels: dict[int, str] = field(default_factory=dict)
    level: int | None = None
    passes: tuple[str, ...] = ()
    fuse_limit: int | None = None
    whole: bool = True


def bisect(judged: Judged, end: float, say: Say = tell_nobody) -> Bisection:
    """Try all levels, and all passes of the least one that fails, until the time ``end`` (of ``time.monotonic``)."""
    levels: dict[int, str] = {}
    for number, level in enumerate(LEVELS):
        say("trying levels", number, len(LEVELS), end)
        levels[level] = judged({"opt_level": level}).kind
    failing = [level for level, kind in levels.items() if kind == "differs"]
    if not failing:
        return Bisection(levels)
    level, found = failing[0], []
    names = find_candidates(level)
    for number, name in enumerate(names):
        if time.monotonic() > end:
            return Bisection(levels, level, tuple(found), None, False)
        say("leaving out passes", number, len(names), end)
        if judged({"opt_level": level, "disabled_pass": [name]}).kind == "agrees":
            found.append(name)
    limit = _fuse_limit(judged, level) if FUSION in found else None
    return Bisection(levels, level, tuple(found), limit)


def find_candidates(level: int) -> list[str]:
    """The names of the passes that a level runs and could do without, those that it adds to the one below first."""
    from tilewright.core.target import detect_host
    from tilewright.passes.pipeline import graph_passes, kernel_passes

    passes = [p for p in (*graph_passes(detect_host(), level), *kernel_passes(detect_host())) if p.opt_level <= level]
    names = dict.fromkeys(p.name for p in sorted(passes, key=lambda p: -p.opt_level))
    return [name for name in names if name not in _INDISPENSABLE]


def _fuse_limit(judged: Judged, level: int) -> int | None:
    """The most ops of a group with which it is right, by bisection; None where one op is too much."""

    def right(limit: int) -> bool:
        return judged({"opt_level": level, "config": {LIMIT: limit}}).kind == "agrees"

    low, high = 0, 1
    while high <= _MOST_OPS and right(high):
        low, high = high, 2 * high
    while high - low > 1 and low:
        middle = (low + high) // 2
        low, high = (middle, high) if right(middle) else (low, middle)
    return low or None
