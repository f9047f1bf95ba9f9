"""Values whose ranks only the run knows, which the host holds, and the cases that the run decides between.

No node takes such a value. What depends on its rank is converted once for each rank that it may have
(``control/cases.py``).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from onnx import NodeProto

from ....core.sizes import Extent
from ....dialects import ir
from .forms import Form
from .objects import OPTIONAL, Element, Object
from .tensor import Tensor

Case = tuple[Form, ...]  # what is known of several values where the run has decided upon their ranks
Facts = Mapping[Extent, frozenset[int]]  # what sizes may be that only the run knows


class Maker(Protocol):
    """The conversion of a node, which may ask for functions of the host."""

    node: NodeProto
    name: str
    opset: int

    def host(
        self, function: str, inputs: Sequence[Tensor], *results: Element, **attributes: object
    ) -> tuple[Tensor, ...]: ...


@dataclass(frozen=True)
class Cause:
    """The size that decides which case a choice has, and what it may be in each of them."""

    size: Extent
    sizes: Sequence[frozenset[int]]


@dataclass(frozen=True, eq=False)
class Choice:
    """Values that one op makes, held by the host, whose ranks depend on the run; ``cases`` differ in ranks."""

    maker: Maker  # the op's node
    values: Sequence[ir.Value]
    cases: Sequence[Case]
    cause: Cause | None = None

    def facts(self, case: Case) -> Facts:
        """What a case says about sizes."""
        return {} if self.cause is None else {self.cause.size: self.cause.sizes[self.cases.index(case)]}

    def narrow(self, facts: Facts) -> Choice:
        """The choice among the cases that facts leave, which may be one."""
        if self.cause is None or (known := known_size(self.cause.size, facts)) is None:
            return self
        left = [pair for pair in zip(self.cases, self.cause.sizes, strict=True) if known & pair[1]]
        if not left or len(left) == len(self.cases):
            return self
        cases, sizes = zip(*left, strict=True)
        return replace(self, cases=cases, cause=Cause(self.cause.size, sizes))

    def tensors(self) -> list[Tensor]:
        """The values as tensors, at the insertion point where there is but one case."""
        if len(self.cases) == 1:
            return self.read(self.cases[0])
        return [Unranked(self, place) for place in range(len(self.values))]

    def read(self, case: Case) -> list[Tensor]:
        """The values as tensors at the insertion point, where the run has this case."""
        pairs = zip(self.values, case, strict=True)
        return [form.wrap(form.cast(self._read(value, form))) for value, form in pairs]

    def _read(self, value: ir.Value, form: Form) -> ir.Value:
        held = Element(form.dtype, form.axes)
        return self.maker.host("OptionalGetElement", [Object(Element(OPTIONAL), lambda: value)], held)[0].value

    def has(self, case: Case) -> Tensor:
        """Whether the run has this case: a bool."""
        ranks = [form.axes for form in case]
        held = [Object(Element(OPTIONAL), lambda value=value: value) for value in self.values]
        return self.maker.host("have_ranks", held, Element("bool", 0), ranks=ranks)[0]


class Unranked(Tensor):
    """A tensor whose rank only the run knows: the one at ``place`` among a choice's values. It has no shape here."""

    __slots__ = ("choice", "place")

    def __init__(self, choice: Choice, place: int) -> None:
        super().__init__(choice.cases[0][place].dtype, (), lambda: choice.values[place])
        self.choice = choice
        self.place = place

    @property
    def forms(self) -> list[Form]:
        """What is known of it in each case."""
        return [case[self.place] for case in self.choice.cases]


def known_size(size: Extent, facts: Facts) -> frozenset[int] | None:
    """What a size may be, of which facts know that, or by how much it differs from another; else None."""
    for other, found in facts.items():
        if isinstance(difference := size - other, int):
            return frozenset(n + difference for n in found)
    return None
