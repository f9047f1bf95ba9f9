"""NonMaxSuppression: which boxes to keep of those that overlap, class by class."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ....core.sizes import Extent, count_elements, floor_divide, min_of
from ....dialects import arith, builders, extents, ir, scalars, tensor
from ....dialects.loops import for_loop, index, sequential, while_loop
from ....dialects.ranking import order_key
from ....dialects.sorting import sort_words
from ....dialects.types import element_type
from ..state.context import Context
from ..state.registry import op
from ..values.tensor import Tensor

_BLOCK = 16  # kept boxes that one is held against before it is asked whether any overlaps: LLVM makes vectors of them
_NUMBERS = 5  # of a box: low y, low x, high y, high x, area
_MOST_IN_ONE_STRIP = 512  # boxes that are kept, beside which those strips are not worth what it takes to make them
_STRIPS = 256  # that boxes are put in by their low y, each as high as the highest box: others than neighbours are apart

Values = Sequence[ir.Value]


@op("NonMaxSuppression", shapes="boxes[n k 4] scores[n c k]")
def non_max_suppression(
    ctx: Context,
    boxes: Tensor,
    scores: Tensor,
    max_output_boxes_per_class: Tensor | None = None,
    iou_threshold: Tensor | None = None,
    score_threshold: Tensor | None = None,
    *,
    center_point_box: int = 0,
) -> Tensor:
    """[batch, class, box] of each box kept, the best of a class first; of equal scores the first box is the best.

    Without a threshold all scores count, and one that is no number comes last.
    """
    most = ctx.const(0, "int64") if max_output_boxes_per_class is None else ctx.reshape(max_output_boxes_per_class, [])
    limit = ctx.const(0.0, "float32") if iou_threshold is None else ctx.reshape(iou_threshold, [])
    _demand_share(ctx, limit)
    capacity = scores.shape[2]
    if ctx.is_known(most):
        capacity = min_of(max(ctx.ints(most, "max_output_boxes_per_class")[0], 0), capacity)
    room = count_elements([*scores.shape[:2], capacity])
    if room == 0:
        return ctx.const(np.empty((0, 3), np.int64))
    threshold = None if score_threshold is None else ctx.reshape(score_threshold, [])
    search = _Search(boxes, scores, most, limit, threshold, bool(center_point_box), capacity)
    whole = element_type("int64")
    start = [builders.empty([room, 3], whole), builders.full([1], scalars.const(0, whole))]
    # No loop that is dropped around one class: outside of loops each op of the search would be a kernel.
    rows = index(count_elements(scores.shape[:2]))
    places, counts = while_loop(rows, scalars.bool_constant(True), start, search.search_row)
    places = extents.note(places, [room, 3])
    found = extents.fresh(scalars.to_index(builders.extract(counts, [index(0)])), "kept", 0)
    return ctx.wrap(builders.slice_(places, [0, 0], [found, 3]), "int64")


def _demand_share(ctx: Context, limit: Tensor) -> None:
    """A box overlaps another one by 0 to 1 of what both cover."""
    what = "iou_threshold must be from 0 to 1"
    if ctx.is_known(limit):
        share = float(ctx.demand_known(limit, "iou_threshold").reshape(-1)[0])
        if not 0 <= share <= 1:
            ctx.invalid(f"{what}, it is {share:g}")
        return

    def outside(share: ir.Value) -> ir.Value:
        inside = scalars.both(
            scalars.compare("ge", share, scalars.like(share, 0)), scalars.compare("le", share, scalars.like(share, 1))
        )
        return scalars.narrow(scalars.invert(inside), element_type("int64"))

    [wrong] = ctx.sizes(ctx.elementwise(outside, limit, dtype="int64"), "iou_threshold")
    ctx.demand_equal(wrong, 0, what)


@dataclass(frozen=True)
class _Search:
    """The boxes of each class that are kept, ``capacity`` of each at most."""

    boxes: Tensor
    scores: Tensor
    most: Tensor
    limit: Tensor
    threshold: Tensor | None
    centered: bool
    capacity: Extent

    def search_row(self, row: ir.Value, states: Values) -> tuple[ir.Value, Values]:
        """Write the places of the boxes that are kept of one class of a batch, and count them."""
        classes = index(self.scores.shape[1])
        at = [scalars.div(row, classes, signed=False), scalars.rem(row, classes, signed=False)]
        ranked, count = self._rank(at)
        most = scalars.to_index(_item(self.most))
        strips, starts = (None, builders.full([1], index(0))) if self.few else self._divide(at[0], ranked, count)
        room = floor_divide(self.capacity + (_BLOCK - 1), _BLOCK) * _BLOCK
        if strips is not None:
            room = self.scores.shape[2] + (_STRIPS + 2) * _BLOCK
        kept = builders.empty([_NUMBERS, room], ir.F32Type.get())

        def hold(i: ir.Value, states: Values) -> tuple[ir.Value, Values]:
            # Each box is written where the next one of its strip belongs, so that there is no branch.
            places, number, kept, ends, chosen = states
            place = _place(ranked, i)
            box = self._box(at[0], scalars.to_index(place))
            strip = strips.find(box[0]) if strips is not None else index(0)
            free = scalars.invert(self._overlaps_any(box, kept, strip, starts, ends))
            end = builders.extract(ends, [strip])
            for row, value in enumerate(box):
                kept = tensor.InsertOp(value, kept, [index(row), end]).result
            line = [scalars.from_index(axis, place.type) for axis in at]
            for column, value in enumerate([*line, place]):
                places = tensor.InsertOp(value, places, [number, index(column)]).result
            step = arith.index_castui(ir.IndexType.get(), free)
            ends = tensor.InsertOp(scalars.add(end, step), ends, [strip]).result
            chosen = scalars.add(chosen, step)
            return scalars.compare("lt", chosen, most), [places, scalars.add(number, step), kept, ends, chosen]

        places, counts = states
        number = scalars.to_index(builders.extract(counts, [index(0)]))
        wanted = scalars.compare("gt", most, index(0))
        places, number, *_ = while_loop(count, wanted, [places, number, kept, _copy(starts), index(0)], hold)
        counts = tensor.InsertOp(scalars.from_index(number, element_type("int64")), counts, [index(0)]).result
        return scalars.bool_constant(True), [places, counts]

    def _divide(self, batch: ir.Value, ranked: ir.Value, count: ir.Value) -> tuple[_Strips, ir.Value]:
        """Strips of the boxes that are ranked, and where each strip's boxes begin, if all of them are kept."""
        number = ir.F32Type.get()

        def measure(i: ir.Value, states: Values) -> Values:
            low, tallest = states
            box = self._box(batch, scalars.to_index(_place(ranked, i)))
            return [_lesser(box[0], low), _greater(scalars.sub(box[2], box[0]), tallest)]

        first = [scalars.const(value, number) for value in (float("inf"), 0.0)]
        lowest, tallest = for_loop(count, first, measure)
        strips = _Strips(lowest, scalars.div(scalars.like(tallest, 0.999), tallest))

        def note(i: ir.Value, states: Values) -> Values:
            [sizes] = states
            strip = strips.find(self._box(batch, scalars.to_index(_place(ranked, i)))[0])
            return [tensor.InsertOp(scalars.add(builders.extract(sizes, [strip]), index(1)), sizes, [strip]).result]

        [sizes] = for_loop(count, [builders.full([_STRIPS + 2], index(0))], note)

        def sum_up(i: ir.Value, states: Values) -> Values:
            starts, before = states
            size = builders.extract(starts, [i])
            room = scalars.mul(arith.ceildivui(size, index(_BLOCK)), index(_BLOCK))
            return [tensor.InsertOp(before, starts, [i]).result, scalars.add(before, room)]

        return strips, for_loop(_STRIPS + 2, [sizes, index(0)], sum_up)[0]

    @property
    def few(self) -> bool:
        """Return whether so few boxes are kept that each is soon held against all of them."""
        return isinstance(self.capacity, int) and self.capacity <= _MOST_IN_ONE_STRIP

    def _overlaps_any(self, box: Values, kept: ir.Value, strip: ir.Value, starts: ir.Value, ends: ir.Value) -> ir.Value:
        """Whether a box overlaps any that was kept of its strip and, where there are several, both neighbours."""
        limit = _item(self.limit)

        def hold_strip(i: ir.Value, states: Values) -> tuple[ir.Value, Values]:
            near = scalars.rem(scalars.add(i, index(1)), index(3), signed=False)  # its own strip first
            near = scalars.sub(scalars.add(strip, near), index(1))
            found = _overlaps_strip(box, kept, builders.extract(starts, [near]), builders.extract(ends, [near]), limit)
            return scalars.invert(found), [found]

        if self.few:
            return _overlaps_strip(box, kept, index(0), builders.extract(ends, [strip]), limit)
        no = scalars.bool_constant(False)
        [found] = while_loop(index(3), scalars.bool_constant(True), [no], hold_strip)
        return found

    def _rank(self, at: Values) -> tuple[ir.Value, ir.Value]:
        """The boxes of a class whose scores count, in order, in the low half of words; and their number."""
        extent, whole = self.scores.shape[2], element_type("int64")
        least = None if self.threshold is None else _item(self.threshold)

        def take(where: Values, states: Values) -> Values:
            words, count = states
            words = tensor.InsertOp(scalars.from_index(where[0], whole), words, [count]).result
            if least is None:
                return [words, scalars.add(count, index(1))]
            counts = scalars.compare("gt", builders.extract(self.scores.value, [*at, *where]), least)
            return [words, scalars.add(count, arith.index_castui(ir.IndexType.get(), counts))]

        words, count = sequential([extent], [builders.empty([extent], whole), index(0)], take)

        def join(where: Values, states: Values) -> Values:
            place = builders.extract(states[0], where)
            key = order_key(builders.extract(self.scores.value, [*at, scalars.to_index(place)]), largest=True)
            high = arith.shli(arith.extui(whole, key), scalars.const(32, whole))
            return [tensor.InsertOp(arith.ori(high, place), states[0], where).result]

        [words] = sequential([count], [words], join)
        return sort_words(words, count), count

    def _box(self, batch: ir.Value, place: ir.Value) -> list[ir.Value]:
        """The numbers of a box that is given by two corners (y, x, y, x), or by its center and size (x, y, w, h)."""
        given = [builders.extract(self.boxes.value, [batch, place, index(i)]) for i in range(4)]
        if self.centered:
            half = [scalars.div(side, scalars.like(side, 2)) for side in (given[3], given[2])]
            middle = [given[1], given[0]]
            low = [scalars.sub(a, b) for a, b in zip(middle, half, strict=True)]
            high = [scalars.add(a, b) for a, b in zip(middle, half, strict=True)]
        else:
            pairs = list(zip(given[:2], given[2:], strict=True))
            low, high = [_lesser(a, b) for a, b in pairs], [_greater(a, b) for a, b in pairs]
        return [*low, *high, scalars.mul(scalars.sub(high[0], low[0]), scalars.sub(high[1], low[1]))]


