"""Vector transfers of a scheduled kernel become loads and stores."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from ...dialects import arith, func, ir, memref, transform, vector
from ...dialects.builders import index_constant, scalar
from ...dialects.context import keep
from ...dialects.types import DYNAMIC, element_bits
from ...dialects.walk import collect, defining_op, enclosing_loops
from ..infra.base import Pass
from ..ir.dynamic_sizes import hide_formula, slice_amounts
from ..ir.kernel import scheduled_functions
from ..ir.rewrite import rewrite
from ..ir.structure import dim_of
from .interleave import (
    interleave_transposes,
    join_columns,
    join_rows,
    load_interleaved,
    skip_unit_dims,
    spread_columns,
    store_interleaved,
)

# Steps between elements that are picked out of whole rows, and between words where a vector has at least so many:
# further apart, they are fewer loads one by one.
_MOST_APART, _WORDS_APART, _WORDS = 4, 8, 16
# Rows an open distance apart from which on they are addressed in groups, and the rows of a group.
_MANY_ROWS, _ROWS_TOGETHER = 5, 3
_TRANSFERS = ("vector.transfer_read", "vector.transfer_write")
# Bits of a vector that is picked at once: more would be taken apart to single elements.
_REGISTER_BITS = 512


@dataclass(frozen=True)
class LowerTransfers(Pass):
    """Rows are loaded and stored whole, transposes are shuffles (``interleave.py``), more rows are left to be unrolled.

    Elements that lie apart are loaded and stored one by one; those that lie a few steps apart are picked out of rows.
    Of a column of many rows an open distance apart LLVM sees every third row's number as one of its own: it would
    compute each address from the one before, and keep sums in memory: 512 x 512 by 512 takes 0.6 of the time.

    Before::

        %v = vector.transfer_read %x[%i, %c0], %pad {in_bounds = [true]} : memref<64x32xf32>, vector<16xf32>

    After::

        %v = vector.load %x[%i, %c0] : memref<64x32xf32>, vector<16xf32>
    """

    name: ClassVar[str] = "lower-transfers"

    def apply(self, module: ir.Module) -> None:
        """Rewrite all scheduled functions of the module."""
        for function in scheduled_functions(module):
            rewrite(function, _writes_column, _write_column, "vector.transfer_write")
            join_columns(function)
            store_interleaved(function)
            load_interleaved(function)
            spread_columns(function)
            interleave_transposes(function)
            _load_elements(function)
            rewrite(function, _steps_along_row, _pick_elements, "vector.transfer_read")
            rewrite(function, _reads_column, _pick_column, "vector.transfer_read")
            rewrite(function, _goes_before_units, _drop_units, *_TRANSFERS)
            transform.apply(keep(_transfers_script, _transfers_script), function)
            _move_scalars(function)
            rewrite(function, _is_row_apart, _move_elements, *_TRANSFERS)


def _transfers_script() -> transform.Script:
    with transform.sequence() as made:
        transform.apply_patterns(
            made.root,
            "vector.lower_transfer max_transfer_rank = 1",
            "vector.lower_shape_cast",
            "vector.sink_mem_ops",
            "canonicalization",
            vector_lower_transpose="shuffle_1d",
        )
    return made


def _load_elements(function: func.FuncOp) -> None:
    """Load one by one the elements that lie apart and are used one by one: a strided convolution's, in one channel.

    As a vector they would be put together first, and taken apart after.
    """
    for read in collect(function, _lies_apart, "vector.transfer_read"):
        indices, axes = list(read.operands)[1:-1], _find_vector_dims(read)
        rows = _find_open_rows(read)
        starts = _number_rows(read, rows) if rows is not None else []
        for use in list(read.results[0].uses):
            extract = use.owner.operation
            at = list(indices)
            with ir.InsertionPoint(extract), extract.location:
                for axis, position in zip(
                    axes, ir.DenseI64ArrayAttr(extract.attributes["static_position"]), strict=True
                ):
                    group, inside = divmod(position, _ROWS_TOGETHER) if axis == rows else (0, position)
                    first = starts[group] if axis == rows else indices[axis]
                    at[axis] = arith.addi(first, index_constant(inside))
                extract.results[0].replace_all_uses_with(memref.load(read.operands[0], at))
            extract.erase()
        read.erase()


def _find_open_rows(read: ir.Operation) -> int | None:
    """The dim of the rows of a column that is read in a loop, many of them, an open distance apart; None of others.

    Their numbers must be known before the loop.
    """
    axes, strides = _find_vector_dims(read), ir.MemRefType(read.operands[0].type).get_strides_and_offset()[0]
    long = [(axis, n) for axis, n in zip(axes, ir.VectorType(read.results[0].type).shape, strict=True) if n > 1]
    if len(long) != 1 or long[0][1] < _MANY_ROWS or strides[long[0][0]] != DYNAMIC:
        return None
    [(rows, _)], loop = long, read.parent
    if loop is None or loop.name != "scf.for":
        return None
    index = read.operands[1 + rows]
    made = defining_op(index)
    block = index.owner if made is None else made.block
    return rows if block != read.block else None


def _number_rows(read: ir.Operation, rows: int) -> list[ir.Value]:
    """The first row of each group, before the loop."""
    size = max(ir.VectorType(read.results[0].type).shape)
    [loop, *_] = enclosing_loops(read)
    with ir.InsertionPoint(loop), read.location:
        numbers = range(0, size, _ROWS_TOGETHER)
        return [hide_formula(arith.addi(read.operands[1 + rows], index_constant(n))) for n in numbers]


def _writes_column(op: ir.Operation) -> bool:
    """Return whether an op writes matrices of one column, as which a vector was turned, all of them inside a buffer."""
    shape = ir.VectorType(op.operands[0].type).shape
    masked = len(op.operands) > ir.ShapedType(op.operands[1].type).rank + 2
    if masked or len(shape) < 2 or shape[-1] != 1 or all(n == 1 for n in shape):
        return False
    turned = skip_unit_dims(op.operands[0]) != op.operands[0]
    return turned and _in_bounds(op) and len(_find_vector_dims(op)) == len(shape)


def _write_column(op: ir.Operation) -> list[ir.Value]:
    """Write the columns as vectors: upstream's patterns find no end in matrices of one column."""
    value, buffer, *indices = op.operands
    kind, axes = ir.VectorType(value.type), _find_vector_dims(op)
    *outer, (column, length) = [(axis, n) for axis, n in zip(axes, kind.shape, strict=True) if n > 1]
    rows = vector.shape_cast(
        ir.VectorType.get([*(n for _, n in outer), length], kind.element_type), skip_unit_dims(value)
    )
    along = ir.AffineMap.get(ir.ShapedType(buffer.type).rank, 0, [ir.AffineExpr.get_dim(column)])
    for place in itertools.product(*(range(n) for _, n in outer)):
        at = list(indices)
        for (axis, _), number in zip(outer, place, strict=True):
            at[axis] = arith.addi(indices[axis], index_constant(number))
        row = vector.extract(rows, [], list(place)) if place else rows
        vector.transfer_write(None, row, buffer, at, along, [True])
    return []


