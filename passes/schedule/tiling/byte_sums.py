"""Which sums are of products of bytes, whose steps go four at a time."""

from __future__ import annotations

from ....dialects import ir
from ....dialects.builders import element_of
from ....dialects.walk import defining_op
from ...analysis.kinds import Contraction, Conv, OpClass
from ...ir.dot_instructions import GROUP
from ...ir.structure import body_ops, dim_of, indexing_maps, iterator_types, loop_extents, shape_of
from ..tiles.structured import loop_along
from .tiler import packed_dims


def byte_sum(op: ir.Operation, kind: OpClass) -> int | None:
    """The reduction loop of a contraction or convolution that can be taken four steps at a time; None for any other op.

    Its data are unsigned bytes, which lie together along that loop, its weight's signed, and its sums 32 bits wide.
    """
    if not isinstance(kind, Contraction | Conv):
        return None
    data = 1 - kind.weight
    widened = {body.name: body.operands[0] for body in body_ops(op) if body.name.startswith("arith.ext")}
    arguments = op.regions[0].blocks[0].arguments
    if widened != {"arith.extui": arguments[data], "arith.extsi": arguments[kind.weight]}:
        return None
    if [str(element_of(v)) for v in op.operands] != ["i8", "i8", "i32"] or len(shape_of(op.operands[data])) == 0:
        return None
    loop, walked = loop_along(op, data), [dim_of(e) for e in indexing_maps(op)[kind.weight].results]
    if loop is None or loop not in walked or iterator_types(op)[loop] != "reduction":
        return None
    return loop if loop_extents(op)[loop] > 1 else None


def grouped_loop(op: ir.Operation, kind: OpClass) -> int | None:
    """The reduction loop whose steps lie in fours in the packed weight; None where there is no such weight."""
    loop = byte_sum(op, kind)
    if loop is None or not isinstance(kind, Contraction | Conv):
        return None
    unpack = defining_op(op.operands[kind.weight])
    if unpack is None or unpack.name != "linalg.unpack":
        return None
    dims, sizes = packed_dims(unpack)
    results = list(indexing_maps(op)[kind.weight].results)
    return loop if sizes[1:] == [GROUP] and dim_of(results[dims[1]]) == loop else None
