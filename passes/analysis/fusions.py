"""Fusion as a decision of the plan: ops that may be one kernel, and are it where that is faster.

The rules of ``groups.py`` and of the families say which ops may share a kernel, and as a rule they do. Each such
fusion that is a matter of speed alone is asked for by a key, so that tuning tries the plan without it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

from ...core.choices import PREFIX, choose_option
from ...dialects import ir
from ..ir.edit import node_names
from ..ir.structure import body_ops, indexing_maps, iterator_types
from .op_words import name_ops

_APART, _FUSED = 0, 1  # the options


def decide_fusion(ops: Sequence[ir.Operation]) -> bool:
    """Return whether ops become one kernel, as the rule has it unless records have found the contrary.

    Kernels of open sizes are not tuned: theirs is no decision.
    """
    if any("?" in str(result.type) for op in ops for result in op.results):
        return True
    nodes = dict.fromkeys(name for op in ops for name in node_names(op.location))
    return choose_option(name_fusion(ops), (_APART, _FUSED), _FUSED, [*nodes]) == _FUSED


def name_fusion(ops: Sequence[ir.Operation]) -> str:
    """The key of a decision: ``plan:fuse_conv_add_1a2b3c4d``.

    The hash is of what the ops compute and how they read one another: types, maps and names of instructions. It has
    no names of a model, no constants and no attributes, so most changes of the passes leave it as it is.
    """
    places: dict[ir.Value, str] = {result: f"%{place}" for place, op in enumerate(ops) for result in op.results}
    parts = [part for op in ops for part in _describe_use(op, places)]
    return f"{PREFIX}fuse_{name_ops(ops)}_{hashlib.sha256(' '.join(parts).encode()).hexdigest()[:8]}"


def _describe_use(op: ir.Operation, places: dict[ir.Value, str]) -> list[str]:
    """An op's instructions, loops and operands: the type of each, how it is walked, and which of the ops makes it."""
    operands = [f"{value.type}{places.get(value, '')}" for value in op.operands]
    if op.name != "linalg.generic":
        return [op.name, *operands]
    inner = [each.name for each in body_ops(op)]
    return [op.name, *iterator_types(op), *map(str, indexing_maps(op)), *operands, *inner]
