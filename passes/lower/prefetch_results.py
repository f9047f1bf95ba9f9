"""The lines of a result that tiles are stored to are asked for ahead."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from ...core.target import Target, detect_host
from ...dialects import arith, ir, memref, tw
from ...dialects.builders import index_constant
from ...dialects.types import element_bits, nbytes
from ...dialects.walk import find_named, integer_of
from ..infra.base import Pass
from ..ir.addresses import find_memory
from ..ir.kernel import LINE, in_place, scheduled_functions, takes_sizes

# Steps of a sum up to which it takes no longer than its tile takes to be written, and bytes from which on rows lie far
# apart: nearer ones follow each other as the hardware expects it, and take 1.07 times as long (4096 x 64 by 100).
_TILE_STEPS, _ROWS_APART = 48, 1024
_LOADS = ("vector.load", "vector.transfer_read")
_STORES = ("vector.store", "vector.transfer_write")


@dataclass(frozen=True)
class PrefetchResults(Pass):
    """Prefetch, to be written, lines of a large result: those of a tile of short sums, or of the next turned tile.

    A tile's rows are stored at once, each to lines of its own. The processor asks for the lines of a few stores at a
    time, and what the next tile computes waits for them. Where rows are no whole lines, each store needs two of them,
    and the second one is asked for only when its turn comes.

    Before::

        %sum = scf.for %k = 0 to 33 iter_args(%acc: vector<13x32xf32>) { ... }
        vector.transfer_write %sum, %y[%i, %j] : vector<13x32xf32>, memref<546x1444xf32>

        %tile = vector.transfer_read %x[%j, %i] : memref<255x1000xf32>, vector<16x16xf32>
        vector.transfer_write (%tile, turned by shuffles), %z[%i, %j] : vector<16x16xf32>, memref<1000x255xf32>

    After::

        memref.prefetch %y[%i, %j], write, locality<3>, data          // for each line of each row
        %sum = scf.for %k = 0 to 33 iter_args(%acc: vector<13x32xf32>) { ... }
        vector.transfer_write %sum, %y[%i, %j] : vector<13x32xf32>, memref<546x1444xf32>

        memref.prefetch %z[%i, %j + 31], write, locality<3>, data     // for each row
        %tile = vector.transfer_read %x[%j, %i] : memref<255x1000xf32>, vector<16x16xf32>
        vector.transfer_write (%tile, turned by shuffles), %z[%i, %j] : vector<16x16xf32>, memref<1000x255xf32>

    91 filters of 33 channels on six images of 38 x 38 take 0.66 of their time, 144 of 24 on 75 x 75 0.6, 512 x 512
    scores of eight heads of 32, whose rows are whole lines, 0.89. Six matrices of 255 x 1000 are turned in 0.85 of
    their time, one of 12544 x 64 in 0.8, of 144 x 3136 in 0.7 (AVX-512, 2 MiB).

    Left are results that the caches hold anyhow (of sums half of the second one, of tiles the first one), those that
    pass the caches (``stream-stores``), those of open sizes (``turned_rows.py`` asks for its own), rows of whole lines
    near each other, and stores whose places only the code behind the sum computes.

    Options:
        least: bytes of a result; 0 for those of the target's caches.
    """

    name: ClassVar[str] = "prefetch-results"
    opt_level: ClassVar[int] = 1
    target: Target | None = None
    least: int = 0

    def apply(self, module: ir.Module) -> None:
        """Rewrite all scheduled functions of the module."""
        target = self.target or detect_host()
        for function in scheduled_functions(module):
            if takes_sizes(function) or in_place(function) or tw.STREAMS in function.attributes:
                continue
            result = list(function.arguments)[-3]  # after it comes the range of steps
            if nbytes(result.type) > (self.least or target.l2_bytes // 2):
                for loop in find_named(function, "scf.for"):
                    _ask_before_sum(loop, result)
            if nbytes(result.type) > (self.least or target.l1_bytes):
                for write in find_named(function, "vector.transfer_write"):
                    _ask_for_next_tile(write, result)


def _ask_before_sum(loop: ir.Operation, result: ir.Value) -> None:
    """Ask before a short loop of accumulators for what the stores behind it write of a result."""
    if (
        not any(isinstance(value.type, ir.VectorType) for value in loop.results)
        or not 0 < _multiply_steps(loop) <= _TILE_STEPS
    ):
        return
    ops = [op.operation for op in loop.block.operations]
    behind = ops[ops.index(loop) + 1 :]
    late = {value for op in behind for value in op.results}
    for store in behind:
        if store.name not in _STORES or find_memory(store.operands[1]) != result:
            continue
        apart = _writes_rows(store) and _row_bytes(store) >= _ROWS_APART
        if apart and late.isdisjoint(list(store.operands)[1:]):
            columns, line = ir.VectorType(store.operands[0].type).shape[-1], _line(store)
            steps = [*range(0, columns, line)]
            # A row that may begin within a line ends in one more.
            steps += [] if _row_bytes(store) % LINE == 0 else [columns - 1]
            with ir.InsertionPoint(loop), store.location:
                _ask_for_rows(store, list(dict.fromkeys(steps)))


def _ask_for_next_tile(write: ir.Operation, result: ir.Value) -> None:
    """Ask, before a tile that is turned is read, for the last column of the next one along the rows of a result."""
    ops = [op.operation for op in write.block.operations]
    reads = [op for op in ops if op.name in _LOADS and ir.VectorType(op.results[0].type).rank == 2]
    if not reads or find_memory(write.operands[1]) != result or any(op.name == "scf.for" for op in ops):
        return
    late = {value for op in ops[ops.index(reads[0]) :] for value in op.results}
    rows = _writes_rows(write) and ir.VectorType(write.operands[0].type).rank == 2
    near = rows and _row_bytes(write) < _ROWS_APART // 2 and _row_bytes(write) % LINE == 0
    if rows and not near and late.isdisjoint(list(write.operands)[1:]):
        with ir.InsertionPoint(reads[0]), write.location:
            _ask_for_rows(write, [2 * ir.VectorType(write.operands[0].type).shape[-1] - 1])


def _multiply_steps(loop: ir.Operation) -> int:
    """How many steps a loop and those in it have together; 0 where that is not known."""
    low, high, step = (integer_of(value) for value in list(loop.operands)[:3])
    if low is None or high is None or not step:
        return 0
    inner = [
        _multiply_steps(op.operation) for op in loop.regions[0].blocks[0].operations if op.operation.name == "scf.for"
    ]
    return -(-(high - low) // step) * (sum(inner) if inner else 1)


def _writes_rows(store: ir.Operation) -> bool:
    """Return whether a store writes all elements of a vector's rows side by side, into a buffer of rows."""
    value, buffer, *places = store.operands
    kind, memory = ir.VectorType(value.type), ir.MemRefType(buffer.type)
    if not 1 <= kind.rank <= 2 or len(places) != memory.rank or memory.rank < 2:
        return False
    if store.name == "vector.store":
        return True
    order = ir.AffineMapAttr(store.attributes["permutation_map"]).value
    return order == ir.AffineMap.get_minor_identity(memory.rank, kind.rank)


def _row_bytes(store: ir.Operation) -> int:
    """Bytes from one row of the buffer that a store writes to the next one."""
    memory = ir.MemRefType(store.operands[1].type)
    strides, _ = memory.get_strides_and_offset()
    return strides[-2] * element_bits(memory.element_type) // 8


def _line(store: ir.Operation) -> int:
    """Elements of a line of the buffer that a store writes."""
    return LINE * 8 // element_bits(ir.MemRefType(store.operands[1].type).element_type)


def _ask_for_rows(store: ir.Operation, columns: Sequence[int]) -> None:
    """Prefetch the elements so many columns behind the first one of each row that a store writes."""
    value, buffer, *places = store.operands
    *rows, _ = ir.VectorType(value.type).shape
    for row, column in itertools.product(range(rows[0] if rows else 1), columns):
        *outer, last = places
        if row:
            outer[-1] = arith.addi(outer[-1], index_constant(row))
        place = arith.addi(last, index_constant(column)) if column else last
        memref.PrefetchOp(buffer, [*outer, place], True, 3, True)
