"""Reads an element of a tensor as one scalar expression, through the bodies of all ops on the way."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fractions import Fraction

from ....dialects import ir
from ....dialects.walk import defining_op
from ...analysis.groups import OpFacts, is_reduction
from ...ir.edit import splat_of
from ...ir.maps import reassociation_of
from ...ir.routine_ops import VIEWS
from ...ir.structure import (
    dim_of,
    indexing_maps,
    is_tensor,
    is_zero,
    iterator_types,
    loops_along,
    num_inputs,
    shape_of,
    terminator_of,
)
from . import polynomial
from .polynomial import Call, Read, Sum, UnreadableError
from .walk import Surroundings

_MAX_DEPTH = 16  # ops that one scalar is read through


@dataclass(frozen=True)
class Reduced:
    """A reduction of ``term``, over the dims of a tensor, along ``axes``; ``name`` is the op that combines."""

    name: str
    term: Sum
    axes: tuple[int, ...]


class Reader:
    """Reads scalars back to ``stop``, to reductions, and to whatever else is no elementwise op."""

    def __init__(self, stop: ir.Value | None = None, around: Surroundings | None = None) -> None:
        self.stop, self.around = stop, around or Surroundings()
        self._known: dict[ir.Value, Sum | None] = {}
        self._depth = 0

    def element(self, value: ir.Value) -> Sum:
        """A tensor's element over its own dims. Raises UnreadableError where it has no form."""
        op = defining_op(value)
        if value == self.stop or op is None or self._depth > _MAX_DEPTH or not self.around.in_place(op):
            return polynomial.sum_of_atom(read_itself(value))
        if value not in self._known:
            self._depth += 1
            try:
                self._known[value] = self.scalar(op, terminator_of(op).operands[0])
            except UnreadableError:
                self._known[value] = None
            finally:
                self._depth -= 1
        if (known := self._known[value]) is None:
            raise UnreadableError
        return known

    def scalar(self, op: ir.Operation, value: ir.Value) -> Sum:
        """A scalar in the body of an op, over the dims of its result, or over its loops if it is a reduction."""
        maps, kinds, block = indexing_maps(op), iterator_types(op), op.regions[0].blocks[0]
        loops: list[int | None] = (
            list(range(len(kinds))) if "reduction" in kinds else [dim_of(e) for e in maps[-1].results]
        )
        arguments = list(block.arguments)[: num_inputs(op)]
        known: dict[ir.Value, Sum] = {}

        def made(value: ir.Value) -> Sum:
            inner = defining_op(value)
            if value in arguments:
                number = arguments.index(value)
                return self._operand(op.operands[number], maps[number], loops)
            if (constant := splat_of(value)) is not None:
                return polynomial.sum_of_number(float(constant))
            if inner is None or inner.block != block or len(inner.results) != 1:
                raise UnreadableError
            return _apply(inner, [read(v) for v in inner.operands])

        def read(value: ir.Value) -> Sum:
            if value not in known:
                known[value] = made(value)
            return known[value]

        return read(value)

    def _operand(self, value: ir.Value, m: ir.AffineMap, loops: list[int | None]) -> Sum:
        """The element of a tensor that an op reads by a map, over the dims that go with ``loops``."""
        dims = [(dim_of(e), is_zero(e)) for e in m.results]
        if any(d not in loops and not zero for d, zero in dims):
            raise UnreadableError
        return self._read(value, [None if d is None else loops.index(d) for d, _ in dims])

    def reduction(self, read: Read, x: ir.Value) -> Reduced | None:
        """The reduction that made what is read at places of ``x``, if it is one of ``x``'s rows."""
        op = defining_op(read.value)
        name, term = self._summand(op) if op is not None else ("", None)
        return _over_rows(op, name, term, read, x) if op is not None and term is not None else None

    def _summand(self, op: ir.Operation) -> tuple[str, Sum | None]:
        """The name of the op by which a reduction combines, and what, over its loops; None if it is no known one."""
        if not is_reduction(op, OpFacts({})):
            return "", None
        count = num_inputs(op)
        acc, total = op.regions[0].blocks[0].arguments[count], defining_op(terminator_of(op).operands[0])
        terms = [v for v in total.operands if v != acc] if total is not None else []
        if total is None or len(terms) != 1 or not _starts_neutral(total.name, splat_of(op.operands[count])):
            return "", None
        try:
            return total.name, self.scalar(op, terms[0])
        except UnreadableError:
            return "", None

    def _read(self, value: ir.Value, places: list[int | None]) -> Sum:
        """An element of a tensor at places, made of what makes the tensor where that can be read."""
        constant = splat_of(value)
        if constant is not None:
            return polynomial.sum_of_number(float(constant))
        if not is_tensor(value):
            raise UnreadableError
        view = defining_op(value)
        if value != self.stop and view is not None and view.name in VIEWS:
            inner = through_unit_view(view, places)
            if inner is not None:
                return self._read(view.operands[0], inner)
        try:
            made = self.element(value)
        except UnreadableError:
            made = polynomial.sum_of_atom(read_itself(value))
        if tuple(places) == read_itself(value).places:
            return made  # as nearly all are
        return polynomial.move_reads(made, lambda dim: places[dim])


