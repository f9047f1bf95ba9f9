"""The model's inputs: shapes as the file says, and as the user adds with --input-shape."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import onnx
from onnx import ValueInfoProto

from ....core.dims import InputShapes
from ....core.errors import ModelError, UnsupportedError
from ....core.model import OBJECTS, TensorInfo
from ....core.sizes import Extent
from ..proto.weights import dtype_name
from ..values.objects import element_of_type
from .input_shapes import Agreed, Own, agree_shapes, by_input

_NAMELESS = {"?", "-1", "None"}  # what exporters write for an extent of which they know nothing


def read_extent(dim: onnx.TensorShapeProto.Dimension) -> Own:
    """An extent in the file, or the name of an open one ("" if it has none, or one that several open ones share)."""
    if dim.HasField("dim_value") and dim.dim_value >= 0:
        return dim.dim_value
    return "" if dim.dim_param in _NAMELESS else dim.dim_param


def fixed_inputs(
    graph: onnx.GraphProto, given: InputShapes, what: str, without: Collection[str] = ()
) -> list[TensorInfo]:
    """The graph's inputs, without those that are initialisers, with ``given`` shapes where the file leaves them open.

    An open dimension with a name is what a given shape has for the same name; what then is open is a symbol, the same
    one for the same name. Inputs ``without`` a value are left out.
    """
    inputs = [i for i in model_inputs(graph) if i.name not in without]
    declared = {i.name: _read_declared_shape(i) for i in inputs}
    together = _agree_shapes(graph, given, what)
    return [_resolve_input(i, declared[i.name], together, what) for i in inputs]


def find_dynamic_shapes(
    graph: onnx.GraphProto, given: InputShapes, what: str, without: Collection[str] = ()
) -> dict[str, list[Extent | str] | None]:
    """The inputs whose shapes the file and ``given`` leave open, as far as they are known; None is not even a rank.

    An open extent is its name in the file, or a symbol where ``given`` says something about that.
    """
    tensors = [i for i in model_inputs(graph) if not object_kind(i)]
    declared = {i.name: _read_declared_shape(i) for i in tensors if i.name not in without}
    together = _agree_shapes(graph, given, what)
    named = together.named
    shapes = {
        name: shape if shape is None else [named.get(dim, dim) if isinstance(dim, str) else dim for dim in shape]
        for name, shape in declared.items()
        if name not in together.shapes
    }
    return {n: shape for n, shape in shapes.items() if shape is None or any(isinstance(dim, str) for dim in shape)}


def given_shapes(graph: onnx.GraphProto, given: InputShapes, what: str) -> dict[str, tuple[Extent, ...]]:
    """The given shapes with a symbol for each dimension that stays open."""
    return _agree_shapes(graph, given, what).shapes


def model_inputs(graph: onnx.GraphProto) -> list[ValueInfoProto]:
    """The graph's inputs without those that are initialisers."""
    weights = {t.name for t in graph.initializer} | {t.values.name for t in graph.sparse_initializer}
    return [i for i in graph.input if i.name not in weights]


def check_readable(value: ValueInfoProto) -> None:
    """Raise UnsupportedError for an input that is no tensor or has no dtype of ours."""
    _read_declared_shape(value)
    if not object_kind(value):
        dtype_name(value.type.tensor_type.elem_type, f"input '{value.name}'")


def object_kind(value: ValueInfoProto) -> str:
    """The kind of an input that the host holds, "" for a tensor of numbers."""
    found = element_of_type(value.type).dtype
    return found if found in OBJECTS else ""


def format_shape_option(name: str, shape: Sequence[int]) -> str:
    """The option that gives an open input a shape."""
    return f"--input-shape {name}:{','.join(map(str, shape))}"


def _agree_shapes(graph: onnx.GraphProto, given: InputShapes, what: str) -> Agreed:
    names = [i.name for i in model_inputs(graph)]
    shapes = [name for name, said in given.items() if not isinstance(said, (int, str))]
    if unknown := [name for name in shapes if name not in names]:
        raise ModelError(f"{what}: has no input '{unknown[0]}'; its inputs are {', '.join(names) or 'none'}")
    tensors = [i for i in model_inputs(graph) if i.type.WhichOneof("value") == "tensor_type" and not object_kind(i)]
    declared = {i.name: _read_declared_shape(i) for i in tensors}
    return agree_shapes(declared, by_input(declared, given, what), what)


def _read_declared_shape(value: ValueInfoProto) -> list[Own] | None:
    """The input's shape in the file, or None where not even its rank is known, and for what the host holds."""
    if object_kind(value):
        return None
    if value.type.WhichOneof("value") != "tensor_type":
        kind = value.type.WhichOneof("value") or "no type"
        raise UnsupportedError(f"input '{value.name}' is no tensor ({kind.removesuffix('_type')}): not supported")
    if not value.type.tensor_type.HasField("shape"):
        return None
    return [read_extent(dim) for dim in value.type.tensor_type.shape.dim]


def _resolve_input(value: ValueInfoProto, declared: list[Own] | None, together: Agreed, what: str) -> TensorInfo:
    if kind := object_kind(value):
        return TensorInfo(value.name, (), kind)
    dtype = dtype_name(value.type.tensor_type.elem_type, f"input '{value.name}'")
    if value.name in together.shapes:
        return TensorInfo(value.name, together.shapes[value.name], dtype)
    if declared is None:
        raise ModelError(
            f"{what}: input '{value.name}' has no shape in the file;"
            f" give it, e.g. --input-shape {value.name}:1,3,224,224"
        )
    shape = tuple(together.extent(dim, f"{value.name}.{axis}") for axis, dim in enumerate(declared))
    return TensorInfo(value.name, shape, dtype)
