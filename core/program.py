"""The compiled program as plain data: straight calls of kernels on slices of a few memory spaces.

Passes make it, the runtime and the entry's code generator read it. No MLIR here, so it can be printed, pickled,
compared and tested alone.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any, Literal, cast

from .formula import Formula
from .model import TensorInfo
from .states import State

Space = Literal["input", "output", "param", "arena"]
# Of a register of a routine: element type and shape, None for open extents; a scalar has no shape, and ``none`` is a
# value that the host holds.
RegisterType = tuple[str, tuple[int | None, ...] | None]

# Where a program's object code has its manifest.
METADATA_SECTION = ".tilewright"
# Where it has its weights, as the bytes of a weights file, and what they are called, if it has them.
WEIGHTS_SECTION = ".tilewright.weights"
WEIGHTS_SYMBOL = "tw_weights"

# The op of a step that refuses a run where a word that its kernels have made is not 0.
REPORT = "tw.report"
# That of a step that puts a tensor behind an input, in the memory that the input is at the begin of.
APPEND = "tw.append"

# That of a step on tensors of one shape that a loop collects, one behind the other, and what it does: none yet, one
# more, all of them as one tensor.
COLLECT = "tw.collect"
COLLECTIONS = ("collect.none", "collect.one", "collect.all")

# The steps that only see a tensor in another way.
VIEWS = ("tensor.collapse_shape", "tensor.expand_shape", "tensor.cast")

_PIECES = 8
_SLOT = re.compile(r"(?:arena|(input|output|param)(\d+))(?:\+(\d+))?")


@dataclass(frozen=True)
class Slot:
    """Where a kernel's argument lies: a byte ``offset`` into the ``index``-th tensor of a space, or into the arena."""

    space: Space
    index: int = 0
    offset: int = 0

    def __str__(self) -> str:
        if self.space == "arena":
            return f"arena+{self.offset}"
        return f"{self.space}{self.index}" + (f"+{self.offset}" if self.offset else "")

    @staticmethod
    def parse(text: str) -> Slot:
        """The inverse of ``str``. Raises ValueError for any other text."""
        match = _SLOT.fullmatch(text)
        if match is None or (match[1] is None and match[3] is None):
            raise ValueError(f"'{text}' is not a slot")
        return Slot(cast("Space", match[1] or "arena"), int(match[2] or 0), int(match[3] or 0))


@dataclass(frozen=True)
class Call:
    """One kernel call. ``nodes`` are the names of the model's nodes inside, for errors, profiles and explain."""

    kernel: str
    args: tuple[Slot, ...]
    nodes: tuple[str, ...] = ()

    def to_json(self) -> list[Any]:
        """As a list that JSON can hold."""
        return [self.kernel, " ".join(map(str, self.args)), self.nodes]

    @staticmethod
    def from_json(made: list[Any]) -> Call:
        """The inverse of ``to_json``."""
        kernel, args, nodes = made
        return Call(kernel, tuple(map(Slot.parse, args.split())), tuple(nodes))


@dataclass(frozen=True)
class Report:
    """A check after all calls of a program: if the word at ``slot`` is not 0, the run is refused.

    ``text`` names the node and says what is wrong. The word, a number from an operand, is appended to it.
    """

    slot: Slot
    text: str

    def to_json(self) -> list[Any]:
        """As a list that JSON can hold."""
        return [str(self.slot), self.text]

    @staticmethod
    def from_json(made: list[Any]) -> Report:
        """The inverse of ``to_json``."""
        slot, text = made
        return Report(Slot.parse(slot), text)


@dataclass(frozen=True)
class Step:
    """One operation of a routine, on registers. ``op`` is its name in MLIR, and means the same.

    ``types`` are those of its results. ``func.call`` calls a kernel: ``facts`` are its ``kernel`` and the ``open`` axes
    of each tensor among the operands; the operands behind the tensors are sizes, the last ones the open extents of the
    results; ``summed`` are those that it sums along, as operands and axes. Where there is ``over``, the result lies
    where that operand does. ``cf.assert`` says the ``text`` where its first operand does not hold, with the two numbers
    behind it, if there are. ``tw.report`` says it where the word in its operand is not 0, with that word. ``tw.append``
    gives its first operand, the ``input`` of that number, with the second one behind it; the third is its size in front
    then. ``host.call`` calls a ``function`` of the host with ``attributes``; ``dtypes`` are those of its operands and
    results. ``tw.collect`` has such facts, too, but is code: its ``function`` is one of ``COLLECTIONS``, and ``shape``
    what all of no tensors have. After the step nobody reads the registers ``dead``.
    """

    op: str
    results: tuple[int, ...] = ()
    operands: tuple[int, ...] = ()
    facts: Mapping[str, Any] = field(default_factory=dict)
    regions: tuple[Routine, ...] = ()
    dead: tuple[int, ...] = ()
    nodes: tuple[str, ...] = ()
    types: tuple[RegisterType, ...] = ()

    def to_json(self) -> list[Any]:
        """As a list that JSON can hold."""
        regions = [region.to_json() for region in self.regions]
        return [self.op, self.results, self.operands, dict(self.facts), regions, self.dead, self.nodes, self.types]

    @staticmethod
    def from_json(made: list[Any]) -> Step:
        """The inverse of ``to_json``."""
        op, results, operands, facts, regions, dead, nodes, types = made
        inner = tuple(map(Routine.from_json, regions))
        read = _read_types(types)
        return Step(op, tuple(results), tuple(operands), facts, inner, tuple(dead), tuple(nodes), read)


