"""Elementwise kernels repeat operands themselves, where only the run knows whether these have to be repeated."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from ...dialects import builders, func, ir, tensor, tw
from ...dialects.builders import element_of
from ...dialects.walk import defining_op, integer_of, is_constant
from ..infra.base import Pass
from ..ir.broadcasts import OpenBroadcast, maps_in_order
from ..ir.dynamic_sizes import emit_dynamic_sizes
from ..ir.edit import body_of, clone, erase_dead, list_programs
from ..ir.kernel import integer_attr
from ..ir.routine_ops import is_body
from ..ir.structure import (
    body_ops,
    dim_of,
    indexing_maps,
    is_tensor,
    iterator_types,
    list_ops,
    num_inputs,
    shape_of,
)
from ..ir.uses import find_captures, has_uses, users_of
from .rewriting.inline import can_inline, inline

# Ops of a conversion of elements that a kernel makes itself rather than read what it makes.
_MOST_CONVERTED = 6
# What looks at a tensor that may be repeated, besides the op that does it: the program's choice, and its extents.
_CHOICES = ("arith.select", "tensor.cast", "tensor.dim")


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

    Such a kernel reads the operand in place (``dynamic/broadcast_rows.py``): nothing is repeated in memory. An op that
    only converts the elements of ``%b`` becomes a part of it. Products, reductions and all else read the one that the
    program chooses.
    """

    name: ClassVar[str] = "fuse-broadcasts"
    opt_level: ClassVar[int] = 1

    def apply(self, module: ir.Module) -> None:
        """Rewrite all programs of the module."""
        for function in list_programs(module):
            if not is_body(function):  # what a body gives, the program only looks at
                _copy_results(function)
            for op in _list_alone(function):
                _fuse_repeats(op)
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


def _fuse_repeats(op: ir.Operation) -> None:
    """Let an op's kernel repeat those of its operands that the program would choose."""
    repeats = [_find_repeat(op.operands[number]) for number in range(num_inputs(op))]
    before = [_find_conversion(repeat) if repeat is not None else None for repeat in repeats]
    converted = []
    for number, (repeat, conversion) in enumerate(zip(repeats, before, strict=True)):
        if repeat is None:
            continue
        source = conversion.operands[0] if conversion is not None else None
        op.operands[number] = made = _repeat_all(op, number, repeat, source)
        if conversion is not None:
            op.operands[number] = _convert_repeated(conversion, made, op)
            converted.append(op.operands[number])
    for value in converted:
        source = defining_op(value)
        if source is not None and can_inline(source, op):  # an operand that is read twice is made once
            group = op.attributes[tw.GROUP]
            op = inline(source, op)
            op.attributes[tw.GROUP] = group


def _repeat_all(op: ir.Operation, number: int, repeat: ir.Operation, source: ir.Value | None) -> ir.Value:
    """An operand repeated whatever its extents are, in the kernel of the op that reads it.

    ``source``: what is repeated in place of what the op does, which is that converted.
    """
    value, indexing_map = op.operands[number], indexing_maps(op)[number]
    result = op.operands[num_inputs(op)]
    with ir.InsertionPoint(op), repeat.location:
        open_ = iter(emit_dynamic_sizes(result))
        extents = [next(open_) if n < 0 else n for n in shape_of(result)]
        dims = [dim_of(e) for e in indexing_map.results]
        sizes = [1 if d is None else extents[d] for d in dims]
        element = element_of(value if source is None else source)
        out = tensor.EmptyOp(sizes, element).result
        copy = clone(repeat, {repeat.operands[0]: out})
    copy.results[0].set_type(ir.RankedTensorType(out.type))
    copy.attributes[tw.GROUP] = op.attributes[tw.GROUP]
    if source is not None:
        _read_instead(copy, source)
    return copy.results[0]


def _read_instead(repeat: ir.Operation, source: ir.Value) -> None:
    """Let a repeat read another tensor of the same extents, whose elements may have another type."""
    [read] = [inner for inner in body_ops(repeat) if inner.name == "tensor.extract"]
    element, block = element_of(source), repeat.regions[0].blocks[0]
    read.operands[0] = source
    read.results[0].set_type(element)
    block.arguments[len(block.arguments) - 1].set_type(element)


def _find_conversion(repeat: ir.Operation) -> ir.Operation | None:
    """The op that makes what is repeated, and nothing else, by a few instructions on each element of one tensor.

    To compute these for all elements of the result costs less than to write them to memory and to read them again.
    """
    found = OpenBroadcast.of(repeat)
    source = defining_op(found.source) if found is not None else None
    if source is None or not maps_in_order(source) or num_inputs(source) != 1 or tw.GROUP not in source.attributes:
        return None
    inner, block = body_ops(source), source.regions[0].blocks[0]
    plain = all(each.name.startswith("arith.") and not each.name.startswith("arith.div") for each in inner)
    fresh = not any(True for _ in block.arguments[1].uses) and all(map(is_constant, find_captures(source)))
    keeps = [dim_of(e) for e in indexing_maps(source)[0].results] == list(range(len(iterator_types(source))))
    only = {element_of(repeat.results[0])} == {element_of(source.results[0])}
    readers = all(user.name in _CHOICES or OpenBroadcast.of(user) is not None for user in users_of(source))
    return source if plain and fresh and keeps and only and readers and len(inner) <= _MOST_CONVERTED else None


def _convert_repeated(conversion: ir.Operation, repeated: ir.Value, reader: ir.Operation) -> ir.Value:
    """What an op makes, of a tensor that is repeated, in the kernel of its reader."""
    rank = len(shape_of(repeated))
    with ir.InsertionPoint(reader), conversion.location:
        sizes = iter(emit_dynamic_sizes(repeated))
        shape = [next(sizes) if n < 0 else n for n in shape_of(repeated)]
        out = tensor.EmptyOp(shape, element_of(conversion.results[0])).result
        apply = body_of(conversion)
        [made] = builders.generic([repeated], [out], [range(rank)] * 2, "p" * rank, apply)
    made.owner.attributes[tw.GROUP] = reader.attributes[tw.GROUP]
    return made
