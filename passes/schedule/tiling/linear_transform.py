"""Transforms by small constant matrices as straight-line code on vectors."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np

from ....dialects import arith, ir, scalars, vector
from ....dialects.builders import element_of
from ....dialects.walk import defining_op
from ...analysis.kinds import Transform
from ...ir.edit import splat_of
from ...ir.structure import dim_of, indexing_maps, shape_of
from ..tiles.regions import NotSchedulable, Region, kept_dims, operand_region
from ..tiles.structured import Tile, read_vector, write_vector
from .tiler import Tiler, loop_intervals, make_empty_tile

Grid = dict[tuple[int, ...], ir.Value]


def transform_tile(tiler: Tiler, op: ir.Operation, kind: Transform, region: Region, dest: ir.Value | None) -> Tile:
    """All sums of one tile: a vector for each element that the matrices walk, the last dim along its lanes.

    One matrix is applied after the other, so that a 6x6 patch takes 12 sums of each row and column in place of 36 * 36
    products; zeros and ones of the matrices cost nothing.
    """
    maps, loops = indexing_maps(op), loop_intervals(op, region)
    part, walkers = operand_region(maps[kind.data], loops)
    data = tiler.compute(op.operands[kind.data], part)
    walked = [walkers[d] for d in data.dims]
    matrices = {r: m for r, m in zip(kind.reduction, kind.matrices, strict=True) if not _is_one(op.operands[m])}
    axes = [walked.index(r) for r in matrices if r in walked]
    if (
        len(axes) != len(matrices)
        or len(walked) != len(axes) + 1
        or walked[-1] in kind.reduction
        or sorted(axes) != axes
    ):
        raise NotSchedulable("a transform of something else than rows of vectors")
    if not _starts_from_zero(op):
        raise NotSchedulable("a transform that is added to something")
    grid = _read_rows(data.value)
    dims: list[int] = []
    for axis, number in enumerate(matrices.values()):
        matrix = _matrix(op.operands[number])
        (rows, _), _ = operand_region(maps[number], loops)
        if rows.offset.terms or rows.stride != 1:
            raise NotSchedulable("a transform whose rows are known only at run time")
        grid = _multiply_along(grid, axis, matrix[rows.offset.const : rows.offset.const + rows.size])
        dims.append(row_loop(maps[number].results[0]))
    return _write_grid(grid, op, region, dest, maps[-1], dims)


def row_loop(expression: ir.AffineExpr) -> int:
    """The parallel loop that chooses a row of a matrix, by an expression of the matrix's map."""
    loop = dim_of(expression.lhs if isinstance(expression, ir.AffineModExpr) else expression)
    if loop is None:
        raise NotSchedulable("a transform whose rows are not chosen by one loop")
    return loop


def _starts_from_zero(op: ir.Operation) -> bool:
    return splat_of(op.operands[len(op.operands) - 1]) == 0


def _is_one(value: ir.Value) -> bool:
    """Return whether a matrix is the number 1: an axis that a transform leaves as it is."""
    return shape_of(value) == [1, 1] and float(_matrix(value)[0, 0]) == 1


def _matrix(value: ir.Value) -> np.ndarray:
    op = defining_op(value)
    assert op is not None  # what a Transform is
    kind = ir.DenseFPElementsAttr if scalars.is_float(element_of(value)) else ir.DenseIntElementsAttr
    return np.array([float(x) for x in kind(op.attributes["value"])], np.float64).reshape(shape_of(value))


def _read_rows(tile: ir.Value) -> Grid:
    """The rows of a tile, each a vector along its last dim."""
    whole, outer = read_vector(tile), shape_of(tile)[:-1]
    places = itertools.product(*map(range, outer))
    return {place: vector.extract(whole, [], list(place)) for place in places}


def _multiply_along(grid: Grid, axis: int, matrix: np.ndarray) -> Grid:
    """Multiply with the matrix along one axis of the grid."""
    made: Grid = {}
    others = dict.fromkeys((place[:axis], place[axis + 1 :]) for place in grid)
    for before, after in others:
        column = [grid[(*before, i, *after)] for i in range(matrix.shape[1])]
        for row, value in enumerate(multiply_matrix(matrix, column)):
            made[(*before, row, *after)] = value
    return made


