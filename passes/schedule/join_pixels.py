"""The lines of a small image become one where a convolution by single pixels walks them.

Tiles of rows then leave fewer over. A tile of a product has rows enough to wait for none of its sums, and what a line
leaves over takes as long as such a tile. On CPUs with 16 registers the 7 pixels of a line are a tile of 4 and one of 3;
the 49 of the image are 9 of 5 and one of 4.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from ...core.target import Target, detect_host
from ...dialects import builders, func, ir
from ...dialects.builders import element_of
from ...dialects.types import nbytes
from ...dialects.walk import defining_op
from ..analysis.classify import classify_op
from ..analysis.kinds import Broadcast, Contraction, Conv, Elementwise
from ..infra.base import Pass
from ..ir.kernel import find_script, is_dynamic_kernel, list_functions
from ..ir.maps import set_maps
from ..ir.structure import dims_in, indexing_maps, iterator_types, list_ops, loop_extents, shape_of
from ..ir.uses import nested_ops
from .families.column_panels import occupies_cores
from .tiles.axes import count_busy_rows, row_tile, row_tiles
from .tiling.dot_product import most_rows
from .tiling.grouped_sums import find_dot_product, grouped_loop
from .tiling.matrix_products import multiplies_matrices
from .tiling.tiler import packed_dims

# How much of the time of the tiles of lines those of the whole image may take.
_GAIN = 0.9

# Lists over the dims of the tensor that an op makes, or of the part of one that it reads or writes.
_DIM_LISTS = {
    "tensor.extract_slice": ("static_offsets", "static_sizes", "static_strides"),
    "tensor.insert_slice": ("static_offsets", "static_sizes", "static_strides"),
    "tensor.pad": ("static_low", "static_high"),
}


@dataclass(frozen=True)
class JoinPixels(Pass):
    """Make one axis of an image's lines where tiles of rows then cost less.

    Before::

        %u = linalg.unpack %w ... : tensor<12x1x1x64x16xf32> -> tensor<192x64x1x1xf32>
        %y = linalg.generic {(n,h,w,f,i,j,c) -> (n,h+i,w+j,c), (f,c,i,j), (n,h,w,f)} ins(%x, %u)    // 1x7x7x192

    After::

        %u = linalg.unpack %w ... : tensor<12x1x64x16xf32> -> tensor<192x64x1xf32>
        %y = linalg.generic {(n,p,f,i,c) -> (n,p+i,c), (f,c,i), (n,p,f)} ins(%x, %u)                // 1x49x192

    All ops of the kernel have to walk both axes together. A kernel's buffers are bare pointers, so a change of its
    tensors' shapes is free. 7x7 pixels of 192 channels by 1152 filters take 0.87 of their time, of 1152 by 192 0.86
    (AVX2).

    Options:
        target: the machine; None is this one.
    """

    name: ClassVar[str] = "join-pixels"
    target: Target | None = None

    def apply(self, module: ir.Module) -> None:
        """Join the pixels of those kernels of the module where it pays."""
        for function in list_functions(module):
            if is_dynamic_kernel(function) or find_script(function) is not None:
                continue
            found = [op for op in list_ops(function) if isinstance(classify_op(op), Conv | Contraction)]
            image = _Image.of(found[0]) if len(found) == 1 else None
            if image is None or not image.gains(self.target or detect_host()):
                continue
            if (joined := _find_joined(function, image)) is not None:
                _merge_lines(function, image, joined)


@dataclass(frozen=True)
class _Image:
    """A convolution by single pixels, its loops over lines and columns, and those over its window."""

    op: ir.Operation
    kind: Conv
    unpack: ir.Operation

    @staticmethod
    def of(op: ir.Operation) -> _Image | None:
        """None where a window has several pixels, or moves by several, or where the weight is not packed."""
        kind, extents = classify_op(op), loop_extents(op)
        if not isinstance(kind, Conv) or len(kind.o) != 2 or any(extents[loop] == 1 for loop in kind.o):
            return None
        unpack = defining_op(op.operands[kind.weight])
        plain = all(extents[loop] == 1 for loop in kind.k) and {*kind.strides} == {1}
        if not plain or unpack is None or unpack.name != "linalg.unpack":
            return None
        alone = [value for value in (unpack.operands[0], unpack.results[0]) if len(list(value.uses)) == 1]
        return _Image(op, kind, unpack) if len(alone) == 2 else None

    def most_rows(self, target: Target) -> int:
        """The rows of a tile; 0 where registers hold other things than vectors of sums."""
        grouped, [width, *_] = grouped_loop(self.op, self.kind), packed_dims(self.unpack)[1]
        dot = find_dot_product(self.op, target) if grouped is not None else None
        vectors = dot is not None or isinstance(element_of(self.op.operands[self.kind.data]), ir.F32Type)
        matrices = grouped is not None and multiplies_matrices(self.op, grouped, target)
        return most_rows(width, target.lanes, dot, target) if vectors and not matrices else 0

    def gains(self, target: Target) -> bool:
        """Return whether tiles of the whole image cost less than those of its lines.

        Blocks of the weight have to suffice for all threads, which no longer share lines. Pixels that the second cache
        does not hold have an order of their own (``contraction.py``).
        """
        far = nbytes(self.op.operands[self.kind.data].type) > target.l2_bytes
        if far or not occupies_cores(shape_of(self.unpack.operands[0])[0], target):
            return False
        lines, columns = (loop_extents(self.op)[loop] for loop in self.kind.o)
        if not (best := self.most_rows(target)):
            return False
        tiles = row_tiles([0, 1], [lines, columns], best)  # none where a tile has one row
        apart = lines * count_busy_rows(columns, tiles.get(1, 1))
        if tiles.get(1) == columns:
            apart = count_busy_rows(lines * columns, tiles.get(0, 1) * columns)
        return count_busy_rows(lines * columns, row_tile(lines * columns, best)) <= _GAIN * apart


def _find_joined(function: func.FuncOp, image: _Image) -> dict[ir.Value, int] | None:
    """The first of the two dims of each tensor that are joined; None where an op walks one of them alone."""
    joined: dict[ir.Value, int] = {image.op.results[0]: _find_pair(image.op, -1, image.kind.o) or 0}
    count = 0
    while count < len(joined):
        count = len(joined)
        for op in list_ops(function):
            if not _spread(op, image, joined):
                return None
    return joined


def _spread(op: ir.Operation, image: _Image, joined: dict[ir.Value, int]) -> bool:
    """Note the dims of all tensors of an op of which one is joined; False where it is not possible."""
    tensors = [value for value in (*op.operands, *op.results) if isinstance(value.type, ir.RankedTensorType)]
    if not any(value in joined for value in tensors) or op.name == "func.return":
        return True
    if op.name in ("tensor.empty", "linalg.fill", *_DIM_LISTS):
        dims = {joined[value] for value in tensors if value in joined}
        if len(dims) != 1 or not _keeps_whole(op, *dims):
            return False
        joined.update(dict.fromkeys(tensors, *dims))
        return True
    if op != image.op and not isinstance(classify_op(op), Elementwise | Broadcast):
        return False
    pair = _find_line_loops(op, image, joined)
    if pair is None or any(inner.name == "linalg.index" for inner in nested_ops(op)):
        return False
    for number, value in enumerate([*op.operands, *op.results]):
        place = _find_pair(op, min(number, len(op.operands) - 1), pair)
        if place is None or (place < 0 and value in joined) or joined.get(value, place) != place:
            return False
        if place >= 0:
            joined[value] = place
    return True


def _keeps_whole(op: ir.Operation, dim: int) -> bool:
    """Return whether an op that moves boxes has both dims whole in the box."""
    lists = [list(ir.DenseI64ArrayAttr(op.attributes[name])) for name in _DIM_LISTS.get(op.name, ())]
    whole = shape_of(op.results[0])
    if len(lists) == 3:
        ranks = {len(shape_of(v)) for v in (*op.operands, *op.results) if isinstance(v.type, ir.RankedTensorType)}
        offsets, sizes, strides = lists
        plain = all(offsets[d] == 0 and sizes[d] == whole[d] and strides[d] == 1 for d in (dim, dim + 1))
        return ranks == {len(whole)} and plain
    uses_indices = any(True for region in op.regions for argument in region.blocks[0].arguments for _ in argument.uses)
    return all(amounts[d] == 0 for amounts in lists for d in (dim, dim + 1)) and (not lists or not uses_indices)


def _find_line_loops(op: ir.Operation, image: _Image, joined: dict[ir.Value, int]) -> tuple[int, int] | None:
    """The loops of an op that walk the dims that are joined."""
    if op == image.op:
        return image.kind.o[0], image.kind.o[1]
    for number, value in enumerate([*op.operands, *op.results]):
        if value in joined:
            results = indexing_maps(op)[min(number, len(op.operands) - 1)].results
            first, second = (dims_in(results[d]) for d in (joined[value], joined[value] + 1))
            if len(first) == len(second) == 1:
                return first.pop(), second.pop()
    return None


def _find_pair(op: ir.Operation, number: int, loops: Sequence[int]) -> int | None:
    """The dim of an operand that the first loop walks, the next of which the second does; -1 where neither does."""
    walked = [[d for d, e in enumerate(indexing_maps(op)[number].results) if loop in dims_in(e)] for loop in loops]
    if walked == [[], []]:
        return -1
    [*first], [*second] = walked
    return first[0] if len(first) == len(second) == 1 and second[0] == first[0] + 1 else None


def _merge_lines(function: func.FuncOp, image: _Image, joined: dict[ir.Value, int]) -> None:
    """Change the types of all tensors, and what ops say about their dims."""
    ops = [op for op in list_ops(function) if any(v in joined for v in (*op.operands, *op.results))]
    pairs = [_find_line_loops(op, image, joined) if op.name == "linalg.generic" else None for op in ops]
    taps = image.kind.k[1]
    _drop_tap(image)
    for op, pair in zip(ops, pairs, strict=True):
        if op.name in _DIM_LISTS:
            _join_lists(op, joined[op.results[0]])
        elif pair is not None:
            _join_loops(op, pair, taps if op == image.op else None)
    for value, dim in joined.items():
        shape = shape_of(value)
        shape[dim : dim + 2] = [shape[dim] * shape[dim + 1]]
        value.set_type(ir.RankedTensorType.get(shape, element_of(value)))
    _retype(function)


def _retype(function: func.FuncOp) -> None:
    """Let a function's type be that of its arguments and of what it returns."""
    block = function.regions[0].blocks[0]
    inputs = [argument.type for argument in block.arguments]
    results = [value.type for value in list_ops(function)[-1].operands]
    function.attributes["function_type"] = ir.TypeAttr.get(ir.FunctionType.get(inputs, results))


