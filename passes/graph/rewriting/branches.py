"""Sums of convolutions: their summands, and which window covers which; what ``reparameterize-branches`` looks for."""

from __future__ import annotations

import math
from collections.abc import Sequence, Set
from dataclasses import dataclass, replace

from ....dialects import builders, ir
from ....dialects.walk import defining_op
from ...analysis.classify import classify_sum
from ...analysis.groups import is_pointwise
from ...analysis.kinds import Conv, DepthwiseConv
from ...ir.edit import splat_of
from ...ir.structure import body_ops, dim_of, indexing_maps, loop_extents, num_inputs, shape_of, terminator_of
from ...ir.uses import has_one_use, users_of
from ...schedule.tiling.dynamic_border import is_dynamic_padding
from ...schedule.tiling.pool_windows import amounts_of

_FLOATS = ("f32", "f64")  # whose weights may be rounded again


@dataclass(frozen=True)
class Convolution:
    """A convolution of ``image`` whose window begins ``low`` elements before each place along the axes it slides over.

    ``low`` and ``window``, its elements, have a number for each of these axes.
    """

    image: ir.Value
    op: ir.Operation
    kind: Conv | DepthwiseConv
    window: tuple[int, ...]
    low: tuple[int, ...]

    @property
    def weight(self) -> ir.Value:
        """The weight."""
        return self.op.operands[self.kind.weight]


@dataclass(frozen=True)
class Image:
    """An image itself, times ``factor`` if there is one, which has an element for each channel."""

    image: ir.Value
    factor: ir.Value | None = None


@dataclass(frozen=True)
class Term:
    """A summand: ``value``, which ``m`` reads for each element of the sum.

    It is ``branch``, if that is known, and ``shift`` added to it, a weight that its map reads.
    """

    value: ir.Value
    m: ir.AffineMap
    branch: Convolution | Image | None = None
    shift: tuple[ir.Value, ir.AffineMap] | None = None


@dataclass(frozen=True)
class Cover:
    """A convolution, and the summands that one with their weights added computes: its own first."""

    base: Convolution
    terms: list[Term]


def is_sum(op: ir.Operation) -> bool:
    """Return whether an op adds two values, at least one of which has the shape of the result."""
    if not is_pointwise(op) or num_inputs(op) != 2 or str(builders.element_of(op.results[0])) not in _FLOATS:
        return False
    *maps, out = indexing_maps(op)
    arguments, ops = list(op.regions[0].blocks[0].arguments), body_ops(op)
    if len(ops) != 1 or ops[0].name != "arith.addf" or terminator_of(op).operands[0] != ops[0].results[0]:
        return False
    return set(ops[0].operands) == set(arguments[:2]) and out in maps


def is_summand(op: ir.Operation) -> bool:
    """Return whether a sum is read by another one alone, at the place of its result."""
    readers = users_of(op)
    if len(readers) != 1 or not has_one_use(op.results[0]) or not is_sum(readers[0]):
        return False
    *maps, out = indexing_maps(readers[0])
    return maps[list(readers[0].operands).index(op.results[0])] == out


def list_terms(root: ir.Operation, weights: Set[ir.Value]) -> list[Term]:
    """The summands of a sum and of those sums that are its summands."""
    terms, pending = list[Term](), [root]
    while pending:
        op = pending.pop()
        *maps, out = indexing_maps(op)
        for value, m in zip(op.operands, maps, strict=False):
            source = defining_op(value)
            if m == out and source is not None and is_sum(source) and is_summand(source):
                pending.append(source)
            elif m == out and value not in weights:
                terms.append(_read_term(value, m, weights))
            else:
                terms.append(Term(value, m))
    return terms


def find_covers(terms: Sequence[Term]) -> list[Cover]:
    """The convolutions among the terms, the largest windows first, that cover others; no term is covered twice."""
    covers: list[Cover] = []
    for term in sorted(terms, key=_count_window, reverse=True):
        if term.branch is None:
            continue
        known = next((cover for cover in covers if find_place(cover.base, term.branch) is not None), None)
        if known is not None:
            known.terms.append(term)
        elif isinstance(term.branch, Convolution):
            covers.append(Cover(term.branch, [term]))
    return [cover for cover in covers if len(cover.terms) > 1]


