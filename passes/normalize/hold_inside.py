"""Clamps data-dependent reads in bodies to the tensor, and refuses runs with indices out of range."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from ...core.sizes import Extent
from ...dialects import builders, ir, scalars
from ...dialects.positions import clamp_index, report_outside
from ...dialects.walk import collect, defining_op
from ..infra.base import Pass
from ..ir.edit import clone
from ..ir.structure import is_structured, num_inputs


@dataclass(frozen=True)
class HoldInside(Pass):
    """Clamp indices of ``tensor.extract`` in bodies of linalg ops that depend on elements.

    Before::

        linalg.generic ins(%i) { ^bb0(%a): %at = index_cast %a; %r = tensor.extract %x[%at]; yield %r }

    After, for an axis of 9 elements::

        %s = linalg.generic {maxui, reduction} ins(%i) {tw.outside = "has an index that is out of range ..."}
        linalg.generic ins(%i) { ^bb0(%a): %at = index_cast %a; %in = min(max(%at, 0), 8); ... }

    Frameworks refuse such indices; other compilers leave that out, and would read what lies behind a tensor.
    """

    name: ClassVar[str] = "hold-inside"

    def apply(self, module: ir.Module) -> None:
        """Rewrite all functions of the module."""
        for op in collect(module, lambda op: op.name == "linalg.generic" and is_structured(op)):
            for extract in collect(op, lambda inner: inner.name == "tensor.extract"):
                if extract.parent == op:
                    _hold_index(op, extract)


def _hold_index(op: ir.Operation, extract: ir.Operation) -> None:
    source, *indices = extract.operands
    shape = builders.shape_of(source)
    arguments = list(op.regions[0].blocks[0].arguments)
    for axis, (index, extent) in enumerate(zip(indices, shape, strict=True)):
        chain, read = _made_of(index, op)
        if not any(value in arguments for value in read) and not any(inner.name == "tensor.extract" for inner in chain):
            continue
        with ir.InsertionPoint(extract), extract.location:
            extract.operands[1 + axis] = clamp_index(index, extent)
        if len(read) == 1 and not any(inner.name in ("linalg.index", "tensor.extract") for inner in chain):
            place = arguments.index(read[0])
            if place < num_inputs(op) and isinstance(read[0].type, ir.IntegerType):  # places made of floats are clamped
                _report_outside(op, op.operands[place], chain, read[0], index, extent)


def _report_outside(
    op: ir.Operation,
    values: ir.Value,
    chain: list[ir.Operation],
    element: ir.Value,
    index: ir.Value,
    extent: Extent,
) -> None:
    """Have a run refused in which what the body makes of one of the numbers lies outside of an axis."""

    def made(number: ir.Value) -> ir.Value:
        mapping = {element: number}
        for inner in chain:
            clone(inner, mapping)
        return scalars.to_index(mapping[index])

    otherwise = f"has an index that is out of range for an extent of {extent}"
    with ir.InsertionPoint(op), op.location:
        report_outside(values, 0, extent, otherwise, index_of=made)


def _made_of(value: ir.Value, op: ir.Operation) -> tuple[list[ir.Operation], list[ir.Value]]:
    """The ops of a body that compute a value, in order, and the body's arguments that they read."""
    found: dict[ir.Operation, None] = {}
    read: dict[ir.Value, None] = {}
    pending = [value]
    while pending:
        wanted = pending.pop()
        made = defining_op(wanted)
        if made is None:
            read.update({wanted: None} if wanted.owner == op.regions[0].blocks[0] else {})
        elif made.parent == op and made not in found:
            found[made] = None
            pending.extend(made.operands)
    body = [inner.operation for inner in op.regions[0].blocks[0].operations]
    return [inner for inner in body if inner in found], list(read)
