"""Rows that a contraction walks side by side get a gap between them, where they would share one set of the cache."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

from ...core.target import Target, detect_host
from ...dialects import builders, ir, tensor
from ...dialects.types import element_bits
from ...dialects.walk import defining_op
from ..analysis.cache_sets import count_fitting_rows
from ..analysis.classify import classify_op, classify_sum
from ..analysis.kinds import Contraction, Conv
from ..infra.base import Pass
from ..ir.dynamic_sizes import emit_dynamic_sizes, note_sizes
from ..ir.edit import erase_dead, list_programs, param_values
from ..ir.kernel import LINE
from ..ir.maps import reassociation_of
from ..ir.routine_ops import VIEWS
from ..ir.structure import dim_of, indexing_maps, is_static, list_ops, loop_extents, shape_of
from ..ir.uses import readers_of
from ..schedule.families.winograd import makes_patches
from ..schedule.tiling.pool_windows import amounts_of

# A register tile walks up to 14 rows at once, 28 where its columns are one vector.
_TILE_ROWS = 14
# What a product makes of each element of its rows, for a copy of them to be worth it.
_COPIED = 256


@dataclass(frozen=True)
class PadRows(Pass):
    """Store what a dense layer or a 1x1 convolution reads with a gap of one cache line after each row.

    Done where the rows of a register tile lie a multiple of 4 kB apart, or so many of them a multiple of 2 kB that a
    set has no room for them; with a stride, each second or fourth row is walked. An op of the program computes or pads
    the rows, or they are an input of it and the product makes enough of each to be worth a copy. A product of
    196 x 3072 by 3072 x 768 takes 0.86 of its time so, one of 196 x 1024 by 1024 x 256 takes 0.88, one of 1024 x 1024
    by 1024 x 1024 takes 0.76, and a 3x3 convolution of 512 channels in 32 groups at 14 x 14 takes 0.53 (one thread).

    Before::

        %r = linalg.generic {gelu}                                      // 197 x 3072
        %c = linalg.generic {contraction} ins(%r, %w)

    After::

        %r = linalg.generic {gelu}
        %e = tensor.empty                                               // 197 x 3088
        %s = tensor.insert_slice %r into %e[0, 0]
        %q = tensor.extract_slice %s[0, 0]                              // for each reader
        %c = linalg.generic {contraction} ins(%q, %w)

    What lies in the gap is never read. A weight stays as it is, and so does a value that leaves the program or is read
    by an op that is not structured; views of it that leave rows whole follow. So do Winograd's patches that are a part
    of the kernel of their products.

    Options:
        target: the machine; None is this one.
    """

    name: ClassVar[str] = "pad-rows"
    opt_level: ClassVar[int] = 1
    target: Target | None = None

    def apply(self, module: ir.Module) -> None:
        """Rewrite all programs of the module."""
        target = self.target or detect_host()
        for function in list_programs(module):
            weights: set[ir.Value] | None = None  # found where they are asked for: most programs have no such rows
            for op in list_ops(function):
                value = _walked_rows(op)
                if value is None or not _all_follow(value) or _is_staged(op, target):
                    continue
                weights = param_values(function) if weights is None else weights
                if _is_made(value) if defining_op(value) is not None else _is_worth_a_copy(op, value, weights):
                    _store_apart(value)
            erase_dead(function)


def _walked_rows(op: ir.Operation) -> ir.Value | None:
    """The left operand of a product with a packed weight, or with columns enough for it to be read again and again,
    without views, if its rows share sets of the cache; else None."""
    kind = classify_sum(op)
    if not isinstance(kind, Contraction | Conv):
        return None
    data, weight = (kind.lhs, kind.rhs) if isinstance(kind, Contraction) else (kind.data, kind.weight)
    value, packed = op.operands[data], defining_op(op.operands[weight])
    summed = kind.k if isinstance(kind, Contraction) else kind.c
    blocks = packed is not None and packed.name == "linalg.unpack"
    if not (blocks or _has_columns(op, kind)) or dim_of(indexing_maps(op)[data].results[-1]) not in summed:
        return None
    while (source := defining_op(value)) is not None and (_keeps_rows(source) or _splits_rows(source)):
        value = source.operands[0]
    bits = element_bits(builders.element_of(value))
    apart = shape_of(value)[-1] * bits // 8 * (kind.strides[-1] if isinstance(kind, Conv) and kind.o else 1)
    columns = shape_of(packed.operands[0])[-1] if blocks and packed is not None else _COPIED
    return value if apart > 0 and _share_sets(apart, _count_rows(op, kind, columns)) else None


def _is_staged(op: ir.Operation, target: Target) -> bool:
    """Return whether the kernel of a product makes its left operand by itself."""
    kind = classify_op(op)
    return isinstance(kind, Contraction) and makes_patches(op, kind, target)


def _has_columns(op: ir.Operation, kind: Contraction | Conv) -> bool:
    """Return whether an op is one product with so many columns, in a row of an operand that is no weight, that each row
    of its left operand is read for many tiles of columns."""
    if not isinstance(kind, Contraction) or kind.batch or not all(map(is_static, op.operands)):
        return False
    columns = math.prod(loop_extents(op)[loop] for loop in kind.n)
    return columns >= _COPIED and dim_of(indexing_maps(op)[kind.rhs].results[-1]) in kind.n


def _count_rows(op: ir.Operation, kind: Contraction | Conv, columns: int) -> int:
    """How many rows a register tile of so many columns walks at once, at most."""
    loops = kind.m if isinstance(kind, Contraction) else (*kind.n, *kind.o)
    extents = [loop_extents(op)[loop] for loop in loops]
    narrow = columns * element_bits(builders.element_of(op.results[0])) <= LINE * 8
    most = 2 * _TILE_ROWS if narrow else _TILE_ROWS
    return most if any(extent < 0 for extent in extents) else min(most, math.prod(extents))


def _share_sets(apart: int, rows: int) -> bool:
    """Return whether so many rows, so many bytes apart, fill a set of the first cache."""
    return rows >= count_fitting_rows(apart)


def _keeps_rows(op: ir.Operation) -> bool:
    """Return whether the op is a view that leaves the innermost dim as it is. ``Seams`` asks it of loops."""
    if op.name not in VIEWS or op.name == "tensor.cast":  # which has other extents to its readers
        return False
    return [len(group) for group in reassociation_of(op)][-1:] == [1]


def _splits_rows(op: ir.Operation) -> bool:
    """Return whether the op is a view that splits the innermost dim alone, channels into groups."""
    if op.name != "tensor.expand_shape" or not is_static(op.results[0]):
        return False
    return all(len(group) == 1 for group in reassociation_of(op)[:-1])


def _is_made(value: ir.Value) -> bool:
    """Return whether an op of the program computes a value, by itself, or pads it with its rows left whole."""
    op = defining_op(value)
    if op is None or len(op.results) != 1:
        return False
    return op.name == "linalg.generic" or (op.name == "tensor.pad" and amounts_of(op)[-1] == (0, 0))


def _is_worth_a_copy(op: ir.Operation, value: ir.Value, weights: set[ir.Value]) -> bool:
    """Return whether a product makes so much of each element of an input that a copy costs little beside it."""
    kind, extents = classify_op(op), loop_extents(op)
    assert isinstance(kind, Contraction | Conv)  # what walks rows
    made = kind.n if isinstance(kind, Contraction) else kind.f
    return value not in weights and abs(math.prod(extents[d] for d in made)) >= _COPIED


def _all_follow(value: ir.Value) -> bool:
    """Return whether all readers of a value, and of views of it, can read slices."""
    return all(
        u.name == "linalg.generic" or ((_keeps_rows(u) or _splits_rows(u)) and _all_follow(u.results[0]))
        for u in readers_of(value)
    )


def _store_apart(value: ir.Value) -> None:
    reading, op = readers_of(value), defining_op(value)
    element = builders.element_of(value)
    gap = math.lcm(LINE * 8 // element_bits(element), *_group_sizes(value))
    if op is not None and op.name == "tensor.pad":
        return _redirect_readers(value, _pad_further(op, gap), reading)
    place = ir.InsertionPoint.after(op) if op is not None else ir.InsertionPoint.at_block_begin(reading[0].block)
    with place, (op or reading[0]).location:
        shape = note_sizes(value)
        apart = builders.insert(value, builders.empty([*shape[:-1], shape[-1] + gap], element), [0] * len(shape))
    return _redirect_readers(value, apart, reading)


def _group_sizes(value: ir.Value) -> list[int]:
    """Of each view that splits a value's rows into groups, also through other views, how long a group is."""
    found = []
    for view in readers_of(value):
        if _splits_rows(view):
            found.append(math.prod(shape_of(view.results[0])[len(shape_of(value)) :]))
        elif _keeps_rows(view):
            found += _group_sizes(view.results[0])
    return found


