"""The values of a kernel as schedules see them: what their axes are called, and what makes them.

An axis is called by what walks it in the op that a value comes from, its anchor: the last op that is not elementwise.

contraction               b (batch), m, n; k is summed up
convolution               n, g (group), oh, ow, f; c, kh, kw are summed up. Depthwise: n, oh, ow, c
pooling                   n, oh, ow, c; kh, kw
reductions along rows     row: the axis that they go along; k: others that they sum up
all else                  d0, d1, ...

Several of one kind are numbered (b0, b1). What has one element has no loop, and is d0, d1, ... by its place.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from ....dialects import func, ir, tw
from ....dialects.builders import element_of
from ....dialects.walk import defining_op
from ...analysis.classify import classify_op, multiplies_words
from ...analysis.kinds import (
    Broadcast,
    Contraction,
    Conv,
    DepthwiseConv,
    Elementwise,
    Fill,
    Injective,
    Opaque,
    OpClass,
    Pooling,
    Reduction,
    Transform,
)
from ...ir.structure import (
    body_ops,
    dim_of,
    dims_in,
    indexing_maps,
    is_structured,
    iterator_types,
    loop_extents,
    num_inputs,
    shape_of,
    terminator_of,
)
from ..language.loopnest import ARGUMENT, RESULT, Axis, Block, KernelValue
from ..tiles.axes import result_axis, vector_axis
from ..tiles.lanes import find_lanes
from ..tiles.structured import find_row_loop, loop_along, steps_apart
from .border import Border
from .gather import reads_at_indices
from .grouped_sums import byte_sum, grouped_loop
from .pool_windows import amounts_of, find_skipped_padding, walks_row, windows_of
from .tiler import can_slice, may_repeat, packed_dims

_LIGHT = (Elementwise, Broadcast, Injective, Fill)
_SLICES_AND_PADS = ("tensor.extract_slice", "tensor.pad")
# Of a convolution's sums along its channels: elements of a vector, and what adding up a vector takes.
_LANES, _SUM = 8, 6


@dataclass(frozen=True)
class Named:
    """A value with names. ``sums`` are the loops of its anchor that the axes it sums up are; there may be no anchor."""

    value: KernelValue
    anchor: ir.Operation | None
    sums: Mapping[str, int]


def values_of(function: func.FuncOp) -> tuple[KernelValue, ...]:
    """The values of a kernel's function that a nest can compute or copy, the result first.

    The function returns one tensor; what has no dims cannot be staged.
    """
    block = function.regions[0].blocks[0]
    ops = [op.operation for op in block.operations]
    returned = ops[-1].operands[0]
    result = Border.of(returned).inner
    arguments = [value for value in block.arguments if isinstance(value.type, ir.RankedTensorType)]
    inner = [
        op.results[0]
        for op in ops
        if len(op.results) == 1 and (op.name in ("linalg.generic", "tensor.pad") or is_read(op.result))
    ]
    staged = [value for value in (*arguments, *inner) if value not in (result, returned) and shape_of(value)]
    made = replace(name_value(result, RESULT).value, once=not may_repeat(result))
    return (made, *(name_value(Border.of(value).inner, value_name(value)).value for value in staged))


def value_name(value: ir.Value) -> str:
    """The name in schedules of a value other than the result: "%arg1" for argument 1, "%5" for the value of op 5."""
    op = defining_op(value)
    if op is None:
        return f"{ARGUMENT}{ir.BlockArgument(value).arg_number}"
    return f"%{[other.operation for other in op.block.operations].index(op)}"


def name_ops(function: func.FuncOp) -> None:
    """Call structured ops of a kernel as schedules call what they make (``tw.stage``), so that scripts find them."""
    returned = list(terminator_of(function).operands)
    for op in body_ops(function):
        if op.name.startswith("linalg.") and len(op.results) == 1:
            name = RESULT if list(op.results) == returned else value_name(op.results[0])
            op.attributes[tw.STAGE] = ir.StringAttr.get(name)


def value_called(name: str, block: ir.Block) -> ir.Value:
    """The value of a kernel's function that ``value_name`` names so."""
    if name.startswith(ARGUMENT):
        return block.arguments[int(name.removeprefix(ARGUMENT))]
    return list(block.operations)[int(name.removeprefix("%"))].operation.results[0]


