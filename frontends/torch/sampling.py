"""Sizes that stand for all others: a program with open sizes is converted at a few of them.

torch-mlir then sees numbers alone, and does what it does for programs without open sizes. What the numbers are made of
is found again from what they are at all of the samples (``frontends/linalg/fitting.py``).
"""

from __future__ import annotations

import copy
import functools
import itertools
import random
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any

import sympy
import torch
from torch._ops import HigherOrderOperator
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.export import ExportedProgram
from torch.fx import GraphModule, Interpreter, Node
from torch.utils._sympy import functions

_COUNT = 3  # of samples: through two there is always a line, the third tells
_ATTEMPTS = 4000
_CANDIDATES = 12  # of which the one that tells most is the next sample
_MOST_COMPARED = 60
_FAILURES = 16
_TYPICAL = range(64, 160)  # large enough for what halves an image several times
_WIDE = 24  # sizes to choose from, so that all samples can differ
_MODULI = (2, 3, 4, 5)

_VIEWS = (torch.ops.aten.view.default, torch.ops.aten.reshape.default, torch.ops.aten._unsafe_view.default)

Point = Mapping[str, int]
Decompose = Callable[[ExportedProgram], ExportedProgram]


class NoSampleError(Exception):
    """The program runs on none of the sizes that were tried."""


def find_samples(program: ExportedProgram, decompose: Decompose) -> list[tuple[Point, ExportedProgram]]:
    """Sizes of the program's symbols, by their names, and the program decomposed for just these.

    One sample without sizes where none are open; NoSampleError where no sizes are found that all its ops take.
    """
    fixed, equal = _find_fixed_extents(program), find_equal(program)
    ranges = find_ranges(program)
    for name, other in equal.items():
        ranges[other] &= ranges.pop(name)
    pools = {name: _list_candidates(within.lower, within.upper, fixed) for name, within in ranges.items()}
    if not pools:
        return [({}, decompose(program))]
    made: list[tuple[Point, ExportedProgram]] = []
    refusals: list[str] = []
    chance, sizes = random.Random(0), _all_sizes(program)  # the same samples each time
    while len(made) < _COUNT and len(refusals) < _FAILURES:
        known = [point for point, _ in made]
        candidates = _candidates(known, pools, equal, len(refusals), chance)
        if not candidates:
            break
        # Of what a program does not take the best candidate may have the most: every other time it is any.
        point = (
            candidates[0] if len(refusals) % 2 else max(candidates, key=lambda p: _count_distinct([*known, p], sizes))
        )
        try:
            made.append((point, decompose(_trace_at(program, point))))
        except Exception as error:  # whatever an op says of sizes that it does not take
            refusals.append(str(error))
    if len(made) < 2:
        raise NoSampleError(refusals[-1] if refusals else "there is only one size")
    return made


def _candidates(
    known: Sequence[Point],
    pools: Mapping[str, Sequence[int]],
    equal: Mapping[str, str],
    refused: int,
    chance: random.Random,
) -> list[Point]:
    """Points that tell more than the known ones; none where chance finds none."""
    found: list[Point] = []
    for _ in range(_ATTEMPTS):
        point = {name: _choose_size(pool, refused, chance) for name, pool in pools.items()}
        point |= {name: point[other] for name, other in equal.items()}
        if _tells(known, point, pools, () if refused else _MODULI):
            found.append(point)
        if len(found) == _CANDIDATES:
            break
    return found


def _all_sizes(program: ExportedProgram) -> list[Any]:
    """Different sizes in a program, and which of two symbols is smaller: samples have to tell one from another."""
    values = (node.meta.get("val") for node in program.graph.nodes)
    shapes = (value.shape for value in values if isinstance(value, torch.Tensor))
    found = dict.fromkeys(n.node.expr for shape in shapes for n in shape if isinstance(n, torch.SymInt))
    symbols = sorted({s for expression in found for s in expression.free_symbols}, key=str)
    orders = [functions.Min(a, b) for a, b in itertools.combinations(symbols, 2)]
    return [*orders, *found][:_MOST_COMPARED]


def _count_distinct(points: Sequence[Point], sizes: Sequence[Any]) -> int:
    """How many of the sizes differ from all others at one of the points."""
    return len({tuple(_evaluate_at(size, point) for point in points) for size in sizes})


def find_ranges(program: ExportedProgram) -> dict[str, Any]:
    """The ranges of the program's symbols by their names; torch has such constraints for expressions, too."""
    return {str(size): within for size, within in program.range_constraints.items() if isinstance(size, sympy.Symbol)}


def find_equal(program: ExportedProgram) -> dict[str, str]:
    """Symbols that have to be equal, each with the first of them: a view has as many elements as it is of.

    ``torch.export`` gives two names to the batches of a query and its keys, and notes nowhere that they are one.
    """
    symbols, found = find_ranges(program), {}
    for node in program.graph.nodes if len(symbols) > 1 else ():
        pair = sorted(found.get(name, name) for name in _compare_view(node))
        if len(set(pair)) == 2 and all(name in symbols for name in pair):
            first, other = sorted(pair, key=list(symbols).index)
            found = {name: first if of == other else of for name, of in found.items()} | {other: first}
    return found


def _compare_view(node: Node) -> list[str]:
    """What is left of both numbers of elements that a view has, without common factors; nothing for another node."""
    match node.args:
        case (Node(meta={"val": torch.Tensor() as source}), list() as given) if node.target in _VIEWS:
            sizes = [n.meta.get("val") if isinstance(n, Node) else n for n in given]
        case _:
            return []
    known = [n for n in sizes if isinstance(n, torch.SymInt) or (isinstance(n, int) and n >= 0)]
    if len(known) < len(sizes):  # one of them is what is left
        return []
    return [str(part) for part in sympy.fraction(_count_elements(source.shape) / _count_elements(known))]


