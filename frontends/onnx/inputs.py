"""The model's inputs with static shapes: what the file says, and what the user adds with --input-shape."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import onnx
from onnx import ValueInfoProto

from ...errors import ModelError, UnsupportedError
from ...model import TensorInfo
from .weights import dtype_name

Dim = int | str  # an extent, or the name of an open one ("" if it has none)


def fixed_inputs(graph: onnx.GraphProto, given: Mapping[str, Sequence[int]], what: str) -> list[TensorInfo]:
    """The graph's inputs, without those that are initialisers, with ``given`` shapes where the file leaves them open.

    An open dimension with a name takes the extent that a given shape has for the same name.
    """
    weights = {t.name for t in graph.initializer} | {t.values.name for t in graph.sparse_initializer}
    inputs = [i for i in graph.input if i.name not in weights]
    names = [i.name for i in inputs]
    for name in given:
        if name not in names:
            raise ModelError(f"{what}: has no input '{name}'; its inputs are {', '.join(names) or 'none'}")
    declared = {i.name: _declared(i) for i in inputs}
    named: dict[str, int] = {}
    for name, shape in given.items():
        named.update(_bound(name, declared[name], list(shape), what))
    return [_fixed(i, declared[i.name], given.get(i.name), named, what) for i in inputs]


def _declared(value: ValueInfoProto) -> list[Dim] | None:
    """The input's shape in the file, or None where not even its rank is known."""
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
    dtype = dtype_name(value.type.tensor_type.elem_type, f"input '{value.name}'")
    if given is not None:
        return TensorInfo(value.name, tuple(given), dtype)
    if declared is None:
        raise ModelError(
            f"{what}: input '{value.name}' has no shape in the file;"
            f" give it, e.g. --input-shape {value.name}:1,3,224,224"
        )
    shape = [named.get(dim, dim) if isinstance(dim, str) else dim for dim in declared]
    missing = [dim or f"number {i}" for i, dim in enumerate(shape) if isinstance(dim, str)]
    if missing:
        raise ModelError(
            f"{what}: input '{value.name}' is open in {', '.join(missing)} ({_text(declared)});"
            f" give --input-shape {value.name}:{_example(shape)}"
        )
    return TensorInfo(value.name, tuple(n for n in shape if isinstance(n, int)), dtype)


def _text(shape: Sequence[Dim]) -> str:
    return ",".join(str(n) if n != "" else "?" for n in shape) or "a scalar"


def _example(shape: Sequence[Dim]) -> str:
    return ",".join("1" if isinstance(n, str) else str(n) for n in shape)
