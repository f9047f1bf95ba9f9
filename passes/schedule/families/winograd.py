"""A 3x3 convolution by Winograd's algorithm: transformed patches, their products, and the transform back."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from ....core.sizes import require_static
from ....core.target import Target
from ....dialects import ir
from ....dialects.builders import element_of
from ....dialects.types import element_bits
from ....dialects.walk import defining_op
from ...analysis.classify import classify_op
from ...analysis.groups import OpFacts
from ...analysis.kinds import Contraction, OpClass, Transform
from ...ir.structure import dim_of, indexing_maps, shape_of
from ...ir.uses import users_of
from ..language.cuts import by_name, carve, overlap, share, unroll_groups, unroll_sum
from ..language.schedule import Schedule
from ..tiles.axes import power_floor, result_axis, row_tiles
from ..tiling.dot_product import most_rows
from ..tiling.linear_transform import row_loop
from ..tiling.values import block_of, value_name
from .contraction import pack_product
from .family import WINDOW_BLOCKS, Anchors, BlockSizes, Family, KernelView

# The share of the second cache that the buffers of a block may have.
STAGED = 0.85
# How much longer the busiest core may take than with equal shares.
_BALANCE = 1.2
# Patches of a block, in one row, where height and width are dynamic.
_ROW = (14, 7, 4, 1)
# Patches of a block where one axis is dynamic, as in a signal: whole tiles of registers, of twelve or of four rows.
_SIGNAL = (24, 12, 4, 1)
# How often the bytes of patches move that are written and read once.
_WRITTEN = 3
# Of blocks of some rows of patches: the axis of a sound may have a million.
_MOST_ROWS = 256


@dataclass(frozen=True)
class Patches:
    """``tiles`` patches of ``points`` values in each of ``rows`` rows, whose ``c`` channels become ``f`` channels.

    The filters lie in blocks of ``columns`` channels. A value has ``nbytes``; a sum of products has four.
    """

    points: int
    rows: int
    tiles: int
    c: int
    f: int
    columns: int
    nbytes: int = 4

    @staticmethod
    def of(products: ir.Operation, outputs: ir.Value) -> Patches | None:
        """Those that products are made of; None where the products are not those of an image by packed filters."""
        kind = classify_op(products)
        columns = block_of(products, kind) if isinstance(kind, Contraction) else 0
        if not isinstance(kind, Contraction) or not columns or len(shape_of(outputs)) != 4:
            return None
        data = products.operands[kind.lhs]
        p, q, _, s, t, c = shape_of(data)
        return Patches(p * q, s, t, c, shape_of(outputs)[3], columns, element_bits(element_of(data)) // 8)

    @property
    def values(self) -> int:
        """All values of all patches."""
        return self.points * self.rows * self.tiles * self.c

    @property
    def filters(self) -> int:
        """Bytes of the transformed filters."""
        return self.nbytes * self.points * self.c * self.f

    def register_rows(self, target: Target) -> int:
        """The patches of a register tile of products."""
        dot = target.widened_dot_product if self.nbytes == 2 else None
        return most_rows(self.columns, target.lanes, dot, target)

    def fill_a_tile(self, block: int, target: Target) -> bool:
        """Return whether blocks of so many rows have as many patches as a register tile takes, or all there are."""
        return block * self.tiles >= min(self.register_rows(target), self.rows * self.tiles)


def transforms_apart(products: ir.Operation, outputs: ir.Value, target: Target) -> bool:
    """Return whether patches are made by a kernel of their own, whose steps threads share.

    So are those that come before all blocks of channels, and do not stay in a core's own cache. In the kernel of the
    products each thread would make all of them: VGG-16 takes 0.93 of that time on two cores.

    So are also those whose blocks of rows would not be equal, up to twice that cache: all code of the kernel would be
    there again for the last block, half of its compile time. Layers take 0.93 to 1.00 of the time; of four times the
    cache they take 1.2 times as long.

    Of images whose height and width are dynamic, and of signals of any length, it is where filters do not stay in the
    cache, and reading them again for each block is more than writing patches, and reading these for each block of
    channels: 64 channels take half of the time in one kernel, 128 take 0.75 to 0.9, 512 take up to 1.2 times as long.
    """
    patches = Patches.of(products, outputs)
    if patches is not None and min(shape_of(outputs)) < 0:
        dynamic = patches.rows < 0 and (patches.tiles < 0 or patches.tiles == 1) and patches.filters > _budget(target)
        return dynamic and patches.f / _ROW[0] > _WRITTEN + patches.f / patches.columns
    if patches is None or target.cores == 1:
        return False
    size, (block, _) = patches.nbytes * patches.values, choose_staged_block(patches, target)
    if patches.rows % block:
        return size <= 2 * _budget(target)
    return size > _budget(target) and block == patches.rows


def schedule_transform(kernel: KernelView) -> Schedule:
    """Whole rows and columns of what the matrices make, and a vector along the innermost axis."""
    [(op, kind)], plain, shape, lanes = kernel.anchors, kernel.plain, kernel.shape, kernel.lanes
    assert isinstance(kind, Transform)  # the family is that of these
    maps = indexing_maps(op)
    axes = {dim_of(e): axis for axis, e in enumerate(maps[-1].results)}
    tiles = [*(1 for _ in shape[1:]), min(lanes, power_floor(shape[-1]))]
    for number in kind.matrices:
        axis = axes[row_loop(maps[number].results[0])]
        tiles[axis] = min(shape_of(op.operands[number])[0], shape[axis])
    value = plain.result.value
    whole = [axis for axis, tile in enumerate(tiles) if 1 < tile == shape[axis]]
    cuts = [(axis, tile) for axis, tile in enumerate(tiles) if axis not in whole]
    return overlap(share(carve(plain, by_name(value, cuts), whole=[value.axes[axis].name for axis in whole])))


def schedule_winograd(kernel: KernelView) -> Schedule | None:
    """Transformed patches and their products in buffers, for blocks of rows of patches and of output channels.

    The patches of a block of rows are made once, before the blocks of channels, unless another kernel makes them.
    """
    *forth, (products, kind), (outputs, back) = kernel.anchors
    plain, lanes, target = kernel.plain, kernel.lanes, kernel.target
    patches = Patches.of(products, outputs.results[0])
    assert isinstance(kind, Contraction) and isinstance(back, Transform)
    data = products.operands[kind.lhs]
    if (
        patches is None
        or outputs.operands[back.data] != products.results[0]
        or any(f.results[0] != data for f, _ in forth)
    ):
        return None
    images, rows, columns, made_channels = (result_axis(outputs, loop, kernel.result) for loop in range(4))
    extents = shape_of(outputs.results[0])
    row_step, column_step = (shape_of(outputs.operands[matrix])[0] for matrix in back.matrices)
    if forth:
        block, channels = choose_staged_block(patches, target)
    else:
        even = [n for n in range(1, patches.rows) if extents[1] % (n * row_step) == 0]
        block, channels = choose_shared_block(patches, even, target)
    shared = _choose_images(patches, extents[0], channels, target) if block == patches.rows else 1
    of_images = [(images, shared)] if shared < extents[0] else []
    of_rows = [(rows, block * row_step)] if block < patches.rows else []
    of_channels = [(made_channels, channels)]
    outer = [*of_images, *of_rows, *(() if forth else of_channels)]
    over = [*(of_channels if forth else ()), *([(images, 1)] if shared > 1 else ())]
    over += [(rows, row_step)] if block * row_step > 1 else []
    over += [(columns, column_step), (made_channels, min(lanes, power_floor(channels)))]
    outer, over = (
        [(axis, min(step, kernel.shape[axis])) for axis, step in cuts if axis is not None] for cuts in (outer, over)
    )
    around, within = by_name(plain.result.value, outer), by_name(plain.result.value, over)
    made = share(carve(plain, [*around, *within]), 1 if forth else len(around))
    inside = len(around) + 1 - len(made.result.outer[0].parts)  # of all loops around
    at = ["", *(loop.name for loop in made.result.outer)]

    if forth:
        made = _patches_in_buffer(made, value_name(data), at[inside], lanes)
        inside += 1
    name = value_name(products.results[0])
    made = made.cache_write(name, at[inside])
    tiles = row_tiles([2, 3, 4], [*shape_of(data)[:2], shared, block, patches.tiles], patches.register_rows(target))
    tile = [(5, min(patches.columns, channels)), *((axis, tiles.get(axis, 1)) for axis in (2, 3, 4))]
    cuts = by_name(made.nest(name).value, [(0, 1), (1, 1), *tile])
    made = carve(made, cuts, name)
    return unroll_groups(made, 2, name) if patches.nbytes == 2 else unroll_sum(made, target, name)


def _choose_images(patches: Patches, count: int, channels: int, target: Target) -> int:
    """How many images are one block: where filters do not stay in the cache, each block reads all of them again."""
    if patches.filters <= _budget(target):
        return 1
    bytes_ = patches.points * patches.rows * patches.tiles * (patches.nbytes * patches.c + 4 * channels)
    most = min(_budget(target) // bytes_, count // target.cores)
    return max((n for n in range(1, most + 1) if count % n == 0), default=1)


def _patches_in_buffer(made: Schedule, name: str, at: str, lanes: int) -> Schedule:
    """Make the patches that the rest needs inside of a loop, each with a vector of channels at once."""
    made = made.cache_write(name, at)
    value = made.nest(name).value
    cuts = by_name(value, [(3, 1), (4, 1), (5, min(lanes, power_floor(require_static(value.axes[5].extent))))])
    return carve(made, cuts, name, whole=[axis.name for axis in value.axes[:2]])


def _budget(target: Target) -> int:
    return int(STAGED * target.l2_bytes)


def choose_staged_block(patches: Patches, target: Target) -> tuple[int, int]:
    """(rows of patches, output channels) of one block: those that move the fewest bytes beyond a core's own cache.

    Blocks of rows read all filters again each; what does not stay in the cache is written, and read for each block of
    channels. Several blocks are wanted either way, since threads share them.
    """
    filters, budget = patches.filters, _budget(target)

    def traffic(block: int, channels: int) -> int:
        blocks, passes = -(-patches.rows // block), -(-patches.f // channels)
        sizes = (patches.nbytes * patches.c, 4 * channels)
        data, products = (patches.points * block * patches.tiles * size for size in sizes)
        moved = filters * (1 if filters + data + products <= budget else blocks)
        if data + products > budget:
            moved += blocks * data * (1 + passes)
        if products > budget // 2:
            moved += blocks * passes * products * 2
        return moved

    def balanced(block: int) -> bool:
        blocks = -(-patches.rows // block)
        return _share_evenly(blocks, target, patches.rows / block - blocks + 1)

    sizes = (*range(1, min(patches.rows, _MOST_ROWS)), patches.rows)
    blocks = [block for block in sizes if patches.fill_a_tile(block, target)]
    choices = [(block, width) for block in blocks for width in _widths(patches)]
    chosen, *others = sorted(choices, key=lambda choice: (traffic(*choice), choice))
    if chosen[0] == patches.rows or balanced(chosen[0]):
        return chosen
    return next((choice for choice in others if balanced(choice[0])), chosen)


def _share_evenly(steps: int, target: Target, last: float = 1.0) -> bool:
    """Return whether the core that has most of so many equal steps, of which the last is a part, has few more."""
    most = min(-(-steps // target.cores), steps - 1 + last)
    return most * target.cores <= _BALANCE * (steps - 1 + last)


def choose_shared_block(patches: Patches, even: Sequence[int], target: Target) -> tuple[int, int]:
    """(rows of patches, output channels) of one block where patches lie in memory: as many blocks as cores, or more.

    Of these that move the fewest bytes. ``even`` are the numbers of rows that give blocks of one size: loops of such
    blocks, and of channels, can be joined for threads to share.
    """
    budget, cores = _budget(target), target.cores

    def traffic(block: int, channels: int) -> int:
        blocks, passes = patches.rows // block, -(-patches.f // channels)
        data, filters, products = (
            patches.points * n
            for n in (
                patches.nbytes * block * patches.tiles * patches.c,
                patches.nbytes * patches.c * patches.f,
                4 * block * patches.tiles * channels,
            )
        )
        moved = blocks * (filters + data * (1 if data + products <= budget else passes))
        return moved + (blocks * passes * products * 2 if products > budget // 2 else 0)

    widths = _widths(patches)
    equal = [width for width in widths if patches.f % width == 0] or widths
    choices = [(block, width) for block in (*even, patches.rows) for width in equal]
    enough = [(block, width) for block, width in choices if patches.rows // block * -(-patches.f // width) >= cores]
    enough = [choice for choice in enough if patches.fill_a_tile(choice[0], target)] or enough
    even_shares = [
        (b, width) for b, width in enough if _share_evenly(patches.rows // b * -(-patches.f // width), target)
    ]
    return min(even_shares or enough or choices[:1], key=lambda choice: (traffic(*choice), choice))


def _widths(patches: Patches) -> list[int]:
    """Output channels of one block."""
    f, columns = patches.f, patches.columns
    return [columns << i for i in range(f.bit_length()) if columns << i < f] or [f]


def _begin(op: ir.Operation, facts: OpFacts, target: Target) -> list[ir.Operation] | None:
    """The transform, the products and the transform back (``op``) of a convolution.

    The first is left alone where all of it comes before any product, and where its rows have gaps (``pad-rows``).
    """
    back = facts.kind(op)
    products = _only_source(op, back.data, facts) if isinstance(back, Transform) else None
    kind = facts.kind(products) if products is not None else None
    if products is None or not isinstance(kind, Contraction):
        return None
    forth = _only_source(products, kind.lhs, facts)
    patches = _find_behind_gaps(forth, facts) if forth is not None else None
    if forth is None or patches is None or not isinstance(facts.kind(patches), Transform):
        return None
    apart = forth != patches or transforms_apart(products, op.results[0], target)
    return [products, op] if apart else [forth, products, op]


def _find_behind_gaps(op: ir.Operation, facts: OpFacts) -> ir.Operation | None:
    """The op that makes what is read, which may be stored in rows with gaps that it alone is in; None for none."""
    if op.name != "tensor.extract_slice":
        return op
    stored = _only_source(op, 0, facts)
    return _only_source(stored, 0, facts) if stored is not None and stored.name == "tensor.insert_slice" else None


def makes_patches(op: ir.Operation, kind: Contraction, target: Target) -> bool:
    """Return whether the products are Winograd's, and the patches that they read are a part of their kernel."""
    readers = users_of(op)
    source = defining_op(op.operands[kind.lhs])
    single = source is not None and len(readers) == 1 and users_of(source) == [op]
    around = [source, readers[0]] if single else []
    if not around or not all(isinstance(classify_op(each), Transform) for each in around if each is not None):
        return False
    return not transforms_apart(op, readers[0].results[0], target)


