"""The peak rates of one core of this machine: work that is measured along with a kernel's, in the same process."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial

import numpy as np

from ..core.target import Target

# Independent chains of multiply-adds, more than the product of latency (4 cycles) and units (2).
_CHAINS = 12
_STEPS = 200_000
_COPIED = 64 << 20


@dataclass(frozen=True)
class Probe:
    """``run`` does ``amount`` of something (floating-point operations, bytes) as fast as one core can."""

    run: Callable[[], object]
    amount: int

    def rate(self, rounds: int = 20) -> float:
        """The most that a second holds, of some rounds."""
        return self.amount / min(_time_run(self.run) for _ in range(rounds))


class Machine:
    """The rates of one core, or of some threads that work at the same time, each with data of its own.

    They are sampled again and again between other measurements: clocks change with the load.
    """

    def __init__(self, target: Target, threads: int = 1) -> None:
        makers = {"flops": partial(make_arithmetic_probe, target), "bytes": partial(make_copy_probe, 2 * _COPIED)}
        self._probes = {name: combine_probes([make() for _ in range(threads)]) for name, make in makers.items()}
        self._seconds: dict[str, list[float]] = {name: [] for name in self._probes}

    def sample(self) -> None:
        """Measure each rate once more."""
        for name, probe in self._probes.items():
            self._seconds[name].append(_time_run(probe.run))

    def rates(self) -> dict[str, float]:
        """Medians of ``flops`` (floating-point operations) and ``bytes`` (read and written) a second."""
        return {name: probe.amount / float(np.median(self._seconds[name])) for name, probe in self._probes.items()}


@dataclass(frozen=True)
class Rates:
    """What one core can do in a second: floating-point operations, and bytes that it copies, by how many these are.

    Up to ``cached_bytes`` lie in its own caches, where the time of moving them says little: it is that of instructions.
    """

    flops: float
    bytes: tuple[tuple[int, float], ...]
    cached_bytes: int

    def join(self, other: Rates) -> Rates:
        """The higher ones of these rates and those that were measured at another time."""
        pairs = zip(self.bytes, other.bytes, strict=True)
        return Rates(max(self.flops, other.flops), tuple(map(max, pairs)), self.cached_bytes)

    def least_seconds(self, flops: float, nbytes: float) -> float:
        """The least time of work with so many operations, that reads and writes so many bytes."""
        rates = [rate for size, rate in self.bytes if size >= nbytes] or [self.bytes[-1][1]]
        return max(flops / self.flops, nbytes / rates[0] if nbytes > self.cached_bytes else 0.0)


# Bytes that are copied, of which few stay in a core's own caches.
_COPIES = (4 << 20, 16 << 20, _COPIED)


def measure_rates(target: Target) -> Rates:
    """The rates of one core, for work whose data lies where so many bytes do."""
    copies = tuple((size, make_copy_probe(size).rate()) for size in _COPIES)
    return Rates(make_arithmetic_probe(target).rate(), copies, target.l2_bytes)


def make_arithmetic_probe(target: Target) -> Probe:
    """Multiply-adds of whole float32 vectors in registers, each counted as two operations."""
    from ..core.model import TensorInfo
    from ..core.program import Call, Kernel, Program, Slot
    from ..dialects import codegen, ir
    from ..dialects.context import make_context
    from ..passes.lower import entry
    from ..runtime.executors.executor import Executor
    from ..runtime.process.link import link

    with make_context(), ir.Location.unknown():
        made = codegen.emit_code(ir.Module.parse(_fma_text(target.lanes)), target, "obj")
    objects = [entry.emit_support(), entry.emit_kernel_table(["peak"]), made]
    kernel = Kernel("peak", made, _STEPS, parallel=False, scratch_bytes=64)
    executor = Executor(link(objects), {"peak": kernel})
    program = Program((), (), (TensorInfo("x", (target.lanes,), "float32"),), (Call("peak", (Slot("param"),)),), 0)
    # The sums tend to one: neither infinite nor denormal, which can be slow.
    steps = executor.steps(program, [], [np.full(target.lanes, 0.5, np.float32)])
    return Probe(steps.run, _STEPS * _CHAINS * target.lanes * 2)


def make_copy_probe(nbytes: int) -> Probe:
    """Reading half of ``nbytes`` and writing them elsewhere."""
    source, target = np.ones(max(nbytes // 2, 1), np.uint8), np.zeros(max(nbytes // 2, 1), np.uint8)
    return Probe(lambda: np.copyto(target, source), nbytes)


def combine_probes(probes: Sequence[Probe]) -> Probe:
    """All of some probes at a time, each in a thread; they let go of the interpreter."""
    if len(probes) == 1:
        return probes[0]
    pool = ThreadPoolExecutor(len(probes))
    return Probe(lambda: list(pool.map(lambda probe: probe.run(), probes)), sum(probe.amount for probe in probes))


def _time_run(run: Callable[[], object]) -> float:
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
        %p = llvm.load %args : !llvm.ptr -> !llvm.ptr
        %x = llvm.load %p {{alignment = 4 : i64}} : !llvm.ptr -> {vector}
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
