"""Kernels of open sizes: loops over blocks of fixed sizes, each of which is a kernel that any family takes.

Each open axis of the result is cut into blocks of several sizes: as many as fit of the largest, then of the next, down
to single elements. A block's ops are the kernel's on tensors of the block's sizes: a function of static shapes
(``block_parts.py``), whose schedule is chosen as that of every other kernel. ``block_loops.py`` has the loops.

An op that sums over open axes is the last one of its kernel. Its sums stay in registers, whole, where there is one such
axis. Else what it sums up goes in chunks, the largest first, each of which is added to what is in the result.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from contextlib import suppress

from ....dialects import func, ir, tw
from ....dialects.types import nbytes
from ....dialects.walk import defining_op
from ...analysis.block_sums import find_block_sum
from ...analysis.classify import classify_op
from ...analysis.kinds import Contraction, Conv, DepthwiseConv, OpClass, Pooling
from ...analysis.size_classes import SizeClasses
from ...ir.kernel import list_functions
from ...ir.structure import (
    dim_of,
    dims_in,
    index_dim,
    indexing_maps,
    is_static,
    iterator_types,
    list_ops,
    loop_extents,
    loops_along,
    num_inputs,
    shape_of,
)
from ...ir.uses import nested_ops
from ..families.channels_first import reads_windows_as_columns
from ..families.contraction import CONVOLUTIONS, PRODUCTS
from ..families.family import (
    BYTE_BLOCKS,
    COLUMN_BLOCKS,
    GATHERED_BLOCKS,
    GROUPED_BLOCKS,
    LIGHT_BLOCKS,
    LINE_BLOCKS,
    MAPPED_BLOCKS,
    TURNED_BLOCKS,
    Anchors,
    BlockSizes,
    Sizes,
    find_anchors,
)
from ..families.light import LIGHT
from ..families.sums import REDUCTIONS
from ..families.table import find_family
from ..families.transposing import find_crossing
from ..language.loopnest import Nest
from ..separate_windows import separate_windows
from ..tiles.axes import result_axis, vector_axis
from ..tiles.regions import Interval, Linear, NotSchedulable
from ..tiles.structured import loop_along
from ..tiling.dynamic_border import DynamicBorder, own_inner
from ..tiling.gather import computes_places, reads_at_indices, reads_neighbours
from ..tiling.grouped_sums import byte_sum, pair_sum
from ..tiling.part_nests import Chooser
from ..tiling.tiler import may_repeat
from .block_kernels import BlockKernel, Version
from .block_loops import Blocks
from .block_parts import block_module, parts_of
from .copied_panels import PanelBlocks, find_panel

# Elements along the open axes whose blocks go over a panel of a weight together.
_HELD = 256
# Elements of blocks that go together where they share nothing, so that it takes little time to tell which these are.
_HELD_ELEMENTS = 1 << 14
# Strips of an image that go together.
HELD_STRIPS = 8
# Rows of a block whose products are of parts of bfloat16.
_MANY_ROWS = 128
# Bytes of a weight that stays in the second cache while pixels go over it, and of one that does not.
_NEAR_WEIGHT, _FAR_WEIGHT = 1 << 18, 1 << 21
# Elements of a block that are worth a share of their own.
_PANEL = 1 << 12
# Elements along the known axes of a block whose innermost axis is open, where rows become columns; as many as stay.
_ENOUGH, _FEW = 16, 4
# Elements of a block whose rows lie apart and share nothing.
_APART = 1 << 9
# Filters that go together over rows of pixels, and so few that a register tile would be small.
_FILTERS, _FEWEST_FILTERS = 32, 8
# Chunks of an open axis that is summed up.
_CHUNKS = (64, 8, 1)


def choose_blocks(function: func.FuncOp, choose: Chooser) -> Blocks:
    """Versions with the schedules that ``choose`` gives for their blocks.

    Raises NotSchedulable where an op cannot be cut into blocks, or no family takes a block.
    """
    own_inner(function)
    result = DynamicBorder.of(function).inner
    if known := _cut_known(function, result):
        with suppress(NotSchedulable):  # an op may need such an axis whole
            return _make_versions(function, _cuts(function, result, known), choose)
    cuts = _cuts(function, result, {}, wide=True)
    if cuts != (narrow := _cuts(function, result, {})) and not _holds_pixels(function, cuts, choose):
        cuts = narrow
    many = _cut_many_rows(function, result, cuts)
    if many is not None and _splits_floats(function, result, many, choose):
        cuts = many
    return _make_versions(function, cuts, choose)


def _cut_many_rows(function: func.FuncOp, result: ir.Value, cuts: Mapping[int, Sizes]) -> dict[int, Sizes] | None:
    """The cuts with blocks of many rows before the others; None where it is no product whose rows alone are open."""
    innermost = vector_axis(shape_of(result)) if shape_of(result) else 0
    axes = [axis for axis, sizes in cuts.items() if sizes != (1,)]
    if find_family(find_anchors(function)) not in (PRODUCTS, CONVOLUTIONS) or len(axes) != 1 or axes == [innermost]:
        return None
    return {**cuts, axes[0]: (_MANY_ROWS, *cuts[axes[0]])}


def _splits_floats(function: func.FuncOp, result: ir.Value, cuts: Mapping[int, Sizes], choose: Chooser) -> bool:
    """Return whether the largest block multiplies float32 in parts of bfloat16."""
    sizes = [cuts[axis][0] if axis in cuts else n for axis, n in enumerate(shape_of(result))]
    try:
        blocks = make_sums(function, tuple(sizes), find_dynamic_sums(result), choose)
    except NotSchedulable:
        return False
    return any(stage.splits for block in blocks for stage in block.schedule.stages)


def _holds_pixels(function: func.FuncOp, cuts: Mapping[int, Sizes], choose: Chooser) -> bool:
    """Return whether a tile has all pixels of the largest block, which reads a large weight once for these."""
    if not any(nbytes(op.operands[kind.weight].type) > _FAR_WEIGHT for op, kind in _convolutions(function)):
        return False
    result = DynamicBorder.of(function).inner
    sizes = [cuts[axis][0] if axis in cuts else n for axis, n in enumerate(shape_of(result))]
    try:
        [block] = make_sums(function, tuple(sizes), find_dynamic_sums(result), choose)
    except NotSchedulable:
        return False
    nest = block.schedule.result
    rows = math.prod(loop.steps for loop in nest.tile if loop.axis != nest.value.contiguous)
    return rows >= math.prod(cuts[axis][0] for axis in cuts)


def _convolutions(function: func.FuncOp) -> list[tuple[ir.Operation, Conv]]:
    """The convolutions of a function whose weights are of known sizes."""
    found = [(op, kind) for op, kind in find_anchors(function) if isinstance(kind, Conv)]
    return [(op, kind) for op, kind in found if is_static(op.operands[kind.weight])]


def _make_versions(function: func.FuncOp, cuts: Mapping[int, Sizes], choose: Chooser) -> Blocks:
    """Versions for all choices of the sizes that axes are cut into."""
    result = DynamicBorder.of(function).inner
    panel = find_panel(function, result, cuts)
    if panel is not None:  # all blocks of rows read it
        function.attributes[tw.COPIED] = ir.UnitAttr.get()
        cuts = {**{axis: sizes for axis, sizes in cuts.items() if axis != panel.rows}, panel.rows: cuts[panel.rows]}
    sums, versions = find_dynamic_sums(result), []
    for chosen in itertools.product(*cuts.values()):
        sizes = list(shape_of(result))
        for axis, size in zip(cuts, chosen, strict=True):
            sizes[axis] = size
        versions.append(Version(tuple(sizes), make_sums(function, tuple(sizes), sums, choose)))
    shared = any(isinstance(kind, Contraction | Conv) for kind in _kinds(function))
    patches = _patches(function, result)
    near = _reads_near_weight(function, patches)
    panels = 1 if near else _panels(versions, shared)
    held = _HELD // math.prod(versions[0].sizes[axis] // patches.get(axis, 1) for axis in cuts)
    repeated, family = _repeatable(function, result, cuts), find_family(find_anchors(function))
    singles = family is not None and (family.singles or _sums_groups(find_anchors(function)))
    if panel is not None and panels == 1 and not versions[0].has_common:
        return PanelBlocks(tuple(versions), cuts, sums, 1, 1, panel, repeated=repeated)
    if versions[0].has_common or (shared and panels == 1 and not near):
        return Blocks(tuple(versions), cuts, sums, 1, 1, split=not sums, repeated=repeated, singles=singles)
    held, strips = held if shared else _HELD_ELEMENTS // math.prod(versions[0].sizes), False
    if family is not None and family.blocks.images and panels == 1 and _walks_images(function):
        held, strips = HELD_STRIPS, True
    return Blocks(tuple(versions), cuts, sums, panels, max(1, held), repeated=repeated, singles=singles, strips=strips)


def _walks_images(function: func.FuncOp) -> bool:
    """Return whether windows slide over rows too: there are many of them, which threads can share."""
    return any(isinstance(kind, Pooling | DepthwiseConv) and len(kind.o) > 1 for kind in _kinds(function))


def _repeatable(function: func.FuncOp, result: ir.Value, cuts: Mapping[int, Sizes]) -> frozenset[int]:
    """The axes along which blocks may overlap, each computing what both have.

    Only of a family that says so, and of sums over open axes, which are made in registers or memory of the thread:
    others may sum up in the result's place, where two threads would do it together. Products repeat columns: a row
    more or less of a tile costs what it computes, single columns as much as a vector of them.
    """
    family = find_family(find_anchors(function))
    if not may_repeat(result):
        return frozenset()
    if (family is not None and family.repeats) or find_dynamic_sums(result) or _sums_groups(find_anchors(function)):
        return frozenset(cuts)
    return frozenset({vector_axis(shape_of(result))} & set(cuts)) if family is PRODUCTS else frozenset()


def _sums_groups(anchors: Anchors) -> bool:
    """Return whether sums of bytes or of bfloat16 may go several steps at a time, beside which weights are slow."""
    return any(byte_sum(op, kind) is not None or pair_sum(op, kind) is not None for op, kind in anchors)


def _panels(versions: Sequence[Version], shared: bool) -> int:
    """The number of parts that the steps of all versions' blocks are cut into: as many as pay, or all if ``shared``.

    Blocks that are summed in chunks stay whole. So do those of which each part would compute anew what all of its steps
    need, unless they share a weight.
    """
    blocks = [block for version in versions for block in version.blocks]
    anew = not shared and any(version.has_common for version in versions)
    if anew or any(block.sums for block in blocks):
        return 1
    common, elements = math.gcd(*(block.schedule.extent for block in blocks)), math.prod(versions[0].sizes)
    if shared:
        return common
    return max(n for n in range(1, common + 1) if common % n == 0 and (n == 1 or elements // n >= _PANEL))


def _reads_near_weight(function: func.FuncOp, patches: Mapping[int, int]) -> bool:
    """Return whether a convolution in channels last reads a weight that stays in the second cache.

    Pixels are then written whole. Panel by panel, 112 x 112 of 96 channels took 1.5 times as long: each panel's lines
    lie apart. Products, many rows of which are a block, do not gain by that, but for those of Winograd's ``patches``.
    """
    for op in list_ops(function):
        kind = classify_op(op)
        if isinstance(kind, Conv) and reads_windows_as_columns(op, kind):
            return False
        if isinstance(kind, Conv) or (isinstance(kind, Contraction) and patches):
            weight = op.operands[kind.weight].type
            return is_static(op.operands[kind.weight]) and nbytes(weight) <= _NEAR_WEIGHT
    return False


def _kinds(function: func.FuncOp) -> list[OpClass]:
    return [classify_op(op) for op in list_ops(function)]


def make_block(function: func.FuncOp, sizes: Sizes, chunk: Mapping[int, int], choose: Chooser) -> BlockKernel:
    """A block of a kernel's result. Raises NotSchedulable where no family takes it."""
    module = block_module(function, sizes, chunk)
    separate_windows(list_functions(module)[0])
    list_functions(module)[0].attributes[tw.BLOCK] = ir.UnitAttr.get()
    schedule = choose(list_functions(module)[0])
    if schedule is None:
        raise NotSchedulable("no family takes a block")
    return BlockKernel(module, schedule, chunk)


