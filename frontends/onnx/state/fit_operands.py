"""Operands that have the shapes that their converter declares (``declared_shapes.py``), or are refused."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from functools import wraps
from typing import Any, NoReturn, TypeVar, cast

from ....core.sizes import Extent, Sym, may_be_equal
from ..values.tensor import Tensor
from .context import Context
from .declared_shapes import Arithmetic, One, Operand, Several, Term, find_value, parse_shapes, solve_for

_Call = TypeVar("_Call")


def demand_shapes(converter: _Call, text: str) -> _Call:
    """The converter, which gets its operands fitted to the shapes of a declaration; the others are refused.

    Raises ValueError for a declaration that does not fit the converter's signature.
    """
    call = cast(Any, converter)
    signature = inspect.signature(call)
    try:
        operands = parse_shapes(text, signature)
    except ValueError as error:
        raise ValueError(f"shapes '{text}' of {call.__name__}: {error}") from None

    @wraps(call)
    def fitted(ctx: Context, *inputs: Tensor | None, **attributes: Any) -> object:
        bound = signature.bind(ctx, *inputs, **attributes)
        bound.apply_defaults()
        bound.arguments.update(_Fit(ctx, operands, bound.arguments).fit_all())
        return call(*bound.args, **bound.kwargs)

    return cast(_Call, fitted)


class _Fit:
    """One node's operands beside what is declared of them."""

    def __init__(self, ctx: Context, operands: Sequence[Operand], arguments: Mapping[str, Any]) -> None:
        self.ctx = ctx
        self.arguments = arguments  # operands and attributes by name
        self.present = [operand for operand in operands if arguments[operand.name] is not None]
        self.extents: dict[str, Extent] = {n: v for n, v in arguments.items() if isinstance(v, int)}
        self.several: dict[str, tuple[Extent, ...]] = {}
        self.places: dict[str, tuple[Operand, int]] = {}  # the axis, or the first one, that says what a name is

    def fit_all(self) -> dict[str, Tensor]:
        """The operands by name, with extents that are numbers where any of them, or an attribute, says so."""
        placed = [(operand, self._place(operand)) for operand in self.present]
        terms = [(operand, term, axes) for operand, pairs in placed for term, axes in pairs]
        for operand, term, axes in sorted(terms, key=lambda entry: _is_arithmetic(entry[1])):
            self._learn(operand, term, axes)
        return {operand.name: self._fit(operand, pairs) for operand, pairs in placed}

    def _place(self, operand: Operand) -> list[tuple[Term, range]]:
        placed = operand.place(self._tensor(operand).rank)
        if placed is None:
            self.ctx.invalid(self._describe(operand))
        for term, axes in placed:
            if isinstance(term, Several):
                given = self.arguments.get(term.name) or None
                others = [given, self.several.get(term.name), self.several.get(term.like or "")]
                if any(other is not None and len(other) != len(axes) for other in others):
                    self.ctx.invalid(self._describe(operand, term))
                if term.name != "_" and term.name not in self.several:
                    self.several[term.name] = tuple(given or self._shape(operand, axes))
                    self.places[term.name] = operand, axes.start
        return placed

    def _learn(self, operand: Operand, term: Term, axes: range) -> None:
        """Names that the term says, and numbers for those that other terms gave as symbols."""
        found = self._shape(operand, axes)
        if isinstance(term, Several):
            before = self.several.get(term.name, found)
            pairs = zip(before, found, strict=True)
            known = tuple(m if isinstance(m, int) and isinstance(n, Sym) else n for n, m in pairs)
            if known != before:
                self.several[term.name], self.places[term.name] = known, (operand, axes.start)
            return
        names = [n for n in term.names if n not in self.arguments]
        unknown = [n for n in names if n not in self.extents]
        dynamic = [n for n in names if isinstance(self.extents.get(n), Sym)]
        # Of c/group = k with symbols alone c becomes k*group: then all can be seen to divide it.
        divided = not isinstance(found[0], int) and bool(term.quotients)
        if len(unknown or dynamic) != 1 or term.expression is None:
            return
        [name] = unknown or dynamic
        value = solve_for(term.expression, name, found[0], self.extents)
        if value is None:
            self._refuse(operand, term, axes[0])
        if unknown or isinstance(value, int) or divided:
            self.extents[name] = value
            self.places[name] = operand, axes[0]

    def _fit(self, operand: Operand, placed: Sequence[tuple[Term, range]]) -> Tensor:
        tensor = self._tensor(operand)
        wanted: list[Extent] = []
        for term, axes in placed:
            wanted += self._find_wanted(operand, term, axes)
        return self.ctx.refine(tensor, wanted)

    def _find_wanted(self, operand: Operand, term: Term, axes: range) -> Sequence[Extent]:
        """The extents that a term says of its axes, which they are held against; any that it does not say."""
        found = self._shape(operand, axes)
        if isinstance(term, Several):
            wanted = self.several.get(term.name, found)
        elif term.expression is None or any(n not in self.extents for n in term.names):
            wanted = found
        else:
            wanted = self._evaluate(operand, term, axes[0])
        for axis, own, extent in zip(axes, found, wanted, strict=True):
            if own != extent:
                self._demand_equal(operand, term, axis, own, extent)
        return wanted

    def _evaluate(self, operand: Operand, term: One, axis: int) -> list[Extent]:
        assert term.expression is not None
        value = find_value(term.expression, self.extents)
        if value is None:
            self._refuse(operand, term, axis)
        for quotient in term.quotients:
            parts = [find_value(e, self.extents) for e in (quotient.left, quotient.right, quotient)]
            whole, divisor, part = cast(list[Extent], parts)  # there is a whole value
            if whole != part * divisor:
                self.ctx.demand_equal(whole, part * divisor, self._describe(operand, term, axis))
        return [value]

    def _demand_equal(self, operand: Operand, term: Term, axis: int, own: Extent, wanted: Extent) -> None:
        if not may_be_equal([own], [wanted]):
            self._refuse(operand, term, axis, wanted)
        self.ctx.demand_equal(own, wanted, self._describe(operand, term, axis, wanted))

    def _refuse(self, operand: Operand, term: Term, axis: int, wanted: Extent | None = None) -> NoReturn:
        self.ctx.invalid(self._describe(operand, term, axis, wanted))

    def _describe(
        self, operand: Operand, term: Term | None = None, axis: int | None = None, wanted: Extent | None = None
    ) -> str:
        """The operand's shape, the one that is declared, the axis that differs, and what the term was computed from."""
        text = f"{operand.name} has shape {list(self._tensor(operand).shape)}, it must be {operand.text}"
        if term is None:
            return text
        names = [*term.names] if isinstance(term, One) else [term.name]
        if axis is not None:
            text += f", but axis {axis} is not {self._describe_extent(operand, term, axis, wanted)}"
        elif isinstance(term, Several) and term.like:
            names.append(term.like)
        given = {n: self.arguments.get(n) for n in names}
        origins = dict.fromkeys(self.places[n][0] for n in names if n in self.places and not given[n])
        sources = [f"{o.name} is {o.text} of shape {list(self._tensor(o).shape)}" for o in origins if o is not operand]
        sources += [f"{n}={value}" for n, value in given.items() if value is not None and n != term.text]
        return f"{text} ({', '.join(sources)})" if sources else text

    def _describe_extent(self, operand: Operand, term: Term, axis: int, wanted: Extent | None) -> str:
        if isinstance(term, Several) or term.text == str(wanted):
            return repr(wanted)
        own = any(self.places.get(n) == (operand, axis) for n in term.names)
        return term.text if own or wanted is None else f"{term.text} = {wanted!r}"

    def _tensor(self, operand: Operand) -> Tensor:
        return self.arguments[operand.name]

    def _shape(self, operand: Operand, axes: range) -> tuple[Extent, ...]:
        return self._tensor(operand).shape[axes.start : axes.stop]


def _is_arithmetic(term: Term) -> bool:
    return isinstance(term, One) and isinstance(term.expression, Arithmetic)
