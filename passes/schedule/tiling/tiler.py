"""Computing regions of a kernel's values as tiles, at the insertion point."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from ....core.target import DotProduct, Target
from ....dialects import builders, func, ir, linalg
from ....dialects.builders import element_of
from ....dialects.walk import defining_op
from ...analysis.in_place import inserted_into
from ...ir.kernel import in_place
from ...ir.structure import dim_of, indexing_maps, iterator_types, loop_extents, shape_of
from ..language.loopnest import MAX_TILE
from ..tiles.regions import (
    Interval,
    Linear,
    NotSchedulable,
    Region,
    cover,
    in_phase,
    in_row,
    kept_dims,
    operand_region,
    relative_to,
    without_unit_dims,
)
from ..tiles.structured import Tile, capture_scalar, clone_body, extract, make_empty, make_generic, squeezed_type

# Elements of the longest row of any length.
MAX_ROW = 2**63 - 1

Handler = Callable[["Tiler", ir.Operation, Region, "ir.Value | None"], Tile]
StoreTile = Callable[[Region, ir.Value], None]


@dataclass(frozen=True)
class Form:
    """How a nest computes what is in the place of a tile.

    row_chunk, rows_at_once: elements of one step along a whole row (0: there are no such rows); steps taken at once.
    anchor, sums: the op whose sums the schedule orders, and its reduction loops, outermost first.
    at_once, apart: how many steps of the innermost of them become one, and whether each is from its own part of it.
    outer_product: whether the tile and that loop stay together as a matmul.
    dot: the instruction for sums of products of bytes; None: it is no such sum.
    matrices: whether tiles of such sums may be matrices in registers.
    length: of whole rows, where only the run knows it.
    least, most: elements that such a row has.
    vectors: in how many such a row goes, the last of which may begin in those before; 0 where that is not known.
    across: whether a tile has several whole rows, whose elements are taken one after another.
    row_axis: the axis of the result along which such rows lie; None where one element is made of each.
    lengths: of the anchor's sums, by loop, where only the run knows them; what its function says counts for nothing.
    clipped: the first step of the anchor's sums, by loop, and the end of these, where the run leaves others out.
    lanes: of float32 in a vector.
    wide: elements of a tile's rows, where the last of them are computed and not stored; 0 for as many as there are.
    masked: whether such rows are stored by a mask, or in pieces.
    target: has the instructions for the sums of stages; None: stages have none.
    store: what stores tiles of the result, given their region and vector; None where they lie in a tensor.
    """

    row_chunk: int = 0
    rows_at_once: int = 1
    anchor: ir.Operation | None = None
    sums: tuple[int, ...] = ()
    at_once: int = 1
    apart: bool = False
    outer_product: bool = False
    dot: DotProduct | None = None
    matrices: bool = False
    length: ir.Value | None = None
    least: int = 0
    most: int = MAX_ROW
    vectors: int = 0
    across: bool = False
    row_axis: int | None = None
    lengths: Mapping[int, ir.Value] = field(default_factory=dict)
    clipped: Mapping[int, tuple[ir.Value, ir.Value]] = field(default_factory=dict)
    lanes: int = 16
    wide: int = 0
    masked: bool = False
    target: Target | None = None
    store: StoreTile | None = None

    def sums_to_length(self, op: ir.Operation, loop: int | None = None) -> bool:
        """Return whether a loop of an op, or any, sums up to one of the ``lengths``."""
        known = self.anchor is not None and op == self.anchor
        return known and (loop in self.lengths if loop is not None else bool(self.lengths))


@dataclass(frozen=True)
class WindowWalk:
    """How windows move along an axis of a left operand: by ``stride``, over ``taps`` that lie ``dilation`` apart."""

    stride: int = 1
    taps: int = 1
    dilation: int = 1

    def count(self, extent: int) -> int:
        """The windows that so many elements are for."""
        return (extent - (self.taps - 1) * self.dilation - 1) // self.stride + 1

    def extent(self, count: int) -> int:
        """The elements that so many windows read."""
        return (count - 1) * self.stride + (self.taps - 1) * self.dilation + 1


@dataclass(frozen=True)
class SplitOperand:
    """A ``region`` of an operand of a sum of products, copied in parts of bfloat16 in matrices (``split_operand``).

    rows: of a left operand's matrices; 0 for a right operand. axis: of this one's columns. packed: what it lies in.
    walks: of the axes of rows of a convolution whose windows have several elements; none for any other product.
    """

    region: Region
    value: ir.Value
    rows: int = 0
    axis: int = 0
    packed: ir.Value | None = None
    walks: tuple[WindowWalk, ...] = ()


class Tiler:
    """Computes regions of a kernel's values at the insertion point, each value once in a scope.

    ``unpadded``: padded values whose readers ask for nothing of the padding. ``overwritten``: arguments whose elements
    lie where the result is written. ``places``: of vectors of a row of any length in what holds the row, by where they
    begin in the row. ``split``: operands that are copied in parts.
    """

    def __init__(
        self,
        arguments: Mapping[ir.Value, ir.Value],
        handlers: Mapping[str, Handler],
        form: Form,
        known: Mapping[tuple[ir.Value, Region], Tile] | None = None,
        shared: Mapping[ir.Value, tuple[Region, Tile]] | None = None,
        unpadded: Iterable[ir.Value] = (),
        overwritten: Iterable[ir.Value] = (),
        places: Mapping[ir.Value, int] | None = None,
        split: Mapping[ir.Value, SplitOperand] | None = None,
    ) -> None:
        self.arguments, self.handlers, self.form = arguments, handlers, form
        self.known, self.shared, self.unpadded = dict(known or {}), dict(shared or {}), set(unpadded)
        self.overwritten, self.places, self.split = frozenset(overwritten), dict(places or {}), dict(split or {})

    def scope(self) -> Tiler:
        """A tiler for a nested block: sees what is computed around it, keeps what it computes to itself."""
        known, shared = self.known, self.shared
        others = (self.unpadded, self.overwritten, self.places, self.split)
        return Tiler(self.arguments, self.handlers, self.form, known, shared, *others)

    def share(self, value: ir.Value, region: Region, buffer: ir.Value | Tile) -> None:
        """Let all that is computed from now on read ``value`` in a buffer that holds the region they need."""
        self.shared[value] = (region, buffer if isinstance(buffer, Tile) else Tile(buffer, kept_dims(region)))

    def has_some(self, value: ir.Value) -> bool:
        """Return whether the value, or a region of it, is computed already."""
        return value in self.shared or value in self.arguments or any(other == value for other, _ in self.known)

    def compute(self, value: ir.Value, region: Region, dest: ir.Value | None = None) -> Tile:
        """The tile of ``value`` at ``region``; written into ``dest`` (of the tile's type) where one is given."""
        if value in self.shared:
            whole, buffer = self.shared[value]
            return self._take(buffer, relative_to(region, whole), whole)
        if value in self.arguments:
            return read_region(self.arguments[value], shape_of(value), region)
        if (value, region) in self.known:
            return self.known[value, region]
        for (other, whole), tile in self.known.items():
            if other == value and (part := locate_within(region, whole, in_row(shape_of(value)))):
                return self._take(tile, part, whole)
        op = defining_op(value)
        if op is not None and value in self.unpadded:
            low = ir.DenseI64ArrayAttr(op.attributes["static_low"])
            moved = zip(region, low, strict=True)
            return self.compute(op.operands[0], tuple(replace(i, offset=i.offset + Linear(-n)) for i, n in moved))
        if any(interval.stride != 1 for interval in region) and (op is None or op.name != "tensor.extract_slice"):
            raise NotSchedulable("a strided read of a value computed in the kernel")
        handler = self.handlers.get(op.name) if op is not None else None
        if op is None or handler is None:
            raise NotSchedulable(f"no tile form of {op.name if op is not None else 'an argument'}")
        tile = handler(self, op, region, dest)
        self.known[value, region] = tile
        return tile

    def place_in_row(self, part: Interval) -> Interval:
        """Where a vector lies in what holds a row, if that has a place for each of its vectors."""
        places = [self.places[value] for value, _ in part.offset.terms if value in self.places]
        return replace(part, offset=Linear(places[0])) if places else part

    def _take(self, tile: Tile, part: Region, whole: Region) -> Tile:
        """A part of a tile that has ``whole`` of a value."""
        if self.places and len(tile.dims) == 1 and whole[tile.dims[0]].size < 0 <= shape_of(tile.value)[0]:
            [axis] = tile.dims
            part = (*part[:axis], self.place_in_row(part[axis]), *part[axis + 1 :])
        return part_of(tile, part)


def may_repeat(result: ir.Value) -> bool:
    """Return whether tiles of a kernel's result may overlap, each computing what both have.

    Not where the result may lie over an operand that it is made from (``kernel.IN_PLACE``): what is read again would be
    the result. What it is inserted into is none.
    """
    op = defining_op(result)
    if op is None or op.parent is None or not (shared := in_place(op.parent)):
        return True
    function = op.parent.opview
    return isinstance(function, func.FuncOp) and shared == [inserted_into(function)]


def needed_region(result: ir.Value, region: Region, value: ir.Value) -> Region:
    """The part of ``value`` that a region of ``result`` depends on, through the structured ops between them.

    Raises NotSchedulable where the result does not depend on it, or its readers need different parts.
    """
    parts: dict[ir.Value, Region] = {result: region}
    unclear: set[ir.Value] = set()  # what readers need different parts of, and all that it is made from
    last = defining_op(result)
    assert last is not None
    for op in reversed([o.operation for o in last.block.operations]):
        if op.name != "linalg.generic" or op.results[0] not in parts or op.results[0] == value:
            continue
        loops = loop_intervals(op, parts[op.results[0]])
        for operand, indexing_map in zip(op.operands, indexing_maps(op), strict=True):
            part = tuple(cover(expression, loops) for expression in indexing_map.results)
            if parts.setdefault(operand, part) != part or op.results[0] in unclear:
                unclear.add(operand)
    if value not in parts or value in unclear:
        raise NotSchedulable("a shared value that the result does not need, or of which it needs several parts")
    return parts[value]


def locate_within(region: Region, whole: Region, shape: Sequence[int]) -> Region | None:
    """``region`` relative to ``whole``, of a value of ``shape``, where it lies in it by construction, else None.

    Where a loop moves the one and not the other, only the whole extent surely contains it.
    """
    part = []
    for inner, outer, extent in zip(region, whole, shape, strict=True):
        start = inner.offset + outer.offset * -1
        inside = 0 <= start.const <= outer.size - inner.size if not start.terms else outer.size == extent
        if not inside or inner.stride != 1:
            return None
        part.append(Interval(start, inner.size))
    return tuple(part)


def part_of(tile: Tile, part: Region) -> Tile:
    """A part of a tile, counted from where the tile begins."""
    in_tile, dims = [part[d] for d in tile.dims], list(tile.dims)
    if tile.phases > 1:
        in_tile[-1:], dims[-1:] = in_phase(in_tile[-1], tile.phases), dims[-1:] * 2
    piece = extract(tile.value, tuple(in_tile))
    return Tile(piece.value, tuple(dims[i] for i in piece.dims))


def read_region(source: ir.Value, shape: Sequence[int], region: Region) -> Tile:
    """A region of a value of ``shape`` from the squeezed tensor that holds it."""
    part, dims = without_unit_dims(region, shape)
    tile = extract(source, part)
    return Tile(tile.value, tuple(dims[i] for i in tile.dims))


def constant_tile(tiler: Tiler, op: ir.Operation, region: Region, dest: ir.Value | None) -> Tile:
    """A region of a constant tensor, which is read like an argument."""
    value = op.clone().results[0]
    return read_region(builders.reshape(value, squeezed_type(value.type).shape), shape_of(value), region)


def fill_tile(tiler: Tiler, op: ir.Operation, region: Region, dest: ir.Value | None) -> Tile:
    value = op.results[0]
    target = dest if dest is not None else make_empty_tile(value, region)
    return Tile(linalg.fill(capture_scalar(op.operands[0], tiler.arguments), target), kept_dims(region))


def empty_tile(tiler: Tiler, op: ir.Operation, region: Region, dest: ir.Value | None) -> Tile:
    return Tile(dest if dest is not None else make_empty_tile(op.results[0], region), kept_dims(region))


def make_empty_tile(value: ir.Value, region: Region, length: ir.Value | None = None) -> ir.Value:
    return make_empty([region[d].size for d in kept_dims(region)], element_of(value), length)


def slice_tile(tiler: Tiler, op: ir.Operation, region: Region, dest: ir.Value | None) -> Tile:
    """A region of a slice is read where the slice lies."""
    if not can_slice(op):
        raise NotSchedulable("a slice at offsets known at run time only, of fewer dims, or that goes backwards")
    starts, steps = (ir.DenseI64ArrayAttr(op.attributes[f"static_{name}"]) for name in ("offsets", "strides"))
    moved = [
        Interval(Linear(start) + interval.offset * step, interval.size, interval.stride * step)
        for interval, start, step in zip(region, starts, steps, strict=True)
    ]
    return tiler.compute(op.operands[0], tuple(moved))


def can_slice(op: ir.Operation) -> bool:
    """Return whether regions of a ``tensor.extract_slice`` can be read in place: forwards, at a known place."""
    steps = list(ir.DenseI64ArrayAttr(op.attributes["static_strides"]))
    return len(op.operands) == 1 and len(shape_of(op.results[0])) == len(steps) and min(steps, default=1) >= 1


def unpack_tile(tiler: Tiler, op: ir.Operation, region: Region, dest: ir.Value | None) -> Tile:
    """A region of a packed weight is read where it lies: one block of each packed dim, in the packed order."""
    inner, _ = packed_dims(op)
    source = tiler.compute(op.operands[0], packed_region(op, region))
    dims = [*(list(ir.DenseI64ArrayAttr(op.attributes["outer_dims_perm"])) or range(len(region))), *inner]
    return Tile(source.value, tuple(dims[i] for i in source.dims))


def packed_region(op: ir.Operation, region: Region) -> Region:
    """Where a region of what a ``linalg.unpack`` makes lies in the packed weight."""
    inner, tiles = packed_dims(op)
    blocks = dict(zip(inner, tiles, strict=True))
    order = list(ir.DenseI64ArrayAttr(op.attributes["outer_dims_perm"])) or list(range(len(region)))
    if any(region[d].size > block for d, block in blocks.items()):
        raise NotSchedulable("a tile wider than the packed block")
    outer = [Interval(region[d].offset.exact_div(blocks[d]), 1) if d in blocks else region[d] for d in order]
    return (*outer, *(Interval(Linear(), region[d].size) for d in inner))


def packed_dims(op: ir.Operation) -> tuple[list[int], list[int]]:
    """The dims that a ``linalg.unpack`` joins, and their block sizes."""
    positions = ir.DenseI64ArrayAttr(op.attributes["inner_dims_pos"])
    return list(positions), list(ir.DenseI64ArrayAttr(op.attributes["static_inner_tiles"]))


def loop_intervals(op: ir.Operation, region: Region) -> list[Interval]:
    """The loops' intervals that compute ``region`` of the result: reductions in full."""
    maps, rank = indexing_maps(op), indexing_maps(op)[0].n_dims
    extents, shown = in_row(loop_extents(op)), {dim_of(expression) for m in maps for expression in m.results}
    if 0 in extents or not shown.issuperset(range(rank)):
        raise NotSchedulable("a loop whose extent no operand shows")
    loops = [Interval(Linear(), extents[i]) for i in range(rank)]
    for interval, expression in zip(region, maps[-1].results, strict=True):
        if not isinstance(expression, ir.AffineDimExpr):
            raise NotSchedulable("a result that is not indexed by its loops alone")
        loops[expression.position] = interval
    return loops


def tile_op(
    tiler: Tiler,
    op: ir.Operation,
    loops: list[Interval],
    region: Region,
    dest: ir.Value | None,
    init: Tile | None = None,
) -> Tile:
    """One structured op on tiles. Loops of size 1 are gone; what is left has permutations as indexing maps."""
    kept = [i for i, interval in enumerate(loops) if interval.size != 1]
    if any(loops[i].size < 0 and not tiler.form.sums_to_length(op, i) for i in kept):
        raise NotSchedulable("a tile of open size")
    if math.prod(loops[i].size for i in kept if iterator_types(op)[i] == "parallel") > MAX_TILE:
        raise NotSchedulable("a tile of more elements than registers and a compiler can take")
    maps, inputs, input_maps = indexing_maps(op), [], []
    count = len(op.operands) - 1
    for operand, indexing_map in zip(list(op.operands)[:count], maps[:count], strict=True):
        part, walkers = operand_region(indexing_map, loops)
        tile = tiler.compute(operand, part)
        inputs.append(tile.value)
        input_maps.append(tile_map(kept, [walkers[d] for d in tile.dims]))
    _, walkers = operand_region(maps[-1], loops)
    if init is None:
        target = dest if dest is not None else make_empty_tile(op.results[0], region)
        if reads_init(op) and not (dest is not None and op.operands[count] in tiler.overwritten):
            target = tiler.compute(op.operands[count], region).value
        dims = kept_dims(region)
    else:
        target, dims = init.value, init.dims
    output_map = tile_map(kept, [walkers[d] for d in dims])
    iterators = [iterator_types(op)[i] for i in kept]
    made, block = make_generic(inputs, [target], [*input_maps, output_map], iterators)
    clone_body(op, block, list(block.arguments), loops, kept, tiler.arguments)
    return Tile(made.results[0], dims)


def reads_init(op: ir.Operation) -> bool:
    """Return whether a body reads what its result begins with."""
    return any(True for _ in op.regions[0].blocks[0].arguments[len(op.operands) - 1].uses)


def tile_map(kept: Sequence[int], walkers: Sequence[int | None]) -> ir.AffineMap:
    dims = [ir.AffineExpr.get_dim(kept.index(w)) if w is not None else ir.AffineExpr.get_constant(0) for w in walkers]
    return ir.AffineMap.get(len(kept), 0, dims)
