"""Threads that share the blocks of a loop wait behind it until all of them are there."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar

from ...core.arena import align_size
from ...core.errors import CompileError
from ...dialects import arith, func, ir, linalg, llvm, memref, scf, tw
from ...dialects.builders import index_constant
from ...dialects.context import at_node
from ...dialects.scalars import run_intrinsic
from ...dialects.types import nbytes
from ...dialects.walk import collect, defining_op, is_made_in
from ..infra.base import Pass
from ..ir.addresses import MEMORY_VIEWS, as_pointer, find_memory
from ..ir.kernel import LINE, count_of, integer_attr, list_functions

# Ops that write to an operand and do not read it, and which one that is.
_WRITES = {"vector.transfer_write": 1, "vector.store": 1, "memref.store": 1, "linalg.copy": 1, "linalg.fill": 1}
# Looks at the count before a thread offers its CPU to others at each further one: 10 to 20 microseconds.
_LOOKS = 256
_YIELD = "sched_yield"


@dataclass(frozen=True)
class ExchangeBlocks(Pass):
    """Let each loop that is marked with ``tw.exchange`` write into memory of all threads, and wait for all blocks.

    Before::

        func.func @k(..., %lo: index, %hi: index) attributes {tw.exchanges = 1, tw.extent = 16} {
          %p = memref.alloc() : memref<2048xf32>
          scf.for %t ... {
            scf.for %block = %lo * 64 / 16 to %hi * 64 / 16 {writes to %p} {tw.exchange}

    After::

          %own = memref.alloc() : memref<16512xi8>        // the scratch's first bytes: see tw_parallel_for
          %back = memref.load %own as words [0]           // to the first thread's
          scf.for %t ... {
            %place = memref.view %own[%back + 128 or, in every second exchange, %back + 8320]
            scf.for %block = %lo * 64 / 16 to %hi * 64 / 16 {writes to %place}
            llvm.atomicrmw add the count at %back + 64, %hi - %lo
            wait until the count is 16 for each exchange so far
            linalg.copy %place to %p

    There are two places, so one wait is enough: who writes to a place again has been through the wait behind the other
    one, where all threads come only when they have copied what was in it. A call of all steps waits for nobody.

    All else each thread does by itself. It must not change what others see, so a result that is read as well is a
    buffer of each thread's own, which the first one copies in the end. Where a loop's buffer has open extents or is no
    buffer of the kernel's own, one thread runs the kernel.

    Options:
        arch: the architecture, which has an instruction to pause.
    """

    name: ClassVar[str] = "exchange-blocks"
    arch: str = "x86"

    def apply(self, module: ir.Module) -> None:
        """Rewrite the functions of the module that are marked with ``tw.exchanges``.

        Raises CompileError where fewer loops are marked than those say.
        """
        for function in list_functions(module):
            if tw.EXCHANGES not in function.attributes:
                continue
            loops = collect(function, lambda op: tw.EXCHANGE in op.attributes, "scf.for")
            if len(loops) != count_of(function, tw.EXCHANGES):  # one that lost its mark would make a part of its blocks
                raise CompileError(f"pass 'exchange-blocks': a loop has lost its mark{at_node(function)}")
            targets = [_find_target(loop) for loop in loops]
            results = list(_find_read_results(function))
            fixed = all(ir.MemRefType(result.type).has_static_shape for result in results)
            parts = [(loop, target) for loop, target in zip(loops, targets, strict=True) if target is not None]
            if fixed and len(parts) == len(loops):
                _copy_results(function, results)
                _exchange(function, parts, self.arch)  # its buffer comes first, as plan-scratch keeps it
                _declare_yield(module)
            else:
                _run_alone(function)
            for loop in loops:
                del loop.attributes[tw.EXCHANGE]


def _find_target(loop: ir.Operation) -> ir.Value | None:
    """The one buffer of the kernel's own, or part of one, that a loop writes to; None where it writes to others.

    It is of known size, and its elements lie one after another.
    """
    uses = [
        (op, number, _find_base(operand, loop))
        for op in collect(loop, lambda op: op.name not in MEMORY_VIEWS)
        for number, operand in enumerate(op.operands)
        if isinstance(operand.type, ir.MemRefType)
    ]
    found = {base for op, number, base in uses if _may_write(op, number) and not is_made_in(base, loop)}
    if len(found) != 1:
        return None
    [target] = found
    memory = find_memory(target)
    owner = defining_op(memory)
    others = any(find_memory(base) == memory and base != target for _, _, base in uses)
    # A step that writes all of it, as a copy that bufferization needs may, writes over the blocks of other threads.
    others |= any(op.operands[number] == target and op.name.startswith("linalg.") for op, number, _ in uses)
    own = owner is not None and owner.name == "memref.alloc"
    return target if own and _has_no_gaps(target) and not others else None


def _find_base(view: ir.Value, loop: ir.Operation) -> ir.Value:
    """What a view in a loop is of, as it is before the loop; a buffer that the loop makes."""
    while is_made_in(view, loop) and (op := defining_op(view)) is not None and op.name in MEMORY_VIEWS:
        view = op.operands[0]
    return view


def _has_no_gaps(buffer: ir.Value) -> bool:
    kind = ir.MemRefType(buffer.type)
    return kind.has_static_shape and kind.get_strides_and_offset()[0] == _plain(kind).get_strides_and_offset()[0]


def _plain(kind: ir.MemRefType) -> ir.MemRefType:
    """The type of a buffer of this shape that begins at an address."""
    return ir.MemRefType.get(kind.shape, kind.element_type)


def _may_write(op: ir.Operation, number: int) -> bool:
    if op.name in _WRITES:
        return _WRITES[op.name] == number
    return op.name not in ("vector.transfer_read", "vector.load", "memref.load", "memref.prefetch", "memref.dim")


def _find_read_results(function: func.FuncOp) -> Iterator[ir.Value]:
    """The buffers that a kernel is given and writes to, if it reads them too."""
    for argument in function.arguments:
        if not isinstance(argument.type, ir.MemRefType):
            continue
        reads = writes = False
        pending = [argument]
        while pending:
            for use in pending.pop().uses:
                op, number = use.owner.operation, use.operand_number
                if op.name in MEMORY_VIEWS:
                    pending += list(op.results)
                else:
                    written = _may_write(op, number)
                    writes |= written
                    reads |= not (written and op.name in _WRITES)
        if reads and writes:
            yield argument


def _run_alone(function: func.FuncOp) -> None:
    """Let each call make all steps, and one thread make the one call."""
    entry = function.regions[0].blocks[0]
    ends = 0, count_of(function, tw.EXTENT)
    for argument, end in zip(list(function.arguments)[-2:], ends, strict=True):
        with ir.InsertionPoint.at_block_begin(entry), ir.Location.unknown():
            argument.replace_all_uses_with(index_constant(end))
    function.attributes[tw.EXTENT] = integer_attr(1)
    for name in (tw.EXCHANGES, tw.PARALLEL, tw.PARALLEL_FROM, tw.STREAMED_FROM):
        if name in function.attributes:
            del function.attributes[name]


def _copy_results(function: func.FuncOp, results: Sequence[ir.Value]) -> None:
    """Replace results by buffers of each thread's own, of which the first thread's is copied in the end."""
    if not results:
        return
    entry = function.regions[0].blocks[0]
    lo = list(function.arguments)[-2]
    with ir.InsertionPoint(entry.operations[-1]), ir.Location.unknown():
        first = arith.cmpi(arith.CmpIPredicate.eq, lo, index_constant(0))
        end = scf.IfOp(first)
    for result in results:
        with ir.InsertionPoint.at_block_begin(entry), ir.Location.unknown():
            own = memref.AllocOp(ir.MemRefType(result.type), [], []).result
        result.replace_all_uses_with(own)
        with ir.InsertionPoint(end.then_block), ir.Location.unknown():
            linalg.copy(own, result)
    with ir.InsertionPoint(end.then_block), ir.Location.unknown():
        scf.YieldOp([])


def _exchange(function: func.FuncOp, parts: Sequence[tuple[ir.Operation, ir.Value]], arch: str) -> None:
    """Let loops write to memory of all threads, each its target: those of one target follow each other."""
    size = max(align_size(nbytes(target.type)) for _, target in parts)
    with ir.InsertionPoint.at_block_begin(function.regions[0].blocks[0]), ir.Location.unknown():
        area = _Area.emit(function, size, arch)
    for (_, target), group in itertools.groupby(parts, lambda part: (part[0].block, part[1])):
        loops = [loop for loop, _ in group]
        with ir.InsertionPoint(loops[0]), loops[0].location:
            place = area.view_place(target.type)
        for loop in loops:
            _write_to(loop, target, place)
        with ir.InsertionPoint.after(loops[-1]), loops[-1].location:
            area.await_all()
            linalg.copy(place, target)


def _write_to(loop: ir.Operation, target: ir.Value, place: ir.Value) -> None:
    """Let a loop write to another buffer of the same type."""
    for op in collect(loop, lambda op: True):
        for number, operand in enumerate(op.operands):
            if operand == target and op != loop:
                op.operands[number] = place


@dataclass(frozen=True)
class _Area:
    """Memory of all threads at the beginning of the first one's scratch memory, and this call's part of the steps.

    Its first line is each thread's own: how many bytes the area begins behind it, and how often it has waited. The
    count of steps that all threads have made is a line of its own. Then there are two places of ``size`` bytes.
    """

    own: ir.Value
    back: ir.Value
    steps: ir.Value
    extent: int
    size: int
    arch: str

    @staticmethod
    def emit(function: func.FuncOp, size: int, arch: str) -> _Area:
        """The area of a call, at the insertion point, where the call begins."""
        lo, hi = list(function.arguments)[-2:]
        extent = count_of(function, tw.EXTENT)
        bytes_ = ir.MemRefType.get([2 * LINE + 2 * size], ir.IntegerType.get_signless(8))
        own = memref.AllocOp(bytes_, [], []).result
        words = _view_words(own, index_constant(0), LINE // 8)
        zero, first, second = _integer(0), index_constant(0), index_constant(1)
        alone = arith.cmpi(arith.CmpIPredicate.eq, arith.subi(hi, lo), index_constant(extent))
        with ir.InsertionPoint(scf.IfOp(alone).then_block):
            memref.StoreOp(zero, words, [first])
            memref.StoreOp(zero, _view_words(own, index_constant(LINE), 1), [first])
            scf.YieldOp([])
        memref.StoreOp(zero, words, [second])
        back = arith.index_cast(ir.IndexType.get(), memref.LoadOp(words, [first]).result)
        steps = arith.index_cast(ir.IntegerType.get_signless(64), arith.subi(hi, lo))
        return _Area(own, back, steps, extent, size, arch)

    def view_place(self, kind: ir.Type) -> ir.Value:
        """The place of the next exchange, as a buffer of a type."""
        waits = memref.LoadOp(_view_words(self.own, index_constant(0), LINE // 8), [index_constant(1)]).result
        second = arith.trunci(ir.IntegerType.get_signless(1), waits)
        shift = arith.select(second, index_constant(2 * LINE + self.size), index_constant(2 * LINE))
        place = memref.ViewOp(_plain(ir.MemRefType(kind)), self.own, arith.addi(self.back, shift), []).result
        return place if place.type == kind else memref.CastOp(kind, place).result

    def await_all(self) -> None:
        """Say that this call has made its part, and wait for all others'."""
        words = _view_words(self.own, index_constant(0), LINE // 8)
        waits = arith.addi(memref.LoadOp(words, [index_constant(1)]).result, _integer(1))
        memref.StoreOp(waits, words, [index_constant(1)])
        count = _view_words(self.own, arith.addi(self.back, index_constant(LINE)), 1)
        address = as_pointer(memref.ExtractAlignedPointerAsIndexOp(count).result)
        llvm.atomicrmw(llvm.AtomicBinOp.add, address, self.steps, llvm.AtomicOrdering.acq_rel, alignment=8)
        wanted = arith.muli(waits, _integer(self.extent))
        word = ir.IntegerType.get_signless(64)
        loop = scf.WhileOp([word], [_integer(0)])
        before, after = (region.blocks.append(word, arg_locs=[ir.Location.current]) for region in loop.regions)
        with ir.InsertionPoint(before):
            made = llvm.load(word, address, alignment=8, ordering=llvm.AtomicOrdering.acquire)
            scf.ConditionOp(arith.cmpi(arith.CmpIPredicate.ult, made, wanted), [before.arguments[0]])
        with ir.InsertionPoint(after):
            _call_pause(self.arch)
            long = arith.cmpi(arith.CmpIPredicate.ugt, after.arguments[0], _integer(_LOOKS))
            with ir.InsertionPoint(scf.IfOp(long).then_block):
                llvm.call(ir.IntegerType.get_signless(32), [], [], [], callee=_YIELD)
                scf.YieldOp([])
            scf.YieldOp([arith.addi(after.arguments[0], _integer(1))])


def _call_pause(arch: str) -> None:
    """Let the other thread of a core go first for a moment."""
    if arch == "aarch64":
        run_intrinsic("llvm.aarch64.hint", [_integer(1, 32)])
    else:
        run_intrinsic("llvm.x86.sse2.pause", [])


def _integer(number: int, bits: int = 64) -> ir.Value:
    return arith.constant(ir.IntegerType.get_signless(bits), number)


def _view_words(buffer: ir.Value, offset: ir.Value, count: int) -> ir.Value:
    kind = ir.MemRefType.get([count], ir.IntegerType.get_signless(64))
    return memref.ViewOp(kind, buffer, offset, []).result


def _declare_yield(module: ir.Module) -> None:
    if _YIELD in ir.SymbolTable(module.operation):
        return
    with ir.InsertionPoint.at_block_begin(module.body), ir.Location.unknown():
        parsed = ir.Module.parse(f"llvm.func @{_YIELD}() -> i32")
        next(iter(parsed.body.operations)).operation.clone()
