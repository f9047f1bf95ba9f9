"""What branches of different ranks, or a loop, make: what is known of several values in each case of the run."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, reduce
from itertools import product

from ....core.sizes import Extent
from ....dialects import ir
from ..state.context import Context
from ..values.choices import Case, Cause, Choice, Unranked
from ..values.forms import Form, form_of, intersect_forms
from ..values.objects import MOST_RANKS, OPTIONAL, Element, element_of
from ..values.tensor import Tensor


@dataclass(frozen=True)
class Forms:
    """What is known of several values together, in each case that the run may have; cases differ in ranks."""

    cases: tuple[Case, ...]

    @cached_property
    def single(self) -> tuple[Form | None, ...]:
        """The form of each value whichever case it is; None where its rank depends on that."""
        columns = zip(*self.cases, strict=True)
        return tuple(None if len({f.axes for f in forms}) > 1 else reduce(intersect_forms, forms) for forms in columns)

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
        return [
            _to_optional(ctx, value, first.dtype) if form is None else form.cast(value) for value, form, first in firsts
        ]


def _to_optional(ctx: Context, value: ir.Value, dtype: str) -> ir.Value:
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
        if (x.dtype, bool(x.held)) != (y.dtype, bool(y.held)):
            ctx.invalid(words(i, x, y))
    cases: dict[tuple[int, ...], Case] = {}
    for case in (*a.cases, *b.cases):
        ranks = tuple(form.axes for form in case)
        pairs = zip(cases.get(ranks, case), case, strict=True)
        cases[ranks] = tuple(intersect_forms(x, y).within(known) for x, y in pairs)
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


def note_cause(made: Tensor, size: Extent, ranks: Mapping[int, int]) -> Tensor:
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
