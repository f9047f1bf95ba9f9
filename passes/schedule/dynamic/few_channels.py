"""Images of open sizes that are brought to channels last, or from there: loops of their own for a few channels.

Three channels are no square tiles. Where it is known that there are so many, rows of them are put together from whole
vectors. So there are loops for ``_COUNTS`` of channels besides those for any number, and the run takes what fits. What
only moves elements goes as ``turned_rows.py`` has it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ....dialects import arith, func, ir, memref, scf, tensor
from ....dialects.builders import element_of, index_constant
from ....dialects.walk import defining_op, is_constant
from ...ir.edit import clone
from ...ir.kernel import list_functions, module_beside
from ...ir.structure import dim_of, indexing_maps, is_projection, list_ops, num_inputs, shape_of
from ...ir.uses import find_captures
from ..tiles.buffers import buffer_of, tensor_of
from ..tiles.regions import NotSchedulable
from ..tiling.part_nests import Chooser
from .block_kernels import OneFunction
from .block_loops import Blocks
from .box_copies import choose_copy
from .joined_axes import choose_joined_or_blocks, go_along_rows
from .part_loops import Computation

# Channels of images, without and with an alpha channel.
_COUNTS = (3, 4)


@dataclass(frozen=True)
class SomeChannels(OneFunction):
    """A module with the kernel's function for ``count`` elements along ``axis`` of its tensor, and its blocks."""

    module: ir.Module
    blocks: Blocks
    axis: int
    count: int


@dataclass(frozen=True)
class FewChannels(Blocks):
    """Loops for all sizes, ``general``, and those of ``few`` axes, which are asked first."""

    general: Blocks
    few: tuple[SomeChannels, ...]

    def emit(self, computed: Computation, lo: ir.Value, hi: ir.Value) -> None:
        """Emit the loops, in a branch for each count."""
        self._emit_first(self.few, computed, lo, hi)

    def _emit_first(self, few: Sequence[SomeChannels], computed: Computation, lo: ir.Value, hi: ir.Value) -> None:
        if not few:
            self.general.emit(computed, lo, hi)
            return
        first, *others = few
        number = next(i for i, kind in enumerate(first.function.type.inputs) if isinstance(kind, ir.RankedTensorType))
        buffer = buffer_of(computed.tensors[computed.source.arguments[number]])
        extent = memref.DimOp(buffer, index_constant(first.axis)).result
        fits = arith.cmpi(arith.CmpIPredicate.eq, extent, index_constant(first.count))
        branch: Any = scf.IfOp(fits, has_else=True)
        with ir.InsertionPoint(branch.then_block):
            own, theirs = first.function.arguments, computed.source.arguments
            given = {a: computed.arguments[b] for a, b in zip(own, theirs, strict=True)}
            given[own[number]] = tensor_of(_cast_buffer(buffer, own[number].type))
            place = _cast_buffer(computed.buffer, first.function.type.results[0])
            first.blocks.emit(Computation(first.function, given, place, computed.target), lo, hi)
            scf.YieldOp([])
        with ir.InsertionPoint(branch.else_block):
            self._emit_first(others, computed, lo, hi)
            scf.YieldOp([])

    def __str__(self) -> str:
        shown = [f"{few.count} channels:\n{few.blocks}" for few in self.few]
        return "\n".join([*shown, f"any number of channels:\n{self.general}"])


def choose_few_channels(function: func.FuncOp, choose: Chooser) -> FewChannels:
    """Loops for a few channels and for any number, with schedules that ``choose`` gives for their blocks.

    Raises NotSchedulable for what does not bring channels of an open number behind or before two axes or more.
    """
    op = _find_transposition(function)
    read, made = ([dim_of(expression) for expression in m.results] for m in indexing_maps(op))
    channels = _find_channels(read, made)
    axes = [read.index(channels), made.index(channels)]
    if shape_of(op.operands[0])[axes[0]] >= 0:
        raise NotSchedulable("so many channels as are known")
    if _only_moves(function):
        raise NotSchedulable("rows that are turned whatever their number is")
    few = []
    for count in _COUNTS:
        module = _fix_count(function, op, axes, count)
        few.append(SomeChannels(module, choose_joined_or_blocks(list_functions(module)[0], choose), axes[0], count))
    # Whole rows are written one after another: from 64 channels on that takes 0.6 to 0.9 of the time of whole columns.
    general = go_along_rows(choose_joined_or_blocks(function, choose))
    sizes = general.versions, general.cuts, general.sums, general.panels, general.held
    flags = {"split": general.split, "repeated": general.repeated}
    return FewChannels(*sizes, general, tuple(few), **flags)