def describe_origin(step: Step) -> str:
    """How an error names what a step belongs to."""
    return f"node '{step.nodes[0]}' " if step.nodes else "the program "


@dataclass(frozen=True)
class Routine:
    """Steps in order, with the registers that hold its arguments before and its results after them.

    ``types`` are those of the arguments. Each register is written once.
    """

    arguments: tuple[int, ...]
    steps: tuple[Step, ...]
    results: tuple[int, ...]
    types: tuple[RegisterType, ...] = ()

    def walk(self) -> Iterator[Step]:
        """All steps, also those of the regions inside."""
        for step in self.steps:
            yield step
            for region in step.regions:
                yield from region.walk()

    @property
    def calls(self) -> tuple[Step, ...]:
        """The calls of kernels and of functions of the host, also those inside of regions, as they are written."""
        return tuple(step for step in self.walk() if step.op in ("func.call", "host.call"))

    def to_json(self) -> list[Any]:
        """As a list that JSON can hold."""
        return [self.arguments, [step.to_json() for step in self.steps], self.results, self.types]

    @staticmethod
    def from_json(made: list[Any]) -> Routine:
        """The inverse of ``to_json``."""
        arguments, steps, results, types = made
        return Routine(tuple(arguments), tuple(map(Step.from_json, steps)), tuple(results), _read_types(types))


def collect_types(routine: Routine) -> dict[int, RegisterType]:
    """The types of all registers, also of those in regions."""
    found = dict(zip(routine.arguments, routine.types, strict=True))
    for step in routine.steps:
        found.update(zip(step.results, step.types, strict=True))
        for region in step.regions:
            found |= collect_types(region)
    return found


def _read_types(made: list[Any]) -> tuple[RegisterType, ...]:
    return tuple((element, None if shape is None else tuple(shape)) for element, shape in made)


@dataclass(frozen=True)
class Program:
    """``@main`` after planning: what it takes and gives, the weights it needs, and its calls in order.

    With sizes that only the run knows it has a ``routine``, whose arguments are the inputs and then the weights; the
    calls are then those that the routine makes, in no memory of the arena, and its steps are its ``reports``.

    ``states`` are the inputs that its outputs become for the next run.
    """

    inputs: tuple[TensorInfo, ...]
    outputs: tuple[TensorInfo, ...]
    params: tuple[TensorInfo, ...]
    calls: tuple[Call, ...]
    arena_bytes: int
    routine: Routine | None = None
    reports: tuple[Report, ...] = ()
    states: tuple[State, ...] = ()

    def __str__(self) -> str:
        lines = [f"program: {len(self.calls)} calls, arena {self.arena_bytes} bytes"]
        return "\n".join(lines + [f"  {c.kernel}({', '.join(map(str, c.args))})" for c in self.calls])


@dataclass(frozen=True)
class Plan:
    """The output of the graph passes: programs as plain data, and the kernels' modules as MLIR bytecode by name.

    ``prepare[name]`` is a program without inputs whose params are the model's original weights and whose single
    output is the weight ``name`` of ``main`` (a packed layout, a folded constant). Weights of ``main`` that are not
    in ``prepare`` are the model's own, unchanged.

    ``specialized`` are programs for single sizes, where ``main`` has dynamic ones. ``session`` is the same as ``main``
    for a caller who keeps its states: it writes over states, and behind those that grow, where they lie; the axis along
    which these do is in front. All these are for one target; ``variants`` are the same programs, in the same order, for
    each of the others. ``functions`` are programs beside ``main`` that have names of their own. Kernels and weights are
    those of all.
    ``formulas`` say what some of the kernels of ``prepare`` compute.
    """

    main: Program
    prepare: Mapping[str, Program]
    kernels: Mapping[str, bytes]
    specialized: tuple[Program, ...] = ()
    session: Program | None = None
    variants: tuple[tuple[Program, ...], ...] = ()
    formulas: Mapping[str, Formula] = field(default_factory=dict)
    functions: Mapping[str, Program] = field(default_factory=dict)

    @property
    def by_target(self) -> tuple[tuple[Program, ...], ...]:
        """The programs for each target."""
        sessions = (self.session,) if self.session else ()
        return ((self.main, *self.specialized, *sessions, *self.functions.values()), *self.variants)

    @property
    def programs(self) -> tuple[Program, ...]:
        """The programs that the product has, in the order of their numbers: ``main`` first."""
        return tuple(program for programs in self.by_target for program in programs)

    @property
    def params(self) -> tuple[TensorInfo, ...]:
        """The weights of all programs, each once."""
        return tuple(dict.fromkeys(info for program in self.programs for info in program.params))


