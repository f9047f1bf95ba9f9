"""The open sizes of an exported program as extents."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import reduce
from typing import Any

import sympy
import torch
from torch.export import ExportedProgram
from torch.fx import Node
from torch.utils._sympy import functions

from ...core.errors import UnsupportedError
from ...core.sizes import Extent, Sym, count_elements, floor_divide, floor_mod, max_of, min_of
from .sampling import find_equal, find_ranges

# Torch notes this bound where nobody gave one (`Dim.DYNAMIC`), as tracing takes no size for 0 or 1. Programs are right
# for these too, and torch runs them, but where a dim is left that it would have dropped.
_TRACED = 2
_SQUEEZE = torch.ops.aten.squeeze


class Symbols:
    """The sizes in a program. A symbol has the name of the first input that has it: ``x.0``, ``n``.

    Two of torch's that have to be equal are one.
    """

    def __init__(self, program: ExportedProgram) -> None:
        self._program = program
        self._nodes = {node.name: node for node in program.graph.nodes}
        self._symbols: dict[str, Extent] = {}
        self._kept = _kept_by_squeezes(program)
        found, equal = find_ranges(program), find_equal(program)
        for name, other in equal.items():
            found[other] &= found.pop(name)
        for label, size in self._find_given():
            own = str(size.node.expr) if isinstance(size, torch.SymInt) else ""
            own = equal.get(own, own)
            if own in found:
                self._add(own, label, found.pop(own))
        for own, within in found.items():  # of which inputs have multiples
            self._add(own, own, within)
        self._symbols |= {name: self._symbols[other] for name, other in equal.items()}

    def shape(self, name: str) -> tuple[Extent, ...]:
        """The shape of the tensor that a node of the program makes; of a number's it is ()."""
        value = self._nodes[name].meta["val"]
        if not isinstance(value, torch.Tensor):
            return ()
        return tuple(self.extent(size, name) for size in value.shape)

    def results(self) -> list[tuple[Extent, ...] | Extent | None]:
        """For each result of the program the shape of the tensor, or the size, that it is; None for what is neither."""
        [output] = self._program.graph.find_nodes(op="output")
        return [self._result(node) if isinstance(node, Node) else None for node in output.args[0]]

    def scalars(self) -> dict[str, Extent]:
        """The inputs that are sizes, as extents by their names."""
        found = {name: node.meta.get("val") for name, node in self._nodes.items() if node.op == "placeholder"}
        return {name: self.extent(size, name) for name, size in found.items() if isinstance(size, torch.SymInt)}

    def _result(self, node: Node) -> tuple[Extent, ...] | Extent:
        value = node.meta["val"]
        return self.shape(node.name) if isinstance(value, torch.Tensor) else self.extent(value, node.name)

    def extent(self, size: int | torch.SymInt, name: str) -> Extent:
        """A size as an extent; UnsupportedError for one that is no function of the inputs' sizes."""
        if isinstance(size, int):
            return size
        try:
            return self._extent(size.node.expr)
        except UnknownSizeError:
            raise UnsupportedError(f"'{name}' has the size {size}, which the program's inputs do not tell") from None

    def find_extents(self) -> tuple[Extent, ...]:
        """All open extents in the program."""
        sizes = {str(size.node.expr): size for node in self._nodes.values() for size in _list_sizes(node)}
        made: list[Extent] = []
        for size in sizes.values():
            try:
                made.append(self._extent(size.node.expr))
            except UnknownSizeError:
                continue
        return tuple(made)

    def rename_point(self, point: Mapping[str, int]) -> dict[str, int]:
        """Sizes by the names of symbols, from those by torch's names."""
        return {str(self._symbols[own]): number for own, number in point.items()}

    def _find_given(self) -> Iterator[tuple[str, Any]]:
        """All sizes that inputs give, and what they are called; those of tensors come first."""
        inputs = [node for node in self._nodes.values() if node.op == "placeholder"]
        for node in inputs:
            value = node.meta.get("val")
            if isinstance(value, torch.Tensor):
                yield from ((f"{node.name}.{axis}", size) for axis, size in enumerate(value.shape))
        yield from ((node.name, node.meta.get("val")) for node in inputs)

    def _add(self, own: str, label: str, within: Any) -> None:
        low, high = (int(bound) if isinstance(bound, sympy.Integer) else None for bound in (within.lower, within.upper))
        if low == _TRACED and own not in self._kept:
            low = 0
        self._symbols[own] = Sym(label, max(low or 0, 0), high)

    def _extent(self, expr: Any) -> Extent:
        return extent_of(expr, self._symbols)


class UnknownSizeError(Exception):
    """An expression that no extent is."""


def extent_of(expr: Any, symbols: Mapping[str, Extent]) -> Extent:
    """One of torch's expressions of sizes, whose symbols are these extents; UnknownSizeError for what is none."""
    if isinstance(expr, sympy.Symbol) and str(expr) in symbols:
        return symbols[str(expr)]
    if isinstance(expr, sympy.Integer):
        return int(expr)
    combine = next((make for kind, make in _COMBINED.items() if isinstance(expr, kind)), None)
    if combine is None:
        raise UnknownSizeError
    return combine(*(extent_of(arg, symbols) for arg in expr.args))


def _raise_extent(base: Extent, exponent: Extent) -> Extent:
    if not isinstance(exponent, int) or exponent < 0:
        raise UnknownSizeError
    return count_elements([base] * exponent)


_COMBINED: Mapping[type, Any] = {
    sympy.Add: lambda *args: sum(args),
    sympy.Mul: lambda *args: count_elements(args),
    sympy.Pow: _raise_extent,
    functions.PowByNatural: _raise_extent,
    functions.FloorDiv: floor_divide,
    functions.PythonMod: floor_mod,
    functions.Mod: floor_mod,
    functions.ModularIndexing: lambda base, by, of: floor_mod(floor_divide(base, by), of),
    functions.Max: lambda *args: reduce(max_of, args),
    functions.Min: lambda *args: reduce(min_of, args),
}


def _kept_by_squeezes(program: ExportedProgram) -> set[str]:
    """The symbols in sizes of what a squeeze gives: it would be of another rank where one of them is 1."""
    squeezes = [node for node in program.graph.nodes if getattr(node.target, "overloadpacket", None) is _SQUEEZE]
    return {str(symbol) for node in squeezes for size in _list_sizes(node) for symbol in size.node.expr.free_symbols}


def _list_sizes(node: Node) -> list[torch.SymInt]:
    value = node.meta.get("val")
    values = value if isinstance(value, (tuple, list)) else [value]
    sizes = [size for v in values for size in (v.shape if isinstance(v, torch.Tensor) else [v])]
    return [size for size in sizes if isinstance(size, torch.SymInt)]
