"""Destination-passing style: a kernel that gives tensors becomes one that writes them into buffers it is given.

Its sizes become arguments too, and the part of its steps to do.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from ....dialects import arith, func, ir, memref, tensor, tw
from ....dialects.builders import index_constant
from ....dialects.types import DYNAMIC
from ...ir.kernel import count_of, integer_attr, symbol_of
from ..tiles.buffers import tensor_of, write

DestinationBody = Callable[[dict[ir.Value, ir.Value], list[ir.Value], ir.Value, ir.Value], list[ir.Value]]


def destination_passing(
    function: func.FuncOp, body: DestinationBody, view: Callable[[ir.Type], ir.Type] = lambda t: t
) -> ir.Module:
    """A module of its own with ``@name(inputs…, results…: memref, lo, hi: index)`` around ``body``'s tensors.

    A body that writes its results itself returns none. ``view`` gives the tensor type that the body sees a value's
    buffer as.
    """
    module = ir.Module.create()
    inputs = [view(t) for t in function.type.inputs if isinstance(t, ir.RankedTensorType)]
    results, index = [view(t) for t in function.type.results], ir.IndexType.get()
    buffers, sizes = [_buffer_type(t) for t in (*inputs, *results)], _count_sizes(function)
    with ir.InsertionPoint(module.body):
        made = func.FuncOp(symbol_of(function), ([*buffers, *[index] * (sizes + 2)], []))
    if sizes:
        made.attributes[tw.SIZES] = integer_attr(sizes)
    block = made.add_entry_block()
    with ir.InsertionPoint(block):
        arguments, given = list(block.arguments), iter(list(block.arguments)[len(buffers) :])
        outputs = arguments[len(inputs) : len(buffers)]
        tensors = [_to_tensor(t, reshape_buffer(t, a, given)) for t, a in zip(inputs, arguments, strict=False)]
        own = [next(given) for t in function.type.inputs if isinstance(t, ir.IndexType)]
        extents = iter(own[len(own) - count_of(function, tw.RESULT_SIZES) :])
        places = [reshape_buffer(t, o, extents) for t, o in zip(results, outputs, strict=True)]
        dests = [_to_tensor(t, o, writable=True) for t, o in zip(results, places, strict=True)]
        mapping = dict(zip(function.arguments, [*tensors, *own], strict=True))
        if tw.OVER in function.attributes:
            mapping[function.arguments[count_of(function, tw.OVER)]] = dests[0]
        made_values = body(mapping, dests, arguments[-2], arguments[-1])
        for value, buffer in zip(made_values, places, strict=bool(made_values)):
            if not is_empty(value.type):
                write(value, buffer)
        func.ReturnOp([])
    return module


def _count_sizes(function: func.FuncOp) -> int:
    """How many sizes a kernel takes: the open extents of its tensors, then those that it is given."""
    kinds = list(function.type.inputs)
    open_ = [t for kind in kinds if isinstance(kind, ir.RankedTensorType) for t in kind.shape if t < 0]
    return len(open_) + sum(isinstance(kind, ir.IndexType) for kind in kinds)


def reshape_buffer(kind: ir.Type, buffer: ir.Value, extents: Iterator[ir.Value]) -> ir.Value:
    """A buffer, whose elements lie one after another, under a tensor's shape; open extents are the next ``extents``."""
    ranked = ir.RankedTensorType(kind)
    if ranked.has_static_shape:
        return buffer
    shape = [next(extents) if extent < 0 else extent for extent in ranked.shape]
    strides: list[int | ir.Value] = [1]
    for extent in reversed(shape[1:]):
        strides.insert(0, _multiply_extents(strides[0], extent))
    mixed = [([n for n in part if isinstance(n, ir.Value)], [_to_static(n) for n in part]) for part in (shape, strides)]
    target = ir.MemRefType.get(ranked.shape, ranked.element_type)
    (sizes, static_sizes), (steps, static_steps) = mixed
    return memref.ReinterpretCastOp(target, buffer, [], sizes, steps, [0], static_sizes, static_steps).result


def _multiply_extents(a: int | ir.Value, b: int | ir.Value) -> int | ir.Value:
    if isinstance(a, int) and isinstance(b, int):
        return a * b
    return arith.muli(*(index_constant(n) if isinstance(n, int) else n for n in (a, b)))


def _to_static(extent: int | ir.Value) -> int:
    return extent if isinstance(extent, int) else DYNAMIC


def _buffer_type(kind: ir.Type) -> ir.Type:
    """A tensor's buffer; one without elements has rank 1: a stride of 0 has no form as a bare pointer.

    One whose sizes only the run knows is a pointer to an element until ``reshape_buffer`` has said more.
    """
    ranked = ir.RankedTensorType(kind)
    if not ranked.has_static_shape:
        return ir.MemRefType.get([1], ranked.element_type)
    return ir.MemRefType.get([0] if is_empty(kind) else ranked.shape, ranked.element_type)


def _to_tensor(kind: ir.Type, buffer: ir.Value, writable: bool = False) -> ir.Value:
    """The tensor that lies in a buffer; there is nothing to read or write where it has no elements."""
    if is_empty(kind):
        ranked = ir.RankedTensorType(kind)
        dims = [index_constant(axis) if n < 0 else None for axis, n in enumerate(ranked.shape)]
        shape = [
            n if dim is None else memref.DimOp(buffer, dim).result for n, dim in zip(ranked.shape, dims, strict=True)
        ]
        return tensor.EmptyOp(shape, ranked.element_type).result
    return tensor_of(buffer, writable)


def is_empty(kind: ir.Type) -> bool:
    """Return whether a tensor of this type has no elements, whatever its dynamic extents are."""
    return 0 in ir.RankedTensorType(kind).shape