def _steps_along_row(op: ir.Operation) -> bool:
    """Return whether an op reads every second to fourth element of a row, or to eighth of many words, as one vector."""
    return _in_bounds(op) and _find_steps(op) is not None


def _find_steps(read: ir.Operation) -> tuple[int, int] | None:
    """The axis of what a view is of that a vector lies along, and how many elements of a row one step has; else None.

    A view of every second element of a row has steps of two, and a view of a column of rows of three, one behind the
    other, steps of three.
    """
    view = defining_op(read.operands[0])
    if view is None or view.name != "memref.subview" or _find_vector_dim(read) != 0:
        return None
    steps, sizes = (list(ir.DenseI64ArrayAttr(view.attributes[f"static_{name}"])) for name in ("strides", "sizes"))
    whole = ir.MemRefType(view.operands[0].type)
    strides, short = whole.get_strides_and_offset()[0], whole.shape[-1]
    if ir.MemRefType(view.results[0].type).rank != 1 or strides[-1] != 1:
        return None
    long = max(sizes) >= _WORDS and element_bits(whole.element_type) == 32
    most = _WORDS_APART if long else _MOST_APART
    if set(sizes[:-1]) <= {1} and 1 < steps[-1] <= most:
        return len(sizes) - 1, steps[-1]
    column = len(sizes) > 1 and set((*sizes[:-2], sizes[-1])) <= {1} and steps[-2] == 1
    return (len(sizes) - 2, short) if column and strides[-2] == short and 1 < short <= _MOST_APART else None