def make_sums(function: func.FuncOp, sizes: Sizes, sums: Sequence[int], choose: Chooser) -> tuple[BlockKernel, ...]:
    """One block that adds up whole sums in registers; one for each size of chunks where there can be no such one.

    Raises NotSchedulable where no family takes a block.
    """
    chunks = chunk_sizes(sums)
    if len(sums) == 1:
        with suppress(NotSchedulable):
            return (_make_whole(function, sizes, chunks[0], choose),)
    return tuple(make_block(function, sizes, chunk, choose) for chunk in chunks)


def _make_whole(function: func.FuncOp, sizes: Sizes, chunk: Mapping[int, int], choose: Chooser) -> BlockKernel:
    """A block of whole sums, with the schedule of one that sums up a chunk.

    Raises NotSchedulable where something in the kernel makes what is added up, or stages hold it, or where vectors lie
    along it.
    """
    result, [loop] = DynamicBorder.of(function).inner, chunk
    last = defining_op(result)
    assert last is not None
    block = tuple(Interval(Linear(), n) for n in sizes)
    places = any(inner.name == "linalg.index" and index_dim(inner) == loop for inner in nested_ops(last))
    if places or reads_at_indices(last):
        raise NotSchedulable("a sum that asks where it is, or that reads at computed places")
    parts_of(function, block, {loop: Interval(Linear(), SizeClasses(function).loops(last)[loop])}, whole=True)
    module = block_module(function, sizes, chunk, whole=True)
    list_functions(module)[0].attributes[tw.OPEN_SUM] = ir.UnitAttr.get()
    schedule = choose(list_functions(module)[0])
    if schedule is None or schedule.stages or not _adds_in_registers(schedule.result):
        raise NotSchedulable("sums that do not stay in registers")
    return BlockKernel(module, schedule, chunk, whole=True)


