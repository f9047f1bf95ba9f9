"""``tvm.relay.transform``: passes over networks.

``InferType`` gives types. TVM's passes that leave results as they are, are here by name, and leave a module as it is:
the compiler has its own, which ``relay.build`` runs.
"""

from __future__ import annotations

from typing import Any

from ..absent import refuse_name
from ..network import transform
from ..network.transform import KEPT, Pass, function_pass, infer_type

__all__ = ["InferType", "Pass", "function_pass"]

InferType = infer_type


def __getattr__(name: str) -> Any:
    if name in KEPT:
        return transform.keep(name)
    refuse_name("relay.transform", name, [*__all__, *KEPT])
