"""Sampling between the elements of a tensor: GridSample and what is made like it.

Every mode is separable. For each axis there is a table with the neighbours that a coordinate is made of and their
weights. Coordinates are those of elements: 0 is the first one's centre.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import reduce

from ....core.sizes import Extent, count_elements, floor_divide, has_dynamic_extents
from ....dialects import arith, builders, ir, math, scalars
from ....dialects.types import element_type
from ..state.context import Context
from ..values.tensor import Tensor

TAPS = {"nearest": 1, "linear": 2, "cubic": 4}
PADDINGS = ("zeros", "border", "reflection")
_CUBIC_PARAMETER = -0.75  # the parameter of Keys' cubic convolution

# Numbers of elements up to which they have 32 bits.
_MOST_SHORT = 1 << 31
# Channels of which rows are made: fewer do not fill a vector.
LEAST_ROW = 8

# Of one axis: what neighbours add to the number of an element in the sampled axes, and their weights where there is
# more than one neighbour. The first axis is the taps'. A neighbour that counts as zero makes the sum negative.
Table = list[ir.Value]


@dataclass(frozen=True)
class Rule:
    """How values between and outside of the elements are made; the border is at their centres, or around them.

    by_neighbours: whether padding with the border moves each neighbour into the tensor, not the coordinate.
    """

    mode: str = "linear"
    padding: str = "zeros"
    align_corners: bool = False
    by_neighbours: bool = False

    def span(self, extent: Extent, like: ir.Value) -> ir.Value:
        """The distance of the coordinates between which no padding is needed, as a number of a value's type."""
        return scalars.like(like, extent - int(self.align_corners))

    def border(self, extent: Extent, like: ir.Value) -> tuple[ir.Value, ir.Value]:
        """These coordinates: the centres of the first element and the last, or half an element further out."""
        low = scalars.like(like, 0 if self.align_corners else -0.5)
        return low, scalars.add(self.span(extent, like), low)


def make_table(
    inputs: Sequence[ir.Value],
    maps: Sequence[builders.MapSpec],
    shape: Sequence[Extent],
    coordinate: Callable[..., ir.Value],
    sampled: Sequence[Extent],
    axis: int,
    rule: Rule,
) -> Table:
    """The table of one of the ``sampled`` axes for the coordinates that ``coordinate`` makes of elements of the inputs.

    The loops in which these are made are those over the taps and the ``shape``.
    """
    whole, rank, extent = _number_type(sampled), len(shape), sampled[axis]

    def body(*args: ir.Value) -> list[ir.Value]:
        at = _pad_coordinate(coordinate(*map(scalars.widen, args[: len(inputs)])), extent, rule)
        neighbour = scalars.add(
            _find_lowest_neighbour(at, rule.mode), scalars.from_index(builders.linalg_index(0), at.type)
        )
        position = _map_neighbour(arith.fptosi(whole, neighbour), extent, rule)
        number = scalars.mul(position, scalars.like(position, count_elements(sampled[axis + 1 :])))
        if rule.padding == "zeros":
            nowhere = scalars.compare("lt", position, scalars.like(position, 0))
            number = scalars.select(nowhere, scalars.like(position, -count_elements(sampled)), number)
        weights = [_weigh_distance(math.absf(scalars.sub(at, neighbour)), rule.mode)] if TAPS[rule.mode] > 1 else []
        return [number, *weights]

    weight = max((scalars.compute_type(builders.element_of(v)) for v in inputs), key=scalars.width)
    outs = [builders.empty([TAPS[rule.mode], *shape], t) for t in (whole, weight)[: min(TAPS[rule.mode], 2)]]
    return builders.generic(inputs, outs, [*maps, *[range(rank + 1)] * len(outs)], "p" * (rank + 1), body)


def _number_type(sampled: Sequence[Extent]) -> ir.Type:
    """The type of numbers of elements: vectors hold twice as many of 32 bits, and gathers take them as they are."""
    short = has_dynamic_extents(sampled) or count_elements(sampled) * len(sampled) < _MOST_SHORT
    return ir.IntegerType.get_signless(32 if short else 64)


