"""What stands for the outputs of a node that could not be converted, so that the nodes after it are looked at too.

Nothing of this is ever compiled: an import that has made one ends with a list of reasons.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import NoReturn

import numpy as np
from onnx import NodeProto, TypeProto, defs, helper, numpy_helper, shape_inference

from ....core.sizes import Extent
from ....dialects import builders, ir
from ....dialects.types import element_type
from ..proto.weights import DTYPES
from ..values.choices import Unranked
from ..values.objects import type_proto
from ..values.tensor import Tensor
from .refusals import Unsupported


@dataclass(frozen=True)
class Failed:
    """A value of which at most the dtype is known; "" is none."""

    dtype: str = ""


FAILED = Failed()


class StandIn(Tensor):
    """A value of known type that could not be made, or that was computed from such a one.

    A converter that demands to know it fails without a reason: what could not be made may well have been a constant.
    """

    __slots__ = ()

    def __init__(self, dtype: str, shape: tuple[int, ...], make: Callable[[], ir.Value] | None = None) -> None:
        super().__init__(dtype, shape, make or self._empty, load=_not_known)

    @property
    def value(self) -> ir.Value:
        """An SSA value, a new one for each use: the last one may have been made in a draft that is gone."""
        return self._make()

    def _empty(self) -> ir.Value:
        return builders.empty(self.shape, element_type(self.dtype))


def _not_known() -> NoReturn:
    raise Unsupported("")


TensorOrFailed = Tensor | Failed


def hand_on_standins(
    inputs: Sequence[TensorOrFailed | None], outputs: Sequence[TensorOrFailed]
) -> list[TensorOrFailed]:
    """Return a node's outputs: stand-ins if it read stand-ins, but what is known in spite of them stays."""
    if not any(isinstance(t, StandIn) for t in inputs):
        return list(outputs)
    return [_after(t) if isinstance(t, Tensor) and t.known is None else t for t in outputs]


def _after(made: Tensor) -> TensorOrFailed:
    return Failed(made.dtype) if isinstance(made, Unranked) else StandIn(made.dtype, made.shape, _maker(made))


def assume_made(value: TensorOrFailed, type_: TypeProto | None, symbols: Mapping[str, Extent]) -> TensorOrFailed:
    """What stands for a value as a tensor like any other, for a code generator of the user's may make it.

    ``type_`` is what the file declares of it, where names of extents may be those of the inputs, ``symbols``. A value
    of which too little is known is left as it is.
    """
    if isinstance(value, StandIn):
        return Tensor(value.dtype, value.shape, _maker(value))
    if type_ is None or not type_.tensor_type.HasField("shape"):
        return value
    dtype = DTYPES.get(type_.tensor_type.elem_type, "")
    dims = type_.tensor_type.shape.dim
    shape = tuple(d.dim_value if d.HasField("dim_value") else symbols.get(d.dim_param) for d in dims)
    known = tuple(extent for extent in shape if extent is not None)
    if not dtype or len(known) < len(shape):
        return value
    return Tensor(dtype, known, lambda: builders.empty(known, element_type(dtype)))


def _maker(tensor: Tensor) -> Callable[[], ir.Value]:
    return lambda: tensor.value


def stand_ins(
    node: NodeProto,
    inputs: Sequence[TensorOrFailed | None],
    opsets: Mapping[str, int],
    declared: Mapping[str, TypeProto],
) -> list[TensorOrFailed]:
    """For a node's outputs: of the types that onnx infers for this one node, else of those that the file declares."""
    inferred = _infer_types(node, inputs, opsets)
    return [_better(of_type(inferred.get(name)), of_type(declared.get(name))) for name in node.output]


def _better(first: TensorOrFailed, second: TensorOrFailed) -> TensorOrFailed:
    return first if isinstance(first, Tensor) or not (isinstance(second, Tensor) or second.dtype) else second


def of_type(type_: TypeProto | None) -> TensorOrFailed:
    """A stand-in for a value of an ONNX type, as far as that is known."""
    if type_ is None or type_.WhichOneof("value") != "tensor_type":
        return FAILED
    dtype = DTYPES.get(type_.tensor_type.elem_type, "")
    dims = type_.tensor_type.shape.dim
    known = type_.tensor_type.HasField("shape") and all(d.HasField("dim_value") and d.dim_value >= 0 for d in dims)
    return StandIn(dtype, tuple(d.dim_value for d in dims)) if dtype and known else Failed(dtype)


def _infer_types(
    node: NodeProto, inputs: Sequence[TensorOrFailed | None], opsets: Mapping[str, int]
) -> Mapping[str, TypeProto]:
    domain = "" if node.domain == "ai.onnx" else node.domain
    opset = opsets.get(domain, 0)
    if not defs.has(node.op_type, max_inclusive_version=opset, domain=domain):
        return {}
    given = {name: t for name, t in zip(node.input, inputs, strict=True) if t is not None}
    types = {name: _to_type_proto(t) for name, t in given.items()}
    data = {name: numpy_helper.from_array(a) for name, t in given.items() if (a := _data(t)) is not None}
    versions = [helper.make_opsetid(name, version) for name, version in opsets.items()]
    try:
        schema = defs.get_schema(node.op_type, opset, domain)
        return shape_inference.infer_node_outputs(schema, node, types, data, opset_imports=versions)
    except Exception:  # it refuses types and values in many ways
        return {}


def _to_type_proto(value: TensorOrFailed) -> TypeProto:
    if isinstance(value, Tensor):
        return type_proto(value)
    made = TypeProto()
    number = next((number for number, name in DTYPES.items() if name == value.dtype), 0)
    if number:
        made.tensor_type.elem_type = number
    return made


def _data(value: TensorOrFailed) -> np.ndarray | None:
    """What onnx may use of a value: shapes, axes and the like."""
    known = value.known if isinstance(value, Tensor) else None
    if known is None or known.size > builders.MAX_CONSTANT or known.dtype not in (np.int32, np.int64):
        return None
    return known
