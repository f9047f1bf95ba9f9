"""The state of one import, which its converters read and change; ``convert/graph.py`` does the work."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence

import onnx

from ....dialects import ir
from ..proto.weights import Detached
from ..values.choices import Facts
from ..values.tensor import Tensor
from .entry import EntryBlock
from .refusals import Refusals
from .scope import Scope


class GraphState(ABC):
    """The function that is being made, its nodes' values, and what was refused."""

    def __init__(self, detached: Detached, block: ir.Block, opsets: dict[str, int]) -> None:
        self.detached = detached
        self.entry = EntryBlock(detached, block)
        self.refusals = Refusals()
        self.notes: dict[str, None] = {}  # what a user should know, each once
        self.scope = Scope(opsets)
        self.in_kernel = False  # what is converted now becomes part of one kernel
        self.copies = 1  # how often what is converted now is there, for the ranks that the run may have
        self.facts: Facts = {}  # where it is

    @abstractmethod
    def resolve_in(self, scope: Scope, outputs: Iterable[str]) -> None:
        """Convert what these names of a scope need, but for what waits for a choice."""

    @abstractmethod
    def convert_subgraph(self, graph: onnx.GraphProto, inputs: Sequence[Tensor]) -> list[Tensor]:
        """Convert a nested graph at the current insertion point; names of the outer graphs are in sight."""

    @abstractmethod
    def made_in(self, scope: Scope, outputs: Sequence[str]) -> list[Tensor]:
        """Convert what these names of a scope need; the nodes that are refused say why, and so is what needs them."""
