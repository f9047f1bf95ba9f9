"""``tvm.relay.qnn.op``: the operators whose names begin with "qnn."."""

from __future__ import annotations

from typing import Any

from ...absent import refuse_name
from ...network import operators  # noqa: F401  (fills the table)
from ...network.registry import FUNCTIONS

_NAMES = {name.removeprefix("qnn."): function for name, function in FUNCTIONS.items() if name.startswith("qnn.")}


def __getattr__(name: str) -> Any:
    if name in _NAMES:
        return _NAMES[name]
    refuse_name("relay.qnn.op", name, sorted(_NAMES))


def __dir__() -> list[str]:
    return sorted(_NAMES)
