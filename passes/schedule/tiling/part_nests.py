"""Nests for single ops of a kernel that no family takes as a whole, in its loops and branches as well."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ....core.target import Target
from ....dialects import arith, builders, func, ir, tensor, tw
from ....dialects.builders import index_constant
from ....dialects.loops import Draft
from ....dialects.walk import collect, defining_op, is_constant
from ...analysis.classify import classify_op
from ...analysis.kinds import Fill
from ...ir.edit import clone, replace
from ...ir.kernel import mark_in_place
from ...ir.structure import (
    body_ops,
    has_reduction,
    indexing_maps,
    is_static,
    iterator_types,
    loop_extents,
    num_inputs,
    shape_of,
    terminator_of,
)
from ...ir.uses import find_captures
from ..language.schedule import Schedule
from ..tiles.regions import NotSchedulable
from ..tiles.structured import squeezed_type
from .alternate_order import alternate_order
from .nest import build_nest
from .nest_loops import mark_shared

Chooser = Callable[[func.FuncOp], Schedule | None]

# Steps of an op's loops: fewer are not worth vectors. What maps elements in a loop becomes one vector, which the loop
# carries in a register; an op that stays whole would write it to memory and read it again in each step.
_LEAST_STEPS, _LEAST_MAPPED = 32, 4


def build_part_nests(function: func.FuncOp, choose: Chooser, target: Target) -> list[str]:
    """Rebuild structured ops of a kernel of plain loops as the nests of their own schedules; returns these as text.

    Before::

        scf.for %t ... iter_args(%h = %x) {
          %p = linalg.generic {a product} ins(%h, %w) outs(%zero)

    After::

        scf.for %t ... iter_args(%h = %x) {
          %p = scf.for %j ... iter_args(%d = %empty) {
            %acc = linalg.generic {a small product, tw.tile} ins(slice of %h, slice of %w) outs(%zeros)
            tensor.insert_slice %acc into %d

    An op of several results becomes a nest for each of them. An op stays whole where it has a few elements or dynamic
    sizes, where its body reads values from around it that are no constants, and where no family takes it.
    """
    done: list[str] = []
    for op in collect(function, _is_candidate):
        done += _build_nests(function, op, choose, target)
    return done


def _is_candidate(op: ir.Operation) -> bool:
    if (
        op.name != "linalg.generic"
        or not all(map(is_static, op.results))
        or not all(map(is_constant, find_captures(op)))
    ):
        return False
    inputs = list(op.operands)[: num_inputs(op)]
    if not all(map(is_static, inputs)) or any(0 in shape_of(result) for result in op.results):
        return False
    carried = not has_reduction(op) and op.parent is not None and op.parent.name.startswith("scf.")
    least = _LEAST_MAPPED if carried else _LEAST_STEPS
    return math.prod(loop_extents(op)) >= least and not isinstance(classify_op(op), Fill)


def _build_nests(function: func.FuncOp, op: ir.Operation, choose: Chooser, target: Target) -> list[str]:
    """The schedules of the nests that take the place of an op: one for each result, or none."""
    schedules: list[str] = []
    draft = Draft([])
    try:
        with op.location, draft.insertion_point():
            for number in range(len(op.results)):
                part = _ResultPart.of(op, number)
                schedule = choose(part.function) if part is not None else None
                if part is None or schedule is None:
                    raise NotSchedulable("no family takes it")
                shared = tw.EXCHANGE in op.attributes and part.changed is None and schedule.extent > 1
                ends = _find_part(function, op, schedule.extent) if shared else _find_all(schedule.extent)
                made = part.build(schedule, ends, target)
                schedules.append(str(schedule))
                if alternate_order(made, op, part.inputs, target):
                    schedules.append("every second step from the last block to the first")
                if shared:
                    made = mark_shared(made)
                    schedules.append("each thread a part of the blocks")
                draft.results = [*draft.results, made]
    except NotSchedulable:
        return []
    # A tile that is all of a result is said to lie in it, which only a kernel's own result must: another op may have
    # the same memory.
    for inner in draft.find_ops(lambda op: op.name == "bufferization.materialize_in_destination"):
        replace(inner, [inner.operands[0]])
    for inner in draft.find_ops(_is_tile):
        inner.attributes[tw.TILE] = ir.UnitAttr.get()
    with ir.InsertionPoint(op):
        replace(op, draft.place([]))
    return schedules


def _find_all(blocks: int) -> tuple[ir.Value, ir.Value]:
    return index_constant(0), index_constant(blocks)


def _find_part(function: func.FuncOp, op: ir.Operation, blocks: int) -> tuple[ir.Value, ir.Value]:
    """The part of a product's blocks that a call of the kernel makes, whose last arguments are its range of steps."""
    steps = index_constant(ir.IntegerAttr(op.attributes[tw.EXCHANGE]).value)
    lo, hi = (arith.divui(arith.muli(end, index_constant(blocks)), steps) for end in list(function.arguments)[-2:])
    return lo, hi


def _is_tile(op: ir.Operation) -> bool:
    return op.name.startswith("linalg.") and op.name != "linalg.yield"


@dataclass(frozen=True)
class _ResultPart:
    """One result of an op as a kernel of its own: a ``function`` of the op's ``inputs``, and of what it ``changes``."""

    module: ir.Module
    function: func.FuncOp
    inputs: Sequence[ir.Value]
    changed: ir.Value | None = None

    @staticmethod
    def of(op: ir.Operation, number: int) -> _ResultPart | None:
        """The part of this result; None where an op that sums up does not begin with a constant.

        What an elementwise op reads of its result's place is the function's last argument.
        """
        count = num_inputs(op)
        sources, initial = list(op.operands)[:count], op.operands[count + number]
        unpacks = [_find_unpack(v) for v in sources]
        inputs = [v if unpack is None else unpack.operands[0] for v, unpack in zip(sources, unpacks, strict=True)]
        block = op.regions[0].blocks[0]
        reads = any(any(True for _ in argument.uses) for argument in list(block.arguments)[count:])
        scalar = filled_with(initial) if reads else None
        changes = reads and scalar is None
        if (reads and len(op.results) > 1) or (changes and not _is_pointwise(op)):
            return None
        module, kind = ir.Module.create(), ir.RankedTensorType(initial.type)
        with ir.InsertionPoint(module.body), op.location:
            types = [v.type for v in (*inputs, *([initial] if changes else []))]
            function = func.FuncOp("part", (types, [op.results[number].type]))
            function.attributes[tw.PART] = ir.UnitAttr.get()
            if changes:
                mark_in_place(function, [count])
            with ir.InsertionPoint(function.add_entry_block()):
                mapping = {}
                for value in find_captures(op):
                    clone(value.owner.operation, mapping)
                if changes:
                    into = function.arguments[count]
                elif scalar is not None:
                    into = builders.full(list(kind.shape), clone(scalar, mapping).results[0])
                else:
                    into = builders.empty(list(kind.shape), kind.element_type)
                maps = indexing_maps(op)
                kept = [tuple(m.results) for m in (*maps[:count], maps[count + number])]

                def body(*scalars: ir.Value) -> ir.Value:
                    inner = {**mapping, **dict(zip(list(block.arguments)[:count], scalars, strict=False))}
                    inner[block.arguments[count + number]] = scalars[-1]
                    for computed in body_ops(op):
                        clone(computed, inner)
                    yielded = terminator_of(op).operands[number]
                    return inner.get(yielded, yielded)

                read = [
                    a if unpack is None else _unpack_again(unpack, a)
                    for a, unpack in zip(list(function.arguments)[:count], unpacks, strict=True)
                ]
                iterators = "".join(kind[0] for kind in iterator_types(op))
                func.ReturnOp(builders.generic(read, [into], kept, iterators, body))
        return _ResultPart(module, function, inputs, initial if changes else None)

    def build(self, schedule: Schedule, ends: tuple[ir.Value, ir.Value], target: Target) -> ir.Value:
        """Emit the nest of a range of steps at the insertion point; returns the result."""
        result = terminator_of(self.function).operands[0]
        kind = squeezed_type(result.type)
        arguments = dict(zip(self.function.arguments, map(_squeeze, self.inputs), strict=False))
        if self.changed is None:
            dest = tensor.EmptyOp(list(kind.shape), kind.element_type).result
        else:
            dest = arguments[self.function.arguments[len(self.inputs)]] = _squeeze(self.changed)
        made = build_nest(schedule, result, dest, *ends, arguments, target)
        return builders.reshape(made, shape_of(result))


def _find_unpack(value: ir.Value) -> ir.Operation | None:
    """The op that unpacks a value from blocks: a nest reads those where they lie."""
    op = defining_op(value)
    return op if op is not None and op.name == "linalg.unpack" else None


def _unpack_again(unpack: ir.Operation, packed: ir.Value) -> ir.Value:
    dest = builders.empty(shape_of(unpack.results[0]), builders.element_of(packed))
    return clone(unpack, {unpack.operands[0]: packed, unpack.operands[1]: dest}).results[0]


def _squeeze(value: ir.Value) -> ir.Value:
    return builders.reshape(value, list(squeezed_type(value.type).shape))


def _is_pointwise(op: ir.Operation) -> bool:
    """Return whether an op looks at the place of its result that it writes, and at no other one."""
    output = indexing_maps(op)[num_inputs(op)]
    return set(iterator_types(op)) == {"parallel"} and output == ir.AffineMap.get_identity(output.n_dims)


def filled_with(value: ir.Value) -> ir.Operation | None:
    """The constant that a tensor is filled with."""
    op = defining_op(value)
    if op is None or op.name not in ("linalg.fill", "linalg.generic") or not isinstance(classify_op(op), Fill):
        return None
    scalar = op.operands[0]
    if op.name == "linalg.generic":
        block = op.regions[0].blocks[0]
        yielded = terminator_of(op).operands[0]
        scalar = op.operands[0] if yielded == block.arguments[0] and num_inputs(op) == 1 else yielded
    return defining_op(scalar) if is_constant(scalar) else None
