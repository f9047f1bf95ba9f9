"""Elementwise kernels with operands that only the run knows to be broadcast: loops over rows, with strides.

An operand has a stride along each axis of the result: 0 where it is repeated. Neighbouring axes become one where the
strides of all operands allow it, so that a row is as long as can be: the whole result, where nothing is repeated. Along
a row the stride of an operand is 1 or 0: for each choice there is a function of one axis, cut into blocks as others.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ....core.target import Target
from ....dialects import arith, func, ir, memref, scf, tensor
from ....dialects.builders import element_of, generic, index_constant
from ....dialects.structured import iterators_attr
from ....dialects.types import DYNAMIC
from ....dialects.walk import defining_op
from ...ir.broadcasts import OpenBroadcast, maps_in_order
from ...ir.edit import clone
from ...ir.kernel import list_functions, module_beside, run_upstream
from ...ir.maps import set_maps
from ...ir.structure import dim_of, indexing_maps, list_ops, shape_of, terminator_of
from ...ir.uses import find_captures
from ..loop_plan import STEPS
from ..tiles.buffers import buffer_of, tensor_of
from ..tiles.loops import loop_over, walk_part
from ..tiles.regions import NotSchedulable
from ..tiling.destination_passing import destination_passing, is_empty
from ..tiling.part_nests import Chooser
from ..tiling.strided_boxes import flatten_buffer, join_axes
from .block_kernels import OneFunction
from .block_loops import Blocks
from .blocks import choose_blocks
from .part_loops import Computation, Part, Segment, cut_axis, share_range

# Blocks of a row that threads share no further.
_PIECE = 64
# Operands of which only the run knows whether they are repeated along a row: each doubles the code.
_MOST_UNSURE = 3


@dataclass(frozen=True)
class RowOperand:
    """An argument that a kernel reads: the axis of the result that each of its own lies along, None for one of one
    element, and those of these axes along which only the run knows whether it is repeated."""

    argument: ir.Value
    axes: tuple[int | None, ...]
    unsure: frozenset[int]


@dataclass(frozen=True)
class RowKernel(OneFunction):
    """A module with the function that computes a row, and its blocks; ``along``: which operands have a stride of 1."""

    module: ir.Module
    blocks: Blocks
    along: tuple[bool, ...]


@dataclass(frozen=True)
class BroadcastRows:
    """The loops of a kernel: ``kernels`` for all choices of what is repeated along a row."""

    operands: tuple[RowOperand, ...]
    kernels: tuple[RowKernel, ...]

    @property
    def extent(self) -> int:
        """Steps of the parallel axis."""
        return STEPS

    @property
    def ahead(self) -> bool:
        """Nothing is computed before the steps."""
        return False

    def parallel_from(self, function: func.FuncOp) -> int | None:
        """From how many elements of the result on threads pay."""
        return self.kernels[0].blocks.parallel_from(function)

    def to_json(self) -> Any:
        """There is no schedule of the whole."""
        return None

    def __str__(self) -> str:
        return f"rows along which each operand is read or repeated, in\n{self.kernels[0].blocks}"

    def build(self, function: func.FuncOp, target: Target) -> ir.Module:
        """The function as loops over rows. Raises NotSchedulable where there is no element to compute."""
        kinds = (*function.type.inputs, *function.type.results)
        if any(is_empty(kind) for kind in kinds if isinstance(kind, ir.RankedTensorType)):
            raise NotSchedulable("tensors of no elements have no buffer")

        def body(
            arguments: dict[ir.Value, ir.Value], dests: list[ir.Value], lo: ir.Value, hi: ir.Value
        ) -> list[ir.Value]:
            buffers = [buffer_of(arguments[operand.argument]) for operand in self.operands]
            _Rows(self, buffers, buffer_of(dests[0]), target).emit(lo, hi)
            return dests

        made = destination_passing(function, body)
        run_upstream(made, ("canonicalize", "cse"))
        return made


def choose_broadcast_rows(function: func.FuncOp, choose: Chooser) -> BroadcastRows:
    """Loops over rows, with schedules that ``choose`` gives for their blocks.

    Raises NotSchedulable for kernels that are more than one op and what it reads, or where nothing may be repeated.
    """
    *ops, end = list_ops(function)
    repeats: dict[ir.Value, OpenBroadcast] = {
        each.results[0]: found for each in ops if (found := OpenBroadcast.of(each)) is not None
    }
    op = defining_op(end.operands[0]) if len(end.operands) == 1 else None
    if op is None or not repeats:
        raise NotSchedulable("no operands that may be repeated")
    others = [each for each in ops if each != op and len(each.results) and each.results[0] not in repeats]
    if any(each.name not in ("tensor.empty", "arith.constant") for each in others):
        raise NotSchedulable("other ops beside it")
    if op.results[0] in repeats:  # alone: its elements are copied
        copy = _Copy.of(function, op.results[0])
        return _choose_rows(
            function, copy.op, [_read(op.results[0], repeats, range(len(shape_of(op.results[0]))))], choose
        )
    if not maps_in_order(op):
        raise NotSchedulable("an op that does more than map elements in order")
    reads = zip(op.operands, indexing_maps(op)[:-1], strict=False)
    operands = [_read(value, repeats, [dim_of(e) for e in m.results]) for value, m in reads]
    return _choose_rows(function, op, operands, choose)


def _choose_rows(
    function: func.FuncOp, op: ir.Operation, operands: Sequence[RowOperand], choose: Chooser
) -> BroadcastRows:
    inner = indexing_maps(op)[-1].n_dims - 1
    if inner < 0 or any(
        (source := defining_op(c)) is None or source.name != "arith.constant" for c in find_captures(op)
    ):
        raise NotSchedulable("one element, or a body that computes with sizes")
    choices = [((True, False) if inner in o.unsure else (inner in o.axes,)) for o in operands]
    if sum(len(choice) > 1 for choice in choices) > _MOST_UNSURE:
        raise NotSchedulable("too many operands that may be repeated")
    kernels = tuple(_make_row(function, op, operands, along, choose) for along in itertools.product(*choices))
    return BroadcastRows(tuple(operands), kernels)


def _read(value: ir.Value, repeats: Mapping[ir.Value, OpenBroadcast], dims: Sequence[int | None]) -> RowOperand:
    """What an op reads of an operand that lies along these axes of its result."""
    found = repeats.get(value, OpenBroadcast(value, frozenset()))
    if not isinstance(value.type, ir.RankedTensorType) or defining_op(found.source) is not None:
        raise NotSchedulable("an operand that is no argument")
    unsure = frozenset(d for axis in found.unsure if (d := dims[axis]) is not None)
    return RowOperand(found.source, tuple(dims), unsure)


@dataclass(frozen=True)
class _Copy(OneFunction):
    """A module with a function that copies a tensor."""

    module: ir.Module

    @staticmethod
    def of(function: func.FuncOp, value: ir.Value) -> _Copy:
        kind = ir.RankedTensorType(value.type)
        module, entry = module_beside(function, [kind, kind], [kind], [])
        with ir.InsertionPoint(entry):
            maps, iterators = [range(kind.rank)] * 2, "p" * kind.rank
            func.ReturnOp(generic([entry.arguments[0]], [entry.arguments[1]], maps, iterators, lambda a, _: a))
        return _Copy(module)

    @property
    def op(self) -> ir.Operation:
        """The op that copies."""
        found = defining_op(terminator_of(self.function).operands[0])
        assert found is not None
        return found


def _make_row(
    function: func.FuncOp, op: ir.Operation, operands: Sequence[RowOperand], along: tuple[bool, ...], choose: Chooser
) -> RowKernel:
    """The op on one axis: each operand has that, or one element."""
    made = ir.RankedTensorType.get([DYNAMIC], element_of(op.results[0]))
    elements = [element_of(op.operands[number]) for number in range(len(along))]
    kinds = [ir.RankedTensorType.get([DYNAMIC if own else 1], e) for own, e in zip(along, elements, strict=True)]
    module, entry = module_beside(function, [*kinds, ir.IndexType.get()], [made], [each.argument for each in operands])
    *given, length = entry.arguments
    with ir.InsertionPoint(entry):
        mapping = dict[ir.Value, ir.Value]()
        for captured in find_captures(op):
            source = defining_op(captured)
            assert source is not None
            mapping[captured] = source.clone().results[0]
        out = tensor.EmptyOp([length], made.element_type).result
        copy = clone(op, mapping)
        for number, value in enumerate((*given, out)):
            copy.operands[number] = value
        copy.results[0].set_type(made)
        copy.attributes["iterator_types"] = iterators_attr(["parallel"])
        zero, index = ir.AffineExpr.get_constant(0), ir.AffineExpr.get_dim(0)
        set_maps(copy, [ir.AffineMap.get(1, 0, [index if own else zero]) for own in (*along, True)])
        func.ReturnOp([copy.results[0]])
    return RowKernel(module, choose_blocks(list_functions(module)[0], choose), along)


@dataclass(frozen=True)
class _RowBlocks:
    """A row's function, and the blocks along it by their sizes."""

    kernel: RowKernel
    segments: Mapping[int, Segment]


