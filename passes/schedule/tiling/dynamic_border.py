"""The border of a kernel of open sizes: a number around what its blocks compute, for a reader that wants it padded.

Such a kernel ends in a ``tensor.insert_slice`` into a filled tensor, or into an empty one where it is a gap between
rows, or into an argument, which holds other pieces of a concat. Its blocks are written into a view of the result's
buffer, and each range of steps fills its share of the border, or copies it where the result lies apart from the
argument.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from ....core.target import Target
from ....dialects import arith, builders, func, ir, memref, scf, tensor
from ....dialects.builders import element_of, index_constant
from ....dialects.types import DYNAMIC
from ....dialects.walk import defining_op, is_constant
from ...ir.dynamic_sizes import read_amounts
from ...ir.structure import shape_of, terminator_of
from ..tiles.regions import NotSchedulable
from ..tiles.structured import capture_scalar
from .strided_boxes import BoxRows, Place, find_extents

# The first and the end of so many rows that are a range of steps' share of them.
Share = Callable[[ir.Value], tuple[ir.Value, ir.Value]]


def is_dynamic_insertion(op: ir.Operation) -> bool:
    """Return whether an insertion into a tensor of dynamic sizes is at a place known before, of as many dims.

    The tensor is filled or empty, or there already: an argument, or what another kernel has inserted into.
    """
    return _is_insertion(op) and min(ir.DenseI64ArrayAttr(op.attributes["static_offsets"])) >= 0


def is_dynamic_padding(op: ir.Operation) -> bool:
    """Return whether an op puts a tensor into one of dynamic sizes that is filled with a constant, at a known place."""
    around = defining_op(op.operands[1]) if is_dynamic_insertion(op) else None
    return around is not None and around.name == "linalg.fill"


def _is_insertion(op: ir.Operation) -> bool:
    """``is_dynamic_insertion`` at any place."""
    if op.name != "tensor.insert_slice" or min(shape_of(op.results[0]), default=0) >= 0:
        return False
    steps = list(ir.DenseI64ArrayAttr(op.attributes["static_strides"]))
    return _is_known(op.operands[1]) and len(shape_of(op.operands[0])) == len(steps) and set(steps) <= {1}


def _is_known(around: ir.Value) -> bool:
    """Return whether it is known what lies around what is inserted, or that it does not matter."""
    op = defining_op(around)
    if op is not None and op.name == "linalg.fill":
        return is_constant(op.operands[0])
    return op is None or op.name in ("tensor.empty", "tensor.insert_slice")


def find_insertions(op: ir.Operation) -> list[ir.Operation]:
    """Insertions into a tensor that is empty before them, of which ``op`` is the last, in order.

    None where that is something else.
    """
    if not _is_insertion(op):
        return []
    around = defining_op(op.operands[1])
    if around is None or around.name != "tensor.insert_slice":
        return [op] if around is not None and around.name == "tensor.empty" else []
    before = find_insertions(around)
    return [*before, op] if before else []


@dataclass(frozen=True)
class DynamicBorder:
    """``inner`` is what the blocks are parts of; ``op`` puts it into the kernel's result, None where it is that."""

    inner: ir.Value
    op: ir.Operation | None

    @staticmethod
    def of(function: func.FuncOp) -> DynamicBorder:
        """The border of a kernel's one result. Raises NotSchedulable where there are several."""
        returned = list(terminator_of(function).operands)
        if len(returned) != 1:
            raise NotSchedulable("more than one result")
        op = defining_op(returned[0])
        bordered = op is not None and _is_insertion(op)
        return DynamicBorder(op.operands[0], op) if op is not None and bordered else DynamicBorder(returned[0], None)

    def view(self, buffer: ir.Value, arguments: Mapping[ir.Value, ir.Value]) -> ir.Value:
        """Where ``inner`` lies in the result's buffer."""
        if self.op is None:
            return buffer
        kind, sizes = ir.MemRefType(buffer.type), read_amounts(self.op, "sizes")
        layout = ir.StridedLayoutAttr.get(DYNAMIC, kind.get_strides_and_offset()[0])
        static = [n if isinstance(n, int) else DYNAMIC for n in sizes]
        given = [resolve_size(n, arguments) for n in sizes if isinstance(n, ir.Value)]
        low = self.find_low(arguments)
        made = ir.MemRefType.get(static, kind.element_type, layout)
        return memref.SubViewOp(made, buffer, low, given, [], [DYNAMIC] * len(low), static, [1] * len(low)).result

    def fill(
        self, buffer: ir.Value, inner: ir.Value, share: Share, arguments: Mapping[ir.Value, ir.Value], target: Target
    ) -> None:
        """Make a range of steps' share of what is around ``inner``."""
        if self.op is None:
            return
        around = defining_op(self.op.operands[1])
        if around is None:
            source = arguments[self.op.operands[1]].owner.operands[0]
            apart = arith.cmpi(arith.CmpIPredicate.ne, *map(memref.extract_aligned_pointer_as_index, (source, buffer)))
            with ir.InsertionPoint(scf.IfOp(apart).then_block):
                _surround([source, buffer], inner, self.find_low(arguments), share, target)
                scf.YieldOp([])
        elif around.name == "linalg.fill":  # else it lies in a gap that is never read
            value = capture_scalar(around.operands[0])
            _surround([buffer], inner, self.find_low(arguments), share, target, value)
        elif around.name == "tensor.insert_slice":
            raise NotSchedulable("other pieces around what is inserted")

    def find_low(self, arguments: Mapping[ir.Value, ir.Value]) -> list[ir.Value]:
        """Where ``inner`` begins along each axis."""
        assert self.op is not None
        given = iter(list(self.op.operands)[2:])
        offsets = ir.DenseI64ArrayAttr(self.op.attributes["static_offsets"])
        return [resolve_size(next(given), arguments) if n < 0 else index_constant(n) for n in offsets]


def _surround(
    buffers: Sequence[ir.Value],
    inner: ir.Value,
    low: Sequence[ir.Value],
    share: Share,
    target: Target,
    value: ir.Value | None = None,
) -> None:
    """Store a value around ``inner``, which is at ``low`` of the last of the buffers, or what the first has there."""
    whole, part = find_extents(buffers[-1]), find_extents(inner)
    high = [arith.addi(start, extent) for start, extent in zip(low, part, strict=True)]
    zero = index_constant(0)
    for axis in range(len(low)):
        for start, end in ((zero, low[axis]), (high[axis], whole[axis])):
            starts = [*low[:axis], start, *[zero] * (len(low) - axis - 1)]
            extents = [*part[:axis], arith.subi(end, start), *whole[axis + 1 :]]
            rows = BoxRows(extents, [Place.of(buffer, starts) for buffer in buffers], target, value)
            rows.emit(*share(rows.count))


def own_inner(function: func.FuncOp) -> None:
    """Let a kernel that only puts a border around an argument, or a slice, copy it: blocks are of what an op makes."""
    border = DynamicBorder.of(function)
    source = defining_op(border.inner)
    if border.op is None or (source is not None and source.name != "tensor.extract_slice"):
        return
    with ir.InsertionPoint(border.op), border.op.location:
        out = tensor.EmptyOp(read_amounts(border.op, "sizes"), element_of(border.inner)).result
        rank = len(shape_of(border.inner))
        [copy] = builders.generic([border.inner], [out], [range(rank), range(rank)], "p" * rank, lambda a, _: a)
        border.op.operands[0] = copy


def resolve_size(size: ir.Value, arguments: Mapping[ir.Value, ir.Value]) -> ir.Value:
    return arguments[size] if size in arguments else capture_scalar(size)
