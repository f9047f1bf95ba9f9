"""``tvm.relay.analysis``: questions about expressions."""

from __future__ import annotations

from typing import Any, NoReturn

from ..absent import refuse_name
from ..network.expr import Call, Op
from ..network.functor import list_free_variables, list_variables, visit_in_order
from ..network.structure import structural_equal
from ..network.text import post_order

__all__ = ["all_vars", "free_vars", "list_op_freqs", "post_order_visit", "structural_equal"]

all_vars = list_variables
free_vars = list_free_variables
post_order_visit = visit_in_order


def list_op_freqs(mod: Any) -> dict[str, int]:
    """How often a module calls each operator."""
    counts: dict[str, int] = {}
    for function in mod.functions.values():
        for each in post_order(function):
            if isinstance(each, Call) and isinstance(each.op, Op):
                counts[each.op.name] = counts.get(each.op.name, 0) + 1
    return counts


def __getattr__(name: str) -> NoReturn:
    refuse_name("relay.analysis", name, __all__)
