"""What is tuned: one kernel of a program, as often as that calls it."""

from __future__ import annotations

import json
from dataclasses import dataclass, field

from ..core.program import Signature
from ..core.target import Target
from ..passes.schedule.language.schedule import Schedule


@dataclass(frozen=True)
class Task:
    """A kernel of a network, or of a tensor expression.

    name: the kernel's, which has a hash of its structure and no names of nodes in it.
    code: its module as bytecode.
    calls: how often a run calls it. nodes: what it computes, of all calls.
    default: the schedule that it has without tuning; None, with the ``reason``, for one that is not tuned.
    weights: the numbers of its inputs that are weights of the program, which has ``network_bytes`` of them.
    flops, bytes: the work of a call.
    others: schedules of other kinds that the search may begin with, too.
    """

    name: str
    code: bytes = field(repr=False)
    target: Target
    threads: int
    calls: int
    nodes: tuple[str, ...]
    signature: Signature
    default: Schedule | None
    reason: str = ""
    weights: tuple[int, ...] = ()
    network_bytes: int = 0
    flops: int = 0
    bytes: int = 0
    others: tuple[Schedule, ...] = ()

    @property
    def default_steps(self) -> str:
        """The steps of the default schedule, as JSON; "" for a kernel that is not tuned."""
        return json.dumps(self.default.to_json()["steps"]) if self.default else ""

    def __str__(self) -> str:
        return f"{self.name} of {', '.join(self.nodes[:2]) or 'the compiler'}{' ...' if len(self.nodes) > 2 else ''}"
