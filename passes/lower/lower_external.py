"""The kernel around code that a code generator of a user's has made: it hands pointers and sizes on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ...core.program import Kernel
from ...core.target import Target
from ...dialects import func, ir, packed, tw
from ...dialects.types import is_static_type, nbytes
from ..analysis.signature import make_signature
from ..ir.edit import string_attr
from ..ir.kernel import describe_kernel, integer_attr, symbol_of
from .wrap_kernel import WrapKernel

LOST = -(1 << 31)  # the status where a shared library cannot be loaded

# The function in a shared library that the program has inside, behind the number of its bytes. It is loaded from a file
# without a name, once; where two threads find no address at a time, one of their two copies is not used. The file stays
# open: `dlopen` knows libraries by their path, and the path has the file's number, which the next library would get.
_LIBRARY = """
llvm.mlir.global external hidden constant @{symbol}() : !llvm.array<0 x i8>
llvm.mlir.global internal @tw_library_function() : !llvm.ptr {{
  %null = llvm.mlir.zero : !llvm.ptr
  llvm.return %null : !llvm.ptr
}}
llvm.func @memfd_create(!llvm.ptr, i32) -> i32
llvm.func @write(i32, !llvm.ptr, i64) -> i64
llvm.func @close(i32) -> i32
llvm.func @snprintf(!llvm.ptr, i64, !llvm.ptr, ...) -> i32
llvm.func @dlopen(!llvm.ptr, i32) -> !llvm.ptr
llvm.func @dlsym(!llvm.ptr, !llvm.ptr) -> !llvm.ptr
llvm.func internal @tw_load_library() -> !llvm.ptr {{
  %null = llvm.mlir.zero : !llvm.ptr
  %one = llvm.mlir.constant(1 : i32) : i32
  %closed = llvm.mlir.constant(1 : i32) : i32
  %now = llvm.mlir.constant(2 : i32) : i32
  %none = llvm.mlir.constant(0 : i32) : i32
  %zero = llvm.mlir.constant(0 : i64) : i64
  %room = llvm.mlir.constant(64 : i64) : i64
  %slot = llvm.mlir.addressof @tw_library_function : !llvm.ptr
  %begin = llvm.mlir.addressof @{symbol} : !llvm.ptr
  %size = llvm.load %begin : !llvm.ptr -> i64
  %bytes = llvm.getelementptr %begin[8] : (!llvm.ptr) -> !llvm.ptr, i8
  %name = llvm.mlir.addressof @tw_library_name : !llvm.ptr
  %format = llvm.mlir.addressof @tw_library_path : !llvm.ptr
  %path = llvm.alloca %one x !llvm.array<64 x i8> : (i32) -> !llvm.ptr
  %file = llvm.call @memfd_create(%name, %closed) : (!llvm.ptr, i32) -> i32
  %failed = llvm.icmp "slt" %file, %none : i32
  llvm.cond_br %failed, ^lost, ^fill(%zero : i64)
^fill(%done: i64):
  %left = llvm.sub %size, %done : i64
  %whole = llvm.icmp "sle" %left, %zero : i64
  llvm.cond_br %whole, ^open, ^more
^more:
  %from = llvm.getelementptr %bytes[%done] : (!llvm.ptr, i64) -> !llvm.ptr, i8
  %count = llvm.call @write(%file, %from, %left) : (i32, !llvm.ptr, i64) -> i64
  %stuck = llvm.icmp "sle" %count, %zero : i64
  %next = llvm.add %done, %count : i64
  llvm.cond_br %stuck, ^drop, ^fill(%next : i64)
^open:
  %printed = llvm.call @snprintf(%path, %room, %format, %file)
    vararg(!llvm.func<i32 (ptr, i64, ptr, ...)>) : (!llvm.ptr, i64, !llvm.ptr, i32) -> i32
  %library = llvm.call @dlopen(%path, %now) : (!llvm.ptr, i32) -> !llvm.ptr
  %absent = llvm.icmp "eq" %library, %null : !llvm.ptr
  llvm.cond_br %absent, ^drop, ^find
^find:
  %function = llvm.call @dlsym(%library, %name) : (!llvm.ptr, !llvm.ptr) -> !llvm.ptr
  llvm.store %function, %slot atomic release {{alignment = 8 : i64}} : !llvm.ptr, !llvm.ptr
  llvm.return %function : !llvm.ptr
^drop:
  %s1 = llvm.call @close(%file) : (i32) -> i32
  llvm.br ^lost
^lost:
  llvm.return %null : !llvm.ptr
}}
"""

_CALL_LIBRARY = """
  %slot = llvm.mlir.addressof @tw_library_function : !llvm.ptr
  %null = llvm.mlir.zero : !llvm.ptr
  %there = llvm.load %slot atomic acquire {{alignment = 8 : i64}} : !llvm.ptr -> !llvm.ptr
  %new = llvm.icmp "eq" %there, %null : !llvm.ptr
  llvm.cond_br %new, ^load, ^ready(%there : !llvm.ptr)