def make_export_name(name: str, number: int) -> str:
    """The exported name of a function of the ``number``-th program (0 is ``main``): ``create``, ``create_1``."""
    return f"{name}_{number}" if number else name


@dataclass(frozen=True)
class Signature:
    """A kernel's signature as text: the types of its arguments and results (``1x56x56x64xf32``), and the layout of
    its data (``channels last``, ``weight in blocks of 32``; empty if there is nothing to say)."""

    inputs: tuple[str, ...]
    results: tuple[str, ...]
    layout: str = ""


SameSizes = tuple[tuple[tuple[int, int], ...], ...]  # classes of numbers and axes


@dataclass(frozen=True)
class Kernel:
    """A compiled kernel: an object file that defines ``void name(void **args, int64 lo, int64 hi, void *scratch)``.

    ``args`` are pointers in the order of the calls' slots. Their memory does not overlap, except that a result may lie
    in the place of an argument where the plan told the kernel so. The kernel computes the half-open range [lo, hi) of
    its parallel axis, of ``extent`` steps in all; any split of [0, extent) may run at the same time. The calls of one
    that ``exchanges`` what they make have to: they wait for each other (``tw_parallel_for``). ``scratch`` points to
    ``scratch_bytes`` bytes (64-byte aligned) that belong to this call's thread; one that ``asks_scratch`` writes the
    number of bytes that its sizes ask for there, as an int64, when it is called with ``hi = -1``. ``parallel`` says
    whether more than one thread is worth it, ``ahead`` whether each call computes something before its steps. ``note``
    says what about the kernel a user should know, if there is anything.

    Behind the pointers ``args`` has the kernel's sizes: the open extents of the arguments, then the sizes it is called
    with, the open extents of its results being the last.

    ``parallel_from``: where only the run knows how many elements its result has, more than one thread is worth it from
    so many on, each counted as often as the sizes say that its calls have as ``summed``. ``streamed_from``: the same
    where what its products read is in no core's cache (1: one row is enough, 0: no more is said). ``schedule`` is its
    loop nest as text ("" for plain loops), ``schedule_json`` the same to be read back. ``reason``: why the kernel as a
    whole has none. ``signature`` is what it takes and gives, as text. ``flushes_denormals``: while it runs, its thread
    takes denormals for zero; then as before. ``same_sizes``: classes of its sizes that must be one, as numbers of
    arguments (results come after them) and axes, -1 for a size that it is called with; all others may differ.
    ``inserts``: it writes a part of its result, and an operand or other calls have the rest. ``counts``: how much of
    its result it writes, it finds itself.
    ``flops`` and ``bytes`` are the work of one run: its arithmetic, and the sizes of its arguments and results.

    ``tuned``: its schedule is from a record of tuning, and not its family's.

    One that a code generator of a user's has made bears its name: ``codegen``. Its object calls ``generated``, a symbol
    in an object beside it; its arithmetic is not known.
    """

    name: str
    object: bytes
    extent: int
    parallel: bool
    scratch_bytes: int = 0
    note: str = ""
    schedule: str = ""
    schedule_json: str = ""
    reason: str = ""
    flops: int = 0
    bytes: int = 0
    ahead: bool = False
    exchanges: bool = False
    asks_scratch: bool = False
    parallel_from: int = 0
    streamed_from: int = 0
    flushes_denormals: bool = False
    signature: Signature = Signature((), ())
    same_sizes: SameSizes = ()
    inserts: bool = False
    counts: bool = False
    tuned: bool = False
    codegen: str = ""
    generated: str = ""

    @property
    def pieces(self) -> int:
        """How many pieces a thread's part of the steps is taken in: one where each call computes something ahead.

        -1 is one as well, of threads that wait for each other.
        """
        return -1 if self.exchanges else 1 if self.ahead else _PIECES

    @property
    def streamed(self) -> Kernel:
        """The kernel in a program whose weights no core's cache holds."""
        if not self.streamed_from:
            return self
        least = 0 if self.streamed_from == 1 else self.streamed_from
        return replace(self, parallel=True, parallel_from=min(self.parallel_from, least) if self.parallel else least)

    @property
    def described(self) -> Kernel:
        """The kernel without its code and without the texts that only a compilation shows."""
        return replace(self, object=b"", note="", schedule="", schedule_json="", tuned=False)

    def to_json(self) -> dict[str, Any]:
        """As a dictionary that JSON can hold: what differs from the default. The object is left out."""
        found = {f.name: getattr(self, f.name) for f in fields(self) if f.name not in ("object", "signature")}
        kept = {name: value for name, value in found.items() if value or name in ("name", "extent", "parallel")}
        return kept | {"signature": [self.signature.inputs, self.signature.results, self.signature.layout]}

    @staticmethod
    def from_json(made: dict[str, Any], object: bytes = b"") -> Kernel:
        """The inverse of ``to_json``, with an object."""
        inputs, results, layout = made["signature"]
        same = (tuple((number, axis) for number, axis in members) for members in made.get("same_sizes", ()))
        known: dict[str, Any] = made | {"same_sizes": tuple(same)}
        known["signature"] = Signature(tuple(inputs), tuple(results), layout)
        return Kernel(**known, object=object)
