"""The cost of ``@main`` as imported: arithmetic, and the memory of values that are alive together. Changes nothing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ...dialects import func, ir, tw
from ...dialects.types import is_dynamic_type, nbytes
from ...dialects.walk import collect, integer_of
from ..ir.routine_ops import VIEWS_AND_SLICES
from ..ir.structure import is_structured, is_tensor, list_ops, num_inputs
from .classify import classify_op
from .cost import is_arithmetic, op_flops
from .kinds import Broadcast, Elementwise


@dataclass(frozen=True)
class Footprint:
    """``flops`` as ``cost`` counts them; ``activation_bytes``: inputs, outputs and what lies between at the worst time.

    What is computed from weights alone is done before the first run, so it counts nothing. ``open_loops`` are those
    whose steps are known only at run time: they count as one step.
    """

    flops: int
    activation_bytes: int
    open_loops: int = 0


def estimate_footprint(main: func.FuncOp) -> Footprint | None:
    """The footprint of a function of static shapes; None for another."""
    ops = list_ops(main)
    if any(is_dynamic_type(value.type) for value in [*main.arguments, *(v for op in ops for v in op.results)]):
        return None
    ops = _of_each_run(main, ops)
    work = [_count_flops(op) for op in ops]
    return Footprint(sum(flops for flops, _ in work), _peak(main, ops), sum(loops for _, loops in work))


def _of_each_run(main: func.FuncOp, ops: Sequence[ir.Operation]) -> list[ir.Operation]:
    """The ops without those that depend on weights and constants alone."""
    of_run = set(_find_inputs(main))
    kept = []
    for op in ops:
        if op.name == "func.return" or any(value in of_run for value in _collect_operands(op)):
            of_run.update(op.results)
            kept.append(op)
    return kept


def _find_inputs(main: func.FuncOp) -> list[ir.Value]:
    """The arguments that are no weights."""
    pairs = zip(main.arguments, main.arg_attrs, strict=True)
    return [argument for argument, attributes in pairs if tw.NAME in ir.DictAttr(attributes)]


def _count_flops(op: ir.Operation) -> tuple[int, int]:
    """The arithmetic of an op with all that is inside of it, and its loops of unknown length."""
    if is_structured(op):
        return op_flops(op), 0
    blocks = [list(map(_inner, block.operations)) for region in op.regions for block in region.blocks]
    counted = [tuple(map(sum, zip(*block, strict=True))) for block in blocks if block]
    if not counted:
        return 0, 0
    if op.name == "scf.if":
        return max(flops for flops, _ in counted), max(loops for _, loops in counted)
    flops, loops = map(sum, zip(*counted, strict=True))
    steps = _steps(op)
    return (flops, loops + 1) if steps is None else (flops * steps, loops)


def _inner(op: ir.OpView) -> tuple[int, int]:
    operation = op.operation
    if operation.results and isinstance(operation.results[0].type, ir.FloatType):
        return int(is_arithmetic(operation.name)), 0  # on single numbers, in loops
    return _count_flops(operation)


def _steps(op: ir.Operation) -> int | None:
    """How often a region runs: as its loop's bounds say; None where only the run knows."""
    if op.name not in ("scf.for", "scf.while"):
        return 1
    bounds = [integer_of(value) for value in list(op.operands)[:3]] if op.name == "scf.for" else [None]
    if None in bounds:
        return None
    low, high, step = (bound or 0 for bound in bounds)
    return max(0, -(-(high - low) // step)) if step > 0 else None


@dataclass
class _Buffer:
    """A tensor in memory, from the op that makes it to the last one that reads it, by their numbers."""

    nbytes: int
    node: str
    last: int
    fused: bool = True  # only the node that makes it reads it: it will hardly be in memory as a whole


def _peak(main: func.FuncOp, ops: Sequence[ir.Operation]) -> int:
    buffers: dict[ir.Value, _Buffer] = {}
    for argument in _find_inputs(main):
        buffers[argument] = _Buffer(nbytes(argument.type), "", len(ops), fused=False)
    live = peak = sum(buffer.nbytes for buffer in buffers.values())
    made = [_make(op, index, buffers) for index, op in enumerate(ops)]
    ending: dict[int, list[_Buffer]] = {}
    for buffer in (b for each in made for b in each if not b.fused):
        ending.setdefault(buffer.last, []).append(buffer)
    for index, op in enumerate(ops):
        born = sum(buffer.nbytes for buffer in made[index] if not buffer.fused)
        dying = [buffer.nbytes for buffer in ending.get(index, ())]
        # An elementwise op can write where an operand is that nobody needs afterwards.
        in_place = born if born in dying and isinstance(classify_op(op), Elementwise | Broadcast) else 0
        live += born
        peak = max(peak, live - in_place)
        live -= sum(dying)
    return peak


def _make(op: ir.Operation, index: int, buffers: dict[ir.Value, _Buffer]) -> list[_Buffer]:
    """Note what an op reads; gives the buffers that it makes."""
    node = op.location.name_str if op.location.is_a_name() else ""
    for value in _collect_operands(op):
        if buffer := buffers.get(value):
            buffer.last = index
            buffer.fused &= buffer.node == node and op.name != "func.return"
    if (shared := _find_shared_buffer(op, buffers)) is not None:
        buffers[op.results[0]] = shared
        return []
    made = {value: _Buffer(nbytes(value.type), node, index) for value in op.results if is_tensor(value)}
    buffers.update(made)
    return list(made.values())


def _collect_operands(op: ir.Operation) -> list[ir.Value]:
    """The operands of an op and of those inside of it."""
    read = list(op.operands)
    if op.regions:
        for inner in collect(op, lambda _: True):
            read += inner.operands
    return read


def _find_shared_buffer(op: ir.Operation, buffers: Mapping[ir.Value, _Buffer]) -> _Buffer | None:
    """The buffer of an operand that the result is a view of, or is written into."""
    if op.name in VIEWS_AND_SLICES:
        return buffers.get(op.operands[0])
    if op.name == "tensor.insert_slice":
        return buffers.get(op.operands[1])
    if is_structured(op) and len(op.results) == 1:
        return buffers.get(op.operands[num_inputs(op)])
    return None
