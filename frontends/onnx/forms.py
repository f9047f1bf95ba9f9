"""What is known of a value whichever iteration or branch made it: what its makers have in common."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from ...dialects import builders, extents, ir, tensor
from ...dialects.types import element_type
from ...sizes import Extent, Sym, symbols
from .context import Context
from .objects import Element, Object, joined_elements
from .ranks import AnyRank, least_rank
from .tensor import Tensor


@dataclass(frozen=True)
class Form:
    """A dtype; a tensor's extents, None for those that differ; of a value of the host what it holds, a text's rank."""

    dtype: str
    shape: tuple[Extent | None, ...] = ()
    element: Element | None = None
    rank: int | None = None
    held: bool = False  # by the host
    unsure: int = 0  # how many of the first axes, which then have extent 1, are perhaps not there

    @property
    def type(self) -> ir.Type:
        """The type in the IR."""
        if self.held:
            return ir.NoneType.get()
        open_ = ir.ShapedType.get_dynamic_size()
        shape = [open_ if n is None else extents.as_type_extent(n) for n in self.shape]
        return ir.RankedTensorType.get(shape, element_type(self.dtype))

    def wrap(self, value: ir.Value) -> Tensor:
        """A value of this form; extents that differ are symbols of their own."""
        if self.held:
            return Object(self.dtype, lambda: value, self.element, self.rank)
        shape = [
            extents.fresh(extents.dim(value, axis), "size", 0) if n is None else n for axis, n in enumerate(self.shape)
        ]
        extents.note(value, shape)
        if not self.unsure:
            return Tensor(self.dtype, tuple(shape), lambda: value)
        made = AnyRank(self.dtype, tuple(shape), lambda: value)
        made.least = len(shape) - self.unsure
        return made

    def cast(self, value: ir.Value) -> ir.Value:
        """A value that is of this form as one of its type."""
        if not self.held and (missing := len(self.shape) - len(builders.shape_of(value))):
            value = builders.reshape(value, [*[1] * missing, *builders.shape_of(value)])
        return value if value.type == self.type else tensor.CastOp(self.type, value).result

    def __str__(self) -> str:
        shape = ", ".join("?" if n is None else str(n) for n in self.shape)
        return self.dtype if self.held else f"{self.dtype}[{shape}]"


def form_of(value: Tensor) -> Form:
    """All that is known of one value."""
    if isinstance(value, Object):
        return Form(value.dtype, (), value.element, value.rank_, held=True)
    return Form(value.dtype, value.shape, unsure=value.rank - least_rank(value))


def joined(ctx: Context, a: Form, b: Form, known: Collection[str], what: str) -> Form:
    """What two forms have in common, in symbols that are ``known`` around.

    Refuses dtypes that differ, which ONNX does not allow, and ranks, unless that is about axes of extent 1 in front;
    ``what`` says in words what differs.
    """
    if (a.dtype, a.held) != (b.dtype, b.held):
        ctx.invalid(what)
    if a.held:
        return Form(a.dtype, (), joined_elements(a.element, b.element), a.rank if a.rank == b.rank else None, True)
    rank, sure = max(len(a.shape), len(b.shape)), min(len(f.shape) - f.unsure for f in (a, b))
    shapes = [(*[1] * (rank - len(f.shape)), *f.shape) for f in (a, b)]
    shape = tuple(_joined_extents(m, n, known) for m, n in zip(*shapes, strict=True))
    if any(n != 1 for n in shape[: rank - sure]):
        ctx.unsupported(f"{what}: its rank is known only at run time")
    return Form(a.dtype, shape, unsure=rank - sure)


def _joined_extents(a: Extent | None, b: Extent | None, known: Collection[str]) -> Extent | None:
    return a if a == b and not (isinstance(a, Sym) and symbols(a).difference(known)) else None
