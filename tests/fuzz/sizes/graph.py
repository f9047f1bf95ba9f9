"""A random graph whose inputs' extents are names, and the sizes and numbers that it is run on.

Each value's shape is known as a text of the names, so that nodes fit whatever the sizes are. Nothing is evaluated.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from random import Random
from typing import Any

import numpy as np
import onnx
from fuzz.draws import Draws
from fuzz.schemas import Rejected
from onnx import helper, numpy_helper

NAMES: tuple[str, ...] = ("n", "m", "k", "l")
SMALL, PRIMES = (2, 3, 4, 5), (2, 3, 5, 7, 11, 13, 17, 31, 37, 61)
LARGE = (97, 128, 255, 509, 1000)
MOST_ELEMENTS = 1 << 18  # of any tensor
BINDINGS = 5
OPSET = 18
Dim = int | str
Binding = dict[str, int]


@dataclass(frozen=True)
class Value:
    """What is known of a tensor: ``bound`` is the most that an element may be; ``exact`` says that no rounding made it,
    so that it may be compared."""

    dtype: str
    dims: tuple[Dim, ...]
    bound: float = 4.0
    exact: bool = False

    @property
    def rank(self) -> int:
        """How many dims there are."""
        return len(self.dims)


@dataclass(frozen=True)
class Input:
    """``below`` is the dim that numbers used as positions have to stay below; positive ones are no nearer to 0 than 0.5."""

    dtype: str
    dims: tuple[Dim, ...]
    exact: bool = False
    below: Dim | None = None
    positive: bool = False


@dataclass(frozen=True)
class Theme:
    """What a graph is made of: its names and the sizes that each is drawn from, where these are its own, and bounds of a
    tensor's elements and of a node's work. ``held`` is the share of names that keep one size."""

    names: tuple[str, ...] = ()
    pools: Mapping[str, Sequence[int]] = field(default_factory=dict)
    most_elements: int = MOST_ELEMENTS
    most_work: int = 1 << 31
    held: float = 0.0


def extent(dim: Dim, binding: Mapping[str, int]) -> int:
    """A dim's number."""
    return dim if isinstance(dim, int) else int(eval(dim, {"__builtins__": {}}, {**_FUNCTIONS, **binding}))


_FUNCTIONS = {"max": max, "fit": lambda a, b: b if a == 1 else a}


def plus(*dims: Dim) -> Dim:
    """The sum of dims."""
    return _joined(dims, " + ", sum)


def times(*dims: Dim) -> Dim:
    """The product of dims."""
    return _joined([d for d in dims if d != 1] or [1], " * ", math.prod)


def _joined(dims: Sequence[Dim], sign: str, function: Callable[[Iterable[int]], int]) -> Dim:
    if len(dims) == 1:
        return dims[0]
    numbers = [d for d in dims if isinstance(d, int)]
    return function(numbers) if len(numbers) == len(dims) else f"({sign.join(map(str, dims))})"


