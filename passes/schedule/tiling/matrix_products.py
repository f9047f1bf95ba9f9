"""Sums of products of bytes, or of bfloat16, whose tiles are matrices in registers (AMX).

All steps of a tile become one structured op, which ``multiply-matrices`` makes instructions of. It lies in loops over
the other sums, such as those of a window, and its sums stay in registers until the outermost of these ends. The tile is
then in memory, where what is computed from it reads it row by row.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ....core.target import Target
from ....dialects import arith, ir, linalg, tw
from ....dialects.builders import reshape
from ....dialects.walk import defining_op
from ...analysis.classify import classify_op
from ...analysis.kinds import Contraction, Conv
from ...ir.edit import splat_of
from ...ir.kernel import integer_attr
from ...ir.matrix_registers import COLUMNS, MOST_SUMS, ROWS, fills_matrices, steps_at_once
from ...ir.structure import dim_of, indexing_maps, loop_extents, shape_of
from ..tiles.axes import row_tile
from ..tiles.loops import for_each_step
from ..tiles.regions import Interval, Linear, Region, kept_dims, operand_region
from ..tiles.structured import Tile, make_generic
from .grouped_sums import group_of, grouped_loop, operand_bits
from .tiler import Tiler, loop_intervals, make_empty_tile, packed_dims, packed_region, read_region


def multiplies_matrices(op: ir.Operation, grouped: int, target: Target) -> bool:
    """Return whether tiles of an op, whose sum along a loop is ``grouped``, may be matrices of the target's."""
    known = target.multiplies_matrices(operand_bits(op)) and begins_at_zero(op)
    return known and steps_at_once(loop_extents(op)[grouped], group_of(op.operands[0])) > 0


def matrix_tiles(axes: Sequence[int | None], shape: Sequence[int], width: int) -> dict[int, int]:
    """Tiles of the axes of rows, the last one first, whose sums of ``width`` columns registers hold as matrices."""
    tiles: dict[int, int] = {}
    matrices, rows = MOST_SUMS // -(-width // COLUMNS), ROWS
    for axis in reversed(axes):
        if axis is None or matrices == 0:
            break
        tiles[axis] = row_tile(shape[axis], matrices * rows)
        matrices = matrices // -(-tiles[axis] // rows) if tiles[axis] == shape[axis] else 0
        rows = 1
    return tiles


def _add_product(number: ir.Value, factor: ir.Value, total: ir.Value) -> ir.Value:
    wide = total.type
    if isinstance(wide, ir.FloatType):
        return arith.addf(total, arith.mulf(arith.extf(wide, number), arith.extf(wide, factor)))
    return arith.addi(total, arith.muli(arith.extui(wide, number), arith.extsi(wide, factor)))


def begins_at_zero(op: ir.Operation) -> bool:
    """Return whether an op adds its products to zeros."""
    fill = defining_op(op.operands[2])
    return fill is not None and fill.name == "linalg.fill" and splat_of(fill.operands[0]) == 0


def _is_in_memory(tiler: Tiler, value: ir.Value) -> bool:
    """Return whether a value, or what it is a slice of, is computed already."""
    op = defining_op(value)
    while op is not None and op.name == "tensor.extract_slice" and not tiler.has_some(value):
        value = op.operands[0]
        op = defining_op(value)
    return tiler.has_some(value)


