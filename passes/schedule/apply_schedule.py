"""A kernel on tensors becomes one on buffers, as the nest of its schedule, as loops over blocks, or as plain loops."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

from ...core.errors import ScheduleError
from ...core.target import Target, detect_host
from ...dialects import func, ir, tw
from ...dialects.walk import defining_op
from ..infra.base import ModuleForm, Pass
from ..ir.kernel import copy_marks, integer_attr, is_dynamic_kernel, list_functions, run_upstream, symbol_of
from ..ir.structure import terminator_of
from ..verify.sizes import verify_sizes
from .dynamic.block_loops import build_blocks
from .dynamic.blocks import Blocks, choose_blocks
from .dynamic.dynamic_row_loops import part_of_kind
from .dynamic.dynamic_rows import choose_attention, choose_rows
from .dynamic.joined_axes import JoinedAxes, build_joined, choose_joined
from .dynamic.pieces import Pieces, build_pieces, choose_pieces
from .families import heuristic
from .language.notation import value_text
from .language.schedule import Schedule
from .tiles.regions import NotSchedulable
from .tiles.structured import squeezed_type
from .tiling.destination_passing import destination_passing, is_empty
from .tiling.move_loops import build_moves
from .tiling.moves import Moves
from .tiling.nest import build_nest
from .tiling.plain_loops import as_plain_loops
from .tiling.values import values_of


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
    form: ClassVar[ModuleForm | None] = ModuleForm.BUFFERS
    target: Target | None = None
    plain: bool = False
    schedule: Schedule | None = None

    def apply(self, module: ir.Module) -> None:
        """Rebuild all functions of the module."""
        for function in list_functions(module):
            verify_sizes(function)
            schedule, made = self._build_kernel(function)
            _note_schedule(function, schedule, list_functions(made)[0])
            list_functions(made)[0].operation.clone(ip=ir.InsertionPoint(function))
            function.operation.erase()

    def _build_kernel(self, function: func.FuncOp) -> tuple[Schedule | Moves | Blocks | None, ir.Module]:
        target = self.target or detect_host()
        if self.schedule is not None:
            return self.schedule, as_asked(function, self.schedule, target)
        if is_dynamic_kernel(function):
            return self._build_dynamic(function)
        schedule = None if self.plain else heuristic.choose(function, target)
        try:
            if schedule is not None:
                return schedule, as_nest(function, schedule, target)
        except NotSchedulable:
            pass
        return None, as_plain_loops(function, None if self.plain else self._choose, target)

    def _choose(self, part: func.FuncOp) -> Schedule | None:
        return _nest(heuristic.choose(part, self.target or detect_host()))

    def _build_dynamic(self, function: func.FuncOp) -> tuple[Blocks | None, ir.Module]:
        target = self.target or detect_host()

        families: tuple[Callable[[], Blocks], ...] = (
            lambda: choose_pieces(function, self._choose),
            lambda: choose_attention(function, self._choose, target),
            lambda: choose_rows(function, target),
            lambda: choose_joined(function, self._choose),
            lambda: choose_blocks(function, self._choose),
        )
        for family in families if not self.plain else ():
            try:
                blocks = family()
                return blocks, as_blocks(function, blocks, target)
            except NotSchedulable:
                continue
        return None, as_plain_loops(function, None if self.plain else self._choose, target)


def _nest(schedule: Schedule | Moves | None) -> Schedule | None:
    return schedule if isinstance(schedule, Schedule) else None


def as_blocks(function: func.FuncOp, blocks: Blocks, target: Target) -> ir.Module:
    """The function as loops over blocks.

    Raises NotSchedulable where a tile of some op cannot be computed, or where there is no element to compute.
    """
    kinds = (*function.type.inputs, *function.type.results)
    if any(is_empty(kind) for kind in kinds if isinstance(kind, ir.RankedTensorType)):
        raise NotSchedulable("tensors of no elements have no buffer")

    def body(arguments: dict[ir.Value, ir.Value], dests: list[ir.Value], lo: ir.Value, hi: ir.Value) -> list[ir.Value]:
        source = defining_op(dests[0])
        assert source is not None  # which makes a tensor of the result's buffer
        buffer = source.operands[0]
        if isinstance(blocks, Pieces):
            build_pieces(blocks, function, buffer, lo, hi, arguments, target)
        elif isinstance(blocks, JoinedAxes):
            build_joined(blocks, function, buffer, lo, hi, arguments, target)
        else:
            build_blocks(blocks, function, buffer, lo, hi, arguments, target.dot_product, part_of_kind(blocks))
        return dests

    made = destination_passing(function, body)
    run_upstream(made, ("canonicalize", "cse"))
    return made


def as_asked(function: func.FuncOp, schedule: Schedule, target: Target) -> ir.Module:
    """The function as the nest of a schedule given by hand. Raises ScheduleError where it cannot be that."""
    name = symbol_of(function)
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
    result = terminator_of(function).operands[0]

    def body(arguments: dict[ir.Value, ir.Value], dests: list[ir.Value], lo: ir.Value, hi: ir.Value) -> list[ir.Value]:
        if isinstance(schedule, Moves):
            return [build_moves(schedule, function, dests[0], lo, hi, arguments)]
        return [build_nest(schedule, result, dests[0], lo, hi, arguments, target.dot_product)]

    made = destination_passing(function, body, schedule.view if isinstance(schedule, Moves) else squeezed_type)
    run_upstream(made, ("canonicalize", "cse"))
    return made


def _note_schedule(source: func.FuncOp, schedule: Schedule | Moves | Blocks | None, made: func.FuncOp) -> None:
    """Write down what the schedule means for those who call the kernel."""
    made.attributes[tw.EXTENT] = integer_attr(schedule.extent if schedule else 1)
    copy_marks(source, made)
    if schedule is None:
        return
    made.attributes[tw.SCHEDULE] = ir.StringAttr.get(str(schedule))
    if isinstance(schedule, Schedule):
        made.attributes[tw.SCHEDULE_JSON] = ir.StringAttr.get(json.dumps(schedule.to_json()))
    if _computes_ahead(schedule):
        made.attributes[tw.AHEAD] = ir.UnitAttr.get()
    if isinstance(schedule, Blocks):
        work = max(sum(heuristic.work(measured) for measured in schedule.measured), 1)
        made.attributes[tw.PARALLEL_FROM] = integer_attr(heuristic.PARALLEL_WORK * schedule.elements // work)
        made.attributes[tw.PARALLEL] = ir.UnitAttr.get()
    elif schedule.extent > 1 and heuristic.work(source) >= heuristic.PARALLEL_WORK:
        made.attributes[tw.PARALLEL] = ir.UnitAttr.get()


def _computes_ahead(schedule: Schedule | Moves | Blocks) -> bool:
    """Return whether each call computes something before its steps."""
    if isinstance(schedule, Blocks):
        return schedule.ahead
    return isinstance(schedule, Schedule) and any(not stage.at for stage in schedule.stages)
