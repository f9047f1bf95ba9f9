"""Finds the first node whose result is not the reference's, and what of the compiler makes it so."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np
from onnx import ModelProto, NodeProto, helper, numpy_helper

from tilewright.core.progress import Say, tell_nobody
from tilewright.tools.debugging.bisect_passes import Bisection, bisect
from tilewright.tools.debugging.oracle import ORDER, find_taken_branch
from tilewright.tools.debugging.oracle_difference import has_float_elements
from tilewright.tools.debugging.oracle_faults import nested_graphs
from tilewright.tools.debugging.reducer import ModelCase
from tilewright.tools.debugging.verdict import Ask, Verdict, judge, run_oracle, run_ours
from tilewright.tools.debugging.walk import Group, Walk, describe_node
from tilewright.tools.reduce import shrink


@dataclass
class Finding:
    """The result of a search. ``node`` is the first bad one, whose ``output`` differs as ``reason`` says; None if the
    nodes differ only together. ``inside`` are the Ifs in whose branches it is, the outermost first. ``case`` shows the
    fault: the node ``alone``, or the fewest nodes that do. ``nonfinite`` is the first value with NaN or infinities that
    the reference has not. ``notes`` are sentences for the user."""

    whole: Verdict
    node: NodeProto | None = None
    output: str = ""
    reason: str = ""
    case: ModelCase | None = None
    alone: bool = False
    inside: list[str] = field(default_factory=list)
    nonfinite: str = ""
    bisection: Bisection | None = None
    notes: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Search:
    """How a model is compared: ``ask`` makes calls (in a child), ``order`` are the references, ``opt_level`` is that of
    the program that is looked into, ``end`` the time (of ``time.monotonic``) when it is to be given up."""

    ask: Ask
    order: Sequence[str] = ORDER
    tolerance: tuple[float, float] | None = None
    opt_level: int = 3
    end: float = float("inf")
    say: Say = tell_nobody

    def find(self, walk: Walk, inputs: Mapping[str, np.ndarray]) -> Finding:
        """Compare the whole model; where that differs, find the first bad node, isolate it, and bisect."""
        model = ModelCase(walk.model, dict(inputs))
        self.say("comparing the outputs", 0, 0, self.end)
        found = Finding(self.judge_case(model))
        if found.whole.kind != "differs":
            return found
        self._first_bad(walk, found)
        found.notes += _note_hidden(walk, found)
        if found.case is None:
            found.notes.append("no node differs when all values are outputs, which undoes fusion")
            self._bad_together(walk, found)
        if found.case is None:
            found.notes.append("no group of nodes differs by itself either: the whole model is bisected")
        search = replace(self, ask=_asked_once(self.ask, run_oracle))
        found.bisection = bisect(partial(search._in_context, found.case or model), self.end, self.say)
        return found

    def judge_case(self, case: ModelCase) -> Verdict:
        """The verdict of a case at this level."""
        return self._in_context(case, {"opt_level": self.opt_level})

    def _in_context(self, case: ModelCase, context: Mapping[str, Any]) -> Verdict:
        run = partial(run_ours, context=context)
        return judge(case.model, case.inputs, self.ask, self.tolerance, run=run, order=self.order)

    def _first_bad(self, walk: Walk, found: Finding) -> None:
        done = 0
        for group in walk.groups():
            self.say("comparing nodes", done, len(walk.model.graph.node), self.end)
            done += len(group.nodes)
            for part, verdict in self._verdicts(group, found):
                if verdict.kind == "differs":
                    self._isolate(part, verdict, found)
                    return self._descend(found, walk.bound)

    def _verdicts(self, group: Group, found: Finding) -> Iterator[tuple[Group, Verdict]]:
        """The verdicts of a group's nodes with all their values as outputs; by halves where those cannot be had."""
        case = group.exposed
        verdict = (
            self.judge_case(case) if case else Verdict("unknown", "it takes or makes what is not a tensor of numbers")
        )
        if verdict.kind in ("agrees", "differs") or time.monotonic() > self.end:
            yield group, verdict
        elif len(group.nodes) > 1:
            for half in group.halves():
                yield from self._verdicts(half, found)
        else:
            found.notes.append(f"node {describe_node(group.nodes[0])} is not compared: {verdict.reason}")

    def _isolate(self, group: Group, verdict: Verdict, found: Finding) -> None:
        """Note the node that makes what differs, and the least that shows it."""
        single = group.alone(verdict.output)
        [found.node], found.output, found.reason = single.nodes, verdict.output, verdict.reason
        exposed = group.exposed
        assert exposed is not None
        found.nonfinite = self._nonfinite(exposed)
        case = single.exposed
        if case is not None and self.judge_case(case).kind == "differs":
            found.case, found.alone = case, True
            return
        found.notes.append("the node alone agrees: it differs beside others")
        found.case = self._shrunk(exposed, verdict)

    def _descend(self, found: Finding, bound: int) -> None:
        """Where the bad node is an If, find the first bad one in the branch that it takes, if one is bad there."""
        if found.node is None or found.node.op_type != "If" or found.case is None or not found.alone:
            return
        inner = Finding(found.whole)
        model = _branch_of(found.node, found.case)
        self._first_bad(Walk(model, found.case.inputs, bound, self.order), inner)
        if inner.case is not None:
            found.inside = [describe_node(found.node), *inner.inside]
            for name in ("node", "output", "reason", "case", "alone", "nonfinite"):
                setattr(found, name, getattr(inner, name))
            found.notes += inner.notes

    def _bad_together(self, walk: Walk, found: Finding) -> None:
        """Look for a group that differs where its values are no outputs, and for the fewest nodes of it that do."""
        for group in walk.groups():
            case = group.fused
            verdict = self.judge_case(case) if case else Verdict("unknown")
            if case is not None and verdict.kind == "differs":
                found.output, found.reason = verdict.output, verdict.reason
                found.nonfinite = self._nonfinite(case)
                found.case = self._shrunk(case, verdict)
                return

    def _shrunk(self, case: ModelCase, verdict: Verdict) -> ModelCase:
        left = max(0.0, self.end - time.monotonic())
        run = partial(run_ours, context={"opt_level": self.opt_level})
        return shrink(
            case.model, case.inputs, verdict, self.ask, self.tolerance, left, self.say, run=run, order=self.order
        )[0]

    def _nonfinite(self, case: ModelCase) -> str:
        """The first output with NaN or infinities where the reference has numbers; "" where there is none."""
        names, data = [output.name for output in case.model.graph.output], case.model.SerializeToString()
        got = self.ask((run_ours, data, case.inputs, {"opt_level": self.opt_level}))
        want = self.ask((run_oracle, data, case.inputs, names, self.order))
        if not isinstance(got, list) or not isinstance(want, list):
            return ""
        pairs = zip(names, got, want[0], strict=True)
        return next((name for name, ours, theirs in pairs if _differ_in_kind(ours, theirs)), "")


