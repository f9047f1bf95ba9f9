"""The inputs of a block in a kernel of dynamic sizes: parts of the kernel's tensors, and the block's function."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from ....dialects import arith, builders, func, ir
from ....dialects.builders import element_of
from ....dialects.walk import defining_op
from ...analysis.size_classes import SizeClasses
from ...ir.edit import clone
from ...ir.kernel import mark_one_of_many, module_beside
from ...ir.structure import body_ops, dim_of, index_dim, indexing_maps, list_ops, shape_of
from ...ir.uses import find_captures, nested_ops
from ..tiles.regions import Interval, Linear, NotSchedulable, Region, cover, full_region
from ..tiles.structured import capture_scalar, make_empty
from ..tiling.dynamic_border import DynamicBorder, is_dynamic_padding
from .padded_parts import padded_source, whole_padding


@dataclass(frozen=True)
class Parts:
    """The dependencies of a region of a kernel's result.

    regions: the parts of its tensors. A tensor that is read at computed places is whole; its dynamic extents are -1.
    sources: the other inputs of a block, and where they lie: parts of the arguments' slices, and of constants.
    sizes: the scalar arguments that bodies compute with. places: the beginnings of loops whose index a body uses, by
    op and loop; only of loops that are cut. slices: those of known sizes that a block takes of whole arguments.
    """

    regions: dict[ir.Value, Region] = field(default_factory=dict)
    sources: dict[ir.Value, tuple[ir.Value, Region]] = field(default_factory=dict)
    sizes: dict[ir.Value, None] = field(default_factory=dict)
    places: dict[tuple[ir.Operation, int], Linear] = field(default_factory=dict)
    slices: dict[ir.Value, None] = field(default_factory=dict)

    def need(self, value: ir.Value, part: Region) -> None:
        """Add a part of a tensor. Raises NotSchedulable where another one is needed already."""
        if self.regions.setdefault(value, part) != part:
            raise NotSchedulable("a value of which a block's ops need different parts")

    def inputs(self, function: func.FuncOp) -> list[ir.Value]:
        """The tensors that a block takes: the arguments that the result depends on, in order, then other sources."""
        return [*(value for value in function.arguments if value in self.regions), *self.sources]

    def origin(self, value: ir.Value) -> tuple[ir.Value, Region]:
        """The argument, or the constant, that an input is a part of, and the part."""
        return self.sources.get(value, (value, self.regions[value]))


def block_module(
    function: func.FuncOp, sizes: Sequence[int], sums: Mapping[int, int], rows: bool = False, whole: bool = False
) -> ir.Module:
    """A module with one function: the kernel's ops on tensors of a block's sizes.

    Its arguments are those tensors of the kernel's that the result depends on, in order; with ``sums``, sizes of chunks
    by loops of the last op, what the chunk is added to, unless sums are ``whole``; with ``rows``, whose length stays
    open, that length; the sizes that bodies compute with; the places in the whole where loops begin. Raises
    NotSchedulable as ``parts_of`` does.
    """
    result = DynamicBorder.of(function).inner
    block = _choose_any_block(SizeClasses(function).of(result), sizes)
    parts = parts_of(function, block, {loop: Interval(Linear(), n) for loop, n in sums.items()}, rows, whole)
    inputs, made = parts.inputs(function), _part_type(result, parts.regions[result])
    added = bool(sums) and not whole
    kinds = [*(_part_type(value, parts.origin(value)[1]) for value in inputs), *([made] if added else [])]
    kinds += [*[ir.IndexType.get()] * rows, *(size.type for size in parts.sizes)]
    kinds += [ir.IndexType.get()] * len(parts.places)
    module, entry = module_beside(function, kinds, [made], inputs)
    mark_one_of_many(entry.owner, [_narrow_axes(*parts.origin(value)) for value in inputs])
    given = iter(entry.arguments)
    mapping: dict[ir.Value, ir.Value] = {value: next(given) for value in inputs}
    if added:
        last = defining_op(result)
        assert last is not None
        mapping[last.operands[len(last.operands) - 1]] = next(given)
    length = next(given) if rows else None
    mapping |= {size: next(given) for size in parts.sizes}
    places = {place: next(given) for place in parts.places}
    with ir.InsertionPoint(entry):
        for value in parts.sources:
            mapping[value] = _take_steps(value, parts, mapping[value])
        for op in body_ops(function):
            _clone_part(op, parts, mapping, length, places)
        func.ReturnOp([mapping[result]])
    return module


def _choose_any_block(extents: Sequence[int], sizes: Sequence[int]) -> Region:
    """A block of these sizes that stands for all: along known axes that are cut it is not the one at the beginning.

    What is true of the first block alone, as that its windows begin with the padding, is nothing to build on.
    """
    cut = (0 < size < extent for size, extent in zip(sizes, extents, strict=True))
    return tuple(Interval(Linear(size if part else 0), size) for size, part in zip(sizes, cut, strict=True))


def _narrow_axes(whole: ir.Value, region: Region) -> list[int]:
    """The axes of which a part has one place of many."""
    sizes = zip(region, shape_of(whole), strict=True)
    return [axis for axis, (interval, extent) in enumerate(sizes) if interval.size == 1 != extent]


def _part_type(value: ir.Value, region: Region) -> ir.Type:
    return ir.RankedTensorType.get([interval.size for interval in region], element_of(value))


def _clone_part(
    op: ir.Operation,
    parts: Parts,
    mapping: dict[ir.Value, ir.Value],
    length: ir.Value | None,
    places: Mapping[tuple[ir.Operation, int], ir.Value],
) -> None:
    """Copy an op that makes a part of a block, on tensors of the parts' sizes, open ones of which are ``length``.

    ``places``: where loops begin that bodies ask for the place of.
    """
    if not len(op.results) or op.results[0] not in parts.regions or op.results[0] in mapping:
        if op.name == "arith.constant" and not isinstance(op.results[0].type, ir.RankedTensorType):
            mapping[op.results[0]] = op.clone().results[0]
        return
    [value] = op.results
    if op.name == "tensor.empty":
        mapping[value] = make_empty([interval.size for interval in parts.regions[value]], element_of(value), length)
    elif value in parts.slices:
        clone(op, mapping)
    elif op.name in ("tensor.cast", "tensor.extract_slice"):  # a part of one is a part of what it is of
        mapping[value] = _take_steps(value, parts, mapping[op.operands[0]])
    elif is_dynamic_padding(op):
        mapping[value] = _pad_part(op, parts, mapping[op.operands[0]])
    else:
        copy = clone(op, mapping)
        copy.results[0].set_type(_part_type(value, parts.regions[value]))
        for index in _indices(copy):
            if (begin := places.get((op, index_dim(index)))) is not None:
                _count_from(begin, index)


def _take_steps(value: ir.Value, parts: Parts, covered: ir.Value) -> ir.Value:
    """The part of a slice: every so many elements of the part that these lie in, or this itself."""
    op = defining_op(value)
    if op is None or op.name != "tensor.extract_slice" or {*(steps := _steps_of(op))} == {1}:
        return covered
    return builders.slice_(covered, [0] * len(steps), [interval.size for interval in parts.regions[value]], steps)


def _steps_of(op: ir.Operation) -> list[int]:
    return list(ir.DenseI64ArrayAttr(op.attributes["static_strides"]))


def _pad_part(op: ir.Operation, parts: Parts, source: ir.Value) -> ir.Value:
    """The part of a padded tensor that has all of its padding, by a padding of known sizes."""
    sizes, inner = ([i.size for i in parts.regions[value]] for value in (op.results[0], op.operands[0]))
    low = list(ir.DenseI64ArrayAttr(op.attributes["static_offsets"]))
    high = [whole - n - own for whole, n, own in zip(sizes, low, inner, strict=True)]
    around = defining_op(op.operands[1])
    assert around is not None  # what is padded lies in a filled tensor
    return builders.pad(source, low, high, capture_scalar(around.operands[0]))


def _indices(op: ir.Operation) -> list[ir.Operation]:
    return [inner for inner in nested_ops(op) if inner.name == "linalg.index"]


def _count_from(begin: ir.Value, index: ir.Operation) -> None:
    """Let a ``linalg.index`` count from a place on."""
    with ir.InsertionPoint.after(index), index.location:
        counted = arith.addi(index.results[0], begin)
    index.results[0].replace_all_uses_except(counted, counted.owner.operation)


def parts_of(
    function: func.FuncOp, region: Region, sums: Mapping[int, Interval], rows: bool = False, whole: bool = False
) -> Parts:
    """The parts of the kernel's tensors, the sizes and the places that a region of its result depends on.

    Args:
        sums: the parts of open loops that the last op sums up; it adds them to what is there already.
        rows: whether ops may reduce open axes, which are then needed whole.
        whole: whether the parts of open loops are all of them, so that the last op begins with its own initial value.

    Raises NotSchedulable where readers need different parts of one, or an op tells none.
    """
    result, known = DynamicBorder.of(function).inner, SizeClasses(function)
    parts = Parts()
    parts.need(result, region)
    for op in reversed(list_ops(function)):
        if not any(value in parts.regions for value in op.results):
            continue
        if len(op.results) != 1:
            raise NotSchedulable("no blocks of an op with several results")
        part = parts.regions[op.results[0]]
        if op.name == "linalg.generic":
            of_op = sums if op.results[0] == result else {}
            _need_operands(op, part, of_op, parts, rows, known, added=bool(of_op) and not whole)
        elif op.name in ("linalg.fill", "tensor.cast"):
            parts.need(op.operands[len(op.operands) - 1], part)
        elif op.results[0] in parts.slices:
            parts.need(op.operands[0], full_region(known.of(op.operands[0])))
        elif op.name == "tensor.extract_slice" and defining_op(op.operands[0]) is None:
            parts.sources[op.results[0]] = op.operands[0], _slice_part(op, part, rows, known)
        elif op.name == "tensor.extract_slice":
            parts.need(op.operands[0], _slice_part(op, part, rows, known))
        elif is_dynamic_padding(op):
            if rows:
                raise NotSchedulable("rows of any length of what is padded")
            if (inner := whole_padding(op, part, known)) is not None:
                parts.need(op.operands[0], inner)
                continue
            padded_source(op, part)
            parts.sources[op.results[0]] = op.results[0], part
        elif op.name == "linalg.unpack" and part == full_region(known.of(op.results[0])):
            for operand in op.operands:
                parts.need(operand, full_region(known.of(operand)))
        elif op.name == "arith.constant":
            if [interval.size for interval in part] != shape_of(op.results[0]):  # else all of it, wherever a block is
                parts.sources[op.results[0]] = op.results[0], part
        elif op.name != "tensor.empty":
            raise NotSchedulable(f"no blocks of {op.name}")
    if rows and len({part.size for region in parts.regions.values() for part in region if part.size < 0}) > 1:
        raise NotSchedulable("rows of several lengths")
    return parts


def _slice_part(op: ir.Operation, part: Region, rows: bool, known: SizeClasses) -> Region:
    """The part of what a slice is of that a part of the slice is, or lies in if it has steps."""
    offsets, steps = list(ir.DenseI64ArrayAttr(op.attributes["static_offsets"])), _steps_of(op)
    if len(offsets) != len(part) or min(*offsets, *steps) < 0:
        raise NotSchedulable("a slice whose place, or steps, only the run knows")
    if any(step != 1 and (each.size < 0 or each.stride != 1) for each, step in zip(part, steps, strict=True)):
        raise NotSchedulable("all of an open axis of a slice with steps, or every so many of its elements")
    source = tuple(
        replace(
            each, offset=each.offset * step + Linear(start), size=each.size if step == 1 else (each.size - 1) * step + 1
        )
        for each, start, step in zip(part, offsets, steps, strict=True)
    )
    whole = any(interval.size < 0 for interval in part)
    if whole and (rows or source != full_region(known.of(op.operands[0]))):
        raise NotSchedulable("all of a slice of open extents, which may be longer outside of it")
    return source


def _need_operands(
    op: ir.Operation,
    part: Region,
    sums: Mapping[int, Interval],
    parts: Parts,
    rows: bool,
    known: SizeClasses,
    added: bool,
) -> None:
    """Add what a block of a structured op's result reads and computes with, but for what it is ``added`` to."""
    maps, extents = indexing_maps(op), known.loops(op)
    loops = [sums.get(loop, Interval(Linear(), n)) for loop, n in enumerate(extents)]
    for interval, expression in zip(part, maps[-1].results, strict=True):
        dim = dim_of(expression)
        if dim is None:
            raise NotSchedulable("a result that is not indexed by its loops alone")
        loops[dim] = interval
    if not rows and any(interval.size < 0 and loop not in sums for loop, interval in enumerate(loops)):
        raise NotSchedulable("a sum over an open axis")
    count = len(op.operands) - (1 if added else 0)
    for operand, indexing_map in zip(list(op.operands)[:count], maps, strict=False):
        if isinstance(operand.type, ir.RankedTensorType):
            parts.need(operand, _cover(known.of(operand), indexing_map, loops))
    for loop in map(index_dim, _indices(op)):
        if loops[loop].size != extents[loop]:
            parts.places[op, loop] = loops[loop].offset
    _need_captures(op, parts, rows, known)


