"""Compile a kernel given as MLIR text, link it in this process and call it on numpy arrays."""

from __future__ import annotations

import ctypes
import io
import itertools
from collections.abc import Sequence

import numpy as np

from tilewright.dialects import codegen, ir
from tilewright.dialects.context import make_context
from tilewright.passes.infra import PassContext
from tilewright.passes.kernel import functions
from tilewright.passes.lower.entry import emit_kernel_table, emit_support
from tilewright.passes.pipeline import compile_kernel, lower_kernel
from tilewright.passes.schedule import heuristic
from tilewright.program import Kernel
from tilewright.runtime.link import link
from tilewright.target import host


def bytecode(text: str) -> bytes:
    with make_context(), ir.Location.unknown():
        buffer = io.BytesIO()
        ir.Module.parse(text).operation.write_bytecode(buffer)
        return buffer.getvalue()


def schedule_text(text: str) -> str:
    """The schedule that the heuristic chooses, as text; "None" for plain loops."""
    with make_context(), ir.Location.unknown():
        module = ir.Module.parse(text)
        return str(heuristic.choose(functions(module)[0], host()))


def assembly(text: str) -> str:
    """The kernel's machine code for this machine, as text."""
    with make_context(), ir.Location.unknown():
        module, _ = lower_kernel(bytecode(text), host(), PassContext())
        return codegen.emit(module, host(), "asm").decode()


def aligned(array: np.ndarray) -> np.ndarray:
    """A contiguous copy at a 64-byte boundary."""
    raw = np.zeros(array.nbytes + 64, np.uint8)
    start = -raw.ctypes.data % 64
    view = raw[start : start + array.nbytes].view(array.dtype).reshape(array.shape)
    view[...] = array
    return view


class CompiledKernel:
    """A linked kernel; ``chunks`` cuts its parallel axis, as threads would."""

    def __init__(self, text: str, name: str = "k") -> None:
        self.kernel: Kernel = compile_kernel(bytecode(text), host(), PassContext())
        self._module = link([self.kernel.object, emit_kernel_table([name], host()), emit_support(host())])
        address = self._module["kernel"](0)
        kind = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64, ctypes.c_void_p)
        self._function = kind(getattr(address, "value", address))

    def __call__(self, inputs: Sequence[np.ndarray], out: np.ndarray, chunks: int = 1) -> np.ndarray:
        arrays = [aligned(a) for a in inputs]
        result = aligned(np.full(out.shape, 77, out.dtype))
        pointers = (ctypes.c_void_p * (len(arrays) + 1))(*[a.ctypes.data for a in (*arrays, result)])
        scratch = aligned(np.zeros(max(self.kernel.scratch_bytes, 1), np.uint8))
        bounds = np.linspace(0, self.kernel.extent, chunks + 1).astype(int)
        for low, high in itertools.pairwise(bounds):
            self._function(ctypes.addressof(pointers), int(low), int(high), scratch.ctypes.data)
        return result