def _asked_once(ask: Ask, function: Callable[..., Any]) -> Ask:
    """``ask`` for one model and its inputs, that makes no call of ``function`` twice."""
    known: dict[str, Any] = {}

    def remembered(call: tuple[Any, ...]) -> Any:
        if call[0] is not function:
            return ask(call)
        _, _model, _inputs, *others = call
        if (key := repr(others)) not in known:
            known[key] = ask(call)
        return known[key]

    return remembered


def _differ_in_kind(ours: Any, theirs: Any) -> bool:
    """Return whether the one has NaN or infinities where the other has numbers."""
    floats = all(isinstance(a, np.ndarray) and (has_float_elements(a) or a.dtype.kind == "c") for a in (ours, theirs))
    return floats and ours.shape == theirs.shape and bool((~np.isfinite(ours) & np.isfinite(theirs)).any())


def _branch_of(node: NodeProto, case: ModelCase) -> ModelProto:
    """The nodes of the branch that an If takes as a model, on the inputs of a case with that node alone."""
    weights = list(case.model.graph.initializer)
    known = {tensor.name: numpy_helper.to_array(tensor) for tensor in weights}
    _, branch = find_taken_branch(node, {**known, **case.inputs})
    weights += branch.initializer
    graph = helper.make_graph(branch.node, branch.name or "branch", case.model.graph.input, branch.output, weights)
    return helper.make_model(graph, opset_imports=case.model.opset_import, ir_version=case.model.ir_version)


def _note_hidden(walk: Walk, found: Finding) -> list[str]:
    """The note about nodes whose graphs have values that were not compared."""
    names = [describe_node(node) for node in walk.model.graph.node if any(True for _ in nested_graphs(node))]
    names = [name for name in names if name not in found.inside]
    return [f"values inside of {', '.join(names)} are not compared, only what comes out"] if names else []
