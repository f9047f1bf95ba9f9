"""Control flow: If. A branch that is known at import is converted in place, else both go into an ``scf.if``.

That is one kernel, unless the branches give different sizes, or need more than a kernel can do. Where the inputs'
shapes fit one branch alone, that one is converted in place too, behind a check of the condition.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from typing import Any

import onnx

from ....dialects import builders, cf, ir, scalars, scf
from ....errors import ModelError, UnsupportedError
from ..context import Context
from ..control_flow import branches, first_accepted, kernel
from ..forms import Form, form_of
from ..loops import Draft
from ..registry import op
from ..tensor import Tensor


@op("If")
def branch(
    ctx: Context, condition: Tensor, *, then_branch: onnx.GraphProto, else_branch: onnx.GraphProto
) -> tuple[Tensor, ...]:
    if condition.size != 1:
        ctx.invalid(f"the condition has {condition.size} elements, it must have one")
    if condition.known is not None:
        return tuple(ctx.subgraph(then_branch if condition.known.reshape(())[()] else else_branch))
    chosen = scalars.truth(builders.extract(ctx.reshape(condition, []).value, []))
    graphs = {"then_branch": then_branch, "else_branch": else_branch}
    ways = [partial(_branch, ctx, name, graph) for name, graph in graphs.items()]
    before = ctx.graph.refusals.copy()
    try:
        return tuple(first_accepted(ctx, lambda: _as_kernel(ctx, chosen, ways), lambda: branches(ctx, chosen, ways)))
    except _MisfitError as misfit:
        ctx.graph.refusals.restore(before)  # what was said of that branch does not count
        return tuple(_other(ctx, chosen, graphs, misfit))


class _MisfitError(Exception):
    """A branch that cannot be run on inputs of the given shapes, by its name, and why."""

    def __init__(self, branch: str, reason: str) -> None:
        super().__init__(reason)
        self.branch = branch


def _branch(ctx: Context, name: str, graph: onnx.GraphProto) -> list[Tensor]:
    try:
        return ctx.subgraph(graph)
    except UnsupportedError:
        raise
    except ModelError as error:  # shapes for one of the branches are often none for the other
        raise _MisfitError(name, str(error)) from error


def _other(
    ctx: Context, condition: ir.Value, graphs: Mapping[str, onnx.GraphProto], misfit: _MisfitError
) -> list[Tensor]:
    """The branch that fits, in place; the program stops where it is not taken."""
    if ctx.graph.in_kernel:
        ctx.unsupported(f"its {misfit.branch} cannot be run ({misfit}), and a kernel cannot tell")
    [name] = [name for name in graphs if name != misfit.branch]
    words = f"its {misfit.branch} cannot be run on inputs of these shapes: {misfit}"
    cf.assert_(condition if name == "then_branch" else scalars.invert(condition), f"({ctx.node.op_type}): {words}")
    try:
        made = _branch(ctx, name, graphs[name])
    except _MisfitError:
        ctx.invalid(f"its {misfit.branch} cannot be run: {misfit}")
    ctx.note(f"node '{ctx.name}': {words}; the program refuses a run that takes it")
    return made


def _as_kernel(ctx: Context, condition: ir.Value, ways: Sequence[Callable[[], list[Tensor]]]) -> list[Tensor]:
    """Both branches in one kernel. Refuses what gives different types."""
    drafts: list[Draft] = []
    forms: list[list[Form]] = []
    with ExitStack() as undo:
        for way in ways:
            draft = Draft([])
            with kernel(ctx, draft):
                made = way()
                draft.results = [t.value for t in made]
            undo.callback(draft.drop)
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