def read_itself(value: ir.Value) -> Read:
    """A tensor's element at its own dims."""
    return Read(value, tuple(None if n == 1 else d for d, n in enumerate(shape_of(value))))


def through_unit_view(view: ir.Operation, places: list[int | None]) -> list[int | None] | None:
    """Where a view's source is read for the view's places; None if dims other than of extent 1 are split or joined."""
    source, result = view.operands[0], view.results[0]
    expands = view.name == "tensor.expand_shape"
    wide = shape_of(result if expands else source)
    inner: list[int | None] = [None] * len(shape_of(source))
    for narrow, group in enumerate(reassociation_of(view)):
        large = [d for d in group if wide[d] != 1]
        if len(large) > 1:
            return None
        if large:
            inner[narrow if expands else large[0]] = places[large[0] if expands else narrow]
    return inner


def _starts_neutral(name: str, start: float | int | None) -> bool:
    if name == "arith.addf":
        return start == 0
    return name == "arith.maximumf" and start is not None and start < -3e38


def _over_rows(op: ir.Operation, name: str, term: Sum, read: Read, x: ir.Value) -> Reduced | None:
    """The reduction over the dims of ``x``, if it reads that element by element, and its result is read at its rows."""
    kinds, shape = iterator_types(op), shape_of(x)
    loops = [r.places for r in _walk_reads(term) if r.value == x and len(set(r.places) - {None}) == _rank(x)]
    if not loops:
        return None
    dims = {loop: dim for dim, loop in enumerate(loops[0]) if loop is not None}
    long = {loop for p in _walk_reads(term) for loop in p.places if loop is not None}
    out = loops_along(op, -1)
    if not long <= set(dims) or any(
        loop not in dims and n != 1 for loop, n in zip(out, shape_of(read.value), strict=True)
    ):
        return None
    rows = tuple(None if d is None or n == 1 else dims[d] for d, n in zip(out, shape_of(read.value), strict=True))
    axes = tuple(sorted(d for loop, d in dims.items() if kinds[loop] == "reduction"))
    if rows != read.places or not axes or any(shape[d] == 1 for d in axes):
        return None
    return Reduced(name, polynomial.move_reads(term, dims.__getitem__), axes)


def _walk_reads(a: Sum) -> Iterator[Read]:
    pending, seen = [a], {id(a)}
    while pending:
        for atom in polynomial.collect_atoms(pending.pop().products):
            if isinstance(atom, Read):
                yield atom
                continue
            parts = [part for part in (atom.arguments if isinstance(atom, Call) else (atom,)) if id(part) not in seen]
            seen.update(map(id, parts))
            pending += parts


def _rank(x: ir.Value) -> int:
    return sum(n != 1 for n in shape_of(x))


def _apply(op: ir.Operation, args: list[Sum]) -> Sum:
    """The op of a body on scalars."""
    if op.name in _ARITHMETIC:
        return _ARITHMETIC[op.name](*args)
    if len(op.regions) or op.name == "linalg.index":
        raise UnreadableError
    if op.name == "math.powf" and (exponent := args[1].number) in _POWERS:
        return polynomial.raise_to_power(args[0], Fraction(exponent))
    attributes = [f"{name}={op.attributes[name]}" for name in op.attributes if name != "fastmath"]
    types = {str(v.type) for v in (*op.operands, *op.results)}
    return polynomial.sum_of_atom(
        Call(" ".join([op.name, *attributes, *(sorted(types) if len(types) > 1 else [])]), tuple(args))
    )


def _divide(a: Sum, b: Sum) -> Sum:
    if (known := b.number) is not None:
        if not known:
            raise UnreadableError
        return polynomial.scale_sum(a, 1 / known)
    return polynomial.multiply_sums(a, polynomial.raise_to_power(b, Fraction(-1)))


_POWERS = (2.0, 3.0, 0.5, -0.5, -1.0)
_ARITHMETIC: dict[str, Callable[..., Sum]] = {
    "arith.addf": polynomial.add_sums,
    "arith.subf": lambda a, b: polynomial.add_sums(a, polynomial.scale_sum(b, -1.0)) if b.terms else a,
    "arith.mulf": polynomial.multiply_sums,
    "arith.negf": lambda a: polynomial.scale_sum(a, -1.0),
    "arith.divf": _divide,
    "math.sqrt": lambda a: polynomial.raise_to_power(a, polynomial.HALF),
    "math.rsqrt": lambda a: polynomial.raise_to_power(a, -polynomial.HALF),
}
