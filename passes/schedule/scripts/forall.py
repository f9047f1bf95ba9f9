"""``scf.forall`` of scripts as loops that threads share."""

from __future__ import annotations

import math

from ....dialects import arith, ir, scf, tensor, tw
from ....dialects.builders import index_constant
from ....dialects.types import DYNAMIC
from ....dialects.walk import collect, list_items
from ...ir.edit import clone, replace
from ..tiles.regions import NotSchedulable


def write_as_loops(root: ir.OpView) -> None:
    """Make each ``scf.forall`` one ``scf.for`` whose steps are marked as those that threads share.

    Raises NotSchedulable for one whose steps only the run knows.
    """
    for op in reversed(collect(root, lambda _: True, "scf.forall")):  # those around others first
        _write_as_loop(op)


def _write_as_loop(op: ir.Operation) -> None:
    begins, ends, steps = (list(ir.DenseI64ArrayAttr(op.attributes[f"static{name}"])) for name in _BOUNDS)
    if DYNAMIC in (*begins, *ends, *steps):
        raise NotSchedulable("a forall whose steps only the run knows")
    counts = [-(-(end - begin) // step) for begin, end, step in zip(begins, ends, steps, strict=True)]
    block = op.regions[0].blocks[0]
    body, outs = list_items(block.operations), list(op.operands)
    with op.location, ir.InsertionPoint(op):
        loop = scf.ForOp(index_constant(0), index_constant(math.prod(counts)), index_constant(1), outs)
        loop.operation.attributes[tw.SHARED_LOOP] = ir.UnitAttr.get()
        with ir.InsertionPoint(loop.body):
            position, places = loop.induction_variable, []
            for begin, step, count in reversed(list(zip(begins, steps, counts, strict=True))):
                number = arith.remui(position, index_constant(count)) if len(places) + 1 < len(counts) else position
                position = arith.divui(position, index_constant(count)) if number != position else position
                places.insert(0, arith.addi(arith.muli(number, index_constant(step)), index_constant(begin)))
            arguments: list[ir.Value] = list(block.arguments)
            mapping = dict(zip(arguments, [*places, *loop.inner_iter_args], strict=True))
            for inner in body[:-1]:
                clone(inner.operation, mapping)
            carried: dict[ir.Value, ir.Value] = dict(zip(arguments[len(counts) :], loop.inner_iter_args, strict=True))
            for put in body[-1].regions[0].blocks[0].operations:
                _insert(put.operation, mapping, carried)
            scf.YieldOp(list(carried.values()))
    replace(op, list(loop.results))


_BOUNDS = ("LowerBound", "UpperBound", "Step")


def _insert(put: ir.Operation, mapping: dict[ir.Value, ir.Value], carried: dict[ir.Value, ir.Value]) -> None:
    """What a ``tensor.parallel_insert_slice`` writes."""
    source, dest, *places = put.operands
    counts = list(ir.DenseI32ArrayAttr(put.attributes["operandSegmentSizes"]))[2:]
    given = [mapping.get(place, place) for place in places]
    offsets, sizes, strides = (given[sum(counts[:n]) : sum(counts[: n + 1])] for n in range(3))
    statics = [list(ir.DenseI64ArrayAttr(put.attributes[f"static_{name}"])) for name in ("offsets", "sizes", "strides")]
    made = tensor.InsertSliceOp(mapping.get(source, source), carried[dest], offsets, sizes, strides, *statics)
    carried[dest] = made.result
