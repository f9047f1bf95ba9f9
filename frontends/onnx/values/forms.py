"""What is known of a value whichever iteration or branch made it: what its makers have in common."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace

from ....core.sizes import Extent, Sym, symbols_of
from ....dialects import extents, ir, tensor
from ....dialects.types import DYNAMIC, element_type
from .objects import Element, Object, element_of, joined_elements
from .tensor import Tensor


@dataclass(frozen=True)
class Form:
    """A dtype; a tensor's extents, None for those that differ; or what else is known of a value that the host holds."""

    dtype: str
    shape: tuple[Extent | None, ...] = ()
    held: Element | None = None  # by the host: all of it

    @property
    def axes(self) -> int:
        """The number of a tensor's axes; what the host holds has none."""
        return len(self.shape)

    @property
    def type(self) -> ir.Type:
        """The type in the IR."""
        if self.held:
            return ir.NoneType.get()
        shape = [DYNAMIC if n is None else extents.as_type_extent(n) for n in self.shape]
        return ir.RankedTensorType.get(shape, element_type(self.dtype))

    def wrap(self, value: ir.Value) -> Tensor:
        """A value of this form; extents that differ are symbols of their own."""
        if self.held:
            return Object(self.held, lambda: value)
        shape = [
            extents.fresh(extents.dim(value, axis), "size", 0) if n is None else n for axis, n in enumerate(self.shape)
        ]
        extents.note(value, shape)
        return Tensor(self.dtype, tuple(shape), lambda: value)

    def cast(self, value: ir.Value) -> ir.Value:
        """A value that is of this form as one of its type."""
        return value if value.type == self.type else tensor.CastOp(self.type, value).result

    def __str__(self) -> str:
        shape = ", ".join("?" if n is None else str(n) for n in self.shape)
        return self.dtype if self.held else f"{self.dtype}[{shape}]"

    def within(self, known: Collection[str]) -> Form:
        """The form where only these symbols are known: without the extents that need others."""
        shape = tuple(None if isinstance(n, Sym) and symbols_of(n).difference(known) else n for n in self.shape)
        return replace(self, shape=shape)


def form_of(value: Tensor) -> Form:
    """All that is known of one value."""
    if isinstance(value, Object):
        return Form(value.dtype, held=element_of(value))
    return Form(value.dtype, value.shape)


def intersect_forms(a: Form, b: Form) -> Form:
    """What two forms of one dtype, and of tensors of one rank, have in common."""
    if a.held and b.held:
        return Form(a.dtype, held=_intersect_elements(a.held, b.held))
    return Form(a.dtype, tuple(m if m == n else None for m, n in zip(a.shape, b.shape, strict=True)))


def _intersect_elements(a: Element, b: Element) -> Element:
    """What two values of the host of one kind have in common."""
    key = a.key if a.key == b.key else ""
    return Element(a.dtype, a.rank if a.rank == b.rank else None, joined_elements(a.inner, b.inner), key=key)
