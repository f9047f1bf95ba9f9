"""What one core of this machine can do at most, measured: multiply-adds, and copying beyond the caches."""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np

from tilewright.target import Target

# Independent chains of multiply-adds, more than the product of latency (4 cycles) and units (2).
_CHAINS = 12
_STEPS = 200_000
_COPIED = 64 << 20


def fma_peak(target: Target) -> float:
    """Floating-point operations a second of one core, in multiply-adds of whole float32 vectors."""
    from tilewright.dialects import codegen, ir
    from tilewright.dialects.context import make_context
    from tilewright.passes.lower import entry
    from tilewright.program import Call, Kernel, Program
    from tilewright.runtime.executor import Executor
    from tilewright.runtime.link import link

    with make_context(), ir.Location.unknown():
        made = codegen.emit(ir.Module.parse(_fma_text(target.lanes)), target, "obj")
    objects = [entry.emit_support(), entry.emit_kernel_table(["peak"]), made]
    kernel = Kernel("peak", made, _STEPS, parallel=False, scratch_bytes=64)
    executor = Executor(link(objects), {"peak": kernel})
    program = Program((), (), (), (Call("peak", ()),), 0)
    return _STEPS * _CHAINS * target.lanes * 2 / min(executor.time(program, [], [], 20))


def copy_bandwidth() -> float:
    """Bytes read and written a second by one core, copying what no cache holds."""
    source, target = np.ones(_COPIED, np.uint8), np.zeros(_COPIED, np.uint8)
    return 2 * _COPIED / min(_seconds(lambda: np.copyto(target, source)) for _ in range(7))


def _seconds(run: Callable[[], object]) -> float:
    start = time.perf_counter()
    run()
    return time.perf_counter() - start


def _fma_text(lanes: int) -> str:
    """A kernel that multiplies and adds in registers; it stores the sums, so that they are made."""
    vector = f"vector<{lanes}xf32>"
    names, types = [f"%a{i}" for i in range(_CHAINS)], ", ".join([vector] * _CHAINS)
    arguments = ", ".join(f"{name}: {vector}" for name in names)
    steps = "\n".join(f"%b{i} = llvm.intr.fmuladd(%a{i}, %x, %x) : ({vector}, {vector}, {vector}) -> {vector}"
                      for i in range(_CHAINS))  # fmt: skip
    sums = "\n".join(f"%s{i} = llvm.fadd %b{i}, {f'%s{i - 1}' if i else '%x'} : {vector}" for i in range(_CHAINS))
    return f"""
      llvm.func @peak(%args: !llvm.ptr, %lo: i64, %hi: i64, %scratch: !llvm.ptr) {{
        %one = llvm.mlir.constant(1 : i64) : i64
        %x = llvm.load %scratch {{alignment = 4 : i64}} : !llvm.ptr -> {vector}
        llvm.br ^loop(%lo, {", ".join(["%x"] * _CHAINS)} : i64, {types})
      ^loop(%i: i64, {arguments}):
        {steps}
        %next = llvm.add %i, %one : i64
        %more = llvm.icmp "slt" %next, %hi : i64
        llvm.cond_br %more, ^loop(%next, {", ".join(f"%b{i}" for i in range(_CHAINS))} : i64, {types}), ^end
      ^end:
        {sums}
        llvm.store %s{_CHAINS - 1}, %scratch {{alignment = 4 : i64}} : {vector}, !llvm.ptr
        llvm.return
      }}"""
