"""Parts of a network as a user's code generator sees them: nodes of the model's file, their tensors, and their edges.

All is plain data, which pickles; the data of a large weight stays in its file until it is read.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from .model import Param


@dataclass(frozen=True)
class SubgraphValue:
    """A tensor of a network: ``name``, ``shape`` and ``dtype`` (``"float32"``, ``"int64"``, ``"bool"`` ...).

    An extent is an int, or where only the run knows it a text, such as ``"n"``: equal texts are equal sizes. Values are
    equal if their names are.
    """

    name: str
    shape: tuple[Any, ...] = field(compare=False)
    dtype: str = field(compare=False)
    param: Param | None = field(default=None, repr=False, compare=False)

    @property
    def is_constant(self) -> bool:
        """Whether the value is known when the model is compiled."""
        return self.param is not None

    @cached_property
    def constant(self) -> np.ndarray | None:
        """The value, if it is known: a read-only array, which is mapped where it lies in a file. Else None."""
        if self.param is None:
            return None
        array = self.param.array().view()
        array.flags.writeable = False
        return array

    @property
    def is_dynamic(self) -> bool:
        """Whether only the run knows an extent."""
        return any(isinstance(extent, str) for extent in self.shape)


@dataclass(frozen=True)
class SubgraphNode:
    """A node of an ONNX graph.

    ``op_type`` and ``domain`` ("" is ONNX's own) are those of the file, ``opset`` is the domain's version there.
    ``attributes`` are numbers, texts, lists of these, or arrays; those that the file leaves out are left out.
    ``inputs`` and ``outputs`` are each a ``SubgraphValue``, or None where the node does not use it.
    """

    name: str
    op_type: str
    domain: str
    opset: int
    attributes: Mapping[str, Any]
    inputs: tuple[Any, ...]
    outputs: tuple[Any, ...]


@dataclass(frozen=True)
class Subgraph:
    """Nodes that become one call of a program. ``name`` is unique in a network; ``target`` is what code is made for.

    ``nodes`` are in an order in which they can be computed. ``inputs`` are the tensors that are computed outside,
    ``constants`` those that are known, ``outputs`` those that are read outside. The call gets the inputs and gives the
    outputs, in this order. ``extents`` are the texts in the shapes of inputs and outputs, each once.
    """

    name: str
    nodes: tuple[SubgraphNode, ...]
    inputs: tuple[SubgraphValue, ...]
    constants: tuple[SubgraphValue, ...]
    outputs: tuple[SubgraphValue, ...]
    extents: tuple[str, ...] = ()
    target: str = ""

    @property
    def is_dynamic(self) -> bool:
        """Whether only the run knows an extent of a tensor inside."""
        made = (value for node in self.nodes for value in (*node.inputs, *node.outputs) if value is not None)
        return any(value.is_dynamic for value in made)

    def producer(self, value: SubgraphValue) -> SubgraphNode | None:
        """The node that computes a value; None for an input or a constant."""
        return next((node for node in self.nodes if value in node.outputs), None)

    def readers(self, value: SubgraphValue) -> tuple[SubgraphNode, ...]:
        """The nodes that read a value."""
        return tuple(node for node in self.nodes if value in node.inputs)


@dataclass(frozen=True)
class NetworkNode:
    """A node of a network that is to be partitioned. ``reads`` and ``makes`` are the names of its values.

    It may become part of a subgraph where it is ``eligible``. ``dynamic`` says that one of its tensors has an extent
    that only the run knows, ``refused`` that the compiler itself has no code for it.
    """

    node: SubgraphNode
    reads: tuple[str, ...]
    makes: tuple[str, ...]
    eligible: bool
    dynamic: bool = False
    refused: bool = False


@dataclass(frozen=True)
class Network:
    """The nodes of a network that its outputs need, in an order in which they can be computed."""

    nodes: tuple[NetworkNode, ...]
    outputs: frozenset[str]
    target: str

    @cached_property
    def _readers(self) -> dict[str, set[int]]:
        """The numbers of the nodes that read each value."""
        found: dict[str, set[int]] = {}
        for number, each in enumerate(self.nodes):
            for name in each.reads:
                found.setdefault(name, set()).add(number)
        return found

    def subgraph(self, members: frozenset[int], name: str) -> Subgraph:
        """The nodes of these numbers as a subgraph."""
        chosen = [self.nodes[number] for number in sorted(members)]
        made = {name for each in chosen for name in each.makes}
        wanted = {name for name in made if name in self.outputs or not self._readers.get(name, members) <= members}
        read = [value for each in chosen for value in each.node.inputs if value is not None and value.name not in made]
        values = tuple(dict.fromkeys(read))
        inputs = tuple(value for value in values if not value.is_constant)
        computed = (value for each in chosen for value in each.node.outputs if value is not None)
        outputs = tuple(value for value in computed if value.name in wanted)
        texts = (extent for value in (*inputs, *outputs) for extent in value.shape if isinstance(extent, str))
        return Subgraph(
            name=name,
            nodes=tuple(each.node for each in chosen),
            inputs=inputs,
            constants=tuple(value for value in values if value.is_constant),
            outputs=outputs,
            extents=tuple(dict.fromkeys(texts)),
            target=self.target,
        )
