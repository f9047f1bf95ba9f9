"""Convolutions that sum over open sizes: products of the filters, as they lie, by windows that are copied.

The weight is computed by the program, or an input of it. What a panel of pixels reads in all steps of their windows is
copied to scratch memory, one step behind another, and all filters read it there. Filters and pixels are then rows and
columns of one product in channels first, whose sums stay in registers, over whatever number of channels and taps.

Before::

    %y = linalg.generic {(n, f, h, w, c, i, j) -> (n, c, h + i, w + j), (f, c, i, j), (n, f, h, w)}
        ins(%x : tensor<?x?x?x?xf32>, %weight : tensor<?x?x?x?xf32>)

What a block is computed by, with %windows as the copy::

    %y = linalg.generic {(n, f, p, k) -> (f, k), (n, k, p), (n, f, p)}
        ins(%filters : tensor<?x?xf32>, %windows : tensor<?x?x?xf32>)
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

from ....dialects import arith, func, ir, linalg, memref, tensor, tw
from ....dialects.builders import element_of, index_constant
from ....dialects.structured import iterators_attr
from ....dialects.types import DYNAMIC, element_bits
from ....dialects.walk import defining_op
from ...analysis.kinds import Conv
from ...ir.edit import clone
from ...ir.kernel import list_functions, module_beside
from ...ir.maps import set_maps
from ...ir.structure import dim_of, indexing_maps, loops_along, shape_of, terminator_of
from ...ir.uses import nested_ops
from ..families.channels_first import copies_windows
from ..families.family import find_anchors
from ..tiles.buffers import tensor_of
from ..tiles.regions import NotSchedulable
from ..tiles.structured import capture_scalar
from ..tiling.destination_passing import reshape_buffer
from ..tiling.part_nests import Chooser
from ..tiling.tiler import may_repeat
from .block_kernels import OneFunction, Version
from .block_loops import SHARES, Blocks
from .blocks import find_dynamic_sums, make_sums
from .part_loops import Computation, Part, cut_axis, share_range
from .window_panel_loops import WindowPart, Windows, multiply_all, read_extents

# Pixels of a panel: as many as registers hold sums of, and those of small images. Filters of a block.
_PIXELS, _FILTERS = (32, 8, 1), (24, 8, 4, 1)


@dataclass(frozen=True)
class WindowPanels(OneFunction, Blocks):
    """The blocks of a product of filters by panels of copied windows, the function in ``module``.

    Its arguments are the filters, all numbers of one in a row, and the windows, all steps of a pixel in a column; its
    results have an axis of pixels in place of those of an image. rows: the axis of filters, the last but one.
    """

    module: ir.Module
    windows: Windows
    rows: int

    def least_rest(self, size: int, smaller: int, smallest: int) -> int:
        """So many that smaller blocks would have as many elements, as for other panels."""
        return 1 if smaller <= smallest else size - smaller + 1

    def emit(self, computed: Computation, lo: ir.Value, hi: ir.Value) -> None:
        """Emit the loops: panel by panel, and all filters for each. Threads share panels, or filters if there are few
        of these.
        """
        filters, place = self._view_filters(computed), self._view_result(computed)
        given: dict[ir.Value, ir.Value] = {self.function.arguments[0]: tensor_of(filters)}
        inner = Computation(self.function, given, place, computed.target)
        extents = {axis: memref.DimOp(place, index_constant(axis)).result for axis in self.cuts}
        segments = {
            axis: cut_axis(extents[axis], self.cuts[axis], axis in self.repeated, self.least_rest) for axis in self.cuts
        }
        parts = []
        for version in self.versions:
            chosen = {axis: segments[axis][version.sizes[axis]] for axis in self.cuts}
            parts.append(Part(version, chosen, inner, self.sums))
        panels = [list(group) for _, group in itertools.groupby(parts, lambda part: part.version.sizes[-1])]
        made = [WindowPart(self.windows, computed, self.function.arguments[1], group, self.rows) for group in panels]
        total, share = index_constant(0), share_range(lo, hi)
        for part in made:
            total = arith.addi(total, part.blocks)
        many = arith.cmpi(arith.CmpIPredicate.uge, total, index_constant(SHARES))
        none = index_constant(0)
        for part in made:
            first, end = share(part.blocks)
            part.share = (lo, hi, many)
            part.loop(arith.select(many, first, none), arith.select(many, end, part.blocks), None)

    def _view_filters(self, computed: Computation) -> ir.Value:
        """The weight as rows of all numbers of a filter; a copy of one that is a part of a larger tensor."""
        weight, kept = self.windows.weight, len(shape_of(self.function.arguments[0])) - 1
        extents = weight.extents(computed)
        buffer = weight.buffer(computed) if weight.sizes is None else weight.copy(computed, extents)
        return _view_rows(buffer, extents, kept)

    def _view_result(self, computed: Computation) -> ir.Value:
        """The result as rows of all pixels of an image."""
        return _view_rows(computed.buffer, read_extents(computed.buffer), self.rows + 1)

    def __str__(self) -> str:
        return f"panels of copied windows, in\n{super().__str__()}"


def _view_rows(buffer: ir.Value, extents: Sequence[ir.Value], kept: int) -> ir.Value:
    """A buffer, whose elements lie one after another, with one axis in place of those after the first ``kept``."""
    sizes = [*extents[:kept], multiply_all(extents[kept:])]
    kind = ir.RankedTensorType.get([DYNAMIC] * len(sizes), element_of(buffer))
    return reshape_buffer(kind, buffer, iter(sizes))


def choose_window_panels(function: func.FuncOp, choose: Chooser) -> WindowPanels:
    """A convolution that sums over open sizes, with schedules that ``choose`` gives for the blocks.

    Raises NotSchedulable for all other kernels, or where no family takes a block.
    """
    op, kind = _find_convolution(function)
    module = _build_product(function, op, kind)
    product = list_functions(module)[0]
    [result] = terminator_of(product).operands
    rows, columns = len(shape_of(result)) - 2, len(shape_of(result)) - 1
    cuts = {**{axis: (1,) for axis in range(rows)}, columns: _PIXELS, rows: _FILTERS}
    sums, versions = find_dynamic_sums(result), []
    for chosen in itertools.product(*cuts.values()):
        sizes = tuple(size for _, size in sorted(zip(cuts, chosen, strict=True)))
        versions.append(Version(sizes, make_sums(product, sizes, sums, choose)))
    repeated = frozenset({columns}) if may_repeat(op.results[0]) else frozenset()
    return WindowPanels(tuple(versions), cuts, sums, 1, 1, module, Windows.of(op, kind), rows, repeated=repeated)


def _find_convolution(function: func.FuncOp) -> tuple[ir.Operation, Conv]:
    """The convolution that a kernel is. Raises NotSchedulable where it is more, or where dims have another order."""
    anchors, results = find_anchors(function), list(terminator_of(function).operands)
    op, kind = anchors[0] if len(anchors) == len(results) == 1 else (None, None)
    if op is None or not isinstance(kind, Conv) or not copies_windows(op, kind) or results[0] != op.results[0]:
        raise NotSchedulable("no convolution that sums over open sizes")
    windows = Windows.of(op, kind)
    if not all(isinstance(part.source, ir.BlockArgument) for part in (windows.data, windows.weight)):
        raise NotSchedulable("a convolution of what is made in the kernel")
    read = [dim_of(e) for e in indexing_maps(op)[kind.data].results]
    channels = [*kind.n, *kind.g, *kind.c]
    if loops_along(op, -1) != [*kind.n, *kind.g, *kind.f, *kind.o] or read[: len(channels)] != channels:
        raise NotSchedulable("a convolution that is not in channels first")
    if loops_along(op, kind.weight) != [*kind.g, *kind.f, *kind.c, *kind.k]:
        raise NotSchedulable("filters of another order")
    if element_bits(element_of(op.operands[kind.data])) not in (8, 16, 32, 64):
        raise NotSchedulable("numbers of which no vectors are copied")
    return op, kind


def _build_product(function: func.FuncOp, op: ir.Operation, kind: Conv) -> ir.Module:
    """A module with the product of filters by windows, all of whose sizes are open."""
    groups, rank = len(kind.g), len(kind.n) + len(kind.g) + 2
    values = (op.operands[kind.weight], op.operands[kind.data], op.results[0])
    ranks = zip((groups + 2, rank, rank), values, strict=True)
    kinds = [ir.RankedTensorType.get([DYNAMIC] * n, element_of(value)) for n, value in ranks]
    module, entry = module_beside(function, kinds[:2], kinds[2:], [])
    entry.owner.attributes[tw.COPIED] = ir.UnitAttr.get()
    fill = defining_op(op.operands[2])
    if fill is None or fill.name != "linalg.fill":
        raise NotSchedulable("a sum that does not begin with a number")
    with ir.InsertionPoint(entry), op.location:
        weight, windows = entry.arguments
        sources = [*((windows, axis) for axis in range(rank - 2)), (weight, groups), (windows, rank - 1)]
        sizes = [tensor.DimOp(value, index_constant(axis)).result for value, axis in sources]
        empty = tensor.EmptyOp(sizes, element_of(op.results[0])).result
        mapping: dict[ir.Value, ir.Value] = {op.operands[2]: linalg.fill(capture_scalar(fill.operands[0]), empty)}
        made = clone(op, mapping)
        if kind.weight == 1:
            _exchange_arguments(made)
        made.operands[0], made.operands[1] = weight, windows
        made.results[0].set_type(kinds[2])
        dims = [ir.AffineExpr.get_dim(n) for n in range(rank + 1)]
        outer, (filters, pixels, steps) = dims[:-3], dims[-3:]
        reads = [*outer[len(kind.n) :], filters, steps], [*outer, steps, pixels], [*outer, filters, pixels]
        set_maps(made, [ir.AffineMap.get(len(dims), 0, places) for places in reads])
        made.attributes["iterator_types"] = iterators_attr([*["parallel"] * rank, "reduction"])
        func.ReturnOp([made.results[0]])
    return module


def _exchange_arguments(op: ir.Operation) -> None:
    """Let the first argument of an op's body be the second one, also of what multiplies them: upstream's patterns for
    products rely on the order.
    """
    pair = list(op.regions[0].blocks[0].arguments)[:2]
    kinds, uses = [each.type for each in pair], [list(each.uses) for each in pair]
    for each, kind, others in zip(pair, reversed(kinds), reversed(uses), strict=True):
        each.set_type(kind)
        for use in others:
            use.owner.operation.operands[use.operand_number] = each
    for inner in nested_ops(op):
        if inner.name in ("arith.mulf", "arith.muli"):
            inner.operands[0], inner.operands[1] = inner.operands[1], inner.operands[0]
