"""A kernel on tensors becomes one on buffers, as the nest of its schedule or as it is."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import ClassVar

from ...dialects import arith, bufferization, func, ir, memref, tensor, transform
from ...dialects.walk import collect, defining_op
from ...errors import ScheduleError
from ...target import Target, host
from ..graph.edit import is_static
from ..graph.open_sizes import destination
from ..infra import Pass
from ..kernel import (
    AHEAD,
    EXTENT,
    PARALLEL,
    PARALLEL_FROM,
    RESULT_SIZES,
    SCHEDULE,
    SCHEDULE_JSON,
    SIZES,
    copy_marks,
    count_of,
    functions,
    in_place,
    integer,
    is_dynamic,
    run_upstream,
    symbol,
)
from . import heuristic
from .block_loops import build_blocks
from .blocks import Blocks, choose_blocks
from .move_loops import build_moves
from .moves import Moves
from .nest import build_nest
from .notation import value_text
from .open_row_loops import part_of_kind
from .open_rows import choose_attention, choose_rows
from .regions import NotSchedulable
from .schedule import Schedule
from .structured import squeezed
from .values import values_of

# For what runs as plain loops: tensor ops that have no bufferization become structured ones.
_TENSORS = ("convert-tensor-to-linalg", "linalg-generalize-named-ops", "canonicalize", "cse")

_NO_WORK = ("arith.constant", "tensor.empty", "func.return")


@dataclass(frozen=True)
class ApplySchedule(Pass):
    """Choose a schedule and rebuild the kernel in destination-passing style, as loops around tiles (``nest.py``).

    Before::

        func.func @k(%x: tensor<64x32xf32>) -> tensor<64x32xf32> {
          %r = linalg.generic ins(%x) outs(%e)
          return %r

    After::

        func.func @k(%x: memref<64x32xf32>, %r: memref<64x32xf32>, %lo: index, %hi: index)
            attributes {tw.schedule = "parallel d0 in 64 x 1: ...", tw.schedule_json = "...", tw.extent = 64} {
          %t = bufferization.to_tensor %x restrict
          %u = bufferization.to_tensor %r restrict writable
          %v = scf.for %i = %lo to %hi step 1 iter_args(%d = %u) {
            %y = linalg.generic ins(slice of %t) outs(slice of %d)
            tensor.insert_slice %y into %d
          bufferization.materialize_in_destination %v in restrict writable %r

    A kernel that no family of schedules takes has no ``tw.schedule``: its ops stand in it whole.

    Options:
        plain: take no schedule for any kernel.
        schedule: the one to carry out in place of the heuristic's; ScheduleError where it cannot be.
    """

    name: ClassVar[str] = "apply-schedule"
    target: Target | None = None
    plain: bool = False
    schedule: Schedule | None = None

    def apply(self, module: ir.Module) -> None:
        """Rebuild all functions of the module."""
        for function in functions(module):
            schedule, made = self._built(function)
            _describe(function, schedule, functions(made)[0])
            functions(made)[0].operation.clone(ip=ir.InsertionPoint(function))
            function.operation.erase()

    def _built(self, function: func.FuncOp) -> tuple[Schedule | Moves | Blocks | None, ir.Module]:
        target = self.target or host()
        if self.schedule is not None:
            return self.schedule, as_asked(function, self.schedule, target)
        if is_dynamic(function):
            return self._open(function)
        schedule = None if self.plain else heuristic.choose(function, target)
        try:
            if schedule is not None:
                return schedule, as_nest(function, schedule, target)
        except NotSchedulable:
            pass
        return None, as_it_is(function)

    def _open(self, function: func.FuncOp) -> tuple[Blocks | None, ir.Module]:
        target = self.target or host()

        def choose(block: func.FuncOp) -> Schedule | None:
            return _nest(heuristic.choose(block, target))

        families: tuple[Callable[[], Blocks], ...] = (
            lambda: choose_attention(function, choose, target),
            lambda: choose_rows(function, target),
            lambda: choose_blocks(function, choose),
        )
        for family in families if not self.plain else ():
            try:
                blocks = family()
                return blocks, as_blocks(function, blocks, target)
            except NotSchedulable:
                continue
        return None, as_it_is(function)


def _nest(schedule: Schedule | Moves | None) -> Schedule | None:
    return schedule if isinstance(schedule, Schedule) else None


def as_blocks(function: func.FuncOp, blocks: Blocks, target: Target) -> ir.Module:
    """The function as loops over blocks.

    Raises NotSchedulable where a tile of some op cannot be computed, or where there is no element to compute.
    """
    tensors = [v.type for v in (*function.arguments, *_returned(function)) if isinstance(v.type, ir.RankedTensorType)]
    if any(map(_is_empty, tensors)):
        raise NotSchedulable("tensors of no elements have no buffer")

    def body(arguments: dict[ir.Value, ir.Value], dests: list[ir.Value], lo: ir.Value, hi: ir.Value) -> list[ir.Value]:
        source = defining_op(dests[0])
        assert source is not None  # which makes a tensor of the result's buffer
        kind = part_of_kind(blocks)
        build_blocks(blocks, function, source.operands[0], lo, hi, arguments, target.dot_product, kind)
        return dests

    made = destination_passing(function, body)
    run_upstream(made, ("canonicalize", "cse"))
    return made


def as_asked(function: func.FuncOp, schedule: Schedule, target: Target) -> ir.Module:
    """The function as the nest of a schedule given by hand. Raises ScheduleError where it cannot be that."""
    name = symbol(function)
    if not heuristic.has_nests(function):
        raise ScheduleError(f"kernel '{name}' takes no schedule: it needs one result, of a shape that is known")
    values = values_of(function)
    for theirs, ours in itertools.zip_longest(schedule.values, values):
        if theirs != ours:
            raise ScheduleError(
                f"the schedule of kernel '{name}' is for another: it says {value_text(theirs)} where the kernel has"
                f" {value_text(ours)}; `tilewright explain --json` shows one that fits"
            )
    try:
        schedule.check()
        return as_nest(function, schedule, target)
    except (NotSchedulable, ScheduleError) as error:
        raise ScheduleError(f"the schedule of kernel '{name}' cannot be carried out: {error}") from error


def as_nest(function: func.FuncOp, schedule: Schedule | Moves, target: Target) -> ir.Module:
    """The function as the nest of its schedule. Raises NotSchedulable where a tile of some op cannot be computed."""
    returned = _returned(function)

    def body(arguments: dict[ir.Value, ir.Value], dests: list[ir.Value], lo: ir.Value, hi: ir.Value) -> list[ir.Value]:
        if isinstance(schedule, Moves):
            return [build_moves(schedule, function, dests[0], lo, hi, arguments)]
        return [build_nest(schedule, returned[0], dests[0], lo, hi, arguments, target.dot_product)]

    made = destination_passing(function, body, schedule.view if isinstance(schedule, Moves) else squeezed)
    run_upstream(made, ("canonicalize", "cse"))
    return made


def as_it_is(function: func.FuncOp) -> ir.Module:
    """The function with its ops whole; its parallel axis has one step.

    What the result may be written over is copied first, unless one op does all the work: bufferization may put what
    others make into the result's memory before the last one reads it.
    """
    work = [op for op in function.regions[0].blocks[0].operations if op.operation.name not in _NO_WORK]
    kept = [function.arguments[i] for i in in_place(function)] if len(work) > 1 else []

    def body(arguments: dict[ir.Value, ir.Value], dests: list[ir.Value], lo: ir.Value, hi: ir.Value) -> list[ir.Value]:
        mapping = arguments | {value: _copy(arguments[value]) for value in kept}
        for op in list(function.regions[0].blocks[0].operations)[:-1]:
            copy = op.operation.clone()
            _remap(copy, mapping)
            mapping.update(zip(op.operation.results, copy.results, strict=True))
        results = [mapping.get(v, v) for v in _returned(function)]
        for result, dest in zip(results, dests, strict=True):
            _write_into(result, dest)
        return results

    made = destination_passing(function, body)
    with transform.sequence() as script:
        transform.lower_packs(script.root)
        transform.apply_patterns(script.root, "tensor.decompose_concat")
    transform.apply(script, made)
    run_upstream(made, _TENSORS)
    return made


def _write_into(result: ir.Value, dest: ir.Value) -> None:
    """Let the ops that make an open result write it where it belongs: upstream proves that for static shapes alone.

    What they write over, unless it is nothing, is copied there first.
    """
    value, reader = result, None
    while (before := destination(value)) is not None:
        value, reader = before, defining_op(value)
    source = defining_op(value)
    if reader is None or is_static(value):
        return
    with ir.InsertionPoint(reader):
        into = dest if value.type == dest.type else tensor.CastOp(value.type, dest).result
        if source is None or source.name != "tensor.empty":
            rank = ir.RankedTensorType(value.type).rank
            dims = [tensor.DimOp(value, arith.ConstantOp(ir.IndexType.get(), axis)).result for axis in range(rank)]
            marks = [ir.ShapedType.get_dynamic_size()] * rank
            # Upstream would fold a copy, and then make a buffer of its own.
            into = tensor.InsertSliceOp(value, into, [], dims, [], [0] * rank, marks, [1] * rank).result
    for i, operand in enumerate(reader.operands):
        if operand == value and destination(reader.results[0]) == value:
            reader.operands[i] = into


Body = Callable[[dict[ir.Value, ir.Value], list[ir.Value], ir.Value, ir.Value], list[ir.Value]]


def destination_passing(
    function: func.FuncOp, body: Body, view: Callable[[ir.Type], ir.Type] = lambda t: t
) -> ir.Module:
    """A module of its own with ``@name(inputs…, results…: memref, lo, hi: index)`` around ``body``'s tensors.

    ``view`` gives the tensor type that the body sees a value's buffer as.
    """
    module = ir.Module.create()
    inputs = [view(t) for t in function.type.inputs if isinstance(t, ir.RankedTensorType)]
    results, index = [view(t) for t in function.type.results], ir.IndexType.get()
    buffers, sizes = [_buffer_type(t) for t in (*inputs, *results)], _sizes(function)
    with ir.InsertionPoint(module.body):
        made = func.FuncOp(symbol(function), ([*buffers, *[index] * (sizes + 2)], []))
    if sizes:
        made.attributes[SIZES] = integer(sizes)
    block = made.add_entry_block()
    with ir.InsertionPoint(block):
        arguments, given = list(block.arguments), iter(list(block.arguments)[len(buffers) :])
        outputs = arguments[len(inputs) : len(buffers)]
        tensors = [_tensor(t, _shaped(t, a, given)) for t, a in zip(inputs, arguments, strict=False)]
        own = [next(given) for t in function.type.inputs if isinstance(t, ir.IndexType)]
        extents = iter(own[len(own) - count_of(function, RESULT_SIZES) :])
        places = [_shaped(t, o, extents) for t, o in zip(results, outputs, strict=True)]
        dests = [_tensor(t, o, writable=True) for t, o in zip(results, places, strict=True)]
        mapping = dict(zip(function.arguments, [*tensors, *own], strict=True))
        for value, buffer in zip(body(mapping, dests, arguments[-2], arguments[-1]), places, strict=True):
            if not _is_empty(value.type):
                bufferization.MaterializeInDestinationOp(None, value, buffer, restrict=True, writable=True)
        func.ReturnOp([])
    return module


def _sizes(function: func.FuncOp) -> int:
    """How many sizes a kernel takes: the open extents of its tensors, then those that it is given."""
    kinds = list(function.type.inputs)
    open_ = [t for kind in kinds if isinstance(kind, ir.RankedTensorType) for t in kind.shape if t < 0]
    return len(open_) + sum(isinstance(kind, ir.IndexType) for kind in kinds)


def _shaped(kind: ir.Type, buffer: ir.Value, extents: Iterator[ir.Value]) -> ir.Value:
    """A buffer under a tensor's shape, whose open extents are the next of ``extents``."""
    ranked = ir.RankedTensorType(kind)
    if ranked.has_static_shape:
        return buffer
    shape = [next(extents) if extent < 0 else extent for extent in ranked.shape]
    strides: list[int | ir.Value] = [1]
    for extent in reversed(shape[1:]):
        strides.insert(0, _times(strides[0], extent))
    mixed = [([n for n in part if isinstance(n, ir.Value)], [_static(n) for n in part]) for part in (shape, strides)]
    target = ir.MemRefType.get(ranked.shape, ranked.element_type)
    (sizes, static_sizes), (steps, static_steps) = mixed
    return memref.ReinterpretCastOp(target, buffer, [], sizes, steps, [0], static_sizes, static_steps).result


def _times(a: int | ir.Value, b: int | ir.Value) -> int | ir.Value:
    if isinstance(a, int) and isinstance(b, int):
        return a * b
    index = ir.IndexType.get()
    return arith.muli(*(arith.ConstantOp(index, n).result if isinstance(n, int) else n for n in (a, b)))


def _static(extent: int | ir.Value) -> int:
    return extent if isinstance(extent, int) else ir.ShapedType.get_dynamic_size()


def _describe(source: func.FuncOp, schedule: Schedule | Moves | Blocks | None, made: func.FuncOp) -> None:
    """Write down what the schedule means for those who call the kernel."""
    made.attributes[EXTENT] = integer(schedule.extent if schedule else 1)
    copy_marks(source, made)
    if schedule is None:
        return
    made.attributes[SCHEDULE] = ir.StringAttr.get(str(schedule))
    if isinstance(schedule, Schedule):
        made.attributes[SCHEDULE_JSON] = ir.StringAttr.get(json.dumps(schedule.to_json()))
    if _computes_ahead(schedule):
        made.attributes[AHEAD] = ir.UnitAttr.get()
    if isinstance(schedule, Blocks):
        work = max(sum(heuristic.work(measured) for measured in schedule.measured), 1)
        made.attributes[PARALLEL_FROM] = integer(heuristic.PARALLEL_WORK * schedule.elements // work)
        made.attributes[PARALLEL] = ir.UnitAttr.get()
    elif schedule.extent > 1 and heuristic.work(source) >= heuristic.PARALLEL_WORK:
        made.attributes[PARALLEL] = ir.UnitAttr.get()


def _computes_ahead(schedule: Schedule | Moves | Blocks) -> bool:
    """Whether each call computes something before its steps."""
    if isinstance(schedule, Blocks):
        return schedule.split
    return isinstance(schedule, Schedule) and any(not stage.at for stage in schedule.stages)


def _returned(function: func.FuncOp) -> list[ir.Value]:
    return list(list(function.regions[0].blocks[0].operations)[-1].operands)


def _buffer_type(kind: ir.Type) -> ir.Type:
    """A tensor's buffer; one without elements has rank 1: a stride of 0 has no form as a bare pointer.

    One whose sizes only the run knows is a pointer to an element until ``_shaped`` has said more.
    """
    ranked = ir.RankedTensorType(kind)
    if not ranked.has_static_shape:
        return ir.MemRefType.get([1], ranked.element_type)
    return ir.MemRefType.get([0] if _is_empty(kind) else ranked.shape, ranked.element_type)


def _tensor(kind: ir.Type, buffer: ir.Value, writable: bool = False) -> ir.Value:
    """The tensor that lies in a buffer; there is nothing to read or write where it has no elements."""
    if _is_empty(kind):
        index, ranked = ir.IndexType.get(), ir.RankedTensorType(kind)
        dims = [arith.ConstantOp(index, axis) if n < 0 else None for axis, n in enumerate(ranked.shape)]
        shape = [
            n if dim is None else memref.DimOp(buffer, dim).result for n, dim in zip(ranked.shape, dims, strict=True)
        ]
        return tensor.EmptyOp(shape, ranked.element_type).result
    return bufferization.to_tensor(kind, buffer, restrict=True, writable=writable)


def _copy(value: ir.Value) -> ir.Value:
    """A tensor in a buffer of its own."""
    return bufferization.AllocTensorOp(value.type, [], copy=value).result


def _is_empty(kind: ir.Type) -> bool:
    return 0 in ir.RankedTensorType(kind).shape


def _remap(op: ir.Operation, mapping: dict[ir.Value, ir.Value]) -> None:
    """Replace operands in ``op`` and its regions."""
    for inner in collect(op, lambda _: True):
        for i, operand in enumerate(inner.operands):
            if operand in mapping:
                inner.operands[i] = mapping[operand]
