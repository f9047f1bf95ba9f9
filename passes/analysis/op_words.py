"""Ops in words, as the names of kernels and of decisions have them: ``conv_add_max``."""

from __future__ import annotations

from collections.abc import Sequence

from ...dialects import ir
from ..ir.structure import body_ops
from .classify import classify_op
from .kinds import Broadcast, Contraction, Conv, DepthwiseConv, Elementwise, Injective, Pooling, Reduction, Transform

_WORDS = {Conv: "conv", Contraction: "matmul", DepthwiseConv: "depthwise", Pooling: "pool", Reduction: "reduce"}
_WORDS |= {Transform: "transform"}
_MOVES = {Elementwise: "copy", Broadcast: "broadcast", Injective: "transpose"}
_MAX_WORDS = 4


def name_ops(ops: Sequence[ir.Operation]) -> str:
    """The first words of some ops, each once."""
    words = dict.fromkeys(word for op in ops for word in _list_words(op))
    return "_".join(list(words)[:_MAX_WORDS])


def _list_words(op: ir.Operation) -> list[str]:
    """An op's words: the kind of a heavy op, the arithmetic of a light one."""
    kind = classify_op(op)
    if type(kind) in _WORDS:
        return [_WORDS[type(kind)]]
    if type(kind) in _MOVES:
        return [word for o in body_ops(op) if (word := _find_word(o))] or [_MOVES[type(kind)]]
    return [op.name.split(".")[-1]]


def _find_word(op: ir.Operation) -> str:
    """``maximumf`` is ``max``, ``addi`` is ``add``, ``erf`` is ``erf``; nothing for what is no arithmetic."""
    dialect, name = op.name.split(".")
    if dialect == "math":
        return name
    return name.removesuffix("imumf").rstrip("fi") if dialect == "arith" and name != "constant" else ""
