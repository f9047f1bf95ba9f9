"""Merging generics: a producer's body moves into its reader, views of unit dims and scalar operands into the maps."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from ....dialects import arith, builders, ir, linalg
from ....dialects.builders import iterators_attr
from ....dialects.walk import defining_op, is_constant
from ...ir.edit import clone, fused_location, replace
from ...ir.maps import compose, covers_loops, reassociation_of, set_maps
from ...ir.routine_ops import VIEWS
from ...ir.structure import (
    body_ops,
    dim_of,
    index_dim,
    indexing_maps,
    is_dim_or_zero,
    is_tensor,
    iterator_types,
    loops_along,
    num_inputs,
    shape_of,
)
from ...ir.uses import find_captures, users_of


def can_inline(source: ir.Operation, reader: ir.Operation) -> bool:
    """Return whether ``inline`` applies: ``reader`` alone reads ``source``, elementwise, by one map."""
    if source.name != "linalg.generic" or reader.name != "linalg.generic" or users_of(source) != [reader]:
        return False
    if len(source.results) != 1 or set(iterator_types(source)) - {"parallel"}:
        return False
    arguments = source.regions[0].blocks[0].arguments
    if any(True for _ in arguments[len(arguments) - 1].uses):  # the initial value takes part
        return False
    out = loops_along(source, -1)
    if sorted(d for d in out if d is not None) != list(range(len(iterator_types(source)))):
        return False
    value, inputs = source.results[0], num_inputs(reader)
    if value in list(reader.operands)[inputs:] or value in find_captures(reader):
        return False
    reads = {str(m) for v, m in zip(reader.operands, indexing_maps(reader), strict=True) if v == value}
    if len(reads) != 1:
        return False
    place = _loops_of(source, reader)
    if any(op.name == "linalg.index" for op in body_ops(source)) and not all(map(is_dim_or_zero, place.results)):
        return False
    kept = [m for v, m in zip(reader.operands, indexing_maps(reader), strict=True) if v != value]
    return covers_loops([*kept, *(compose(m, place) for m in indexing_maps(source)[:-1])])


def inline(source: ir.Operation, reader: ir.Operation) -> ir.Operation:
    """Compute ``source`` in the body of ``reader``; erases both and returns the generic that takes their place.

    Before::

        %s = linalg.generic {exp} ins(%x)
        %r = linalg.generic {add} ins(%s, %b)

    After::

        %r = linalg.generic {exp, add} ins(%x, %b)
    """
    value, place, count = source.results[0], _loops_of(source, reader), num_inputs(reader)
    merged = _Operands()
    of_source = [
        merged.add(v, compose(m, place))
        for v, m in zip(list(source.operands)[:-1], indexing_maps(source)[:-1], strict=True)
    ]
    reader_maps = indexing_maps(reader)
    of_reader = {i: merged.add(reader.operands[i], reader_maps[i]) for i in range(count) if reader.operands[i] != value}
    location = fused_location([source, reader])
    with ir.InsertionPoint(reader), location:
        outs = list(reader.operands)[count:]
        maps = [*merged.maps, *reader_maps[count:]]
        op = _empty_generic(merged.values, outs, maps, iterator_types(reader))
        block = reader.regions[0].blocks[0]  # moves as it is: bodies grow long where one op after another is merged
        block.append_to(op.regions[0])
        old = list(block.arguments)
        arguments = [block.add_argument(t, location) for t in _elements([*merged.values, *outs])]
        with ir.InsertionPoint.at_block_begin(block):
            scalar = _inline_body(source, [arguments[i] for i in of_source], place)
        values = [arguments[of_reader[i]] if i in of_reader else scalar for i in range(count)]
        for before, after in zip(old, [*values, *arguments[len(merged.values) :]], strict=True):
            before.replace_all_uses_with(after)
        for _ in old:
            block.erase_argument(0)
    replace(reader, list(op.results))
    source.erase()
    return op


def fold_scalars(op: ir.Operation) -> ir.Operation:
    """Let the body use the scalar of inputs that are filled or splat constants; returns the op that remains."""
    count, maps = num_inputs(op), indexing_maps(op)
    scalars = {i: s for i in range(count) if (s := _scalar_source(op.operands[i])) is not None}
    kept = [i for i in range(count) if i not in scalars]
    if not scalars or not covers_loops([maps[i] for i in kept] + maps[count:]):
        return op
    with ir.InsertionPoint(op), op.location:
        constants = {i: s if isinstance(s, ir.Value) else _constant_of(s) for i, s in scalars.items()}
        outs = list(op.operands)[count:]
        new, block = _generic(
            [op.operands[i] for i in kept], outs, [maps[i] for i in kept] + maps[count:], iterator_types(op)
        )
        with ir.InsertionPoint(block):
            arguments = list(block.arguments)
            values = [constants[i] if i in constants else arguments[kept.index(i)] for i in range(count)]
            _clone_body(op, [*values, *arguments[len(kept) :]])
    replace(op, list(new.results))
    return new


def drop_unused_inputs(op: ir.Operation) -> ir.Operation:
    """Leave out the inputs that the body does not use; returns the op that remains."""
    count, arguments = num_inputs(op), list(op.regions[0].blocks[0].arguments)
    kept = [i for i in range(count) if any(True for _ in arguments[i].uses)]
    if len(kept) == count:
        return op
    maps = indexing_maps(op)
    kept_maps = [maps[i] for i in kept] + maps[count:]
    if not covers_loops(kept_maps):
        return op
    with ir.InsertionPoint(op), op.location:
        outs = list(op.operands)[count:]
        new, block = _generic([op.operands[i] for i in kept], outs, kept_maps, iterator_types(op))
        with ir.InsertionPoint(block):
            used = dict(zip(kept, block.arguments, strict=False))
            values = [used.get(i, block.arguments[0]) for i in range(count)]  # the others are not looked at
            _clone_body(op, [*values, *list(block.arguments)[len(kept) :]])
    replace(op, list(new.results))
    return new


def read_through_unit_views(op: ir.Operation) -> None:
    """Let inputs that are views which add or drop unit dims be read directly, by another map.

    Before::

        %v = tensor.expand_shape %s [[0, 1]] : tensor<4xf32> into tensor<4x1xf32>
        %r = linalg.generic {(a, b) -> (a, 0), ...} ins(%v, ...)

    After::

        %r = linalg.generic {(a, b) -> (a), ...} ins(%s, ...)
    """
    for i in range(num_inputs(op)):
        view = defining_op(op.operands[i])
        while view is not None and view.name in VIEWS and (m := _through(view, indexing_maps(op)[i])) is not None:
            maps = indexing_maps(op)
            maps[i] = m
            if not covers_loops(maps):
                break
            op.operands[i] = view.operands[0]
            set_maps(op, maps)
            view = defining_op(op.operands[i])


def _through(view: ir.Operation, m: ir.AffineMap) -> ir.AffineMap | None:
    """The map that reads a view's source where ``m`` reads the view; None where more than unit dims differ."""
    source, result = view.operands[0], view.results[0]
    if view.name == "tensor.cast":
        return None
    expands = view.name == "tensor.expand_shape"
    wide = shape_of(result if expands else source)
    zero = ir.AffineExpr.get_constant(0)
    results: list[ir.AffineExpr] = [zero] * len(shape_of(source))
    for narrow, group in enumerate(reassociation_of(view)):
        large = [d for d in group if wide[d] != 1]
        if len(large) > 1:
            return None
        if large:
            results[narrow if expands else large[0]] = m.results[large[0] if expands else narrow]
    return ir.AffineMap.get(m.n_dims, 0, results)


