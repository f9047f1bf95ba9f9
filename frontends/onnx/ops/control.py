"""Control flow: If. A branch that is known at import is converted in place, else both go into an ``scf.if``.

That is one kernel, unless the branches give different sizes, need more than a kernel can do, or are worth kernels of
their own. Where the inputs' shapes fit one branch alone, that one is converted in place too, behind a check of the
condition.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from functools import partial
from typing import Any

import onnx

from ....dialects import builders, ir, scalars, scf
from ....dialects.loops import Draft
from ..control.alternatives import Way, convert_either
from ..control.control_flow import MOST_IN_KERNEL, count_traffic, emit_branches, filling_kernel, first_accepted
from ..state.context import Context
from ..state.registry import op
from ..values.forms import Form, form_of
from ..values.tensor import Tensor


@op("If")
def branch(
    ctx: Context, condition: Tensor, *, then_branch: onnx.GraphProto, else_branch: onnx.GraphProto
) -> tuple[Tensor, ...]:
    misfit = f"the condition has {condition.size} elements, it must have one"
    if condition.is_dynamic:
        condition = ctx.fit_shape(ctx.reshape(condition, [condition.size]), [1], misfit)
    elif condition.size != 1:
        ctx.invalid(misfit)
    if condition.known is not None:
        return tuple(ctx.subgraph(then_branch if condition.known.reshape(())[()] else else_branch))
    chosen = scalars.truth(builders.extract(ctx.reshape(condition, []).value, []))
    ways = {
        f"its {name}": partial(ctx.subgraph, graph)
        for name, graph in (("then_branch", then_branch), ("else_branch", else_branch))
    }

    def convert(ways: Sequence[Way]) -> list[Tensor]:
        return first_accepted(ctx, lambda: _as_kernel(ctx, chosen, ways), lambda: emit_branches(ctx, chosen, ways))

    return tuple(convert_either(ctx, chosen, ways, convert))


def _as_kernel(ctx: Context, condition: ir.Value, ways: Sequence[Way]) -> list[Tensor]:
    """Both branches in one kernel. Refuses what gives different types, and much work where a program can branch."""
    drafts: list[Draft] = []
    forms: list[list[Form]] = []
    with ExitStack() as undo:
        for way in ways:
            draft = Draft([])
            with filling_kernel(ctx, draft):
                made = way()
                draft.results = [t.value for t in made]
            undo.callback(draft.drop)
            if not ctx.graph.in_kernel and count_traffic(draft) > MOST_IN_KERNEL:
                ctx.unsupported("its branches are worth kernels of their own")
            drafts.append(draft)
            forms.append(list(map(form_of, made)))
        if forms[0] != forms[1]:
            ctx.unsupported("its branches give different types inside of what is one kernel")
        undo.pop_all()
    whole: Any = scf.IfOp(condition, [form.type for form in forms[0]], has_else=True)
    for draft, block in zip(drafts, (whole.then_block, whole.else_block), strict=True):
        with ir.InsertionPoint(block):
            scf.YieldOp(draft.place([]))
    return [form.wrap(value) for form, value in zip(forms[0], whole.results, strict=True)]
