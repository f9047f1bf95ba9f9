"""Tensors that are repeated along axes where they have one element, which only the run knows (``stretch``)."""

from __future__ import annotations

from collections.abc import Set
from dataclasses import dataclass

from ...dialects import ir, tw
from ...dialects.walk import defining_op, integer_of
from .structure import body_ops, dim_of, index_dim, indexing_maps, is_zero, iterator_types, shape_of

_BODY = ("linalg.index", "arith.constant", "arith.subi", "arith.minsi", "arith.extf", "arith.truncf")


@dataclass(frozen=True)
class OpenBroadcast:
    """What an op repeats: ``source``, along those of the ``unsure`` axes where that has one element."""

    source: ir.Value
    unsure: Set[int]

    @staticmethod
    def of(op: ir.Operation | None) -> OpenBroadcast | None:
        """The broadcast that an op is; None for any other op."""
        if op is None or tw.BROADCAST not in op.attributes:
            return None
        inner = body_ops(op)
        reads = [each for each in inner if each.name == "tensor.extract"]
        if len(reads) != 1 or any(each.name not in _BODY for each in inner if each.name != "tensor.extract"):
            return None
        [source, *places] = reads[0].operands
        found = [  # an axis of one element is not walked
            (axis, True) if extent == 1 and integer_of(place) == 0 else _find_dim(place)
            for axis, (extent, place) in enumerate(zip(shape_of(source), places, strict=True))
        ]
        if [dim for dim, _ in found] != list(range(len(iterator_types(op)))):
            return None
        return OpenBroadcast(source, {dim for dim, clamped in found if clamped and dim is not None})


def maps_in_order(op: ir.Operation) -> bool:
    """Return whether an op maps elements that lie in its operands in the order of its result."""
    if op.name != "linalg.generic" or len(op.results) != 1 or set(iterator_types(op)) != {"parallel"}:
        return False
    *read, stored = indexing_maps(op)
    if [dim_of(e) for e in stored.results] != list(range(stored.n_dims)):
        return False
    along = [[dim_of(e) for e in m.results if not is_zero(e)] for m in read]
    ordered = all(None not in dims and sorted({d for d in dims if d is not None}) == dims for dims in along)
    return ordered and not any(inner.name in ("linalg.index", "tensor.extract") for inner in body_ops(op))


def _find_dim(place: ir.Value) -> tuple[int | None, bool]:
    """The loop whose index a place is, and whether that is clamped to the tensor."""
    op = defining_op(place)
    if op is not None and op.name == "linalg.index":
        return index_dim(op), False
    if op is None or op.name != "arith.minsi":
        return None, False
    sides = [side for side in map(defining_op, op.operands) if side is not None and side.name == "linalg.index"]
    return (index_dim(sides[0]) if len(sides) == 1 else None), True
