"""Arrays that a hybrid function writes, as tensors: each store makes a new one of the tensor before.

A store in loops is the computation of all its elements at once. That is the same where no step reads, or writes, what
another step of a loop writes, which ``Buffer`` makes sure of.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NoReturn

from ... import te
from ...core.errors import ExpressionError
from ...core.sizes import Extent
from ...te.expr import Expr, IterVar, Literal, Operation, as_size
from ...te.expr_parts import exchange_parts
from ...te.tensor import ComputeOp


@dataclass(eq=False)
class Loop:
    """A loop: ``var`` goes from 0 to before ``extent``, and the loop's own variable is that and ``begin``."""

    var: IterVar
    begin: int
    extent: Extent

    @property
    def value(self) -> Expr:
        """What the loop's variable is."""
        return self.var + self.begin if self.begin else self.var


@dataclass(frozen=True, eq=False)
class Place:
    """An index: a loop's variable, or none, and what is added to it. (Variables have no truth of ``==``.)"""

    var: IterVar | None
    offset: int

    def is_like(self, other: Place | None) -> bool:
        """Whether another index is the same."""
        return other is not None and self.var is other.var and self.offset == other.offset

    def is_in(self, loops: Sequence[Loop]) -> bool:
        """Whether the variable is that of one of some loops."""
        return any(self.var is each.var for each in loops)


def place_of(index: Expr) -> Place | None:
    """An index as a variable and a number, if it is no more than that."""
    if isinstance(index, IterVar):
        return Place(index, 0)
    if isinstance(index, Literal):
        return Place(None, int(index.value))
    if isinstance(index, Operation) and index.name in ("add", "subtract"):
        left, right = (place_of(each) for each in index.operands)
        if left is None or right is None or (right.var is not None and (left.var is not None or index.name != "add")):
            return None
        var = right.var if left.var is None else left.var
        return Place(var, left.offset + (right.offset if index.name == "add" else -right.offset))
    return None


@dataclass(frozen=True, eq=False)
class Access:
    """Where an array is read or written, in which loops; a sum goes along others, which are ``summed``."""

    loops: tuple[Loop, ...]
    places: tuple[Place | None, ...]  # None is what is no variable and a number
    summed: tuple[Loop, ...] = ()
    join: str = ""  # how elements are joined with what they were, in place of written


def combine(name: str, left: Any, right: Any) -> Any:
    """Two values joined as a reduction joins them."""
    if name == "add":
        return left + right
    if name == "multiply":
        return left * right
    return te.if_then_else(left > right if name == "maximum" else left < right, left, right)


def reduce_over(name: str, value: Expr, guard: Expr | None, loops: Sequence[Loop]) -> Any:
    """A reduction of a value along loops, of the steps that a guard lets."""
    axes = [te.reduce_axis((0, each.extent), name=each.var.name) for each in loops]
    reducers = {"add": te.sum, "multiply": te.prod, "maximum": te.max, "minimum": te.min}
    starts = {"add": te.const(0, value.dtype), "multiply": te.const(1, value.dtype)}
    starts |= {"maximum": te.min_value(value.dtype), "minimum": te.max_value(value.dtype)}
    held = value if guard is None else te.if_then_else(guard, value, starts[name])
    moved = {each.var: axis for each, axis in zip(loops, axes, strict=True)}
    return reducers[name](
        exchange_parts(held, lambda part: moved.get(part) if isinstance(part, IterVar) else None), axis=axes
    )


def compute_in(loops: Sequence[Loop], value: Any, name: str) -> Expr:
    """A value that depends on loops, as an element of a tensor of its own."""
    if not loops:
        return te.compute((1,), lambda i: value, name=name)[0]
    made = te.compute([each.extent for each in loops], lambda *axes: _move(value, loops, axes), name=name)
    return made(*(each.var for each in loops))


def _move(value: Expr, loops: Sequence[Loop], axes: Sequence[Expr]) -> Expr:
    moved = {each.var: axis for each, axis in zip(loops, axes, strict=True)}
    return exchange_parts(value, lambda part: moved.get(part) if isinstance(part, IterVar) else None)