def _cover(shape: Sequence[int], indexing_map: ir.AffineMap, loops: Sequence[Interval]) -> Region:
    """The part of an operand that loops read; of a dim that is read at one place, by its number, all."""
    places = zip(indexing_map.results, full_region(shape), strict=True)
    return tuple(
        whole if isinstance(expression, ir.AffineConstantExpr) else cover(expression, loops)
        for expression, whole in places
    )


def _is_part(value: ir.Value) -> bool:
    """Return whether a tensor is a slice, or a view of one."""
    while (op := defining_op(value)) is not None and op.name.startswith("tensor.") and len(op.operands):
        if op.name == "tensor.extract_slice":
            return True
        value = op.operands[0]
    return False


def _is_known_slice(value: ir.Value) -> bool:
    """Return whether a tensor is a slice of an argument, both of known sizes: a block can take it of the whole."""
    op = defining_op(value)
    if op is None or op.name != "tensor.extract_slice" or len(op.operands) != 1 or defining_op(op.operands[0]):
        return False
    return min(*shape_of(value), *shape_of(op.operands[0])) >= 0


def _need_captures(op: ir.Operation, parts: Parts, rows: bool, known: SizeClasses) -> None:
    """Add what a body captures: tensors that it reads at computed places, sizes, constants."""
    for value in find_captures(op):
        source = defining_op(value)
        if isinstance(value.type, ir.RankedTensorType):
            if rows and min(shape_of(value), default=1) < 0:
                raise NotSchedulable("rows of any length that read elements of an open tensor")
            if _is_known_slice(value):
                parts.slices[value] = None
            elif _is_part(value):  # vectors of elements are gathered as if rows lay one behind another
                raise NotSchedulable("a body that reads elements of a part of a tensor")
            parts.need(value, full_region(known.of(value)))
        elif source is None:
            parts.sizes[value] = None
        elif source.name != "arith.constant":
            raise NotSchedulable("a body that computes with what the kernel computes first")
