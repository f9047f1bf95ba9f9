"""The report of ``check_model``: plain data, the same in Python and in the JSON of ``tilewright check``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from .printed import line_text
from .report_text import SHOWN_NODES, report_lines

# compiled: becomes code, or is known before any runs. host: code of the host computes it. unsupported: there is a
# Problem with it. unchecked: it depends on such a node, or holds one, and cannot be judged before that is mended.
# codegen: a code generator of the user's takes it. unused: no output needs it.
Verdict = Literal["compiled", "host", "codegen", "unsupported", "unchecked", "unused"]


@dataclass(frozen=True)
class Tensor:
    """An input or output as the file declares it, or with the shape that is given.

    An extent is a number, a symbol's name, "?" where it has neither, or its name and range as in ``--input-shape``.
    ``shape`` is None where not even the rank is known.
    """

    name: str
    dtype: str
    shape: tuple[int | str, ...] | None


@dataclass(frozen=True)
class Node:
    """A node of the file; ``where`` is "" in the main graph, else as in "then_branch of If_3" or "function my.F"."""

    name: str
    op: str
    where: str
    verdict: Verdict


@dataclass(frozen=True)
class Operator:
    """An operator with its domain (unless that is ONNX's own), and how many nodes of the file have which verdict."""

    op: str
    count: int
    verdicts: Mapping[Verdict, int]


@dataclass(frozen=True)
class Parameters:
    """The file's initializers and constants: how many tensors, their elements, and their bytes in the file."""

    tensors: int
    elements: int
    bytes: int


@dataclass(frozen=True)
class Problem:
    """One reason why the model cannot be compiled.

    ``op`` is an operator, or "input" or "tensor"; ``kind`` is one of operator, opset, domain, attribute, dtype,
    constant, output and use; ``nodes`` are all that have the problem; ``remedy`` says what would do.
    """

    op: str
    kind: str
    reason: str
    nodes: tuple[str, ...]
    remedy: str


@dataclass(frozen=True)
class Work:
    """An estimate of one run, made before fusion.

    ``flops`` counts a multiply-add as two. ``activation_bytes`` are inputs, outputs and what is between them at the
    worst time, ``peak_bytes`` these and the weights that the outputs need.
    """

    flops: int
    weight_bytes: int
    activation_bytes: int
    peak_bytes: int


@dataclass(frozen=True)
class Specialization:
    """Sizes that are to get a program of their own, as ``--specialize`` takes them, and the work of one run of that;
    None where something is unsupported."""

    sizes: str
    work: Work | None


@dataclass(frozen=True)
class CheckReport:
    """Everything about a model that can be said without compiling it; printed, it is what ``tilewright check`` says.

    Attributes:
        model: its path, or "the model".
        supported: whether it can be compiled; else ``problems`` says why not.
        opsets: the version of each domain; ONNX's own is "ai.onnx".
        operators: those of all nodes: also in nested graphs and in functions that are called; the most used first.
        nodes: all of them, in the file's order.
        dtypes: the element types that values of the model have, as far as they are known.
        give: options that fix what the file leaves open, as in "--input-shape x:1,3": shapes that were tried and fit.
        work: None where shapes are open or something is unsupported.
        notes: what else a reader should know, a sentence each.
        specializations: the sizes that programs of their own were asked for; ``problems`` are also those of these.
    """

    model: str
    supported: bool
    ir_version: int
    opsets: Mapping[str, int]
    inputs: tuple[Tensor, ...]
    outputs: tuple[Tensor, ...]
    operators: tuple[Operator, ...]
    nodes: tuple[Node, ...]
    dtypes: tuple[str, ...]
    parameters: Parameters
    problems: tuple[Problem, ...] = ()
    give: tuple[str, ...] = ()
    work: Work | None = None
    notes: tuple[str, ...] = ()
    specializations: tuple[Specialization, ...] = ()

    def lines(self, shown: int | None = SHOWN_NODES) -> list[str]:
        """A line for each fact, then one for each problem, which names at most so many ``shown`` nodes; None is all."""
        return list(report_lines(self, shown))

    def __str__(self) -> str:
        return "\n".join(map(line_text, self.lines()))

    __repr__ = __str__
