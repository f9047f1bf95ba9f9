"""Elementwise kernels whose operands lie in strides that only the run knows: repeated ones, and slices.

An operand has a stride along each axis of the result: 0 where it is repeated. Neighbouring axes become one where the
strides of all operands allow it, so that a row is as long as can be: the whole result, where nothing is repeated. Along
a row the stride of an operand is 1 or 0, or the step of a slice: for each choice there is a function of one axis, cut
into blocks as others. Many rows of a few elements go together (``row_groups.py``), unless slices have steps along them.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ....core.target import Target
from ....dialects import arith, bufferization, func, ir, memref, scf, tensor
from ....dialects.builders import element_of, generic, index_constant
from ....dialects.structured import iterators_attr
from ....dialects.types import DYNAMIC
from ....dialects.walk import defining_op, is_constant
from ...ir.broadcasts import OpenBroadcast, maps_in_order
from ...ir.dynamic_sizes import read_amounts
from ...ir.edit import clone
from ...ir.kernel import list_functions, module_beside, run_upstream
from ...ir.maps import set_maps
from ...ir.structure import dim_of, indexing_maps, list_ops, shape_of, terminator_of
from ...ir.uses import find_captures
from ..loop_plan import STEPS
from ..tiles.buffers import buffer_of, tensor_of
from ..tiles.loops import branch_off, loop_over, walk_part
from ..tiles.regions import NotSchedulable
from ..tiling.destination_passing import destination_passing, is_empty
from ..tiling.dynamic_border import resolve_size
from ..tiling.part_nests import Chooser
from ..tiling.strided_boxes import (
    Place,
    find_extents,
    find_offset,
    find_strides,
    flatten_buffer,
    join_axes,
    move_ones_out,
)
from .block_kernels import OneFunction
from .block_loops import Blocks
from .blocks import choose_blocks
from .part_loops import Computation, Part, Segment, cut_axis, share_range
from .row_groups import FilledRows, RowGroups, view_row

# Blocks of a row that threads share no further.
_PIECE = 64
# Elements along known axes that rows of slices have blocks of their own for.
_LEAST_KNOWN = 32
# Operands of which only the run knows whether they are repeated along a row: each doubles the code. Of more there are
# functions where one is repeated, or none is, up to so many; for other choices operands are repeated in memory.
_MOST_UNSURE, _MOST_SINGLE = 3, 7


@dataclass(frozen=True)
class RowOperand:
    """What a kernel reads, an argument or a constant: the axis of the result that each of its own lies along, None for
    one of one element, those of these axes along which only the run knows whether it is repeated, and where it begins
    along its own axes, how long it is there and in which steps, if it is a slice."""

    argument: ir.Value
    axes: tuple[int | None, ...]
    unsure: frozenset[int]
    starts: tuple[int | ir.Value, ...] = ()
    sizes: tuple[int | ir.Value, ...] = ()
    steps: tuple[int, ...] = ()

    def step_along(self, axis: int) -> int:
        """The step along an axis of the result."""
        return self.steps[self.axes.index(axis)] if self.steps and axis in self.axes else 1

    def find_place(self, buffer: ir.Value, rank: int, arguments: Mapping[ir.Value, ir.Value]) -> Place:
        """Where it lies in a buffer, with strides along so many axes of the result, 0 where it is repeated."""
        starts, sizes = (
            [resolve_size(n, arguments) if isinstance(n, ir.Value) else index_constant(n) for n in numbers]
            for numbers in (self.starts, self.sizes)
        )
        start = find_offset(starts, find_strides(buffer)) if starts else index_constant(0)
        return Place(flatten_buffer(buffer), start, tuple(_strides_of(self, buffer, sizes, rank)))


@dataclass(frozen=True)
class RowKernel(OneFunction):
    """A module with the function that computes a row, and its blocks; ``along``: the operands' strides."""

    module: ir.Module
    blocks: Blocks
    along: tuple[int, ...]


