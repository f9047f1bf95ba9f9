"""Compile a kernel given as MLIR text, link it in this process and call it on numpy arrays."""

from __future__ import annotations

import ctypes
import functools
import io
import itertools
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from contextvars import ContextVar

import numpy as np
from shared_kernels import find_or_compile

from tilewright.core.arena import align_size
from tilewright.core.model import numpy_dtype
from tilewright.core.program import Kernel, Plan, Program
from tilewright.core.sizes import require_static
from tilewright.core.target import Target, detect_host
from tilewright.dialects import codegen, ir
from tilewright.dialects.context import reused_context
from tilewright.passes.infra.context import PassContext
from tilewright.passes.ir.kernel import list_functions
from tilewright.passes.lower.entry import emit_kernel_table, emit_support
from tilewright.passes.pipeline import compile_kernel, kernel_passes, lower_kernel
from tilewright.passes.schedule.dynamic.box_copies import choose_few_rows
from tilewright.passes.schedule.families.packing import contraction_packing
from tilewright.passes.schedule.families.table import choose_schedule
from tilewright.passes.schedule.language.schedule import Schedule
from tilewright.passes.schedule.tiles.regions import NotSchedulable
from tilewright.passes.schedule.tiling.moves import choose_moves
from tilewright.runtime.process.link import link

# What kernels are compiled for; the tests of kernels run on several.
TARGET: ContextVar[Target] = ContextVar("target")


@contextmanager
def kernels_for(text: str) -> Iterator[Target]:
    """Compile kernels for a target."""
    chosen = Target.parse(text)
    token = TARGET.set(chosen)
    yield chosen
    TARGET.reset(token)


@functools.cache
def _table(name: str) -> bytes:
    """The object that exports the one kernel of this name."""
    return emit_kernel_table([name])


def bytecode(text: str) -> bytes:
    with reused_context(), ir.Location.unknown():
        buffer = io.BytesIO()
        ir.Module.parse(text).operation.write_bytecode(buffer)
        return buffer.getvalue()


def before_schedule(text: str) -> ir.Module:
    """The kernel as `apply-schedule` finds it, in the current context."""
    module, context = ir.Module.parse(text), PassContext()
    for stage in itertools.takewhile(
        lambda stage: stage.name != "apply-schedule", kernel_passes(TARGET.get(detect_host()))
    ):
        context.run(stage, module)
    return module


def schedule_of(text: str) -> Schedule | None:
    """The schedule that a kernel's family chooses; None for plain loops."""
    with reused_context(), ir.Location.unknown():
        module = before_schedule(text)  # its ops live as long as it does
        return choose_schedule(list_functions(module)[0], TARGET.get(detect_host()))


def schedule_text(text: str) -> str:
    """The schedule that a kernel's family chooses, or how data is moved, as text; "None" for plain loops."""
    with reused_context(), ir.Location.unknown():
        module = before_schedule(text)
        function = list_functions(module)[0]
        with suppress(NotSchedulable):
            return str(choose_moves(function, TARGET.get(detect_host())))
        with suppress(NotSchedulable):
            return str(choose_few_rows(function))
    return str(schedule_of(text))


def block_of(channels: int) -> int:
    """The width of the blocks that a weight of so many channels is packed in."""
    packing = contraction_packing(channels, 32, TARGET.get(detect_host()))
    assert packing is not None
    return packing.n_tile


def assembly(source: str | bytes, config: Mapping[str, object] | None = None) -> str:
    """The kernel's machine code for this machine, as text."""
    with reused_context(), ir.Location.unknown():
        code = source if isinstance(source, bytes) else bytecode(source)
        module, _ = lower_kernel(code, detect_host(), PassContext(config=config or {}))
        return codegen.emit_code(module, detect_host(), "asm").decode()


def aligned(array: np.ndarray) -> np.ndarray:
    """A contiguous copy at a 64-byte boundary."""
    raw = np.zeros(array.nbytes + 64, np.uint8)
    start = -raw.ctypes.data % 64
    view = raw[start : start + array.nbytes].view(array.dtype).reshape(array.shape)
    view[...] = array
    return view


