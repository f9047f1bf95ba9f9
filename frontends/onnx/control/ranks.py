"""Values whose ranks only the run knows: what branches of different ranks, or a loop, make. The host holds them.

No node takes such a value. What depends on its rank is converted once for each rank that it may have (``cases.py``).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, reduce
from itertools import product

from ....core.sizes import Extent
from ....dialects import ir
from ..state.context import Context
from ..values.forms import Form, common, form_of
from ..values.objects import MOST_RANKS, OPTIONAL, Element, Object, element_of
from ..values.tensor import Tensor

Case = tuple[Form, ...]  # what is known of several values where the run has decided upon their ranks
Facts = Mapping[Extent, frozenset[int]]  # what sizes may be that only the run knows


@dataclass(frozen=True)
class Cause:
    """The size that decides which case a choice has, and what it may be in each of them."""

    size: Extent
    sizes: Sequence[frozenset[int]]


@dataclass(frozen=True, eq=False)
class Choice:
    """Values that one op makes, held by the host, whose ranks depend on the run; ``cases`` differ in ranks."""

    ctx: Context  # of the op's node
    values: Sequence[ir.Value]
    cases: Sequence[Case]
    cause: Cause | None = None

    def facts(self, case: Case) -> Facts:
        """What a case says about sizes."""
        return {} if self.cause is None else {self.cause.size: self.cause.sizes[self.cases.index(case)]}

    def given(self, facts: Facts) -> Choice:
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
        return self.ctx.host("OptionalGetElement", [Object(OPTIONAL, lambda: value)], held)[0].value

    def has(self, case: Case) -> Tensor:
        """Whether the run has this case: a bool."""
        ranks = [form.axes for form in case]
        held = [Object(OPTIONAL, lambda value=value: value) for value in self.values]
        return self.ctx.host("have_ranks", held, Element("bool", 0), ranks=ranks)[0]


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


@dataclass(frozen=True)
class Forms:
    """What is known of several values together, in each case that the run may have; cases differ in ranks."""

    cases: tuple[Case, ...]

    @cached_property
    def single(self) -> tuple[Form | None, ...]:
        """The form of each value whichever case it is; None where its rank depends on that."""
        columns = zip(*self.cases, strict=True)
        return tuple(None if len({f.axes for f in forms}) > 1 else reduce(common, forms) for forms in columns)

    @property
    def types(self) -> list[ir.Type]:
        """The types in the IR."""
        return [ir.NoneType.get() if form is None else form.type for form in self.single]

    def wrap(self, ctx: Context, values: Sequence[ir.Value]) -> list[Tensor]:
        """Values of these forms, which a node makes."""
        unranked = [i for i, form in enumerate(self.single) if form is None]
        cases = [tuple(case[i] for i in unranked) for case in self.cases]
        choice = Choice(ctx, [values[i] for i in unranked], cases)
        return [
            Unranked(choice, unranked.index(i)) if form is None else form.wrap(value)
            for i, (form, value) in enumerate(zip(self.single, values, strict=True))
        ]

    def cast(self, ctx: Context, values: Sequence[ir.Value]) -> list[ir.Value]:
        """Values that are of these forms as ones of their types."""
        firsts = zip(values, self.single, self.cases[0], strict=True)
        return [_hold(ctx, value, first.dtype) if form is None else form.cast(value) for value, form, first in firsts]


def _hold(ctx: Context, value: ir.Value, dtype: str) -> ir.Value:
    """A tensor as a value of the host, as which one of unknown rank is there already."""
    if isinstance(value.type, ir.NoneType):
        return value
    tensor = ctx.wrap(value, dtype)
    return ctx.host("optional", [tensor], Element(OPTIONAL, None, element_of(tensor)))[0].value


def known_of(values: Sequence[Tensor]) -> Forms:
    """All that is known of several values."""
    choices = list(dict.fromkeys(value.choice for value in values if isinstance(value, Unranked)))
    cases = []
    for picked in product(*(choice.cases for choice in choices)):
        case = dict(zip(choices, picked, strict=True))
        cases.append(tuple(case[v.choice][v.place] if isinstance(v, Unranked) else form_of(v) for v in values))
    return Forms(tuple(cases))


def join_forms(
    ctx: Context, a: Forms, b: Forms, known: Collection[str], words: Callable[[int, Form, Form], str]
) -> Forms:
    """What holds of values of either forms, in symbols that are ``known`` around.

    Refuses dtypes that differ, which ONNX does not allow; ``words`` says of a value's place and its two forms what
    differs. Refuses more ranks than a program should be made for.
    """
    for i, (x, y) in enumerate(zip(a.cases[0], b.cases[0], strict=True)):
        if (x.dtype, x.held) != (y.dtype, y.held):
            ctx.invalid(words(i, x, y))
    cases: dict[tuple[int, ...], Case] = {}
    for case in (*a.cases, *b.cases):
        ranks = tuple(form.axes for form in case)
        pairs = zip(cases.get(ranks, case), case, strict=True)
        cases[ranks] = tuple(common(x, y).within(known) for x, y in pairs)
    made = Forms(tuple(cases.values()))
    if len(cases) > MOST_RANKS:
        i = made.single.index(None)
        *_, x, y = {case[i].axes: case[i] for case in made.cases}.values()
        ctx.unsupported(f"{words(i, x, y)}: its rank is known only at run time, in more than {MOST_RANKS} ways")
    return made


def of_ranks(
    ctx: Context, function: str, inputs: Sequence[Tensor], dtype: str, ranks: Sequence[int], **attributes: object
) -> Tensor:
    """What a function of the host gives: a tensor of one of several ranks."""
    [held] = ctx.host(function, inputs, Element(OPTIONAL, None, Element(dtype)), **attributes)
    return Unranked(Choice(ctx, [held.value], [(Form(dtype, (None,) * rank),) for rank in ranks]), 0)


def caused(made: Tensor, size: Extent, ranks: Mapping[int, int]) -> Tensor:
    """What one node made, whose rank a size decides: ``ranks`` has it for each."""
    if not isinstance(made, Unranked):
        return made
    choice = made.choice
    sizes = [frozenset(n for n, rank in ranks.items() if rank == case[made.place].axes) for case in choice.cases]
    return Unranked(replace(choice, cause=Cause(size, sizes)), made.place)


def demand_ranked(ctx: Context, tensors: Sequence[Tensor], what: str) -> None:
    """Refuse values of unknown rank where one has to be known."""
    for tensor in tensors:
        if isinstance(tensor, Unranked):
            ctx.unsupported(f"{what} is {' or '.join(map(str, tensor.forms))}: its rank is known only at run time")
