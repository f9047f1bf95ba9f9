"""What is lowered: a schedule, and the tensors that its program takes and gives."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass

from ..core.externals import Externals
from .arguments import split_args
from .calls import called_functions
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

    @property
    def externals(self) -> Externals:
        """The code that it comes with, and what its intrinsics call."""
        stages = self.schedule.stages
        calls = tuple((stage.name, name) for stage in stages for name in called_functions(stage))
        return Externals(tuple(dict.fromkeys(code for stage in stages for code in stage.code)), calls)

    @staticmethod
    def of(schedule: Schedule, args: Sequence[Tensor], name: str) -> Computation:
        """The schedule as it is now; ExpressionError for arguments that are not its own."""
        split_args(schedule, args)
        return Computation(*copy.deepcopy((schedule, tuple(args))), name)


class Lowered(str):
    """What a schedule is lowered to, as text, with what it is of."""

    computation: Computation

    def script(self) -> str:
        """The text itself."""
        return str(self)