@dataclass(frozen=True)
class BroadcastRows:
    """The loops of a kernel: ``kernels`` for all choices of what is repeated along a row.

    together: the kernel of rows that go together, in which nothing is repeated; None where there is one row, or steps.
    others: the kernel of rows for which there is none, in which only those operands are repeated that always are; None
    where there is one for each choice.
    """

    operands: tuple[RowOperand, ...]
    kernels: tuple[RowKernel, ...]
    together: RowKernel | None
    others: RowKernel | None

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
        together = "" if self.together is None else ", short ones together,"
        return f"rows along which each operand is read or repeated{together} in\n{self.kernels[0].blocks}"

    def build(self, function: func.FuncOp, target: Target) -> ir.Module:
        """The function as loops over rows. Raises NotSchedulable where there is no element to compute."""
        kinds = (*function.type.inputs, *function.type.results)
        if any(is_empty(kind) for kind in kinds if isinstance(kind, ir.RankedTensorType)):
            raise NotSchedulable("tensors of no elements have no buffer")

        def body(
            arguments: dict[ir.Value, ir.Value], dests: list[ir.Value], lo: ir.Value, hi: ir.Value
        ) -> list[ir.Value]:
            _Rows(self, arguments, buffer_of(dests[0]), target).emit(lo, hi)
            return dests

        made = destination_passing(function, body)
        run_upstream(made, ("canonicalize", "cse"))
        return made


def choose_broadcast_rows(function: func.FuncOp, choose: Chooser) -> BroadcastRows:
    """Loops over rows, with schedules that ``choose`` gives for their blocks.

    Raises NotSchedulable for kernels that are more than one op and what it reads, or where nothing may be repeated and
    no rows lie apart.
    """
    *ops, end = list_ops(function)
    repeats: dict[ir.Value, OpenBroadcast] = {
        each.results[0]: found for each in ops if (found := OpenBroadcast.of(each)) is not None
    }
    op = defining_op(end.operands[0]) if len(end.operands) == 1 else None
    if op is None or not (repeats or _reads_rows_apart(op)):
        raise NotSchedulable("no operands that may be repeated")
    others = [each for each in ops if each != op and len(each.results) and each.results[0] not in repeats]
    if any(each.name not in ("tensor.empty", "tensor.extract_slice", "arith.constant") for each in others):
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
    steps = [o.step_along(inner) if inner in o.axes else 0 for o in operands]
    choices = [(step, 0) if inner in o.unsure else (step,) for o, step in zip(operands, steps, strict=True)]
    most = sum(len(choice) > 1 for choice in choices) <= _MOST_UNSURE
    if not most and max(steps) > 1:
        raise NotSchedulable("too many operands that may be repeated, and steps")
    chosen = itertools.product(*choices) if most else _list_single(choices)
    kernels = {along: _make_row(function, op, operands, along, choose) for along in chosen}
    together, others = None, None if most else next(iter(kernels.values()))
    if inner > 0 and max(steps, default=0) <= 1:
        whole = tuple(int(any(axis is not None for axis in o.axes)) for o in operands)
        together = kernels.get(whole) or _make_row(function, op, operands, whole, choose)
    return BroadcastRows(tuple(operands), tuple(kernels.values()), together, others)


def _list_single(choices: Sequence[tuple[int, ...]]) -> list[tuple[int, ...]]:
    """The choice of the first of each, and, unless these are many, those of the second one of a single one."""
    first = tuple(choice[0] for choice in choices)
    unsure = [number for number, choice in enumerate(choices) if len(choice) > 1]
    single = [(*first[:number], choices[number][1], *first[number + 1 :]) for number in unsure]
    return [first, *(single if len(single) <= _MOST_SINGLE else [])]


def _reads_rows_apart(op: ir.Operation) -> bool:
    """Return whether an op reads a slice, and lies along rows for which there are no blocks of a known length."""
    slices = [found for value in op.operands if (found := _find_slice(value)) is not None]
    if op.name != "linalg.generic" or not slices or any({*read_amounts(each, "strides")} != {1} for each in slices):
        return False
    known = itertools.takewhile(lambda n: n >= 0, reversed(shape_of(op.results[0])))
    return math.prod(known) < _LEAST_KNOWN


def _find_slice(value: ir.Value) -> ir.Operation | None:
    """The op that makes a slice of an argument; None for other values."""
    op = defining_op(value)
    sliced = op is not None and op.name == "tensor.extract_slice" and isinstance(op.operands[0], ir.BlockArgument)
    return op if sliced else None


def _read(value: ir.Value, repeats: Mapping[ir.Value, OpenBroadcast], dims: Sequence[int | None]) -> RowOperand:
    """What an op reads of an operand that lies along these axes of its result."""
    found, starts, sizes, steps = repeats.get(value, OpenBroadcast(value, frozenset())), (), (), ()
    source = found.source
    if not isinstance(value.type, ir.RankedTensorType):
        raise NotSchedulable("an operand that is no tensor")
    if (op := _find_slice(source)) is not None:
        starts, sizes = tuple(read_amounts(op, "offsets")), tuple(read_amounts(op, "sizes"))
        steps, source = _read_steps(op), op.operands[0]
    if defining_op(source) is not None and (starts or not is_constant(source)):
        raise NotSchedulable("an operand that is no argument")
    unsure = frozenset(d for axis in found.unsure if (d := dims[axis]) is not None)
    return RowOperand(source, tuple(dims), unsure, starts, sizes, steps)


