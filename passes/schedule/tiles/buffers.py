"""Buffers as tensors: a buffer's tensor, a tensor written into one, and parts of one as buffers of their own."""

from __future__ import annotations

from ....dialects import arith, bufferization, ir, memref, vector
from ....dialects.builders import index_constant
from ....dialects.walk import defining_op
from .regions import Region, kept_dims, split_offsets


def view_of(buffer: ir.Value, region: Region) -> ir.Value:
    """A region of a buffer, without its dims of extent 1; a single element has one."""
    if not region:
        one = ir.MemRefType.get([1], ir.MemRefType(buffer.type).element_type)
        return memref.ReinterpretCastOp(one, buffer, [], [], [], [0], [1], [1]).result
    kept, (dynamic, static) = kept_dims(region), split_offsets(region)
    strides, first = ir.MemRefType(buffer.type).get_strides_and_offset()
    sizes = [interval.size for interval in region]
    offset = ir.ShapedType.get_dynamic_stride_or_offset()
    moved = [(n, stride) for n, stride in zip(static, strides, strict=True) if n != 0]
    if not dynamic and offset not in (first, *(stride for _, stride in moved)):
        offset = first + sum(n * stride for n, stride in moved)  # upstream wants the number where there is one
    layout = ir.StridedLayoutAttr.get(offset, [strides[d] for d in kept] or [1])
    open_ = [memref.DimOp(buffer, index_constant(d)).result for d, size in enumerate(sizes) if size < 0]
    kind = ir.MemRefType.get([sizes[d] for d in kept] or [1], ir.MemRefType(buffer.type).element_type, layout)
    return memref.SubViewOp(kind, buffer, dynamic, open_, [], static, sizes, [1] * len(sizes)).result


def tensor_of(buffer: ir.Value, writable: bool = False) -> ir.Value:
    """The tensor that lies in a buffer, which nothing else reads or writes."""
    kind = ir.MemRefType(buffer.type)
    return bufferization.to_tensor(
        ir.RankedTensorType.get(kind.shape, kind.element_type), buffer, restrict=True, writable=writable
    )


def write(value: ir.Value, buffer: ir.Value) -> None:
    """Let a tensor lie in a buffer."""
    bufferization.MaterializeInDestinationOp(None, value, buffer, restrict=True, writable=True)


def buffer_of(made: ir.Value) -> ir.Value:
    """The buffer in which a tensor of ``tensor_of`` lies."""
    source = defining_op(made)
    assert source is not None and source.name == "bufferization.to_tensor"
    return source.operands[0]


def find_first_lanes(lanes: int, count: ir.Value) -> ir.Value:
    """The first ``count`` lanes of a vector, as a mask."""
    narrow = ir.IntegerType.get_signless(32)
    counts = ir.VectorType.get([lanes], narrow)
    numbers = arith.index_cast(counts, vector.step(ir.VectorType.get([lanes], ir.IndexType.get())))
    return arith.cmpi(arith.CmpIPredicate.slt, numbers, vector.broadcast(counts, arith.index_cast(narrow, count)))


def find_lanes_between(lanes: int, first: ir.Value, end: ir.Value) -> ir.Value:
    """The lanes of a vector that lie in [0, ``end``) if it begins at ``first``, as a mask."""
    narrow = ir.IntegerType.get_signless(32)
    kind = ir.VectorType.get([lanes], narrow)
    numbers = arith.index_cast(kind, vector.step(ir.VectorType.get([lanes], ir.IndexType.get())))
    begin, after = (vector.broadcast(kind, arith.index_cast(narrow, value)) for value in (first, end))
    return arith.cmpi(arith.CmpIPredicate.ult, arith.addi(numbers, begin), after)