def _reads_column(op: ir.Operation) -> bool:
    """Return whether an op reads a column of rows of two to four, one behind the other, as one vector."""
    if not isinstance(op.operands[0].type, ir.MemRefType) or not _in_bounds(op):
        return False
    kind = ir.MemRefType(op.operands[0].type)
    if kind.rank < 2 or not 1 < (short := kind.shape[-1]) <= _MOST_APART or len(op.operands) != kind.rank + 2:
        return False
    return kind.get_strides_and_offset()[0][-2:] == [short, 1] and _find_vector_dim(op) == kind.rank - 2


def _pick_column(read: ir.Operation) -> ir.Value:
    buffer, *outer, row, column, _ = read.operands
    step = ir.MemRefType(buffer.type).shape[-1]
    first = arith.addi(arith.muli(row, index_constant(step)), column)
    return _pick_vectors(join_rows(buffer), outer, first, step, ir.VectorType(read.results[0].type))


def _pick_elements(read: ir.Operation) -> ir.Value:
    """Elements that lie some steps apart in a row, as one vector."""
    view, kind, found = read.operands[0].owner.operation, ir.VectorType(read.results[0].type), _find_steps(read)
    assert found is not None  # `_steps_along_row` asked
    (axis, step), source = found, view.operands[0]
    *outer, first = slice_amounts(view, "offsets")
    if axis < len(outer):
        *outer, row = outer
        source, first = join_rows(source), arith.addi(arith.muli(row, index_constant(step)), first)
    first = arith.addi(first, arith.muli(read.operands[1], index_constant(step)))
    return _pick_vectors(source, outer, first, step, kind)


def _pick_vectors(
    source: ir.Value, outer: Sequence[ir.Value], first: ir.Value, step: int, kind: ir.VectorType
) -> ir.Value:
    """Elements so many steps apart, put together of vectors such as a register holds."""
    [size], most = kind.shape, _REGISTER_BITS // element_bits(kind.element_type)
    if size <= most or size % most:
        return _pick_vector(source, outer, first, step, kind)
    part, made = ir.VectorType.get([most], kind.element_type), vector.broadcast(kind, scalar(0, kind.element_type))
    for start in range(0, size, most):
        place = arith.addi(first, index_constant(start * step))
        picked = _pick_vector(source, outer, place, step, part)
        made = vector.insert_strided_slice(picked, made, [start], [1])
    return made


def _pick_vector(
    source: ir.Value, outer: Sequence[ir.Value], first: ir.Value, step: int, kind: ir.VectorType
) -> ir.Value:
    """As many loads as elements lie apart, the last of which ends with the last element, and shuffles of them."""
    [size] = kind.shape
    starts = [*range(0, (step - 1) * size, size), (step - 1) * (size - 1)]
    made: ir.Value | None = None
    for start in starts:
        row = vector.load(kind, source, [*outer, arith.addi(first, index_constant(start))])
        places = [step * i - start for i in range(size)]
        here = [0 <= place < size for place in places]
        if made is None:
            made = vector.shuffle(row, row, [place * inside for place, inside in zip(places, here, strict=True)])
        else:  # the elements before are in their lanes
            lanes = zip(places, here, range(size), strict=True)
            made = vector.shuffle(made, row, [size + place if inside else lane for place, inside, lane in lanes])
    assert made is not None
    return made


def _goes_before_units(op: ir.Operation) -> bool:
    """Return whether an op reads or writes a vector along an axis before axes of one element: elements lie together.

    Upstream looks at the last axis alone, and has a loop over elements.
    """
    buffer = op.operands[op.name == "vector.transfer_write"]
    axis = _find_vector_dim(op)
    if axis is None or not isinstance(buffer.type, ir.MemRefType) or not _in_bounds(op):
        return False
    kind = ir.MemRefType(buffer.type)
    units = kind.shape[axis + 1 :]
    unmasked = len(op.operands) == kind.rank + 2
    return (
        unmasked
        and len(units) > 0
        and set(units) == {1}
        and kind.get_strides_and_offset()[0][axis:] == [1] * len(kind.shape[axis:])
    )


def _drop_units(op: ir.Operation) -> list[ir.Value]:
    reads, axis = op.name == "vector.transfer_read", _find_vector_dim(op)
    assert axis is not None  # `_goes_before_units` asked
    value, buffer = (op.results[0], op.operands[0]) if reads else (op.operands[0], op.operands[1])
    kind, indices = ir.MemRefType(buffer.type), list(op.operands)[1 if reads else 2 :][: axis + 1]
    strides, offset = kind.get_strides_and_offset()
    layout = (
        ir.StridedLayoutAttr.get(offset, strides[: axis + 1]) if isinstance(kind.layout, ir.StridedLayoutAttr) else None
    )
    groups = [*([outer] for outer in range(axis)), list(range(axis, kind.rank))]
    flat = memref.CollapseShapeOp(ir.MemRefType.get(kind.shape[: axis + 1], kind.element_type, layout), buffer, groups)
    along = ir.AffineMap.get_minor_identity(axis + 1, 1)
    if reads:
        padding = op.operands[kind.rank + 1]
        return [vector.transfer_read(value.type, flat.result, indices, along, padding, [True])]
    vector.transfer_write(None, value, flat.result, indices, along, [True])
    return []


