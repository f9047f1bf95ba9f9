"""Reading ops: their bodies, the shapes of tensors; of structured ones maps from loops to dims, iterators, extents."""

from __future__ import annotations

import re
from collections.abc import Hashable, Sequence

from ...dialects import ir, linalg
from ...dialects.types import is_dynamic_type, is_static_type
from ...dialects.walk import list_items
from .dynamic_extent import DynamicExtent
from .facts import known_facts

AnyOp = ir.Operation | ir.OpView

_ITERATOR = re.compile(r"iterator_type<(\w+)>")


def is_tensor(value: ir.Value) -> bool:
    """Return whether a value is a ranked tensor."""
    return isinstance(value.type, ir.RankedTensorType)


def is_static(value: ir.Value) -> bool:
    """Return whether a value is a ranked tensor without dynamic extents."""
    return is_static_type(value.type)


def shape_of(value: ir.Value) -> list[int]:
    """The extents of a tensor value; a ``DynamicExtent``, which is less than 0, where only the run knows one."""
    shape = ir.RankedTensorType(value.type).shape
    return [DynamicExtent((value, axis)) if n < 0 else n for axis, n in enumerate(shape)]


def is_dynamic(op: AnyOp) -> bool:
    """Return whether an operand or result is a tensor of a size known only at run time."""
    return any(is_dynamic_type(value.type) for value in (*op.operands, *op.results))


def is_structured(op: AnyOp) -> bool:
    """Return whether the op is a linalg op on tensors with indexing maps and a body."""
    op = op.operation
    name = op.name
    if not name.startswith("linalg.") or len(op.regions) != 1 or not len(op.results):
        return False
    if name == "linalg.generic":
        return True
    if "operandSegmentSizes" not in op.attributes or not (blocks := list(op.regions[0].blocks)):
        return False
    return any(inner.operation.name == "linalg.yield" for inner in blocks[0].operations)


def indexing_maps(op: AnyOp) -> list[ir.AffineMap]:
    """The maps from loops to operand dims, inputs first, then outputs."""
    op = op.operation
    if op.name == "linalg.generic":
        return list(_maps_of(op.attributes["indexing_maps"]))
    return [ir.AffineMapAttr(a).value for a in linalg.get_indexing_maps(op) or []]


def _maps_of(attribute: ir.Attribute) -> Sequence[ir.AffineMap]:
    facts = known_facts()
    if facts is None:
        return [ir.AffineMapAttr(a).value for a in list_items(ir.ArrayAttr(attribute))]
    key = ("maps", attribute)
    if (maps := facts.get(key)) is None:
        maps = facts[key] = [ir.AffineMapAttr(a).value for a in list_items(ir.ArrayAttr(attribute))]
    return maps


def iterator_types(op: AnyOp) -> list[str]:
    """``parallel``, ``reduction`` or ``window`` for each loop."""
    op = op.operation
    if "iterator_types" in op.attributes:
        return list(_iterators_of(op.attributes["iterator_types"]))
    maps = indexing_maps(op)  # a named op keeps its iterator types in C++: a loop that no output has is a reduction
    outputs = {d for m in maps[num_inputs(op) :] for e in m.results for d in dims_in(e)}
    return ["parallel" if d in outputs else "reduction" for d in range(maps[0].n_dims if maps else 0)]


def has_reduction(op: AnyOp) -> bool:
    """Return whether a generic has a loop that is a reduction."""
    return "reduction" in _iterators_of(op.operation.attributes["iterator_types"])


def _iterators_of(attribute: ir.Attribute) -> Sequence[str]:
    facts = known_facts()
    if facts is None:
        return _ITERATOR.findall(str(attribute))
    key = ("iterators", attribute)
    if (iterators := facts.get(key)) is None:
        iterators = facts[key] = _ITERATOR.findall(str(attribute))
    return iterators


def loops_along(op: AnyOp, number: int) -> list[int | None]:
    """For each dim of an operand the loop that alone walks it, None where none does; -1 is the last, the result's."""
    return [dim_of(expr) for expr in indexing_maps(op)[number].results]


def num_inputs(op: AnyOp) -> int:
    """How many of a structured op's operands are inputs; the rest are the outputs' initial values."""
    return int(ir.DenseI32ArrayAttr(op.operation.attributes["operandSegmentSizes"])[0])


