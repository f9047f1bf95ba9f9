"""Reading and cloning structured ops: linear index expressions, regions of values, slices, bodies."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ...dialects import arith, bufferization, ir, linalg, tensor, vector
from ...dialects.builders import index_constant
from ...dialects.walk import defining_op
from ...errors import CompileError
from ..structure import dim_of, dims_in, indexing_maps

DYNAMIC = ir.ShapedType.get_dynamic_size()


class NotSchedulable(CompileError):
    """A kernel family cannot express this kernel; the heuristic takes the next one."""


@dataclass(frozen=True)
class Linear:
    """``const + sum(coefficient * value)``: the offset of a tile, a number wherever it can be one."""

    const: int = 0
    terms: tuple[tuple[ir.Value, int], ...] = ()

    def __add__(self, other: Linear) -> Linear:
        merged: dict[ir.Value, int] = {}
        for value, coefficient in self.terms + other.terms:
            merged[value] = merged.get(value, 0) + coefficient
        return Linear(self.const + other.const, tuple((v, c) for v, c in merged.items() if c))

    def __mul__(self, factor: int) -> Linear:
        return Linear(self.const * factor, tuple((v, c * factor) for v, c in self.terms) if factor else ())

    def exact_div(self, divisor: int) -> Linear:
        """Divide, or refuse where the quotient is no whole linear expression."""
        if any(n % divisor for n in (self.const, *(c for _, c in self.terms))):
            raise NotSchedulable(f"a tile offset is no multiple of the packed block {divisor}")
        return Linear(self.const // divisor, tuple((v, c // divisor) for v, c in self.terms))

    def materialize(self) -> int | ir.Value:
        """The number, or the SSA index computed at the current insertion point."""
        if not self.terms:
            return self.const
        total: ir.Value | None = None
        for value, coefficient in self.terms:
            term = value if coefficient == 1 else arith.muli(value, index_constant(coefficient))
            total = term if total is None else arith.addi(total, term)
        assert total is not None
        return arith.addi(total, index_constant(self.const)) if self.const else total

    def as_value(self) -> ir.Value:
        result = self.materialize()
        return index_constant(result) if isinstance(result, int) else result


@dataclass(frozen=True)
class Interval:
    """``size`` elements from ``offset``, ``stride`` apart, along one dimension of a value.

    A size of ``DYNAMIC`` is all of an axis whose extent only the run knows.
    """

    offset: Linear
    size: int
    stride: int = 1


Region = tuple[Interval, ...]


@dataclass(frozen=True)
class Tile:
    """A computed tile: its tensor has one dimension for each entry of ``dims`` (dims of the value with size > 1)."""

    value: ir.Value
    dims: tuple[int, ...]


def full_region(shape: Sequence[int]) -> Region:
    return tuple(Interval(Linear(), extent) for extent in shape)


def relative(region: Region, whole: Region) -> Region:
    """A region counted from the beginning of one that contains it."""
    return tuple(
        Interval(inner.offset + outer.offset * -1, inner.size, inner.stride)
        for inner, outer in zip(region, whole, strict=True)
    )


def kept_dims(region: Region) -> tuple[int, ...]:
    return tuple(i for i, interval in enumerate(region) if interval.size != 1)


def shape_of(value: ir.Value) -> list[int]:
    return list(ir.RankedTensorType(value.type).shape)


def squeezed(tensor: ir.Type) -> ir.RankedTensorType:
    """The type without its dims of extent 1; a kernel's buffers have these types, since unit dims make transposes.

    A single element is a tensor of one, so that writing it is a write into its buffer.
    """
    ranked = ir.RankedTensorType(tensor)
    return ir.RankedTensorType.get([n for n in ranked.shape if n != 1] or [1], ranked.element_type)


def without_unit_dims(region: Region, shape: Sequence[int]) -> tuple[Region, tuple[int, ...]]:
    """A region of a value as one of its squeezed tensor, and the value's dims that are left."""
    dims = tuple(d for d, n in enumerate(shape) if n != 1)
    return tuple(region[d] for d in dims) or (Interval(Linear(), 1),), dims


def vector_axis(shape: Sequence[int]) -> int:
    """The axis of a result that vectors lie along: the innermost one with more than one element."""
    return max((axis for axis, extent in enumerate(shape) if extent != 1), default=len(shape) - 1)


def loop_along(op: ir.Operation, operand: int) -> int | None:
    """The loop that walks the contiguous dim of an operand; None where none does, or several together."""
    results = list(indexing_maps(op)[operand].results)
    return dim_of(results[vector_axis(shape_of(op.operands[operand]))]) if results else None


def element_of(value: ir.Value) -> ir.Type:
    return ir.RankedTensorType(value.type).element_type


