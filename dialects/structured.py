"""Constants, new tensors, and ``linalg.generic`` with its indexing maps, of which the other builders are made.

Used through ``dialects.builders``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..core.model import bits_of
from ..core.sizes import Extent, Sym
from . import arith, extents, ir, linalg, scalars, tensor
from .types import DYNAMIC

MAX_CONSTANT = 64  # elements of a constant in the IR, unless it is a splat

# A result expression: a loop dim, None for the constant 0, or an affine expression.
MapItem = int | None | ir.AffineExpr
MapSpec = ir.AffineMap | Sequence[MapItem]
Body = Callable[..., ir.Value | Sequence[ir.Value]]

_MOST_EXTENT = (1 << 63) - 1
_ITERATORS = {"p": "parallel", "r": "reduction"}


def shape_of(value: ir.Value) -> tuple[Any, ...]:
    """The shape of a tensor value, of extents: who needs a number where there is a symbol gets its OpenExtentError."""
    return extents.recall_shape(value)


def element_of(value: ir.Value) -> ir.Type:
    """The element type of a tensor value."""
    type_: Any = value.type
    return type_.element_type


def ranked_type(shape: Sequence[Extent], elem: ir.Type) -> ir.RankedTensorType:
    """``tensor<shape x elem>``. ValueError for an extent that no tensor has."""
    if any(not isinstance(n, Sym) and int(n) != DYNAMIC and not 0 <= n <= _MOST_EXTENT for n in shape):
        raise ValueError(f"there is no tensor of shape {list(shape)}")
    return ir.RankedTensorType.get([*map(extents.as_type_extent, shape)], elem)


def scalar(number: float | int, type_: ir.Type) -> ir.Value:
    """A scalar constant."""
    return scalars.const(number, type_)


def constant(array: np.ndarray, elem: ir.Type) -> ir.Value:
    """A constant tensor of at most ``MAX_CONSTANT`` elements, or a splat of any size."""
    type_ = ranked_type(array.shape, elem)
    items = array.reshape(-1)
    if not array.size:
        return empty(array.shape, elem)
    if is_splat(array):
        return arith.constant(type_, ir.DenseElementsAttr.get_splat(type_, _attribute(items[0], elem)))
    if array.size > MAX_CONSTANT:
        raise ValueError(f"a constant of {array.size} elements does not belong into the IR: make it a param")
    return arith.constant(type_, ir.DenseElementsAttr.get([_attribute(x, elem) for x in items], type_))


def is_splat(array: np.ndarray) -> bool:
    """Return whether all elements have the same bits; of a broadcast array only the real elements are looked at."""
    core = array[tuple(slice(0, 1) if step == 0 else slice(None) for step in array.strides)]
    items = np.ascontiguousarray(core).reshape(-1).view(np.uint8).reshape(core.size, -1)
    return bool((items == items[:1]).all())


def empty(shape: Sequence[Extent], elem: ir.Type) -> ir.Value:
    """An uninitialised tensor."""
    sizes = [extents.index(n) if isinstance(n, Sym) else n for n in shape]
    return extents.note(tensor.EmptyOp(sizes, elem).result, shape)


def full(shape: Sequence[Extent], value: ir.Value) -> ir.Value:
    """``linalg.fill`` of a new tensor with a scalar value."""
    out = empty(shape, value.type)
    return extents.note(linalg.fill(value, out), shape)


def affine_map(dims: int, spec: MapSpec) -> ir.AffineMap:
    """An indexing map over ``dims`` loops: ``(0, None, 2)`` is ``(d0, d1, d2) -> (d0, 0, d2)``."""
    if isinstance(spec, ir.AffineMap):
        return spec
    return ir.AffineMap.get(dims, 0, [_expr(item) for item in spec])


def generic(
    inputs: Sequence[ir.Value], outs: Sequence[ir.Value], maps: Sequence[MapSpec], iterators: str, body: Body
) -> list[ir.Value]:
    """``linalg.generic``: ``iterators`` has a letter for each loop, ``p`` parallel and ``r`` reduction.

    ``maps`` are those of the inputs, then of the outs. ``body`` takes a scalar of each in that order and returns what
    is stored; i1 and floats are brought to the element types of ``outs``.
    """
    array = ir.ArrayAttr.get([ir.AffineMapAttr.get(affine_map(len(iterators), spec)) for spec in maps])
    kinds = iterators_attr([_ITERATORS[letter] for letter in iterators])
    op = linalg.GenericOp([out.type for out in outs], list(inputs), list(outs), array, kinds)
    elements = [element_of(value) for value in (*inputs, *outs)]
    block = op.regions[0].blocks.append(*elements, arg_locs=[ir.Location.current] * len(elements))
    with ir.InsertionPoint(block):
        made = body(*block.arguments)
        values = [made] if isinstance(made, ir.Value) else list(made)
        linalg.YieldOp([scalars.narrow(v, element_of(out)) for v, out in zip(values, outs, strict=True)])
    return [extents.note(result, shape_of(out)) for result, out in zip(op.results, outs, strict=True)]


def iterators_attr(kinds: Sequence[str]) -> ir.ArrayAttr:
    """The attribute of iterator types from their names."""
    return ir.ArrayAttr.get([ir.Attribute.parse(f"#linalg.iterator_type<{kind}>") for kind in kinds])


def index_map(shape: Sequence[Extent], elem: ir.Type, body: Body) -> ir.Value:
    """``out[i, j, …] = body(i, j, …)``: ``body`` gets indices and may ``extract`` from tensors; clamps are its own."""
    rank = len(shape)

    def indexed(_out: ir.Value) -> ir.Value | Sequence[ir.Value]:
        return body(*(linalg_index(dim) for dim in range(rank)))

    return generic([], [empty(shape, elem)], [range(rank)], "p" * rank, indexed)[0]


def linalg_index(dim: int) -> ir.Value:
    """The index of a loop of the enclosing ``linalg.generic``."""
    return linalg.IndexOp(ir.IntegerAttr.get(ir.IntegerType.get_signless(64), dim)).result


def extract(source: ir.Value, indices: Sequence[ir.Value]) -> ir.Value:
    """The element at index values, widened if it is a narrow float."""
    return scalars.widen(tensor.ExtractOp(source, list(indices)).result)


def _expr(item: MapItem) -> ir.AffineExpr:
    if item is None:
        return ir.AffineExpr.get_constant(0)
    return item if isinstance(item, ir.AffineExpr) else ir.AffineExpr.get_dim(item)


def _attribute(item: Any, elem: ir.Type) -> ir.Attribute:
    return scalars.attribute(bits_of(item) if isinstance(item, np.complexfloating) else item, elem)