@dataclass(frozen=True)
class TileProduct:
    """A tile of an op's sums, in whole blocks of its packed weight, that is matrices in registers.

    loops: its intervals; those of the other sums are set while these go. rows: the loops of the tile's rows.
    unpack: the op that would unpack the weight, an argument.
    """

    op: ir.Operation
    kind: Contraction | Conv
    grouped: int
    loops: list[Interval]
    rows: tuple[int, ...]
    unpack: ir.Operation

    @staticmethod
    def of(tiler: Tiler, op: ir.Operation, region: Region) -> TileProduct | None:
        """The product; None where registers do not hold it, or where its operands are not in memory."""
        if not tiler.form.matrices:
            return None
        kind, loops = classify_op(op), loop_intervals(op, region)
        grouped = grouped_loop(op, kind)
        if grouped is None or not isinstance(kind, Contraction | Conv):
            return None
        unpack, walkers = defining_op(op.operands[kind.weight]), [dim_of(e) for e in indexing_maps(op)[-1].results]
        *rows, _ = sizes = [region[d].size for d in kept_dims(region)] or [1]
        if unpack is None or unpack.operands[0] not in tiler.arguments or not begins_at_zero(op):
            return None
        if not _is_in_memory(tiler, op.operands[1 - kind.weight]) or loops[grouped].size != loop_extents(op)[grouped]:
            return None
        if not fills_matrices(rows, sizes[-1], loops[grouped].size, group_of(op.operands[0])):
            return None
        along = [walkers[d] for d in kept_dims(region)[:-1]]
        return TileProduct(op, kind, grouped, loops, tuple(loop for loop in along if loop is not None), unpack)

    def compute(self, tiler: Tiler, region: Region, dest: ir.Value | None) -> Tile:
        """The tile at ``region`` of the op's result, in memory: at ``dest``, or of its own where that is None."""
        target = dest if dest is not None else make_empty_tile(self.op.results[0], region)
        serial = [loop for loop in tiler.form.sums if loop != self.grouped and self.loops[loop].size > 1]
        made = for_each_step(serial, self.loops, target, lambda acc: self._add(tiler.scope(), acc, len(serial)))
        return Tile(made, kept_dims(region))

    def _add(self, tiler: Tiler, acc: ir.Value, loops: int) -> ir.Value:
        """Add the products of all steps of the grouped loop to a tile, inside so many loops over other sums."""
        data, walked = self._read_data(tiler)
        weight = self._read_weight(tiler)
        rank = len(self.rows)
        dims = [ir.AffineExpr.get_dim(i) for i in range(rank + 3)]
        places = {loop: dims[i] for i, loop in enumerate(self.rows)} | {self.grouped: dims[rank + 1]}
        maps = [
            [*(places[loop] for loop in walked), dims[rank + 2]],
            [dims[rank + 1], dims[rank], dims[rank + 2]],
            dims[: rank + 1],
        ]
        kinds = ["parallel"] * (rank + 1) + ["reduction"] * 2
        made, block = make_generic([data, weight], [acc], [ir.AffineMap.get(rank + 3, 0, m) for m in maps], kinds)
        made.attributes[tw.MATRIX_PRODUCT] = integer_attr(loops)
        number, factor, total = block.arguments
        with ir.InsertionPoint(block):
            linalg.YieldOp([_add_product(number, factor, total)])
        return made.results[0]

    def _read_data(self, tiler: Tiler) -> tuple[ir.Value, list[int]]:
        """The data of all steps, in groups along the last dim but one, and the loops that walk the dims before."""
        part, walkers = operand_region(indexing_maps(self.op)[1 - self.kind.weight], self.loops)
        tile = tiler.compute(self.op.operands[1 - self.kind.weight], part)
        walked = [walkers[d] for d in tile.dims]
        (*sizes, length), group = shape_of(tile.value), group_of(tile.value)
        return reshape(tile.value, [*sizes, length // group, group]), [loop for loop in walked if loop is not None]

    def _read_weight(self, tiler: Tiler) -> ir.Value:
        """A block of the packed weight: for each group of steps that of each channel."""
        group = group_of(self.unpack.results[0])
        first = [*self.loops[: self.grouped], Interval(Linear(), group), *self.loops[self.grouped + 1 :]]
        part, _ = operand_region(indexing_maps(self.op)[self.kind.weight], first)
        dims, _ = packed_dims(self.unpack)
        order = list(ir.DenseI64ArrayAttr(self.unpack.attributes["outer_dims_perm"])) or list(range(len(part)))
        packed = list(packed_region(self.unpack, part))
        packed[order.index(dims[1])] = Interval(Linear(), self.loops[self.grouped].size // group)
        source = self.unpack.operands[0]
        return read_region(tiler.arguments[source], shape_of(source), tuple(packed)).value
