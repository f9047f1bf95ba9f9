"""A random model that grows node by node, each evaluated by the oracle as soon as it is there.

So the generator knows every shape, and every number that a later node's inputs have to fit.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Sequence
from random import Random
from typing import Any

import numpy as np
import onnx
from fuzz.draws import Draws
from fuzz.schemas import Rejected, allowed_dtypes, check_dtypes, result_dtypes, schema_of
from fuzz.values import draw_array
from onnx import helper, numpy_helper

from tilewright.core.model import numpy_dtype
from tilewright.tools.debugging.oracle import NodeOracle, NoOracle, tensor_type, value_type

LARGEST = 1 << 14  # elements of any tensor
ML, MICROSOFT = "ai.onnx.ml", "com.microsoft"
OPSETS = (*(24, 21, 18, 17, 13) * 4, *(28, 26) * 2, 27, 25, 23, 22, 20, 19, 16, 15, 14, 12, 11, 10, 9, 8, 7)
FLOATS = ("float32",) * 12 + ("float64", "float16", "bfloat16")
INTEGERS = (*("int64", "int32") * 3, "int8", "uint8", "int16", "uint16", "uint32", "uint64")
DTYPES = (*FLOATS * 2, *INTEGERS, *("bool",) * 4)


class Graph(Draws):
    """Nodes, leaves (inputs, initialisers and Constant nodes) and the value of each tensor by name."""

    def __init__(self, random: Random) -> None:
        super().__init__(random)
        self.opset = random.choice(OPSETS)
        self.opsets = {"": self.opset, ML: random.choice((5, 5, 5, 4, 3, 2, 1)), MICROSOFT: 1}
        self.depth = 0  # of nested graphs, here
        self.nodes: list[onnx.NodeProto] = []
        self.inputs: dict[str, np.ndarray] = {}
        self.weights: dict[str, np.ndarray] = {}
        self.values: dict[str, Any] = {}  # tensors, and lists of them
        self.opaque: set[str] = set()  # what no other node may read, nor be a result
        self.operands: list[str] = []  # what a node may read: neither axes nor shapes

    # Draws.

    def integer(self, low: int, high: int) -> int:
        """A number from ``low`` to ``high``, both included."""
        if low > high:
            raise Rejected
        return self.random.randint(low, high)

    def some(self, choices: Sequence[Any], least: int = 0) -> list[Any]:
        """Some values in any order."""
        return self.random.sample(list(choices), self.integer(least, len(choices)))

    def axis(self, rank: int) -> int:
        """An axis, also from the end."""
        return self.integer(-rank, rank - 1)

    def axes(self, rank: int, least: int = 0) -> list[int]:
        """Some axes, also from the end."""
        return [a - rank if self.chance(0.3) else a for a in self.some(range(rank), least)]

    def extent(self) -> int:
        """Mostly small; 0 and 1 have rules of their own, and a few are longer than a vector."""
        kind = self.random.random()
        if kind < 0.02:
            return 0
        return 1 if kind < 0.2 else self.integer(2, 9) if kind < 0.93 else self.integer(10, 70)

    def shape_of(self, rank: int | tuple[int, int] = (0, 5)) -> tuple[int, ...]:
        """A shape of a rank, or one in a range."""
        low, high = (rank, rank) if isinstance(rank, int) else rank
        count = self.one_of([r for r in (0, 1, 1, 2, 2, 2, 3, 3, 4, 4, 5) if low <= r <= high] or [low])
        shape = [self.extent() for _ in range(count)]
        while math.prod(shape) > LARGEST // 4:
            shape[shape.index(max(shape))] = self.integer(1, 4)
        return tuple(shape)

    # Tensors.

    def shape(self, name: str) -> tuple[int, ...]:
        """A tensor's shape."""
        return self.values[name].shape

    def rank(self, name: str) -> int:
        """A tensor's rank."""
        return self.values[name].ndim

    def dtype(self, name: str) -> str:
        """A tensor's dtype, also "string"; "" for what is none."""
        value = self.values[name]
        if not isinstance(value, np.ndarray):
            return ""
        return "string" if _is_text(value) else value.dtype.name

    def leaf(self, array: np.ndarray, operand: bool = True) -> str:
        """An input, an initialiser or a Constant node."""
        name = f"{'x' if operand else 'c'}{len(self.values)}"
        kind = self.random.random()
        if not operand:  # axes, shapes and their like have to be known
            kind = 0.6 + 0.3 * kind
        if kind < 0.6:
            self.inputs[name] = array
        elif kind < 0.85 or ("string" if _is_text(array) else array.dtype.name) not in self.gives("Constant"):
            self.weights[name] = array
        else:
            self.nodes.append(helper.make_node("Constant", [], [name], value=numpy_helper.from_array(array)))
        self.values[name] = array
        if operand and not _is_text(array):
            self.operands.append(name)
        return name

    def known(self, numbers: Sequence[Any] | Any, dtype: str = "int64") -> str:
        """A constant: axes, a shape and their like."""
        return self.leaf(np.array(numbers, numpy_dtype(dtype)), operand=False)

    def fresh(self, dtype: str, shape: Sequence[int], style: str = "") -> str:
        """A new leaf with drawn values."""
        return self.leaf(draw_array(self.random, dtype, tuple(shape), style))

    def tensor(
        self,
        dtypes: Collection[str],
        rank: int | tuple[int, int] = (0, 5),
        where: Callable[[np.ndarray], bool] = lambda array: True,
        style: str = "",
    ) -> str:
        """A tensor for a node to read, mostly one that is there."""
        low, high = (rank, rank) if isinstance(rank, int) else rank
        fitting = [
            name
            for name in self.operands
            if self.dtype(name) in dtypes and low <= self.rank(name) <= high and where(self.values[name])
        ]
        if fitting and self.chance(0.85):  # the newest most of all, so that graphs become deep
            return self.one_of(fitting[-3:] if self.chance(0.6) else fitting)
        for _ in range(20):
            array = draw_array(self.random, self.one_of([d for d in DTYPES if d in dtypes]), self.shape_of(rank), style)
            if where(array):
                return self.leaf(array)
        raise Rejected

    def like(self, name: str, shape: Sequence[int], style: str = "") -> str:
        """A tensor of this shape and the dtype of another."""
        dtype, shape = self.dtype(name), tuple(shape)
        there = [o for o in self.operands if self.dtype(o) == dtype and self.shape(o) == shape]
        if there and not style and self.chance(0.6):
            return self.one_of(there)
        return self.fresh(dtype, shape, style)

    def partner(self, name: str, dtype: str = "", style: str = "") -> str:
        """A tensor that broadcasts with another one, of the same dtype unless given."""
        dtype, shape = dtype or self.dtype(name), self.shape(name)
        there = [o for o in self.operands if self.dtype(o) == dtype and _broadcasts(shape, self.shape(o))]
        if there and not style and self.chance(0.6):
            return self.one_of(there)
        made = [1 if self.chance(0.25) else self.integer(2, 6) if n == 1 and self.chance(0.3) else n for n in shape]
        if self.chance(0.3):
            made = made[self.integer(0, len(made)) :]
        elif len(made) < 5 and self.chance(0.1):
            made = [self.integer(1, 3), *made]
        if math.prod(np.broadcast_shapes(tuple(made), shape)) > LARGEST:
            raise Rejected
        return self.fresh(dtype, made, style)

    # Nodes.

    def allows(self, op: str, index: int = 0) -> list[str]:
        """The dtypes of an input that the op's schema has at this opset."""
        return allowed_dtypes(op, self.opset, index)

    def gives(self, op: str, index: int = 0) -> list[str]:
        """The dtypes of an output that the op's schema has at this opset."""
        return result_dtypes(op, self.opset, index)

    def has_attribute(self, op: str, name: str) -> bool:
        """Whether the op has this attribute at this opset."""
        return name in schema_of(op, self.opset).attributes

    def node(
        self, op: str, inputs: Sequence[str | None], outputs: int = 1, domain: str = "", **attributes: Any
    ) -> list[str]:
        """Add a node; Rejected where the schema or the oracle does not take it. Attributes that are None are left out.

        What is no tensor is for its entry alone to read.
        """
        names = [name or "" for name in inputs]
        while names and not names[-1]:
            names.pop()
        opset = self.opsets[domain]
        if domain != MICROSOFT:  # of which onnx has no schemas
            check_dtypes(op, opset, [self.dtype(name) if name else "" for name in names], domain)
        results = [f"y{len(self.values) + i}" for i in range(outputs)]
        given = {key: value for key, value in attributes.items() if value is not None}
        if domain != MICROSOFT and not given.keys() <= schema_of(op, opset, domain).attributes.keys():
            raise Rejected
        node = helper.make_node(op, names, results, f"{op}_{len(self.nodes)}", domain=domain, **given)
        try:
            made = NodeOracle(node, [helper.make_opsetid(*pair) for pair in self.opsets.items()])(
                {**self.values, "": None}
            )
        except NoOracle as error:
            raise Rejected(str(error)) from error
        tensors = {name: a for name, a in made.items() if isinstance(a, np.ndarray)}
        if any(a.size > LARGEST or a.ndim > 6 for a in tensors.values()):
            raise Rejected
        self.nodes.append(node)
        self.values |= made
        self.operands += [name for name, a in tensors.items() if not _is_text(a)]
        return results

    def subgraph(
        self, build: Callable[..., Sequence[str]], values: Sequence[np.ndarray] = (), shaped: bool = True
    ) -> onnx.GraphProto:
        """What ``build`` adds here as a nested graph, which reads the outer values by name.

        ``build`` takes the names of the nested graph's inputs, for each of which an example value is given, and returns
        those of its outputs. Shapes of both are written down if ``shaped``, those of rank 0 always.
        """
        at, operands = len(self.nodes), list(self.operands)
        weights = dict(self.weights)
        formals = [f"b{len(self.values) + i}" for i in range(len(values))]
        self.values |= dict(zip(formals, values, strict=True))
        self.operands += formals
        self.depth += 1
        results = list(build(*formals))
        self.depth -= 1
        nodes = self.nodes[at:]
        del self.nodes[at:]
        kinds = [self._kind(self.values[name], shaped) for name in results]
        made = {name for node in nodes for name in node.output}
        for i, name in enumerate(results):  # an output has to be the graph's own, and one alone
            if name not in made or name in results[:i]:
                nodes.append(helper.make_node("Identity", [name], [f"{name}_out{at}_{i}"]))
                results[i] = nodes[-1].output[0]
        own = {name: a for name, a in self.weights.items() if name not in weights}
        for name in own:
            del self.weights[name]
        # Inputs that came with it are the model's, and in sight.
        self.operands = operands + [name for name in self.inputs if name not in operands]
        inputs = [helper.make_value_info(name, self._kind(a, shaped)) for name, a in zip(formals, values, strict=True)]
        outputs = [helper.make_value_info(name, kind) for name, kind in zip(results, kinds, strict=True)]
        tensors = [numpy_helper.from_array(a, name) for name, a in own.items()]
        return helper.make_graph(nodes, f"body_{at}_{len(self.values)}", inputs, outputs, tensors)

    def _kind(self, value: np.ndarray, shaped: bool) -> onnx.TypeProto:
        return helper.make_tensor_type_proto(tensor_type(value), value.shape if shaped or not value.ndim else None)

    def results(self) -> list[str]:
        """The names of the outputs: the tensors that no node reads, and a few others."""
        reads = self._reads()
        made = [name for node in self.nodes if node.op_type != "Constant" for name in node.output]
        made = [name for name in made if isinstance(self.values[name], np.ndarray) and name not in self.opaque]
        return [name for name in made if name not in reads or self.chance(0.15)]

    def _reads(self) -> set[str]:
        from tilewright.tools.debugging.oracle import find_reads

        return {name for node in self.nodes for name in find_reads(node)}

    def model(self, results: Sequence[str]) -> onnx.ModelProto:
        """The model with these outputs."""
        used = self._reads() | set(results)
        opsets = [helper.make_opsetid(*pair) for pair in self.opsets.items()]
        graph = helper.make_graph(
            self.nodes,
            "fuzz",
            [helper.make_value_info(name, value_type(a)) for name, a in self.inputs.items() if name in used],
            [helper.make_value_info(name, value_type(self.values[name])) for name in results],
            [numpy_helper.from_array(a, name) for name, a in self.weights.items() if name in used],
        )
        self.inputs = {name: a for name, a in self.inputs.items() if name in used}
        return helper.make_model(graph, opset_imports=opsets, ir_version=10)


def _is_text(array: np.ndarray) -> bool:
    """Whether the elements are text: such a tensor is for its entry alone to read."""
    return array.dtype.kind in "OU"


def _broadcasts(a: tuple[int, ...], b: tuple[int, ...]) -> bool:
    try:
        return math.prod(np.broadcast_shapes(a, b)) <= LARGEST
    except ValueError:
        return False
