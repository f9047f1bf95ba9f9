"""The compiled program as plain data: straight calls of kernels on slices of a few memory spaces.

Passes make it, the runtime and the entry's code generator read it. No MLIR here, so it can be printed, pickled,
compared and tested alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from .model import TensorInfo

Space = Literal["input", "output", "param", "arena"]


@dataclass(frozen=True)
class Slot:
    """Where a kernel's argument lies: the ``index``-th tensor of a space, or a byte ``offset`` into the arena."""

    space: Space
    index: int = 0
    offset: int = 0

    def __str__(self) -> str:
        return f"arena+{self.offset}" if self.space == "arena" else f"{self.space}{self.index}"


@dataclass(frozen=True)
class Call:
    """One kernel call. ``nodes`` are the names of the model's nodes inside, for errors, profiles and explain."""

    kernel: str
    args: tuple[Slot, ...]
    nodes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Program:
    """``@main`` after planning: what it takes and gives, the weights it needs, and its calls in order."""

    inputs: tuple[TensorInfo, ...]
    outputs: tuple[TensorInfo, ...]
    params: tuple[TensorInfo, ...]
    calls: tuple[Call, ...]
    arena_bytes: int

    def __str__(self) -> str:
        lines = [f"program: {len(self.calls)} calls, arena {self.arena_bytes} bytes"]
        return "\n".join(lines + [f"  {c.kernel}({', '.join(map(str, c.args))})" for c in self.calls])


@dataclass(frozen=True)
class Plan:
    """What the graph passes hand on: programs as plain data, and the kernels' modules as MLIR bytecode by name.

    ``prepare[name]`` is a program without inputs whose params are the model's original weights and whose single
    output is the weight ``name`` of ``main`` (a packed layout, a folded constant). Weights of ``main`` that are not
    in ``prepare`` are the model's own, unchanged.
    """

    main: Program
    prepare: Mapping[str, Program]
    kernels: Mapping[str, bytes]


@dataclass(frozen=True)
class Signature:
    """What a kernel takes and gives, as text: the types of its arguments and results (``1x56x56x64xf32``), and how
    its data lies in memory (``channels last``, ``weight in blocks of 32``; empty where there is nothing to say)."""

    inputs: tuple[str, ...]
    results: tuple[str, ...]
    layout: str = ""


@dataclass(frozen=True)
class Kernel:
    """A compiled kernel: an object file that defines ``void name(void **args, int64 lo, int64 hi, void *scratch)``.

    ``args`` are pointers in the order of the calls' slots. Their memory does not overlap, except that a result may lie
    in the place of an argument where the plan told the kernel so. The kernel computes the half-open range [lo, hi) of
    its parallel axis, of ``extent`` steps in all; any split of [0, extent) may run at the same time. ``scratch`` points
    to ``scratch_bytes`` bytes (64-byte aligned) that belong to this call's thread. ``parallel`` says whether more than
    one thread is worth it, ``ahead`` whether each call computes something before its steps. ``note`` says what about
    the kernel a user should know, if there is anything.

    ``schedule`` is its loop nest as text ("" for plain loops), ``schedule_json`` the same to be read back. ``flops``
    and ``bytes`` are the work of one run: its arithmetic, and the sizes of its arguments and results.
    """

    name: str
    object: bytes
    extent: int
    parallel: bool
    scratch_bytes: int = 0
    note: str = ""
    schedule: str = ""
    schedule_json: str = ""
    flops: int = 0
    bytes: int = 0
    ahead: bool = False