def _drop_tap(image: _Image) -> None:
    """Leave one dim of a window of one pixel to the weight: the other goes from its blocks, and from their view."""
    op, unpack = image.op, image.unpack
    [tap] = [d for d, e in enumerate(indexing_maps(op)[image.kind.weight].results) if image.kind.k[1] in dims_in(e)]
    order = list(ir.DenseI64ArrayAttr(unpack.attributes["outer_dims_perm"]))
    packed, whole = unpack.operands[0], unpack.results[0]
    place, into = order.index(tap), defining_op(unpack.operands[1])
    assert into is not None  # an empty tensor
    for name in ("outer_dims_perm", "inner_dims_pos"):
        kept = [d - (d > tap) for d in ir.DenseI64ArrayAttr(unpack.attributes[name]) if d != tap]
        unpack.attributes[name] = ir.DenseI64ArrayAttr.get(kept)
    for value, dim in ((packed, place), (into.results[0], tap), (whole, tap)):
        shape = shape_of(value)
        value.set_type(ir.RankedTensorType.get(shape[:dim] + shape[dim + 1 :], element_of(value)))
    maps = indexing_maps(op)
    results = list(maps[image.kind.weight].results)
    maps[image.kind.weight] = ir.AffineMap.get(maps[0].n_dims, 0, results[:tap] + results[tap + 1 :])
    set_maps(op, maps)