class Graph(Draws):
    """Nodes, inputs and what is known of each value."""

    def __init__(self, random: Random, theme: Theme | None = None) -> None:
        super().__init__(random)
        self.theme = theme or Theme()
        self.names: tuple[str, ...] = self.theme.names or NAMES[: random.choice((2, 2, 3, 3, 4))]
        self.works: list[Dim] = []  # products of sizes that a node takes so many multiplications for
        self.nodes: list[onnx.NodeProto] = []
        self.inputs: dict[str, Input] = {}
        self.weights: dict[str, np.ndarray] = {}
        self.values: dict[str, Value] = {}
        self._count = 0

    # Draws.

    def dim(self) -> Dim:
        """A dim of an input: a name most of the time."""
        return self.one_of(self.names) if self.chance(0.8) else self.one_of((1, 1, 2, 3, 4, 8))

    def dims(self, low: int = 1, high: int = 3) -> tuple[Dim, ...]:
        """The dims of an input."""
        rank = self.one_of([r for r in (0, 1, 1, 1, 2, 2, 3) if low <= r <= high] or [low])
        return tuple(self.dim() for _ in range(rank))

    # Values.

    def fresh_name(self, begin: str) -> str:
        """A name that no value has."""
        self._count += 1
        return f"{begin}{self._count}"

    def input(self, dtype: str, dims: Sequence[Dim], **facts: Any) -> str:
        """A new input; Rejected where a dim is none that an input can have."""
        if any(isinstance(d, str) and d not in self.names for d in dims):
            raise Rejected
        name = self.fresh_name("x")
        exact = facts.pop("exact", self.chance(0.5)) or dtype[0] != "f"
        self.inputs[name] = Input(dtype, tuple(dims), exact=exact, **facts)
        self.values[name] = Value(dtype, tuple(dims), 4.0, exact)
        return name

    def known(self, numbers: Any, dtype: str = "int64") -> str:
        """A constant."""
        name = self.fresh_name("c")
        self.weights[name] = np.asarray(numbers, dtype)
        return name

    def tensor(
        self,
        dtypes: Collection[str] = ("float32",),
        low: int = 0,
        high: int = 4,
        where: Callable[[Value], bool] = lambda value: True,
    ) -> str:
        """A tensor for a node to read, mostly one that is there."""
        fitting = [name for name, v in self.values.items() if v.dtype in dtypes and low <= v.rank <= high and where(v)]
        if fitting and self.chance(0.85):
            return self.one_of(fitting[-3:] if self.chance(0.6) else fitting)
        dims = self.dims(max(low, 1), max(min(high, 3), low))
        name = self.input(self.one_of(sorted(dtypes)), dims)
        if not where(self.values[name]):
            raise Rejected
        return name

    def partner(self, name: str, dtype: str = "") -> str:
        """A tensor that broadcasts with another one; now and then one that does so for some sizes alone."""
        value = self.values[name]
        dtype = dtype or value.dtype
        others = [o for o, v in self.values.items() if v.dtype == dtype and o != name and fits(v.dims, value.dims)]
        if others and self.chance(0.6):
            return self.one_of(others[-4:])
        if self.chance(0.08):
            return self.input(dtype, [self.dim() for _ in value.dims])
        dims = [1 if self.chance(0.25) else d for d in value.dims]
        if self.chance(0.3):
            dims = dims[self.random.randint(0, len(dims)) :]
        return self.input(dtype, dims)

    def node(self, op: str, inputs: Sequence[str], *made: Value, domain: str = "", **attributes: Any) -> str:
        """Add a node; gives its first result's name."""
        if any(v.bound > 1e6 or v.rank > 5 for v in made):
            raise Rejected
        names = [self.fresh_name("y") for _ in made]
        given = {key: value for key, value in attributes.items() if value is not None}
        self.nodes.append(helper.make_node(op, inputs, names, f"{op}_{len(self.nodes)}", domain=domain, **given))
        self.values |= dict(zip(names, made, strict=True))
        return names[0]

    def size_of(self, name: str, axis: int) -> str:
        """A vector of one element: an extent of a tensor, as a shape is made of."""
        made = self.node("Shape", [name], Value("int64", (1,), 1000, True), start=axis, end=axis + 1)
        del self.values[made]  # it is for shapes alone
        return made

    def hidden(self, op: str, inputs: Sequence[str], made: Value, **attributes: Any) -> str:
        """A node whose result only this entry reads."""
        name = self.node(op, inputs, made, **attributes)
        del self.values[name]
        return name

    # The model.

    def model(self) -> onnx.ModelProto:
        """The model; its outputs are what no node reads, at most four."""
        read = {name for node in self.nodes for name in _read(node)}
        made = [name for node in self.nodes for name in node.output if name in self.values]
        outputs = [name for name in made if name not in read][-4:]
        if not outputs:
            raise Rejected
        kept, wanted = [], set(outputs)
        for node in reversed(self.nodes):
            if wanted.intersection(node.output):
                kept.insert(0, node)
                wanted.update(_read(node))
        self.inputs = {name: i for name, i in self.inputs.items() if name in wanted}
        graph = helper.make_graph(
            kept,
            "sizes",
            [helper.make_tensor_value_info(n, _kind(i.dtype), i.dims) for n, i in self.inputs.items()],
            [helper.make_tensor_value_info(n, _kind(self.values[n].dtype), None) for n in outputs],
            [numpy_helper.from_array(a, n) for n, a in self.weights.items() if n in wanted],
        )
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=8)

    def bindings(self) -> list[Binding]:
        """Sizes for the names: different primes first, then each name's for itself."""
        found: list[Binding] = [dict(zip(self.names, self.random.sample(PRIMES[1:6], len(self.names)), strict=True))]
        held: Binding = {}
        if self.theme.names:
            held = {name: self._size(name) or 1 for name in self.names if self.chance(self.theme.held)}
            found = []
        for _ in range(200):
            if len(found) == BINDINGS:
                break
            drawn = {name: self._size(name) for name in self.names} | held
            if drawn not in found and self._fits(drawn):
                found.append(drawn)
        return found

    def _size(self, name: str) -> int:
        if name in self.theme.pools:
            return self.random.choice(self.theme.pools[name])
        kind = self.random.random()
        pool = (
            (0,) if kind < 0.07 else (1,) if kind < 0.25 else LARGE if kind < 0.4 else SMALL if kind < 0.6 else PRIMES
        )
        return self.random.choice(pool)

    def _fits(self, binding: Binding) -> bool:
        least = all(extent(work, binding) <= self.theme.most_work for work in self.works)
        most = self.theme.most_elements
        return least and all(math.prod(extent(d, binding) for d in v.dims) <= most for v in self.values.values())

    def arrays(self, binding: Binding, seed: int) -> dict[str, np.ndarray]:
        """The inputs for these sizes."""
        generator = np.random.default_rng([seed, *binding.values()])
        return {name: _drawn(generator, i, binding) for name, i in self.inputs.items()}


