"""The manifest: a compiled program's description of itself, which its object code contains as JSON."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from typing import Any

from ...core.cpus import ARCHITECTURES
from ...core.custom_ops import is_operator
from ...core.errors import ArtifactError, first_line
from ...core.frame import FrameLayout
from ...core.model import TensorInfo
from ...core.program import Call, Kernel, Program, Report, Routine, Step
from ...core.sizes import Sym, bounds_of
from ...core.specialization import name_specialization, static_shapes_of
from ...core.states import State
from ...core.subgraph_code import HOST_FUNCTION, describe_subgraph
from ...core.target import find_missing_features
from .validation import validate, validate_ranges

FORMAT = 15  # of the text
ABI = 7  # of the code: what `create`, `main` and `run_calls` take, how kernels are called


@dataclass(frozen=True)
class Manifest:
    """``fingerprint`` names the weights that belong to the code; ``target`` and ``cpu_features`` say what it is for.

    In its text, extents that are no numbers are texts, and the ranges of symbols stand beside.

    ``calls`` are those of ``kernels``, in order: the library exports the addresses of the kernels as ``kernel(index)``,
    and what makes the code that calls them as ``create``. A program with sizes, or a course, that only the run knows
    has a ``routine`` in place of ``calls``; its ``main`` takes a frame (``core/frame.py``).

    ``prepared`` says of what weights of the model each of the ``params`` was made that the compiler made.

    With ``profile`` the entry times its calls: ``create`` takes the address of counters behind those of the weights.

    ``compiler`` is the version that made it, ``source`` the SHA-256 of the model's file.

    ``specialized`` tells of the programs for sizes that this one leaves open, ``variants`` of those for other targets,
    each as if it were alone. ``weights_inside`` is the size of the weights where they are a section of the code, and 0
    where they have a file.

    ``states`` are the inputs that outputs become for the next run; ``session`` is the program for who keeps them, where
    it can write some where they lie: it has those that grow with the axis along which they do in front.

    ``functions`` are programs of the same code that have names of their own, each as if it were alone.
    """

    name: str
    inputs: tuple[TensorInfo, ...]
    outputs: tuple[TensorInfo, ...]
    params: tuple[TensorInfo, ...]
    fingerprint: str
    target: str
    cpu_features: tuple[str, ...]
    arena_bytes: int
    options: dict[str, object]
    kernels: tuple[Kernel, ...] = ()
    calls: tuple[Call, ...] = ()
    routine: Routine | None = None
    specialized: tuple[Manifest, ...] = ()
    prepared: Mapping[str, Sequence[str]] = field(default_factory=dict)
    variants: tuple[Manifest, ...] = ()
    weights_inside: int = 0
    compiler: str = ""
    source: str = ""
    profile: bool = False
    abi: int = ABI
    reports: tuple[Report, ...] = ()
    states: tuple[State, ...] = ()
    session: Manifest | None = None
    functions: tuple[Manifest, ...] = ()

    @property
    def arch(self) -> str:
        """The architecture of the target, one of ``cpus.ARCHITECTURES``."""
        return self.target.partition(" ")[0]

    @property
    def program(self) -> Program:
        """The program as it was planned."""
        return Program(
            self.inputs,
            self.outputs,
            self.params,
            self.calls,
            self.arena_bytes,
            self.routine,
            self.reports,
            self.states,
        )

    @cached_property
    def frame(self) -> FrameLayout:
        """The layout of the frame that a run of the program's routine takes."""
        return FrameLayout.of(self.program)

    @property
    def programs(self) -> tuple[Manifest, ...]:
        """The manifests of all programs for the target, this one first."""
        return (self, *self.specialized, *self._of_sessions, *self.functions)

    @property
    def session_number(self) -> int:
        """The number of the program that sessions run: 0 where they run this one."""
        return 1 + len(self.specialized) if self.session else 0

    @property
    def function_numbers(self) -> dict[str, int]:
        """The numbers of the programs that can be called by a name, this one's first."""
        first = len(self.programs) - len(self.functions)
        return {self.name: 0} | {each.name: number for number, each in enumerate(self.functions, first)}

    @property
    def _of_sessions(self) -> tuple[Manifest, ...]:
        return (self.session,) if self.session else ()

    @property
    def by_target(self) -> tuple[Manifest, ...]:
        """The manifests for all targets, this one first."""
        return (self, *self.variants)

    @property
    def specializations(self) -> list[str]:
        """The sizes of the specialized programs, as ``--specialize`` takes them."""
        return [name_specialization(static_shapes_of(each.inputs), self.inputs) for each in self.specialized]

    def alone(self, number: int) -> Manifest:
        """The manifest for the ``number``-th target, without those for others."""
        return replace(self.by_target[number], variants=())

    @property
    def weights(self) -> tuple[TensorInfo, ...]:
        """The weights of all programs, for all targets, which share a file."""
        programs = (program for variant in self.by_target for program in variant.programs)
        return tuple(dict.fromkeys(info for each in programs for info in each.params))

    @property
    def operators(self) -> tuple[str, ...]:
        """The operators of users that the programs call, which have to be registered (``tw.register_op``)."""
        return tuple(dict.fromkeys(name for step in self._host_calls if is_operator(name := step.facts["function"])))

    @property
    def codegens(self) -> dict[str, str]:
        """The code generators of users that have made parts of the programs, and as what: native code, or Python's."""
        kernels = (kernel for variant in self.by_target for each in variant.programs for kernel in each.kernels)
        made = {kernel.codegen: "native" for kernel in kernels if kernel.codegen}
        return made | {facts["codegen"]: "python" for facts in self._generated}

    def demand_portable(self, what: str) -> None:
        """Raise ArtifactError, naming ``what`` cannot be done, where programs call functions of this process alone."""
        for facts in self._generated:
            if facts["key"]:
                part = describe_subgraph(facts["codegen"], facts["subgraph"], facts["nodes"])
                raise ArtifactError(
                    f"{what}: {part} is a function of this process: let compile give a payload, and register the code "
                    "generator with load="
                )

    @property
    def _generated(self) -> Iterator[Mapping[str, Any]]:
        """What the calls of functions say that code generators have made."""
        return (s.facts["attributes"] for s in self._host_calls if s.facts["function"] == HOST_FUNCTION)

    @property
    def _host_calls(self) -> Iterator[Step]:
        routines = (each.routine for variant in self.by_target for each in variant.programs)
        return (step for routine in routines if routine for step in routine.calls if step.op == "host.call")

    @property
    def weight_bytes(self) -> int:
        """Size of all weights in bytes."""
        return sum(info.nbytes for info in self.weights)

    @property
    def call_count(self) -> int:
        """How many calls of kernels the program has; those of a loop count once."""
        steps = self.routine.walk() if self.routine else ()
        return len(self.calls) + sum(step.op == "func.call" for step in steps)

    def to_json(self) -> str:
        """The text that ``from_json`` reads; the same for equal manifests."""
        return json.dumps({"format": FORMAT, **self._fields()}, sort_keys=True, ensure_ascii=False, default=str)

    def _fields(self) -> dict[str, Any]:
        bare = replace(self, kernels=(), calls=(), routine=None, specialized=(), variants=(), reports=(), session=None)
        fields = asdict(replace(bare, states=(), functions=()))
        fields["kernels"] = [kernel.described.to_json() for kernel in self.kernels]
        fields["calls"] = [call.to_json() for call in self.calls]
        fields["reports"] = [report.to_json() for report in self.reports]
        fields["routine"] = self.routine.to_json() if self.routine else None
        fields["states"] = [state.to_json() for state in self.states]
        fields["session"] = self.session._fields() if self.session else None
        for others in ("specialized", "variants", "functions"):
            fields[others] = [each._fields() for each in getattr(self, others)]
        return fields | {"ranges": collect_ranges(self.inputs)}

    @staticmethod
    def from_json(text: str, where: str) -> Manifest:
        """Raises ArtifactError, naming ``where``, for a text of another format."""
        try:
            fields = json.loads(text)
            if fields.pop("format") != FORMAT or fields["abi"] != ABI:
                version = fields.get("compiler")
                maker = f"Tilewright {version}" if version else "another version of Tilewright"
                raise ArtifactError(f"{where}: made by {maker}, whose programs differ: compile the model again")
            made = Manifest._of(fields)
            validate(made)
        except (ValueError, TypeError, KeyError, AttributeError, IndexError, RecursionError, ArithmeticError) as error:
            reason = f" ({first_line(error)})" if type(error) is ValueError else ""
            raise ArtifactError(
                f"{where}: its description is not one of Tilewright's{reason}: compile the model again"
            ) from error
        return made

    @staticmethod
    def _of(fields: dict[str, Any]) -> Manifest:
        """The inverse of ``_fields``."""
        known = fields.pop("ranges")
        validate_ranges(known)
        for key in ("inputs", "outputs", "params"):
            fields[key] = tuple(_read_tensors(fields[key], known))
        fields["cpu_features"] = tuple(fields["cpu_features"])
        fields["prepared"] = dict(fields["prepared"])
        for others in ("specialized", "variants", "functions"):
            fields[others] = tuple(map(Manifest._of, fields[others]))
        fields["kernels"] = tuple(map(Kernel.from_json, fields["kernels"]))
        fields["calls"] = tuple(map(Call.from_json, fields["calls"]))
        fields["reports"] = tuple(map(Report.from_json, fields["reports"]))
        fields["states"] = tuple(State(*numbers) for numbers in fields["states"])
        if fields["session"] is not None:
            fields["session"] = Manifest._of(fields["session"])
        if fields["routine"] is not None:
            fields["routine"] = Routine.from_json(fields["routine"])
        if fields["target"].partition(" ")[0] not in ARCHITECTURES:
            raise ValueError(fields["target"])
        return Manifest(**fields)

    @property
    def runs_here(self) -> bool:
        """Return whether this machine's CPU is one that the code is for."""
        return ARCHITECTURES[self.arch].machine == os.uname().machine and not find_missing_features(self.cpu_features)

    def check_cpu(self, where: str) -> None:
        """Raise ArtifactError where this machine's CPU is another one, or lacks a feature that the code may use."""
        if ARCHITECTURES[self.arch].machine != os.uname().machine:
            raise ArtifactError(
                f"{where}: compiled for target '{self.target}', and this machine is {os.uname().machine}: compile the "
                "model for this CPU"
            )
        if missing := find_missing_features(self.cpu_features):
            raise ArtifactError(
                f"{where}: compiled for target '{self.target}', a CPU with {', '.join(missing)}, which this one lacks: "
                "compile the model for this CPU"
            )


def collect_ranges(inputs: Sequence[TensorInfo]) -> dict[str, tuple[int | None, int | None]]:
    """The sizes that each symbol of a program's inputs may have, from the least to the greatest; None is no bound."""
    symbols = [extent for info in inputs for extent in info.shape if isinstance(extent, Sym)]
    return {str(symbol): (bounds_of(symbol).low, bounds_of(symbol).high) for symbol in symbols}


def _read_tensors(records: Iterable[dict], known: Mapping[str, Sequence[int | None]]) -> Iterator[TensorInfo]:
    for record in records:
        extents = record["shape"]
        shape = tuple(Sym(n, *known.get(n, (0, None))) if isinstance(n, str) else n for n in extents)
        yield TensorInfo(record["name"], shape, record["dtype"], record["ranked"])
