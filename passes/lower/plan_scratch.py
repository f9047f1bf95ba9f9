"""Give a kernel's temporary buffers a place in its scratch memory, so that it never allocates."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from ...dialects import func, ir, memref
from ...dialects.context import at_node
from ...dialects.types import nbytes
from ...dialects.walk import collect
from ...errors import CompileError
from ..infra import Pass
from ..kernel import SCRATCH, functions, integer

_ALIGNMENT = 64


@dataclass(frozen=True)
class PlanScratch(Pass):
    """Replace each ``memref.alloc`` of a kernel by a view of a new scratch argument, before ``lo, hi``.

    Before::

        func.func @k(%x: memref<..>, %r: memref<..>, %lo: index, %hi: index) {
          %t = memref.alloc() : memref<384xf32>

    After::

        func.func @k(%x: memref<..>, %r: memref<..>, %scratch: memref<1536xi8>, %lo: index, %hi: index)
            attributes {tw.scratch = 1536 : i64} {
          %t = memref.view %scratch[%c0][] : memref<1536xi8> to memref<384xf32>

    A buffer made in a loop's body or a branch can have one place for all its steps, because no loop or branch hands a
    buffer on (checked).
    """

    name: ClassVar[str] = "plan-scratch"

    def apply(self, module: ir.Module) -> None:
        """Rewrite all functions of the module.

        Raises CompileError where a loop hands on a buffer, and for a buffer whose size is only known at run time.
        """
        for function in functions(module):
            function.attributes[SCRATCH] = integer(_place_buffers(function))


def _place_buffers(function: func.FuncOp) -> int:
    """Replace the allocations; returns their bytes."""
    entry = function.regions[0].blocks[0]
    allocs = _collect(function, ("memref.alloc", "memref.alloca"))
    offset, placed = 0, []
    for op in _collect(function, ("scf.for", "scf.if", "scf.while")):
        if any(isinstance(r.type, ir.MemRefType) for r in op.results):
            raise CompileError(f"pass 'plan-scratch': a loop or branch of a kernel hands on a buffer{at_node(op)}")
    for op in allocs:
        if op.operands:
            raise CompileError(f"pass 'plan-scratch': a buffer's size is known only at run time{at_node(op)}")
        placed.append((op, offset))
        offset += -(-nbytes(op.results[0].type) // _ALIGNMENT) * _ALIGNMENT
    size = max(offset, 1)
    byte_type = ir.MemRefType.get([size], ir.IntegerType.get_signless(8))
    scratch = _insert_argument(function, entry, byte_type)
    for op, start in placed:
        with ir.InsertionPoint.at_block_begin(entry):
            shift = ir.Operation.create(
                "arith.constant",
                results=[ir.IndexType.get()],
                attributes={"value": ir.IntegerAttr.get(ir.IndexType.get(), start)},
            )
            view = memref.ViewOp(op.results[0].type, scratch, shift.results[0], [])
        op.results[0].replace_all_uses_with(view.result)
        op.erase()
    for op in _collect(function, ("memref.dealloc",)):
        op.erase()
    return offset


def _collect(function: func.FuncOp, names: tuple[str, ...]) -> list[ir.Operation]:
    return collect(function, lambda op: op.name in names)


def _insert_argument(function: func.FuncOp, entry: ir.Block, kind: ir.Type) -> ir.Value:
    """Add an argument before the last two (lo, hi)."""
    old = list(function.type.inputs)
    position = len(old) - 2
    value = entry.add_argument(kind, ir.Location.unknown())
    moved = [entry.add_argument(t, ir.Location.unknown()) for t in old[position:]]
    for before, after in zip(list(entry.arguments)[position : position + 2], moved, strict=True):
        before.replace_all_uses_with(after)
    for _ in range(2):
        entry.erase_argument(position)
    kinds = [*old[:position], kind, *old[position:]]
    function.attributes["function_type"] = ir.TypeAttr.get(ir.FunctionType.get(kinds, []))
    return value