def _only_source(op: ir.Operation, operand: int, facts: OpFacts) -> ir.Operation | None:
    """The op that makes an operand, if no other op reads it."""
    source = defining_op(op.operands[operand])
    return source if source is not None and facts.users(source) == [op] else None


def _find_kinds(anchors: Anchors) -> list[type[OpClass]]:
    return [type(kind) for _, kind in anchors[-3:]]


WINOGRAD = Family(
    "winograd",
    lambda anchors: _find_kinds(anchors) == [Transform, Contraction, Transform],
    schedule_winograd,
    replace(WINDOW_BLOCKS, rows=_SIGNAL, plane=((1,), _ROW)),
    repeats=True,
    singles=True,
    begin=_begin,
    pack=lambda ops, target, columns: pack_product(ops[-2:-1], target, columns),
)
# Of filters that do not stay in the cache: a block has many patches for each number of these, two where a row of an
# image has no more (7 x 7 pixels).
PATCH_PRODUCTS = Family(
    "winograd, patches apart",
    lambda anchors: _find_kinds(anchors)[-2:] == [Contraction, Transform],
    schedule_winograd,
    replace(WINDOW_BLOCKS, rows=_SIGNAL, plane=((4, 1), (7, 4, 2, 1))),
    repeats=True,
    singles=True,
)
TRANSFORMS = Family(
    "transforms",
    lambda anchors: len(anchors) == 1 and isinstance(anchors[0][1], Transform),
    schedule_transform,
    BlockSizes((1,), (16, 4, 1), None),  # one patch
)
