"""Nodes of ONNX's that stand in another compiler's text for what that compiler has no good lowering for.

A node is a call of a function without a body. The function's attribute ``NODE`` is the node in JSON: operands say
nothing of signs, and calls lose their attributes on the way.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

NODE = "tilewright.node"  # the attribute, and the stem of the function's name


@dataclass(frozen=True)
class Constant:
    """An input that is known: numbers in lists, or one."""

    values: Sequence[Any] | int | float
    dtype: str


@dataclass(frozen=True)
class OnnxNode:
    """A node of ONNX's operator ``op``, whose operands are those of the call, in order.

    An input is the dtype of an operand, a constant, or None where there is none. ``results`` are dtypes.
    """

    op: str
    inputs: tuple[str | Constant | None, ...]
    results: tuple[str, ...]
    attributes: Mapping[str, Any]
    domain: str = ""

    def to_json(self) -> str:
        """The same node has the same text."""
        return json.dumps(asdict(self), sort_keys=True)

    @staticmethod
    def from_json(text: str) -> OnnxNode:
        """The node of a text; ValueError, KeyError or TypeError for a text that is none."""
        held = json.loads(text)
        inputs = tuple(Constant(**one) if isinstance(one, dict) else one for one in held["inputs"])
        return OnnxNode(held["op"], inputs, tuple(held["results"]), held["attributes"], held["domain"])