def demand_numbers(ctx: Context, sampled: Sequence[Extent]) -> None:
    """Let the program check that numbers of elements fit where only the run knows how many there are."""
    if has_dynamic_extents(sampled):
        count = count_elements(sampled) * len(sampled)
        ctx.demand_less(count, _MOST_SHORT, "it samples an image of 2^31 elements or more, once for each axis")


def sample(ctx: Context, x: Tensor, tables: Sequence[Table], lead: int, in_rows: bool | None = None) -> Tensor:
    """Weighted sums of neighbours. ``x`` has ``lead`` axes that are not sampled, the last of them the channels.

    The tables have their taps, then the axes before the channels, then those of the result. For ``in_rows`` see
    ``sample_rows``.
    """
    made = sample_rows(ctx, x, tables, lead, in_rows=in_rows)
    moved = ctx.transpose(made, [*range(lead - 1), lead + 1, lead, lead - 1])
    return ctx.reshape(moved, [*x.shape[:lead], *builders.shape_of(tables[0][0])[lead:]])


def sample_rows(
    ctx: Context, x: Tensor, tables: Sequence[Table], lead: int, inner: Extent = 1, in_rows: bool | None = None
) -> Tensor:
    """What ``sample`` gives, in another order: the places are two axes, and after them come the channels.

    The result's first axes in the tables have ``inner`` places together: the second axis here, the others the first.
    Many channels are read as rows, where all of a row has one weight; a few of them element by element. ``in_rows``
    says which, if given.
    """
    elem = element_type(x.dtype)
    acc_type = scalars.compute_type(elem)
    batch, channels = x.shape[: lead - 1], x.shape[lead - 1]
    outer = floor_divide(count_elements(builders.shape_of(tables[0][0])[lead:]), inner)
    image = ctx.reshape(x, [*batch, channels, count_elements(x.shape[lead:])])
    if in_rows is None:
        in_rows = not isinstance(channels, int) or channels >= LEAST_ROW
    if in_rows:
        image = ctx.transpose(image, [*range(lead - 1), lead, lead - 1])
    channel_loop, inner_loop, outer_loop = (lead + 1, lead, lead - 1) if in_rows else (lead - 1, lead, lead + 1)

    def body(*args: ir.Value) -> ir.Value:
        acc, left = args[-1], iter(args)
        rows = [[next(left) for _ in columns] for columns in tables]
        number = reduce(scalars.add, (row[0] for row in rows))
        inside = scalars.compare("ge", number, scalars.like(number, 0))
        place = scalars.to_index(scalars.maximum(number, scalars.like(number, 0)))
        channel = builders.linalg_index(channel_loop)
        indices = [*map(builders.linalg_index, range(lead - 1)), *((place, channel) if in_rows else (channel, place))]
        value = builders.extract(image.value, indices)
        weights = [scalars.narrow(row[1], acc_type) for row in rows if len(row) > 1]
        term = scalars.fma(value, reduce(scalars.mul, weights), acc) if weights else value
        return scalars.select(inside, term, acc)

    columns = [column for table in tables for column in table]
    operands = [builders.reshape(v, [*builders.shape_of(v)[:lead], inner, outer]) for v in columns]
    taps = [lead + 2 + i for i, table in enumerate(tables) for _ in table]
    maps = [[tap, *range(lead - 1), inner_loop, outer_loop] for tap in taps]
    shape = [*batch, outer, inner, channels] if in_rows else [*batch, channels, inner, outer]
    out = builders.full(shape, builders.scalar(0, acc_type))
    iterators = "p" * (lead + 2) + "r" * len(tables)
    made = builders.generic(operands, [out], [*maps, range(lead + 2)], iterators, body)[0]
    made = ctx.wrap(builders.convert_elements(made, elem), x.dtype)
    return made if in_rows else ctx.transpose(made, [*range(lead - 1), lead + 1, lead, lead - 1])


