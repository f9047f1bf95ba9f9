"""NonMaxSuppression: which boxes to keep of those that overlap, class by class."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from ....core.sizes import Extent, count_elements, floor_divide, min_of
from ....dialects import arith, builders, extents, ir, scalars, tensor
from ....dialects.bounds import least_key, order_key
from ....dialects.loops import for_loop, index, sequential, while_loop
from ....dialects.sorting import sort_words
from ....dialects.types import element_type
from ..state.context import Context
from ..state.registry import op
from ..values.tensor import Tensor

_BLOCK = 16  # kept boxes that one is held against before it is asked whether any overlaps: LLVM makes vectors of them
_AT_A_TIME = 16  # scores that are looked at together: most of a detector's are low, and cost a few vectors' comparisons
_NUMBERS = 5  # of a box: low y, low x, high y, high x, area
_MOST_IN_ONE_STRIP = 512  # boxes that are kept, beside which those strips are not worth what it takes to make them
# Boxes that are kept of a class of which most need not be sorted; how many are looked for one by one, among how many.
_FEW, _MOST_HELD_FIRST, _MOST_SEARCHED = 16, 40, 256
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
    bound = capacity if isinstance(capacity, int) else None
    if ctx.is_known(most):
        wanted = max(ctx.ints(most, "max_output_boxes_per_class")[0], 0)
        capacity, bound = min_of(wanted, capacity), wanted if bound is None else min(wanted, bound)
    room = count_elements([*scores.shape[:2], capacity])
    if room == 0:
        return ctx.const(np.empty((0, 3), np.int64))
    threshold = None if score_threshold is None else ctx.reshape(score_threshold, [])
    search = _Search(boxes, scores, most, limit, threshold, bool(center_point_box), capacity, bound)
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
    """The boxes of each class that are kept, ``capacity`` of each at most.

    ``bound``: a number that this never exceeds, however many boxes the run has; None where there is none.
    """

    boxes: Tensor
    scores: Tensor
    most: Tensor
    limit: Tensor
    threshold: Tensor | None
    centered: bool
    capacity: Extent
    bound: int | None

    def search_row(self, row: ir.Value, states: Values) -> tuple[ir.Value, Values]:
        """Write the places of the boxes that are kept of one class of a batch, and count them."""
        classes = index(self.scores.shape[1])
        at = [scalars.div(row, classes, signed=False), scalars.rem(row, classes, signed=False)]
        ranked, count = self._collect(at)
        if not self._wants_first:
            ranked = sort_words(ranked, count)
        most = scalars.to_index(_item(self.most))
        strips, starts = (None, builders.full([1], index(0))) if self.few else self._divide(at[0], ranked, count)
        most_kept = self.capacity if self.bound is None else self.bound
        room = floor_divide(most_kept + (_BLOCK - 1), _BLOCK) * _BLOCK
        if strips is not None:
            room = self.scores.shape[2] + (_STRIPS + 2) * _BLOCK
        kept = builders.empty([_NUMBERS, room], ir.F32Type.get())

        def hold(place: ir.Value, states: Values) -> tuple[ir.Value, Values]:
            # Each box is written where the next one of its strip belongs, so that there is no branch.
            places, number, kept, ends, chosen = states
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
        states, held = [places, number, kept, _copy(starts), index(0)], index(0)
        if self._wants_first:
            held, states = _hold_first(ranked, count, scalars.compare("gt", most, held), states, hold)
            unsorted = scalars.select(scalars.compare("lt", states[-1], most), count, index(0))
            ranked = sort_words(ranked, unsorted)
        wanted, behind = scalars.compare("lt", states[-1], most), scalars.sub(count, held)
        places, number, *_ = while_loop(
            behind, wanted, states, lambda i, states: hold(_place(ranked, scalars.add(held, i)), states)
        )
        counts = tensor.InsertOp(scalars.from_index(number, element_type("int64")), counts, [index(0)]).result
        return scalars.bool_constant(True), [places, counts]

    @property
    def _wants_first(self) -> bool:
        """Return whether so few boxes are kept that most need not be brought into order."""
        return self.bound is not None and self.bound <= _FEW

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
        return self.bound is not None and self.bound <= _MOST_IN_ONE_STRIP

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

    def _collect(self, at: Values) -> tuple[ir.Value, ir.Value]:
        """The boxes of a class whose scores count, in the low half of words behind their keys; and their number."""
        extent, whole = self.scores.shape[2], element_type("int64")

        def join(place: ir.Value) -> ir.Value:
            key = order_key(builders.extract(self.scores.value, [*at, place]), largest=True)
            return arith.ori(
                arith.shli(arith.extui(whole, key), scalars.const(32, whole)), scalars.from_index(place, whole)
            )

        if self.threshold is None:
            return builders.index_map([extent], whole, join), index(extent)
        places, count = self._find_places(at, _item(self.threshold))

        def put(where: Values, states: Values) -> Values:
            place = scalars.to_index(builders.extract(states[0], where))
            return [tensor.InsertOp(join(place), states[0], where).result]

        [words] = sequential([count], [places], put)
        return words, count

    def _find_places(self, at: Values, least: ir.Value) -> tuple[ir.Value, ir.Value]:
        """The places of the scores of a class that are above ``least``, and their number."""
        extent, whole = self.scores.shape[2], element_type("int64")

        def counts(place: ir.Value) -> ir.Value:
            return scalars.compare("gt", builders.extract(self.scores.value, [*at, place]), least)

        def take(place: ir.Value, states: Values) -> Values:
            places, count = states
            places = tensor.InsertOp(scalars.from_index(place, whole), places, [count]).result
            return [places, scalars.add(count, arith.index_castui(ir.IndexType.get(), counts(place)))]

        def take_block(where: Values, states: Values) -> Values:
            first = scalars.mul(where[0], index(_AT_A_TIME))
            some = functools.reduce(scalars.either, [counts(scalars.add(first, index(i))) for i in range(_AT_A_TIME)])

            def read(_: ir.Value, states: Values) -> tuple[ir.Value, Values]:
                made = for_loop(_AT_A_TIME, states, lambda i, states: take(scalars.add(first, i), states))
                return scalars.bool_constant(False), made

            return while_loop(None, some, states, read)

        behind = _AT_A_TIME * floor_divide(extent, _AT_A_TIME)
        states = [builders.empty([extent], whole), index(0)]
        states = sequential([floor_divide(extent, _AT_A_TIME)], states, take_block)
        places, count = sequential(
            [extent - behind], states, lambda where, states: take(scalars.add(where[0], index(behind)), states)
        )
        return places, count

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


def _hold_first(
    words: ir.Value,
    count: ir.Value,
    wanted: ir.Value,
    states: Values,
    hold: Callable[[ir.Value, Values], tuple[ir.Value, Values]],
) -> tuple[ir.Value, Values]:
    """Hold the first boxes of those that are in no order yet, of few, until there are enough; and how many were held.

    To find the first one of them takes few vectors' comparisons, and to sort them as long as forty of these.
    """
    whole, last = element_type("int64"), -1
    fits = scalars.compare("le", count, index(_MOST_SEARCHED))
    number = scalars.select(fits, count, index(0))

    def note(i: ir.Value, states: Values) -> Values:
        key = arith.andi(tensor.ExtractOp(words, [i]).result, scalars.const(-1 << 32, whole))
        return [tensor.InsertOp(arith.ori(key, scalars.from_index(i, whole)), states[0], [i]).result]

    [left] = for_loop(number, [builders.full([_MOST_SEARCHED], scalars.const(last, whole))], note)

    def take(_: ir.Value, states: Values) -> tuple[ir.Value, Values]:
        left, held, *others = states
        first = builders.extract(builders.reduce(least_key, last, left, [0]), [])
        place = scalars.to_index(arith.andi(first, scalars.const(0xFFFFFFFF, whole)))
        left = tensor.InsertOp(scalars.const(last, whole), left, [place]).result
        goes_on, others = hold(_place(words, place), others)
        return goes_on, [left, scalars.add(held, index(1)), *others]

    steps = scalars.minimum(number, index(_MOST_HELD_FIRST))
    _, held, *states = while_loop(steps, wanted, [left, index(0), *states], take)
    return held, states


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