def _only_moves(function: func.FuncOp) -> bool:
    """Return whether a kernel is a copy of turned rows."""
    try:
        choose_copy(function, turned=True)
    except NotSchedulable:
        return False
    return True


def _find_channels(read: Sequence[int | None], made: Sequence[int | None]) -> int | None:
    """The loop along an innermost axis that goes before two axes or more, which stay in order, or comes from there."""
    for inner, outer in ((read, made), (made, read)):
        loop, rest = inner[-1], [each for each in outer if each != inner[-1]]
        if rest == list(inner[:-1]) and len(outer) - outer.index(loop) > 2:
            return loop
    raise NotSchedulable("no channels that become innermost, or were that")


def _find_transposition(function: func.FuncOp) -> ir.Operation:
    """The one op of a kernel, which reads one tensor along another axis than it writes."""
    *ops, end = list_ops(function)
    op = defining_op(end.operands[0]) if len(end.operands) == 1 else None
    if op is None or op.name != "linalg.generic" or num_inputs(op) != 1 or len(op.results) != 1:
        raise NotSchedulable("no op on one tensor")
    if any(each != op and each.name not in ("tensor.empty", "arith.constant") for each in ops):
        raise NotSchedulable("more than one op")
    read, made = indexing_maps(op)
    tensors = [value for value in function.arguments if isinstance(value.type, ir.RankedTensorType)]
    given = tensors == [op.operands[0]] and all(is_constant(value) for value in find_captures(op))
    if not given or not all(is_projection(m) and len(m.results) == m.n_dims > 1 for m in (read, made)):
        raise NotSchedulable("no transposition")
    return op


def _fix_count(function: func.FuncOp, op: ir.Operation, axes: Sequence[int], count: int) -> ir.Module:
    """A module with the function where the operand and the result have ``count`` elements along these axes."""
    fixed = [_fix_extent(value, axis, count) for value, axis in zip((op.operands[0], op.results[0]), axes, strict=True)]
    kinds = [fixed[0] if value == op.operands[0] else value.type for value in function.arguments]
    module, entry = module_beside(function, kinds, [fixed[1]])
    mapping: dict[ir.Value, ir.Value] = dict(zip(function.arguments, entry.arguments, strict=True))
    with ir.InsertionPoint(entry):
        empty = defining_op(op.operands[1])
        assert empty is not None  # nothing but a `tensor.empty` is there besides
        open_ = iter(empty.operands)
        given = [next(open_) if n < 0 else n for n in shape_of(op.results[0])]
        sizes = [mapping[n] if isinstance(n, ir.Value) else n for n in given]
        sizes[axes[1]] = count
        mapping[op.operands[1]] = tensor.EmptyOp(sizes, element_of(op.results[0])).result
        for captured in find_captures(op):
            source = defining_op(captured)
            assert source is not None  # a constant
            mapping[captured] = source.clone().results[0]
        copy = clone(op, mapping)
        copy.results[0].set_type(fixed[1])
        func.ReturnOp([copy.results[0]])
    return module


def _fix_extent(value: ir.Value, axis: int, count: int) -> ir.Type:
    shape = shape_of(value)
    shape[axis] = count
    return ir.RankedTensorType.get(shape, element_of(value))


def _cast_buffer(buffer: ir.Value, kind: ir.Type) -> ir.Value:
    """The buffer under the shape of a tensor, of whose extents more are known."""
    ranked = ir.RankedTensorType(kind)
    return memref.CastOp(ir.MemRefType.get(ranked.shape, ranked.element_type), buffer).result