def tile_type(value: ir.Value, region: Region) -> ir.RankedTensorType:
    return ir.RankedTensorType.get([region[d].size for d in kept_dims(region)], element_of(value))


def linear_coefficients(expression: ir.AffineExpr, rank: int) -> tuple[int, list[int]]:
    """Constant and coefficients of an affine expression over ``rank`` dims, or NotSchedulable."""
    if isinstance(expression, ir.AffineConstantExpr):
        return expression.value, [0] * rank
    if isinstance(expression, ir.AffineDimExpr):
        return 0, [int(i == expression.position) for i in range(rank)]
    if isinstance(expression, ir.AffineAddExpr | ir.AffineMulExpr):
        (c0, v0), (c1, v1) = (linear_coefficients(e, rank) for e in (expression.lhs, expression.rhs))
        if isinstance(expression, ir.AffineAddExpr):
            return c0 + c1, [a + b for a, b in zip(v0, v1, strict=True)]
        if not any(v1):
            return c0 * c1, [a * c1 for a in v0]
        if not any(v0):
            return c0 * c1, [a * c0 for a in v1]
    raise NotSchedulable(f"index expression {expression} is not linear")


def operand_region(indexing_map: ir.AffineMap, loops: Sequence[Interval]) -> tuple[Region, list[int | None]]:
    """The part of an operand that a tile of the loops reads, and for each of its dims the loop that walks it."""
    region, walkers = [], []
    for expression in indexing_map.results:
        if isinstance(expression, ir.AffineFloorDivExpr | ir.AffineModExpr):
            interval, walker = _quotient(expression, loops)
            region.append(interval)
            walkers.append(walker)
            continue
        const, coefficients = linear_coefficients(expression, len(loops))
        offset, walker = Linear(const), None
        for loop, coefficient in enumerate(coefficients):
            if coefficient == 0:
                continue
            offset = offset + loops[loop].offset * coefficient
            if loops[loop].size != 1:
                if walker is not None or coefficient < 0:
                    raise NotSchedulable("two tiled loops walk one dimension, or one walks it backwards")
                walker = loop
        if walker is None:
            region.append(Interval(offset, 1))
        else:
            region.append(Interval(offset, loops[walker].size, coefficients[walker]))
        walkers.append(walker)
    return tuple(region), walkers


