"""Where an oracle is known to be wrong: there it is not asked. Each fault is as narrow as is known, with its reason."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from onnx import NodeProto

Feeds = Mapping[str, Any]  # a node's inputs by name


@dataclass(frozen=True)
class Fault:
    """``who`` is wrong about ``op`` where ``when`` holds, for a reason."""

    who: str
    op: str
    when: Callable[[NodeProto, Feeds], bool]
    reason: str


def fault(who: str, node: NodeProto, feeds: Feeds) -> str:
    """Why an oracle is not to be asked about a node on these inputs; empty where it is."""
    for known in FAULTS:
        if (known.who, known.op) == (who, node.op_type) and known.when(node, feeds):
            return known.reason
    return ""


def _first(node: NodeProto, feeds: Feeds) -> Any:
    return feeds[node.input[0]]


FAULTS = (
    Fault(
        "reference",
        "MaxPool",
        lambda node, feeds: len(node.output) > 1 and math.prod(_first(node, feeds).shape[:2]) > 1,
        "its indices are those in one channel, the op's in the whole tensor",
    ),
)
