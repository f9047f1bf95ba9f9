"""Ops on tiles, emitted at the insertion point: slices, whole vectors, structured ops and copies of their bodies."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ....dialects import arith, bufferization, ir, linalg, tensor, vector
from ....dialects.builders import element_of, index_constant, iterators_attr
from ....dialects.walk import defining_op
from ...ir.structure import dim_of, dims_in, index_dim, indexing_maps, iterator_types, num_inputs, shape_of
from .axes import vector_axis
from .lanes import find_lanes
from .regions import Interval, NotSchedulable, Region, kept_dims, split_offsets


@dataclass(frozen=True)
class Tile:
    """A computed tile: its tensor has one dimension for each entry of ``dims`` (dims of the value with size > 1).

    Of several ``phases`` the last of these is two: a row of every so many elements from each of the first ones on.
    """

    value: ir.Value
    dims: tuple[int, ...]
    phases: int = 1


def squeezed_type(tensor: ir.Type) -> ir.RankedTensorType:
    """The type without its dims of extent 1; a kernel's buffers have these types, since unit dims make transposes.

    A single element is a tensor of one, so that writing it is a write into its buffer.
    """
    ranked = ir.RankedTensorType(tensor)
    return ir.RankedTensorType.get([n for n in ranked.shape if n != 1] or [1], ranked.element_type)


def loop_along(op: ir.Operation, operand: int) -> int | None:
    """The loop that walks the contiguous dim of an operand; None where none does, or several together."""
    results = list(indexing_maps(op)[operand].results)
    return dim_of(results[vector_axis(shape_of(op.operands[operand]))]) if results else None


def find_row_loop(op: ir.Operation) -> int | None:
    """The loop of a reduction whose steps are vectors of rows; None where there is none.

    It is one that walks the contiguous dim of an operand, and whose steps lie apart in none; else that of the first
    operand. Of sums without such rows it is the loop that vectors had better lie along (``lanes.py``).
    """
    kinds = iterator_types(op)
    if (lanes := find_lanes(op)) is not None:
        return lanes if kinds[lanes] == "reduction" else None
    along = [loop_along(op, number) for number in range(num_inputs(op))]
    loops = [loop for loop in dict.fromkeys(along) if loop is not None and kinds[loop] == "reduction"]
    near = (loop for loop in loops if not steps_apart(op, loop))
    return next(near, loops[0] if loops and loops[0] == along[0] else None)


def steps_apart(op: ir.Operation, loop: int) -> bool:
    """Return whether the steps of a loop read elements of an operand that do not lie one behind another."""
    for number, m in enumerate(indexing_maps(op)[: num_inputs(op)]):
        walking = [axis for axis, place in enumerate(m.results) if loop in dims_in(place)]
        last = vector_axis(shape_of(op.operands[number])) if walking else 0
        if walking and (walking != [last] or not _adds_loop(m.results[last], loop)):
            return True
    return False


def walks_diagonal(op: ir.Operation, loop: int) -> bool:
    """Return whether a loop walks two dims of an operand: upstream makes no vectors along it."""
    maps = indexing_maps(op)[: num_inputs(op)]
    return any(sum(loop in dims_in(place) for place in m.results) > 1 for m in maps)


def _adds_loop(place: ir.AffineExpr, loop: int) -> bool:
    """Return whether a place grows by one with each step of a loop."""
    if isinstance(place, ir.AffineAddExpr):
        parts = [part for part in (place.lhs, place.rhs) if loop in dims_in(part)]
        return len(parts) == 1 and _adds_loop(parts[0], loop)
    return dim_of(place) == loop


def tile_type(value: ir.Value, region: Region) -> ir.RankedTensorType:
    return ir.RankedTensorType.get([region[d].size for d in kept_dims(region)], element_of(value))


def extract(source: ir.Value, region: Region) -> Tile:
    """``tensor.extract_slice`` of a region, without its unit dims."""
    dynamic, static = split_offsets(region)
    sizes, strides = [i.size for i in region], [i.stride for i in region]
    open_ = [tensor.DimOp(source, index_constant(d)).result for d, size in enumerate(sizes) if size < 0]
    made = tile_type(source, region)
    op = tensor.ExtractSliceOp(made, source, dynamic, open_, [], static, sizes, strides)
    return Tile(op.result, kept_dims(region))


def insert(tile: ir.Value, dest: ir.Value, region: Region) -> ir.Value:
    """``tensor.insert_slice`` of a tile without unit dims into a region of ``dest``."""
    dynamic, static = split_offsets(region)
    op = tensor.InsertSliceOp(tile, dest, dynamic, [], [], static, [i.size for i in region], [i.stride for i in region])
    return op.result


def copy_tile(tile: Tile, dest: ir.Value) -> ir.Value:
    """``dest`` with a tile's elements, as a vector: a structured copy would fold, and slices are copied one by one."""
    return write_vector(read_vector(tile.value), dest)


