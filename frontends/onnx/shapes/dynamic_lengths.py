"""Vectors whose number of elements only the run knows: shapes, axes, positions.

Where that number decides a rank, a node is converted for each that it may be (``for_each_length``). Where it does not,
one conversion reads as many elements as could be there (``up_to``), and which of them are is arithmetic on sizes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from ....core.sizes import Extent, Sym, bounds_of, has_dynamic_extents
from ....dialects import arith, builders, extents, ir
from ..control.alternatives import in_each
from ..control.control_flow import refuse_in_kernel
from ..control.ranks import note_cause
from ..state.context import Context
from ..values.choices import known_size
from ..values.objects import MOST_RANKS
from ..values.tensor import Tensor


def for_each_length(
    ctx: Context,
    length: Extent,
    what: str,
    convert: Callable[[int], Tensor],
    low: int = 0,
    high: int | None = None,
) -> Tensor:
    """What ``convert`` makes for the length of ``what`` that the run has, as far as it is from ``low`` to ``high``.

    It converts for each of these, from the least on, but for no more than ``MOST_RANKS``, and not where the inputs'
    shapes do not fit; the program refuses a run of another length. ModelError where none fits, Unsupported inside of
    a kernel.
    """
    if not isinstance(length, Sym):
        return convert(length)
    refuse_in_kernel(ctx)
    within, known = bounds_of(length), known_size(length, ctx.graph.facts)
    first = max(low, within.low or 0)
    last = min(n for n in (high, within.high, first + MOST_RANKS - 1) if n is not None)
    lengths = [n for n in range(first, last + 1) if known is None or n in known]
    misfit = f"{what} has {length} elements, but it must have {first} to {last}"
    if not lengths:
        ctx.invalid(misfit)
    if known is None or not known.issubset(lengths):
        ctx.demand_less(first - 1, length, misfit)
        ctx.demand_less(length, last + 1, misfit)

    def words(some: Sequence[int]) -> str:
        return f"{what} of {' or '.join(map(str, some))} elements"

    return for_each_number(ctx, length, lengths, words, convert)


def for_each_number(
    ctx: Context,
    size: Extent,
    numbers: Sequence[int],
    words: Callable[[Sequence[int]], str],
    convert: Callable[[int], Tensor],
) -> Tensor:
    """What ``convert`` makes for the one of ``numbers`` that a size is in the run, which may decide a rank.

    ``words`` say what is so for some of the numbers. The caller has refused runs in which the size is none of them.
    """
    ranks: dict[int, int] = {}

    def has(n: int) -> ir.Value:
        return arith.cmpi(arith.CmpIPredicate.eq, extents.index(size), extents.index(n))

    def converted(n: int) -> list[Tensor]:
        made = convert(n)
        ranks[n] = made.rank
        return [made]

    [made] = in_each(ctx, numbers, has, converted, words, expected=True)
    return note_cause(made, size, ranks)


def for_each_shape(ctx: Context, shape: Tensor, what: str, convert: Callable[[Tensor], Tensor]) -> Tensor:
    """What ``convert`` makes of the input ``what`` of open length, which decides the result's rank."""
    return for_each_length(ctx, shape.size, f"input '{what}'", lambda n: convert(of_length(ctx, shape, n)))


def of_length(ctx: Context, x: Tensor, length: int) -> Tensor:
    """A vector of open length where the run has this one."""
    return ctx.as_shape(ctx.reshape(x, [x.size]), [length])


def up_to(ctx: Context, x: Tensor, what: str, most: int) -> list[Extent]:
    """An integer tensor's elements as sizes; of one of open length the first ``most``, zeros where it has fewer.

    ``what`` is the input's name in the schema. The program refuses a run that has more.
    """
    if not x.is_dynamic:
        return ctx.sizes(x, what)
    ctx.demand_less(x.size, most + 1, f"input '{what}' has more than {most} elements")
    if not most:
        return []
    flat, room = ctx.reshape(x, [x.size]), ctx.zeros([most], x.dtype)
    return ctx.sizes(ctx.wrap(builders.insert(flat.value, room.value, [0]), x.dtype), what)


def read_vectors(ctx: Context, vectors: Mapping[str, Tensor], most: int) -> tuple[dict[str, list[Extent]], Extent]:
    """The elements of vectors that have one length, by the inputs' names, and that length; as ``up_to``."""
    lengths = [x.size for x in vectors.values()]
    length = next((n for n in lengths if isinstance(n, int)), lengths[0])
    misfit = f"inputs {', '.join(vectors)} have {', '.join(map(str, lengths))} elements"
    for n in lengths:
        if has_dynamic_extents((n, length)):  # of numbers the caller says more
            ctx.demand_equal(n, length, misfit)
    if isinstance(length, int):
        return {what: ctx.sizes(x, what, count=length) for what, x in vectors.items()}, length
    return {what: up_to(ctx, x, what, most) for what, x in vectors.items()}, length
