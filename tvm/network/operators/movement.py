"""Operators that move elements."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..expr import Attrs, Expr
from ..registry import operator
from ..types import Extent
from ..writer import Value, Values, Writer
from .elementwise import as_dtype
from .shapes import read_numbers

_LAST = np.iinfo(np.int64).max
_FIRST = np.iinfo(np.int64).min


@operator("transpose")
def transpose(w: Writer, data: Value, axes: Sequence[int] | None = None) -> Value:
    """The axes in another order, by default backwards."""
    given = reversed(range(data.rank)) if axes is None or len(axes) == 0 else axes
    order = [int(each) % max(data.rank, 1) for each in given]
    if sorted(order) != [*range(data.rank)]:
        w.refuse(f"axes is {axes}, and the data has {data.rank} axes")
    return w.node("Transpose", data, perm=order)


def permute(w: Writer, data: Value, have: str, want: str, what: str = "layout") -> Value:
    """Axes that have the letters of one layout in the order of another. Raises ModelError for blocked layouts."""
    if have == want:
        return data
    if sorted(have) != sorted(want) or len(set(want)) != len(want):
        w.refuse(f"{what} '{have}' cannot be made '{want}': blocks of channels are the compiler's own choice")
    return w.node("Transpose", data, perm=[have.index(each) for each in want])


@operator("layout_transform")
def layout_transform(w: Writer, data: Value, src_layout: str, dst_layout: str) -> Value:
    """The axes in the order of another layout."""
    return permute(w, data, src_layout, dst_layout)


@operator("concatenate")
def concatenate(w: Writer, data: Values, axis: int = 0) -> Value:
    """Tensors behind each other, along an axis."""
    dtypes = sorted({each.dtype for each in data})
    if len(dtypes) > 1:
        w.refuse(f"the tensors are {' and '.join(dtypes)}: relay.cast gives them one dtype")
    return w.node("Concat", *data, axis=int(axis))


@operator("stack")
def stack(w: Writer, data: Values, axis: int = 0) -> Value:
    """Tensors along an axis of their own."""
    place = axis if axis >= 0 else axis + data[0].rank + 1
    return w.node("Concat", *(w.node("Unsqueeze", each, w.ints(place)) for each in data), axis=place)


def _count_parts(attrs: Attrs, operands: Sequence[Expr]) -> int:
    given = attrs["indices_or_sections"]
    return given if isinstance(given, int) else len(given) + 1


@operator("split", results=_count_parts)
def split(w: Writer, data: Value, indices_or_sections: Any, axis: int = 0) -> Values:
    """The parts of an axis: so many that are equal, or those that begin at these places."""
    extent = data.shape[axis]
    if isinstance(indices_or_sections, int):
        if isinstance(extent, int) and extent % indices_or_sections:
            w.refuse(f"axis {axis} of {extent} elements has no {indices_or_sections} equal parts")
        return w.nodes("Split", [data], indices_or_sections, axis=axis, num_outputs=indices_or_sections)
    places = [0, *map(int, indices_or_sections)]
    if not isinstance(extent, int):
        ends = [*places[1:], _LAST]
        return [_cut(w, data, axis, begin, end) for begin, end in zip(places, ends, strict=True)]
    lengths = [end - begin for begin, end in zip(places, [*places[1:], extent], strict=True)]
    return w.nodes("Split", [data, w.ints(*lengths)], len(lengths), axis=axis)


def _cut(w: Writer, data: Value, axis: int, begin: int, end: int) -> Value:
    return w.node("Slice", data, w.ints(begin), w.ints(end), w.ints(axis))


@operator("strided_slice")
def strided_slice(
    w: Writer, data: Value, begin: Any, end: Any, strides: Any = None, axes: Any = None, slice_mode: str = "end"
) -> Value:
    """A part of each axis, from ``begin`` to before ``end``, or of so many elements (``slice_mode="size"``)."""
    first, last = read_numbers(w, begin, "begin"), read_numbers(w, end, "end")
    steps = read_numbers(w, strides if strides is not None else [1], "strides")
    steps += [steps[-1] if len(steps) == 1 and len(first) > 1 else 1] * (len(first) - len(steps))
    places = [*range(len(first))] if axes is None else [int(each) % data.rank for each in axes]
    last = [*last, *[_LAST] * (len(first) - len(last))][: len(first)]
    if slice_mode == "size":
        last = [_LAST if size < 0 else start + size for start, size in zip(first, last, strict=True)]
        steps = [1] * len(first)
    elif slice_mode != "end":
        w.refuse(f"slice_mode is '{slice_mode}': it is 'end' or 'size'")
    if not len(first) == len(last) == len(places):
        w.refuse(f"begin, end and axes have {len(first)}, {len(last)} and {len(places)} numbers")
    return w.node("Slice", data, *(w.ints(*each) for each in (first, last, places, steps)))


@operator("slice_like")
def slice_like(w: Writer, data: Value, shape_like: Value, axes: Sequence[int] | None = None) -> Value:
    """The beginning of the data, in the extents of another tensor."""
    places = [each % data.rank for each in axes] if axes else [*range(min(data.rank, shape_like.rank))]
    numbers = [each for each in (shape_like.shape[place] for place in places) if isinstance(each, int)]
    open_ends = len(numbers) < len(places)
    ends = w.node("Gather", w.node("Shape", shape_like), w.ints(*places)) if open_ends else w.ints(*numbers)
    return w.node("Slice", data, w.ints(*[0] * len(places)), ends, w.ints(*places))


@operator("reverse")
def reverse(w: Writer, data: Value, axis: int) -> Value:
    """The elements of an axis backwards."""
    return w.node("Slice", data, w.ints(-1), w.ints(_FIRST), w.ints(axis), w.ints(-1))


@operator("reverse_sequence")
def reverse_sequence(w: Writer, data: Value, seq_lengths: Value, seq_axis: int = 1, batch_axis: int = 0) -> Value:
    """The first elements of each sequence backwards."""
    lengths = w.node("Cast", seq_lengths, to=7)
    return w.node("ReverseSequence", data, lengths, time_axis=seq_axis, batch_axis=batch_axis)


@operator("tile")
def tile(w: Writer, data: Value, reps: Any) -> Value:
    """The data, so often along each axis."""
    times = read_numbers(w, reps, "reps")
    if len(times) > data.rank:
        data = w.node("Unsqueeze", data, w.ints(*range(len(times) - data.rank)))
    return w.node("Tile", data, w.ints(*[1] * (data.rank - len(times)), *times))


@operator("repeat")
def repeat(w: Writer, data: Value, repeats: int, axis: int) -> Value:
    """Each element of an axis, so often."""
    place = axis % data.rank
    apart = w.node("Unsqueeze", data, w.ints(place + 1))
    many = w.node("Tile", apart, w.ints(*[1] * (place + 1), repeats, *[1] * (data.rank - place - 1)))
    extents = [0] * place + [-1] + [_number(w, each) for each in data.shape[place + 1 :]]
    return w.node("Reshape", many, w.ints(*extents))


def _number(w: Writer, extent: Extent) -> int:
    if not isinstance(extent, int):
        w.refuse("the extents behind the axis are known only at run time")
    return extent


@operator("meshgrid", results=lambda _, operands: len(operands[0].children))
def meshgrid(w: Writer, data: Values, indexing: str = "ij") -> Values:
    """Vectors, each repeated along the axes of the others."""
    order = [1, 0, *range(2, len(data))] if indexing == "xy" and len(data) > 1 else [*range(len(data))]
    apart = []
    for number, each in enumerate(data):
        vector = each if each.rank else w.node("Unsqueeze", each, w.ints(0))
        others = [place for place in range(len(data)) if place != order.index(number)]
        apart.append(w.node("Unsqueeze", vector, w.ints(*others)) if others else vector)
    lengths = [data[each].shape[0] if data[each].rank else 1 for each in order]
    return [w.node("Expand", each, w.ints(*(_number(w, length) for length in lengths))) for each in apart]


@operator("trilu")
def trilu(w: Writer, data: Value, k: int, upper: bool = True) -> Value:
    """Matrices with zeros on one side of a diagonal."""
    return w.node("Trilu", data, w.constant(int(k), "int64"), upper=int(upper))


@operator("einsum")
def einsum(w: Writer, data: Values, equation: str) -> Value:
    """Einstein's sum of tensors."""
    return w.node("Einsum", *data, equation=equation)


