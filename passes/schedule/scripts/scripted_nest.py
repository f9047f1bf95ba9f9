"""The nest of a schedule whose loops are made by its script (``nest_script.py``), around tiles of the kernel's result.

Before the script runs, the kernel ends in a copy of its result; the script puts loops around that copy::

    %r = linalg.generic {all of the result}
    scf.for %i ... {
      %tile = linalg.generic {tw.stage = "result:store", tw.form = {...}} ins(slice of %r) outs(slice of %out)
      tensor.insert_slice %tile into %out

Then each copy of a tile becomes what computes that tile, and nothing is left that reads ``%r`` as a whole.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from ....core.target import Target
from ....dialects import builders, func, ir, transform, tw
from ....dialects.loops import initial_of
from ....dialects.types import DYNAMIC
from ....dialects.walk import collect, defining_op
from ...ir.dynamic_sizes import operand_segment
from ...ir.edit import clone
from ...ir.edit import replace as replace_op
from ...ir.kernel import copy_marks, list_functions, run_upstream, symbol_of
from ...ir.structure import body_ops, shape_of, terminator_of
from ...ir.uses import readers_of
from ..language.loopnest import RESULT
from ..language.schedule import Schedule
from ..tiles.regions import Interval, Linear, NotSchedulable, Region, full_region, relative_to
from ..tiles.structured import squeezed_type
from ..tiling.border import Border
from ..tiling.destination_passing import destination_passing
from ..tiling.forms import TileForm
from ..tiling.nest import HANDLERS, write_tile
from ..tiling.nest_plan import NestPlan, count_at_once
from ..tiling.tiler import Tiler
from .counted_loops import as_linear, share_loops
from .nest_script import STORED_RESULT, make_nest_script


@dataclass(frozen=True)
class ScriptedNest(NestPlan):
    """The nest of a schedule, whose loops its ``script`` makes."""

    script: transform.Script = field(compare=False)

    def build(self, function: func.FuncOp, target: Target) -> ir.Module:
        """The nest; that of ``NestPlan`` where the script's loops do not do. NotSchedulable as there."""
        try:
            parallel = self.schedule.result.parallel
            count = parallel.steps if parallel else 0
            return build_tiles(function, self.script, target, count)[0]
        except NotSchedulable:
            return super().build(function, target)


def plan_nest(schedule: Schedule, function: func.FuncOp, target: Target) -> NestPlan:
    """How the nest of a schedule is made: by a script, where the transform dialect has all of its loops."""
    at_once = count_at_once(function, target)
    try:
        return ScriptedNest(schedule, at_once, make_nest_script(schedule, terminator_of(function).operands[0]))
    except NotSchedulable:
        return NestPlan(schedule, at_once)


_FIRST = Interval(Linear(), 1)  # all of an axis of extent 1
_RESHAPES = ("tensor.expand_shape", "tensor.collapse_shape")


def build_tiles(
    function: func.FuncOp, script: transform.Script, target: Target, count: int = 0
) -> tuple[ir.Module, int]:
    """A kernel in destination-passing style with the loops of a script, and the steps of that which threads share.

    These are ``count``, if that is known before (0 where it is not). Raises NotSchedulable where a tile cannot be
    computed, or the loop has another number of steps.
    """

    def body(arguments: dict[ir.Value, ir.Value], dests: list[ir.Value], lo: ir.Value, hi: ir.Value) -> list[ir.Value]:
        mapping = {a: builders.reshape(arguments[a], shape_of(a)) for a in function.arguments}
        squeezed = {mapping[a]: arguments[a] for a in function.arguments}
        for op in body_ops(function):
            clone(op, mapping)
        results = terminator_of(function).operands
        return [
            _store(mapping[value], dest, (lo, hi), count, squeezed) for value, dest in zip(results, dests, strict=True)
        ]

    made = destination_passing(function, body, squeezed_type)
    [rebuilt] = list_functions(made)
    copy_marks(function, rebuilt)
    transform.apply(script, rebuilt)
    run_upstream(made, ("sccp",))  # sizes of tiles become numbers; `canonicalize` would fold the copies away
    extent = share_loops(rebuilt)
    tiles = collect(rebuilt, lambda op: tw.FORM in op.attributes, "linalg.generic")
    if count and extent != count:
        raise NotSchedulable("a script whose loop has other steps than its schedule")
    if not tiles or not extent:
        raise NotSchedulable("a script that has no tiles, or no loop around them whose steps threads share")
    squeezed = _find_squeezed(rebuilt)
    for tile in tiles:
        with ir.InsertionPoint(tile), tile.location:
            _compute_tile(tile, squeezed, target)
    run_upstream(made, ("canonicalize", "cse"))
    rebuilt.attributes[tw.SCRIPT] = ir.StringAttr.get(transform.print_sequence(script, symbol_of(function)))
    return made, extent