def covered(expression: ir.AffineExpr, loops: Sequence[Interval]) -> Interval:
    """All places between the first and the last that an index expression takes while the loops walk their tiles."""
    if isinstance(expression, ir.AffineDimExpr):
        return loops[expression.position]
    if any(loops[loop].size == DYNAMIC for loop in dims_in(expression)):
        raise NotSchedulable("an open axis that is not walked by one loop")
    if isinstance(expression, ir.AffineFloorDivExpr) and isinstance(expression.lhs, ir.AffineDimExpr):
        walked, divisor = loops[expression.lhs.position], ir.AffineConstantExpr(expression.rhs).value
        return Interval(walked.offset.exact_div(divisor), -(-walked.size // divisor))
    if isinstance(expression, ir.AffineModExpr) and isinstance(expression.rhs, ir.AffineConstantExpr):
        return Interval(Linear(), expression.rhs.value)
    const, coefficients = linear_coefficients(expression, len(loops))
    first, length = Linear(const), 1
    for loop, coefficient in enumerate(coefficients):
        if coefficient < 0:
            raise NotSchedulable("a loop that walks a dimension backwards")
        first = first + loops[loop].offset * coefficient
        length += coefficient * (loops[loop].size - 1)
    return Interval(first, length)


def _quotient(
    expression: ir.AffineFloorDivExpr | ir.AffineModExpr, loops: Sequence[Interval]
) -> tuple[Interval, int | None]:
    """The places that ``d floordiv n`` or ``d mod n`` takes while ``d`` walks a tile that begins at a multiple of n."""
    loop, divisor = expression.lhs, expression.rhs
    if not isinstance(loop, ir.AffineDimExpr) or not isinstance(divisor, ir.AffineConstantExpr):
        raise NotSchedulable(f"index expression {expression} is no quotient of a loop")
    walked, first = loops[loop.position], loops[loop.position].offset.exact_div(divisor.value)
    if isinstance(expression, ir.AffineFloorDivExpr):
        size = -(-walked.size // divisor.value)
        if size > 1 and walked.size > 1:
            raise NotSchedulable("a tile that holds several quotients")
        return Interval(first, size), None
    if walked.size > divisor.value:
        raise NotSchedulable("a tile in which a remainder comes twice")
    return Interval(Linear(), walked.size), loop.position if walked.size > 1 else None


def extract(source: ir.Value, region: Region) -> Tile:
    """``tensor.extract_slice`` of a region, without its unit dims."""
    dynamic, static = split_offsets(region)
    sizes, strides = [i.size for i in region], [i.stride for i in region]
    open_ = [tensor.DimOp(source, index_constant(d)).result for d, size in enumerate(sizes) if size == DYNAMIC]
    made = tile_type(source, region)
    op = tensor.ExtractSliceOp(made, source, dynamic, open_, [], static, sizes, strides)
    return Tile(op.result, kept_dims(region))


def insert(tile: ir.Value, dest: ir.Value, region: Region) -> ir.Value:
    """``tensor.insert_slice`` of a tile without unit dims into a region of ``dest``."""
    dynamic, static = split_offsets(region)
    op = tensor.InsertSliceOp(tile, dest, dynamic, [], [], static, [i.size for i in region], [i.stride for i in region])
    return op.result


def copied(tile: Tile, dest: ir.Value) -> ir.Value:
    """``dest`` with a tile's elements, as a vector: a structured copy would fold, and slices are copied one by one."""
    return write_vector(read_vector(tile.value), dest)


def read_vector(tile: ir.Value) -> ir.Value:
    """A whole tensor as one vector."""
    rank, element = len(shape_of(tile)), element_of(tile)
    padding = arith.ConstantOp(element, 0.0 if isinstance(element, ir.FloatType) else 0).result
    identity, zeros = ir.AffineMap.get_identity(rank), [index_constant(0)] * rank
    kind = ir.VectorType.get(shape_of(tile), element)
    return vector.transfer_read(kind, tile, zeros, identity, padding, [True] * rank)


def write_vector(value: ir.Value, dest: ir.Value) -> ir.Value:
    """A whole tensor written as one vector."""
    rank = len(shape_of(dest))
    identity, zeros = ir.AffineMap.get_identity(rank), [index_constant(0)] * rank
    return vector.transfer_write(dest.type, value, dest, zeros, identity, [True] * rank)


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


def split_offsets(region: Region) -> tuple[list[ir.Value], list[int]]:
    """The offsets that are values, and a list of numbers with a mark for each of them."""
    dynamic, static = [], []
    for interval in region:
        offset = interval.offset.materialize()
        static.append(offset if isinstance(offset, int) else DYNAMIC)
        if not isinstance(offset, int):
            dynamic.append(offset)
    return dynamic, static


def empty(shape: Sequence[int], element: ir.Type, length: ir.Value | None = None) -> ir.Value:
    """``tensor.empty``; extents of ``DYNAMIC`` are ``length``."""
    sizes = [length if extent == DYNAMIC else extent for extent in shape]
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
) -> None:
    """Copy a linalg body into ``block`` with other scalars; indices count from the tile's offset.

    ``kept`` are the loops that the tile's op still has, in its loop order; ``given`` is what ``outside`` is given.
    """
    mapping: dict[ir.Value, ir.Value] = dict(zip(source.regions[0].blocks[0].arguments, scalars, strict=True))
    with ir.InsertionPoint(block):
        for op in source.regions[0].blocks[0].operations:
            op = op.operation
            if op.name == "linalg.index":
                loop = ir.IntegerAttr(op.attributes["dim"]).value
                index = loops[loop].offset.as_value()
                if loop in kept:
                    index = arith.addi(linalg.IndexOp(kept.index(loop)).result, index)
                mapping[op.results[0]] = index
                continue
            operands = [
                mapping[v] if v in mapping else outside(v, given) for v in op.operands
            ]  # before a yield of them
            copy = op.clone()
            for i, operand in enumerate(operands):
                copy.operands[i] = operand
            mapping.update(zip(op.results, copy.results, strict=True))


def outside(value: ir.Value, given: Mapping[ir.Value, ir.Value] | None = None) -> ir.Value:
    """A scalar that a body captures: one of those ``given``, or a constant, which is copied to where it is used."""
    if given and value in given and not isinstance(value.type, ir.RankedTensorType):
        return given[value]
    op = defining_op(value)
    if op is None or op.name != "arith.constant" or isinstance(value.type, ir.RankedTensorType):
        raise NotSchedulable("a body captures a value that is no scalar known here")
    return op.clone().results[0]


def generic(
    inputs: Sequence[ir.Value], outs: Sequence[ir.Value], maps: Sequence[ir.AffineMap], iterators: Sequence[str]
) -> tuple[ir.Operation, ir.Block]:
    """An empty ``linalg.generic`` and its block, to be filled by ``clone_body``."""
    attribute = ir.ArrayAttr.get([ir.Attribute.parse(f"#linalg.iterator_type<{i}>") for i in iterators])
    op = linalg.GenericOp([o.type for o in outs], inputs, outs, list(maps), attribute)
    scalars = [element_of(v) for v in (*inputs, *outs)]
    location = op.operation.location
    return op.operation, op.operation.regions[0].blocks.append(*scalars, arg_locs=[location] * len(scalars))
