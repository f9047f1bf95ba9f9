"""What the registers of a routine are in its code: numbers, tensors of any size, and what the host holds."""

from __future__ import annotations

from dataclasses import dataclass

from ....core.program import RegisterType


@dataclass(frozen=True)
class Scalar:
    """A scalar: the name of a value of 64 bits, and whether it is a double."""

    name: str
    real: bool = False


@dataclass(frozen=True)
class Tensor:
    """A tensor: names of its address, its owner ("" for none) and its extents, of which some are known."""

    data: str
    owner: str
    shape: tuple[str | int, ...]
    element: str


@dataclass(frozen=True)
class Object:
    """What the host holds: the name of its owner."""

    owner: str


Value = Scalar | Tensor | Object


def list_kinds(type_: RegisterType) -> list[str]:
    """The types of what a block takes for a value of this type: an address, an owner and open extents, or a scalar."""
    element, shape = type_
    if shape is not None:
        return ["!llvm.ptr", "!llvm.ptr", *("i64" for n in shape if n is None)]
    if element == "none":
        return ["!llvm.ptr"]
    return ["f64" if is_real(element) else "i64"]


def is_real(element: str) -> bool:
    """Return whether a scalar of this element type is a double."""
    return element in ("f16", "bf16", "f32", "f64")