def _read_steps(op: ir.Operation) -> tuple[int, ...]:
    """The steps of a slice along each axis."""
    steps = tuple(n for n in read_amounts(op, "strides") if isinstance(n, int) and n > 0)
    if len(steps) != len(shape_of(op.results[0])):
        raise NotSchedulable("a slice in steps that only the run knows, or without some of the axes")
    return steps


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
    function: func.FuncOp, op: ir.Operation, operands: Sequence[RowOperand], along: tuple[int, ...], choose: Chooser
) -> RowKernel:
    """The op on one axis: each operand has that, in steps perhaps, or one element."""
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
        read = [_read_row(value, length, step) for value, step in zip(given, along, strict=True)]
        copy = clone(op, mapping)
        for number, value in enumerate((*read, out)):
            copy.operands[number] = value
        copy.results[0].set_type(made)
        copy.attributes["iterator_types"] = iterators_attr(["parallel"])
        zero, index = ir.AffineExpr.get_constant(0), ir.AffineExpr.get_dim(0)
        set_maps(copy, [ir.AffineMap.get(1, 0, [index if own else zero]) for own in (*along, True)])
        func.ReturnOp([copy.results[0]])
    return RowKernel(module, choose_blocks(list_functions(module)[0], choose), along)


def _read_row(value: ir.Value, length: ir.Value, step: int) -> ir.Value:
    """So many elements of a row, or the one that it is."""
    if step <= 1:
        return value
    return tensor.ExtractSliceOp(value.type, value, [], [length], [], [0], [DYNAMIC], [step]).result


