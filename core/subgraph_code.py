"""Native code that a code generator of a user has made, on its way into a program."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

# The function of the host that calls what a code generator made in Python.
HOST_FUNCTION = "codegen"


@dataclass(frozen=True)
class SubgraphCode:
    """Native code for a subgraph, as a code generator gave it. The program calls it by ``symbol``.

    ``function`` is the name in the code. A ``library`` is loaded when it is first called.
    """

    symbol: str
    codegen: str
    subgraph: str
    nodes: tuple[str, ...]
    code: bytes = field(repr=False)
    function: str
    library: bool

    @property
    def what(self) -> str:
        """How errors call it."""
        return describe_subgraph(self.codegen, self.subgraph, self.nodes)


def describe_subgraph(codegen: str, subgraph: str, nodes: Iterable[str]) -> str:
    """How errors call a subgraph: its code generator, name and nodes."""
    names = list(nodes)
    more = f" and {len(names) - 3} more" if len(names) > 3 else ""
    listed = ", ".join(f"'{name}'" for name in names[:3])
    return f"code generator '{codegen}', subgraph '{subgraph}' (node{'s' if len(names) > 1 else ''} {listed}{more})"


def name_host_call(facts: Mapping[str, Any]) -> str:
    """How reports call a call of the host: by its function, or as kernels of its code generator are called."""
    name = facts["function"]
    return f"{name}_{facts['attributes']['codegen']}" if name == HOST_FUNCTION else name
