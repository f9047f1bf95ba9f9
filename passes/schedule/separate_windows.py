"""Pools along the axis that vectors lie along are taken apart: over the rows of a window first, then along its row."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from ...dialects import builders, func, ir
from ...dialects.builders import element_of
from ...dialects.structured import Body
from ...dialects.walk import defining_op, find_named
from ..analysis.classify import classify_op
from ..analysis.kinds import Pooling
from ..infra.base import Pass
from ..ir.edit import body_of, erase_dead, replace
from ..ir.kernel import find_script, is_dynamic_kernel, list_functions
from ..ir.structure import dims_in, indexing_maps, iterator_types, loop_extents, loops_along, shape_of, terminator_of
from .tiles.structured import capture_scalar, make_empty
from .tiling.pool_windows import Window, amounts_of, combiner_of, combines_parts, find_row_window, find_skipped_padding


@dataclass(frozen=True)
class SeparateWindows(Pass):
    """Make two pools of one whose windows lie along the contiguous axis and have more than one row.

    Before::

        %p = tensor.pad %x low[0, 1, 1] high[0, 1, 1]
        %y = linalg.generic {(c, h, w, i, j) -> (c, h * 2 + i, w * 2 + j), (i, j), (c, h, w)} ins(%p, %window)

    After::

        %p = tensor.pad %x low[0, 1, 0] high[0, 1, 0]
        %r = linalg.generic {(c, h, x, i) -> (c, h * 2 + i, x), (i), (c, h, x)} ins(%p, %rows)
        %q = tensor.pad %r low[0, 0, 1] high[0, 0, 1]
        %y = linalg.generic {(c, h, w, j) -> (c, h, w * 2 + j), (j), (c, h, w)} ins(%q, %columns)

    The first one reads whole rows, whatever the stride is, and a window of 13 x 13 takes 26 steps in place of 169. What
    is padded above and below need not be looked at (``pool_windows.py``).
    """

    name: ClassVar[str] = "separate-windows"

    def apply(self, module: ir.Module) -> None:
        """Rewrite the pools of known sizes."""
        for function in list_functions(module):
            if not is_dynamic_kernel(function) and find_script(function) is None:
                separate_windows(function)


def separate_windows(function: func.FuncOp) -> None:
    """Take the pools of a function of static shapes apart."""
    for op in find_named(function, "linalg.generic"):
        kind = classify_op(op)
        window = find_row_window(op, kind) if isinstance(kind, Pooling) else None
        if isinstance(kind, Pooling) and window is not None and combines_parts(op):
            with ir.InsertionPoint(op), op.location:
                made = _separate(op, kind, window)
            if made is not None:
                replace(op, [made])
    erase_dead(function)


def _separate(op: ir.Operation, kind: Pooling, window: Window) -> ir.Value | None:
    """The result of an op by two, with the padding between them; None where one of them would have nothing to do."""
    pad, data, place = find_skipped_padding(op), op.operands[kind.data], loops_along(op, -1).index(window.o)
    amounts = amounts_of(pad) if pad is not None else [(0, 0)] * len(shape_of(data))
    beside, amounts[window.axis] = amounts[window.axis], (0, 0)
    if not any(beside) and not has_rows_and_columns(op, kind, window):
        return None
    if pad is not None:
        data = _pad(pad.operands[0], amounts, terminator_of(pad).operands[0])
    shape = shape_of(op.results[0])
    shape[place] = shape_of(data)[window.axis]
    first = combine_rows(op, kind, window, data, builders.full(shape, capture_scalar(initial_of(op))))
    around = [(0, 0)] * len(shape)
    around[place] = beside
    between = _pad(first, around, initial_of(op))
    return combine_columns(
        op, kind, window, between, builders.full(shape_of(op.results[0]), capture_scalar(initial_of(op)))
    )


def has_rows_and_columns(op: ir.Operation, kind: Pooling, window: Window) -> bool:
    """Return whether a window has several rows, and several elements along each."""
    extents = loop_extents(op)
    return extents[window.k] > 1 and any(extents[loop] > 1 for loop in kind.k if loop != window.k)


def combine_rows(op: ir.Operation, kind: Pooling, window: Window, data: ir.Value, out: ir.Value) -> ir.Value:
    """What a pool's windows have in each column of ``data``; ``out`` has the initial value."""
    read, made = (list(indexing_maps(op)[number].results) for number in (kind.data, -1))
    read[window.axis] = ir.AffineExpr.get_dim(window.o)
    rows = [loop for loop in kind.k if loop != window.k]
    return _pool(op, data, rows, (read, made), out, _body_on_elements(op, kind.data))


def combine_columns(op: ir.Operation, kind: Pooling, window: Window, data: ir.Value, out: ir.Value) -> ir.Value:
    """The results of a pool from what its windows have in each column."""
    made, place = list(indexing_maps(op)[-1].results), loops_along(op, -1).index(window.o)
    steps = [*made[:place], list(indexing_maps(op)[kind.data].results)[window.axis], *made[place + 1 :]]
    return _pool(op, data, [window.k], (steps, made), out, _combiner_body(op))


def initial_of(op: ir.Operation) -> ir.Value:
    """The scalar that a pool's results begin with."""
    fill = defining_op(op.operands[2])
    assert fill is not None  # of what combines parts
    return fill.operands[0]


def _pad(value: ir.Value, amounts: Sequence[tuple[int, int]], number: ir.Value) -> ir.Value:
    low, high = zip(*amounts, strict=True)
    return builders.pad(value, low, high, capture_scalar(number)) if any(low) or any(high) else value


def _body_on_elements(op: ir.Operation, data: int) -> Body:
    """The body of a pool, whose data is operand ``data``, for one whose data comes first."""
    body = body_of(op)
    return lambda element, window, total: body(*((window, element) if data else (element, window)), total)


def _combiner_body(op: ir.Operation) -> Body:
    """A body that combines elements which are parts of results."""
    combiner = combiner_of(op)
    assert combiner is not None
    accumulator = op.regions[0].blocks[0].arguments[2]

    def body(element: ir.Value, _window: ir.Value, total: ir.Value) -> ir.Value:
        copy = combiner.clone()
        for i, operand in enumerate(combiner.operands):
            copy.operands[i] = total if operand == accumulator else element
        return copy.results[0]

    return body


def _pool(
    op: ir.Operation,
    data: ir.Value,
    window: Sequence[int],
    accesses: tuple[Sequence[ir.AffineExpr], Sequence[ir.AffineExpr]],
    out: ir.Value,
    body: Body,
) -> ir.Value:
    """A pool of ``data`` over those loops of ``op`` that make its results and ``window``, into ``out``.

    ``accesses``: what the loops of ``op`` read and make.
    """
    read, made = accesses
    kept = sorted({d for e in made for d in dims_in(e)} | set(window))
    zero, count = ir.AffineExpr.get_constant(0), len(iterator_types(op))
    places = [ir.AffineExpr.get_dim(kept.index(d)) if d in kept else zero for d in range(count)]
    change = ir.AffineMap.get(len(kept), 0, places)
    parts = [read, [ir.AffineExpr.get_dim(loop) for loop in window], made]
    maps = [[e.compose(change) for e in part] for part in parts]
    elements = make_empty([loop_extents(op)[loop] for loop in window], element_of(op.results[0]))
    kinds = "".join(iterator_types(op)[loop][0] for loop in kept)
    return builders.generic([data, elements], [out], maps, kinds, body)[0]