def is_read(value: ir.Value) -> bool:
    """Return whether a value is in memory before the kernel runs: an argument, or a slice of one at a known place."""
    op = defining_op(value)
    if op is None or op.name != "tensor.extract_slice":
        return op is None
    return isinstance(op.operands[0], ir.BlockArgument) and can_slice(op)


def name_value(value: ir.Value, name: str) -> Named:
    """Name the axes of a value; those of others than the result begin with the value's name."""
    shape, anchor = shape_of(value), anchor_of(value)
    prefix = "" if name == RESULT else f"{name}."
    names = [f"{prefix}d{i}" for i in range(len(shape))]
    if anchor is None:
        return Named(KernelValue(name, _name_axes(names, shape), read=is_read(value)), None, {})
    kind, extents = classify_op(anchor), loop_extents(anchor)
    words, sums = _loop_names(anchor, kind)
    for loop, word in words.items():
        axis = result_axis(anchor, loop, value) if word not in sums else None
        if axis is not None and shape[axis] != 1:
            names[axis] = prefix + word
    row = f"{prefix}row" if "row" in sums else ""
    if row and math.prod(shape) > math.prod(shape_of(anchor.results[0])):
        names[vector_axis(shape)] = row
        shape[vector_axis(shape)] = max(shape[vector_axis(shape)], extents[sums["row"]])
    numbers = {prefix + word: loop for word, loop in sums.items()}
    summed = {word: extents[loop] for word, loop in numbers.items() if word not in names}
    stepped = _find_stepped_loop(anchor, kind, list(sums.values())) is not None and not row
    stepped = stepped and not multiplies_words(anchor)  # whose products are no outer ones of numbers
    made = KernelValue(
        name, _name_axes(names, shape), _name_axes(summed, summed.values()), row, _intrinsic(anchor, kind, stepped)
    )
    packed, single = _find_packed(anchor, kind, value, names), _find_single(anchor, kind, value, names)
    return Named(replace(made, packed=packed, single=single), anchor, numbers)


def _find_single(anchor: ir.Operation, kind: OpClass, value: ir.Value, names: Sequence[str]) -> tuple[str, ...]:
    """The axes along which a convolution's windows move whose padding is left out: each of these has its own bounds."""
    pad = find_skipped_padding(anchor) if isinstance(kind, Conv) else None
    if pad is None or not isinstance(kind, Conv):
        return ()
    amounts = amounts_of(pad)
    axes = [result_axis(anchor, w.o, value) for w in windows_of(anchor, kind) if any(amounts[w.axis])]
    return tuple(names[axis] for axis in axes if axis is not None)


def _intrinsic(anchor: ir.Operation, kind: OpClass, stepped: bool) -> str:
    """The intrinsic that tiles of an anchor's values can become; ``stepped`` says whether its sum goes step by step."""
    if isinstance(kind, Transform):
        return "linear_transform"
    if grouped_loop(anchor, kind) is not None:
        return "dot_product"
    return "outer_product" if stepped else ""


def _name_axes(names: Iterable[str], extents: Iterable[int]) -> tuple[Axis, ...]:
    return tuple(Axis(name, extent) for name, extent in zip(names, extents, strict=True))


def anchor_of(value: ir.Value) -> ir.Operation | None:
    """The last op, in program order, that is not elementwise, of those a value comes from through elementwise ones."""
    found: set[ir.Operation] = set()
    pending, seen = [value], set()
    while pending:
        op = defining_op(pending.pop())
        if op is None or op in seen:
            continue
        seen.add(op)
        if op.name in _SLICES_AND_PADS:
            pending.append(op.operands[0])
        elif is_structured(op) and len(op.results) == 1:
            if isinstance(classify_op(op), _LIGHT):
                pending += list(op.operands)
            else:
                found.add(op)
    if not found:
        return None
    order = [op.operation for op in next(iter(found)).block.operations]
    return max(found, key=order.index)


def reduces_last(op: ir.Operation) -> bool:
    """Return whether an op reduces along the contiguous dim of what it reads, and reads nothing at other places.

    Not where all operands lie along the result, or are the same all along it: vectors of results then read whole
    vectors, and along the sum another operand's elements lie apart. Nor where elements that lie apart along the sum are
    computed with it, as those of a softmax are.
    """
    loop = find_row_loop(op) if not reads_at_indices(op) else None
    if loop is None or (loop_along(op, 0) != loop and _is_spread(op.results[0])):
        return False
    return find_lanes(op) is not None or not _lies_along_result(op, loop)