@dataclass(eq=False)
class Buffer:
    """An array: ``outer`` are the loops in which it was made, ``tensor`` has an axis for each of them, too."""

    name: str
    shape: tuple[Any, ...]
    dtype: str
    outer: tuple[Loop, ...]
    tensor: te.Tensor | None = None
    reads: list[Access] = field(default_factory=list)
    writes: list[Access] = field(default_factory=list)

    def read(self, loops: tuple[Loop, ...], indices: Sequence[Expr]) -> Expr:
        """An element. Raises ExpressionError where another step of a loop writes it."""
        access = Access(loops, tuple(map(place_of, indices)))
        for each in self.writes:
            self._refuse_conflict(each, access)
        self.reads.append(access)
        return self.element(indices)

    def element(self, indices: Sequence[Expr]) -> Expr:
        """An element, which is 0 before it is written."""
        if self.tensor is None:
            return te.const(0, self.dtype)
        return self.tensor(*(each.var for each in self.outer), *indices)

    def write(self, loops: tuple[Loop, ...], indices: Sequence[Expr], value: Expr, guard: Expr | None) -> None:
        """Let elements be a value where a guard lets. Raises ExpressionError where steps write one over the other's."""
        places = self._find_places(loops, indices)
        for each in loops[len(self.outer) :]:
            if not any(place.var is each.var for place in places) and each.extent != 1:
                self._refuse(f"each step of '{each.var}' writes the same element: only sums and the like go along it")
        self._store(Access(loops, places), places, value, guard)

    def accumulate(
        self, loops: tuple[Loop, ...], indices: Sequence[Expr], name: str, value: Expr, guard: Expr | None
    ) -> None:
        """Join elements with values, along the loops that the indices do not have."""
        places = self._find_places(loops, indices)
        own = loops[len(self.outer) :]
        kept = [each for each in own if any(place.var is each.var for place in places)]
        summed = [each for each in own if not any(each is other for other in kept)]
        if summed:
            total = compute_in([*self.outer, *kept], reduce_over(name, value, guard, summed), f"{self.name}_{name}")
            guard = None
        else:
            total = value
        old = None if name == "add" and self._begins_at_zero() else self.element(indices)
        made = total if old is None else combine(name, old, total)
        access = Access((*self.outer, *kept), places, tuple(summed), name)
        self._store(access, places, made, guard)

    def _begins_at_zero(self) -> bool:
        op = None if self.tensor is None else self.tensor.op
        return op is None or (isinstance(op, ComputeOp) and isinstance(op.body[0], Literal) and op.body[0].value == 0)

    def _find_places(self, loops: tuple[Loop, ...], indices: Sequence[Expr]) -> tuple[Place, ...]:
        if len(indices) != len(self.shape):
            self._refuse(f"it has {len(self.shape)} axes, and is written with {len(indices)} indices")
        own, found = loops[len(self.outer) :], []
        for index in indices:
            place = place_of(index)
            if place is None or (place.var is not None and not place.is_in(own)):
                self._refuse(f"the index '{index}' of a store is no loop's variable, or that and a number")
            found.append(place)
        variables = [id(each.var) for each in found if each.var is not None]
        if len(set(variables)) != len(variables):
            self._refuse("two indices of a store are of one loop: write a condition in two loops")
        return tuple(found)

    def _store(self, access: Access, places: tuple[Place, ...], value: Expr, guard: Expr | None) -> None:
        for each in (*self.reads, *self.writes):
            self._refuse_conflict(access, each)
        self.writes.append(access)
        extents = {each.var: each.extent for each in access.loops}

        def element(*axes: Any) -> Expr:
            count = len(self.outer)
            moved: dict[Any, Expr] = {each.var: axis for each, axis in zip(self.outer, axes, strict=False)}
            conditions = []
            for axis, extent, place in zip(axes[count:], self.shape, places, strict=True):
                var, offset = place.var, place.offset
                size = 1 if var is None else extents[var]
                if var is not None:
                    moved[var] = axis - offset if offset else axis
                if offset:
                    conditions.append(axis >= offset)
                known = isinstance(extent, int) and isinstance(size, int)
                if guard is None and known and not 0 <= offset <= extent - size:
                    self._refuse(
                        f"it has {extent} elements along an axis, and {offset} to {offset + size - 1} are written"
                    )
                if offset + size < extent if known else size != extent or offset < 0:
                    conditions.append(axis < as_size(size) + offset)
            lets = [] if guard is None else [guard]
            made, *more = (
                exchange_parts(each, lambda part: moved.get(part) if isinstance(part, IterVar) else None)
                for each in (value, *lets)
            )
            conditions += more
            old = te.const(0, self.dtype) if self.tensor is None else self.tensor(*axes)
            return te.if_then_else(te.all(*conditions), made, old) if conditions else made

        shape = [*(each.extent for each in self.outer), *self.shape]
        self.tensor = te.compute(shape, element, name=f"{self.name}_{len(self.writes)}")

    def _refuse_conflict(self, write: Access, other: Access) -> None:
        """Refuse an access that has, in a loop around both, another place than a write: it may be another step's."""
        inner = [each for each in write.summed if any(each is own for own in (*other.loops, *other.summed))]
        if inner and other.join != write.join:
            self._refuse(f"steps of '{inner[0].var}' read elements on which they sum, or write them otherwise")
        shared = [each for each in write.loops[len(self.outer) :] if any(each is own for own in other.loops)]
        for loop in shared:
            number = next((n for n, place in enumerate(write.places) if place and place.var is loop.var), None)
            place = None if number is None else write.places[number]
            if place is None or number is None or not place.is_like(other.places[number]):
                self._refuse(
                    f"a step of '{loop.var}' reads or writes elements of another step: te.scan makes recurrences"
                )

    def finish(self) -> te.Tensor:
        """The tensor, with the array's name."""
        if self.tensor is None:
            return te.compute(self.shape, lambda *_: te.const(0, self.dtype), name=self.name)
        op = self.tensor.op
        return dataclasses.replace(op, name=self.name).output(0)

    def _refuse(self, why: str) -> NoReturn:
        raise ExpressionError(f"array '{self.name}' cannot be computed: {why}")