^load:
  %loaded = llvm.call @tw_load_library() : () -> !llvm.ptr
  %absent = llvm.icmp "eq" %loaded, %null : !llvm.ptr
  %lost = llvm.mlir.constant({lost} : i32) : i32
  llvm.cond_br %absent, ^done(%lost : i32), ^ready(%loaded : !llvm.ptr)
^ready(%function: !llvm.ptr):
  %status = llvm.call %function({values}) : !llvm.ptr, ({types}) -> i32
  llvm.br ^done(%status : i32)
^done(%made: i32):"""


def lower_external(function: func.FuncOp, target: Target) -> tuple[ir.Module, Kernel]:
    """The kernel of a function without a body, in the LLVM dialect, and what it is, without its object.

    It calls the user's code with a pointer for each argument and result, and the sizes that this is to be handed; and
    leaves what that gives, which is 0 where all is well, in the word that is its last result.
    """
    tensors = [kind for kind in (*function.type.inputs, *function.type.results) if _is_tensor(kind)]
    open_ = [extent for kind in function.type.inputs for extent in _open_extents(kind)]
    extents = list(ir.DenseI64ArrayAttr(function.attributes[tw.EXTENTS]))
    module = ir.Module.parse(_kernel_text(function, len(tensors), len(open_), extents), function.context)
    body = next(op for op in module.body.operations if symbol_of(op) == symbol_of(function))
    for name, number in ((tw.SCRATCH, 0), (tw.EXTENT, 1), (tw.SIZES, len(open_))):
        body.attributes[name] = integer_attr(number)
    WrapKernel(arch=target.arch).apply(module)
    kernel = describe_kernel(next(op for op in module.body.operations if tw.SCRATCH in op.attributes))
    made = replace(
        kernel,
        bytes=sum(nbytes(kind) for kind in tensors if is_static_type(kind)),
        signature=make_signature(function),
        codegen=string_attr(function.attributes, tw.CODEGEN) or "",
        generated=string_attr(function.attributes, tw.SYMBOL) or "",
    )
    return module, made


def _is_tensor(kind: ir.Type) -> bool:
    return isinstance(kind, ir.RankedTensorType)


def _open_extents(kind: ir.Type) -> list[int]:
    """The sizes that a kernel gets for an argument: the open extents of a tensor, or the argument itself."""
    return [extent for extent in ir.RankedTensorType(kind).shape if extent < 0] if _is_tensor(kind) else [-1]


def _kernel_text(function: func.FuncOp, pointers: int, sizes: int, extents: Sequence[int]) -> str:
    """The body, which takes pointers (the last is that of the status), sizes, scratch memory, and a range of steps."""
    symbol, library = (string_attr(function.attributes, name) for name in (tw.SYMBOL, tw.LIBRARY))
    handed = [*(f"%p{i}" for i in range(pointers - 1)), *(f"%s{i}" for i in extents)]
    kinds = ["!llvm.ptr"] * (pointers - 1) + ["i64"] * len(extents)
    words = {"symbol": symbol, "values": ", ".join(handed), "types": ", ".join(kinds), "lost": LOST}
    if library is None:
        declared = f"llvm.func hidden @{symbol}({words['types']}) -> i32"
        call = f"  %made = llvm.call @{symbol}({words['values']}) : ({words['types']}) -> i32"
    else:
        name = packed.constant_bytes("tw_library_name", library.encode() + b"\0")
        path = packed.constant_bytes("tw_library_path", b"/proc/self/fd/%d\0")
        declared, call = name + path + _LIBRARY.format(**words), _CALL_LIBRARY.format(**words)
    arguments = [*(f"%p{i}: !llvm.ptr" for i in range(pointers)), *(f"%s{i}: i64" for i in range(sizes))]
    return f"""
{declared}
llvm.func @{symbol_of(function)}({", ".join(arguments)}, %scratch: !llvm.ptr, %lo: i64, %hi: i64) {{
{call}
  %word = llvm.sext %made : i32 to i64
  llvm.store %word, %p{pointers - 1} : i64, !llvm.ptr
  llvm.return
}}"""