def _lies_along_result(op: ir.Operation, row: int) -> bool:
    column, count = loop_along(op, -1), num_inputs(op)
    if column is None or loop_extents(op)[column] < _LANES:
        return False
    walked = [{d for e in m.results for d in dims_in(e)} for m in indexing_maps(op)[:count]]
    lies = [loop_along(op, number) == column for number in range(count)]
    apart = any(along and row in loops for along, loops in zip(lies, walked, strict=True))
    return apart and all(along or column not in loops for along, loops in zip(lies, walked, strict=True))


def _is_spread(sums: ir.Value) -> bool:
    """Return whether elements along an axis that sums lack are computed with them, as in a softmax or a norm.

    Rows of such kernels have to lie along the last axis: else each element would get sums of its own.
    """
    pending, seen = [sums], set()
    while pending:
        for use in pending.pop().uses:
            op = use.owner
            if op in seen or op.name != "linalg.generic" or not isinstance(classify_op(op), _LIGHT):
                continue
            walked = {loop for place in indexing_maps(op)[use.operand_number].results for loop in dims_in(place)}
            if any(extent != 1 for loop, extent in enumerate(loop_extents(op)) if loop not in walked):
                return True
            seen.add(op)
            pending += list(op.results)
    return False


def is_dot(op: ir.Operation, kind: OpClass) -> bool:
    """A contraction whose results are best computed as products of two rows: it has no columns, or they are rows too.

    Where both operands lie along k, a tile of columns would be a transposed vector. A convolution to a few
    channels is such a product for each element of its window: fewer vectors than with lanes that have no channel.
    So are groups of one filter, which have no channels to lie along.
    """
    if not isinstance(kind, Contraction | Conv) or block_of(op, kind):  # a packed weight is read along its blocks
        return False
    if isinstance(kind, Conv):
        extents = loop_extents(op)
        channels, summed, steps = (math.prod(extents[loop] for loop in loops) for loops in (kind.f, kind.c, kind.k))
        if channels > 1 and any(extents[loop] != 1 for loop in kind.g):
            return False
        return channels == 1 or (_needs_few_vectors(channels, summed, steps) and byte_sum(op, kind) is None)
    last = {loop_along(op, number) for number in (kind.lhs, kind.rhs)}
    return all(loop_extents(op)[n] == 1 for n in kind.n) or bool(last & set(kind.k) and len(last) == 1)


def sums_rows(op: ir.Operation, kind: OpClass) -> bool:
    """Return whether an op of no other kind sums up rows at places that are sums of loops.

    Vectors of results would be put together one by one: 64 products with rows of 64 each then take 3.7 times as long.
    """
    loop = find_row_loop(op) if isinstance(kind, Opaque) and is_straight(op) else None
    if loop is None or find_lanes(op) is not None:
        return loop is not None
    return loop_extents(op)[loop] >= _LANES and not steps_apart(op, loop)


def is_straight(op: ir.Operation) -> bool:
    """Return whether an op's body has no loops: upstream's patterns end the process over a tile of such."""
    return op.name == "linalg.generic" and not any(len(inner.regions) for inner in body_ops(op))


def sums_along_rows(op: ir.Operation, kind: Contraction) -> bool:
    """Return whether a product had better be ``is_dot``, with rows for the few columns of its weight."""
    extents, floats = loop_extents(op), all(isinstance(element_of(value), ir.FloatType) for value in op.operands)
    columns, summed = (math.prod(extents[loop] for loop in loops) for loops in (kind.n, kind.k))
    return floats and loop_along(op, kind.lhs) in kind.k and _needs_few_vectors(columns, summed, 1)


def _needs_few_vectors(channels: int, summed: int, steps: int) -> bool:
    """Return whether sums along rows take fewer vectors than lanes of which most have no channel."""
    return channels <= _LANES // 2 and channels * (_SUM + steps * -(-summed // _LANES)) < summed * steps


def block_of(op: ir.Operation, kind: Contraction | Conv) -> int:
    """Width of the blocks that the weight is packed in; 0 where it is not packed."""
    weight = defining_op(op.operands[kind.weight])
    return packed_dims(weight)[1][0] if weight is not None and weight.name == "linalg.unpack" else 0


