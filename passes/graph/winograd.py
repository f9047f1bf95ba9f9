"""Convolutions in a quarter to half of the multiplications: Winograd's minimal filtering."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from ...core.choices import PREFIX, choose_option
from ...core.errors import CompileError
from ...core.sizes import Extent, floor_divide
from ...core.target import Target, detect_host
from ...dialects import arith, builders, extents, func, ir, scalars
from ...dialects.builders import element_of
from ...dialects.walk import defining_op
from ..analysis.classify import classify_sum
from ..analysis.kinds import Conv
from ..analysis.size_classes import SizeClasses
from ..infra.base import Pass
from ..ir.dynamic_sizes import note_sizes
from ..ir.edit import erase_dead, list_programs, node_names, param_values, replace, splat_of
from ..ir.structure import body_ops, list_ops, loops_along, num_inputs, shape_of, terminator_of
from ..schedule.families.split_blocks import cost_of_windows
from ..schedule.tiling.grouped_sums import multiplies_widened
from ..schedule.tiling.tiler import WindowWalk
from .rewriting.minimal_filtering import (
    Matrices,
    count_points,
    has_matrices,
    list_phases,
    make_integer_matrices,
    make_matrices,
)
from .rewriting.patches import EitherPatches, WholePatches, padding_around, zeros_around
from .split_prepare import is_kept

# Along one axis; of one tap the axis stays as it is.
_TAPS, _OUTPUTS, _STRIDES = (1, 2, 3, 5), (2, 3, 4), (1, 2)
# What is made of one another has no more values: those of 8x8 lose too many digits.
_MOST_VALUES = 36


@dataclass(frozen=True)
class Winograd(Pass):
    """Rewrite a convolution of stride 1 as transform, products and transform back, where that is less work.

    Windows have 2, 3 or 5 taps along the one axis, along one of two, or along both. For 3x3, of each 6x6 patch of the
    input (patches overlap by 2) 36 values are made that are multiplied with 36 values made of each filter; of the
    products summed over the channels come 4x4 outputs: 36 multiplications in place of 144 (Winograd 1980; Lavin and
    Gray, "Fast Algorithms for Convolutional Neural Networks", 2016; the matrices by Toom-Cook). Along one axis 3 taps
    take 6 multiplications in place of 12, and 5 taps 8 in place of 20; 5x5 windows take 36 in place of 100, 2x2 windows
    (parts of transposed convolutions) 16 in place of 36. What is made of filters that depend on weights alone is
    computed ahead of time; that of others in each run.

    With a stride of 2 the even and the odd taps are windows of their own, of every other element: 3x3 takes 25
    multiplications in place of 36 for 2x2 outputs, or 49 in place of 81 for 3x3. Its data may have a last row or column
    that no window reaches.

    Before::

        %y = linalg.generic {(n,h,w,f,i,j,c) -> (n,h+i,w+j,c), (f,c,i,j), (n,h,w,f)} ins(%x, %weight)

    After::

        %u = linalg.generic {(p,q,c,f,i,j) -> (i,j,c,f), (p,i), (q,j), (p,q,c,f)} ins(%weight', %G, %G)
        %v = linalg.generic {(p,q,n,s,t,c,i,j) -> (n,4s+i,4t+j,c), (p,i), (q,j), (p,q,n,s,t,c)} ins(%x', %B, %B)
        %m = linalg.generic {(p,q,n,s,t,f,c) -> (p,q,n,s,t,c), (p,q,c,f), (p,q,n,s,t,f)} ins(%v, %u)
        %y = linalg.generic {(n,h,w,f,p,q) -> (p,q,n,h/4,w/4,f), (h mod 4,p), (w mod 4,q), (n,h,w,f)} ins(%m, %A, %A)

    ``%x'`` is padded to whole patches. An axis of open extent gives whole patches too, of which a slice is left; what
    is elementwise and reads that alone moves before the slice. Where small images of so many channels want 2x2 outputs
    and large ones 4x4, both are there, and the run computes no rows of one of them (`EitherPatches`).

    The transformed filters are four times as large as the filters; where reading them takes longer than the products
    (many channels, few pixels), patches of 4x4 give 2x2 outputs: 16 multiplications in place of 36, and filters not
    twice as large. Where that does not pay either, the convolution stays. So do those of float64, those with groups,
    other strides, dilations or other windows. To an odd number of filters some of zeros are added; a slice of the
    result is left, as of an open extent.

    Of three axes, as of a video, two are those of images. Frames that a window has one of are images; pixels that it
    has one of are columns. Of other windows the channels of all their frames become those of one image, by a copy.

    Bytes in 16 bits (`widen-operands`), times those of weights, are transformed in integers, exactly: filters times a
    power of two, by which outputs are divided. Images of open sizes and of frames stay direct sums.

    The rounding error of floats is two to three times that of a direct sum, and relative to the largest value of a
    patch: an output beside much larger values has fewer right digits. Values beyond 1e32 overflow. One that is not
    finite makes each output not finite whose window holds it, and other outputs of its patches too; most of them are
    NaN, also where a direct sum gives an infinity. `-O1` leaves this pass out.

    Options:
        everywhere: rewrite wherever the form fits, also where it does not pay.
        outputs: 2, 3 or 4 of them along each side of a patch; 0 for what costs less.
        target: the machine; None is this one.
    """

    name: ClassVar[str] = "winograd"
    opt_level: ClassVar[int] = 2
    everywhere: bool = False
    outputs: int = 0
    target: Target | None = None

    def apply(self, module: ir.Module) -> None:
        """Rewrite the convolutions of all programs. Raises CompileError for outputs that it cannot be."""
        if self.outputs not in (0, *_OUTPUTS):
            raise CompileError(f"pass '{self.name}': outputs is {self.outputs}, not 0, 2, 3 or 4")
        target = self.target or detect_host()
        for function in list_programs(module):
            weights, patches = param_values(function), WholePatches()
            either = EitherPatches(patches)
            for op in list_ops(function):
                form = _Form.of(op, function, weights, target)
                outputs = self._choose_outputs(form) if form is not None else None
                if form is None or outputs is None:
                    if patches.follow(op) is None:
                        either.follow(op)
                    continue
                with ir.InsertionPoint(op), op.location:
                    pixels = form.least_pixels if not self.outputs else None
                    made = form.rewrite(outputs, patches) if pixels is None else form.rewrite_either(pixels, either)
                    replace(op, [made])
            erase_dead(function)

    def _choose_outputs(self, form: _Form) -> int | None:
        """The outputs along each side of a patch; None where the convolution stays."""
        choices = sorted((o for o in form.choices if self.outputs in (0, o)), key=form.time)
        rule = next((o for o in choices if self.everywhere or form.cost(o) < _GAIN[o] * form.direct), 0)
        if self.everywhere or self.outputs or min(form.n, form.h, form.w) < 0:
            return rule or None
        options = [o for o in form.choices if not form.known or form.keeps_filters(o)]
        return choose_option(form.key, sorted({0, rule, *options}), rule, node_names(form.op.location)) or None


@dataclass(frozen=True)
class _Form:
    """A channels-last convolution of images; one along one axis is of images that are one column wide.

    ``order``: the weight's dims of (i, j, c, f), or of (i, c, f). ``taps`` and ``strides`` are those along both axes.
    ``groups``: the data's dims that are one here. Of images of whole windows along three axes the channels of
    ``stacked`` frames are those of one image; 0 for all others. ``known``: whether filters depend on weights alone.
    ``bytes``: whether filters are bytes and data such in 16 bits, whose products are exact.
    """

    target: Target
    op: ir.Operation
    kind: Conv
    order: tuple[int, ...]
    groups: tuple[tuple[int, ...], ...]
    stacked: int
    known: bool
    bytes: bool
    n: int
    h: int
    w: int
    c: int
    f: int
    taps: tuple[int, int]
    strides: tuple[int, int]

    @staticmethod
    def of(op: ir.Operation, function: func.FuncOp, weights: set[ir.Value], target: Target) -> _Form | None:
        """The form of an op of a function; None if it is any other op."""
        kind = classify_sum(op)
        if not isinstance(kind, Conv) or kind.g or {*kind.dilations} != {1} or not {*kind.strides} <= {*_STRIDES}:
            return None
        data, weight, result = op.operands[kind.data], op.operands[kind.weight], op.results[0]
        of_bytes = multiplies_widened(op, kind)
        if min(shape_of(weight)) < 0 or splat_of(op.operands[2]) != 0 or not (of_bytes or _multiplies_floats(op)):
            return None
        image, place, out = (loops_along(op, number) for number in (kind.data, kind.weight, 2))
        axes = len(kind.o)
        single = (len(kind.n), len(kind.f), len(kind.c), len(place)) == (1, 1, 1, axes + 2) and axes in (1, 2, 3)
        if not single or image != [*kind.n, *[None] * axes, *kind.c] or out != [*kind.n, *kind.o, *kind.f]:
            return None
        order = tuple(place.index(d) for d in (*kind.k, *kind.c, *kind.f))
        *window, c, f = (shape_of(weight)[d] for d in order)
        n, *extents, _ = shape_of(result)
        read = [count_points(e, t, s) for e, t, s in zip(extents, window, kind.strides, strict=True)]
        image = zip(shape_of(data), [n, *read, c], (1, *kind.strides, 1), strict=True)
        whole = all(0 <= a - b < step for a, b, step in image if a >= 0)
        if not whole or 0 in (n, *extents, c, f):
            return None
        groups, stacked = [[axis] for axis in range(axes + 2)], 0
        if axes == 3 and len(groups := _join_axes(function, data, window, kind.strides)) > 4:
            groups, stacked = [[0, 1], [2], [3], [4]], window[0]
            order = (*order[1:3], order[0], *order[3:])
        n, *extents = (_join_extents([n, *extents][axis] for axis in group) for group in groups[:-1])
        window, strides = ([sizes[group[-1] - 1] for group in groups[1:-1]] for sizes in (window, kind.strides))
        if not set(window) <= set(_TAPS) or set(window) == {1}:
            return None
        one, joined = [1] * (2 - len(extents)), tuple(map(tuple, groups))
        (h, w), (i, j), (y, x) = ([*sizes, *one] for sizes in (extents, window, strides))
        kept = weight in weights
        if of_bytes and (stacked or not kept or min(n, h, w) < 0 or not _holds_bytes(data)):
            return None
        c *= max(1, stacked)
        return _Form(target, op, kind, order, joined, stacked, kept, of_bytes, n, h, w, c, f, (i, j), (y, x))

    @property
    def key(self) -> str:
        """What tells convolutions apart that are computed alike."""
        image, window, steps = (
            "x".join(map(str, sizes)) for sizes in ((self.n, self.h, self.w), self.taps, self.strides)
        )
        kind = "_bytes" if self.bytes else "" if self.known else "_computed"
        return f"{PREFIX}winograd_{image}_{self.c}x{self.f}_{window}_{steps}{kind}"

    @property
    def choices(self) -> list[int]:
        """The outputs that a patch may have along each side."""
        return [o for o in _OUTPUTS if self._is_exact(o)]

    def _is_exact(self, choice: int) -> bool:
        """Return whether there are matrices, and what they make of a patch loses few digits."""
        windows = list(zip(self.outputs(choice), self.taps, self.strides, strict=True))
        most = math.prod(max(points for points, _ in list_phases(*window)) for window in windows)
        known = all(has_matrices(*window) for window in windows) and most <= _MOST_VALUES
        return known and (not self.bytes or self._fits_words(choice))

    def _fits_words(self, choice: int) -> bool:
        """Return whether all that is made of bytes are integers of 16 bits, and the outputs, scaled, of 32."""
        windows = zip(self.outputs(choice), self.taps, self.strides, strict=True)
        if None in (found := [make_integer_matrices(*window) for window in windows]):
            return False
        grown, scale = zip(*(made for made in found if made is not None), strict=True)
        filters, data = (math.prod(float(abs(matrices[i]).sum(1).max()) for matrices in grown) for i in (1, 2))
        sums = math.prod(scale) * self.c * math.prod(self.taps) * _UNSIGNED * _SIGNED
        return filters * _SIGNED < 1 << 15 and data * _UNSIGNED < 1 << 15 and sums < 1 << 31

    def _matrices(self, choice: int) -> tuple[list[Matrices], int]:
        """The matrices of both axes, and by how much what they make of bytes has to be divided."""
        windows = list(zip(self.outputs(choice), self.taps, self.strides, strict=True))
        if not self.bytes:
            return [make_matrices(*window) for window in windows], 1
        made = [found for window in windows if (found := make_integer_matrices(*window)) is not None]
        return [matrices for matrices, _ in made], math.prod(scale for _, scale in made)

    def outputs(self, choice: int) -> tuple[int, int]:
        """The outputs of a patch along both axes: one where the window is one wide."""
        rows, columns = (choice if taps > 1 else 1 for taps in self.taps)
        return rows, columns

    def points(self, choice: int) -> tuple[int, int]:
        """The extents of a patch."""
        rows, columns = map(count_points, self.outputs(choice), self.taps, self.strides)
        return rows, columns

    @property
    def likely(self) -> tuple[int, int, int]:
        """Images, height and width; where only the run knows them, what they may be like."""
        side = max(_LEAST_SIDE, min(_MOST_SIDE, _SIDE_BY_CHANNELS // max(self.c, self.f)))
        height = max(side * side, _LEAST_LENGTH) if len(self.groups) == 3 else side
        guesses = zip((self.n, self.h, self.w), (1, height, side), strict=True)
        n, h, w = (size if size >= 0 else guess for size, guess in guesses)
        return n, h, w

    @property
    def channels(self) -> int:
        """The channels that are made: an odd number grows to whole vectors, as transforms take no vector of one."""
        return self.f + -self.f % _CHANNELS if self.f % 2 else self.f

    @property
    def direct(self) -> float:
        """The cost of the direct sum and of reading its weights, in multiply-adds of vectors."""
        of_row = self.c * self.f * math.prod(self.taps)
        weight = self.weight_cost / _FLOAT_BYTES if self.bytes else self.weight_cost
        vectors = (math.prod(self.likely) * self._product + weight) * of_row
        parts = self._cost_in_parts
        return vectors if parts is None else min(vectors, _MARGIN * parts * math.prod(self.likely) * of_row)

    @property
    def _cost_in_parts(self) -> float | None:
        """The share of its multiply-adds' time that the direct sum takes in parts of bfloat16; None where it is not."""
        sizes = (self.n, self.h, self.w)
        if min(sizes) < 0 or not self.known:
            return None
        frames = max(self.stacked, 1)
        walks = (
            WindowWalk(self.kind.strides[0] if self.stacked else 1, frames),
            *map(WindowWalk, self.strides, self.taps),
        )
        return cost_of_windows(sizes, walks, self.c // frames, self.f, self.target)

    def cost(self, choice: int) -> float:
        """The cost of the products, of reading their weights, and of both transforms, in multiply-adds."""
        n, h, w = self.likely
        rows, columns = self.outputs(choice)
        patches, values = n * -(-h // rows) * -(-w // columns), math.prod(self.points(choice))
        axes = len([taps for taps in self.taps if taps > 1])
        filters = 0 if self.keeps_filters(choice) else _COMPUTED * self.c * self.channels
        transforms = _TRANSFORM * axes * values * (patches * (self._product * self.c + self.channels) + filters)
        stacking = n * h * w * self.c * _COPY if self.stacked else 0
        products = (patches + self.weight_cost) * self._product * values * self.c * self.channels
        return products + transforms + stacking

    @property
    def _product(self) -> float:
        """The multiply-adds of floats that take as long as one product, and its part of a weight or of a sum."""
        return 0.5 if self.bytes else 1

    def time(self, choice: int) -> float:
        """The cost, and that of reading weights again for each block of patches where a core's cache has not both."""
        n, h, w = self.likely
        rows, columns = self.outputs(choice)
        values = math.prod(self.points(choice))
        patches, weights = n * -(-h // rows) * -(-w // columns) * values, values * self.c * self.channels
        cached = self.target.l2_bytes // _FLOAT_BYTES
        blocks = (patches * (self.c + self.channels) - 1) // cached if weights > cached else 0
        return self.cost(choice) + blocks * self._madds(_MADDS_PER_CACHED) * weights

    @property
    def weight_cost(self) -> float:
        """Multiply-adds that take as long as reading a weight."""
        return self._madds(_MADDS_PER_WEIGHT) / (2 if self.target.halves_vectors else 1)

    def _madds(self, count: int) -> float:
        """How many multiply-adds take as long as so many of 16 lanes."""
        return count * self.target.lanes / _LANES

    def keeps_filters(self, choice: int) -> bool:
        """Return whether the filters' values are computed ahead of time, for the size they grow to."""
        values, (made, given) = math.prod(self.points(choice)), (2, 1) if self.bytes else (_FLOAT_BYTES, _FLOAT_BYTES)
        size = values * made * self.c * self.channels
        return self.known and is_kept(size, math.prod(self.taps) * self.c * self.f * given)

    @property
    def least_pixels(self) -> int | None:
        """From how many pixels on patches of many outputs take less time than those of few, where the run decides.

        It does where either may be what an image of open height or width, of so many channels, wants: the filters of
        4x4 outputs, which are read once for all patches, are twice as large as those of 2x2. Of 512 channels 7x7 pixels
        take 2.6 times as long with the former, 28x28 1.6 times as long with the latter. None where one of them is right
        for all sizes that are likely.
        """
        guess = self.likely
        if min(self.h, self.w) >= 0 or {*self.choices} & {*_EITHER} != {*_EITHER} or 1 in (*guess[1:], *self.taps):
            return None
        if not all(self.keeps_filters(choice) for choice in _EITHER) or not self.known:
            return None
        # Above the largest one that wants few: of 12x12 pixels 4x4 outputs leave none over, of 14x14 they do, and the
        # filters of 256 channels, which a network reads from memory, then take 1.6 times as long.
        side = next((n + 1 for n in range(_MOST_SIDE - 1, 0, -1) if not self._prefers_many(n)), 1)
        return side * side if guess[1] < _LARGER * side and side < _LARGER * guess[1] else None

    def _prefers_many(self, side: int) -> bool:
        """Return whether patches of many outputs take less time than those of few, of a square image."""
        few, many = (dataclasses.replace(self, n=1, h=side, w=side).time(choice) for choice in _EITHER)
        return many < few

    def rewrite(self, choice: int, patches: WholePatches) -> ir.Value:
        """The ops that take the convolution's place, at the insertion point; returns their result."""
        shape = note_sizes(self.op.results[0])
        sizes = self._join(shape)
        made = self._compute(choice, self._cover_data(choice, sizes), sizes, patches)
        return made if shape == sizes else builders.reshape(made, shape)

    def rewrite_either(self, pixels: int, either: EitherPatches) -> ir.Value:
        """The ops of both sizes of patches, of which the run computes no rows, or no columns, of those it leaves out.

        Both read the same data. From ``pixels`` on the result is that of the larger patches.
        """
        shape = note_sizes(self.op.results[0])
        sizes, axis = self._join(shape), 1 if self.h < 0 else 2
        few, many = _EITHER
        data, none = self._cover_data(many, sizes), builders.index_constant(0)
        count = extents.index(math.prod(sizes[:-1]))
        large = arith.cmpi(arith.CmpIPredicate.uge, count, builders.index_constant(pixels))
        asked, made = extents.index(sizes[axis]), list[ir.Value]()
        for choice, amounts in ((many, (asked, none)), (few, (none, asked))):
            some = extents.fresh(arith.select(large, *amounts), "some", 0)
            chosen = (*sizes[:axis], some, *sizes[axis + 1 :])
            made.append(self._compute(choice, data, chosen, either.patches))
        chosen = either.select(large, made[0], made[1], sizes)
        return chosen if shape == sizes else builders.reshape(chosen, shape)

    def _cover_data(self, choice: int, sizes: Sequence[Extent]) -> ir.Value:
        """The data, with zeros around it, that whole patches read of a result of such sizes."""
        n, h, w, _ = sizes if len(sizes) == 4 else (*sizes[:2], 1, sizes[2])
        outputs, points = self.outputs(choice), self.points(choice)
        given = [*self._join(note_sizes(self.op.operands[self.kind.data]))[1:-1], 1][:2]
        read = [
            _cover(count * stride * (_count_patches(size, count) - 1) + extent, stride, there)
            for count, size, extent, stride, there in zip(outputs, (h, w), points, self.strides, given, strict=True)
        ]
        return builders.reshape(self._pad_data([n, *read[: len(sizes) - 2], self.c]), [n, *read, self.c])

    def _compute(self, choice: int, data: ir.Value, sizes: Sequence[Extent], patches: WholePatches) -> ir.Value:
        """The first ``sizes`` elements of what patches of ``data`` give."""
        outputs, points = self.outputs(choice), self.points(choice)
        data_kind, elem = element_of(data), element_of(self.op.results[0])
        matrices, scale = self._matrices(choice)
        back, filters, forth = (
            [_make_constant(matrix, kind) for matrix in both]
            for both, kind in zip(zip(*matrices, strict=True), (elem, data_kind, data_kind), strict=True)
        )
        n, h, w, _ = sizes if len(sizes) == 4 else (*sizes[:2], 1, sizes[2])
        s, t = map(_count_patches, (h, w), outputs)
        dims = [ir.AffineExpr.get_dim(i) for i in range(8)]
        channels = self.channels
        weight = builders.transpose(self.op.operands[self.kind.weight], self.order)
        weight = builders.reshape(weight, (*self.taps, self.c, self.f))
        weight = builders.pad(weight, [0] * 4, [0, 0, 0, channels - self.f], builders.scalar(0, element_of(weight)))
        if self.bytes:
            weight = builders.elementwise(lambda byte: arith.extsi(data_kind, byte), weight, elem=data_kind)
        u = _transform([weight, *filters], [(4, 5, 2, 3), (0, 4), (1, 5)], (*points, self.c, channels), 6)
        steps = [count * stride for count, stride in zip(outputs, self.strides, strict=True)]
        patch = (dims[2], dims[3] * steps[0] + dims[6], dims[4] * steps[1] + dims[7], dims[5])
        v = _transform([data, *forth], [patch, (0, 6), (1, 7)], (*points, n, s, t, self.c), 8)
        products = (*points, n, s, t, channels)
        m = builders.contraction((v, u), [(0, 1, 2, 3, 4, 6), (0, 1, 6, 5)], products, range(6), 1, elem)
        tiles, rows = (
            [make(dims[axis], count) for axis, count in zip((1, 2), outputs, strict=True)]
            for make in (ir.AffineExpr.get_floor_div, ir.AffineExpr.get_mod)
        )
        maps = [(4, 5, 0, *tiles, 3), (rows[0], dims[4]), (rows[1], dims[5])]
        # Of open extents whole patches are made: kernels cut such axes into blocks of them.
        h, w = (
            size if isinstance(size, int) else count * each
            for size, count, each in zip((h, w), (s, t), outputs, strict=True)
        )
        made = _transform([m, *back], maps, (n, h, w, channels), 6)
        if (shift := scale.bit_length() - 1) > 0:
            made = builders.elementwise(lambda total: arith.shrsi(total, scalars.like(total, shift)), made, elem=elem)
        if len(sizes) == 3:
            made = builders.reshape(made, [n, h, channels])
        return patches.slice(made, tuple(sizes))

    def _join(self, sizes: Sequence[Extent]) -> tuple[Extent, ...]:
        """The extents of the joined dims."""
        return tuple(math.prod(sizes[axis] for axis in group) for group in self.groups)

    def _pad_data(self, shape: Sequence[Extent]) -> ir.Value:
        """The data with zeros after its end up to ``shape``; a padding that it has already grows."""
        data, padded = self.op.operands[self.kind.data], shape
        if not self.stacked and list(self._join(note_sizes(data))) == list(shape):
            return builders.reshape(data, shape)
        data, low, number = padding_around(data)
        if number and not self.bytes:  # what lies behind the data has to be zeros, or no transform of it is finite
            data, low, number = self.op.operands[self.kind.data], [0] * len(low), 0
        if self.stacked:
            n, depth, *_ = note_sizes(self.op.operands[self.kind.data])
            padded = [n, depth, *shape[1:]]
            padded[-1] = note_sizes(data)[-1]
        else:
            data, low = builders.reshape(data, self._join(note_sizes(data))), [low[group[0]] for group in self.groups]
        high = [whole - start - size for whole, start, size in zip(padded, low, note_sizes(data), strict=True)]
        data = builders.pad(data, low, high, builders.scalar(number, element_of(data)))
        return builders.reshape(self._stack(data), shape) if self.stacked else data

    def _stack(self, data: ir.Value) -> ir.Value:
        """Images of the channels of all frames that a window reads."""
        n, _, *sizes = note_sizes(data)
        shape, steps = (n, note_sizes(self.op.results[0])[1], *sizes), (1, self.kind.strides[0], 1, 1, 1)
        taps = [builders.slice_(data, (0, tap, 0, 0, 0), shape, steps) for tap in range(self.stacked)]
        return builders.concat(taps, 4)


# By how much the direct sum in parts has to take less: its speed varies more, with who shares the core's matrix unit.
_MARGIN = 1.15
# Measured on AVX-512, in multiply-adds (16 lanes, 2 a cycle): what a transform along an axis costs for each value of a
# patch, and a weight from beyond the caches: of 8 lanes half as many, as memory is no slower for them, and so of 16 one
# a cycle. 14x14 of 256 channels then take 0.8 of their time on AVX2, with 4x4 outputs, and 0.6 on Zen 4. Above this
# share of the direct sum's cost, for each number of outputs, the rewriting is not worth its rounding errors; those of
# 2x2 are small.
_TRANSFORM, _MADDS_PER_WEIGHT, _GAIN = 3.5, 12, {2: 0.9, 3: 0.9, 4: 0.75}

# How much longer filters take than data, in runs that compute them: they are transposed, and packed afterwards.
_COMPUTED = 4

# Of a number that is copied to lie beside those of other frames.
_COPY = 16

# Multiply-adds, again of 16 lanes, for a weight from the cache behind a core's own one (measured on Zen 4).
_MADDS_PER_CACHED = 3
_LANES, _FLOAT_BYTES = 16, 4
# The largest bytes.
_UNSIGNED, _SIGNED = 255, 128

# The lanes of the smallest vectors.
_CHANNELS = 4

# An image whose size is open: networks have smaller ones of more channels. A sequence has as many elements.
_LEAST_SIDE, _MOST_SIDE, _SIDE_BY_CHANNELS, _LEAST_LENGTH = 8, 64, 4096, 256

# The outputs of patches between which the run chooses, and how much larger or smaller than a likely one an image is
# where neither is right for all.
_EITHER, _LARGER = (2, 4), 2


def _join_axes(function: func.FuncOp, data: ir.Value, window: Sequence[int], strides: Sequence[int]) -> list[list[int]]:
    """The data's dims, together those along which windows have one tap and steps of one.

    Zeros around one of them keep it apart.
    """
    inner, _ = zeros_around(data) or (data, [])
    known = SizeClasses(function)
    kept = [a == b for a, b in zip(known.of(data), known.of(inner), strict=True)]
    plain = [kept[0], *(k and w == s == 1 for k, w, s in zip(kept[1:-1], window, strides, strict=True))]
    groups = [[0]]
    for axis in range(1, len(plain)):
        if plain[axis] and plain[axis - 1]:
            groups[-1].append(axis)
        else:
            groups.append([axis])
    return [*groups, [len(plain)]]


def _join_extents(sizes: Iterable[int]) -> int:
    """The product of extents; an open one where one of them is."""
    found = list(sizes)
    return next((size for size in found if size < 0), math.prod(found))


def _count_patches(size: Extent, outputs: int) -> Extent:
    """Patches along an axis, the last one perhaps begun."""
    return floor_divide(size + outputs - 1, outputs)


def _cover(read: Extent, stride: int, given: Extent) -> Extent:
    """The extent of data of which ``read`` is used: no less than what is given, whose last step may be begun."""
    return max(read, given) if isinstance(read, int) and isinstance(given, int) else read + (stride - 1)


def _transform(
    inputs: Sequence[ir.Value], maps: Sequence[builders.MapSpec], shape: Sequence[Extent], loops: int
) -> ir.Value:
    """``out += data * left * right``, reducing the last two loops."""
    elem = element_of(inputs[0])
    flags = arith.FastMathFlags.contract | arith.FastMathFlags.reassoc

    def body(x: ir.Value, left: ir.Value, right: ir.Value, acc: ir.Value) -> ir.Value:
        if not scalars.is_float(elem):
            return arith.addi(acc, arith.muli(arith.muli(left, right), x))
        product = arith.mulf(arith.mulf(left, right, fastmath=flags), x, fastmath=flags)
        return arith.addf(acc, product, fastmath=flags)

    zero = builders.full(shape, builders.scalar(0, elem))
    return builders.generic(inputs, [zero], [*maps, range(loops - 2)], "p" * (loops - 2) + "rr", body)[0]


def _make_constant(matrix: np.ndarray, elem: ir.Type) -> ir.Value:
    kind = np.float32 if scalars.is_float(elem) else {16: np.int16, 32: np.int32}[scalars.width(elem)]
    return builders.constant(matrix.astype(kind), elem)


def _holds_bytes(value: ir.Value) -> bool:
    """Return whether all of a tensor of 16 bits are unsigned bytes: widened ones, moved and padded by such."""
    while (op := defining_op(value)) is not None:
        if op.name == "linalg.generic" and num_inputs(op) == 1:
            made = terminator_of(op).operands[0]
            widening = defining_op(made)
            if widening is not None:
                return widening.name == "arith.extui" and str(widening.operands[0].type) == "i8"
            if made != op.regions[0].blocks[0].arguments[0]:
                return False
            value = op.operands[0]
            continue
        inner, _, number = padding_around(value)
        if inner == value or not 0 <= number <= _UNSIGNED:
            return False
        value = inner
    return False


def _multiplies_floats(op: ir.Operation) -> bool:
    """Return whether a multiply-add is one of float32, and converts nothing."""
    plain = {inner.name for inner in body_ops(op)} == {"arith.mulf", "arith.addf"}
    return plain and {str(element_of(value)) for value in op.operands} == {"f32"}
