"""Values that are no tensors of numbers: text, sequences, optionals. The host holds and computes them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from onnx import TensorProto, TypeProto, helper

from ....core.model import OBJECTS
from ....dialects import ir
from ..proto.weights import DTYPES
from .tensor import Tensor

TEXT, SEQUENCE, OPTIONAL = OBJECT_KINDS = OBJECTS
MOST_RANKS = 8  # that a value may have, and is looked at for each of


_TENSOR_TYPES = {name: number for number, name in DTYPES.items()}


@dataclass(frozen=True)
class Element:
    """What a sequence or an optional holds: a dtype (of ``OBJECT_KINDS`` for values of the host) and, if known, a rank.

    One that is ``empty`` holds nothing so far, so that the first value that is put into it decides the rank. Where it
    has no one rank, it may be known that it has one of several ``ranks``, which are sorted.
    """

    dtype: str
    rank: int | None = None
    inner: Element | None = None  # of an optional sequence
    empty: bool = False
    ranks: tuple[int, ...] = ()

    @property
    def possible_ranks(self) -> tuple[int, ...]:
        """The ranks that it may have; none where it may have any."""
        return self.ranks if self.rank is None else (self.rank,)


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


def joined_elements(a: Element | None, b: Element | None) -> Element | None:
    """What two sequences or optionals hold; one that is empty holds what the other does."""
    if a is None or b is None:
        return None
    for one, other in ((a, b), (b, a)):
        if one.empty and one.dtype in ("", other.dtype):
            return other
    if a.dtype != b.dtype:
        return None
    inner = joined_elements(a.inner, b.inner) if a.inner or b.inner else None
    if a.rank == b.rank and a.ranks == b.ranks:
        return Element(a.dtype, a.rank, inner, ranks=a.ranks)
    ranks = sorted({*a.possible_ranks, *b.possible_ranks}) if a.possible_ranks and b.possible_ranks else []
    return Element(a.dtype, None, inner, ranks=tuple(ranks) if len(ranks) <= MOST_RANKS else ())


def type_proto(tensor: Tensor | None) -> TypeProto:
    """The ONNX type of a value; an empty one for an input that is absent."""
    if tensor is None:
        return TypeProto()
    if isinstance(tensor, Object):
        return _object_type(Element(tensor.dtype, tensor.rank_, tensor.element))
    shape = [extent if isinstance(extent, int) else str(extent) for extent in tensor.shape]
    return helper.make_tensor_type_proto(_TENSOR_TYPES[tensor.dtype], shape)


def _object_type(element: Element | None) -> TypeProto:
    """The ONNX type of a value of the host."""
    if element is None:
        return TypeProto()
    if element.dtype == SEQUENCE:
        return helper.make_sequence_type_proto(_object_type(element.inner))
    if element.dtype == OPTIONAL:
        return helper.make_optional_type_proto(_object_type(element.inner))
    number = TensorProto.STRING if element.dtype == TEXT else _TENSOR_TYPES[element.dtype]
    return helper.make_tensor_type_proto(number, None if element.rank is None else [None] * element.rank)