def _join_lists(op: ir.Operation, dim: int) -> None:
    """Let an op's lists have one entry for both dims."""
    for name in _DIM_LISTS[op.name]:
        numbers = list(ir.DenseI64ArrayAttr(op.attributes[name]))
        joined = numbers[dim] * numbers[dim + 1] if name == "static_sizes" else numbers[dim]
        op.attributes[name] = ir.DenseI64ArrayAttr.get([*numbers[:dim], joined, *numbers[dim + 2 :]])
    if op.name == "tensor.pad":
        op.regions[0].blocks[0].erase_argument(dim + 1)


def _join_loops(op: ir.Operation, pair: tuple[int, int], tap: int | None) -> None:
    """Let a generic walk what two loops did by the first, and no dim of a window that is gone."""
    kinds = iterator_types(op)
    kept = [loop for loop in range(len(kinds)) if loop not in (pair[1], tap)]
    places = {loop: ir.AffineExpr.get_dim(number) for number, loop in enumerate(kept)}
    none = ir.AffineExpr.get_constant(0)
    place = ir.AffineMap.get(len(kept), 0, [places.get(loop, none) for loop in range(len(kinds))])
    walked = [[e.compose(place) for e in m.results if pair[1] not in dims_in(e)] for m in indexing_maps(op)]
    maps = [ir.AffineMap.get(len(kept), 0, results) for results in walked]
    set_maps(op, maps)
    op.attributes["iterator_types"] = builders.iterators_attr([kinds[loop] for loop in kept])