@dataclass
class _Operands:
    """Inputs of a generic in the making; the same value by the same map is one."""

    values: list[ir.Value] = field(default_factory=list)
    maps: list[ir.AffineMap] = field(default_factory=list)

    def add(self, value: ir.Value, m: ir.AffineMap) -> int:
        for i, (known, known_map) in enumerate(zip(self.values, self.maps, strict=True)):
            if known == value and known_map == m:
                return i
        self.values.append(value)
        self.maps.append(m)
        return len(self.values) - 1


def _loops_of(source: ir.Operation, reader: ir.Operation) -> ir.AffineMap:
    """From the reader's loops to the loops of ``source`` that compute the element which is read."""
    number = list(reader.operands).index(source.results[0])
    read, written = indexing_maps(reader)[number], indexing_maps(source)[-1]
    order = [dim_of(e) for e in written.results]
    return ir.AffineMap.get(read.n_dims, 0, [read.results[order.index(d)] for d in range(written.n_dims)])


def _generic(
    inputs: Sequence[ir.Value], outs: Sequence[ir.Value], maps: Sequence[ir.AffineMap], iterators: Sequence[str]
) -> tuple[ir.Operation, ir.Block]:
    op, elements = _empty_generic(inputs, outs, maps, iterators), _elements([*inputs, *outs])
    return op, op.regions[0].blocks.append(*elements, arg_locs=[op.location] * len(elements))


