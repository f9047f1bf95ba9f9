"""Elementwise kernels repeat operands themselves, where only the run knows whether these have to be repeated."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from ...dialects import builders, func, ir, tensor, tw
from ...dialects.builders import element_of
from ...dialects.walk import defining_op, integer_of
from ..infra.base import Pass
from ..ir.broadcasts import OpenBroadcast, maps_in_order
from ..ir.dynamic_sizes import emit_dynamic_sizes
from ..ir.edit import clone, erase_dead, list_programs
from ..ir.kernel import integer_attr
from ..ir.routine_ops import is_body
from ..ir.structure import (
    dim_of,
    indexing_maps,
    is_tensor,
    list_ops,
    num_inputs,
    shape_of,
)
from ..ir.uses import has_uses


@dataclass(frozen=True)
class FuseBroadcasts(Pass):
    """Give the op that repeats an operand to the kernel that alone maps elements of it.

    Before::

        %r = linalg.generic {extract %b[min(i, m - 1)]} outs(%none) {tw.broadcast}
        %s = arith.select %fits, %b, %r
        %y = linalg.generic {add} ins(%a, %s) {tw.group = 0}

    After::

        %r = linalg.generic {extract %b[min(i, m - 1)]} outs(%all) {tw.broadcast, tw.group = 0}
        %y = linalg.generic {add} ins(%a, %r) {tw.group = 0}

    Such a kernel reads the operand in place (``dynamic/broadcast_rows.py``): nothing is repeated in memory. Products,
    reductions and all else read the one that the program chooses.
    """

    name: ClassVar[str] = "fuse-broadcasts"
    opt_level: ClassVar[int] = 1

    def apply(self, module: ir.Module) -> None:
        """Rewrite all programs of the module."""
        for function in list_programs(module):
            if not is_body(function):  # what a body gives, the program only looks at
                _copy_results(function)
            for op in _list_alone(function):
                for number in range(num_inputs(op)):
                    if (repeat := _find_repeat(op.operands[number])) is not None:
                        op.operands[number] = _repeat_all(op, number, repeat)
            erase_dead(function)  # casts, which use choices
            for op in reversed(list_ops(function)):
                if op.name == "arith.select" and is_tensor(op.results[0]) and not has_uses(op):
                    op.erase()
            erase_dead(function)


def _copy_results(function: func.FuncOp) -> None:
    """Let a kernel make the results that the program would choose, and copy to where they have to lie."""
    *ops, end = list_ops(function)
    marks = [ir.IntegerAttr(op.attributes[tw.GROUP]).value for op in ops if tw.GROUP in op.attributes]
    for number, value in enumerate(end.operands):
        repeat = _find_repeat(value)
        if repeat is None or (sizes := _sizes_of(repeat)) is None:
            continue
        kind = ir.RankedTensorType(value.type)
        with ir.InsertionPoint(end), repeat.location:
            shape = [size if n < 0 else n for size, n in zip(sizes, kind.shape, strict=True)]
            out = tensor.EmptyOp(shape, kind.element_type).result
            maps = [range(kind.rank)] * 2
            copied = builders.generic([value], [out], maps, "p" * kind.rank, lambda a, _: a)[0]
        copied.owner.attributes[tw.GROUP] = integer_attr(max(marks, default=-1) + 1 + number)
        end.operands[number] = copied


def _sizes_of(repeat: ir.Operation) -> list[int | ir.Value] | None:
    """The sizes of a tensor that is repeated, where it is; None where they are not found.

    The program makes it of no elements elsewhere: one of the sizes is then 0.
    """
    empty = defining_op(repeat.operands[0])
    if empty is None or empty.name != "tensor.empty":
        return None
    open_, found = iter(empty.operands), list[int | ir.Value]()
    for n in shape_of(empty.results[0]):
        size = next(open_) if n < 0 else n
        source = defining_op(size) if isinstance(size, ir.Value) else None
        if source is not None and source.name == "arith.select" and integer_of(source.operands[1]) == 0:
            size = source.operands[2]
        found.append(size)
    return found


def _list_alone(function: func.FuncOp) -> list[ir.Operation]:
    """The ops that are alone in their kernel and map elements, in the order of their result."""
    groups: dict[int, list[ir.Operation]] = {}
    for op in list_ops(function):
        if tw.GROUP in op.attributes:
            groups.setdefault(ir.IntegerAttr(op.attributes[tw.GROUP]).value, []).append(op)
    return [members[0] for members in groups.values() if len(members) == 1 and maps_in_order(members[0])]


def _find_repeat(value: ir.Value) -> ir.Operation | None:
    """The op that repeats a tensor where the program chooses between that and what it repeats."""
    choice = _behind_casts(value)
    if choice is None or choice.name != "arith.select":
        return None
    repeat = _behind_casts(choice.operands[2])
    found = OpenBroadcast.of(repeat)
    if found is None or _without_casts(choice.operands[1]) != _without_casts(found.source):
        return None
    return repeat


def _without_casts(value: ir.Value) -> ir.Value:
    while (op := defining_op(value)) is not None and op.name == "tensor.cast":
        value = op.operands[0]
    return value


def _behind_casts(value: ir.Value) -> ir.Operation | None:
    return defining_op(_without_casts(value))


def _repeat_all(op: ir.Operation, number: int, repeat: ir.Operation) -> ir.Value:
    """An operand repeated whatever its extents are, in the kernel of the op that reads it."""
    value, indexing_map = op.operands[number], indexing_maps(op)[number]
    result = op.operands[num_inputs(op)]
    with ir.InsertionPoint(op), repeat.location:
        open_ = iter(emit_dynamic_sizes(result))
        extents = [next(open_) if n < 0 else n for n in shape_of(result)]
        dims = [dim_of(e) for e in indexing_map.results]
        sizes = [1 if d is None else extents[d] for d in dims]
        out = tensor.EmptyOp(sizes, element_of(value)).result
        copy = clone(repeat, {repeat.operands[0]: out})
    copy.results[0].set_type(ir.RankedTensorType(out.type))
    copy.attributes[tw.GROUP] = op.attributes[tw.GROUP]
    return copy.results[0]
