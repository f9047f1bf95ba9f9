"""``tvm.relay.qnn``: operators on quantized numbers."""

from __future__ import annotations

from typing import NoReturn

from ..absent import refuse_name
from .op import qnn as op

__all__ = ["op"]


def __getattr__(name: str) -> NoReturn:
    refuse_name("relay.qnn", name, __all__)
