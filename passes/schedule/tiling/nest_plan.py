"""A kernel of known sizes as the nest of its schedule."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ....core.target import Target
from ....dialects import func, ir
from ...analysis.classify import classify_op
from ...ir.kernel import run_upstream
from ...ir.matrix_registers import ROWS
from ...ir.structure import list_ops, terminator_of
from ..language.schedule import Schedule
from ..loop_plan import threads_pay
from ..tiles.structured import squeezed_type
from .destination_passing import destination_passing
from .grouped_sums import find_dot_product, group_of, grouped_loop
from .matrix_products import multiplies_matrices
from .nest import build_nest


@dataclass(frozen=True)
class NestPlan:
    """The nest of a schedule, with a nest for each stage of it.

    at_once: how many of its operations take the time of one on floats.
    """

    schedule: Schedule
    at_once: int

    @property
    def extent(self) -> int:
        """Steps of the parallel axis."""
        return self.schedule.extent

    @property
    def ahead(self) -> bool:
        """Return whether each call computes something before its steps."""
        return any(not stage.at for stage in self.schedule.stages)

    def build(self, function: func.FuncOp, target: Target) -> ir.Module:
        """The nest. Raises NotSchedulable where a tile of some op cannot be computed."""
        result = terminator_of(function).operands[0]

        def body(
            arguments: dict[ir.Value, ir.Value], dests: list[ir.Value], lo: ir.Value, hi: ir.Value
        ) -> list[ir.Value]:
            return [build_nest(self.schedule, result, dests[0], lo, hi, arguments, target)]

        made = destination_passing(function, body, squeezed_type)
        run_upstream(made, ("canonicalize", "cse"))
        return made

    def parallel_from(self, function: func.FuncOp) -> int | None:
        """From how many elements of the result on threads pay; None for never."""
        return threads_pay(function, self.extent, self.at_once)

    def to_json(self) -> Any:
        """The schedule as data."""
        return self.schedule.to_json()

    def __str__(self) -> str:
        return str(self.schedule)


def count_at_once(function: func.FuncOp, target: Target) -> int:
    """How many products of a kernel's sums take the time of one of floats: those of bytes that an instruction adds up.

    A product of 50 x 256 x 512 bytes takes 11 us by registers of matrices, and 14 with two threads.
    """
    for op in list_ops(function):
        grouped = grouped_loop(op, classify_op(op)) if op.name == "linalg.generic" else None
        if grouped is not None:
            if multiplies_matrices(op, grouped, target):
                return ROWS * group_of(op.operands[0])
            dot = find_dot_product(op, target)
            return dot.terms if dot is not None else 1
    return 1
