"""Long windows that move by several elements read these as rows: one for each element of a step."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from ...core.sizes import Extent
from ...dialects import builders, ir
from ...dialects.builders import element_of
from ..analysis.classify import classify_op
from ..analysis.kinds import Conv, DepthwiseConv
from ..infra.base import Pass
from ..ir.dynamic_sizes import note_sizes
from ..ir.edit import body_of, erase_dead, list_programs, replace
from ..ir.structure import (
    dim_of,
    dims_in,
    indexing_maps,
    is_static,
    iterator_types,
    list_ops,
    loop_extents,
    num_inputs,
    shape_of,
)


@dataclass(frozen=True)
class SplitStrides(Pass):
    """Sum a long window that moves by several elements as windows that move by one, over rows of every such element.

    Vectors of results would else be picked out of as many vectors of data as a step has elements, again for each
    element of the window.

    Before::

        %y = linalg.generic {y[i] += x[4 * i + k] * w[k], k < 63} ins(%x, %w)

    After::

        %r = linalg.generic {r[s, j] = x[4 * j + s]} ins(%x)
        %a = linalg.generic {a[i] += r[s, i + q] * w[4 * q + s], q < 15} ins(%r, %w)
        %y = linalg.generic {y[i] = a[i] + r[s, i + 15] * w[60 + s], s < 3} ins(%r, %w) outs(%a)

    The order of the sum stays. Steps of two are not worth rows, nor are windows of few elements with a rest. Of
    open sizes a window has no rest: what it reads then never ends behind the data.
    """

    name: ClassVar[str] = "split-strides"
    opt_level: ClassVar[int] = 2

    def apply(self, module: ir.Module) -> None:
        """Rewrite the convolutions of all programs."""
        for function in list_programs(module):
            for op in list_ops(function):
                if (window := _Window.of(op)) is not None:
                    with ir.InsertionPoint(op), op.location:
                        replace(op, [window.rewrite()])
            erase_dead(function)


# Rows are written and read once for each element of a step. Of the time of sums that pick vectors out (Zen 4) windows
# of 16 in steps of 3 take 0.95, in steps of 4 0.7, of 63 in steps of 4 and of 64 in steps of 8 0.4; in steps of two
# as long. A rest of a window is a pass over all results: 7 in steps of 3 would take 1.4 times as long. Without one two
# steps are enough: 8 in steps of 4 and 10 in steps of 5 take 0.45 (AVX2), 16 in steps of 8 0.63, 64 in steps of 16
# 0.97.
_LEAST_STEP, _LEAST_TAPS, _WHOLE_STEPS = 3, 16, 2
_FLOATS = (ir.F32Type, ir.F64Type)


@dataclass(frozen=True)
class _Window:
    """The window of a sum along the innermost axis: ``taps`` elements along loop ``k``, for each of loop ``o``.

    ``data`` and ``weight`` are operand numbers, ``axis`` and ``tap_axis`` the dims of those that the window is along.
    """

    op: ir.Operation
    data: int
    weight: int
    axis: int
    tap_axis: int
    o: int
    k: int
    step: int
    taps: int

    @staticmethod
    def of(op: ir.Operation) -> _Window | None:
        """The one of an op that is worth rows; None for any other op."""
        kind = classify_op(op) if op.name == "linalg.generic" else None
        if not isinstance(kind, Conv | DepthwiseConv) or num_inputs(op) != 2:
            return None
        if not all(isinstance(element_of(value), _FLOATS) for value in op.operands):
            return None
        if not is_static(op.operands[kind.weight]):
            return None
        known = all(map(is_static, op.operands))
        extents, maps = loop_extents(op), indexing_maps(op)
        for o, k, step, apart in zip(kind.o, kind.k, kind.strides, kind.dilations, strict=True):
            axis = next(i for i, expr in enumerate(maps[kind.data].results) if k in dims_in(expr))
            place = next(i for i, expr in enumerate(maps[2].results) if dim_of(expr) == o)
            tap_axis = next(i for i, expr in enumerate(maps[kind.weight].results) if dim_of(expr) == k)
            inner = (*shape_of(op.operands[kind.data])[axis + 1 :], *shape_of(op.results[0])[place + 1 :])
            long = _is_long(extents[k], step) and (known or extents[k] % step == 0)
            if all(n == 1 for n in inner) and apart == 1 and long:
                return _Window(op, kind.data, kind.weight, axis, tap_axis, o, k, step, extents[k])
        return None

    def rewrite(self) -> ir.Value:
        """The ops that take the sum's place, at the insertion point; returns their result."""
        whole, rest = divmod(self.taps, self.step)
        weight, begin = self.op.operands[self.weight], self.op.operands[2]
        place = [dim_of(expr) for expr in indexing_maps(self.op)[2].results].index(self.o)
        outputs, sizes = note_sizes(begin)[place], shape_of(weight)
        rows = self._make_rows(outputs + whole - (not rest))
        first = builders.slice_(weight, [0] * len(sizes), _put(sizes, self.tap_axis, [whole * self.step]))
        first = builders.reshape(first, _put(sizes, self.tap_axis, [whole, self.step]))
        length = [self.step, outputs + whole - 1]
        made = self._add(_cut(rows, self.axis, [0, 0], length), first, begin, whole=True)
        if not rest:
            return made
        last = _cut(weight, self.tap_axis, [whole * self.step], [rest])
        return self._add(_cut(rows, self.axis, [0, whole], [rest, outputs]), last, made, whole=False)

    def _make_rows(self, count: Extent) -> ir.Value:
        """The data with ``count`` steps apart: a row for each element of a step, in the place of the axis."""
        data = self.op.operands[self.data]
        if not isinstance(count, int) or not is_static(data):
            return self._turn_steps(data, count)
        sizes, elements = shape_of(data), count * self.step
        data = _cut(data, self.axis, [0], [min(elements, sizes[self.axis])])
        missing = elements - shape_of(data)[self.axis]
        zeros, zero = [0] * len(sizes), builders.scalar(0.0, element_of(data))
        data = builders.pad(data, zeros, _put(zeros, self.axis, [missing]), zero)
        loops = [ir.AffineExpr.get_dim(loop) for loop in range(len(sizes) + 1)]
        read = _put(loops[:-1], self.axis, [loops[self.axis + 1] * self.step + loops[self.axis]])
        read[self.axis + 1 :] = loops[self.axis + 2 :]
        out = builders.empty(_put(sizes, self.axis, [self.step, count]), element_of(data))
        letters = "p" * len(loops)
        return builders.generic([data], [out], [read, range(len(loops))], letters, lambda element, _: element)[0]

    def _turn_steps(self, data: ir.Value, count: Extent) -> ir.Value:
        """The rows of data of open sizes, in which all of so many steps lie: a view of the steps, transposed."""
        sizes = note_sizes(data)
        steps = _cut(data, self.axis, [0], [count * self.step])
        steps = builders.reshape(steps, _put(sizes, self.axis, [count, self.step]))
        loops = list(range(len(sizes) + 1))
        read = [*loops[: self.axis], self.axis + 1, self.axis, *loops[self.axis + 2 :]]
        out = builders.empty(_put(sizes, self.axis, [self.step, count]), element_of(data))
        return builders.generic([steps], [out], [read, loops], "p" * len(loops), lambda element, _: element)[0]

    def _add(self, rows: ir.Value, weight: ir.Value, begin: ir.Value, whole: bool) -> ir.Value:
        """The sum over windows that move by one, or (not ``whole``) over one element of each row."""
        kinds, maps = iterator_types(self.op), indexing_maps(self.op)
        added = len(kinds)  # the loop over rows, behind the one over steps; without steps it is the window's own
        row = added if whole else self.k
        loops = added + whole
        dims = [ir.AffineExpr.get_dim(loop) for loop in range(loops)]
        o, k = dims[self.o], dims[self.k]
        read = _put(list(maps[self.data].results), self.axis, [dims[row], o + k if whole else o])
        taps = _put(list(maps[self.weight].results), self.tap_axis, [k, dims[row]] if whole else [k])
        given: list[tuple[ir.Value, Sequence[ir.AffineExpr]]] = [(rows, read), (weight, taps)]
        if self.data > self.weight:
            given.reverse()
        letters = "".join(kind[0] for kind in kinds) + "r" * whole
        places = [*(place for _, place in given), list(maps[2].results)]
        return builders.generic([value for value, _ in given], [begin], places, letters, body_of(self.op))[0]


def _is_long(taps: int, step: int) -> bool:
    """Return whether a window has so many elements that rows are worth it."""
    least = _WHOLE_STEPS * step if taps % step == 0 else max(_LEAST_TAPS, step * step // 2)
    return step >= _LEAST_STEP and taps >= least


def _put(items: Sequence, at: int, new: Sequence) -> list:
    """A list with others in the place of one."""
    return [*items[:at], *new, *items[at + 1 :]]


def _cut(value: ir.Value, axis: int, starts: Sequence[int], sizes: Sequence[Extent]) -> ir.Value:
    """A part of a tensor along some axes from one on."""
    shape, many = builders.shape_of(value), len(sizes)
    return builders.slice_(
        value,
        [*[0] * axis, *starts, *[0] * (len(shape) - axis - many)],
        [*shape[:axis], *sizes, *shape[axis + many :]],
    )
