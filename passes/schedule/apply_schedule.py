"""A kernel on tensors becomes one on buffers, as the nest of its schedule, as loops over blocks, or as plain loops."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import ClassVar

from ...core.errors import ScheduleError
from ...core.target import Target, detect_host
from ...dialects import func, ir, transform, tw
from ..infra.base import ModuleForm, Pass
from ..ir.kernel import copy_marks, find_script, integer_attr, is_dynamic_kernel, list_functions, symbol_of
from ..ir.structure import list_ops
from ..verify.sizes import verify_sizes
from .dynamic.blocks import choose_blocks
from .dynamic.box_copies import choose_copy, choose_few_rows
from .dynamic.broadcast_rows import choose_broadcast_rows
from .dynamic.depthwise_strips import choose_depthwise_strips
from .dynamic.dynamic_columns import choose_columns
from .dynamic.dynamic_rows import choose_attention, choose_rows
from .dynamic.few_channels import choose_few_channels
from .dynamic.joined_axes import choose_joined
from .dynamic.joined_images import choose_joined_images, join_images
from .dynamic.matrix_blocks import choose_matrix_blocks
from .dynamic.pieces import choose_pieces
from .dynamic.pool_strips import choose_pool_strips
from .dynamic.pool_vectors import choose_pool_vectors
from .dynamic.window_panels import choose_window_panels
from .families.table import choose_schedule, has_nests, require_schedule
from .language.by_hand import GivenSchedule
from .language.notation import value_text
from .language.schedule import Schedule
from .loop_plan import LoopPlan, find_streamed
from .scripts.given import build_given
from .scripts.scripted import ScriptPlan
from .scripts.scripted_nest import plan_nest
from .tiles.regions import NotSchedulable
from .tiling.moves import choose_moves
from .tiling.part_nests import Chooser
from .tiling.plain_loops import as_plain_loops
from .tiling.shared_loops import choose_shared_loops
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

    A kernel that no family of schedules takes has no ``tw.schedule`` but a ``tw.reason``: its ops stand in it whole.

    Options:
        plain: take no schedule for any kernel.
        schedule: what to carry out in place of the family's, a Schedule or a sequence of the transform dialect;
            ScheduleError where it cannot be.
    """

    name: ClassVar[str] = "apply-schedule"
    form: ClassVar[ModuleForm | None] = ModuleForm.BUFFERS
    target: Target | None = None
    plain: bool = False
    schedule: GivenSchedule | None = None

    def apply(self, module: ir.Module) -> None:
        """Rebuild all functions of the module."""
        for function in list_functions(module):
            verify_sizes(function)
            plan, made, reason = self._build_kernel(function)
            _note_plan(function, plan, list_functions(made)[0], reason)
            list_functions(made)[0].operation.clone(ip=ir.InsertionPoint(function))
            function.operation.erase()

    def _build_kernel(self, function: func.FuncOp) -> tuple[LoopPlan | None, ir.Module, str]:
        """The plan of a kernel, and what became of it; where there is no plan, why."""
        target = self.target or detect_host()
        if isinstance(self.schedule, Schedule):
            return *_build_asked(function, self.schedule, target), ""
        if self.plain:
            return None, as_plain_loops(function, None, target), "plain loops were asked for"
        dynamic = is_dynamic_kernel(function)
        alone = replace(target, cores=1) if dynamic else target  # threads share blocks, not the steps of one

        def choose(part: func.FuncOp) -> Schedule | None:
            return choose_schedule(part, alone)

        if self.schedule is not None:
            return *build_given(self.schedule, function, choose, target), ""
        if (script := find_script(function)) is not None:
            scripted = ScriptPlan(transform.parse_script(script))
            return scripted, scripted.build(function, target), ""

        reason = ""
        for plan_loops in _DYNAMIC if dynamic else _STATIC:
            try:
                plan = plan_loops(function, choose, target)
                return plan, plan.build(function, target), ""
            except NotSchedulable as refusal:
                reason = str(refusal)
        loops = [op.name for op in list_ops(function) if op.name.startswith("scf.")]
        reason = f"its steps may build on each other ({loops[0]})" if loops else reason
        for shared in choose_shared_loops(function, choose, target):
            with suppress(NotSchedulable):
                return shared, shared.build(function, target), f"{shared.reason} ({loops[0]})"
        return None, as_plain_loops(function, choose, target), reason


# What can make a kernel's loops, in the order in which they are tried. Each raises NotSchedulable for other kernels.
_STATIC: tuple[Callable[[func.FuncOp, Chooser, Target], LoopPlan], ...] = (
    lambda function, choose, target: choose_moves(function, target),
    lambda function, choose, target: choose_few_rows(function),
    lambda function, choose, target: plan_nest(require_schedule(function, target), function, target),
)
_DYNAMIC: tuple[Callable[[func.FuncOp, Chooser, Target], LoopPlan], ...] = (
    lambda function, choose, target: choose_copy(function),
    lambda function, choose, target: choose_pieces(function, choose),
    choose_attention,
    lambda function, choose, target: choose_rows(function, target),
    lambda function, choose, target: choose_rows(function, target, together=False),
    lambda function, choose, target: choose_columns(function, target),
    lambda function, choose, target: choose_broadcast_rows(function, choose),
    lambda function, choose, target: choose_few_rows(function),
    lambda function, choose, target: choose_few_channels(function, choose),
    lambda function, choose, target: choose_copy(function, turned=True),
    lambda function, choose, target: join_images(function, lambda pool: choose_pool_vectors(pool, choose, target)),
    choose_pool_vectors,
    choose_pool_strips,
    choose_depthwise_strips,
    lambda function, choose, target: choose_window_panels(function, choose),
    choose_matrix_blocks,
    lambda function, choose, target: choose_joined(function, choose),
    lambda function, choose, target: choose_joined_images(function, choose),
    lambda function, choose, target: choose_blocks(function, choose),
)


def _build_asked(function: func.FuncOp, schedule: Schedule, target: Target) -> tuple[LoopPlan, ir.Module]:
    """The function as the nest of a schedule given by hand. Raises ScheduleError where it cannot be that."""
    name = symbol_of(function)
    if not has_nests(function):
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
        plan = plan_nest(schedule, function, target)
        return plan, plan.build(function, target)
    except (NotSchedulable, ScheduleError) as error:
        raise ScheduleError(f"the schedule of kernel '{name}' cannot be carried out: {error}") from error


def _note_plan(source: func.FuncOp, plan: LoopPlan | None, made: func.FuncOp, reason: str) -> None:
    """Write down what the loops mean for those who call the kernel."""
    made.attributes[tw.EXTENT] = integer_attr(plan.extent if plan is not None else 1)
    copy_marks(source, made)
    if reason:
        made.attributes[tw.REASON] = ir.StringAttr.get(reason)
    if plan is None:
        return
    if text := str(plan):
        made.attributes[tw.SCHEDULE] = ir.StringAttr.get(text)
    if (data := plan.to_json()) is not None:
        made.attributes[tw.SCHEDULE_JSON] = ir.StringAttr.get(json.dumps(data))
    if plan.ahead:
        made.attributes[tw.AHEAD] = ir.UnitAttr.get()
    least = plan.parallel_from(source)
    if least is not None:
        made.attributes[tw.PARALLEL] = ir.UnitAttr.get()
        if is_dynamic_kernel(source):
            made.attributes[tw.PARALLEL_FROM] = integer_attr(least)
    if plan.extent > 1 and (streamed := find_streamed(source)):
        made.attributes[tw.STREAMED_FROM] = integer_attr(streamed)