def _adds_in_registers(nest: Nest) -> bool:
    """Return whether the steps of a nest's sums are taken one after another, and not by a row's vectors or in fours."""
    return not nest.row_chunk and nest.intrinsic in ("", "outer_product") and not any(n.apart for n in nest.inner)


def find_dynamic_sums(result: ir.Value) -> tuple[int, ...]:
    """The loops of the last op that sum over open axes."""
    op = defining_op(result)
    if op is None or op.name != "linalg.generic":
        return ()
    loops = zip(iterator_types(op), loop_extents(op), strict=True)
    return tuple(loop for loop, (kind, extent) in enumerate(loops) if kind == "reduction" and extent < 0)


def _sums_rows(result: ir.Value) -> bool:
    """Return whether the last op reduces along several axes, one of them its operand's innermost one, a dynamic one.

    A reduction along that axis only is a kernel of rows (``dynamic_rows.py``). Where another operand lies along the
    result's rows, vectors do, too: a sum of 256 x 256 x 256 takes a fiftieth of the time.
    """
    op, sums = defining_op(result), find_dynamic_sums(result)
    if op is None or not sums or isinstance(classify_op(op), Contraction):
        return False
    walked = zip(shape_of(op.operands[0]), indexing_maps(op)[0].results, strict=True)
    along = [dim_of(expression) for extent, expression in walked if extent != 1]
    return bool(along) and along[-1] in sums and not _lies_along_columns(op, sums)


