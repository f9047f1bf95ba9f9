"""Types of relay's expressions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any as Anything

from ...core.errors import ModelError
from ...core.model import numpy_dtype
from ...te.expr import Expr


class Any:
    """An extent that only the run knows, in the shapes of inputs. Each is one of its own."""

    def __repr__(self) -> str:
        return "?"


Extent = int | str | Any  # a text is a name that extents share


@dataclass(frozen=True)
class TensorType:
    """The shape and the dtype of a tensor."""

    shape: tuple[Extent, ...]
    dtype: str = "float32"

    def __init__(self, shape: Anything, dtype: str = "float32") -> None:
        extents = shape if isinstance(shape, Sequence) and not isinstance(shape, str) else (shape,)
        object.__setattr__(self, "shape", tuple(map(as_extent, extents)))
        object.__setattr__(self, "dtype", check_dtype(dtype))

    @property
    def concrete_shape(self) -> tuple[int, ...]:
        """The shape in numbers. Raises ModelError for one that has none."""
        if not all(isinstance(extent, int) for extent in self.shape):
            raise ModelError(f"the shape of {self} is not known before the run")
        return tuple(extent for extent in self.shape if isinstance(extent, int))

    def __str__(self) -> str:
        shape = ", ".join(map(str, self.shape)) + ("," if len(self.shape) == 1 else "")
        return f"Tensor[({shape}), {self.dtype}]"


@dataclass(frozen=True)
class IncompleteType:
    """That of a variable whose operator says what it is."""


@dataclass(frozen=True)
class TupleType:
    """The types of a tuple's fields."""

    fields: tuple[Type, ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "fields", tuple(self.fields))

    def __str__(self) -> str:
        return f"({', '.join(map(str, self.fields))})"


@dataclass(frozen=True)
class FuncType:
    """The types of a function's parameters, and of what it gives."""

    arg_types: tuple[Type | None, ...]
    ret_type: Type

    def __str__(self) -> str:
        return f"fn ({', '.join(map(str, self.arg_types))}) -> {self.ret_type}"


Type = TensorType | TupleType | FuncType


def as_extent(extent: Anything) -> Extent:
    """An extent as a number, a name or an ``Any``. Raises ModelError for what is none."""
    if isinstance(extent, Any | str):
        return extent
    if isinstance(extent, Expr):
        return str(extent)
    try:
        number = int(extent)
    except (TypeError, ValueError):
        number = -1
    if number < 0:
        raise ModelError(f"an extent is a number, relay.Any() or te.var, not {extent!r}")
    return number


def check_dtype(dtype: Anything) -> str:
    """The name of a dtype. Raises ModelError for one that no tensor has."""
    name = dtype if isinstance(dtype, str) else getattr(dtype, "name", str(dtype))
    try:
        numpy_dtype(name)
    except TypeError as error:
        raise ModelError(f"there is no dtype '{name}' of tensors: they are float32, int64, bool and so on") from error
    return name
