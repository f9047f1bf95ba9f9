"""A value that some reader wants padded is stored with its padding."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

from ...dialects import ir, tensor
from ...dialects.walk import defining_op
from ..infra.base import Pass
from ..ir.edit import list_programs
from ..ir.slices import read_under_slice
from ..ir.structure import list_ops, shape_of, terminator_of
from ..ir.uses import nested_ops, users_of
from ..schedule.tiling.border import can_border
from ..schedule.tiling.pool_windows import leaves_padding_to_reader


@dataclass(frozen=True)
class StorePadded(Pass):
    """Let the other readers of a padded value read its place inside of the padding, so that it is stored once.

    Before::

        %r = linalg.generic {relu}
        %p = tensor.pad %r low[0, 1, 1, 0] high[0, 1, 1, 0]
        %c = linalg.generic {convolution} ins(%p, %w)
        %s = linalg.generic {add} ins(%c, %r)

    After::

        %r = linalg.generic {relu}
        %p = tensor.pad %r low[0, 1, 1, 0] high[0, 1, 1, 0]
        %q = tensor.extract_slice %p[0, 1, 1, 0]
        %c = linalg.generic {convolution} ins(%p, %w)
        %s = linalg.generic {add} ins(%c, %q)

    The padding is then the only reader of ``%r``, and `fuse-ops` gives both to one kernel. A value that leaves the
    program, is reshaped, or is read by an op that is not structured stays as it is.
    """

    name: ClassVar[str] = "store-padded"
    opt_level: ClassVar[int] = 1

    def apply(self, module: ir.Module) -> None:
        """Rewrite all programs of the module."""
        for function in list_programs(module):
            for op in list_ops(function):
                if op.name == "linalg.generic" and len(op.results) == 1 and (pad := _padding(op)) is not None:
                    _read_inside(op, pad)


def _padding(op: ir.Operation) -> ir.Operation | None:
    """The largest padding of the op's result, if all its readers can do with it."""
    readers = users_of(op)
    paddings = [u for u in readers if u.name == "tensor.pad" and can_border(u) and not leaves_padding_to_reader(u)]
    if any(u.name not in ("tensor.pad", "linalg.generic") for u in readers) or not paddings:
        return None
    return max(paddings, key=lambda pad: math.prod(shape_of(pad.results[0])))


def _read_inside(op: ir.Operation, pad: ir.Operation) -> None:
    """Pad right after ``op``, and let all others read a slice of that."""
    value, others = op.results[0], [u for u in users_of(op) if u != pad]
    end = terminator_of(pad)
    constant = defining_op(end.operands[0])
    assert constant is not None
    pad.move_after(op)
    with ir.InsertionPoint(pad):
        end.operands[0] = constant.clone().results[0]
    if not others:
        return
    with ir.InsertionPoint.after(pad), pad.location:
        low = list(ir.DenseI64ArrayAttr(pad.attributes["static_low"]))
        ones = [1] * len(low)
        inside = tensor.ExtractSliceOp(value.type, pad.results[0], [], [], [], low, shape_of(value), ones)
    for other in others:
        for user in [other, *nested_ops(other)]:
            user.replace_uses_of_with(value, inside.result)
            if user.name == "tensor.extract":
                read_under_slice(user)