def _lies_along_columns(op: ir.Operation, sums: Sequence[int]) -> bool:
    """Return whether an operand that is summed up lies along the rows of the result."""
    column = loop_along(op, -1)
    walked = enumerate(indexing_maps(op)[: num_inputs(op)])
    summed = [number for number, m in walked if any(dims_in(e) & set(sums) for e in m.results)]
    return column is not None and any(loop_along(op, number) == column for number in summed)


def chunk_sizes(sums: Sequence[int]) -> list[dict[int, int]]:
    """The sizes of chunks: the last of the loops goes in several, the others one by one."""
    return [{**dict.fromkeys(sums, 1), sums[-1]: size} for size in _CHUNKS] if sums else [{}]


def _cuts(
    function: func.FuncOp, result: ir.Value, cut_known: Mapping[int, Sizes], wide: bool = False
) -> dict[int, Sizes]:
    """The sizes that axes of the result are cut into: the open ones, and those that products of their own are along.

    ``cut_known``: the sizes of known axes that are cut as well. ``wide``: whether planes have wide columns.

    None is, and the result is one block, where all of its sizes are known and its arguments' are not.
    """
    shape = shape_of(result)
    open_ = [axis for axis, n in enumerate(shape) if n < 0]
    if _sums_rows(result):  # of any length, one by one
        return {axis: (1,) for axis in range(len(shape))}
    innermost = max((axis for axis, n in enumerate(shape) if n != 1), default=0)
    crossing, blocks = _choose_sizes(function, result, innermost)
    batch = _batch_axes(function, result)
    once = {axis: (1,) for axis in {*open_, *batch}}
    cuts: dict[int, Sizes] = dict(sorted({**once, **cut_known}.items()))
    known = math.prod(cut_known[axis][0] if axis in cut_known else n for axis, n in enumerate(shape) if n > 0)
    columns = blocks.of_columns(known) if innermost in open_ else (1,)
    rows = blocks.of_rows(innermost in open_, known * columns[0])
    beside = [axis for axis in open_ if axis != innermost and axis not in batch]
    cuts |= dict.fromkeys([crossing] if crossing in beside else beside[-1:], rows)
    if blocks.plane and len(beside) > 1 and 0 < beside[-2] == beside[-1] - 1:  # axis 0 is that of images
        lines, pixels = blocks.plane
        cuts |= {beside[-2]: lines, beside[-1]: blocks.wide if wide and blocks.wide else pixels}
    cuts |= {innermost: columns} if innermost in open_ else {}
    if crossing in cuts:  # blocks go on where an operand's rows do
        cuts[crossing] = cuts.pop(crossing)
    patches = _patches(function, result)
    return {axis: tuple(n * patches.get(axis, 1) for n in sizes) for axis, sizes in cuts.items()}