@dataclass(frozen=True)
class _Strips:
    """Strips of boxes from the ``lowest`` y on, 1 / ``share`` high: a little more than the tallest box.

    Boxes that overlap are in one strip or in neighbours. There is an empty strip at either end.
    """

    lowest: ir.Value
    share: ir.Value

    def find(self, low: ir.Value) -> ir.Value:
        """The strip of a box, from 1 to ``_STRIPS``; one whose place is no number is in the first."""
        zero, last = (scalars.like(low, number) for number in (0.0, _STRIPS - 1.0))
        place = _greater(_lesser(last, scalars.mul(scalars.sub(low, self.lowest), self.share)), zero)
        return scalars.add(scalars.to_index(arith.fptoui(element_type("int64"), place)), index(1))


def _place(ranked: ir.Value, i: ir.Value) -> ir.Value:
    return arith.andi(builders.extract(ranked, [i]), scalars.const(0xFFFFFFFF, element_type("int64")))


def _copy(starts: ir.Value) -> ir.Value:
    """A tensor of the same numbers, to be counted up."""
    return builders.elementwise(lambda number: number, starts, elem=ir.IndexType.get())


def _overlaps_strip(box: Values, kept: ir.Value, start: ir.Value, end: ir.Value, limit: ir.Value) -> ir.Value:
    """Whether a box overlaps any of those that were kept from ``start`` to ``end``."""
    blocks = arith.ceildivui(scalars.sub(end, start), index(_BLOCK))

    def hold(block: ir.Value, states: Values) -> tuple[ir.Value, Values]:
        first = scalars.add(start, scalars.mul(block, index(_BLOCK)))

        def compare(i: ir.Value, states: Values) -> Values:
            place = scalars.add(first, i)
            other = [tensor.ExtractOp(kept, [index(row), place]).result for row in range(_NUMBERS)]
            overlaps = scalars.both(_overlaps(other, box, limit), scalars.compare("lt", place, end))
            return [scalars.either(states[0], overlaps)]

        [found] = for_loop(index(_BLOCK), [scalars.bool_constant(False)], compare)
        return scalars.invert(found), [found]

    [found] = while_loop(blocks, scalars.bool_constant(True), [scalars.bool_constant(False)], hold)
    return found


def _overlaps(a: Values, b: Values, limit: ir.Value) -> ir.Value:
    """Whether two boxes share more than ``limit`` of what they cover: of an area that is no number none do."""
    zero = scalars.like(limit, 0)
    sides = [scalars.sub(_lesser(a[i + 2], b[i + 2]), _greater(a[i], b[i])) for i in (0, 1)]
    shared = scalars.mul(*(_greater(side, zero) for side in sides))
    covered = scalars.sub(scalars.add(a[4], b[4]), shared)
    return scalars.compare("gt", scalars.div(shared, covered), limit)


def _lesser(a: ir.Value, b: ir.Value) -> ir.Value:
    """The second one where either is no number: that is one instruction."""
    return scalars.select(scalars.compare("lt", a, b), a, b)


def _greater(a: ir.Value, b: ir.Value) -> ir.Value:
    """As ``_lesser``."""
    return scalars.select(scalars.compare("gt", a, b), a, b)


def _item(scalar: Tensor) -> ir.Value:
    return builders.extract(scalar.value, [])
