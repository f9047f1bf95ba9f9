"""What is lowered: a schedule, and the tensors that its program takes and gives."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass

from .arguments import split_args
from .schedule import Schedule
from .tensor import Tensor


@dataclass(frozen=True)
class Computation:
    """A schedule, the tensors that are its program's inputs and outputs, and the program's name. Plain data.

    Of an operator of a network, ``by_hand`` tells the schedule of a user from the compiler's own.
    """

    schedule: Schedule
    args: tuple[Tensor, ...]
    name: str
    by_hand: bool = False

    @staticmethod
    def of(schedule: Schedule, args: Sequence[Tensor], name: str) -> Computation:
        """The schedule as it is now; ExpressionError for arguments that are not its own."""
        split_args(schedule, args)
        return Computation(*copy.deepcopy((schedule, tuple(args))), name)


class Lowered(str):
    """What a schedule is lowered to, as text, with what it is of."""

    computation: Computation
