"""Kernels that no family of schedules takes as a whole: ops one after another, in loops and branches."""

from __future__ import annotations

from ....core.target import Target
from ....dialects import bufferization, func, ir, linalg, tensor, transform, tw
from ....dialects.builders import element_of, index_constant, scalar
from ....dialects.context import keep
from ....dialects.types import DYNAMIC
from ....dialects.walk import defining_op
from ...ir.dynamic_sizes import find_destination_operand
from ...ir.edit import clone, splat_of
from ...ir.kernel import in_place, list_functions, run_upstream
from ...ir.maps import order_loops
from ...ir.structure import (
    body_ops,
    has_reduction,
    indexing_maps,
    is_static,
    iterator_types,
    list_ops,
    num_inputs,
    terminator_of,
)
from ..tiles.structured import loop_along
from .destination_passing import DestinationBody, destination_passing
from .part_blocks import cut_parts
from .part_nests import Chooser, build_part_nests

# Tensor ops that have no bufferization become structured ones.
_TENSORS = ("convert-tensor-to-linalg", "linalg-generalize-named-ops", "canonicalize", "cse")
# What makes a tensor of known sizes that upstream would copy before others write over it.
_WRITTEN_OVER = ("bufferization.to_tensor", "arith.constant")
_NO_WORK = ("arith.constant", "tensor.empty", "func.return")


def as_plain_loops(
    function: func.FuncOp,
    choose: Chooser | None,
    target: Target,
    body: DestinationBody | None = None,
    title: str = "loops around nests:",
) -> ir.Module:
    """The function with its ops one after another, or as a ``body`` has them that threads share.

    Ops that a family takes by themselves become nests (``part_nests.py``), unless there is nothing to ``choose`` their
    schedules. All others stay whole.

    ``title`` stands above the nests' schedules.
    """
    made = destination_passing(function, body or (lambda *given: copy_ops(function, *given)))
    transform.apply(keep(_concats_script, _concats_script), made)
    run_upstream(made, _TENSORS)
    for rebuilt in list_functions(made):
        for op in body_ops(rebuilt):
            _bring_columns_inside(op)
    if choose is not None:
        for rebuilt in list_functions(made):
            cut_parts(rebuilt)
            if nests := build_part_nests(rebuilt, choose, target):
                rebuilt.attributes[tw.PARTS] = ir.StringAttr.get("\n".join([title, *nests]))
        run_upstream(made, ("canonicalize", "cse"))
    transform.apply(keep(_packs_script, _packs_script), made)  # after the nests, which read packed weights as they are
    run_upstream(made, _TENSORS)
    return made


def _bring_columns_inside(op: ir.Operation) -> None:
    """Let the columns of a reduction of several results, which no nest takes, be the innermost loop.

    The code generator makes vectors of them, where a sum down a column would read an element of each row.
    """
    if op.name != "linalg.generic" or len(op.results) < 2 or not has_reduction(op):
        return
    kinds, inputs = iterator_types(op), range(num_inputs(op))
    rank = {number: len(indexing_maps(op)[number].results) for number in inputs}
    columns = {loop_along(op, number) for number in inputs if rank[number] > 1}
    if len(columns) != 1 or None in columns:
        return
    [column] = columns
    assert column is not None
    if kinds[column] == "parallel":
        order_loops(op, [*(loop for loop in range(len(kinds)) if loop != column), column])


def copy_ops(
    function: func.FuncOp, arguments: dict[ir.Value, ir.Value], dests: list[ir.Value], lo: ir.Value, hi: ir.Value
) -> list[ir.Value]:
    """The function's ops; what they give lies in ``dests``.

    What the result may be written over is copied first, unless one op does all the work: bufferization may put what
    others make into the result's memory before the last one reads it.
    """
    work = [op for op in list_ops(function) if op.name not in _NO_WORK]
    kept = [function.arguments[i] for i in in_place(function)] if len(work) > 1 else []
    mapping = arguments | {value: copy_buffer(arguments[value]) for value in kept}
    for op in body_ops(function):
        clone(op, mapping)
    results = [mapping.get(v, v) for v in terminator_of(function).operands]
    for result, dest in zip(results, dests, strict=True):
        write_into(result, dest)
    return results


def _concats_script() -> transform.Script:
    with transform.sequence() as made:
        transform.apply_patterns(made.root, "tensor.decompose_concat")
    return made


def _packs_script() -> transform.Script:
    with transform.sequence() as made:
        transform.lower_packs(made.root)
    return made


def write_into(result: ir.Value, dest: ir.Value) -> None:
    """Let the ops that make a result write it where it belongs.

    What they write over, unless it is nothing, is copied there first, or filled in where it is one number. Of static
    shapes upstream has that proven but for arguments and constants, which it would copy to a buffer of their own.
    """
    value, reader, place = result, None, 0
    while (number := find_destination_operand(value)) is not None:
        reader, place = defining_op(value), number
        assert reader is not None  # it has an operand
        value = reader.operands[place]
    source = defining_op(value)
    if reader is None or value == dest or (is_static(value) and (source is None or source.name not in _WRITTEN_OVER)):
        return
    with ir.InsertionPoint(reader):
        into = dest if value.type == dest.type else tensor.CastOp(value.type, dest).result
        number = splat_of(value)
        if is_static(value) and number is not None:
            into = linalg.fill(scalar(number, element_of(value)), into)
        elif is_static(value):
            into = bufferization.MaterializeInDestinationOp(into.type, value, into).results[0]
        elif source is None or source.name != "tensor.empty":
            rank = ir.RankedTensorType(value.type).rank
            dims = [tensor.DimOp(value, index_constant(axis)).result for axis in range(rank)]
            marks = [DYNAMIC] * rank
            # Upstream would fold a copy, and then make a buffer of its own.
            into = tensor.InsertSliceOp(value, into, [], dims, [], [0] * rank, marks, [1] * rank).result
    reader.operands[place] = into


def copy_buffer(value: ir.Value) -> ir.Value:
    """A tensor in a buffer of its own."""
    return bufferization.AllocTensorOp(value.type, [], copy=value).result
