"""The schedules that a compilation takes from records, for its targets and its number of threads."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from ..core.choices import GivenOption
from ..core.errors import CompileError
from ..core.target import Target
from .lookup import find_winners
from .trial import Winner

RecordsChoice = bool | str | os.PathLike[str]


@dataclass(frozen=True)
class TunedSchedules:
    """Winners by target and kernel, and what is to be said of the files that they were looked up in."""

    winners: Mapping[Target, Mapping[str, Winner]] = field(default_factory=dict)
    notes: tuple[str, ...] = ()

    @staticmethod
    def find(choice: RecordsChoice, targets: Sequence[Target], threads: int) -> TunedSchedules:
        """Those of the usual files (True), of one file, or none (False), for programs with that many threads.

        Raises RecordError for a file that is given and has no records, CompileError for another choice.
        """
        if not isinstance(choice, bool | str | os.PathLike):
            raise CompileError(f"records is {choice!r}: give True, False, or the path of a file of records")
        if choice is False:
            return TunedSchedules()
        paths, notes = None if choice is True else [choice], []
        found = {target: find_winners(target, threads, paths, notes) for target in targets}
        return TunedSchedules(found, tuple(dict.fromkeys(notes)))

    def schedule(self, kernel: str, target: Target) -> str:
        """The JSON of a kernel's schedule; "" for none."""
        winner = self.winners.get(target, {}).get(kernel)
        return winner.schedule if winner else ""

    def choices(self, target: Target) -> dict[str, GivenOption]:
        """The decisions of graph passes, by key."""
        found = {key: winner.given_option for key, winner in self.winners.get(target, {}).items()}
        return {key: option for key, option in found.items() if option is not None}

    def schedules(self, kernels: Iterable[str], target: Target) -> dict[str, str]:
        """Those of the kernels that have one."""
        found = {kernel: self.schedule(kernel, target) for kernel in kernels}
        return {kernel: schedule for kernel, schedule in found.items() if schedule}

    def digest(self, kernels: Iterable[str]) -> str:
        """A hash of all that is taken for kernels; "" for nothing."""
        names, made = sorted({*kernels}), hashlib.sha256()
        taken = [(str(t), name, self.schedule(name, t)) for t in self.winners for name in names]
        parts = [part for each in taken if each[2] for part in each]
        for part in parts:
            made.update(hashlib.sha256(part.encode(errors="surrogatepass")).digest())
        return made.hexdigest() if parts else ""
