"""Paddings by less than nothing become slices."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from ...core.errors import CompileError
from ...dialects import builders, ir
from ...dialects.context import at_node
from ...dialects.types import DYNAMIC
from ...dialects.walk import collect
from ..infra.base import Pass
from ..ir.edit import replace

_SIDES = ("static_low", "static_high")


@dataclass(frozen=True)
class CropPads(Pass):
    """Slice what a ``tensor.pad`` by negative numbers leaves out; what it adds stays.

    Before::

        %r = tensor.pad %x low[-1] high[2]

    After::

        %s = tensor.extract_slice %x[1] [...] [1]
        %r = tensor.pad %s low[0] high[2]

    Raises CompileError for a padding that takes more than there is.
    """

    name: ClassVar[str] = "crop-pads"

    def apply(self, module: ir.Module) -> None:
        """Rewrite all functions of the module."""
        for op in collect(module, lambda op: op.name == "tensor.pad"):
            low, high = (list(ir.DenseI64ArrayAttr(op.attributes[side])) for side in _SIDES)
            if any(n < 0 and n != DYNAMIC for n in (*low, *high)):
                _crop(op, [0 if n == DYNAMIC else n for n in low], [0 if n == DYNAMIC else n for n in high])


def _crop(op: ir.Operation, low: list[int], high: list[int]) -> None:
    x = op.operands[0]
    sizes = [n + min(a, 0) + min(b, 0) for n, a, b in zip(builders.shape_of(x), low, high, strict=True)]
    if any(isinstance(n, int) and n < 0 for n in sizes):
        raise CompileError(f"the padding{at_node(op)} takes more elements from an axis than it has")
    with ir.InsertionPoint(op), op.location:
        op.operands[0] = builders.slice_(x, [-min(n, 0) for n in low], sizes)
    for side in _SIDES:
        pads = ir.DenseI64ArrayAttr(op.attributes[side])
        kept = [n if n == DYNAMIC else max(n, 0) for n in pads]
        op.attributes[side] = ir.DenseI64ArrayAttr.get(kept)
    if not any(n for side in _SIDES for n in ir.DenseI64ArrayAttr(op.attributes[side])):
        replace(op, [op.operands[0]])
