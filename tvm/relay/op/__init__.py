"""``tvm.relay.op``: the operators, by name and as functions."""

from __future__ import annotations

from typing import Any

from ...absent import refuse_name
from ...network.expr import Op
from ...network.registry import FUNCTIONS, find_operator
from . import image, nn, qnn

__all__ = ["Op", "get", "image", "nn", "qnn"]


def get(op_name: str) -> Op:
    """The operator of a name. Raises ModelError where there is none."""
    return Op(find_operator(op_name).name)


def __getattr__(name: str) -> Any:
    if name in FUNCTIONS:
        return FUNCTIONS[name]
    refuse_name("relay.op", name, [*__all__, *sorted(each for each in FUNCTIONS if "." not in each)])


def __dir__() -> list[str]:
    return [*__all__, *(each for each in FUNCTIONS if "." not in each)]
