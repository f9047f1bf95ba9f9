"""Kernels that a user schedules by a named sequence of the transform dialect."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from ....core.errors import CompileError, ScheduleError
from ....core.target import Target
from ....dialects import func, ir, transform, tw
from ....dialects.context import diagnostics
from ....dialects.types import DYNAMIC
from ....dialects.walk import collect
from ...ir.edit import clone
from ...ir.kernel import find_script, in_place, is_dynamic_kernel, list_functions, run_upstream, symbol_of
from ...ir.structure import body_ops, list_ops, terminator_of
from ..language.by_hand import TransformSequence
from ..loop_plan import LoopPlan, LoopsWithoutSchedule, threads_pay
from ..tiles.regions import NotSchedulable
from ..tiling.part_nests import Chooser
from ..tiling.plain_loops import as_plain_loops, copy_buffer, write_into
from ..tiling.values import name_ops
from .bounded_buffers import bound_buffers
from .counted_loops import find_shared, take_shares
from .forall import write_as_loops
from .nest_script import STORED_RESULT
from .scripted import ScriptPlan
from .scripted_nest import build_tiles

# Work that each thread may do for itself beside the loop whose steps they share.
_BESIDE = ("arith.", "affine.", "tensor.empty", "linalg.fill", "linalg.unpack", "bufferization.")

_PLACE = re.compile(r'loc\("-":(\d+):\d+\): ')  # where in the text of the schedules an error is

# Smaller last steps become loops of their own, so that sizes of tiles and bounds become numbers; dead ops go.
_NUMBERS = ("scf-for-loop-peeling{skip-partial=false}", "sccp", "cse")


def build_given(
    sequence: TransformSequence, function: func.FuncOp, choose: Chooser, target: Target
) -> tuple[LoopPlan, ir.Module]:
    """The kernel with the loops of a sequence. Raises ScheduleError for one that cannot be carried out."""
    kernel = symbol_of(function)
    try:
        plan = _plan(sequence, function, choose)
        made = plan.build(function, target)
        if symbol_of(list_functions(made)[0]) != kernel:
            raise NotSchedulable("it changes the kernel's name")
        return plan, made
    except ScheduleError:
        raise
    except (CompileError, ValueError) as error:
        found = _PLACE.search(str(error))
        reason = f"line {found[1]}: {str(error)[found.end() :]}" if found else str(error)
        raise ScheduleError(
            f"sequence '@{sequence.name}' cannot be applied to kernel '{kernel}': {' '.join(reason.split())}"
        ) from error


def _plan(sequence: TransformSequence, function: func.FuncOp, choose: Chooser) -> GivenLoops | GivenTiles | ScriptPlan:
    with diagnostics("parsing the schedules", ScheduleError):
        script = transform.parse_script(sequence.text, sequence.name)
    _check_sequence(script)
    if find_script(function) is not None:
        return ScriptPlan(script)
    if STORED_RESULT in transform.print_sequence(script, sequence.name):
        return GivenTiles(script)
    if tw.OVER in function.attributes:
        raise NotSchedulable("it writes into one of its arguments, and takes loops around 'result:store' alone")
    return GivenLoops(script, choose)


def _check_sequence(script: transform.Script) -> None:
    """Refuse what upstream takes, and ends the process on."""
    for op in collect(script.module, lambda op: "static_sizes" in op.attributes):
        sizes = list(ir.DenseI64ArrayAttr(op.attributes["static_sizes"]))
        if wrong := [size for size in sizes if size < 0 and size != DYNAMIC]:
            raise NotSchedulable(f"'{op.name}' has a tile size of {wrong[0]}: give 0, for a whole axis, or more")


@dataclass
class _GivenPlan(LoopsWithoutSchedule):
    """What both plans have in common. ``extent`` is known when the loops are built."""

    script: transform.Script
    extent: int = field(default=1, kw_only=True)

    def parallel_from(self, function: func.FuncOp) -> int | None:
        """From how many elements of the result on threads pay; None for never."""
        return None if is_dynamic_kernel(function) else threads_pay(function, self.extent)


@dataclass
class GivenTiles(_GivenPlan):
    """Loops around tiles of the result, which the compiler computes as those of its own schedules."""

    def build(self, function: func.FuncOp, target: Target) -> ir.Module:
        """The kernel in destination-passing style. Raises NotSchedulable where a tile cannot be computed."""
        made, self.extent = build_tiles(function, self.script, target)
        return made

    def __str__(self) -> str:
        return transform.print_sequence(self.script, transform.ENTRY)


@dataclass
class GivenLoops(_GivenPlan):
    """Loops around parts of the kernel's ops, which the compiler schedules as ops in any loops."""

    choose: Chooser

    def build(self, function: func.FuncOp, target: Target) -> ir.Module:
        """The kernel in destination-passing style. Raises NotSchedulable for a script that does nothing."""
        module = ir.Module.create()
        looped = function.operation.clone(ip=ir.InsertionPoint(module.body))
        assert isinstance(looped, func.FuncOp)
        self._transform(looped)

        def body(
            arguments: dict[ir.Value, ir.Value], dests: list[ir.Value], lo: ir.Value, hi: ir.Value
        ) -> list[ir.Value]:
            mapping = arguments | {value: copy_buffer(arguments[value]) for value in _find_overwritten(looped)}
            for op in body_ops(looped):
                clone(op, mapping)
            results = [mapping.get(value, value) for value in terminator_of(looped).operands]
            for result, dest in zip(results, dests, strict=True):
                write_into(result, dest)
            made_here = ir.InsertionPoint.current.block.owner
            assert isinstance(made_here, func.FuncOp)
            self.extent = _share(made_here)
            return results

        made = as_plain_loops(looped, self.choose, target, body, "loops of a sequence, around nests:")
        [rebuilt] = list_functions(made)
        rebuilt.attributes[tw.SCRIPT] = ir.StringAttr.get(transform.print_sequence(self.script, symbol_of(function)))
        return made

    def _transform(self, function: func.FuncOp) -> None:
        """Run the sequence on a kernel on tensors."""
        name_ops(function)
        before, types = str(function), function.type
        transform.apply(self.script, function)
        if str(function) == before:
            raise NotSchedulable("it changes nothing: its matches find none of the kernel's ops")
        if function.type != types:
            raise NotSchedulable("it changes what the kernel takes or gives")
        function.operation.verify()
        write_as_loops(function)
        bound_buffers(function)
        run_upstream(function, _NUMBERS)


def _find_overwritten(function: func.FuncOp) -> list[ir.Value]:
    """The arguments that some step of the loops may read after another one has written the result over them."""
    several = len(collect(function, lambda op: op.name.startswith("linalg.") and bool(op.results))) > 1
    return [function.arguments[number] for number in in_place(function)] if several else []


def _share(function: func.FuncOp) -> int:
    """Let threads share the loop that is marked, if it does all the work; returns the steps that are shared."""
    loops = find_shared(function)
    beside = [op for op in list_ops(function) if op not in loops and not op.name.startswith(_BESIDE)]
    steps = take_shares(loops, function) if loops and not beside else 0
    for loop in find_shared(function):
        del loop.attributes[tw.SHARED_LOOP]
    return steps or 1
