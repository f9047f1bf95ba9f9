"""Rows that a kernel goes over several times are asked for while the row before is computed."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import ClassVar

from ...dialects import arith, func, ir, memref, tw
from ...dialects.builders import index_constant
from ...dialects.types import element_bits, nbytes
from ...dialects.walk import collect, defining_op, enclosing_loops, find_named, integer_of
from ..infra.base import Pass
from ..ir.kernel import LINE, count_of, scheduled_functions


@dataclass(frozen=True)
class PrefetchRows(Pass):
    """Prefetch the next row in the loop that computes most with one (softmax: the exponentials), and the result's row.

    The loops over one row wait for each other: the first one reads memory while nothing is computed, the last one
    writes it. The hardware's prefetcher does not go on beyond a page of 4 kB. The loop that writes is none to ask in:
    layer normalization of more than the caches hold then took 1.35 times as long.

    Before::

        scf.for %r ... {
          scf.for %i ... { %x = vector.load %a[%r, %i * 64] ... }          // the maximum
          scf.for %i ... { %x = vector.load %a[%r, %i * 64] ... }          // exponentials, into a buffer
          scf.for %i ... { vector.store %y, (a row of %result)[%i * 64] }

    After::

        scf.for %r ... {
          scf.for %i ... { %x = vector.load %a[%r, %i * 64] ... }
          scf.for %i ... {
            memref.prefetch %a[%r + 1, %i * 64], read, locality<3>, data     // for each line of the vector
            memref.prefetch %result[%r, %i * 64], write, locality<3>, data
            %x = vector.load %a[%r, %i * 64] ...

    Rows of 4 kB take 0.6 of their time so, in softmax of more than the caches hold. A kernel whose stores pass the
    caches asks for the next row alone, and so does one that stores into the result in all loops over the row. Past the
    last row an address is only computed: a prefetch never faults.

    Rows of dynamic length are asked for whatever the tensor's size: in a cache that costs little.

    Options:
        least: bytes of a tensor of known size; smaller ones stay in a cache.
    """

    name: ClassVar[str] = "prefetch-rows"
    opt_level: ClassVar[int] = 1
    least: int = 1 << 20

    def apply(self, module: ir.Module) -> None:
        """Rewrite all scheduled functions of the module."""
        for function in scheduled_functions(module):
            *inputs, results = _buffers(function)
            for buffer in itertools.chain(*inputs):
                if _is_static(buffer) and nbytes(buffer.type) < self.least:
                    continue
                loops, result = _find_loops(function, buffer), _choose_like(results, buffer)
                if len(loops) > 1:
                    computing = [loop for loop in loops if not _stores(loop, result)] or list(loops)[:1]
                    busiest = max(computing, key=lambda loop: len(collect(loop, _computes)))
                    _prefetch(loops[busiest], result, tw.STREAMS in function.attributes)


def _buffers(function: func.FuncOp) -> list[list[ir.Value]]:
    """What a kernel reads, and its result: where an argument has views of dynamic sizes, these in its place.

    There are several where axes are joined.
    """
    arguments = list(function.arguments)[: -2 - count_of(function, tw.SIZES)]  # then come sizes and the range of steps
    casts = find_named(function, "memref.reinterpret_cast")
    views: list[list[ir.Value]] = [[op.results[0] for op in casts if op.operands[0] == each] for each in arguments]
    return [own or [argument] for own, argument in zip(views, arguments, strict=True)]


def _choose_like(results: Sequence[ir.Value], buffer: ir.Value) -> ir.Value:
    """The view of the result with the axes that a buffer has, or any."""
    return next((result for result in results if result.type == buffer.type), results[0])


def _find_loops(function: func.FuncOp, buffer: ir.Value) -> dict[ir.Operation, ir.Operation]:
    """The loops that walk a row of a buffer, and their first loads; of a row's loops those of the widest vectors."""
    loads = collect(function, partial(_walks_rows, buffer=buffer), "vector.load")
    widest = max((_elements_at_once(load) for load in loads), default=0)
    return {
        load.parent.operation: load for load in reversed(loads) if load.parent and _elements_at_once(load) == widest
    }


def _walks_rows(op: ir.Operation, buffer: ir.Value) -> bool:
    """Return whether the op loads the next vector of a row of a buffer, the row being the step of an outer loop."""
    if op.operands[0] != buffer or ir.VectorType(op.results[0].type).rank != 1:
        return False
    loops, rank = enclosing_loops(op), ir.MemRefType(buffer.type).rank
    if len(loops) < 2 or rank < 2 or (_is_static(buffer) and (len(loops), rank) != (2, 2)):
        return False
    inner, outer = (loop.regions[0].blocks[0].arguments[0] for loop in loops[:2])
    *_, row, place = op.operands
    # Loops over rows of dynamic length count elements, others vectors.
    counts = place == inner and integer_of(loops[0].operands[2]) == _elements_at_once(op)
    return _goes_on(row, outer) and (counts or _is_multiple(place, inner, _elements_at_once(op)))


def _is_static(buffer: ir.Value) -> bool:
    return ir.MemRefType(buffer.type).has_static_shape


def _elements_at_once(load: ir.Operation) -> int:
    return ir.VectorType(load.results[0].type).shape[0]


def _goes_on(index: ir.Value, counter: ir.Value) -> bool:
    """Return whether an index is a loop's counter, or that from a place on."""
    found = _unhide(index)
    op = defining_op(found)
    return found == counter or (
        op is not None and op.name == "arith.addi" and any(_goes_on(v, counter) for v in op.operands)
    )


def _unhide(index: ir.Value) -> ir.Value:
    """What ``hide_formula`` has hidden from LLVM; any other index as it is."""
    found = [index]
    for name in ("arith.index_cast", "llvm.inline_asm", "arith.index_cast"):
        op = defining_op(found[-1])
        if op is None or op.name != name:
            return index
        found.append(op.operands[0])
    return found[-1]


def _computes(op: ir.Operation) -> bool:
    return op.name.startswith(("arith.", "math.")) and any(isinstance(r.type, ir.VectorType) for r in op.results)


def _is_multiple(index: ir.Value, counter: ir.Value, factor: int) -> bool:
    op = defining_op(index)
    if op is None or op.name != "arith.muli" or op.operands[0] != counter:
        return False
    return integer_of(op.operands[1]) == factor


def _prefetch(load: ir.Operation, result: ir.Value, streams: bool) -> None:
    """Ask for lines at the beginning of the load's loop: LLVM moves no load across a prefetch."""
    buffer, *outside, row, _ = load.operands
    loop = load.parent
    assert loop is not None
    count = _elements_at_once(load)
    line = LINE * 8 // element_bits(ir.MemRefType(buffer.type).element_type)
    writes = result.type == buffer.type and not streams and not _stores(loop.operation, result)
    with ir.InsertionPoint.at_block_begin(load.block), load.location:
        first = load.block.arguments[0]
        if integer_of(loop.operands[2]) != count:
            first = arith.muli(first, index_constant(count))
        after = arith.addi(row, index_constant(1))
        for start in range(0, count, line):
            place = arith.addi(first, index_constant(start))
            memref.PrefetchOp(buffer, [*outside, after, place], False, 3, True)
            if writes:
                memref.PrefetchOp(result, [*outside, row, place], True, 3, True)


def _stores(loop: ir.Operation, result: ir.Value) -> bool:
    """Return whether a loop stores into the result, or into a part of it, by whatever view."""
    stores = find_named(loop, "vector.store")
    return any(_sources(result)[-1] in _sources(op.operands[1]) for op in stores)


def _sources(buffer: ir.Value) -> Sequence[ir.Value]:
    """A buffer, and what it is a view of."""
    found = [buffer]
    while isinstance(found[-1], ir.OpResult) and len(found[-1].owner.operands):
        found.append(found[-1].owner.operands[0])
    return found