def describe_operands(op: ir.Operation) -> Hashable:
    """All that the loops of a generic depend on, as far as they are known: its maps and the types of its operands."""
    return (op.attributes["indexing_maps"], *(v.type for v in op.operands))


def loop_extents(op: AnyOp) -> list[int]:
    """The extent of each loop; a ``DynamicExtent``, which is less than 0, where only the run knows it."""
    facts, op = known_facts(), op.operation
    if facts is None or op.name != "linalg.generic":
        return _find_extents(op)
    key = ("extents", describe_operands(op))
    if (extents := facts.get(key)) is not None:
        return list(extents)
    extents = _find_extents(op)
    if all(extent >= 0 for extent in extents):  # others are the op's own
        facts[key] = tuple(extents)
    return extents


def _find_extents(op: ir.Operation) -> list[int]:
    maps = indexing_maps(op)
    extents: list[int | None] = [None] * (maps[0].n_dims if maps else 0)
    for operand, m in zip(op.operands, maps, strict=True):
        for extent, expr in zip(shape_of(operand) if m.results else [], m.results, strict=True):
            dim = dim_of(expr)
            if dim is not None and (extents[dim] is None or extent >= 0):
                extents[dim] = extent
    return [DynamicExtent((op, loop)) if e is None else e for loop, e in enumerate(extents)]


def list_ops(op: AnyOp) -> list[ir.Operation]:
    """The ops of a function, or of a structured op's body, in order, with the one that ends it."""
    return [inner.operation for inner in list_items(op.operation.regions[0].blocks[0].operations)]


def body_ops(op: AnyOp) -> list[ir.Operation]:
    """``operations`` without the one that ends them."""
    return list_ops(op)[:-1]


def terminator_of(op: AnyOp) -> ir.Operation:
    """The op that ends a function or the body of an op of one block: its operands are the results."""
    return op.operation.regions[0].blocks[0].operations[-1].operation


def index_dim(op: ir.Operation) -> int:
    """The loop of a ``linalg.index``."""
    return ir.IntegerAttr(op.attributes["dim"]).value


def dim_of(expr: ir.AffineExpr) -> int | None:
    """The loop of a map result that is one loop alone, else None."""
    return expr.position if isinstance(expr, ir.AffineDimExpr) else None


def dims_in(expr: ir.AffineExpr) -> set[int]:
    """All loops in a map result."""
    if isinstance(expr, ir.AffineDimExpr):
        return {expr.position}
    if isinstance(expr, ir.AffineBinaryExpr):
        return dims_in(expr.lhs) | dims_in(expr.rhs)
    return set()


def is_projection(m: ir.AffineMap) -> bool:
    """Return whether each result is a loop of its own or the constant 0."""
    dims = [d for d in (dim_of(e) for e in m.results) if d is not None]
    return len(set(dims)) == len(dims) and all(map(is_dim_or_zero, m.results))


def is_zero(expr: ir.AffineExpr) -> bool:
    """Return whether a map result is the constant 0."""
    return isinstance(expr, ir.AffineConstantExpr) and expr.value == 0


def is_dim_or_zero(expr: ir.AffineExpr) -> bool:
    """Return whether a map result is one loop alone or the constant 0."""
    return dim_of(expr) is not None or is_zero(expr)


def same_form(a: AnyOp, b: AnyOp) -> bool:
    """Return whether two generics have the same maps and bodies; values from outside must be the same ones."""
    a, b = a.operation, b.operation
    if a.attributes["indexing_maps"] != b.attributes["indexing_maps"]:
        return False
    if a.attributes["iterator_types"] != b.attributes["iterator_types"]:
        return False
    blocks = [op.regions[0].blocks[0] for op in (a, b)]
    first, second = list_ops(a), list_ops(b)
    if len(first) != len(second) or len(blocks[0].arguments) != len(blocks[1].arguments):
        return False
    same = dict(zip(blocks[0].arguments, blocks[1].arguments, strict=True))
    for x, y in zip(first, second, strict=True):
        if x.name != y.name or dict(_list_attributes(x)) != dict(_list_attributes(y)) or len(x.regions):
            return False
        if [same.get(v, v) for v in x.operands] != list(y.operands):
            return False
        if [r.type for r in x.results] != [r.type for r in y.results]:
            return False
        same.update(zip(x.results, y.results, strict=True))
    return True


def _list_attributes(op: ir.Operation) -> list[tuple[str, ir.Attribute]]:
    return [(name, op.attributes[name]) for name in op.attributes]
