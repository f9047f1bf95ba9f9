"""Which sums of products have steps that go together: four of bytes, two of bfloat16."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ....core.target import Target
from ....dialects import ir
from ....dialects.builders import element_of
from ....dialects.types import element_bits
from ....dialects.walk import defining_op
from ...analysis.kinds import Contraction, Conv, OpClass
from ...ir.structure import body_ops, dim_of, indexing_maps, iterator_types, loop_extents, shape_of
from ..tiles.structured import loop_along
from .tiler import packed_dims


def byte_sum(op: ir.Operation, kind: OpClass) -> int | None:
    """The reduction loop of a contraction or convolution that can be taken four steps at a time; None for any other op.

    Its data are unsigned bytes, which lie together along that loop, its weight's signed, and its sums 32 bits wide.
    """
    return _known_loop(op, find_byte_loop(op, kind))


def find_byte_loop(op: ir.Operation, kind: OpClass) -> int | None:
    """The loop of ``byte_sum``, which may be an open one."""
    return _find_loop(op, kind, ["i8", "i8", "i32"], ("arith.extui", "arith.extsi"))


def pair_sum(op: ir.Operation, kind: OpClass) -> int | None:
    """The reduction loop of a product of bfloat16 that can be taken two steps at a time; None for any other op."""
    return _known_loop(op, _find_loop(op, kind, ["bf16", "bf16", "f32"], ("arith.extf", "arith.extf")))


def find_grouped_sum(op: ir.Operation, kind: OpClass, target: Target) -> int | None:
    """The reduction loop whose steps go together on a target: of bytes, of bfloat16 where it multiplies these."""
    loop = byte_sum(op, kind)
    return pair_sum(op, kind) if loop is None and target.find_dot_product(16) is not None else loop


def _find_loop(op: ir.Operation, kind: OpClass, elements: Sequence[str], widenings: tuple[str, str]) -> int | None:
    if not isinstance(kind, Contraction | Conv):
        return None
    if [str(element_of(v)) for v in op.operands] != elements or len(shape_of(op.operands[1 - kind.weight])) == 0:
        return None
    data, arguments = 1 - kind.weight, op.regions[0].blocks[0].arguments
    found: Mapping[ir.Value, str] = {
        body.operands[0]: body.name for body in body_ops(op) if body.name.startswith("arith.ext")
    }
    if found != {arguments[data]: widenings[0], arguments[kind.weight]: widenings[1]}:
        return None
    loop, walked = loop_along(op, data), [dim_of(e) for e in indexing_maps(op)[kind.weight].results]
    return loop if loop is not None and loop in walked and iterator_types(op)[loop] == "reduction" else None


def _known_loop(op: ir.Operation, loop: int | None) -> int | None:
    """A loop of several steps, as many as are known; None in place of any other."""
    return loop if loop is not None and loop_extents(op)[loop] > 1 else None


def operand_bits(op: ir.Operation) -> int:
    """The bits of an element of an op's first operand; 0 where that is no tensor."""
    value = op.operands[0]
    return element_bits(element_of(value)) if isinstance(value.type, ir.ShapedType) else 0


def group_of(value: ir.Value) -> int:
    """How many elements of a value lie together in 32 bits."""
    return 32 // element_bits(element_of(value))


def grouped_loop(op: ir.Operation, kind: OpClass) -> int | None:
    """The reduction loop whose steps lie in groups in the packed weight; None where there is no such weight."""
    loop = byte_sum(op, kind)
    loop = pair_sum(op, kind) if loop is None else loop
    if loop is None or not isinstance(kind, Contraction | Conv):
        return None
    unpack = defining_op(op.operands[kind.weight])
    if unpack is None or unpack.name != "linalg.unpack":
        return None
    dims, sizes = packed_dims(unpack)
    results = list(indexing_maps(op)[kind.weight].results)
    return loop if sizes[1:] == [group_of(unpack.results[0])] and dim_of(results[dims[1]]) == loop else None
