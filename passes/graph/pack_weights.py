"""Weights of contractions and convolutions get the blocked layout that their kernel's schedule wants."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

from ...core.errors import CompileError
from ...core.target import Target, detect_host
from ...dialects import builders, ir
from ...dialects.walk import collect
from ..analysis.classify import classify_op
from ..analysis.groups import OpFacts
from ..analysis.kinds import Contraction, Conv, DepthwiseConv, OpClass, Transform
from ..infra.base import Pass
from ..ir.edit import list_programs, param_values
from ..ir.maps import permute, set_maps
from ..ir.routine_ops import is_control
from ..ir.structure import indexing_maps, is_static, list_ops, shape_of
from ..schedule.families.contraction import PRODUCTS
from ..schedule.families.family import PackedOperand
from ..schedule.families.table import begin_group
from ..schedule.language.loopnest import MAX_TILE
from ..schedule.tiles.axes import power_floor
from ..schedule.tiling.grouped_sums import byte_sum

Dims = Sequence[int]

# Their filters are small beside what is done with them, so that those which are computed in each run are copied too.
_WINDOWS = (Conv, DepthwiseConv, Transform)


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

    The family of the weight's kernel says how it is packed (``schedule/families/``). A convolution's weight becomes
    ``[g][f/NT][k...][c][NT]``; a depthwise one is transposed to ``[k...][c]``. A weight of bytes, four products with
    which are added up at a time (``schedule/dot_product.py``), is blocked along k too: ``[N/NT][K/4][NT][4]``. What
    `keep-packed` has made goes in blocks of columns: bytes ``[N/NT][block][byte][NT]``, zero points and scales
    ``[N/NT][block][NT]``.

    Filters of a convolution that are computed in each run are packed in each run, by a transpose: without that their
    channels lie apart, and the kernel takes a hundred times as long. So are matrices of bytes that `fold-quantization`
    left to be multiplied in fours.

    A product in a loop or branch that is a kernel, as in a recurrent layer, reads its weight packed as well: ``pack``
    stands before the loop, ``unpack`` in it.

    Options:
        n_tile: block of the output channels, a power of two from a vector's elements on; 0 asks the schedule of the
            target.
        target: the machine; None is this one.
    """

    name: ClassVar[str] = "pack-weights"
    opt_level: ClassVar[int] = 1
    n_tile: int = 0
    target: Target | None = None

    def apply(self, module: ir.Module) -> None:
        """Pack the weights of all programs. Raises CompileError for blocks that no register tile has."""
        target = self.target or detect_host()
        self._check_block(target)
        for function in list_programs(module):
            weights, ops = param_values(function), list_ops(function)
            facts = OpFacts({op: i for i, op in enumerate(ops)})
            generics = [op for op in ops if op.name == "linalg.generic"]
            begun = [found for op in generics if (found := begin_group(op, facts, target)) is not None]
            inside = {op for _, members in begun if len(members) > 1 for op in members}
            for family, members in begun:
                if len(members) > 1 or members[0] not in inside:
                    copied = any(_is_copied(op, facts.kind(op)) for op in members)
                    for packed in family.pack(members, target, self.n_tile):
                        _pack_operand(packed, weights, packed.op, copied)
            for around in ops:
                if around.name.startswith("scf.") and not is_control(around):
                    for op in collect(around, _is_product):
                        for packed in PRODUCTS.pack([op], target, self.n_tile):
                            _pack_operand(packed, weights, around)

    def _check_block(self, target: Target) -> None:
        """Refuse blocks of parts of vectors, which tiles cannot have, and such that LLVM takes apart: 24 of 8 lanes."""
        block, least = self.n_tile, target.lanes
        if block and not (least <= block <= MAX_TILE and power_floor(block) == block):
            raise CompileError(
                f"pass '{self.name}': n_tile is {block}, not 0 or a power of two from {least}, a vector of the target,"
                f" to {MAX_TILE}"
            )


def _is_copied(op: ir.Operation, kind: OpClass) -> bool:
    """Return whether what an op multiplies by is brought into blocks in each run, too, where each run makes it."""
    return isinstance(kind, _WINDOWS) or byte_sum(op, kind) is not None


def _is_product(op: ir.Operation) -> bool:
    return op.name == "linalg.generic" and isinstance(classify_op(op), Contraction)


def _pack_operand(packed: PackedOperand, weights: set[ir.Value], around: ir.Operation, copied: bool = False) -> None:
    """Pack an operand, if it is a weight of known sizes, before ``around``: the op, or the loop that it is in."""
    op, value = packed.op, packed.op.operands[packed.number]
    if not is_static(value) or (value not in weights and not copied):
        return
    if not packed.tiles:
        _transpose_operand(packed, around)
        return
    pack = _pack_blocks if value in weights else _move_to_blocks
    with ir.InsertionPoint(around), op.location:
        blocks = pack(value, packed.outer, packed.tiles)
    with ir.InsertionPoint(op), op.location:
        op.operands[packed.number] = _unpack_blocks(blocks, value, packed.outer, packed.tiles)


def _pack_blocks(value: ir.Value, outer: Dims, tiles: Mapping[int, int]) -> ir.Value:
    """A copy in blocks: ``tiles`` has their extents by dim, ``outer`` the order of dims around them."""
    shape, element = shape_of(value), builders.element_of(value)
    blocks = [-(-shape[d] // tiles.get(d, 1)) for d in outer]
    dest = builders.empty([*blocks, *tiles.values()], element)
    whole = all(shape[d] % tile == 0 for d, tile in tiles.items())
    zero = [] if whole else [builders.scalar(0, element)]
    attributes = {**_pack_attributes(outer, tiles), "operandSegmentSizes": _segments(1, 1, len(zero), 0)}
    return _create("linalg.pack", dest.type, [value, dest, *zero], attributes)


def _move_to_blocks(value: ir.Value, outer: Dims, tiles: Mapping[int, int]) -> ir.Value:
    """The same, of what each run copies: a padding, and a transpose, whose kernels have schedules."""
    shape, element = shape_of(value), builders.element_of(value)
    rest = [-extent % tiles.get(d, 1) for d, extent in enumerate(shape)]
    padded = builders.pad(value, [0] * len(shape), rest, builders.scalar(0, element)) if any(rest) else value
    apart: list[int] = []  # each dim as its blocks, and what is in them
    places: list[int] = []  # of each dim's blocks in that
    for d, extent in enumerate(shape_of(padded)):
        places.append(len(apart))
        apart += [extent // tiles[d], tiles[d]] if d in tiles else [extent]
    order = [*(places[d] for d in outer), *(places[d] + 1 for d in tiles)]
    return builders.transpose(builders.reshape(padded, apart), order)


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


def _transpose_operand(packed: PackedOperand, around: ir.Operation) -> None:
    """Let an op read an operand whose dims lie in another order, which is made before ``around``."""
    op, number = packed.op, packed.number
    maps = indexing_maps(op)
    with ir.InsertionPoint(around), op.location:
        op.operands[number] = builders.transpose(op.operands[number], packed.outer)
    maps[number] = permute(maps[number], packed.outer)
    set_maps(op, maps)