class _Rows:
    """Emits the loops: ``extents`` of the axes, and ``places`` and ``strides`` of each operand, the result last."""

    def __init__(
        self, plan: BroadcastRows, arguments: Mapping[ir.Value, ir.Value], result: ir.Value, target: Target
    ) -> None:
        self.target, self.plan = target, plan
        self.extents = find_extents(result)
        places = [o.find_place(_buffer_of(o, arguments), len(self.extents), arguments) for o in plan.operands]
        self.places = [*places, Place.of(result, [index_constant(0)] * len(self.extents))]
        self.strides = [list(place.strides) for place in self.places]
        for axis in range(len(self.extents) - 1):
            self._join(axis)
        outer, rows = self.extents[:-1], [own[:-1] for own in self.strides]
        move_ones_out(outer, rows)
        self.extents[:-1] = outer
        for own, moved in zip(self.strides, rows, strict=True):
            own[:-1] = moved

    def emit(self, lo: ir.Value, hi: ir.Value) -> None:
        """The part [lo, hi), of ``STEPS``, of all rows."""
        if (together := self.plan.together) is None:
            self._emit_rows(lo, hi)
            return
        rows = RowGroups(self.extents, self._list_places(), [stride != 0 for stride in together.along], self.target)
        branch_off(
            rows.enough,
            lambda: rows.emit(lo, hi, functools.partial(self._compute_row, together)),
            lambda: self._emit_rows(lo, hi),
        )

    def _list_places(self) -> list[Place]:
        """The places of the operands and of the result along the axes that there are now."""
        return [replace(place, strides=tuple(own)) for place, own in zip(self.places, self.strides, strict=True)]

    def _compute_row(self, kernel: RowKernel, views: Sequence[ir.Value], length: ir.Value) -> None:
        """A row of so many elements, by parts of operands and of the result."""
        for part in self._parts(kernel, self._cut(kernel, length), views, length):
            part.loop(index_constant(0), part.blocks, None)

    def _emit_rows(self, lo: ir.Value, hi: ir.Value) -> None:
        """The part of all rows, each by the kernel for what is repeated along it."""
        found = arith.constant(ir.IntegerType.get_signless(1), 0)
        for kernel in self.plan.kernels:
            fits = arith.constant(ir.IntegerType.get_signless(1), 1)
            for own, strides in zip(kernel.along, self.strides, strict=False):
                fits = arith.andi(fits, arith.cmpi(arith.CmpIPredicate.eq, strides[-1], index_constant(own)))
            found = arith.ori(found, fits)
            branch = scf.IfOp(fits)
            with ir.InsertionPoint(branch.then_block):
                self._emit_kernel(kernel, lo, hi)
                scf.YieldOp([])
        if (others := self.plan.others) is not None:
            rows = FilledRows(self.extents, self._list_places(), [stride != 0 for stride in others.along], self.target)
            branch_off(found, lambda: None, lambda: rows.emit(lo, hi, functools.partial(self._compute_row, others)))

    def _emit_kernel(self, kernel: RowKernel, lo: ir.Value, hi: ir.Value) -> None:
        *outer, length = self.extents
        segments = self._cut(kernel, length)
        pieces = arith.ceildivui(next(iter(segments.values())).count, index_constant(_PIECE))
        counts = [*outer, arith.maxui(pieces, index_constant(1))]
        steps = functools.reduce(arith.muli, counts)
        first, last = share_range(lo, hi)(steps)

        def emit(first: ir.Value, last: ir.Value, starts: Sequence[ir.Value]) -> None:
            views = [
                view_row(place.buffer, start, _span(length, own) if own else None)
                for place, start, own in zip(self.places, starts, (*kernel.along, 1), strict=True)
            ]
            parts = self._parts(kernel, segments, views, length)
            loop_over(first, last, 1, lambda number: self._piece(parts, number))

        walk_part(counts, self.strides, (first, last), [place.start for place in self.places], emit)

    def _cut(self, kernel: RowKernel, length: ir.Value) -> dict[int, Segment]:
        """The blocks of a row by their sizes."""
        [(axis, sizes)] = kernel.blocks.cuts.items()
        return cut_axis(length, sizes, axis in kernel.blocks.repeated)

    def _join(self, axis: int) -> None:
        """Make an axis and the next one the latter, where all operands go on from one row to the next.

        An inner axis of one element takes the strides of the outer one, if there is a kernel for these.
        """
        one, inner = index_constant(1), self.extents[axis + 1]
        single = arith.cmpi(arith.CmpIPredicate.eq, inner, one)
        if axis + 2 == len(self.extents):
            for operand, strides in zip(self.plan.operands, self.strides, strict=False):
                if axis + 1 not in operand.unsure or operand.starts:  # rows of a slice may lie anywhere
                    same = arith.cmpi(arith.CmpIPredicate.eq, strides[axis], strides[axis + 1])
                    single = arith.andi(single, same)
        join_axes(self.extents, self.strides, axis, single)

    def _parts(
        self, kernel: RowKernel, segments: Mapping[int, Segment], views: Sequence[ir.Value], length: ir.Value
    ) -> list[Part]:
        """What computes the blocks of a row, by the parts of the operands and of the result that are its own."""
        *read, place = views
        arguments = dict(zip(kernel.function.arguments, [*map(tensor_of, read), length], strict=True))
        computed = Computation(kernel.function, arguments, place, self.target)
        [axis] = kernel.blocks.cuts
        return [Part(v, {axis: segments[v.sizes[axis]]}, computed) for v in kernel.blocks.versions]

    def _piece(self, parts: Sequence[Part], number: ir.Value) -> None:
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


def _span(length: ir.Value, step: int) -> ir.Value:
    """How many elements those of a row lie among."""
    one = index_constant(1)
    return arith.addi(arith.muli(arith.subi(length, one), index_constant(step)), one) if step > 1 else length


def _strides_of(operand: RowOperand, buffer: ir.Value, sizes: Sequence[ir.Value], rank: int) -> list[ir.Value]:
    """The strides of an operand along the axes of the result, 0 where it is repeated. ``sizes``: of a slice."""
    zero, one, step = index_constant(0), index_constant(1), index_constant(1)
    found = [zero] * rank
    for own, axis in reversed(list(enumerate(operand.axes))):
        extent = memref.DimOp(buffer, index_constant(own)).result
        if axis is not None:
            alone = arith.cmpi(arith.CmpIPredicate.eq, sizes[own] if sizes else extent, one)
            stride = arith.muli(step, index_constant(operand.step_along(axis)))
            found[axis] = arith.select(alone, zero, stride) if axis in operand.unsure else stride
        step = arith.muli(step, extent)
    return found


def _buffer_of(operand: RowOperand, arguments: Mapping[ir.Value, ir.Value]) -> ir.Value:
    """The buffer of an argument, or of a constant."""
    if operand.argument in arguments:
        return buffer_of(arguments[operand.argument])
    source = defining_op(operand.argument)
    assert source is not None  # a constant
    made = source.clone().results[0]
    kind = ir.RankedTensorType(made.type)
    return bufferization.to_buffer(ir.MemRefType.get(kind.shape, kind.element_type), made, read_only=True)
