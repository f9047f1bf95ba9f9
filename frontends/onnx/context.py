"""What a converter sees of the import: its node, and the making of tensors."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NoReturn

import numpy as np
import onnx

from ...dialects import builders, ir, scalars
from ...dialects.types import element_type, is_float
from ...errors import ModelError
from ...model import numpy_dtype
from .tensor import Tensor

if TYPE_CHECKING:
    from .graph import Graph

Body = Callable[..., ir.Value]
KNOWN_LIMIT = 1 << 16  # elements of a weight that ``known`` reads from the file when a converter demands its value


class Unsupported(Exception):
    """A converter's refusal; the importer turns all of them into one UnsupportedError."""


class Context:
    """One node's conversion. Methods emit at the current insertion point."""

    def __init__(self, graph: Graph, node: onnx.NodeProto, name: str, opset: int) -> None:
        self.graph = graph
        self.node = node
        self.name = name  # the node's name, or one made of op type and position
        self.opset = opset

    def unsupported(self, reason: str) -> NoReturn:
        """Refuse this node; the reason says what about it is not supported."""
        raise Unsupported(reason)

    def invalid(self, reason: str) -> NoReturn:
        """Refuse the model: this node breaks ONNX's own rules."""
        raise ModelError(f"node '{self.name}' ({self.node.op_type}): {reason}")

    def wants(self, index: int) -> bool:
        """Whether the model uses the output of this index."""
        return index < len(self.node.output) and self.node.output[index] != ""

    def wrap(self, value: ir.Value, dtype: str) -> Tensor:
        """An SSA value that was made here as a Tensor."""
        return Tensor(dtype, builders.shape_of(value), lambda: value)

    def const(self, array: np.ndarray | Sequence[int] | float, dtype: str | None = None) -> Tensor:
        """A known array of any size: in the IR a constant if it is small or a splat, else a param."""
        made = np.asarray(array) if dtype is None else np.asarray(array).astype(numpy_dtype(dtype), copy=False)
        return self.graph.known(made, dtype or made.dtype.name, self.name)

    def known(self, tensor: Tensor, what: str) -> np.ndarray:
        """The value of an input that must be known at import; ``what`` is the input's name in the schema."""
        if tensor.known is not None:
            return tensor.known
        if tensor.load is not None and tensor.size <= KNOWN_LIMIT:
            return tensor.load()
        self.unsupported(f"input '{what}' must be a constant, here it is computed from the model's inputs")

    def ints(self, tensor: Tensor, what: str) -> list[int]:
        """``known`` as a list of Python integers, for axes, shapes and the like."""
        return [int(i) for i in self.known(tensor, what).reshape(-1)]

    def axis(self, axis: int, rank: int) -> int:
        """A possibly negative axis as one of 0 … rank - 1."""
        if not -rank <= axis < rank:
            self.invalid(f"axis {axis} is out of range for rank {rank}")
        return axis % rank if rank else 0

    def axes(self, axes: Sequence[int], rank: int) -> list[int]:
        """Several axes, made non-negative; an axis may not appear twice."""
        made = [self.axis(int(axis), rank) for axis in axes]
        if len(set(made)) != len(made):
            self.invalid(f"an axis appears twice in {list(axes)}")
        return made

    def broadcast_shape(self, *tensors: Tensor) -> tuple[int, ...]:
        """The common shape of tensors by numpy's rules."""
        try:
            return np.broadcast_shapes(*(t.shape for t in tensors))
        except ValueError:
            self.invalid(f"shapes {' and '.join(str(list(t.shape)) for t in tensors)} do not broadcast")

    def elementwise(
        self, body: Body, *tensors: Tensor, dtype: str | None = None, shape: tuple[int, ...] | None = None
    ) -> Tensor:
        """``body`` on each element, with broadcasting; the result's dtype is the first tensor's unless given.

        The body sees floats narrower than f32 as f32 and bools as i8, and may return an i1 for a bool. Operands that
        are known to have the same value everywhere come as constants inside the body.
        """
        shape = self.broadcast_shape(*tensors) if shape is None else shape
        operands = [t for t in tensors if splat(t) is None]

        def with_constants(*args: ir.Value) -> ir.Value:
            left = iter(args)
            return body(*(next(left) if (s := splat(t)) is None else self._scalar(s, t.dtype) for t in tensors))

        dtype = dtype or tensors[0].dtype
        values = [t.value for t in operands]
        return self.wrap(builders.elementwise(with_constants, *values, shape=shape, elem=element_type(dtype)), dtype)

    def reduce(
        self,
        body: Body,
        init: float | int,
        x: Tensor,
        axes: Sequence[int],
        keepdims: bool = False,
    ) -> Tensor:
        """``acc = body(acc, element)`` over axes (which may be negative)."""
        dropped = self.axes(axes, x.rank)
        result = builders.reduce(body, init, x.value, dropped)
        if keepdims:
            result = builders.reshape(result, [1 if i in dropped else n for i, n in enumerate(x.shape)])
        return self.wrap(result, x.dtype)

    def reshape(self, x: Tensor, shape: Sequence[int]) -> Tensor:
        """The same elements under another shape."""
        return x if tuple(shape) == x.shape else self.wrap(builders.reshape(x.value, shape), x.dtype)

    def transpose(self, x: Tensor, perm: Sequence[int]) -> Tensor:
        """``result.shape[i] = x.shape[perm[i]]``."""
        return self.wrap(builders.transpose(x.value, perm), x.dtype)

    def broadcast(self, x: Tensor, shape: Sequence[int]) -> Tensor:
        """``x`` repeated to a shape that it broadcasts to."""
        return x if tuple(shape) == x.shape else self.elementwise(lambda a: a, x, shape=tuple(shape))

    def cast(self, x: Tensor, dtype: str) -> Tensor:
        """``x`` converted as ONNX's Cast does (floats to integers toward zero)."""
        if x.dtype == dtype:
            return x
        from .convert import cast  # the rule lives apart: it is long

        return cast(self, x, dtype)

    def scalar(self, number: float | int, dtype: str) -> ir.Value:
        """A scalar constant as bodies compute with it."""
        return scalars.const(number, scalars.compute_type(element_type(dtype)))

    def _scalar(self, item: np.generic, dtype: str) -> ir.Value:
        return self.scalar(float(item) if is_float(dtype) else int(item), dtype)

    def subgraph(self, graph: onnx.GraphProto, inputs: Sequence[Tensor] = ()) -> list[Tensor]:
        """Convert a nested graph here, with its inputs bound and the outer names in sight; gives its outputs."""
        return self.graph.convert_subgraph(graph, inputs)


def splat(tensor: Tensor) -> np.generic | None:
    """The one value of a known tensor that has the same everywhere, else None."""
    known = tensor.known
    if known is None or known.size == 0 or not builders.is_splat(known):
        return None
    return known.reshape(-1)[0] if known.ndim == 0 else known[(0,) * known.ndim]
