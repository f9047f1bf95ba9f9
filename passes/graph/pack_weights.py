"""Weights of contractions and convolutions get the blocked layout that their kernel's schedule wants."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

from ...core.target import Target, detect_host
from ...dialects import builders, ir
from ...dialects.types import element_bits
from ..analysis.classify import classify_op
from ..analysis.kinds import Contraction, Conv, DepthwiseConv
from ..infra.base import Pass
from ..ir.edit import list_programs, param_values
from ..ir.maps import permute, set_maps
from ..ir.structure import dim_of, indexing_maps, is_static, list_ops, shape_of
from ..schedule.families.block_sums import block_sum
from ..schedule.families.packing import block_packing, contraction_packing
from ..schedule.tiling.dot_instructions import GROUP
from ..schedule.tiling.dot_product import byte_sum

Dims = Sequence[int]


@dataclass(frozen=True)
class PackWeights(Pass):
    """Replace a weight ``w`` that depends on params alone by ``unpack(pack(w))``; the pack is computed ahead of time.

    Before::

        %y = linalg.generic {contraction, (m, k), (k, n)} ins(%x, %w: tensor<KxNxf32>)

    After::

        %p = linalg.pack %w padding_value(0) outer_dims_perm = [1, 0] inner_dims_pos = [1] inner_tiles = [NT] into
             tensor<ceil(N/NT) x K x NT x f32>
        %u = linalg.unpack %p ... into tensor<KxNxf32>
        %y = linalg.generic {contraction, (m, k), (k, n)} ins(%x, %u)

    A convolution's weight becomes ``[g][f/NT][k...][c][NT]``; a depthwise one is transposed to ``[k...][c]``. A weight
    of bytes, four products with which are added up at a time (``schedule/dot_product.py``), is blocked along k too:
    ``[N/NT][K/4][NT][4]``. What `keep-packed` has made goes in blocks of columns: bytes ``[N/NT][block][byte][NT]``,
    zero points and scales ``[N/NT][block][NT]``.

    Options:
        n_tile: block of the output channels; 0 asks the schedule of the target.
        target: the machine; None is this one.
    """

    name: ClassVar[str] = "pack-weights"
    opt_level: ClassVar[int] = 1
    n_tile: int = 0
    target: Target | None = None

    def apply(self, module: ir.Module) -> None:
        """Pack the weights of all programs."""
        for function in list_programs(module):
            weights, ops = param_values(function), list_ops(function)
            sums = [(op, inner) for op in ops if (inner := block_sum(op)) is not None]
            inside = {op.results[0] for pair in sums for op in pair}
            for op in ops:
                if op.name == "linalg.generic" and op.results[0] not in inside:
                    self._pack_operand(op, weights)
            for op, inner in sums:
                self._pack_columns(inner, weights)
                self._pack_columns(op, weights)

    def _pack_columns(self, op: ir.Operation, weights: set[ir.Value]) -> None:
        """Pack what a sum over blocks reads of its weight: what has columns, the last loop of its result."""
        *inputs, out = indexing_maps(op)
        for number, m in enumerate(inputs):
            value, columns = op.operands[number], len(m.results) - 1
            if value not in weights or not is_static(value) or m.results[columns] != out.results[len(out.results) - 1]:
                continue
            tile = self.n_tile or block_packing(shape_of(value)[columns], self.target or detect_host()).n_tile
            with ir.InsertionPoint(op), op.location:
                op.operands[number] = _pack_and_unpack(value, [columns, *range(columns)], {columns: tile})

    def _pack_operand(self, op: ir.Operation, weights: set[ir.Value]) -> None:
        kind = classify_op(op)
        if not isinstance(kind, Contraction | Conv | DepthwiseConv):
            return
        number = kind.weight
        value, results = op.operands[number], indexing_maps(op)[number].results
        dims = [d for d in map(dim_of, results) if d is not None]
        if value not in weights or not is_static(value) or len(dims) != len(results):
            return
        with ir.InsertionPoint(op), op.location:
            if isinstance(kind, DepthwiseConv):
                return _channels_last(op, number, [d for d in dims if d in kind.c], [d for d in dims if d in kind.k])
            n, outer = _choose_blocking(kind, dims)
            if n is None or not (tile := self._tile(shape_of(value)[n], value)):
                return None
            grouped = byte_sum(op, kind)
            tiles = {n: tile} if grouped is None else {n: tile, dims.index(grouped): GROUP}
            op.operands[number] = _pack_and_unpack(value, outer, tiles)

    def _tile(self, n: int, value: ir.Value) -> int:
        if self.n_tile:
            return self.n_tile
        packing = contraction_packing(n, element_bits(builders.element_of(value)), self.target or detect_host())
        return packing.n_tile if packing is not None else 0


def _choose_blocking(kind: Contraction | Conv, dims: Dims) -> tuple[int | None, list[int]]:
    """The dim of the weight to block, and the order of its dims outside of the blocks; None where there is no such."""
    place = {loop: dim for dim, loop in enumerate(dims)}
    if isinstance(kind, Contraction):
        if len(kind.n) != 1 or len(dims) != len(kind.batch) + len(kind.k) + 1:
            return None, []
        return place[kind.n[0]], [place[d] for d in (*kind.n, *kind.batch, *kind.k)]
    if len(kind.f) != 1 or len(dims) != len(place):
        return None, []
    return place[kind.f[0]], [place[d] for d in (*kind.g, *kind.f, *kind.k, *kind.c)]


def _pack_and_unpack(value: ir.Value, outer: Dims, tiles: Mapping[int, int]) -> ir.Value:
    """A value through a copy in blocks: ``tiles`` has their extents by dim, ``outer`` the order of dims around them."""
    return _unpack_blocks(_pack_blocks(value, outer, tiles), value, outer, tiles)


def _pack_blocks(value: ir.Value, outer: Dims, tiles: Mapping[int, int]) -> ir.Value:
    shape, element = shape_of(value), builders.element_of(value)
    blocks = [-(-shape[d] // tiles.get(d, 1)) for d in outer]
    dest = builders.empty([*blocks, *tiles.values()], element)
    whole = all(shape[d] % tile == 0 for d, tile in tiles.items())
    zero = [] if whole else [builders.scalar(0, element)]
    attributes = {**_pack_attributes(outer, tiles), "operandSegmentSizes": _segments(1, 1, len(zero), 0)}
    return _create("linalg.pack", dest.type, [value, dest, *zero], attributes)


def _unpack_blocks(packed: ir.Value, like: ir.Value, outer: Dims, tiles: Mapping[int, int]) -> ir.Value:
    dest = builders.empty(shape_of(like), builders.element_of(like))
    return _create("linalg.unpack", dest.type, [packed, dest], _pack_attributes(outer, tiles))


def _pack_attributes(outer: Dims, tiles: Mapping[int, int]) -> dict[str, ir.Attribute]:
    lists = {"outer_dims_perm": list(outer), "inner_dims_pos": list(tiles), "static_inner_tiles": list(tiles.values())}
    return {name: ir.DenseI64ArrayAttr.get(values) for name, values in lists.items()}


def _segments(*sizes: int) -> ir.Attribute:
    return ir.DenseI32ArrayAttr.get(sizes)


def _create(name: str, result: ir.Type, operands: list[ir.Value], attributes: dict[str, ir.Attribute]) -> ir.Value:
    return ir.Operation.create(name, results=[result], operands=operands, attributes=attributes).results[0]


def _channels_last(op: ir.Operation, number: int, channels: Dims, window: Dims) -> None:
    """Transpose a depthwise weight, so that the channels of one filter tap lie together."""
    maps, value = indexing_maps(op), op.operands[number]
    loops = [dim_of(e) for e in maps[number].results]
    order = [loops.index(d) for d in (*window, *channels)]
    if order == sorted(order) or len(order) != len(loops):
        return
    op.operands[number] = builders.transpose(value, order)
    maps[number] = permute(maps[number], order)
    set_maps(op, maps)