def multiply_matrix(matrix: np.ndarray, values: Sequence[ir.Value]) -> list[ir.Value]:
    """``matrix @ values`` in few operations: what rows or columns have in common up to signs is computed once."""
    matrix, values = _join_columns(matrix, list(values))
    results: list[ir.Value | None] = [None] * len(matrix)
    for a, b in itertools.combinations(range(len(matrix)), 2):
        if results[a] is not None or results[b] is not None or not _is_mirrored(matrix[a], matrix[b]):
            continue
        same = np.where(matrix[a] == matrix[b], matrix[a], 0)
        common, other = _combine_terms(same, values), _combine_terms(matrix[a] - same, values)
        results[a], results[b] = _add_vectors(common, other), _subtract_vectors(common, other)
    return [_combine_terms(row, values) if made is None else made for row, made in zip(matrix, results, strict=True)]


def _is_mirrored(a: np.ndarray, b: np.ndarray) -> bool:
    """Return whether two rows have two or more equal entries, two or more opposite ones, and no others."""
    pairs = [(x, y) for x, y in zip(a.tolist(), b.tolist(), strict=True) if x or y]  # of few numpy takes longer
    equal = sum(x == y for x, y in pairs)
    return len(pairs) > 2 and 0 < equal < len(pairs) and all(x in (y, -y) for x, y in pairs)


def _join_columns(matrix: np.ndarray, values: list[ir.Value]) -> tuple[np.ndarray, list[ir.Value]]:
    """Sums and differences of two values whose columns are equal up to signs take their place."""
    for a, b in itertools.combinations(range(matrix.shape[1]), 2):
        if _is_mirrored(matrix[:, a], matrix[:, b]):
            total, difference = _add_vectors(values[a], values[b]), _subtract_vectors(values[a], values[b])
            values[a], values[b] = total, difference
            same = np.where(matrix[:, a] == matrix[:, b], matrix[:, a], 0)
            matrix = matrix.copy()
            matrix[:, a], matrix[:, b] = same, matrix[:, a] - same
    return matrix, values


def _combine_terms(row: np.ndarray, values: Sequence[ir.Value]) -> ir.Value:
    """``sum(row * values)``, from a term whose factor is 1 where there is one."""
    terms = sorted(((c, v) for c, v in zip(row, values, strict=True) if c), key=lambda term: term[0] != 1)
    if not terms:
        return _splat_vector(0.0, values[0].type)
    (factor, value), *rest = terms
    total = value if factor == 1 else _scale_vector(value, factor)
    for factor, value in rest:
        if abs(factor) == 1:
            total = _add_vectors(total, value) if factor == 1 else _subtract_vectors(total, value)
        elif _has_floats(value):
            total = vector.fma(value, _splat_vector(factor, value.type), total)
        else:
            total = _add_vectors(total, _scale_vector(value, factor))
    return total


def _add_vectors(a: ir.Value, b: ir.Value) -> ir.Value:
    return arith.addf(a, b) if _has_floats(a) else arith.addi(a, b)


def _subtract_vectors(a: ir.Value, b: ir.Value) -> ir.Value:
    return arith.subf(a, b) if _has_floats(a) else arith.subi(a, b)


def _scale_vector(value: ir.Value, factor: float) -> ir.Value:
    number = _splat_vector(factor, value.type)
    return arith.mulf(value, number) if _has_floats(value) else arith.muli(value, number)


def _has_floats(vector_: ir.Value) -> bool:
    return scalars.is_float(ir.VectorType(vector_.type).element_type)


def _splat_vector(number: float, kind: ir.Type) -> ir.Value:
    element = scalars.attribute(number, ir.VectorType(kind).element_type)
    return arith.constant(kind, ir.DenseElementsAttr.get_splat(kind, element))


def _write_grid(
    grid: Grid, op: ir.Operation, region: Region, dest: ir.Value | None, output: ir.AffineMap, dims: Sequence[int]
) -> Tile:
    """Write the grid as one vector into the tile of the result."""
    target = dest if dest is not None else make_empty_tile(op.results[0], region)
    kept = kept_dims(region)
    loops = [dim_of(output.results[d]) for d in kept]
    order = [dims.index(loop) for loop in loops[:-1] if loop in dims]
    if len(order) != len(loops) - 1:
        raise NotSchedulable("a transform whose tile is wider than its matrices")
    whole = _splat_vector(0.0, ir.VectorType.get(shape_of(target), element_of(target)))
    for place, value in grid.items():
        whole = vector.insert(value, whole, [], [place[axis] for axis in order])
    return Tile(write_vector(whole, target), kept)