def _pad_coordinate(at: ir.Value, extent: Extent, rule: Rule) -> ir.Value:
    """A coordinate near or in the tensor, also of NaN and what no integer holds; for nearest a whole number."""
    if rule.mode == "nearest":
        at = math.roundeven(at)
    low, high = rule.border(extent, at)
    if rule.padding == "zeros" or rule.by_neighbours:  # where all that is near is one value, how far is no matter
        return clamp(at, -3, extent + 2)
    if rule.padding == "reflection":
        return _between(_reflect(at, low, rule.span(extent, at), high), low, high)
    outside = scalars.either(
        scalars.invert(scalars.compare("ge", at, low)),
        scalars.invert(scalars.compare("le", at, high)),
    )
    return scalars.select(outside, clamp(at, 0, extent - 1), at)


def clamp(at: ir.Value, low: float, high: float | Extent) -> ir.Value:
    """Within a range; NaN becomes its lower end."""
    return _between(at, scalars.like(at, low), scalars.like(at, high))


def _between(at: ir.Value, least: ir.Value, most: ir.Value) -> ir.Value:
    at = scalars.select(scalars.compare("ge", at, least), at, least)
    return scalars.select(scalars.compare("le", at, most), at, most)


def _reflect(at: ir.Value, least: ir.Value, span: ir.Value, most: ir.Value) -> ir.Value:
    """Mirrored at both borders as often as needed: what is an odd number of ranges away runs backwards."""
    distance = math.absf(scalars.sub(at, least))
    turns = math.floor(scalars.div(distance, span))  # NaN where the range is a point
    rest = scalars.sub(distance, scalars.mul(turns, span))
    half = scalars.mul(turns, scalars.like(at, 0.5))
    odd = scalars.compare("ne", half, math.floor(half))
    return scalars.select(odd, scalars.sub(most, rest), scalars.add(least, rest))


def _find_lowest_neighbour(at: ir.Value, mode: str) -> ir.Value:
    """The lowest of a coordinate's neighbours."""
    below = math.floor(at)
    return scalars.sub(below, scalars.like(at, 1)) if mode == "cubic" else below


def _map_neighbour(neighbour: ir.Value, extent: Extent, rule: Rule) -> ir.Value:
    """The element that stands for a neighbour, or -1 for a zero."""
    zero, last = scalars.like(neighbour, 0), scalars.like(neighbour, extent - 1)
    if rule.padding == "zeros":
        inside = scalars.compare("lt", neighbour, scalars.like(neighbour, extent), signed=False)  # below 0 is large
        return scalars.select(inside, neighbour, scalars.like(neighbour, -1))
    if rule.padding == "reflection" and extent != 1:
        skipped = int(rule.align_corners)  # the element at the border comes once, or twice
        period = scalars.like(neighbour, 2 * (extent - skipped))
        neighbour = scalars.rem(scalars.add(scalars.rem(neighbour, period), period), period)
        mirrored = scalars.sub(scalars.like(neighbour, 2 * extent - 1 - skipped), neighbour)
        neighbour = scalars.select(scalars.compare("gt", neighbour, last), mirrored, neighbour)
    return scalars.minimum(scalars.maximum(neighbour, zero), last)


def _weigh_distance(distance: ir.Value, mode: str) -> ir.Value:
    def line(slope: float, offset: float, at: ir.Value) -> ir.Value:
        return scalars.fma(scalars.like(at, slope), at, scalars.like(at, offset))

    one = scalars.like(distance, 1)
    if mode == "linear":
        return scalars.sub(one, distance)
    a, d = _CUBIC_PARAMETER, distance
    near = scalars.fma(scalars.mul(line(a + 2, -(a + 3), d), d), d, one)
    far = scalars.fma(scalars.fma(line(a, -5 * a, d), d, scalars.like(d, 8 * a)), d, scalars.like(d, -4 * a))
    return scalars.select(scalars.compare("le", d, one), near, far)