def _empty_generic(
    inputs: Sequence[ir.Value], outs: Sequence[ir.Value], maps: Sequence[ir.AffineMap], iterators: Sequence[str]
) -> ir.Operation:
    """A generic whose body is to be put into its region."""
    maps_attr = ir.ArrayAttr.get([ir.AffineMapAttr.get(m) for m in maps])
    return linalg.GenericOp([o.type for o in outs], inputs, outs, maps_attr, iterators_attr(iterators)).operation


def _elements(values: Sequence[ir.Value]) -> list[ir.Type]:
    """The type of each operand's element in a body."""
    return [builders.element_of(v) if is_tensor(v) else v.type for v in values]


def _inline_body(source: ir.Operation, inputs: Sequence[ir.Value], place: ir.AffineMap) -> ir.Value:
    """Clone the body of ``source`` for one element; returns what it would have stored."""
    block = source.regions[0].blocks[0]
    mapping: dict[ir.Value, ir.Value] = dict(zip(list(block.arguments)[:-1], inputs, strict=True))
    for op in body_ops(source):
        if op.name == "linalg.index":
            dim = dim_of(place.results[index_dim(op)])
            mapping[op.results[0]] = builders.index_constant(0) if dim is None else builders.linalg_index(dim)
        else:
            clone(op, mapping)
    stored = block.operations[len(block.operations) - 1].operation.operands[0]
    return mapping.get(stored, stored)


def _clone_body(op: ir.Operation, arguments: Sequence[ir.Value]) -> None:
    block = op.regions[0].blocks[0]
    mapping: dict[ir.Value, ir.Value] = dict(zip(block.arguments, arguments, strict=True))
    for inner in block.operations:
        clone(inner.operation, mapping)


def _scalar_source(value: ir.Value) -> ir.Value | ir.Attribute | None:
    """The scalar constant that fills a tensor: a value, or the attribute of a splat."""
    op = defining_op(value)
    if op is None or not is_tensor(value):
        return None
    if op.name == "linalg.fill":
        return op.operands[0] if is_constant(op.operands[0]) else None
    if op.name == "arith.constant" and isinstance(op.attributes["value"], ir.DenseElementsAttr):
        dense = ir.DenseElementsAttr(op.attributes["value"])
        return dense.get_splat_value() if dense.is_splat else None
    return None


def _constant_of(scalar: ir.Attribute) -> ir.Value:
    return arith.ConstantOp(scalar.type, scalar).result  # type: ignore[arg-type]  # an attribute is taken as it is
