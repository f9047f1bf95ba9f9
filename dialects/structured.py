"""Constants, ``linalg.generic``, and what is made of it: elementwise maps, reductions, contractions.

Used through ``dialects.builders``.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..model import bits_of
from ..sizes import Extent, Sym, if_equal, is_open
from . import arith, cf, extents, ir, linalg, scalars, tensor

MAX_CONSTANT = 64  # elements of a constant in the IR, unless it is a splat

# A result expression: a loop dim, None for the constant 0, or an affine expression.
MapItem = int | None | ir.AffineExpr
MapSpec = ir.AffineMap | Sequence[MapItem]
Body = Callable[..., ir.Value | Sequence[ir.Value]]

_ITERATORS = {"p": "parallel", "r": "reduction"}


def shape_of(value: ir.Value) -> tuple[Any, ...]:
    """The shape of a tensor value, of extents: who needs a number where there is a symbol gets its OpenExtentError."""
    return extents.noted(value)


def element_of(value: ir.Value) -> ir.Type:
    """The element type of a tensor value."""
    type_: Any = value.type
    return type_.element_type


def ranked(shape: Sequence[Extent], elem: ir.Type) -> ir.RankedTensorType:
    """``tensor<shape x elem>``."""
    return ir.RankedTensorType.get([*map(extents.as_type_extent, shape)], elem)


def scalar(number: float | int, type_: ir.Type) -> ir.Value:
    """A scalar constant."""
    return scalars.const(number, type_)


def constant(array: np.ndarray, elem: ir.Type) -> ir.Value:
    """A constant tensor of at most ``MAX_CONSTANT`` elements, or a splat of any size."""
    type_ = ranked(array.shape, elem)
    items = array.reshape(-1)
    if not array.size:
        return empty(array.shape, elem)
    if is_splat(array):
        return arith.constant(type_, ir.DenseElementsAttr.get_splat(type_, _attribute(items[0], elem)))
    if array.size > MAX_CONSTANT:
        raise ValueError(f"a constant of {array.size} elements does not belong into the IR: make it a param")
    return arith.constant(type_, ir.DenseElementsAttr.get([_attribute(x, elem) for x in items], type_))


def is_splat(array: np.ndarray) -> bool:
    """Whether all elements have the same bits; of a broadcast array only the real elements are looked at."""
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
    fill = linalg.FillOp([out.type], [value], [out])
    linalg.fill_builtin_region(fill.operation)  # type: ignore[attr-defined]  # left out of the stubs
    return extents.note(fill.results[0], shape)


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
    kinds = ir.ArrayAttr.get([ir.Attribute.parse(f"#linalg.iterator_type<{_ITERATORS[i]}>") for i in iterators])
    op = linalg.GenericOp([out.type for out in outs], list(inputs), list(outs), array, kinds)
    elements = [element_of(value) for value in (*inputs, *outs)]
    block = op.regions[0].blocks.append(*elements, arg_locs=[ir.Location.current] * len(elements))
    with ir.InsertionPoint(block):
        made = body(*block.arguments)
        values = [made] if isinstance(made, ir.Value) else list(made)
        linalg.YieldOp([scalars.narrow(v, element_of(out)) for v, out in zip(values, outs, strict=True)])
    return [extents.note(result, shape_of(out)) for result, out in zip(op.results, outs, strict=True)]


def elementwise(body: Body, *inputs: ir.Value, shape: Sequence[Extent] | None = None, elem: ir.Type) -> ir.Value:
    """``out[i] = body(a[i], b[i], …)`` with numpy's broadcasting; ``shape`` is the broadcast one by default.

    ``body`` sees narrow floats widened to f32 and may return f32 (or an i1 for a bool) in their place.
    """
    shape = tuple(shape) if shape is not None else broadcast_shape(*map(shape_of, inputs))
    inputs = tuple(stretched(value, shape) for value in inputs)
    rank = len(shape)
    maps = [_broadcast_map(shape_of(value), shape) for value in inputs]
    widened = _widened(body, len(inputs))
    return generic(inputs, [empty(shape, elem)], [*maps, range(rank)], "p" * rank, widened)[0]


def broadcast_shape(*shapes: Sequence[Extent]) -> tuple[Extent, ...]:
    """The common shape by numpy's rules; ValueError where there is none.

    Where only the run knows which of two extents is 1, it is the other one.
    """
    rank = max(map(len, shapes), default=0)
    aligned = [(*[1] * (rank - len(shape)), *shape) for shape in shapes]
    return tuple(_common_extent(list(dict.fromkeys(column))) for column in zip(*aligned, strict=True))


def _common_extent(found: list[Extent]) -> Extent:
    wide = [extent for extent in found if extent != 1]
    numbers = [extent for extent in wide if isinstance(extent, int)]
    if len(numbers) > 1:
        raise ValueError(f"extents {' and '.join(map(str, numbers))} do not broadcast")
    if numbers:  # an open extent beside a number is that number, or 1
        return numbers[0]
    common, *others = wide or [1]
    for extent in others:
        common = if_equal(common, 1, extent, common)
    return common


def stretched(value: ir.Value, shape: Sequence[Extent]) -> ir.Value:
    """An operand whose open extents may be 1 where the shape has more: repeated along those if they are.

    That is a choice of the program between the operand itself and a tensor that is made of it, of no elements where
    nothing is to be repeated.
    """
    own = shape_of(value)
    first = len(shape) - len(own)
    unsure = [d for d, n in enumerate(own) if n not in (1, shape[first + d]) and (isinstance(n, Sym) or n > 1)]
    if not unsure:
        return value
    target = [shape[first + d] if d in unsure else n for d, n in enumerate(own)]
    fits = functools.reduce(arith.andi, [_fits(own[d], target[d]) for d in unsure])
    none = extents.fresh(arith.select(fits, index_constant(0), extents.index(target[unsure[0]])), "repeated", 0)

    def body(*at: ir.Value) -> ir.Value:
        place = list(at)
        for d in unsure:
            last = arith.subi(extents.index(own[d]), scalars.const(1, ir.IndexType.get()))
            place[d] = arith.minsi(place[d], last)
        return extract(value, place)

    made = [none if d == unsure[0] else n for d, n in enumerate(target)]
    repeated = _with_open(index_map(made, element_of(value), body), unsure)
    return _as_shape(arith.select(fits, _with_open(value, unsure), repeated), target)


def _fits(own: Extent, target: Extent) -> ir.Value:
    """Whether an extent is that of the shape; if not, the program demands that it is 1."""
    fits, alone = (_equal(own, extent) for extent in (target, 1))
    cf.assert_(arith.ori(fits, alone), f"shapes do not broadcast: {own} is neither 1 nor what the others have")
    return fits


def _equal(a: Extent, b: Extent) -> ir.Value:
    return arith.cmpi(arith.CmpIPredicate.eq, extents.index(a), extents.index(b))


def _with_open(value: ir.Value, axes: Sequence[int]) -> ir.Value:
    """The tensor, of a type with open extents along the axes."""
    kind = ir.RankedTensorType(value.type)
    shape = [ir.ShapedType.get_dynamic_size() if d in axes else n for d, n in enumerate(kind.shape)]
    wanted = ir.RankedTensorType.get(shape, kind.element_type)
    return value if wanted == kind else tensor.CastOp(wanted, value).result


def _as_shape(value: ir.Value, shape: Sequence[Extent]) -> ir.Value:
    """The tensor under its shape as it is known, which gives its type."""
    kind = ranked(shape, element_of(value))
    return extents.note(value if kind == value.type else tensor.CastOp(kind, value).result, shape)


def index_map(shape: Sequence[Extent], elem: ir.Type, body: Body) -> ir.Value:
    """``out[i, j, …] = body(i, j, …)``: ``body`` gets indices and may ``extract`` from tensors; clamps are its own."""
    rank = len(shape)

    def indexed(_out: ir.Value) -> ir.Value | Sequence[ir.Value]:
        return body(*(linalg_index(dim) for dim in range(rank)))

    return generic([], [empty(shape, elem)], [range(rank)], "p" * rank, indexed)[0]


def index_constant(value: int) -> ir.Value:
    """A constant of type index."""
    return arith.ConstantOp(ir.IndexType.get(), value).result


def linalg_index(dim: int) -> ir.Value:
    """The index of a loop of the enclosing ``linalg.generic``."""
    return linalg.IndexOp(ir.IntegerAttr.get(ir.IntegerType.get_signless(64), dim)).result


def extract(source: ir.Value, indices: Sequence[ir.Value]) -> ir.Value:
    """The element at index values, widened if it is a narrow float."""
    return scalars.widen(tensor.ExtractOp(source, list(indices)).result)


def convert_elements(value: ir.Value, elem: ir.Type) -> ir.Value:
    """The tensor with its floats widened or rounded to ``elem``; itself where nothing changes."""
    return value if element_of(value) == elem else elementwise(lambda a: a, value, elem=elem)


def reduce(body: Body, init: float | int, x: ir.Value, axes: Sequence[int]) -> ir.Value:
    """Reduce ``axes`` away: ``acc = body(acc, element)`` from ``init``; narrow floats accumulate in f32."""
    shape = shape_of(x)
    dropped = {axis % len(shape) for axis in axes} if shape else set()
    kept = [axis for axis in range(len(shape)) if axis not in dropped]
    acc = scalars.compute_type(element_of(x))
    out = full([shape[axis] for axis in kept], scalar(init, acc))
    iterators = "".join("r" if axis in dropped else "p" for axis in range(len(shape)))
    result = generic([x], [out], [range(len(shape)), kept], iterators, lambda a, c: body(c, scalars.widen(a)))[0]
    return convert_elements(result, element_of(x))


def contract(spec: str, a: ir.Value, b: ir.Value, elem: ir.Type | None = None) -> ir.Value:
    """A contraction in einsum's notation (``"bmk,bkn->bmn"``), with letters that name loops; sums products.

    Loops are ordered as the output's letters, then the reduced ones in the order they appear. A letter whose extent
    is 1 in one operand and larger in the other broadcasts. ``elem`` is the result's element type, the operands' by
    default.
    """
    terms, output = spec.split("->")
    left, right = terms.split(",")
    letters = list(dict.fromkeys(output + left + right))
    sizes: dict[str, Extent] = {}
    for letter, extent in zip(left + right, (*shape_of(a), *shape_of(b)), strict=True):
        before = sizes.get(letter, 1)
        if 1 not in (before, extent) and is_open((before, extent)):
            extents.demand_equal(before, extent, "the extents of a product differ")
        if letter not in sizes or sizes[letter] == 1 or extent == 0 or isinstance(sizes[letter], Sym):
            sizes[letter] = extent if extent != 1 or letter not in sizes else sizes[letter]
    maps = [_letters_map(letters, left, shape_of(a), sizes), _letters_map(letters, right, shape_of(b), sizes)]
    return contraction(
        (a, b),
        maps,
        [sizes[letter] for letter in output],
        [letters.index(letter) for letter in output],
        len(letters) - len(output),
        elem or element_of(a),
    )


def contraction(
    inputs: Sequence[ir.Value],
    maps: Sequence[MapSpec],
    shape: Sequence[Extent],
    out_map: MapSpec,
    reduced: int,
    elem: ir.Type,
) -> ir.Value:
    """``out += a * b`` from zero, reducing the last ``reduced`` loops; narrow floats accumulate in f32."""
    acc = scalars.compute_type(elem)
    out = full(shape, scalar(0, acc))

    def body(a: ir.Value, b: ir.Value, c: ir.Value) -> ir.Value:
        return scalars.fma(_operand(a, acc), _operand(b, acc), c)

    result = generic(inputs, [out], [*maps, out_map], "p" * len(shape) + "r" * reduced, body)[0]
    return convert_elements(result, elem)


def _operand(value: ir.Value, acc: ir.Type) -> ir.Value:
    # Integer operands narrower than the accumulator are signed: who has unsigned ones widens them before.
    value = scalars.widen(value)
    return value if value.type == acc else arith.extsi(acc, value)


def _letters_map(letters: list[str], term: str, shape: tuple[Extent, ...], sizes: dict[str, Extent]) -> list[MapItem]:
    return [
        None if n == 1 and sizes[letter] != 1 else letters.index(letter) for letter, n in zip(term, shape, strict=True)
    ]


def _broadcast_map(shape: Sequence[Extent], target: Sequence[Extent]) -> list[MapItem]:
    first = len(target) - len(shape)
    return [None if n == 1 and target[first + d] != 1 else first + d for d, n in enumerate(shape)]


def _widened(body: Body, count: int) -> Body:
    return lambda *args: body(*map(scalars.widen, args[:count]))


def _expr(item: MapItem) -> ir.AffineExpr:
    if item is None:
        return ir.AffineExpr.get_constant(0)
    return item if isinstance(item, ir.AffineExpr) else ir.AffineExpr.get_dim(item)


def _attribute(item: Any, elem: ir.Type) -> ir.Attribute:
    return scalars.attribute(bits_of(item) if isinstance(item, np.complexfloating) else item, elem)
