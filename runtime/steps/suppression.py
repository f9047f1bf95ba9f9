"""Non-maximum suppression: which boxes to keep of those that overlap, class by class.

Of boxes in the order of their scores the first half comes first; what it leaves of the other half is done the same
way. Boxes that are held against those of another half are sorted along an axis, so that only neighbours meet:
detectors move the boxes of each class to a place of their own, and then have one class of all.
"""

from __future__ import annotations

import numpy as np

_BLOCK = 128  # boxes that are held against each other at once
_PAIRS = 1 << 16  # of boxes, in one piece of work: their numbers stay in a core's cache

Boxes = np.ndarray  # low y, low x, high y, high x, area: a row of each


def suppress(
    boxes: np.ndarray, scores: np.ndarray, most: int, limit: float, threshold: float | None, centered: bool
) -> np.ndarray:
    """ONNX's NonMaxSuppression: [batch, class, box] of each box kept, the best of a class first.

    Of ``boxes`` (batch, box, 4) and ``scores`` (batch, class, box), those above the threshold count.
    """
    batches, classes, _ = scores.shape
    found = [np.empty((0, 3), np.int64)]
    for batch in range(batches if most > 0 else 0):
        corners = _corners(boxes[batch], centered)
        for kind in range(classes):
            order = _rank_scores(scores[batch, kind], threshold)
            chosen = order[_select_boxes(corners[:, order], np.arange(order.size), most, limit)]
            found.append(np.column_stack([np.full_like(chosen, batch), np.full_like(chosen, kind), chosen]))
    return np.concatenate(found)


def _corners(boxes: np.ndarray, centered: bool) -> Boxes:
    """Boxes given by two corners (y, x, y, x), or by their center and size (x, y, w, h)."""
    given = boxes.astype(np.float32, copy=False).T
    with np.errstate(all="ignore"):  # what has no number overlaps nothing
        if centered:
            middle, half = given[1::-1], given[3:1:-1] / np.float32(2)
            low, high = middle - half, middle + half
        else:
            low, high = np.minimum(given[:2], given[2:]), np.maximum(given[:2], given[2:])
        sides = high - low
        return np.concatenate([low, high, sides[:1] * sides[1:]])


def _rank_scores(scores: np.ndarray, threshold: float | None) -> np.ndarray:
    """The indices of scores above a threshold, the best first, of equal ones the first; no number is last."""
    found = np.arange(scores.size) if threshold is None else np.flatnonzero(scores > np.float32(threshold))
    # One number for the score and its place: such are sorted several times as fast as what must stay in order.
    turned = np.float32(0) - scores[found].astype(np.float32, copy=False)
    bits = turned.view(np.int32).astype(np.int64)
    bits = np.where(bits < 0, bits ^ 0x7FFFFFFF, bits)
    bits[np.isnan(turned)] = 0x7FFFFFFF
    keys = (bits << 32) | found
    keys.sort()
    return keys & 0xFFFFFFFF


def _select_boxes(boxes: Boxes, some: np.ndarray, most: int, limit: float) -> np.ndarray:
    """The first boxes, ``most`` at most, of which none overlaps one before it by more than ``limit``."""
    if some.size <= _BLOCK:
        return _select_in_block(boxes, some, limit)[:most]
    half = some.size // 2
    first = _select_boxes(boxes, some[:half], most, limit)
    if first.size == most:
        return first
    rest = _free(boxes, some[half:], first, limit)
    return np.concatenate([first, _select_boxes(boxes, rest, most - first.size, limit)])


def _select_in_block(boxes: Boxes, block: np.ndarray, limit: float) -> np.ndarray:
    mine = boxes[:, block]
    rows = np.packbits(_overlap(mine, mine, limit), axis=1, bitorder="little")
    left, places = (1 << block.size) - 1, []
    while left:
        first = left & -left
        places.append(first.bit_length() - 1)
        left &= ~(int.from_bytes(rows[places[-1]].tobytes(), "little") | first)
    return block[places]


def _free(boxes: Boxes, some: np.ndarray, others: np.ndarray, limit: float) -> np.ndarray:
    """Those of the boxes that overlap none of the others, in order."""
    if some.size * others.size <= _PAIRS:
        return some[~_overlap(boxes[:, others], boxes[:, some], limit).any(axis=0)]
    axis = _axis_of_fewest_meetings(boxes[:, some])
    low, high = boxes[axis], boxes[axis + 2]
    others = others[np.argsort(low[others])]
    begin, reach = low[others], np.fmax.accumulate(high[others])
    some = some[np.argsort(low[some])]
    free = []
    for start in range(0, some.size, _BLOCK):
        block = some[start : start + _BLOCK]
        first = int(np.searchsorted(reach, low[block[0]], "right"))
        last = int(np.searchsorted(begin, np.fmax.reduce(high[block]), "left"))
        while first < last and block.size:
            step = _PAIRS // block.size
            near = others[first : min(first + step, last)]
            block = block[~_overlap(boxes[:, near], boxes[:, block], limit).any(axis=0)]
            first += step
        free.append(block)
    return np.sort(np.concatenate(free))


def _axis_of_fewest_meetings(boxes: Boxes) -> int:
    """Along which boxes are short for how far they lie apart."""
    with np.errstate(all="ignore"):
        low, high = boxes[:2], boxes[2:4]
        length = np.nan_to_num(np.mean(high - low, axis=1) / (np.max(high, axis=1) - np.min(low, axis=1)), nan=1.0)
    return int(np.argmin(length))


def _overlap(a: Boxes, b: Boxes, limit: float) -> np.ndarray:
    """Return whether the intersection of two boxes is more than ``limit`` of their union: a row for each of ``a``."""
    a = a[:, :, None]
    with np.errstate(all="ignore"):  # of boxes without area, or without end
        shared = np.minimum(a[2], b[2])
        shared -= np.maximum(a[0], b[0])
        wide = np.minimum(a[3], b[3])
        wide -= np.maximum(a[1], b[1])
        np.maximum(shared, 0, out=shared)
        np.maximum(wide, 0, out=wide)
        shared *= wide
        union = np.add(a[4], b[4], out=wide)
        union -= shared
        return np.divide(shared, union, out=shared) > np.float32(limit)