def copy_part(tile: Tile, dest: ir.Value) -> ir.Value:
    """``dest`` with a tile's elements where that is a part of another tile, else the tile itself.

    Rows of a part lie apart, and would be copied one by one.
    """
    op, shape = defining_op(tile.value), shape_of(tile.value)
    if op is None or op.name != "tensor.extract_slice" or len(op.operands) > 1 or len(shape) < 2:
        return tile.value
    starts = list(ir.DenseI64ArrayAttr(op.attributes["static_offsets"]))
    if len(starts) != len(shape) or any(step != 1 for step in ir.DenseI64ArrayAttr(op.attributes["static_strides"])):
        return tile.value
    return write_vector(read_vector(op.operands[0], shape, starts), dest)


def read_vector(tile: ir.Value, part: Sequence[int] = (), starts: Sequence[int] = ()) -> ir.Value:
    """A whole tensor, or a part of it, as one vector."""
    shape, element = list(part) or shape_of(tile), element_of(tile)
    padding = arith.ConstantOp(element, 0.0 if isinstance(element, ir.FloatType) else 0).result
    places = [index_constant(start) for start in starts or [0] * len(shape)]
    identity, kind = ir.AffineMap.get_identity(len(shape)), ir.VectorType.get(shape, element)
    return vector.transfer_read(kind, tile, places, identity, padding, [True] * len(shape))


def write_vector(value: ir.Value, dest: ir.Value) -> ir.Value:
    """A whole tensor written as one vector; what that has more along an axis is not stored."""
    shape, made = shape_of(dest), ir.VectorType(value.type).shape
    identity, zeros = ir.AffineMap.get_identity(len(shape)), [index_constant(0)] * len(shape)
    inside = [size <= extent for size, extent in zip(made, shape, strict=True)]
    return vector.transfer_write(dest.type, value, dest, zeros, identity, inside)


def store(tile: ir.Value, dest: ir.Value, region: Region) -> ir.Value:
    """``insert`` of a tile of the kernel's result, whose buffer must be written even where the tile is all of it.

    Inserting a whole tensor folds to that tensor, and a copied tile folds to what it is a copy of: a loop would hand
    on a tensor that does not lie in the result. So would one that yields the part of a wider tile without its padding.
    A tile that loops have made is no copy: it lies there already.
    """
    op = defining_op(tile)
    if tile.type == dest.type and op is not None and op.name in ("linalg.generic", "tensor.extract_slice"):
        return bufferization.MaterializeInDestinationOp(dest.type, tile, dest).results[0]
    return insert(tile, dest, region)


def make_empty(shape: Sequence[int], element: ir.Type, length: ir.Value | None = None) -> ir.Value:
    """``tensor.empty``; extents that only the run knows are ``length``."""
    sizes = [length if extent < 0 else extent for extent in shape]
    if any(size is None for size in sizes):
        raise NotSchedulable("a tile of open size")
    return tensor.EmptyOp(sizes, element).result


def clone_body(
    source: ir.Operation,
    block: ir.Block,
    scalars: Sequence[ir.Value],
    loops: Sequence[Interval],
    kept: Sequence[int],
    given: Mapping[ir.Value, ir.Value] | None = None,
    tables: Mapping[ir.Value, ir.Value] | None = None,
) -> None:
    """Copy a linalg body into ``block`` with other scalars; indices count from the tile's offset.

    ``kept`` are the loops that the tile's op still has, in its loop order; ``given`` is handed to ``capture_scalar``.
    ``tables`` are tensors that the body reads at computed places, whole.
    """
    mapping: dict[ir.Value, ir.Value] = dict(zip(source.regions[0].blocks[0].arguments, scalars, strict=True))
    mapping.update(tables or {})
    with ir.InsertionPoint(block):
        for op in source.regions[0].blocks[0].operations:
            op = op.operation
            if op.name == "linalg.index":
                loop = index_dim(op)
                index = loops[loop].offset.as_value()
                if loop in kept:
                    index = arith.addi(linalg.IndexOp(kept.index(loop)).result, index)
                mapping[op.results[0]] = index
                continue
            operands = [
                mapping[v] if v in mapping else capture_scalar(v, given) for v in op.operands
            ]  # before a yield of them
            copy = op.clone()
            for i, operand in enumerate(operands):
                copy.operands[i] = operand
            mapping.update(zip(op.results, copy.results, strict=True))


def capture_scalar(value: ir.Value, given: Mapping[ir.Value, ir.Value] | None = None) -> ir.Value:
    """A scalar that a body captures: one of those ``given``, or a constant, which is copied to where it is used."""
    if given and value in given and not isinstance(value.type, ir.RankedTensorType):
        return given[value]
    op = defining_op(value)
    if op is None or op.name != "arith.constant" or isinstance(value.type, ir.RankedTensorType):
        raise NotSchedulable("a body captures a value that is no scalar known here")
    return op.clone().results[0]


def make_generic(
    inputs: Sequence[ir.Value], outs: Sequence[ir.Value], maps: Sequence[ir.AffineMap], iterators: Sequence[str]
) -> tuple[ir.Operation, ir.Block]:
    """An empty ``linalg.generic`` and its block, to be filled by ``clone_body``."""
    op = linalg.GenericOp([o.type for o in outs], inputs, outs, list(maps), iterators_attr(iterators))
    scalars = [element_of(v) for v in (*inputs, *outs)]
    location = op.operation.location
    return op.operation, op.operation.regions[0].blocks.append(*scalars, arg_locs=[location] * len(scalars))