def find_place(base: Convolution, other: Convolution | Image) -> list[tuple[int, int]] | None:
    """The first element and the step of a branch in the window of another one along each axis; None if it has none."""
    if base.image != other.image:
        return None
    steps, axes = base.kind.dilations, len(base.window)
    if isinstance(other, Image):
        fits, window, low, dilations = _keeps_channels(base, other), (1,) * axes, (0,) * axes, steps
    else:
        fits, window, low, dilations = _has_same_form(base, other), other.window, other.low, other.kind.dilations
    places = []
    for axis in range(axes) if fits else ():
        step, first = steps[axis], base.low[axis] - low[axis]
        apart = dilations[axis] if window[axis] > 1 else step
        last = first + (window[axis] - 1) * apart
        if first < 0 or first % step or apart % step or last // step >= base.window[axis]:
            return None
        places.append((first // step, apart // step))
    return places if fits else None


def _count_window(term: Term) -> int:
    return math.prod(term.branch.window) if isinstance(term.branch, Convolution) else 0


def _read_term(value: ir.Value, m: ir.AffineMap, weights: Set[ir.Value]) -> Term:
    """A summand of the sum's shape."""
    op = defining_op(value)
    if op is not None and has_one_use(value):
        kind = classify_sum(op)
        if isinstance(kind, Conv | DepthwiseConv):
            known = len(op.operands) == 3 and splat_of(op.operands[2]) == 0 and op.operands[kind.weight] in weights
            grouped = isinstance(kind, Conv) and kind.g
            return Term(value, m, _read_convolution(op, kind) if known and not grouped else None)
        if (scaled := _read_scaled(op, value, m, weights)) is not None:
            return scaled
    return Term(value, m, Image(value))


def _read_convolution(op: ir.Operation, kind: Conv | DepthwiseConv) -> Convolution:
    extents = loop_extents(op)
    axes = [dim_of(e) for e in indexing_maps(op)[kind.data].results]
    slid = [axis for axis, loop in enumerate(axes) if loop is None]
    image, low = _find_padded(op.operands[kind.data], slid)
    return Convolution(image, op, kind, tuple(extents[k] for k in kind.k), tuple(low[axis] for axis in slid))


def _find_padded(value: ir.Value, axes: Sequence[int]) -> tuple[ir.Value, list[int]]:
    """What a value pads by zeros, before it along ``axes`` alone, and by how many; the value itself if it is none."""
    op, low = defining_op(value), list[int]()
    if op is not None and op.name == "tensor.pad" and len(op.operands) == 1:
        if splat_of(terminator_of(op).operands[0]) == 0:
            low = [before for before, _ in amounts_of(op)]
    elif op is not None and is_dynamic_padding(op) and splat_of(op.operands[1]) == 0:
        low = list(ir.DenseI64ArrayAttr(op.attributes["static_offsets"]))
    if op is None or not low or any(before for axis, before in enumerate(low) if axis not in axes):
        return value, [0] * len(shape_of(value))
    return op.operands[0], low


def _read_scaled(op: ir.Operation, value: ir.Value, m: ir.AffineMap, weights: Set[ir.Value]) -> Term | None:
    """A batch normalisation, ``image * factor + shift``."""
    if not is_pointwise(op) or num_inputs(op) != 3 or [o.name for o in body_ops(op)] != ["arith.mulf", "arith.addf"]:
        return None
    *maps, out = indexing_maps(op)
    product, total = body_ops(op)
    numbers = {argument: i for i, argument in enumerate(list(op.regions[0].blocks[0].arguments)[:3])}
    read = [numbers.get(v) for v in (*product.operands, *total.operands)]
    used = [i for i in read if i is not None]  # the fourth is the product
    if sorted(used) != [0, 1, 2] or None in read[:2] or terminator_of(op).operands[0] != total.results[0]:
        return None
    image, factor = sorted(used[:2], key=lambda i: op.operands[i] in weights)
    shift = used[2]
    if maps[image] != out or op.operands[image] in weights:
        return None
    if op.operands[factor] not in weights or op.operands[shift] not in weights:
        return None
    return Term(value, m, Image(op.operands[image], op.operands[factor]), (op.operands[shift], maps[shift]))


def _keeps_channels(base: Convolution, other: Image) -> bool:
    """Return whether a convolution computes each place and channel around the same one, where an image can be added."""
    kind = base.kind
    if not isinstance(kind, DepthwiseConv) or len(kind.c) != 1 or kind.f or set(kind.strides) != {1}:
        return False
    return other.factor is None or math.prod(shape_of(other.factor)) == loop_extents(base.op)[kind.c[0]]


def _has_same_form(a: Convolution, b: Convolution) -> bool:
    """Return whether two convolutions, whose results are added, differ in windows, dilations and paddings at most."""
    if type(a.kind) is not type(b.kind) or replace(a.kind, dilations=()) != replace(b.kind, dilations=()):
        return False
    maps = [indexing_maps(x.op) for x in (a, b)]
    if maps[0][a.kind.weight] != maps[1][a.kind.weight] or maps[0][2] != maps[1][2]:
        return False
    loops = [dim_of(e) for e in maps[0][a.kind.weight].results]
    rest = [[n for n, loop in zip(shape_of(x.weight), loops, strict=True) if loop not in x.kind.k] for x in (a, b)]
    if rest[0] != rest[1] or builders.element_of(a.weight) != builders.element_of(b.weight):
        return False
    read = [[dim_of(e) for e in m[x.kind.data].results] for m, x in zip(maps, (a, b), strict=True)]
    return read[0] == read[1]
