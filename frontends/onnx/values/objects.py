"""Values that are no tensors of numbers: text, sequences, optionals, maps. The host holds and computes them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from onnx import TensorProto, TypeProto, helper

from ....core.errors import UnsupportedError
from ....core.model import OBJECTS
from ....dialects import ir
from ..proto.weights import DTYPES
from .tensor import Tensor

TEXT, SEQUENCE, OPTIONAL, MAP = OBJECT_KINDS = OBJECTS
MOST_RANKS = 8  # that a value may have, and is looked at for each of


_TYPES = {name: number for number, name in DTYPES.items()} | {TEXT: TensorProto.STRING}


@dataclass(frozen=True)
class Element:
    """What a sequence or an optional holds: a dtype (of ``OBJECT_KINDS`` for values of the host) and, if known, a rank.

    A map holds an ``inner`` one under each key, which is of the dtype ``key``.

    One that is ``empty`` holds nothing so far, so that the first value that is put into it decides the rank. Where it
    has no one rank, it may be known that it has one of several ``ranks``, which are sorted.
    """

    dtype: str
    rank: int | None = None
    inner: Element | None = None  # of an optional sequence
    empty: bool = False
    ranks: tuple[int, ...] = ()
    key: str = ""

    @property
    def possible_ranks(self) -> tuple[int, ...]:
        """The ranks that it may have; none where it may have any."""
        return self.ranks if self.rank is None else (self.rank,)


class Object(Tensor):
    """A value of the host. ``dtype`` is its kind, ``element`` what it holds.

    ``rank_`` is the rank of a tensor of text, ``strings`` are its elements where the import knows them, and ``key`` is
    the dtype of a map's keys. It has no ``shape``: who asks for one takes tensors of numbers alone, and refuses it so.
    """

    __slots__ = ("element", "key", "rank_", "strings")

    def __init__(self, declared: Element, make: Callable[[], ir.Value], strings: np.ndarray | None = None) -> None:
        super().__init__(declared.dtype, (), make)
        del self.shape
        self.element, self.rank_, self.key, self.strings = declared.inner, declared.rank, declared.key, strings

    def __getattr__(self, name: str) -> Any:
        if name == "shape":
            raise UnsupportedError(f"an operand is {'of strings' if self.dtype == TEXT else f'a {self.dtype}'}")
        raise AttributeError(name)

    @property
    def rank(self) -> int:
        """The number of axes of a tensor of text; UnsupportedError where it is not known, and for anything else."""
        if self.rank_ is None and self.dtype == TEXT:
            raise UnsupportedError("the rank of a tensor of text is not known")
        return len(self.shape) if self.rank_ is None else self.rank_

    def __repr__(self) -> str:
        return self.dtype


def element_of(tensor: Tensor) -> Element:
    """A value as what a sequence or an optional of it holds."""
    if isinstance(tensor, Object):
        return Element(tensor.dtype, tensor.rank_, tensor.element, key=tensor.key)
    return Element(tensor.dtype, tensor.rank)


def element_of_type(type_: TypeProto) -> Element:
    """An ONNX type as an element; one without a dtype of ours has the dtype ""."""
    kind = type_.WhichOneof("value")
    if kind == "sequence_type":
        return Element(SEQUENCE, None, element_of_type(type_.sequence_type.elem_type))
    if kind == "optional_type":
        return Element(OPTIONAL, None, element_of_type(type_.optional_type.elem_type))
    if kind == "map_type":
        held = element_of_type(type_.map_type.value_type)
        return Element(MAP, None, held, key=_name_element_type(type_.map_type.key_type))
    tensor = type_.tensor_type
    rank = len(tensor.shape.dim) if tensor.HasField("shape") else None
    return Element(_name_element_type(tensor.elem_type), rank)


def _name_element_type(number: int) -> str:
    return TEXT if number == TensorProto.STRING else DTYPES.get(number, "")


def joined_elements(a: Element | None, b: Element | None) -> Element | None:
    """What two sequences or optionals hold; one that is empty holds what the other does."""
    if a is None or b is None:
        return None
    for one, other in ((a, b), (b, a)):
        if one.empty and one.dtype in ("", other.dtype):
            return other
    if a.dtype != b.dtype or a.key != b.key:
        return None
    inner = joined_elements(a.inner, b.inner) if a.inner or b.inner else None
    if a.rank == b.rank and a.ranks == b.ranks:
        return Element(a.dtype, a.rank, inner, ranks=a.ranks, key=a.key)
    ranks = sorted({*a.possible_ranks, *b.possible_ranks}) if a.possible_ranks and b.possible_ranks else []
    return Element(a.dtype, None, inner, ranks=tuple(ranks) if len(ranks) <= MOST_RANKS else ())


def type_proto(tensor: Tensor | None) -> TypeProto:
    """The ONNX type of a value; an empty one for an input that is absent."""
    if tensor is None:
        return TypeProto()
    if isinstance(tensor, Object):
        return _object_type(element_of(tensor))
    shape = [extent if isinstance(extent, int) else str(extent) for extent in tensor.shape]
    return helper.make_tensor_type_proto(_TYPES[tensor.dtype], shape)


def _object_type(element: Element | None) -> TypeProto:
    """The ONNX type of a value of the host."""
    if element is None:
        return TypeProto()
    if element.dtype == SEQUENCE:
        return helper.make_sequence_type_proto(_object_type(element.inner))
    if element.dtype == OPTIONAL:
        return helper.make_optional_type_proto(_object_type(element.inner))
    if element.dtype == MAP:
        made = TypeProto()
        made.map_type.key_type = _TYPES[element.key]
        made.map_type.value_type.CopyFrom(_object_type(element.inner))
        return made
    number = _TYPES[element.dtype]
    return helper.make_tensor_type_proto(number, None if element.rank is None else [None] * element.rank)