def _choose_sizes(function: func.FuncOp, result: ir.Value, innermost: int) -> tuple[int | None, BlockSizes]:
    """The sizes of blocks, and the axis of their rows where an operand lies along it whose rows become columns."""
    family = find_family(anchors := find_anchors(function))
    if family is CONVOLUTIONS and any(
        reads_windows_as_columns(op, kind) for op, kind in anchors if isinstance(kind, Conv)
    ):
        return None, COLUMN_BLOCKS
    if family is CONVOLUTIONS and any(byte_sum(op, kind) is not None for op, kind in anchors):
        return None, BYTE_BLOCKS
    if family is PRODUCTS and _sums_groups(anchors):
        return None, GROUPED_BLOCKS
    if family is not None and family.blocks.images and not _walks_images(function):
        return None, LINE_BLOCKS
    if family is not LIGHT:
        blocks = family.blocks if family is not None else LIGHT_BLOCKS
        shares = family in (REDUCTIONS, None) and len(anchors) == 1 and _shares_operands(anchors[0][0])
        return None, GATHERED_BLOCKS if shares else blocks
    ops = [op for op in list_ops(function) if op.name.startswith("linalg.")]
    crossing = find_crossing([(op, classify_op(op)) for op in ops], result, innermost)
    if crossing is not None:
        few = 0 <= shape_of(result)[crossing.axis] <= _FEW  # rows of channels, of which there are no squares
        return crossing.axis, MAPPED_BLOCKS if few else TURNED_BLOCKS
    return None, GATHERED_BLOCKS if any(_shares_places(op) or reads_neighbours(op) for op in ops) else LIGHT.blocks


def _shares_operands(op: ir.Operation) -> bool:
    """Return whether the rows of a sum read the same along its columns."""
    sums, rows = find_dynamic_sums(op.results[0]), loops_along(op, -1)[:-1]
    maps = indexing_maps(op)[: num_inputs(op)] if sums and len(rows) > 0 else []
    walked = [{d for e in m.results for d in dims_in(e)} for m in maps]
    return len(walked) > 1 and any(each & set(sums) and rows[-1] not in each for each in walked)


def _shares_places(op: ir.Operation) -> bool:
    """Return whether the rows of an op read at places that are computed along them, which they may share."""
    if op.name != "linalg.generic" or not reads_at_indices(op):
        return False
    loops = loops_along(op, -1)
    return not loops or (last := loops[-1]) is None or computes_places(op, last)


