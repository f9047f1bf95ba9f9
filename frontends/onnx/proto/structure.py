"""What a model must keep to before any of onnx's tools sees it: sizes of tensors, numbers of nodes, calls that end."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import onnx

from ....core.errors import ModelError
from ....core.limits import ModelLimits
from ....core.printed import shorten
from .traversal import Level, Name, find_roots, function_name, walk_levels, walk_tensors
from .weights import Detached


def check_nodes(detached: Detached) -> None:
    """Raise ModelError for a graph that is beyond the limits, or has no end, once its functions are written out."""
    _Expansion.of(detached.proto, detached.limits).check(detached.proto.graph)


def check_tensors(detached: Detached) -> None:
    """Raise ModelError for tensors of shapes that cannot be, or whose data is not there, wherever they are."""
    for tensor in walk_tensors(detached.proto):
        detached.check(tensor)


@dataclass
class _Extent:
    """What a graph or a body is with functions written out: its nodes, and how deep graphs and calls are nested."""

    nodes: int = 0
    depth: int = 0
    calls: dict[Name, tuple[int, int]] = field(default_factory=dict)  # how often, and below how many graphs


class _Expansion:
    """The model with its functions written out, which it is not: they may be many calls of many calls."""

    def __init__(self, functions: Mapping[Name, Level], limits: ModelLimits) -> None:
        self._functions, self._limits = functions, limits
        self._whole: dict[Name, _Extent] = {}  # the functions whose calls are counted in

    @staticmethod
    def of(model: onnx.ModelProto, limits: ModelLimits) -> _Expansion:
        bodies = zip(model.functions, find_roots(model)[1:], strict=True)
        return _Expansion({(f.domain, f.name, f.overload): body for f, body in bodies}, limits)

    def check(self, graph: onnx.GraphProto) -> None:
        """Raise ModelError for what is too large, too deep, or has no end."""
        main = self._own(Level(graph.node, graph), "the graph")
        for name in main.calls:
            self._expand(name)
        self._add_calls(main, "the graph")

    def _expand(self, first: Name) -> None:
        """Fill ``_whole`` for a function and all that it calls, without recursion."""
        path: dict[Name, _Extent] = {}  # functions that are being expanded, each called by the one before it
        stack = [first]
        while stack:
            name = stack[-1]
            if name in self._whole:
                stack.pop()
                continue
            if name not in path:
                path[name] = self._own(self._functions[name], _title(name))
            missing = [called for called in path[name].calls if called not in self._whole]
            if again := next((called for called in missing if called in path), None):
                raise ModelError(f"{_title(again)} calls itself, or a function that does: it has no end")
            stack += missing[:1]
            if not missing:
                self._whole[name] = path.pop(stack.pop())
                self._add_calls(self._whole[name], _title(name))

    def _own(self, root: Level, what: str) -> _Extent:
        made = _Extent()
        for level in walk_levels(root):
            made.nodes, made.depth = made.nodes + len(level.nodes), max(made.depth, level.depth)
            self._check(made, what)
            for node in level.nodes:
                if (name := function_name(node)) in self._functions:
                    count, below = made.calls.get(name, (0, 0))
                    made.calls[name] = count + 1, max(below, level.depth)
        return made

    def _add_calls(self, made: _Extent, what: str) -> None:
        for name, (count, below) in made.calls.items():
            whole = self._whole[name]
            made.nodes, made.depth = made.nodes + count * whole.nodes, max(made.depth, below + whole.depth + 1)
        self._check(made, what)

    def _check(self, made: _Extent, what: str) -> None:
        if made.nodes > self._limits.nodes:
            raise ModelError(
                f"{what} has {made.nodes} nodes, those of its functions counted in: the most are {self._limits.nodes}"
            )
        if made.depth > self._limits.nesting:
            raise ModelError(
                f"{what} has graphs, or calls of functions, nested {made.depth} deep: the most are"
                f" {self._limits.nesting}"
            )


def _title(name: Name) -> str:
    return f"function '{shorten('.'.join(filter(None, name)), 120)}'"
