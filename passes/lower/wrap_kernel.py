"""Give a lowered kernel the entry that programs call."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from ...dialects import ir, tw
from ...dialects.types import element_bits
from ...dialects.walk import collect
from ..infra.base import ModuleForm, Pass
from ..ir.kernel import LINE, count_of, in_place, integer_attr, symbol_of

BODY, STREAMED = "__body", "__streams"

# The thread's mode as it was is in %before. Within, numbers are rounded to the nearest, and nothing traps.
_ENTER, _RESTORE = {}, {}
_ENTER["x86"] = """
        %one = llvm.mlir.constant(1 : i32) : i32
        %mode = llvm.mlir.constant({mode} : i32) : i32
        %before = llvm.alloca %one x i32 : (i32) -> !llvm.ptr
        %within = llvm.alloca %one x i32 : (i32) -> !llvm.ptr
        llvm.call_intrinsic "llvm.x86.sse.stmxcsr"(%before) : (!llvm.ptr) -> ()
        llvm.store %mode, %within : i32, !llvm.ptr
        llvm.call_intrinsic "llvm.x86.sse.ldmxcsr"(%within) : (!llvm.ptr) -> ()"""
_RESTORE["x86"] = 'llvm.call_intrinsic "llvm.x86.sse.ldmxcsr"(%before) : (!llvm.ptr) -> ()'
_ENTER["aarch64"] = """
        %mode = llvm.mlir.constant({mode} : i64) : i64
        %before = llvm.call_intrinsic "llvm.aarch64.get.fpcr"() : () -> i64
        llvm.call_intrinsic "llvm.aarch64.set.fpcr"(%mode) : (i64) -> ()"""
_RESTORE["aarch64"] = 'llvm.call_intrinsic "llvm.aarch64.set.fpcr"(%before) : (i64) -> ()'
# MXCSR and FPCR; where denormals are flushed, those that are read are zero too.
_KEEPING = {"x86": 0x1F80, "aarch64": 0}
_FLUSHING = {"x86": 0x9FC0, "aarch64": 1 << 24}

_DESCRIBING = (
    tw.SCHEDULE,
    tw.PARTS,
    tw.REASON,
    tw.SCHEDULE_JSON,
    tw.EXTENT,
    tw.PARALLEL,
    tw.AHEAD,
    tw.EXCHANGES,
    tw.PARALLEL_FROM,
    tw.STREAMED_FROM,
    tw.SCRATCH,
    tw.ASKS_SCRATCH,
    tw.FLUSH_DENORMALS,
)


@dataclass(frozen=True)
class WrapKernel(Pass):
    """Add the entry of ``program.Kernel``'s ABI, which unpacks ``args`` and calls the body.

    Buffers do not alias, except for those that ``tw.in_place`` names and the result: nothing is promised of them.

    Before::

        llvm.func @k(%x: !llvm.ptr, %r: !llvm.ptr, %scratch: !llvm.ptr, %lo: i64, %hi: i64)

    After::

        llvm.func internal @k__body(%x: !llvm.ptr {llvm.noalias}, ...)
        llvm.func @k(%args: !llvm.ptr, %lo: i64, %hi: i64, %scratch: !llvm.ptr) {
          %p0 = llvm.load %args[0] ...
          llvm.call @k__body(%p0, %p1, %scratch, %lo, %hi)

    Around the body the thread's floats are as the compiler has decided, whatever mode it is in: denormals are kept, or
    taken for zero in a kernel that ``flush-denormals`` has marked. One that
    ``stream-stores`` has marked has two bodies: ``@k__streams`` is called where the result begins at a line, and its
    stores are seen by all before ``@k`` returns; the other has plain stores.

    Options:
        arch: the architecture, which decides how a thread does that.
    """

    name: ClassVar[str] = "wrap-kernel"
    form: ClassVar[ModuleForm | None] = ModuleForm.WRAPPED
    arch: str = "x86"

    def apply(self, module: ir.Module) -> None:
        """Wrap all kernels of the module: the functions that ``plan-scratch`` has been at."""
        for op in list(module.body.operations):
            if op.operation.name == "llvm.func" and tw.SCRATCH in op.attributes:
                _wrap(module, op, self.arch)


def _wrap(module: ir.Module, body: ir.OpView, arch: str) -> None:
    name = symbol_of(body)
    sizes = count_of(body, tw.SIZES)
    count = len(list(body.regions[0].blocks[0].arguments)) - 3 - sizes
    shared = in_place(body)
    shared += [count - 1] if shared else []
    noalias, nothing = ir.DictAttr.get({"llvm.noalias": ir.UnitAttr.get()}), ir.DictAttr.get({})
    pointers = [nothing if i in shared else noalias for i in range(count)]
    scratch = nothing if tw.EXCHANGES in body.attributes else noalias  # other threads write to it
    others = [*[nothing] * sizes, scratch, nothing, nothing]  # sizes, scratch, lo, hi
    body.attributes["arg_attrs"] = ir.ArrayAttr.get([*pointers, *others])
    body.attributes["linkage"] = ir.Attribute.parse("#llvm.linkage<internal>")
    ir.SymbolTable.set_symbol_name(body, name + BODY)
    if tw.STREAMS in body.attributes:
        _add_streamed(body, name + STREAMED)
    mode = (_FLUSHING if tw.FLUSH_DENORMALS in body.attributes else _KEEPING)[arch]
    enter = _ENTER[arch].format(mode=mode)
    parsed = ir.Module.parse(_entry_text(name, count, sizes, (enter, _RESTORE[arch]), tw.STREAMS in body.attributes))
    entry = list(parsed.body.operations)[-1].operation.clone(ip=ir.InsertionPoint(module.body))
    for attribute in _DESCRIBING:
        if attribute in body.attributes:
            entry.attributes[attribute] = body.attributes[attribute]
            del body.attributes[attribute]
    if "passthrough" in body.attributes:  # into it LLVM moves the body
        entry.attributes["passthrough"] = body.attributes["passthrough"]
    for attribute in (tw.IN_PLACE, tw.STREAMS, tw.SIZES):
        if attribute in body.attributes:
            del body.attributes[attribute]


def _add_streamed(body: ir.OpView, name: str) -> None:
    """Add a copy of the body as it is, and make all stores of the body plain ones."""
    copy = body.operation.clone(ip=ir.InsertionPoint.after(body))
    ir.SymbolTable.set_symbol_name(copy, name)
    for attribute in (*_DESCRIBING, tw.IN_PLACE, tw.STREAMS):
        if attribute in copy.attributes:
            del copy.attributes[attribute]
    for store in collect(body, lambda op: "nontemporal" in op.attributes, "llvm.store"):
        value = ir.VectorType(store.operands[0].type)
        del store.attributes["nontemporal"]
        store.attributes["alignment"] = integer_attr(element_bits(value.element_type) // 8)


def _entry_text(name: str, count: int, sizes: int, around: tuple[str, str], streams: bool) -> str:
    """The entry. ``around`` its body the thread's mode is set, and set back."""
    kinds = ["!llvm.ptr"] * count + ["i64"] * sizes
    loads = "\n".join(
        f"%a{i} = llvm.getelementptr %args[{i}] : (!llvm.ptr) -> !llvm.ptr, {kind}\n"
        f"%p{i} = llvm.load %a{i} : !llvm.ptr -> {kind}"
        for i, kind in enumerate(kinds)
    )
    pointers = ", ".join([*(f"%p{i}" for i in range(count + sizes)), "%scratch", "%lo", "%hi"])
    types = ", ".join([*kinds, "!llvm.ptr", "i64", "i64"])
    names = (name + BODY, name + STREAMED) if streams else (name + BODY,)
    plain, *streamed = (f"llvm.call @{body}({pointers}) : ({types}) -> ()" for body in names)
    declared = "\n".join(f"llvm.func @{body}({types})" for body in names)
    return f"""
      {declared}
      llvm.func @{name}(%args: !llvm.ptr, %lo: i64, %hi: i64, %scratch: !llvm.ptr) {{
        {loads}
        {around[0]}
        {_where_aligned(f"%p{count - 1}", plain, streamed[0]) if streamed else plain}
        {around[1]}
        llvm.return
      }}"""


def _where_aligned(pointer: str, plain: str, streamed: str) -> str:
    """Two calls, the second one where a pointer is that of a line."""
    return f"""
        %address = llvm.ptrtoint {pointer} : !llvm.ptr to i64
        %mask = llvm.mlir.constant({LINE - 1} : i64) : i64
        %zero = llvm.mlir.constant(0 : i64) : i64
        %within_line = llvm.and %address, %mask : i64
        %aligned = llvm.icmp "eq" %within_line, %zero : i64
        llvm.cond_br %aligned, ^streamed, ^plain
      ^streamed:
        {streamed}
        llvm.call_intrinsic "llvm.x86.sse.sfence"() : () -> ()
        llvm.br ^done
      ^plain:
        {plain}
        llvm.br ^done
      ^done:"""