def _store(
    result: ir.Value, dest: ir.Value, steps: tuple[ir.Value, ir.Value], count: int, squeezed: dict[ir.Value, ir.Value]
) -> ir.Value:
    """A copy of a result, without dims of extent 1, into its place; of one with a border, of what lies in that."""
    border, shape = Border.of(result), shape_of(dest)
    kept = [axis for axis, extent in enumerate(shape_of(result)) if extent != 1] or [0]
    inner = [shape_of(border.inner)[axis] for axis in kept]
    value = builders.reshape(border.inner, inner)
    filled = border.fill(dest, steps, count, squeezed)
    place = [border.low[axis] for axis in kept]
    into = filled if inner == shape else builders.slice_(filled, place, inner)
    [made] = builders.generic([value], [into], [range(len(inner))] * 2, "p" * len(inner), lambda x, _: x)
    op = defining_op(made)
    assert op is not None
    op.attributes[tw.STAGE] = ir.StringAttr.get(STORED_RESULT)
    return made if inner == shape else builders.insert(made, filled, place)


def _find_squeezed(function: func.FuncOp) -> dict[ir.Value, ir.Value]:
    """The tensors of arguments that the kernel's ops read, and the same without dims of extent 1."""
    squeezed = {}
    for op in body_ops(function):
        if op.name == "bufferization.to_tensor":
            [tensor] = op.results
            squeezed[tensor] = tensor
            squeezed |= {user.results[0]: tensor for user in readers_of(tensor) if user.name in _RESHAPES}
    return squeezed


def _compute_tile(op: ir.Operation, arguments: dict[ir.Value, ir.Value], target: Target) -> None:
    """Exchange the copy of a tile for what computes it."""
    copied, part = _locate(op.operands[0])
    if any(interval.size < 0 for interval in part):
        raise NotSchedulable("the last step of a loop around tiles is smaller: transform.loop.peel takes it apart")
    view, source = defining_op(copied), defining_op(op.operands[1])
    value = view.operands[0] if view is not None and view.name in _RESHAPES else copied
    if source is None or source.name != "tensor.extract_slice":
        raise NotSchedulable("a tile without a loop around it")
    long = [axis for axis, extent in enumerate(shape_of(value)) if extent != 1]  # in the order of the copied ones
    parts = dict(zip(long, (p for p, n in zip(part, shape_of(copied), strict=True) if n != 1), strict=True))
    region = tuple(parts.get(axis, _FIRST) for axis in range(len(shape_of(value))))
    around = _places(source)[0]

    def place(piece: Region) -> Region:
        """Where a piece of the tile lies in what the slice of the result is a part of."""
        moved = relative_to(piece, region)
        inner = iter([moved[axis] for axis in long])
        found = [next(inner) if extent != 1 else _FIRST for extent in shape_of(copied)]
        return tuple(replace(i, offset=i.offset + offset) for i, offset in zip(found, around, strict=True))

    form = TileForm.read(op.attributes[tw.FORM]).apply(value, RESULT, target.lanes, target)
    made = write_tile(Tiler(arguments, HANDLERS, form), value, region, source.operands[0], place)
    [inserted] = [use.owner.operation for use in op.results[0].uses]
    replace_op(inserted, [made])
    op.erase()


def _loop_around(value: ir.Value) -> ir.Operation | None:
    """The loop that hands on a value."""
    block: Any = value.owner
    op: ir.Operation = block.owner.operation
    return op if op.name == "scf.for" else None


def _locate(value: ir.Value) -> tuple[ir.Value, Region]:
    """The value that a tensor is a slice of, through all loops that hand it on, and where it lies there."""
    source, region = value, full_region(shape_of(value))
    while True:
        op = defining_op(source)
        if op is None and (loop := _loop_around(source)) is not None:
            source = initial_of(loop, source)
            continue
        if op is not None and op.name == "scf.for":  # a loop before, over other steps of the same
            source = op.operands[3 + ir.OpResult(source).result_number]
            continue
        if op is None or op.name not in ("tensor.extract_slice", "tensor.insert_slice"):
            return source, region
        if op.name == "tensor.extract_slice":
            offsets, sizes = _places(op)
            region = tuple(
                Interval(inner.offset + offset, size if source == value else inner.size)
                for inner, offset, size in zip(region, offsets, sizes, strict=True)
            )
            source = op.operands[0]
        else:
            source = op.operands[1]


def _places(op: ir.Operation) -> tuple[list[Linear], list[int]]:
    """The offsets and the sizes of a slice."""
    starts = _read_indices(op, "static_offsets", operand_segment(op, 1))
    sizes = _read_indices(op, "static_sizes", operand_segment(op, 2))
    return starts, [size.const if not size.terms else -1 for size in sizes]


def _read_indices(op: ir.Operation, name: str, given: Sequence[ir.Value]) -> list[Linear]:
    values = iter(given)
    numbers = list(ir.DenseI64ArrayAttr(op.attributes[name]))
    return [as_linear(next(values)) if number == DYNAMIC else Linear(number) for number in numbers]
