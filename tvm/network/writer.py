"""Writes an ONNX model node by node, and knows the type of each value from ONNX's own inference."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from ...core.errors import ModelError
from ...core.model import numpy_dtype
from .types import Any as AnyExtent
from .types import Extent, TensorType

if TYPE_CHECKING:
    from collections.abc import Iterator

    from onnx import ModelProto, NodeProto, TypeProto

_OPSET = 22
_IR_VERSION = 10


@dataclass(eq=False)
class Value:
    """A tensor of the model: ``type`` is None for a variable whose operator has yet to say it; ``data`` is known."""

    name: str
    type: TensorType | None = None
    data: np.ndarray | None = None

    @property
    def shape(self) -> tuple[Extent, ...]:
        """The shape. Raises ModelError where it is not known."""
        return self.known.shape

    @property
    def dtype(self) -> str:
        """The dtype. Raises as ``shape``."""
        return self.known.dtype

    @property
    def rank(self) -> int:
        """The number of axes. Raises as ``shape``."""
        return len(self.known.shape)

    @property
    def known(self) -> TensorType:
        """The type. Raises ModelError where it is not known."""
        if self.type is None:
            raise ModelError(f"the type of '{self.name}' is not known: relay.var('{self.name}', shape=..., dtype=...)")
        return self.type


Values = list[Value]


@dataclass
class Writer:
    """A model under construction; ``op`` is the operator whose nodes are written, which errors name."""

    op: str = ""
    values: Values = field(default_factory=list)  # those of variables and constants
    _nodes: list[NodeProto] = field(default_factory=list)
    _counts: dict[str, int] = field(default_factory=dict)
    _constants: dict[tuple[str, tuple[int, ...], bytes], Value] = field(default_factory=dict)
    _opens: dict[AnyExtent, str] = field(default_factory=dict)

    # Names and values that no node makes.

    def claim(self, wanted: str) -> str:
        """A name of the model: the one that is wanted, or that with a number."""
        count = self._counts.get(wanted)
        self._counts[wanted] = 0 if count is None else count + 1
        return wanted if count is None else self.claim(f"{wanted}_{count + 1}")

    def variable(self, name: str, known: TensorType | None) -> Value:
        """An input, or a weight that is given later. Its open extents are its own, also where they are one ``Any``."""
        own = known and TensorType([AnyExtent() if isinstance(n, AnyExtent) else n for n in known.shape], known.dtype)
        self.values.append(Value(self.claim(name), own))
        return self.values[-1]

    def weight(self, name: str, data: np.ndarray) -> Value:
        """A tensor of known numbers."""
        self.values.append(Value(self.claim(name), TensorType(data.shape, str(data.dtype)), data))
        return self.values[-1]

    def constant(self, data: Any, dtype: str = "") -> Value:
        """Numbers that a conversion needs, each once."""
        array = np.asarray(data, numpy_dtype(dtype) if dtype else None)
        key = (str(array.dtype), array.shape, array.tobytes())
        if key not in self._constants:
            self._constants[key] = self.weight("constant", array)
        return self._constants[key]

    def ints(self, *numbers: int) -> Value:
        """A vector of int64."""
        return self.constant(np.array(numbers, np.int64))

    def assume(self, value: Value, shape: Sequence[Extent], dtype: str) -> None:
        """Give a variable without a type the one that its operator needs."""
        if value.type is None:
            value.type = TensorType(tuple(shape), dtype)

    # Nodes.

    def node(self, op_type: str, *inputs: Value | None, **attributes: Any) -> Value:
        """A node of one result."""
        return self.nodes(op_type, inputs, 1, **attributes)[0]

    def nodes(self, op_type: str, inputs: Sequence[Value | None], outputs: int, **attributes: Any) -> Values:
        """A node, and its results. Raises ModelError where ONNX's inference finds that its inputs do not fit."""
        from onnx import helper

        given = {name: each for name, each in attributes.items() if each is not None}
        label = self.claim(self.op.rpartition(".")[2] or op_type.lower())
        names = [label if number == 0 else self.claim(f"{label}.{number}") for number in range(outputs)]
        node = helper.make_node(op_type, [each.name if each else "" for each in inputs], names, label, **given)
        found = self._infer(node, [each for each in inputs if each])
        self._nodes.append(node)
        return [Value(name, found.get(name)) for name in names]

    def _infer(self, node: NodeProto, inputs: Values) -> dict[str, TensorType]:
        from onnx import checker, defs, helper, numpy_helper, shape_inference

        types = {each.name: self._as_proto(each) for each in inputs}
        small = {
            each.name: numpy_helper.from_array(each.data, each.name)
            for each in inputs
            if each.data is not None and each.data.size <= _SMALL
        }
        schema = defs.get_schema(node.op_type, _OPSET, "")
        opsets = [helper.make_opsetid("", _OPSET)]
        try:
            made = shape_inference.infer_node_outputs(
                schema, node, types, small, opset_imports=opsets, ir_version=_IR_VERSION
            )
        except checker.ValidationError:
            kinds = ", ".join(dict.fromkeys(each.dtype for each in inputs))
            self.refuse(f"there is none of {kinds}: relay.cast gives other numbers")
        except (RuntimeError, shape_inference.InferenceError) as error:
            reason = str(error).replace("[ShapeInferenceError]", "").replace("[TypeInferenceError]", "").split("\n")[0]
            self.refuse(f"{', '.join(str(each.known) for each in inputs)} do not fit: {reason.strip()}")
        return {name: self._from_proto(each) for name, each in made.items() if each.tensor_type.HasField("shape")}

    def _as_proto(self, value: Value) -> TypeProto:
        from onnx import helper

        known = value.known
        shape = [self._extent_name(each) if isinstance(each, AnyExtent) else each for each in known.shape]
        return helper.make_tensor_type_proto(_element(known.dtype), shape)

    def _extent_name(self, extent: AnyExtent) -> str:
        return self._opens.setdefault(extent, f"any_{len(self._opens)}")

    def _from_proto(self, proto: TypeProto) -> TensorType:
        from onnx import helper

        names = {name: each for each, name in self._opens.items()}
        shape: list[Extent] = []
        for dim in proto.tensor_type.shape.dim:
            kind = dim.WhichOneof("value")
            if kind == "dim_value":
                shape.append(dim.dim_value)
            else:
                shape.append(names.get(dim.dim_param, dim.dim_param) if kind else AnyExtent())
        return TensorType(shape, helper.tensor_dtype_to_np_dtype(proto.tensor_type.elem_type).name)

    @contextmanager
    def branch(self) -> Iterator[list[NodeProto]]:
        """Nodes that are written inside are those of a branch."""
        outer, self._nodes = self._nodes, []
        inner = self._nodes
        try:
            yield inner
        finally:
            self._nodes = outer

    def refuse(self, reason: str) -> NoReturn:
        """Raise ModelError, which names the operator."""
        raise ModelError(f"relay.{self.op}: {reason}" if self.op else reason)

    def finish(self, name: str, inputs: Values, outputs: Values) -> ModelProto:
        """The model of these inputs and outputs; values of known data are its weights."""
        from onnx import helper, numpy_helper

        given = [self.as_info(each) for each in inputs]
        weights = [numpy_helper.from_array(each.data, each.name) for each in self.values if each.data is not None]
        graph = helper.make_graph(self._nodes, name, given, [self.as_info(each) for each in outputs], weights)
        opset = helper.make_opsetid("", _OPSET)
        return helper.make_model(graph, opset_imports=[opset], ir_version=_IR_VERSION)

    def as_info(self, value: Value) -> Any:
        from onnx import helper

        if value.type is None:  # of an output whose rank only the run knows
            return helper.make_empty_tensor_value_info(value.name)
        return helper.make_value_info(value.name, self._as_proto(value))


_SMALL = 1024  # elements of shapes and the like, which inference looks at


def _element(dtype: str) -> int:
    from onnx import helper

    return helper.np_dtype_to_tensor_dtype(numpy_dtype(dtype))
