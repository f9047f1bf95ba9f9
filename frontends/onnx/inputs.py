"""The model's inputs: shapes as the file says, and as the user adds with --input-shape."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

import onnx
from onnx import ValueInfoProto

from ...errors import ModelError, UnsupportedError
from ...model import OBJECTS, TensorInfo
from ...sizes import Extent, Sym
from .objects import element_of_type
from .weights import dtype_name

Dim = int | str  # an extent, or the name of an open one ("" if it has none)


def fixed_inputs(
    graph: onnx.GraphProto, given: Mapping[str, Sequence[int]], what: str, without: Collection[str] = ()
) -> list[TensorInfo]:
    """The graph's inputs, without those that are initialisers, with ``given`` shapes where the file leaves them open.

    An open dimension with a name takes the extent that a given shape has for the same name; what then is open is a
    symbol, the same one for the same name. Inputs ``without`` a value are left out.
    """
    inputs = [i for i in model_inputs(graph) if i.name not in without]
    declared = {i.name: _declared(i) for i in inputs}
    named = _named(graph, declared, given, what)
    return [_fixed(i, declared[i.name], given.get(i.name), named, what) for i in inputs]


def open_shapes(
    graph: onnx.GraphProto, given: Mapping[str, Sequence[int]], what: str, without: Collection[str] = ()
) -> dict[str, list[Dim] | None]:
    """The inputs whose shapes the file and ``given`` leave open, as far as they are known; None is not even a rank."""
    tensors = [i for i in model_inputs(graph) if not object_kind(i)]
    declared = {i.name: _declared(i) for i in tensors if i.name not in without}
    named = _named(graph, declared, given, what)
    shapes = {
        name: shape if shape is None else [named.get(dim, dim) if isinstance(dim, str) else dim for dim in shape]
        for name, shape in declared.items()
        if name not in given
    }
    return {n: shape for n, shape in shapes.items() if shape is None or any(isinstance(dim, str) for dim in shape)}


def model_inputs(graph: onnx.GraphProto) -> list[ValueInfoProto]:
    """The graph's inputs without those that are initialisers."""
    weights = {t.name for t in graph.initializer} | {t.values.name for t in graph.sparse_initializer}
    return [i for i in graph.input if i.name not in weights]


def check_readable(value: ValueInfoProto) -> None:
    """Raise UnsupportedError for an input that is no tensor or has no dtype of ours."""
    _declared(value)
    if not object_kind(value):
        dtype_name(value.type.tensor_type.elem_type, f"input '{value.name}'")


def object_kind(value: ValueInfoProto) -> str:
    """The kind of an input that the host holds, "" for a tensor of numbers."""
    found = element_of_type(value.type).dtype
    return found if found in OBJECTS else ""


def example(name: str, shape: Sequence[Dim] | None) -> str:
    """The option that gives an open input a shape."""
    return f"--input-shape {name}:{'1,3,224,224' if shape is None else _example(shape)}"


def _named(
    graph: onnx.GraphProto, declared: Mapping[str, list[Dim] | None], given: Mapping[str, Sequence[int]], what: str
) -> dict[str, int]:
    """The extents that given shapes have for named dimensions."""
    names = [i.name for i in model_inputs(graph)]
    named: dict[str, int] = {}
    for name, shape in given.items():
        if name not in names:
            raise ModelError(f"{what}: has no input '{name}'; its inputs are {', '.join(names) or 'none'}")
        if name in declared:
            named.update(_bound(name, declared[name], list(shape), what))
    return named


def _declared(value: ValueInfoProto) -> list[Dim] | None:
    """The input's shape in the file, or None where not even its rank is known, and for what the host holds."""
    if object_kind(value):
        return None
    if value.type.WhichOneof("value") != "tensor_type":
        kind = value.type.WhichOneof("value") or "no type"
        raise UnsupportedError(f"input '{value.name}' is no tensor ({kind.removesuffix('_type')}): not supported")
    if not value.type.tensor_type.HasField("shape"):
        return None
    return [
        d.dim_value if d.HasField("dim_value") and d.dim_value >= 0 else d.dim_param
        for d in value.type.tensor_type.shape.dim
    ]


def _bound(name: str, declared: list[Dim] | None, given: list[int], what: str) -> dict[str, int]:
    """Check a given shape against the file's; the extents it gives to named dimensions."""
    if any(isinstance(n, bool) or not isinstance(n, int) or n < 0 for n in given):
        raise ModelError(f"{what}: the shape {given} for input '{name}' has to be of extents that are not negative")
    if declared is None:
        return {}
    if len(given) != len(declared):
        raise ModelError(
            f"{what}: input '{name}' has {len(declared)} dimensions ({_text(declared)}), the given shape {len(given)}"
            f" ({_text(given)}); give --input-shape {name}:{_example(declared)}"
        )
    for extent, dim in zip(given, declared, strict=True):
        if isinstance(dim, int) and dim != extent:
            raise ModelError(
                f"{what}: input '{name}' is {_text(declared)} in the file, which does not allow {_text(given)};"
                f" give --input-shape {name}:{_example(declared)}"
            )
    return {dim: extent for extent, dim in zip(given, declared, strict=True) if isinstance(dim, str) and dim}


def _fixed(
    value: ValueInfoProto, declared: list[Dim] | None, given: Sequence[int] | None, named: Mapping[str, int], what: str
) -> TensorInfo:
    if kind := object_kind(value):
        return TensorInfo(value.name, (), kind)
    dtype = dtype_name(value.type.tensor_type.elem_type, f"input '{value.name}'")
    if given is not None:
        return TensorInfo(value.name, tuple(given), dtype)
    if declared is None:
        raise ModelError(
            f"{what}: input '{value.name}' has no shape in the file;"
            f" give it, e.g. --input-shape {value.name}:1,3,224,224"
        )
    shape: list[Extent] = []
    for axis, dim in enumerate(declared):
        extent = named.get(dim, dim) if isinstance(dim, str) else dim
        shape.append(extent if isinstance(extent, int) else Sym(extent or f"{value.name}.{axis}"))
    return TensorInfo(value.name, tuple(shape), dtype)


def _text(shape: Sequence[Dim]) -> str:
    return ",".join(str(n) if n != "" else "?" for n in shape) or "a scalar"


def _example(shape: Sequence[Dim]) -> str:
    return ",".join("1" if isinstance(n, str) else str(n) for n in shape)
