"""What a converter sees of the import: its node, and the making of tensors."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NoReturn

import numpy as np
import onnx

from ....core.errors import ModelError
from ....core.model import NARROW, OBJECTS, bits_of, check_size, numpy_dtype
from ....core.program import COLLECTIONS
from ....core.sizes import Extent, has_dynamic_extents, may_be_equal
from ....dialects import builders, codes, extents, ir, positions, scalars, tensor
from ....dialects.types import DYNAMIC, element_type, is_float
from ..values.objects import OBJECT_KINDS, Element, Object
from ..values.tensor import Tensor
from .casts import cast_body
from .graph_state import GraphState
from .refusals import Unsupported

Body = Callable[..., ir.Value]
KNOWN_LIMIT = 1 << 16  # elements of a weight that ``known`` reads from the file when a converter demands its value


class Context:
    """One node's conversion. Methods emit at the current insertion point."""

    def __init__(self, graph: GraphState, node: onnx.NodeProto, name: str, opset: int) -> None:
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

    def note(self, text: str) -> None:
        """Tell the user something about the model that is no error, in a sentence that names the node."""
        self.graph.notes[text] = None

    def wants(self, index: int) -> bool:
        """Whether the model uses the output of this index."""
        return index < len(self.node.output) and self.node.output[index] != ""

    def wrap(self, value: ir.Value, dtype: str) -> Tensor:
        """An SSA value that was made here as a Tensor."""
        return Tensor(dtype, builders.shape_of(value), lambda: value)

    def const(self, array: np.ndarray | Sequence[int] | float, dtype: str | None = None) -> Tensor:
        """A known array of any size: in the IR a constant if it is small or a splat, else a param."""
        made = np.asarray(array) if dtype is None else np.asarray(array).astype(numpy_dtype(dtype), copy=False)
        return self.graph.entry.add_known(made, dtype or made.dtype.name, self.name)

    def demand_known(self, tensor: Tensor, what: str) -> np.ndarray:
        """The value of an input that must be known at import; ``what`` is the input's name in the schema."""
        if tensor.known is not None:
            return tensor.known
        if tensor.load is not None and int(tensor.size) <= KNOWN_LIMIT:
            return tensor.load()
        raise Unsupported(f"input '{what}' must be a constant, here it is computed from the model's inputs", "constant")

    def is_known(self, tensor: Tensor) -> bool:
        """Whether ``known`` would give the tensor's value."""
        return tensor.known is not None or (tensor.load is not None and int(tensor.size) <= KNOWN_LIMIT)

    def sizes(self, tensor: Tensor, what: str, low: int | None = None, count: int | None = None) -> list[Extent]:
        """An integer tensor's elements as sizes; those that only the run knows are read from it there.

        ``count`` is how many there have to be, where the op says so: a tensor of an open number of elements needs it.
        ``low`` is what they are at least, where that is sure.
        """
        misfit = f"input '{what}' of shape {list(tensor.shape)} must have {count} elements"
        if count is not None and isinstance(tensor.size, int) and tensor.size != count:
            self.invalid(misfit)
        if self.is_known(tensor):
            return list(self.ints(tensor, what))
        if tensor.items is not None:
            return list(tensor.items)
        if self.graph.in_kernel:  # which has no sizes of its own
            return list(self.ints(tensor, what))
        if tensor.is_dynamic:
            if count is None:
                self.unsupported(f"the number of elements of input '{what}' is known only at run time")
            tensor = self.fit_shape(self.reshape(tensor, [tensor.size]), [count], misfit)
        flat = self.reshape(tensor, [tensor.size]).value
        found = []
        for i in range(int(tensor.size)):
            item = builders.extract(flat, [extents.index(i)])
            found.append(extents.fresh(scalars.to_index(item, tensor.signed), f"{what}[{i}]", low))
        return found

    def of_sizes(self, items: Sequence[Extent], shape: Sequence[int] | None = None, dtype: str = "int64") -> Tensor:
        """A small integer tensor of sizes; one of numbers alone is a constant."""
        shape = (len(items),) if shape is None else tuple(shape)
        if not has_dynamic_extents(items):
            return self.const(np.array(items, numpy_dtype(dtype)).reshape(shape), dtype)
        elem = element_type(dtype)
        elements = [scalars.from_index(extents.index(item), elem) for item in items]
        value = tensor.FromElementsOp(builders.ranked_type(shape, elem), elements).result
        return Tensor(dtype, shape, lambda: value, items=tuple(items))

    def ints(self, tensor: Tensor, what: str) -> list[int]:
        """``known`` as a list of Python integers, for axes, shapes and the like."""
        return [int(i) for i in self.demand_known(tensor, what).reshape(-1)]

    def host(
        self, function: str, inputs: Sequence[Tensor], *results: Element, **attributes: object
    ) -> tuple[Tensor, ...]:
        """A call of a function of the host (``runtime/steps/host.py``); a tensor among the results has a known rank."""
        if self.graph.in_kernel:
            self.unsupported("the host computes it, inside of what is one kernel")
        if function not in COLLECTIONS:  # which is the program's own
            self.graph.refusals.hosted.add(self.graph.scope.place(self.node))
        values = [t.value for t in inputs]
        for t, value in zip(inputs, values, strict=True):  # else the host would read what is no memory
            if isinstance(value.type, ir.NoneType) != (t.dtype in OBJECT_KINDS):
                self.unsupported("the rank of an operand is known only at run time")
        types = [self._host_type(result) for result in results]
        dtypes = [t.dtype for t in inputs], [result.dtype for result in results]
        call = self.graph.entry.call_host(function, values, types, attributes, dtypes)
        return tuple(self._host_result(v, r) for v, r in zip(call.results, results, strict=True))

    def _host_type(self, result: Element) -> ir.Type:
        if result.dtype in OBJECT_KINDS:
            return ir.NoneType.get()
        assert result.rank is not None  # as who asks for it has made sure
        return ir.RankedTensorType.get([DYNAMIC] * result.rank, element_type(result.dtype))

    def _host_result(self, value: ir.Value, result: Element) -> Tensor:
        if result.dtype in OBJECT_KINDS:
            return Object(result, lambda: value)
        return self.wrap(value, result.dtype)

    def as_shape(self, x: Tensor, shape: Sequence[Extent]) -> Tensor:
        """The tensor, whose extents are known to be these; the program checks that when it runs."""
        return self.wrap(builders.cast_shape(x.value, shape), x.dtype)

    def fit_shape(self, x: Tensor, shape: Sequence[Extent], misfit: str) -> Tensor:
        """The tensor, which has to have a shape, with the extents of either that are numbers.

        ``misfit`` is what to say where it has another one: a ModelError, or of what only the run knows, an InputError.
        """
        if not may_be_equal(x.shape, shape):
            self.invalid(misfit)
        for own, wanted in zip(x.shape, shape, strict=True):
            self.demand_equal(own, wanted, misfit)
        return self.refine(x, shape)

    def demand_shape(self, x: Tensor, what: str, *shape: Extent | None) -> Tensor:
        """The tensor, ``fit_shape`` to a shape that a declaration cannot say; None stands for any extent."""
        wanted = ", ".join("any" if n is None else str(n) for n in shape)
        misfit = f"{what} has shape {list(x.shape)}, it must be [{wanted}]"
        if x.rank != len(shape):
            self.invalid(misfit)
        return self.fit_shape(x, [n if m is None else m for n, m in zip(x.shape, shape, strict=True)], misfit)

    def refine(self, x: Tensor, shape: Sequence[Extent]) -> Tensor:
        """The tensor, which is known to have a shape, with the extents of either that are numbers."""
        fitting = tuple(n if isinstance(n, int) else m for n, m in zip(x.shape, shape, strict=True))
        return x if fitting == x.shape else self.as_shape(x, fitting)

    def repeatable(self, x: Tensor, shape: Sequence[Extent], misfit: str) -> Tensor:
        """The tensor, which has to broadcast to a shape; where it does not, as ``fit_shape``.

        Where only the run knows whether an extent of it is 1, the program repeats it then.
        """
        if x.rank > len(shape):
            self.invalid(misfit)
        covered = shape[len(shape) - x.rank :]
        wanted = [1 if m == 1 else n for n, m in zip(covered, x.shape, strict=True)]
        if not has_dynamic_extents(x.shape) or not may_be_equal(x.shape, wanted):
            return self.fit_shape(x, wanted, misfit)
        return self.wrap(builders.stretch(x.value, wanted), x.dtype)

    def divisible(self, x: Tensor, axis: int, by: Extent, misfit: str) -> Tensor:
        """The tensor, whose extent along an axis has to be a multiple of ``by``; where it is not, as ``fit_shape``."""
        if isinstance(by, int) and by < 1:
            self.invalid(misfit)
        return self.fit_shape(x, [n // by * by if i == axis else n for i, n in enumerate(x.shape)], misfit)

    def demand_equal(self, a: Extent, b: Extent, otherwise: str) -> None:
        """Refuse sizes that differ, at import or, where only that knows them, when the program runs."""
        extents.demand_equal(a, b, otherwise)

    def demand_less(self, a: Extent, b: Extent, otherwise: str) -> None:
        """Refuse sizes unless the first is the smaller one, at import or when the program runs."""
        extents.demand_less(a, b, otherwise)

    def demand_size(self, shape: Sequence[Extent], dtype: str) -> None:
        """Refuse a result that is larger than the limits allow, before memory is taken for it."""
        check_size(shape, dtype, f"node '{self.name}' ({self.node.op_type}): its output", self.graph.detached.limits)

    def demand_within(self, x: Tensor, low: Extent, high: Extent, otherwise: str) -> None:
        """Refuse integers of a tensor that are not from ``low`` to below ``high``, 0 among them, when the program runs.

        ``otherwise`` ends in words that the number goes behind. Who reads what the integers index holds them within it
        in any case.
        """
        if 0 not in x.shape:
            positions.report_outside(x.value, low, high, otherwise, x.signed)

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

    def broadcast_shape(self, *tensors: Tensor) -> tuple[Extent, ...]:
        """The common shape of tensors by numpy's rules."""
        try:
            return builders.broadcast_shape(*(t.shape for t in tensors))
        except ValueError:
            self.invalid(f"shapes {' and '.join(str(list(t.shape)) for t in tensors)} do not broadcast")

    def elementwise(
        self, body: Body, *tensors: Tensor, dtype: str | None = None, shape: tuple[Extent, ...] | None = None
    ) -> Tensor:
        """``body`` on each element, with broadcasting; the result's dtype is the first tensor's unless given.

        The body sees floats narrower than f32 as f32, and bools and narrow integers as i8; it may return an i1 for a
        bool, and a code for a float that is stored as one. Operands that are known to have the same value everywhere
        come as constants inside the body.
        """
        shape = self.broadcast_shape(*tensors) if shape is None else shape
        operands = [t for t in tensors if splat(t) is None]
        if wide := next((t for t in operands if t.rank > len(shape)), None):
            self.invalid(f"an operand of shape {list(wide.shape)} does not broadcast to {list(shape)}")
        dtype = dtype or tensors[0].dtype

        def with_constants(*args: ir.Value) -> ir.Value:
            left = iter(args)
            numbers = [
                codes.decode(next(left), t.dtype) if (s := splat(t)) is None else self._scalar(s, t.dtype)
                for t in tensors
            ]
            return codes.encode(body(*numbers), dtype)

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

    def reshape(self, x: Tensor, shape: Sequence[Extent]) -> Tensor:
        """The same elements under another shape."""
        return x if tuple(shape) == x.shape else self.wrap(builders.reshape(x.value, shape), x.dtype)

    def transpose(self, x: Tensor, perm: Sequence[int]) -> Tensor:
        """``result.shape[i] = x.shape[perm[i]]``."""
        return self.wrap(builders.transpose(x.value, perm), x.dtype)

    def zeros(self, shape: Sequence[Extent], dtype: str) -> Tensor:
        """Zeros of any shape, which are a constant where the shape is known."""
        if has_dynamic_extents(shape):
            return self.wrap(builders.full(shape, builders.scalar(0, element_type(dtype))), dtype)
        return self.const(np.broadcast_to(np.zeros((), numpy_dtype(dtype)), [int(n) for n in shape]), dtype)

    def broadcast(self, x: Tensor, shape: Sequence[Extent]) -> Tensor:
        """``x`` repeated to a shape that it broadcasts to."""
        if tuple(shape) == x.shape:
            return x
        if x.dtype not in NARROW:
            return self.elementwise(lambda a: a, x, shape=tuple(shape))
        # Codes as they are: an infinity would be saturated.
        return self.wrap(builders.elementwise(lambda a: a, x.value, shape=shape, elem=element_type(x.dtype)), x.dtype)

    def cast(self, x: Tensor, dtype: str, saturate: bool = True, round_mode: str = "up") -> Tensor:
        """``x`` as ``dtype``: floats to integers toward zero, numbers to bool by ``!= 0``, integers modulo 2ⁿ.

        ``saturate`` is about float8 alone: what is too large becomes the largest number, else infinity or NaN.
        ``round_mode`` is about float8_e8m0fnu alone (``codes.ROUND_MODES``).
        """
        if round_mode not in codes.ROUND_MODES:
            self.invalid(f"round_mode '{round_mode}' is none of {', '.join(codes.ROUND_MODES)}")
        if x.dtype == dtype:
            return x
        if x.dtype in OBJECTS or dtype in OBJECTS:
            self.unsupported(f"from {x.dtype} to {dtype}")
        return self.elementwise(cast_body(x.dtype, dtype, saturate, round_mode), x, dtype=dtype)

    def scalar(self, number: float | int, dtype: str) -> ir.Value:
        """A scalar constant as bodies compute with it."""
        return scalars.const(number, codes.compute_type(dtype))

    def _scalar(self, item: np.generic, dtype: str) -> ir.Value:
        if isinstance(item, np.complexfloating):
            return self.scalar(bits_of(item), dtype)
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
