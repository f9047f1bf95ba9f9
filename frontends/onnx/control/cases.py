"""Conversion of what depends on ranks that only the run knows: once in each case, inside of the program's If.

That ends where it may: behind values that are the same in all cases (``Reshape(y, [-1])``) the graph is there once.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field

from onnx import NodeProto

from ....core.errors import ModelError
from ....dialects import extents, ir
from ....dialects.loops import Draft
from ..state.context import Context
from ..state.graph_state import GraphState
from ..state.refusals import Unsupported
from ..state.standins import StandIn, TensorOrFailed
from ..values.choices import Case, Choice, Facts, Unranked
from ..values.forms import Form, form_of
from ..values.tensor import Tensor
from .alternatives import in_each
from .control_flow import only_element, refuse_in_kernel

MOST_COPIES = 64  # of a node of the model


@dataclass
class Waiting:
    """Names that depend on ranks which only the run knows, each after those that it needs, and the first ``choice``."""

    needs: dict[str, list[str]] = field(default_factory=dict)
    choice: Choice | None = None

    def takes(self, node: NodeProto, needs: list[str], choice: Choice | None) -> bool:
        """Whether a node has to wait: for a choice that is among its needs, or for others that do."""
        if choice is None and not any(n in self.needs for n in needs):
            return False
        self.choice = self.choice or choice
        self.needs.update((name, needs) for name in node.output if name)
        return True


def convert_cases(graph: GraphState, choice: Choice, waiting: Waiting, outputs: Sequence[str]) -> None:
    """Convert what waits for a choice in each of its cases, for these outputs of the current scope.

    The scope then has the outputs, or values that they need and that are the same in all cases. Raises Unsupported
    inside of a kernel, and where nodes would be converted too often.
    """
    maker, scope = choice.maker, graph.scope
    ctx = Context(graph, maker.node, maker.name, maker.opset)
    with ir.Location.name(ctx.name), _copies(ctx, len(choice.cases)):
        refuse_in_kernel(ctx)
        names = _find_wanted_names(graph, choice, waiting, outputs)

        def convert(case: Case) -> list[Tensor]:
            with _assuming_facts(graph, choice.facts(case)):
                return graph.made_in(scope.assume_case(choice, case), names)

        made = in_each(ctx, choice.cases, lambda case: only_element(choice.has(case).value), convert, _describe_cases)
    scope.values.update(zip(names, made, strict=True))


@contextmanager
def _copies(ctx: Context, count: int) -> Iterator[None]:
    """Let what is converted now be there ``count`` times, of which each may be there several times."""
    around = ctx.graph.copies
    if around * count > MOST_COPIES:
        ctx.unsupported(f"the ranks of its results, and of others, would need more than {MOST_COPIES} copies of nodes")
    ctx.graph.copies = around * count
    try:
        yield
    finally:
        ctx.graph.copies = around


@contextmanager
def _assuming_facts(graph: GraphState, facts: Facts) -> Iterator[None]:
    """Let what is converted now rely on facts."""
    around = graph.facts
    graph.facts = {**around, **facts}
    try:
        yield
    finally:
        graph.facts = around


def _describe_cases(cases: Sequence[Case]) -> str:
    return f"what reads {' or '.join(', '.join(map(str, case)) for case in cases)} of it"


def _find_wanted_names(graph: GraphState, choice: Choice, waiting: Waiting, outputs: Sequence[str]) -> list[str]:
    """The names to convert in each case: those of the outputs that wait, or what they need in place of them."""
    needs, same = waiting.needs, _find_same(graph, choice, waiting, outputs)
    free: set[str] = set()  # what can be converted once, behind the cases, given what all of them make the same of

    def is_there(name: str) -> bool:
        return name in same or name in free if name in needs else graph.scope.choice([name]) is not choice

    for name, needed in needs.items():  # each comes after those that it needs
        if all(map(is_there, needed)):
            free.add(name)
    wanted: dict[str, None] = {}
    pending = [name for name in outputs if name in needs]
    while pending:
        name = pending.pop()
        if name in free:
            pending += [n for n in needs[name] if n in needs]
        else:
            wanted[name] = None
    return list(wanted)


def _find_same(graph: GraphState, choice: Choice, waiting: Waiting, outputs: Sequence[str]) -> set[str]:
    """The names of which all cases make the same, as far as anybody who reads them can tell before the run."""
    known = extents.names()
    forms = [_forms(_try_case(graph, choice, case, outputs), waiting) for case in choice.cases]
    first, *others = forms
    within = {name: form for name, form in first.items() if form == form.within(known)}
    return {name for name, form in within.items() if all(each.get(name) == form for each in others)}


def _forms(values: Mapping[str, TensorOrFailed], waiting: Waiting) -> dict[str, Form]:
    made = {name: values[name] for name in waiting.needs if name in values}
    tensors = {name: v for name, v in made.items() if isinstance(v, Tensor) and not isinstance(v, Unranked | StandIn)}
    return {name: form_of(t) for name, t in tensors.items() if t.known is None and t.items is None}


def _try_case(graph: GraphState, choice: Choice, case: Case, outputs: Sequence[str]) -> Mapping[str, TensorOrFailed]:
    """What one case makes, as far as it depends on no other choice, without a trace of it in the program."""
    before, scope, draft = graph.refusals.copy(), graph.scope, Draft([])
    with draft.insertion_point():
        decided = scope.assume_case(choice, case)
        with (
            _assuming_facts(graph, choice.facts(case)),
            suppress(ModelError, Unsupported),
        ):  # which is said where it counts
            graph.resolve_in(decided, outputs)
    draft.drop()
    graph.refusals.restore(before)
    return decided.values
