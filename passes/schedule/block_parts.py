"""What a block of a kernel of open sizes needs: parts of the kernel's tensors, and the function that computes it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from ...dialects import func, ir
from ...dialects.walk import defining_op
from ..graph.edit import captures, clone, nested
from ..kernel import copy_marks, symbol
from ..structure import dim_of, indexing_maps, loop_extents
from .open_border import OpenBorder
from .structured import (
    DYNAMIC,
    Interval,
    Linear,
    NotSchedulable,
    Region,
    covered,
    element_of,
    empty,
    full_region,
    shape_of,
)


def block_module(function: func.FuncOp, sizes: Sequence[int], sums: Mapping[int, int], rows: bool = False) -> ir.Module:
    """A module with one function: the kernel's ops on tensors of a block's sizes.

    Its arguments are those tensors of the kernel's that the result depends on, in order. With ``sums``, sizes of chunks
    by loops of the last op, there is one more: what the chunk is added to. With ``rows``, whose length stays open, the
    last one is that length. Raises NotSchedulable as ``parts_of`` does.
    """
    result = OpenBorder.of(function).inner
    whole = tuple(Interval(Linear(), n) for n in sizes)
    parts = parts_of(function, whole, {loop: Interval(Linear(), n) for loop, n in sums.items()}, rows)
    inputs = [value for value in function.arguments if value in parts]
    made = _part_type(result, parts[result])
    kinds = [*(_part_type(value, parts[value]) for value in inputs), *([made] if sums else [])]
    kinds += [ir.IndexType.get()] if rows else []
    module = ir.Module.create()
    with ir.InsertionPoint(module.body):
        block = func.FuncOp(symbol(function), (kinds, [made]))
    copy_marks(function, block)
    entry = block.add_entry_block()
    mapping: dict[ir.Value, ir.Value] = dict(zip(inputs, entry.arguments, strict=False))
    if sums:
        last = defining_op(result)
        assert last is not None
        mapping[last.operands[len(last.operands) - 1]] = entry.arguments[-1]
    with ir.InsertionPoint(entry):
        for op in list(function.regions[0].blocks[0].operations)[:-1]:
            _clone_part(op.operation, parts, mapping, entry.arguments[-1] if rows else None)
        func.ReturnOp([mapping[result]])
    return module


def _part_type(value: ir.Value, region: Region) -> ir.Type:
    return ir.RankedTensorType.get([interval.size for interval in region], element_of(value))


def _clone_part(
    op: ir.Operation,
    parts: Mapping[ir.Value, Region],
    mapping: dict[ir.Value, ir.Value],
    length: ir.Value | None,
) -> None:
    """Copy an op that makes a part of a block, on tensors of the parts' sizes, open ones of which are ``length``."""
    if not len(op.results) or op.results[0] not in parts:
        if op.name == "arith.constant" and not isinstance(op.results[0].type, ir.RankedTensorType):
            mapping[op.results[0]] = op.clone().results[0]
        return
    [value] = op.results
    if op.name == "tensor.empty":
        mapping[value] = empty([interval.size for interval in parts[value]], element_of(value), length)
    elif op.name in ("tensor.cast", "tensor.extract_slice"):  # a part of one is a part of what it is of
        mapping[value] = mapping[op.operands[0]]
    else:
        clone(op, mapping).results[0].set_type(_part_type(value, parts[value]))


def parts_of(
    function: func.FuncOp, region: Region, sums: Mapping[int, Interval], rows: bool = False
) -> dict[ir.Value, Region]:
    """The parts of the kernel's tensors that a region of its result depends on.

    Args:
        sums: the parts of open loops that the last op sums up; it adds them to what is there already.
        rows: whether ops may reduce open axes, which are then needed whole.

    Raises NotSchedulable where readers need different parts of one, or an op tells none.
    """
    result = OpenBorder.of(function).inner
    parts: dict[ir.Value, Region] = {}

    def need(value: ir.Value, part: Region) -> None:
        if parts.setdefault(value, part) != part:
            raise NotSchedulable("a value of which a block's ops need different parts")

    need(result, region)
    for op in reversed([o.operation for o in function.regions[0].blocks[0].operations]):
        if not any(value in parts for value in op.results):
            continue
        if len(op.results) != 1:
            raise NotSchedulable("no blocks of an op with several results")
        part = parts[op.results[0]]
        if op.name == "linalg.generic":
            _need_operands(op, part, sums if op.results[0] == result else {}, need, rows)
        elif op.name in ("linalg.fill", "tensor.cast"):
            need(op.operands[len(op.operands) - 1], part)
        elif op.name == "tensor.extract_slice":
            need(op.operands[0], _sliced(op, part))
        elif op.name in ("linalg.unpack", "arith.constant") and part == full_region(shape_of(op.results[0])):
            for operand in op.operands:
                need(operand, full_region(shape_of(operand)))
        elif op.name != "tensor.empty":
            raise NotSchedulable(f"no blocks of {op.name}")
    return parts


def _sliced(op: ir.Operation, part: Region) -> Region:
    """The part of what a slice is of that a part of the slice is."""
    offsets, steps = (list(ir.DenseI64ArrayAttr(op.attributes[f"static_{name}"])) for name in ("offsets", "strides"))
    if len(offsets) != len(part) or min(offsets) < 0 or set(steps) != {1}:
        raise NotSchedulable("a slice whose place only the run knows, or with steps")
    if any(interval.size == DYNAMIC for interval in part):
        raise NotSchedulable("rows of any length of a slice, which may be longer outside of it")
    moved = zip(part, offsets, strict=True)
    return tuple(replace(interval, offset=interval.offset + Linear(start)) for interval, start in moved)


def _need_operands(
    op: ir.Operation,
    part: Region,
    sums: Mapping[int, Interval],
    need: Callable[[ir.Value, Region], None],
    rows: bool,
) -> None:
    """What a block of a structured op's result reads."""
    maps = indexing_maps(op)
    if any(inner.name == "linalg.index" for inner in nested(op)):
        raise NotSchedulable("no blocks of an op that computes with its place")
    loops = [sums.get(loop, Interval(Linear(), n)) for loop, n in enumerate(loop_extents(op))]
    for interval, expression in zip(part, maps[-1].results, strict=True):
        dim = dim_of(expression)
        if dim is None:
            raise NotSchedulable("a result that is not indexed by its loops alone")
        loops[dim] = interval
    if not rows and any(interval.size < 0 for interval in loops):
        raise NotSchedulable("a sum over an open axis")
    count = len(op.operands) - (1 if sums else 0)  # what chunks are added to is given
    for operand, indexing_map in zip(list(op.operands)[:count], maps, strict=False):
        if isinstance(operand.type, ir.RankedTensorType):
            need(operand, tuple(covered(expression, loops) for expression in indexing_map.results))
    for value in captures(op):
        source = defining_op(value)
        if isinstance(value.type, ir.RankedTensorType):
            if min(shape_of(value), default=0) < 0:
                raise NotSchedulable("elements of an open tensor, read at places that are computed")
            need(value, full_region(shape_of(value)))
        elif source is None or source.name != "arith.constant":
            raise NotSchedulable("a body that computes with a size")