class CompiledKernel:
    """A linked kernel; ``chunks`` cuts its parallel axis, as threads would."""

    def __init__(
        self,
        source: str | bytes,
        name: str = "k",
        schedule: Schedule | None = None,
        config: Mapping[str, object] | None = None,
    ) -> None:
        code = bytecode(source) if isinstance(source, str) else source
        given = {**(config or {}), **({"schedules": {name: schedule}} if schedule else {})}
        target = TARGET.get(detect_host())
        self.kernel: Kernel = (
            compile_kernel(code, target, PassContext(config=given)) if given else find_or_compile(code, target)
        )
        self._module = link([self.kernel.object, _table(name), emit_support()])
        address = self._module["kernel"](0)
        kind = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64, ctypes.c_void_p)
        self._function = kind(getattr(address, "value", address))

    def __call__(self, inputs: Sequence[np.ndarray], out: np.ndarray, chunks: int = 1) -> np.ndarray:
        arrays = [aligned(a) for a in inputs]
        result = aligned(np.full(out.shape, 77, out.dtype))
        self.call([a.ctypes.data for a in (*arrays, result)], chunks)
        return result

    def run(self, addresses: Sequence[int], low: int, high: int) -> None:
        """Make some of its steps on memory."""
        pointers = (ctypes.c_void_p * len(addresses))(*addresses)
        scratch = aligned(np.full(max(self.kernel.scratch_bytes, 1), 0xFF, np.uint8))
        self._function(ctypes.addressof(pointers), low, high, scratch.ctypes.data)

    def call(self, addresses: Sequence[int], chunks: int = 1) -> None:
        """Call it on memory; each chunk finds garbage in its scratch.

        Chunks of a kernel that exchanges what they make are threads, as in ``tw_parallel_for``.
        """
        pointers = (ctypes.c_void_p * len(addresses))(*addresses)
        bounds = np.linspace(0, self.kernel.extent, chunks + 1).astype(int)
        size = align_size(max(self.kernel.scratch_bytes, 1))
        scratch = aligned(np.full((chunks, size), 0xFF, np.uint8))
        if self.kernel.exchanges:
            words = scratch.view(np.int64)
            words[:, 0], words[0, 8] = -size * np.arange(chunks), 0

        def run(chunk: tuple[int, tuple[int, int]]) -> None:
            number, (low, high) = chunk
            self._function(ctypes.addressof(pointers), int(low), int(high), scratch[number].ctypes.data)

        parts = enumerate(itertools.pairwise(bounds))
        if self.kernel.exchanges:
            with ThreadPoolExecutor(chunks) as pool:
                list(pool.map(run, parts))
        else:
            list(map(run, parts))


class CompiledPlan:
    """The programs of a plan with compiled kernels, each called in chunks; the arena starts as garbage."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.kernels = {name: CompiledKernel(code, name) for name, code in plan.kernels.items()}

    def __call__(
        self, inputs: Mapping[str, np.ndarray], params: Mapping[str, np.ndarray], chunks: int = 1
    ) -> list[np.ndarray]:
        weights = dict(params)
        for name, program in self.plan.prepare.items():
            weights[name] = self._run(program, {}, params, chunks)[0]
        return self._run(self.plan.main, inputs, weights, chunks)

    def _run(
        self, program: Program, inputs: Mapping[str, np.ndarray], params: Mapping[str, np.ndarray], chunks: int
    ) -> list[np.ndarray]:
        outputs = [
            aligned(np.full(tuple(map(require_static, o.shape)), 77, numpy_dtype(o.dtype))) for o in program.outputs
        ]
        spaces = {
            "input": [aligned(inputs[i.name]) for i in program.inputs],
            "param": [aligned(params[p.name]) for p in program.params],
            "output": outputs,
            "arena": [aligned(np.full(program.arena_bytes, 0x77, np.uint8))],
        }
        for call in program.calls:
            addresses = [spaces[slot.space][slot.index].ctypes.data + slot.offset for slot in call.args]
            self.kernels[call.kernel].call(addresses, chunks)
        return outputs