def _is_row_apart(op: ir.Operation) -> bool:
    """Return whether an op reads or writes a vector whose elements lie apart in their buffer."""
    buffer = op.operands[op.name == "vector.transfer_write"]
    axis = _find_vector_dim(op)
    if axis is None or not isinstance(buffer.type, ir.MemRefType) or not _in_bounds(op):
        return False
    masked = len(op.operands) > ir.MemRefType(buffer.type).rank + 2
    return not masked and ir.MemRefType(buffer.type).get_strides_and_offset()[0][axis] != 1


def _move_elements(op: ir.Operation) -> list[ir.Value]:
    """A load or a store for each element: upstream has a loop, whose vector is in memory, for an element is changed."""
    reads = op.name == "vector.transfer_read"
    vector_, buffer = (op.results[0], op.operands[0]) if reads else (op.operands[0], op.operands[1])
    indices, axis = list(op.operands)[1:-1] if reads else list(op.operands)[2:], _find_vector_dim(op)
    assert axis is not None  # what lies apart lies along a dim
    [size] = ir.VectorType(vector_.type).shape
    places = [
        [*indices[:axis], arith.addi(indices[axis], index_constant(i)), *indices[axis + 1 :]] for i in range(size)
    ]
    if reads:
        return [vector.from_elements(vector_.type, [memref.load(buffer, place) for place in places])]
    for i, place in enumerate(places):
        memref.store(vector.extract(vector_, [], [i]), buffer, place)
    return []


def _move_scalars(function: func.FuncOp) -> None:
    """Load and store single elements, vectors without dims, that the patterns leave where others lie apart."""

    def move(op: ir.Operation) -> list[ir.Value]:
        if op.name == "vector.transfer_write":
            memref.store(vector.extract(op.operands[0], [], []), op.operands[1], list(op.operands)[2:])
            return []
        element = memref.load(op.operands[0], list(op.operands)[1:-1])
        return [vector.broadcast(op.results[0].type, element)]

    rewrite(function, _moves_scalar, move, *_TRANSFERS)


def _moves_scalar(op: ir.Operation) -> bool:
    writes = op.name == "vector.transfer_write"
    kind = op.operands[0].type if writes else op.results[0].type
    return isinstance(op.operands[writes].type, ir.MemRefType) and ir.VectorType(kind).rank == 0


def _lies_apart(op: ir.Operation) -> bool:
    """Return whether an op reads along a buffer's dims, the last of which has a stride, and only elements are used.

    So it is with a column of rows an open distance apart.
    """
    if not isinstance(op.operands[0].type, ir.MemRefType):
        return False
    axes, strides = _find_vector_dims(op), op.operands[0].type.get_strides_and_offset()[0]
    if not axes or not _in_bounds(op) or (strides[axes[-1]] == 1 and _find_open_rows(op) is None):
        return False
    users = [use.owner.operation for use in op.results[0].uses]
    scalars = (len(user.results) == 1 and not isinstance(user.results[0].type, ir.VectorType) for user in users)
    return all(user.name == "vector.extract" and len(user.operands) == 1 for user in users) and all(scalars)


def _find_vector_dim(read: ir.Operation) -> int | None:
    """The dim of the buffer that a vector lies along; None for a matrix, and for one element repeated."""
    axes = _find_vector_dims(read)
    return axes[0] if len(axes) == 1 else None


def _find_vector_dims(read: ir.Operation) -> list[int]:
    """The dims of the buffer that a vector lies along, in order; none where it repeats elements."""
    results = ir.AffineMapAttr(read.attributes["permutation_map"]).value.results
    axes = [axis for axis in map(dim_of, results) if axis is not None]
    return axes if len(axes) == len(results) else []


def _in_bounds(read: ir.Operation) -> bool:
    return all(ir.BoolAttr(inside).value for inside in ir.ArrayAttr(read.attributes["in_bounds"]))
