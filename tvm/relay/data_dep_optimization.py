"""``tvm.relay.data_dep_optimization``: scripts that tune networks import it, and use it for sparse weights alone."""

from __future__ import annotations

from typing import NoReturn

from ..absent import refuse_name

__all__: list[str] = []


def __getattr__(name: str) -> NoReturn:
    refuse_name("relay.data_dep_optimization", name, __all__)