def _loop_names(op: ir.Operation, kind: OpClass) -> tuple[dict[int, str], dict[str, int]]:
    """Names of an anchor's loops, and the loops that are summed up by name: in order, that of an outer product last."""
    if isinstance(kind, Transform):
        return {}, {}  # the sums over its matrices are straight-line code
    extents = loop_extents(op)
    reductions = [i for i, iterator in enumerate(iterator_types(op)) if iterator == "reduction"]
    along_rows = reduces_last(op) and (isinstance(kind, Reduction) or sums_rows(op, kind) or is_dot(op, kind))
    row = find_row_loop(op) if along_rows else None
    if row is not None:
        roles, last = {"k": [i for i in reductions if i != row], "row": [row]}, row
    else:
        roles, last = _roles(kind, reductions), _find_stepped_loop(op, kind, reductions)
    names: dict[int, str] = {}
    for role, loops in roles.items():
        long = [loop for loop in loops if extents[loop] != 1 or loop == row]
        names |= {loop: role if len(long) == 1 else f"{role}{i}" for i, loop in enumerate(long)}
    order = sorted((loop for loop in reductions if loop in names), key=lambda loop: (loop == last, loop))
    return names, {names[loop]: loop for loop in order}


def _roles(kind: OpClass, reductions: Sequence[int]) -> dict[str, Sequence[int]]:
    """Loops by what they are called; those that are not here are called after the dims that they walk."""
    if isinstance(kind, Contraction):
        return {"b": kind.batch, "m": kind.m, "n": kind.n, "k": kind.k}
    if isinstance(kind, Conv):
        return {"n": kind.n, "g": kind.g, "f": kind.f, "c": kind.c, **_windows(kind)}
    if isinstance(kind, DepthwiseConv):
        return {"n": kind.n, "c": kind.c, "f": kind.f, **_windows(kind)}
    if isinstance(kind, Pooling) and len(kind.parallel) == 2:
        return {"n": kind.parallel[:1], "c": kind.parallel[1:], **_windows(kind)}
    return {"k": reductions}


def _windows(kind: Conv | DepthwiseConv | Pooling) -> dict[str, Sequence[int]]:
    """The loops over outputs and windows of each spatial dim, the last one ``w``."""
    letters = ("d", "h", "w")[-len(kind.o) :] if len(kind.o) <= 3 else tuple(map(str, range(len(kind.o))))
    pairs = zip(letters, kind.o, kind.k, strict=True)
    return {name: (loop,) for letter, o, k in pairs for name, loop in ((f"o{letter}", o), (f"k{letter}", k))}


def _find_stepped_loop(op: ir.Operation, kind: OpClass, reductions: Sequence[int]) -> int | None:
    """The reduction loop that tiles of a sum of products step along: the last one that walks a dim of both operands."""
    if not isinstance(kind, Contraction | Conv) or (isinstance(kind, Contraction) and not kind.n):
        return None  # without columns of its own there is no outer product
    if (grouped := grouped_loop(op, kind)) is not None:
        return grouped
    if isinstance(kind, Conv) and walks_row(op, kind):
        return None  # channels of a pixel lie apart
    extents, walked = loop_extents(op), [[dim_of(e) for e in m.results] for m in indexing_maps(op)[:-1]]
    both = [loop for loop in reductions if extents[loop] > 1 and all(loop in dims for dims in walked)]
    return both[-1] if both else None


def _find_packed(op: ir.Operation, kind: OpClass, value: ir.Value, axes: Sequence[str]) -> tuple[Block, ...]:
    """The packed weight of an anchor, along the axis that its blocks are of."""
    if not isinstance(kind, Contraction | Conv) or not block_of(op, kind):
        return ()
    unpack = defining_op(op.operands[kind.weight])
    assert unpack is not None  # what `block_of` found
    source, (dims, (size, *_)) = unpack.operands[0], packed_dims(unpack)
    loop = dim_of(list(indexing_maps(op)[kind.weight].results)[dims[0]])
    axis = result_axis(op, loop, value) if loop is not None else None
    if axis is None or not isinstance(source, ir.BlockArgument):
        return ()
    return (Block(source.arg_number, axes[axis], size),)