@operator("nn.depth_to_space")
def depth_to_space(w: Writer, data: Value, block_size: int, layout: str = "NCHW", mode: str = "DCR") -> Value:
    """Blocks of channels as pixels."""
    made = w.node("DepthToSpace", permute(w, data, layout, "NCHW"), blocksize=block_size, mode=mode)
    return permute(w, made, "NCHW", layout)


@operator("nn.space_to_depth")
def space_to_depth(w: Writer, data: Value, block_size: int, layout: str = "NCHW") -> Value:
    """Blocks of pixels as channels."""
    made = w.node("SpaceToDepth", permute(w, data, layout, "NCHW"), blocksize=block_size)
    return permute(w, made, "NCHW", layout)


@operator("nn.pad")
def pad(w: Writer, data: Value, pad_width: Any, pad_value: Value | float = 0, pad_mode: str = "constant") -> Value:
    """The data with elements around it: a number, those at the edge, or those inside mirrored."""
    pairs = [tuple(map(int, each)) for each in pad_width]
    if len(pairs) != data.rank:
        w.refuse(f"pad_width has {len(pairs)} pairs, and the data {data.rank} axes")
    widths = w.ints(*(each[0] for each in pairs), *(each[1] for each in pairs))
    if pad_mode == "constant":
        value = pad_value if isinstance(pad_value, Value) else w.constant(pad_value, data.dtype)
        return w.node("Pad", data, widths, as_dtype(w, value, data.dtype))
    if pad_mode not in ("edge", "reflect"):
        w.refuse(f"pad_mode is '{pad_mode}': it is 'constant', 'edge' or 'reflect'")
    return w.node("Pad", data, widths, mode=pad_mode)


@operator("nn.mirror_pad")
def mirror_pad(w: Writer, data: Value, pad_width: Any, mode: str = "SYMMETRIC") -> Value:
    """The data with its own elements mirrored around it, those at the edge again (SYMMETRIC), or once (REFLECT)."""
    if mode not in ("SYMMETRIC", "REFLECT"):
        w.refuse(f"mode is '{mode}': it is 'SYMMETRIC' or 'REFLECT'")
    for axis, (before, behind) in enumerate(pad_width):
        if before or behind:
            extent = _number(w, data.shape[axis])
            places = np.pad(np.arange(extent), (int(before), int(behind)), mode.lower())  # type: ignore[call-overload]
            data = w.node("Gather", data, w.constant(places, "int64"), axis=axis)
    return data
