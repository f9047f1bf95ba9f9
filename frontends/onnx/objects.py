"""Values that are no tensors of numbers: text, sequences, optionals. The host holds and computes them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from onnx import TensorProto, TypeProto

from ...dialects import ir
from ...model import OBJECTS
from .tensor import Tensor
from .weights import DTYPES

TEXT, SEQUENCE, OPTIONAL = KINDS = OBJECTS


@dataclass(frozen=True)
class Element:
    """What a sequence or an optional holds: a dtype (one of ``KINDS`` for values of the host) and, if known, a rank."""

    dtype: str
    rank: int | None = None
    inner: Element | None = None  # of an optional sequence


class Object(Tensor):
    """A value of the host. ``dtype`` is its kind; ``element`` what it holds, ``rank_`` the rank of a tensor of text."""

    __slots__ = ("element", "rank_")

    def __init__(
        self, kind: str, make: Callable[[], ir.Value], element: Element | None = None, rank: int | None = None
    ) -> None:
        super().__init__(kind, (), make)
        self.element = element
        self.rank_ = rank


def element_of(tensor: Tensor) -> Element:
    """A value as what a sequence or an optional of it holds."""
    if isinstance(tensor, Object):
        return Element(tensor.dtype, tensor.rank_, tensor.element)
    return Element(tensor.dtype, tensor.rank)


def element_of_type(type_: TypeProto) -> Element:
    """An ONNX type as an element; one without a dtype of ours has the dtype ""."""
    kind = type_.WhichOneof("value")
    if kind == "sequence_type":
        return Element(SEQUENCE, None, element_of_type(type_.sequence_type.elem_type))
    if kind == "optional_type":
        return Element(OPTIONAL, None, element_of_type(type_.optional_type.elem_type))
    tensor = type_.tensor_type
    rank = len(tensor.shape.dim) if tensor.HasField("shape") else None
    return Element(TEXT if tensor.elem_type == TensorProto.STRING else DTYPES.get(tensor.elem_type, ""), rank)
