"""Kernels of plain loops around products: threads share the blocks of an op, and wait for each other behind it."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import ClassVar

from ....core.target import Target
from ....dialects import func, ir, tw
from ....dialects.types import nbytes
from ....dialects.walk import collect, enclosing_loops, integer_of
from ...analysis.classify import classify_op
from ...analysis.kinds import Contraction, Elementwise
from ...ir.kernel import in_place, integer_attr, is_dynamic_kernel, list_functions
from ...ir.structure import is_static, num_inputs
from ..loop_plan import (
    LoopsWithoutSchedule,
    count_points,
    count_scalars,
    dynamic_threads_pay,
    estimate_work,
    threads_pay,
)
from ..tiles.regions import NotSchedulable
from .part_nests import Chooser
from .plain_loops import as_plain_loops

# So many threads share a product at most: more of them would wait longer for each other than they compute.
_MOST_PARTS = 16
# A product of fewer multiplications, of a weight of fewer bytes, takes less than 5 microseconds, another op of fewer
# scalar operations less than 3. An exchange takes a tenth of that, and what it copies.
_LEAST_WORK, _LEAST_SCALARS = 1 << 19, 1 << 17


def find_shared_ops(function: func.FuncOp) -> list[ir.Operation]:
    """The ops in a kernel's loops that are worth an exchange in each step, if products are most of the kernel's work.

    All else each thread does by itself. A kernel that changes an argument has none: each of them would.
    """
    if in_place(function):
        return []
    inside = collect(function, lambda op: bool(enclosing_loops(op)), "linalg.generic")
    products = find_large_products(inside)
    operations = sum(count_scalars(op) * _count_steps(op) for op in products)
    if not products or 2 * operations < estimate_work(function):
        return []
    others = [op for op in inside if all(map(is_static, op.operands)) and isinstance(classify_op(op), Elementwise)]
    return [*products, *(op for op in others if count_scalars(op) >= _LEAST_SCALARS)]


def find_large_products(ops: Iterable[ir.Operation]) -> list[ir.Operation]:
    """The products with weights that threads are worth for, each time that they are computed."""
    products = (op for op in ops if isinstance(classify_op(op), Contraction))
    return [op for op in products if (found := count_weight(op)) and max(count_points(op), found) >= _LEAST_WORK]


def count_weight(op: ir.Operation) -> int:
    """The bytes of a product's largest input of known size, 0 if there is none."""
    inputs = list(op.operands)[: num_inputs(op)]
    return max((nbytes(value.type) for value in inputs if is_static(value)), default=0)


def _count_steps(op: ir.Operation) -> int:
    """How often the loops around an op have it computed; one of open extent counts as one step."""
    return math.prod(integer_of(loop.operands[1]) or 1 for loop in enclosing_loops(op))


@dataclass(frozen=True)
class SharedBlocks(LoopsWithoutSchedule):
    """Loops whose steps build on each other, around ops whose blocks threads share: the steps are parts of these.

    What a ``shared`` op makes is the same for all threads, which each do all else by themselves.
    """

    choose: Chooser
    shared: Sequence[ir.Operation]
    reason: ClassVar[str] = "threads share the blocks of its products in loops whose steps may build on each other"

    @property
    def extent(self) -> int:
        """Steps of the parallel axis: as many as threads may share."""
        return _MOST_PARTS

    def build(self, function: func.FuncOp, target: Target) -> ir.Module:
        """The kernel in destination-passing style.

        Raises NotSchedulable where no op has blocks to share.
        """
        for op in self.shared:
            op.attributes[tw.EXCHANGE] = integer_attr(_MOST_PARTS)
        try:
            made = as_plain_loops(function, self.choose, target, title="threads share products, loops around nests:")
        finally:
            for op in self.shared:
                del op.attributes[tw.EXCHANGE]
        [kernel] = list_functions(made)
        loops = collect(kernel, lambda op: tw.EXCHANGE in op.attributes, "scf.for")
        if not loops:
            raise NotSchedulable("its ops have no blocks that threads could share")
        kernel.attributes[tw.EXCHANGES] = integer_attr(len(loops))
        return made

    def parallel_from(self, function: func.FuncOp) -> int | None:
        """From how many elements of the result on threads pay: what only the run knows makes as many more steps."""
        if is_dynamic_kernel(function):
            return dynamic_threads_pay(function)
        return threads_pay(function, self.extent)
