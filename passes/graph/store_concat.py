"""The pieces of a concat are stored where they lie in it, by the kernels that make them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from ...dialects import builders, ir
from ...dialects.types import nbytes
from ...dialects.walk import defining_op
from ..infra.base import Pass
from ..ir.edit import list_programs, program_order, replace
from ..ir.structure import is_static, list_ops, shape_of
from ..ir.uses import users_of


@dataclass(frozen=True)
class StoreConcat(Pass):
    """Make a concat of values that nobody else reads a chain of insertions, one behind what makes each value.

    Before::

        %a = linalg.generic {a convolution with relu}          // 1 x 55 x 55 x 64
        %b = linalg.generic {another one}
        %c = tensor.concat dim(3) %a, %b

    After::

        %e = tensor.empty                                      // 1 x 55 x 55 x 128
        %a = linalg.generic {a convolution with relu}
        %s = tensor.insert_slice %a into %e[0, 0, 0, 0]
        %b = linalg.generic {another one}
        %c = tensor.insert_slice %b into %s[0, 0, 0, 64]

    `fuse-ops` gives each insertion to the kernel of its value, and `plan-memory` lets ``%c`` lie where ``%s`` does:
    nothing is copied. An argument, a view or a value with other readers is inserted last, which copies it. A concat is
    left alone if that would be more than half of it, or of its pieces.
    """

    name: ClassVar[str] = "store-concat"
    opt_level: ClassVar[int] = 1

    def apply(self, module: ir.Module) -> None:
        """Rewrite the concats of all programs."""
        for function in list_programs(module):
            order = program_order(function)
            for op in list_ops(function):
                if op.name == "tensor.concat" and _is_worthwhile(op):
                    _store_pieces(op, order)


def _is_worthwhile(concat: ir.Operation) -> bool:
    """Return whether kernels make half of a concat of known size, and half of its pieces: the others are copied."""
    values, whole = list(concat.operands), concat.results[0]
    if not all(map(is_static, values)) or any(0 in shape_of(value) for value in values):
        return False
    pieces = [value for value in values if _is_piece(value, concat)]
    half = 2 * sum(nbytes(value.type) for value in pieces) >= nbytes(whole.type)
    return half and 2 * len(pieces) >= len(values)


def _is_piece(value: ir.Value, concat: ir.Operation) -> bool:
    """Return whether a kernel makes a value, which the concat alone reads, and once."""
    op = defining_op(value)
    if op is None or op.name != "linalg.generic" or len(op.results) != 1 or not is_static(value):
        return False
    return users_of(op) == [concat] and list(concat.operands).count(value) == 1 and 0 not in shape_of(value)


def _store_pieces(concat: ir.Operation, order: Mapping[ir.Value, int]) -> None:
    """Insert each piece behind the op that makes it, in program order: each insertion needs the one before."""
    axis, start = ir.IntegerAttr(concat.attributes["dim"]).value, 0
    places: dict[ir.Value, list[int]] = {}
    others: list[tuple[ir.Value, list[int]]] = []
    for piece in concat.operands:
        place = [start if d == axis else 0 for d in range(len(shape_of(piece)))]
        if _is_piece(piece, concat):
            places[piece] = place
        else:
            others.append((piece, place))
        start += shape_of(piece)[axis]
    first, *_ = ordered = sorted(places, key=order.__getitem__)
    source = defining_op(first)
    assert source is not None  # a piece
    with ir.InsertionPoint(source), concat.location:
        made = builders.empty(shape_of(concat.results[0]), builders.element_of(concat.results[0]))
    for piece in ordered:
        op = defining_op(piece)
        assert op is not None
        with ir.InsertionPoint.after(op), concat.location:
            made = builders.insert(piece, made, places[piece])
    with ir.InsertionPoint(concat), concat.location:
        for value, place in others:
            made = builders.insert(value, made, place)
    replace(concat, [made])
