"""``tvm.relay.image``: the operators whose names begin with "image."."""

from __future__ import annotations

from typing import Any

from ...absent import refuse_name
from ...network import operators  # noqa: F401  (fills the table)
from ...network.registry import FUNCTIONS

_NAMES = {name.removeprefix("image."): function for name, function in FUNCTIONS.items() if name.startswith("image.")}


def __getattr__(name: str) -> Any:
    if name in _NAMES:
        return _NAMES[name]
    refuse_name("relay.image", name, sorted(_NAMES))


def __dir__() -> list[str]:
    return sorted(_NAMES)