class _Rows:
    """Emits the loops: ``extents`` of the axes, and the ``strides`` of each operand, the result last."""

    def __init__(self, plan: BroadcastRows, buffers: Sequence[ir.Value], result: ir.Value, target: Target) -> None:
        self.target = target
        self.plan, self.buffers = plan, [flatten_buffer(buffer) for buffer in (*buffers, result)]
        rank = ir.MemRefType(result.type).rank
        self.extents = [memref.DimOp(result, index_constant(axis)).result for axis in range(rank)]
        self.strides = [_strides_of(o, b, rank) for o, b in zip(plan.operands, buffers, strict=True)]
        whole = RowOperand(result, tuple(range(rank)), frozenset())
        self.strides.append(_strides_of(whole, result, rank))
        for axis in range(rank - 1):
            self._join(axis)

    def emit(self, lo: ir.Value, hi: ir.Value) -> None:
        """The part [lo, hi), of ``STEPS``, of all rows."""
        for kernel in self.plan.kernels:
            fits = arith.constant(ir.IntegerType.get_signless(1), 1)
            for own, strides in zip(kernel.along, self.strides, strict=False):
                wanted = index_constant(1 if own else 0)
                fits = arith.andi(fits, arith.cmpi(arith.CmpIPredicate.eq, strides[-1], wanted))
            branch = scf.IfOp(fits)
            with ir.InsertionPoint(branch.then_block):
                self._emit_kernel(kernel, lo, hi)
                scf.YieldOp([])

    def _emit_kernel(self, kernel: RowKernel, lo: ir.Value, hi: ir.Value) -> None:
        [(axis, sizes)] = kernel.blocks.cuts.items()
        *outer, length = self.extents
        segments = cut_axis(length, sizes, axis in kernel.blocks.repeated)
        pieces = arith.ceildivui(segments[sizes[0]].count, index_constant(_PIECE))
        counts = [*outer, arith.maxui(pieces, index_constant(1))]
        steps = functools.reduce(arith.muli, counts)
        first, last = share_range(lo, hi)(steps)
        row = _RowBlocks(kernel, segments)

        def emit(first: ir.Value, last: ir.Value, offsets: Sequence[ir.Value]) -> None:
            parts = self._parts(row, offsets)
            loop_over(first, last, 1, lambda number: self._piece(row, parts, number))

        walk_part(counts, self.strides, (first, last), [index_constant(0)] * len(self.strides), emit)

    def _join(self, axis: int) -> None:
        """Make an axis and the next one the latter, where all operands go on from one row to the next.

        An inner axis of one element takes the strides of the outer one, if there is a kernel for these.
        """
        one, inner = index_constant(1), self.extents[axis + 1]
        single = arith.cmpi(arith.CmpIPredicate.eq, inner, one)
        if axis + 2 == len(self.extents):
            for operand, strides in zip(self.plan.operands, self.strides, strict=False):
                if axis + 1 not in operand.unsure:
                    same = arith.cmpi(arith.CmpIPredicate.eq, strides[axis], strides[axis + 1])
                    single = arith.andi(single, same)
        join_axes(self.extents, self.strides, axis, single)

    def _parts(self, row: _RowBlocks, offsets: Sequence[ir.Value]) -> list[Part]:
        """What computes the blocks of the row at these places of the operands and the result."""
        kernel, length = row.kernel, self.extents[-1]
        *read, place = [
            _part(buffer, offset, length if own else None)
            for buffer, offset, own in zip(self.buffers, offsets, (*kernel.along, True), strict=True)
        ]
        arguments = dict(zip(kernel.function.arguments, [*map(tensor_of, read), length], strict=True))
        computed = Computation(kernel.function, arguments, place, self.target)
        [axis] = kernel.blocks.cuts
        return [Part(v, {axis: row.segments[v.sizes[axis]]}, computed) for v in kernel.blocks.versions]

    def _piece(self, row: _RowBlocks, parts: Sequence[Part], number: ir.Value) -> None:
        """So many of a row's largest blocks, and with the last of these its smaller ones."""
        zero, most = index_constant(0), index_constant(_PIECE)
        largest, *others = parts
        start = arith.muli(number, most)
        end = arith.addi(start, most)
        largest.loop(start, arith.minui(end, largest.blocks), None)
        ends = arith.cmpi(arith.CmpIPredicate.uge, end, largest.blocks)
        rest = functools.reduce(arith.ori, (part.blocks for part in others), zero)
        left = arith.andi(ends, arith.cmpi(arith.CmpIPredicate.ne, rest, zero))
        with ir.InsertionPoint(scf.IfOp(left).then_block):  # for most rows one question, not one for each size
            for part in others:
                part.loop(zero, part.blocks, None)
            scf.YieldOp([])


def _strides_of(operand: RowOperand, buffer: ir.Value, rank: int) -> list[ir.Value]:
    """The strides of an operand along the axes of the result, 0 where it is repeated."""
    zero, one, step = index_constant(0), index_constant(1), index_constant(1)
    found = [zero] * rank
    for own, axis in reversed(list(enumerate(operand.axes))):
        extent = memref.DimOp(buffer, index_constant(own)).result
        if axis is not None:
            alone = arith.cmpi(arith.CmpIPredicate.eq, extent, one)
            found[axis] = arith.select(alone, zero, step) if axis in operand.unsure else step
        step = arith.muli(step, extent)
    return found


def _part(buffer: ir.Value, offset: ir.Value, length: ir.Value | None) -> ir.Value:
    """So many elements of a buffer of one axis, or one."""
    layout = ir.StridedLayoutAttr.get(DYNAMIC, [1])
    kind = ir.MemRefType.get([1 if length is None else DYNAMIC], element_of(buffer), layout)
    sizes, static = ([], [1]) if length is None else ([length], [DYNAMIC])
    return memref.SubViewOp(kind, buffer, [offset], sizes, [], [DYNAMIC], static, [1]).result