def _count_elements(sizes: Iterable[int | torch.SymInt]) -> Any:
    return sympy.prod(sympy.Integer(n) if isinstance(n, int) else n.node.expr for n in sizes)


def number_at(size: int | torch.SymInt, point: Point) -> int:
    """The value of a size at a sample."""
    if isinstance(size, int):
        return size
    return _evaluate_at(size.node.expr, point)


def _evaluate_at(expression: Any, point: Point) -> int:
    return int(expression.subs({symbol: point[str(symbol)] for symbol in expression.free_symbols}))


def _find_fixed_extents(program: ExportedProgram) -> set[int]:
    """The extents in a program that are numbers."""
    values = [node.meta.get("val") for node in program.graph.nodes]
    return {n for value in values if isinstance(value, torch.Tensor) for n in value.shape if isinstance(n, int)}


def _list_candidates(low: Any, high: Any, fixed: Collection[int]) -> Sequence[int]:
    """Of the sizes that a symbol may have those to choose from.

    Not 1, which is repeated in place of others, and rather none of the ``fixed`` extents: tensors that are alike by
    chance would let torch-mlir share what is not the same.
    """
    first = max(int(low), 2) if isinstance(low, sympy.Integer) else 2
    last = int(high) if isinstance(high, sympy.Integer) else max(first, _TYPICAL[0]) + len(_TYPICAL)
    near = range(min(first, last), min(last, first + len(_TYPICAL)) + 1)
    typical = [n for n in _TYPICAL if first <= n <= last]
    sizes = typical if len(typical) >= _WIDE else near
    others = [n for n in sizes if n not in fixed]
    return others if len(others) >= _COUNT else sizes


def _choose_size(pool: Sequence[int], refused: int, chance: random.Random) -> int:
    """A size; after some that were refused one with many divisors, as ops may want that."""
    rich = [n for n in pool if n % 12 == 0] if refused > 1 else []
    return chance.choice(rich or pool)


def _tells(known: Sequence[Point], point: Point, pools: Mapping[str, Sequence[int]], moduli: Sequence[int]) -> bool:
    """Return whether a sample tells more: its sizes differ from each other, and from those of ``known`` ones.

    What is one thing for even sizes and another for odd ones has to show, in all samples together: modulo ``moduli``
    not all are the same.
    """
    free = [name for name, pool in pools.items() if len(pool) > len(pools)]
    wide = [name for name in free if len(pools[name]) >= _WIDE]
    if point in known or len({point[name] for name in free}) < len(free):
        return False
    if any(p[name] == point[name] for p in known for name in wide):
        return False
    together = [*known, point]
    return len(together) < _COUNT or all(len({p[name] % m for p in together}) > 1 for name in wide for m in moduli)


def _trace_at(program: ExportedProgram, point: Point) -> ExportedProgram:
    """A copy that takes inputs of these sizes: what is decomposed is traced again from what the placeholders hold.

    NoSampleError for sizes that break what torch took for granted in the export, say that one is less than another: it
    knows of no such conditions any more, but the shapes that it noted are not those that there are.
    """
    noted = [node.meta.get("val") for node in program.graph.nodes]
    program = copy.copy(program)
    program._graph_module = copy.deepcopy(program.graph_module)
    program._range_constraints = {}
    mode = FakeTensorMode()  # the program's own knows its symbols
    for node in program.graph.nodes:
        value = node.meta.pop("val", None)
        if node.op == "placeholder":
            node.meta["val"] = _value_at(value, point, mode)
    if not any(isinstance(node.target, HigherOrderOperator) for node in program.graph.nodes):
        inputs = [node.meta["val"] for node in program.graph.find_nodes(op="placeholder")]
        with mode:
            _Checked(program.graph_module, dict(zip(program.graph.nodes, noted, strict=True)), point).run(*inputs)
    return program


class _Checked(Interpreter):
    """Computes shapes at a sample; NoSampleError for one that is not what ``noted`` says of it."""

    def __init__(self, graph: GraphModule, noted: Mapping[Node, Any], point: Point) -> None:
        super().__init__(graph)
        self._noted = noted
        self._number = functools.cache(lambda expression: _evaluate_at(expression, point))

    def run_node(self, n: Node) -> Any:
        made = super().run_node(n)
        self._compare(made, self._noted[n], n)
        return made

    def _compare(self, made: Any, noted: Any, node: Node) -> None:
        if isinstance(noted, torch.Tensor):
            shape = [n if isinstance(n, int) else self._number(n.node.expr) for n in noted.shape]
            if list(made.shape) != shape:
                raise NoSampleError(f"'{node.name}' would have the shape {shape}, and has {list(made.shape)}")
        elif isinstance(noted, (list, tuple)):
            for part, of_part in zip(made, noted, strict=True):
                self._compare(part, of_part, node)


def _value_at(value: Any, point: Point, mode: FakeTensorMode) -> Any:
    """A placeholder's value at a sample: a tensor of numbers for sizes, without memory."""
    if isinstance(value, torch.SymInt):
        return number_at(value, point)
    if not isinstance(value, torch.Tensor):
        return value
    shape, strides = ([number_at(n, point) for n in sizes] for sizes in (value.shape, value.stride()))
    with mode:
        return torch.empty_strided(shape, strides, dtype=value.dtype)
