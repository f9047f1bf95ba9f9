"""A kernel on tensors becomes one on buffers, as the nest of its schedule or as it is."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

from ...dialects import bufferization, func, ir, tensor, transform
from ...dialects.walk import collect
from ...errors import ScheduleError
from ...target import Target, host
from ..infra import Pass
from ..kernel import (
    AHEAD,
    EXTENT,
    PARALLEL,
    SCHEDULE,
    SCHEDULE_JSON,
    copy_marks,
    functions,
    in_place,
    integer,
    run_upstream,
    symbol,
)
from . import heuristic
from .move_loops import build_moves
from .moves import Moves
from .nest import build_nest
from .notation import value_text
from .schedule import Schedule
from .structured import NotSchedulable, squeezed
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

    def _built(self, function: func.FuncOp) -> tuple[Schedule | Moves | None, ir.Module]:
        if self.schedule is not None:
            return self.schedule, as_asked(function, self.schedule)
        schedule = None if self.plain else heuristic.choose(function, self.target or host())
        try:
            if schedule is not None:
                return schedule, as_nest(function, schedule)
        except NotSchedulable:
            pass
        return None, as_it_is(function)


def as_asked(function: func.FuncOp, schedule: Schedule) -> ir.Module:
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
        return as_nest(function, schedule)
    except (NotSchedulable, ScheduleError) as error:
        raise ScheduleError(f"the schedule of kernel '{name}' cannot be carried out: {error}") from error


def as_nest(function: func.FuncOp, schedule: Schedule | Moves) -> ir.Module:
    """The function as the nest of its schedule. Raises NotSchedulable where a tile of some op cannot be computed."""
    returned = _returned(function)

    def body(arguments: dict[ir.Value, ir.Value], dests: list[ir.Value], lo: ir.Value, hi: ir.Value) -> list[ir.Value]:
        if isinstance(schedule, Moves):
            return [build_moves(schedule, function, dests[0], lo, hi, arguments)]
        return [build_nest(schedule, returned[0], dests[0], lo, hi, arguments)]

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
        return [mapping.get(v, v) for v in _returned(function)]

    made = destination_passing(function, body)
    with transform.sequence() as script:
        transform.lower_packs(script.root)
        transform.apply_patterns(script.root, "tensor.decompose_concat")
    transform.apply(script, made)
    run_upstream(made, _TENSORS)
    return made


Body = Callable[[dict[ir.Value, ir.Value], list[ir.Value], ir.Value, ir.Value], list[ir.Value]]


def destination_passing(
    function: func.FuncOp, body: Body, view: Callable[[ir.Type], ir.Type] = lambda t: t
) -> ir.Module:
    """A module of its own with ``@name(inputs…, results…: memref, lo, hi: index)`` around ``body``'s tensors.

    ``view`` gives the tensor type that the body sees a value's buffer as.
    """
    module = ir.Module.create()
    inputs, results = [view(t) for t in function.type.inputs], [view(t) for t in function.type.results]
    buffers = [_buffer_type(t) for t in (*inputs, *results)]
    index = ir.IndexType.get()
    with ir.InsertionPoint(module.body):
        made = func.FuncOp(symbol(function), ([*buffers, index, index], []))
    block = made.add_entry_block()
    with ir.InsertionPoint(block):
        arguments = list(block.arguments)
        outputs = arguments[len(inputs) : len(buffers)]
        tensors = [_tensor(t, a) for t, a in zip(inputs, arguments[: len(inputs)], strict=True)]
        dests = [_tensor(t, o, writable=True) for t, o in zip(results, outputs, strict=True)]
        mapping = dict(zip(function.arguments, tensors, strict=True))
        for value, buffer in zip(body(mapping, dests, arguments[-2], arguments[-1]), outputs, strict=True):
            if not _is_empty(value.type):
                bufferization.MaterializeInDestinationOp(None, value, buffer, restrict=True, writable=True)
        func.ReturnOp([])
    return module


def _describe(source: func.FuncOp, schedule: Schedule | Moves | None, made: func.FuncOp) -> None:
    """Write down what the schedule means for those who call the kernel."""
    made.attributes[EXTENT] = integer(schedule.extent if schedule else 1)
    copy_marks(source, made)
    if schedule is None:
        return
    made.attributes[SCHEDULE] = ir.StringAttr.get(str(schedule))
    if isinstance(schedule, Schedule):
        made.attributes[SCHEDULE_JSON] = ir.StringAttr.get(json.dumps(schedule.to_json()))
        if any(not stage.at for stage in schedule.stages):
            made.attributes[AHEAD] = ir.UnitAttr.get()
    if schedule.extent > 1 and heuristic.work(source) >= heuristic.PARALLEL_WORK:
        made.attributes[PARALLEL] = ir.UnitAttr.get()


def _returned(function: func.FuncOp) -> list[ir.Value]:
    return list(list(function.regions[0].blocks[0].operations)[-1].operands)


def _buffer_type(kind: ir.Type) -> ir.Type:
    """A tensor's buffer; one without elements has rank 1: a stride of 0 has no form as a bare pointer."""
    ranked = ir.RankedTensorType(kind)
    return ir.MemRefType.get([0] if _is_empty(kind) else ranked.shape, ranked.element_type)


def _tensor(kind: ir.Type, buffer: ir.Value, writable: bool = False) -> ir.Value:
    """The tensor that lies in a buffer; there is nothing to read or write where it has no elements."""
    if _is_empty(kind):
        return tensor.EmptyOp(ir.RankedTensorType(kind).shape, ir.RankedTensorType(kind).element_type).result
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
