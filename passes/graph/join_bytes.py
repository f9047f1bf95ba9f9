"""Products of bytes of open sizes read four neighbours along their sum as one word."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from ...core.sizes import Extent
from ...dialects import builders, ir
from ...dialects.types import i32_type
from ..analysis.classify import classify_sum
from ..analysis.kinds import Contraction
from ..infra.base import Pass
from ..ir.byte_words import add_byte_products, join_bytes
from ..ir.dot_instructions import GROUP
from ..ir.dynamic_sizes import note_sizes
from ..ir.edit import list_programs, replace
from ..ir.maps import permute
from ..ir.structure import indexing_maps, is_static, iterator_types, list_ops, loops_along
from ..schedule.tiling.grouped_sums import find_byte_loop


@dataclass(frozen=True)
class JoinBytes(Pass):
    """Let a product of bytes whose right operand is of open sizes multiply words, each four steps of its sum.

    CPUs add up the products of four bytes at once. A right operand of known sizes is packed for that (`pack-weights`);
    words lie along the columns of one of any size as its bytes do.

    Before::

        %c = linalg.generic {contraction, (m, k), (k, n)} ins(%a : tensor<?x?xi8>, %b : tensor<?x?xi8>)
             { extui, extsi, muli, addi }

    After::

        %p = %a, with up to three zeros behind each row where the run needs some, %q = %b, with as many rows of zeros
        %v = linalg.generic {(m, w) -> (m, w, 0), ..., (m, w, 3)} ins(%p as tensor<?x?x4xi8>) { the word of four bytes }
        %u = linalg.generic {(w, n) -> (w, 0, n), ..., (w, 3, n)} ins(%q as tensor<?x4x?xi8>) { the word of four bytes }
        %c = linalg.generic {contraction, (m, w), (w, n)} ins(%v : tensor<?x?xi32>, %u : tensor<?x?xi32>)
             { the products of their bytes, addi }

    `multiply-bytes` finds the CPU's instruction for these sums.
    """

    name: ClassVar[str] = "join-bytes"
    opt_level: ClassVar[int] = 2

    def apply(self, module: ir.Module) -> None:
        """Rewrite the products of all programs."""
        for function in list_programs(module):
            for op in list_ops(function):
                if (
                    isinstance(kind := classify_sum(op), Contraction)
                    and (loop := _find_word_loop(op, kind)) is not None
                ):
                    _multiply_words(op, kind, loop)


def _find_word_loop(op: ir.Operation, kind: Contraction) -> int | None:
    """The loop whose steps become words: of bytes that lie along the sum, and columns of open sizes."""
    loop, walked = find_byte_loop(op, kind), loops_along(op, kind.weight)
    if loop is None or kind.k != (loop,) or len(kind.n) != 1 or is_static(op.operands[kind.weight]):
        return None
    return loop if walked[-1] in (loop, *kind.n) and len(set(walked)) == len(walked) else None


def _multiply_words(op: ir.Operation, kind: Contraction, loop: int) -> None:
    maps, walked = indexing_maps(op), loops_along(op, kind.rhs)
    order = sorted(range(len(walked)), key=lambda dim: walked[dim] in kind.n)  # columns last
    letters = "".join(each[0] for each in iterator_types(op))
    maps[kind.rhs] = permute(maps[kind.rhs], order)

    def body(data: ir.Value, weight: ir.Value, total: ir.Value) -> ir.Value:
        return add_byte_products(data, weight, total)

    with ir.InsertionPoint(op), op.location:
        data, weight = (_make_words(op, number, loop) for number in (kind.lhs, kind.rhs))
        weight = weight if order == sorted(order) else builders.transpose(weight, order)
        out = builders.full(note_sizes(op.results[0]), builders.scalar(0, i32_type()))
        replace(op, builders.generic([data, weight], [out], maps, letters, body))


def _make_words(op: ir.Operation, number: int, loop: int) -> ir.Value:
    """The words of an operand along the loop; zeros stand behind its last bytes, where these are no whole word."""
    value, axis = op.operands[number], loops_along(op, number).index(loop)
    sizes = list(note_sizes(value))
    count = (sizes[axis] + GROUP - 1) // GROUP
    padded = _pad_end(value, sizes, axis, count * GROUP)
    return join_bytes(builders.reshape(padded, [*sizes[:axis], count, GROUP, *sizes[axis + 1 :]]), axis + 1)


def _pad_end(value: ir.Value, sizes: Sequence[Extent], axis: int, length: Extent) -> ir.Value:
    """A tensor with zeros up to a length of an axis; a run that needs none keeps it."""
    none, zero = [0] * len(sizes), builders.scalar(0, builders.element_of(value))
    high = [length - sizes[axis] if dim == axis else 0 for dim in range(len(sizes))]
    other = next((dim for dim in range(len(sizes)) if dim != axis), None)
    if isinstance(length, int) or other is None:
        return builders.pad(value, none, high, zero)

    def make(shape: Sequence[Extent]) -> ir.Value:
        part = builders.slice_(value, none, [*shape[:axis], sizes[axis], *shape[axis + 1 :]])
        return builders.pad(part, none, high, zero)

    keeps = builders.compare_extents(sizes[axis], length)
    return builders.keep_or_make(keeps, value, [*sizes[:axis], length, *sizes[axis + 1 :]], other, make)