def _pad_further(pad: ir.Operation, gap: int) -> ir.Value:
    """The padding, with a gap after each row as a part of it."""
    with ir.InsertionPoint.after(pad), pad.location:
        wider = pad.clone()
    high = list(ir.DenseI64ArrayAttr(pad.attributes["static_high"]))
    wider.attributes["static_high"] = ir.DenseI64ArrayAttr.get([*high[:-1], gap])
    *outer, row = shape_of(pad.results[0])
    wider.results[0].set_type(builders.ranked_type([*outer, row + gap], builders.element_of(pad.results[0])))
    return wider.results[0]


def _redirect_readers(value: ir.Value, apart: ir.Value, reading: list[ir.Operation]) -> None:
    """Let ops that read ``value`` read ``apart``, which holds it in rows with gaps."""
    views = [reader for reader in reading if reader.name in VIEWS]
    if len(views) < len(reading):
        source = defining_op(apart)
        assert source is not None
        with ir.InsertionPoint.after(source), source.location:
            rows = builders.slice_(apart, [0] * len(shape_of(value)), builders.shape_of(value))
        for reader in reading:
            if reader not in views:
                reader.replace_uses_of_with(value, rows)
    for view in views:
        _redirect_readers(view.results[0], _view(view, apart), readers_of(view.results[0]))


def _view(view: ir.Operation, source: ir.Value) -> ir.Value:
    """The view, of rows with gaps; of rows split into groups there are more groups."""
    gap = shape_of(source)[-1] - shape_of(view.operands[0])[-1]
    shape, axis = list(shape_of(view.results[0])), -1
    if _splits_rows(view):
        axis = len(shape_of(source)) - 1
        gap //= math.prod(shape[axis + 1 :])
    shape[axis] += gap
    kind = builders.ranked_type(shape, builders.element_of(source))
    with ir.InsertionPoint(view), view.location:
        groups, sizes = view.attributes["reassociation"], emit_dynamic_sizes(view.results[0])
        if view.name == "tensor.collapse_shape":
            return tensor.CollapseShapeOp(kind, source, groups).result
        return tensor.ExpandShapeOp(kind, source, groups, sizes, shape).result
