"""What both kinds of random graphs draw alike."""

from __future__ import annotations

from collections.abc import Iterable
from random import Random
from typing import Any

from fuzz.schemas import Rejected


class Draws:
    """Choices of a source of random numbers."""

    def __init__(self, random: Random) -> None:
        self.random = random

    def chance(self, share: float) -> bool:
        """Whether one of a share of cases is this one."""
        return self.random.random() < share

    def one_of(self, choices: Iterable[Any]) -> Any:
        """One of some values; Rejected where there are none."""
        choices = list(choices)
        if not choices:
            raise Rejected
        return self.random.choice(choices)
