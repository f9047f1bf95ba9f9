"""What a reduction reads again and again at computed places is copied first, so that its places are sums of loops.

``A[max(i - k, 0)]`` is ``B[i - k + K - 1]``, where ``B`` has all that the index gives. What a condition chooses, as the
border around an image, is in the copy too. Where a loop that is summed up counts backwards, it goes the other way.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from ..core.sizes import Extent
from .expr import Expr, IterVar, Operation, Range, Read, Reduce, as_size
from .expr_parts import children_of, exchange_parts
from .op_changes import with_parts
from .regions import LinearIndex, as_linear, domain_of, each_read
from .tensor import ComputeOp

# How often what is copied is read at least, and reductions that do not ask for an order.
_LEAST_READ, _WITHOUT_ORDER = 2, ("sum", "prod", "min", "max")
Terms = Mapping[IterVar, int]


@dataclass(frozen=True)
class CopiedReads:
    """The copies to be made, and the op that reads them; none, and the op as it was, where none would help.

    whole: whether the op reads all elements of each copy, so that what these read it reads as well.
    """

    copies: Sequence[ComputeOp]
    op: ComputeOp
    whole: bool = False


def copy_reads(op: ComputeOp, is_operand: Callable[[Read], bool]) -> CopiedReads:
    """What becomes of an op. ``is_operand`` says of what is read whether its places are loops, or sums of such."""
    first = op.body[0]
    if not isinstance(first, Reduce) or len(op.body) > 1 or first.combiner.name not in _WITHOUT_ORDER:
        return CopiedReads((), op)
    if not any(not is_operand(read) for read, _ in each_read(first.sources[0])):
        return CopiedReads((), op)
    turned = _turn_loops(op, is_operand)
    copies = _Copies(turned, is_operand)
    made = with_parts(turned, copies.replace)
    [after] = [each.sources[0] for each in made.body if isinstance(each, Reduce)]
    before = sum(not is_operand(read) for read, _ in each_read(first.sources[0]))
    left = sum(not is_operand(read) for read, _ in each_read(after) if read.tensor.op not in copies.made)
    return CopiedReads(copies.made, made, copies.whole) if left < before else CopiedReads((), op)


def _turn_loops(op: ComputeOp, is_operand: Callable[[Read], bool]) -> ComputeOp:
    """The op with those loops of its reduction counted from the end that places of other loops are less by."""
    first = op.body[0]
    assert isinstance(first, Reduce)
    backwards: set[IterVar] = set()
    for read, _ in each_read(first.sources[0]):
        if not is_operand(read):
            for terms in _list_directions(read):
                less = [axis for axis, times in terms.items() if times < 0]
                if len(terms) > 1 and all(axis.reduces for axis in less):
                    backwards.update(less)
    ends = {axis: as_size(2 * axis.dom.min + axis.dom.extent - 1) - axis for axis in backwards}
    return with_parts(op, lambda e: ends.get(e) if isinstance(e, IterVar) else None) if ends else op


def _list_directions(expr: Expr) -> Iterator[Terms]:
    """The loops that linear parts of an expression add up, each with the greatest factors without a common divisor.

    Those that begin with a loop of the result go along that.
    """
    if (linear := as_linear(expr)) is not None:
        if linear.terms:
            yield _split_factor(linear)[0]
        return
    for part in children_of(expr):
        yield from _list_directions(part)


def _split_factor(linear: LinearIndex) -> tuple[Terms, int]:
    """The direction of a linear index, and how many steps of it the index goes for each."""
    factor = math.gcd(*linear.terms.values())
    ahead = [times for axis, times in linear.terms.items() if not axis.reduces] or [*linear.terms.values()]
    factor = -factor if all(times < 0 for times in ahead) else factor
    return {axis: times // factor for axis, times in linear.terms.items()}, factor


@dataclass
class _Copies:
    """The copies of what an op reads."""

    op: ComputeOp
    is_operand: Callable[[Read], bool]
    made: list[ComputeOp] = field(default_factory=list)
    whole: bool = True

    def replace(self, expr: Expr) -> Expr | None:
        """An element of a copy in the place of an expression; None where none is made of it as a whole."""
        chosen = isinstance(expr, Operation) and expr.name == "select"
        if not chosen and not isinstance(expr, Read):
            return None
        if all(self.is_operand(read) for read, _ in each_read(expr)):
            return None
        directions = list(
            {tuple(sorted(d.items(), key=lambda t: t[0].name)): d for d in _list_directions(expr)}.values()
        )
        if any(times < 0 for terms in directions for times in terms.values()) or not self._pays(directions):
            return None
        ends = [_find_ends(terms) for terms in directions]
        axes = tuple(IterVar(f"t{n}", Range(0, high - low + 1)) for n, (low, high) in enumerate(ends))
        values = [axis + as_size(low) for axis, (low, _) in zip(axes, ends, strict=True)]

        def exchange(part: Expr) -> Expr | None:
            linear = as_linear(part)
            if linear is None or not linear.terms:
                return as_size(linear.const) if linear is not None else None
            terms, factor = _split_factor(linear)
            return values[directions.index(terms)] * factor + as_size(linear.const)

        body = (exchange_parts(expr, exchange),)
        name = f"{self.op.name}.copy{len(self.made)}"
        copy = ComputeOp(name, tuple(axis.dom.extent for axis in axes), (expr.dtype,), axes, body)
        self.made.append(copy)
        walked = [axis for terms in directions for axis in terms]
        single = all(times == 1 for terms in directions for times in terms.values())
        self.whole &= single and len(set(walked)) == len(walked)
        places = [_add_up(terms) + as_size(-low) for terms, (low, _) in zip(directions, ends, strict=True)]
        return Read(copy.output(0), tuple(places))

    def _pays(self, directions: list[Terms]) -> bool:
        """Return whether an element is read several times; where sizes are not known, whether there are fewer axes."""
        loops = [*self.op.axis, *self.op.reduce_axis]
        lengths = [high - low + 1 for low, high in map(_find_ends, directions)]
        extents = [axis.dom.extent for axis in loops]
        if all(isinstance(n, int) for n in (*lengths, *extents)):
            return math.prod(lengths, start=_LEAST_READ) <= math.prod(extents)
        return len(directions) < len(loops)


def _find_ends(terms: Terms) -> tuple[Extent, Extent]:
    """The least and the greatest value of a direction with no negative factor."""
    ends = [(domain_of(axis), times) for axis, times in terms.items()]
    low, high = (sum((end[side] * times for end, times in ends), start=0) for side in (0, 1))
    return low, high


def _add_up(terms: Terms) -> Expr:
    [first, *more] = [axis * times if times != 1 else axis for axis, times in terms.items()]
    for each in more:
        first = first + each
    return first
