"""Give a kernel's temporary buffers a place in its scratch memory, so that it never allocates."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from ...core.arena import ALIGNMENT, align_size
from ...core.errors import CompileError
from ...dialects import arith, func, ir, memref, scf, tw
from ...dialects.builders import index_constant
from ...dialects.context import at_node
from ...dialects.types import element_bits, nbytes
from ...dialects.walk import defining_op, find_named, integer_of
from ..infra.base import ModuleForm, Pass
from ..ir.dynamic_sizes import emit_size, hide_formula
from ..ir.edit import replace
from ..ir.kernel import integer_attr, list_functions
from ..ir.routine_ops import LOOPS_AND_BRANCHES


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

    Where a buffer's size is known only at run time, the kernel says how many bytes it needs: called with ``hi = -1`` it
    writes their number to the scratch memory, and does nothing else (``tw.asks_scratch``).
    """

    name: ClassVar[str] = "plan-scratch"
    form: ClassVar[ModuleForm | None] = ModuleForm.SCRATCH

    def apply(self, module: ir.Module) -> None:
        """Rewrite all functions of the module.

        Raises CompileError where a loop hands on a buffer, and for a buffer whose size depends on more than the
        kernel's sizes.
        """
        for function in list_functions(module):
            function.attributes[tw.SCRATCH] = integer_attr(_place_buffers(function))


def _place_buffers(function: func.FuncOp) -> int:
    """Replace the allocations; returns their bytes."""
    entry = function.regions[0].blocks[0]
    allocs = find_named(function, "memref.alloc", "memref.alloca")
    offset, placed = 0, []
    for op in find_named(function, *LOOPS_AND_BRANCHES):
        if any(isinstance(r.type, ir.MemRefType) for r in op.results):
            raise CompileError(f"pass 'plan-scratch': a loop or branch of a kernel hands on a buffer{at_node(op)}")
    open_ = [op for op in allocs if op.operands]
    for op in (op for op in allocs if op not in open_):
        placed.append((op, offset))
        offset += align_size(nbytes(op.results[0].type))
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
    for op in find_named(function, "memref.dealloc"):
        op.erase()
    if open_:
        _place_dynamic(function, open_, scratch, offset)
    return offset


def _place_dynamic(function: func.FuncOp, allocs: list[ir.Operation], scratch: ir.Value, offset: int) -> None:
    """Place buffers whose sizes the kernel computes behind the others, and let it tell how much that is."""
    entry = function.regions[0].blocks[0]
    with ir.InsertionPoint.at_block_begin(entry), ir.Location.unknown():
        total, question = index_constant(offset), index_constant(-1)
    begin, end = total.owner.operation, question.owner.operation  # sizes are computed before, buffers placed between
    for op in allocs:
        for size in op.operands:
            _hoist(size, begin, op)
    with ir.InsertionPoint(end), ir.Location.unknown():
        for op in allocs:
            kind, sizes = ir.MemRefType(op.results[0].type), iter(list(op.operands))
            view = memref.ViewOp(kind, scratch, total, list(op.operands)).result
            size = index_constant(-(-element_bits(kind.element_type) // 8))
            for extent in kind.shape:
                size = arith.muli(size, next(sizes) if extent < 0 else index_constant(extent))
            aligned = arith.muli(arith.ceildivsi(size, index_constant(ALIGNMENT)), index_constant(ALIGNMENT))
            total = hide_formula(arith.addi(total, aligned))
            op.results[0].replace_all_uses_with(view)
            op.erase()
    body = [op.operation for op in entry.operations]
    rest = body[body.index(end) + 1 : -1]
    with ir.InsertionPoint.after(end), ir.Location.unknown():
        asked = arith.cmpi(arith.CmpIPredicate.eq, list(entry.arguments)[-1], question)
        either = scf.IfOp(asked, has_else=True)
    done, rest_block = (region.blocks[0] for region in either.regions)
    with ir.InsertionPoint(done), ir.Location.unknown():
        words = memref.ViewOp(ir.MemRefType.get([1], ir.IndexType.get()), scratch, index_constant(0), []).result
        memref.StoreOp(total, words, [index_constant(0)])
        scf.YieldOp([])
    for op in rest:
        rest_block.append(op)
    with ir.InsertionPoint(rest_block), ir.Location.unknown():
        scf.YieldOp([])
    function.attributes[tw.ASKS_SCRATCH] = ir.UnitAttr.get()


def _hoist(value: ir.Value, place: ir.Operation, alloc: ir.Operation) -> None:
    """Move what computes a size before ``place``, an op at the begin of the function."""
    op = defining_op(value)
    if op is None and value.owner == place.block:
        return
    if op is not None and op.name == "memref.dim" and (axis := integer_of(op.operands[1])) is not None:
        with ir.InsertionPoint(op), op.location:
            found = emit_size(op.operands[0], axis)
        if (dim := defining_op(found)) is None or dim.name != op.name or dim.operands[0] != op.operands[0]:
            replace(op, [found])
            _hoist(found, place, alloc)
            return
        dim.erase()
    if op is None or len(op.regions) or not op.name.startswith(("arith.", "memref.dim", "memref.reinterpret_cast")):
        raise CompileError(f"pass 'plan-scratch': a buffer's size depends on a kernel's data{at_node(alloc)}")
    for operand in op.operands:
        _hoist(operand, place, alloc)
    if not (op.block == place.block and op.is_before_in_block(place)):
        op.move_before(place)


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