def _cut_known(function: func.FuncOp, result: ir.Value) -> dict[int, Sizes]:
    """The sizes that known axes are cut into where the innermost one is open: rows go one by one.

    Only of kernels that map elements. A block of many rows that lie far apart would be narrow, and few of its lines
    would stay in the cache; where rows become columns, it has ``_ENOUGH`` elements of these. Of all others
    ``_cut_outer``.
    """
    shape, found = shape_of(result), dict[int, Sizes]()
    innermost = max((axis for axis, n in enumerate(shape) if n != 1), default=0)
    crossing, sizes = _choose_sizes(function, result, innermost)
    if sizes is COLUMN_BLOCKS:
        return _cut_filters(function, result)
    if not shape or shape[innermost] >= 0 or find_anchors(function):
        shares = bool(find_anchors(function)) or sizes is not LIGHT.blocks
        return _cut_outer(shape, sizes, innermost, sizes.most if shares else _APART, crossing)
    inner, enough = math.prod(n for n in shape if n > 0), 1 if crossing is None else _ENOUGH
    if inner <= _FEW:
        return found
    for axis, n in sorted(enumerate(shape), key=lambda each: each[0] == crossing):  # rows that become columns stay
        if n > 1 and inner > enough:
            inner //= n
            size = next(d for d in range(1, n + 1) if n % d == 0 and (d * inner >= enough or d == n))
            found |= {axis: (size,)} if size < n else {}
            inner *= size
    return found


def _cut_filters(function: func.FuncOp, result: ir.Value) -> dict[int, Sizes]:
    """Some filters at a time of those that rows of pixels are made with: a row of the result is then written at once.

    All filters of 64 pixels of an audio signal would be written to as many pages.
    """
    shape, found = shape_of(result), dict[int, Sizes]()
    for op, kind in find_anchors(function):
        axis = result_axis(op, kind.f[0], result) if isinstance(kind, Conv) else None
        if axis is not None and shape[axis] > _FILTERS:
            size = max(n for n in range(1, _FILTERS + 1) if shape[axis] % n == 0)
            found |= {axis: (size,)} if size >= _FEWEST_FILTERS else {}
    return found


def _cut_outer(
    shape: Sequence[int], blocks: BlockSizes, innermost: int, most: int | None, crossing: int | None
) -> dict[int, Sizes]:
    """Known axes before the last open one, the outermost first, beside which a block would be narrow along that.

    ``most``: elements of a block at most. ``crossing``: the axis along which an operand's rows lie, of which a block
    has ``_ENOUGH`` elements.
    """
    open_ = [axis for axis, n in enumerate(shape) if n < 0]
    if not open_ or most is None:
        return {}
    if blocks.images:
        return {axis: (1,) for axis, n in enumerate(shape[: innermost - 1]) if n > 1}
    most //= (blocks.columns if innermost in open_ else blocks.rows)[0]
    inner, found = math.prod(n for n in shape if n > 0), dict[int, Sizes]()
    for axis, n in enumerate(shape[: open_[-1]]):
        if n > 1 and inner > most:
            enough = min(n, _ENOUGH) if axis == crossing else 1
            size = next(d for d in range(enough, n + 1) if n % d == 0)
            inner = inner // n * size
            found |= {axis: (size,)} if size < n else {}
    return found


def _patches(function: func.FuncOp, result: ir.Value) -> dict[int, int]:
    """The extents of patches along the axes that are made of them: open ones are made of whole patches."""
    found: dict[int, int] = {}
    for op in list_ops(function):
        maps = indexing_maps(op) if op.name == "linalg.generic" else []
        for quotient in [e for m in maps for e in m.results if isinstance(e, ir.AffineFloorDivExpr)]:
            axis = result_axis(op, ir.AffineDimExpr(quotient.lhs).position, result)
            if axis is not None:
                found[axis] = ir.AffineConstantExpr(quotient.rhs).value
    return found


def _batch_axes(function: func.FuncOp, result: ir.Value) -> set[int]:
    """The axes of the result that products of their own are along."""
    ops = list_ops(function)
    products = [(op, kind) for op in ops if isinstance(kind := classify_op(op), Contraction)]
    # The scales of a sum of blocks are of columns of one product.
    own = ((op, kind) for op, kind in products if find_block_sum(op) is None)
    axes = (result_axis(op, loop, result) for op, kind in own for loop in kind.batch)
    return {axis for axis in axes if axis is not None}
