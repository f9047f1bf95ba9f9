"""``tvm.relay.backend``: how a program is run, as scripts name it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NoReturn

from ...absent import refuse_name

__all__ = ["Executor", "Runtime"]


@dataclass(frozen=True)
class Executor:
    """What runs a program, "graph" or "aot", of which it has both; ``relay.build`` refuses others."""

    name: str
    options: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Runtime:
    """The runtime of a program, "cpp" or "crt": C programs call what ``export_library`` writes, too."""

    name: str
    options: Mapping[str, Any] = field(default_factory=dict)


def __getattr__(name: str) -> NoReturn:
    refuse_name("relay.backend", name, __all__)
