"""The border around what a kernel computes, for readers that want it padded or its rows apart.

A kernel may end in a ``tensor.pad`` of what it computes. Its tiles are then written at an offset, and the border is
filled by the call that computes the first step. Or it ends in a ``tensor.insert_slice`` into an empty tensor: nobody
reads what is around it then, and nothing is filled.
"""

from __future__ import annotations

from dataclasses import dataclass

from ...dialects import arith, ir, linalg, scf
from .loops import chunked
from .structured import (
    Interval,
    Linear,
    Region,
    defining_op,
    extract,
    index_constant,
    insert,
    outside,
    shape_of,
    vector_axis,
    without_unit_dims,
)

# What a kernel's result may end in, and the attribute that says where what it computes lies in it.
BORDERS = {"tensor.pad": "static_low", "tensor.insert_slice": "static_offsets"}
# Elements of the vectors that fill a border.
_FILL = 64


@dataclass(frozen=True)
class Border:
    """``inner`` is what the tiles are parts of; it lies at ``low`` in the kernel's ``result``, which ``op`` makes."""

    inner: ir.Value
    result: ir.Value
    low: tuple[int, ...]
    op: ir.Operation | None

    @staticmethod
    def of(result: ir.Value) -> Border:
        """The border of a kernel's result; one of no width where none of the two ops makes it."""
        op = defining_op(result)
        if op is None or op.name not in BORDERS:
            return Border(result, result, (0,) * len(shape_of(result)), None)
        return Border(op.operands[0], result, tuple(ir.DenseI64ArrayAttr(op.attributes[BORDERS[op.name]])), op)

    def place(self, region: Region) -> Region:
        """Where a region of ``inner`` lies in the squeezed result."""
        moved = tuple(Interval(i.offset + Linear(low), i.size) for i, low in zip(region, self.low, strict=True))
        return without_unit_dims(moved, shape_of(self.result))[0]

    def fill(self, dest: ir.Value, lo: ir.Value) -> ir.Value:
        """Fill the border where the range of steps begins at 0; returns the tensor that ``dest`` has become."""
        if self.op is None or self.op.name != "tensor.pad":
            return dest
        first = arith.cmpi(arith.CmpIPredicate.eq, lo, index_constant(0))
        branch = scf.IfOp(first, [dest.type], has_else=True)
        with ir.InsertionPoint(branch.then_block):
            filled = dest
            for slab in self._slabs():
                filled = _fill(self._value(), filled, without_unit_dims(slab, shape_of(self.result))[0])
            scf.YieldOp([filled])
        assert branch.else_block is not None
        with ir.InsertionPoint(branch.else_block):
            scf.YieldOp([dest])
        return branch.results[0]

    def _slabs(self) -> list[Region]:
        """The border in boxes that do not overlap: before and after ``inner`` along each axis."""
        shape, inner = shape_of(self.result), shape_of(self.inner)
        slabs = []
        for axis, low in enumerate(self.low):
            for start, size in ((0, low), (low + inner[axis], shape[axis] - inner[axis] - low)):
                before = [Interval(Linear(self.low[d]), inner[d]) for d in range(axis)]
                after = [Interval(Linear(), n) for n in shape[axis + 1 :]]
                if size:
                    slabs.append((*before, Interval(Linear(start), size), *after))
        return slabs

    def _value(self) -> ir.Value:
        assert self.op is not None
        return list(self.op.regions[0].blocks[0].operations)[-1].operands[0]


def can_border(op: ir.Operation) -> bool:
    """Whether a kernel can write this ``tensor.pad`` or ``tensor.insert_slice`` around what it computes.

    A constant around all but the axis that vectors lie along; or anything, if the rest is empty.
    """
    if op.name not in BORDERS or not ir.RankedTensorType(op.results[0].type).has_static_shape:
        return False
    if op.name == "tensor.insert_slice":
        return _is_into_empty(op)
    value = defining_op(list(op.regions[0].blocks[0].operations)[-1].operands[0])
    inner, outer = shape_of(op.operands[0]), shape_of(op.results[0])
    axis = vector_axis(outer)
    return len(op.operands) == 1 and value is not None and value.name == "arith.constant" and inner[axis] == outer[axis]


def _is_into_empty(op: ir.Operation) -> bool:
    """Whether an insertion is at a place known before, element by element, of as many dims, with nothing around it."""
    steps = list(ir.DenseI64ArrayAttr(op.attributes["static_strides"]))
    into = defining_op(op.operands[1])
    same_rank = len(shape_of(op.operands[0])) == len(steps)
    return (
        len(op.operands) == 2 and same_rank and set(steps) <= {1} and into is not None and into.name == "tensor.empty"
    )


def _fill(value: ir.Value, dest: ir.Value, region: Region) -> ir.Value:
    """Fill a box of a tensor, a vector at a time."""

    def loops(axis: int, box: Region, target: ir.Value) -> ir.Value:
        if axis == len(region):
            return insert(linalg.fill(outside(value), outs=[extract(target, box).value]), target, box)
        tile = min(_FILL, 1 << (region[axis].size.bit_length() - 1)) if axis == len(region) - 1 else 1

        def step(offset: Linear, size: int, carried: ir.Value) -> ir.Value:
            return loops(axis + 1, (*box, Interval(region[axis].offset + offset, size)), carried)

        return chunked(region[axis].size, tile, target, step)

    return loops(0, (), dest)
