"""How a kernel is carried out: what `apply-schedule` chooses, whatever makes the loops."""

from __future__ import annotations

import math
from typing import Any, Protocol

from ...core.target import Target
from ...dialects import func, ir
from ...dialects.builders import element_of
from ...dialects.types import element_bits, is_dynamic_type, nbytes
from ...dialects.walk import integer_of
from ..analysis.classify import classify_op
from ..analysis.kinds import Contraction, OpClass
from ..ir.kernel import stated_summed
from ..ir.structure import AnyOp, is_structured, list_ops, loop_extents, shape_of, terminator_of
from ..ir.uses import nested_ops

# Below this many scalar operations a fork of threads costs more than it saves (a few microseconds).
PARALLEL_WORK = 400_000
# What a product reads for few rows, a weight or a cache of keys, may come from beyond a core's own caches, at 29 bytes
# a nanosecond from an Emerald Rapids' third one. Then a fork is worth it from so many bytes on.
STREAMED_BYTES = 1 << 18
# Steps of the parallel axis that callers see where sizes tell how many there are: each stands for a share of these.
STEPS = 1 << 12
_STEPS_OF_WHILE = 8  # of a loop whose steps the run decides
_POLYNOMIAL = 10  # operations of an exponential, a sine ...
_INSTRUCTIONS = frozenset({"absf", "absi", "ceil", "copysign", "floor", "fma", "roundeven", "trunc"})  # one each
# Ops that move whole tensors.
MOVES = ("tensor.concat", "tensor.pad", "tensor.insert_slice")


class LoopPlan(Protocol):
    """The loops of a kernel, decided and not yet built. Its text is what `tilewright explain` shows."""

    @property
    def extent(self) -> int:
        """Steps of the parallel axis."""
        ...

    @property
    def ahead(self) -> bool:
        """Return whether each call computes something before its steps."""
        ...

    def build(self, function: func.FuncOp, target: Target) -> ir.Module:
        """The kernel in destination-passing style. Raises NotSchedulable where a tile of some op cannot be computed."""
        ...

    def parallel_from(self, function: func.FuncOp) -> int | None:
        """From how many elements of the result on threads pay; None for never."""
        ...

    def to_json(self) -> Any:
        """The schedule as data that a user can change and give back; None where there is no such."""
        ...


class LoopsWithoutSchedule:
    """What plans have in common whose loops no ``Schedule`` describes."""

    @property
    def ahead(self) -> bool:
        """Return whether each call computes something before its steps: nothing is."""
        return False

    def to_json(self) -> Any:
        """There is no schedule."""
        return None

    def __str__(self) -> str:
        return ""


def makes_one_tensor(function: func.FuncOp) -> bool:
    """Return whether a kernel has one result with elements, and all shapes in it are known."""
    *ops, end = list_ops(function)
    dynamic = any(is_dynamic_type(v.type) for op in ops for v in op.results)
    return len(end.operands) == 1 and not dynamic and 0 not in shape_of(end.operands[0])


def threads_pay(function: func.FuncOp, extent: int, at_once: int = 1) -> int | None:
    """``parallel_from`` of a kernel of known sizes: all or none. ``at_once``: see ``estimate_work``."""
    return 0 if extent > 1 and estimate_work(function, at_once) >= PARALLEL_WORK else None


def find_streamed(function: func.FuncOp) -> int:
    """From how many elements of the result on threads pay if all that products read comes from beyond the caches.

    Each element counts as often as the open sizes are that the kernel sums along: attention by keys and values. 0 where
    no more is said than by the work, 1 where one row is enough.
    """
    products = [(op, kind) for op in list_ops(function) if isinstance(kind := _kind_of(op), Contraction)]
    if max((_count_read(op, kind) for op, kind in products), default=0) >= STREAMED_BYTES:
        return 1
    if len(products) < 2 or not stated_summed(function):
        return 0
    return STREAMED_BYTES // sum(element_bits(element_of(op.operands[kind.rhs])) // 8 for op, kind in products)


def _kind_of(op: ir.Operation) -> OpClass | None:
    return classify_op(op) if is_structured(op) else None


def _count_read(op: ir.Operation, kind: Contraction) -> int:
    """The bytes of the larger operand of a product; an open extent counts as one."""
    shapes = [shape_of(op.operands[number]) for number in (kind.lhs, kind.rhs)]
    elements = max(math.prod(extent for extent in shape if extent > 0) for shape in shapes)
    return elements * element_bits(element_of(op.operands[kind.rhs])) // 8


def dynamic_threads_pay(function: func.FuncOp) -> int:
    """``parallel_from`` of a kernel whose loops' steps only the run knows: its results have as many more elements."""
    elements = sum(math.prod(n for n in shape_of(v) if n > 0) for v in terminator_of(function).operands)
    return PARALLEL_WORK * elements // max(estimate_work(function), 1)


def estimate_work(function: func.FuncOp, at_once: int = 1) -> int:
    """Scalar operations of a kernel, or bytes that it reads and writes if they are more, to weigh against a fork.

    ``at_once``: how many of the operations take the time of one on floats.
    """
    operations, points = _count(function, 1)
    # An array may have more than is read of it: a table of words.
    types = [value.type for value in (*function.arguments, *terminator_of(function).operands)]
    tensors = [ir.ShapedType(t) for t in types if isinstance(t, ir.RankedTensorType) and not is_dynamic_type(t)]
    moved = sum(min(nbytes(t), points * element_bits(t.element_type) // 8) for t in tensors)
    return max(operations // at_once, moved)


def _count(op: AnyOp, times: int) -> tuple[int, int]:
    """Scalar operations of what is in a function or a loop, and the elements that it computes or moves."""
    operations = points = 0
    for inner in list_ops(op):
        if inner.name in MOVES:
            points += times * math.prod(abs(extent) for extent in shape_of(inner.results[0]))
        elif inner.name == "scf.for":
            found = _count(inner, times * (integer_of(inner.operands[1]) or 1))
            operations, points = operations + found[0], points + found[1]
        elif inner.name == "scf.while":
            operations += times * _STEPS_OF_WHILE * sum(1 for _ in nested_ops(inner))
        elif inner.name.startswith("linalg.") and inner.regions:
            points += times * count_points(inner)
            operations += times * count_scalars(inner)
        elif times > 1:
            operations += times
    return operations, points


def count_scalars(op: AnyOp) -> int:
    """Scalar operations of a structured op, in as many points."""
    return count_points(op) * sum(map(_count_operations, list_ops(op)))


def count_points(op: AnyOp) -> int:
    """Steps of a structured op's loops; an open extent counts as one."""
    return math.prod(extent for extent in loop_extents(op) if extent > 0)


def _count_operations(op: ir.Operation) -> int:
    dialect, _, name = op.name.partition(".")
    return _POLYNOMIAL if dialect == "math" and name not in _INSTRUCTIONS else 1
