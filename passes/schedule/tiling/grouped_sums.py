"""Which sums of products have steps that go together: four of bytes, two of widened bytes or of bfloat16."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ....core.target import DotProduct, Target
from ....dialects import ir
from ....dialects.builders import element_of
from ....dialects.types import element_bits
from ....dialects.walk import defining_op
from ...analysis.kinds import Contraction, Conv, OpClass
from ...ir.structure import body_ops, dim_of, indexing_maps, iterator_types, loop_extents, shape_of
from ..tiles.structured import loop_along
from .tiler import packed_dims

# The elements of a product's data, weight and sums, and what widens the first two.
_OF_BYTES = ("i8", "i8", "i32"), ("arith.extui", "arith.extsi")
_OF_WIDENED = ("i16", "i8", "i32"), ("arith.extsi", "arith.extsi")
_OF_WORDS = ("i16", "i16", "i32"), ("arith.extsi", "arith.extsi")
_OF_PAIRS = ("bf16", "bf16", "f32"), ("arith.extf", "arith.extf")


def byte_sum(op: ir.Operation, kind: OpClass) -> int | None:
    """The reduction loop of a contraction or convolution that can be taken several steps at a time; None for others.

    Its data are unsigned bytes, which lie together along that loop, its weight's are signed bytes, and its sums 32 bits
    wide. The data may be in 16 bits (`widen-operands`), as may both be (`winograd`).
    """
    return _known_loop(op, find_byte_loop(op, kind))


def find_byte_loop(op: ir.Operation, kind: OpClass) -> int | None:
    """The loop of ``byte_sum``, which may be an open one."""
    known = any(_has_elements(op, kind, *each) for each in (_OF_BYTES, _OF_WIDENED, _OF_WORDS))
    return _find_loop(op, kind) if known else None


def multiplies_widened(op: ir.Operation, kind: OpClass) -> bool:
    """Return whether a contraction or convolution multiplies bytes in 16 bits, the data, by signed ones, in 32 bits."""
    return _has_elements(op, kind, *_OF_WIDENED)


def multiplies_bytes(op: ir.Operation, kind: OpClass) -> bool:
    """Return whether a contraction or convolution multiplies unsigned bytes, the data, by signed ones, in 32 bits."""
    return _has_elements(op, kind, *_OF_BYTES)


def pair_sum(op: ir.Operation, kind: OpClass) -> int | None:
    """The reduction loop of a product of bfloat16 that can be taken two steps at a time; None for any other op."""
    return _known_loop(op, _find_loop(op, kind) if _has_elements(op, kind, *_OF_PAIRS) else None)


def find_grouped_sum(op: ir.Operation, kind: OpClass, target: Target) -> int | None:
    """The reduction loop whose steps go together on a target: of bytes, of bfloat16 where it multiplies these."""
    loop = byte_sum(op, kind)
    if loop is not None:
        return loop if find_dot_product(op, target) is not None else None
    return pair_sum(op, kind) if target.find_dot_product(16) is not None else None


def _has_elements(op: ir.Operation, kind: OpClass, elements: Sequence[str], widenings: Sequence[str]) -> bool:
    """Return whether a product has such data, such a weight and such sums, and widens the first two so."""
    if not isinstance(kind, Contraction | Conv):
        return False
    numbers, arguments = (1 - kind.weight, kind.weight, 2), op.regions[0].blocks[0].arguments
    if [str(element_of(op.operands[number])) for number in numbers] != [*elements]:
        return False
    found: Mapping[ir.Value, str] = {
        body.operands[0]: body.name for body in body_ops(op) if body.name.startswith("arith.ext")
    }
    return found == dict(zip((arguments[number] for number in numbers[:2]), widenings, strict=True))


def _find_loop(op: ir.Operation, kind: OpClass) -> int | None:
    """The loop over a sum along which the data of a product lie together, and which walks its weight."""
    if not isinstance(kind, Contraction | Conv) or len(shape_of(op.operands[1 - kind.weight])) == 0:
        return None
    data = 1 - kind.weight
    loop, walked = loop_along(op, data), [dim_of(e) for e in indexing_maps(op)[kind.weight].results]
    return loop if loop is not None and loop in walked and iterator_types(op)[loop] == "reduction" else None


def _known_loop(op: ir.Operation, loop: int | None) -> int | None:
    """A loop of several steps, as many as are known; None in place of any other."""
    return loop if loop is not None and loop_extents(op)[loop] > 1 else None


def find_dot_product(op: ir.Operation, target: Target) -> DotProduct | None:
    """The target's instruction for sums of an op's products; None where there is none."""
    kinds = [str(element_of(value)) for value in op.operands[:2] if isinstance(value.type, ir.ShapedType)]
    return target.widened_dot_product if "i16" in kinds else target.find_dot_product(operand_bits(op))


def operand_bits(op: ir.Operation) -> int:
    """The bits of an element of an op's first operand; 0 where that is no tensor."""
    value = op.operands[0]
    return element_bits(element_of(value)) if isinstance(value.type, ir.ShapedType) else 0


def group_of(*values: ir.Value) -> int:
    """How many elements lie together in 32 bits, of several values those of the widest."""
    return 32 // max(element_bits(element_of(value)) for value in values)


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
    return loop if sizes[1:] == [group_of(*op.operands[:2])] and dim_of(results[dims[1]]) == loop else None