def _drawn(generator: np.random.Generator, given: Input, binding: Binding) -> np.ndarray:
    shape = tuple(extent(d, binding) for d in given.dims)
    if given.dtype == "bool":
        return np.asarray(generator.random(shape) < 0.5)
    if given.below is not None:
        return np.asarray(generator.integers(0, max(extent(given.below, binding), 1), shape), given.dtype)
    if given.exact:
        return np.asarray(generator.integers(1 if given.positive else -4, 5, shape)).astype(given.dtype)
    made = generator.uniform(0.5 if given.positive else -2, 2, shape)
    return np.asarray(made).astype(given.dtype)


def fits(a: Sequence[Dim], b: Sequence[Dim]) -> bool:
    """Whether two shapes broadcast, whatever the sizes are."""
    return all(x == y or 1 in (x, y) for x, y in zip(a[::-1], b[::-1], strict=False))


def broadcast(*shapes: Sequence[Dim]) -> tuple[Dim, ...]:
    """What shapes make together; those that do so for some sizes alone too."""
    made: list[Dim] = [1] * max(map(len, shapes))
    for shape in shapes:
        for at, dim in enumerate(shape, len(made) - len(shape)):
            if made[at] == 1:
                made[at] = dim
            elif dim not in (1, made[at]):
                made[at] = f"fit({made[at]}, {dim})"
    return tuple(made)


def changed(value: Value, **facts: Any) -> Value:
    """The value with other facts."""
    return replace(value, **facts)


def _read(node: onnx.NodeProto) -> list[str]:
    nested = [n for a in node.attribute if a.type == onnx.AttributeProto.GRAPH for n in _outer(a.g)]
    return [*node.input, *nested]


def _outer(graph: onnx.GraphProto) -> list[str]:
    return [name for node in graph.node for name in _read(node)]


def _kind(dtype: str) -> int:
    return helper.np_dtype_to_tensor_dtype(np.dtype(dtype))


Entries = Sequence[tuple[Callable[[Graph], None], float]]  # each adds a node or a few; how often it is drawn
