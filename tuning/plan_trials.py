"""What was found of decisions of a network's plan, in the records: the same search goes on with it after any end."""

from __future__ import annotations

import hashlib
import json
import os
import socket
import time
from collections.abc import Mapping
from dataclasses import dataclass, field

from ..core.choices import PREFIX, Choice
from ..core.program import Program
from ..core.target import Target
from ..records.database import Database
from ..records.trial import Trial, read_option, target_key
from .measuring.contest import Contest


@dataclass(frozen=True)
class PlanTrials:
    """The trials of decisions that one ``version`` has made for a target and a number of threads.

    A trial of an option has the key of the decision for a kernel's name, ``[option]`` for steps, and the seconds of a
    run that the kernels take which it is about, beside those of the rule's. One of a contest has the name of the
    network (``name_network``), pairs of a key and an option for steps, and the seconds of both programs.
    """

    database: Database
    target: Target
    threads: int
    version: str
    _known: list[Trial] = field(init=False, repr=False, default_factory=list)

    def __post_init__(self) -> None:
        found = self.database.trials(target=target_key(self.target), threads=self.threads)
        self._known.extend(t for t in found if t.kernel.startswith(PREFIX) and t.version == self.version)

    def find_options(self, choice: Choice) -> dict[int, Trial]:
        """The options of a decision that were measured beside the rule's."""
        known = [t for t in self._known if t.kernel == choice.key and t.default_steps == json.dumps([choice.default])]
        found = {read_option(trial.kernel, trial.steps): trial for trial in known}
        return {option: found[option] for option in choice.options if option in found}

    def keep_option(self, choice: Choice, option: int, seconds: float, default_seconds: float) -> Trial:
        """Keep the seconds of a run with an option, and with the rule's."""
        steps, beside = json.dumps([option]), json.dumps([choice.default])
        return self._keep(choice.key, steps, Contest((seconds,), (default_seconds,), 0, os.getloadavg()[0]), beside)

    def find_contest(self, network: str, decisions: Mapping[str, int]) -> Contest | None:
        """What came of a network with some decisions; None where it was not tried."""
        steps = _list_decisions(decisions)
        known = (trial for trial in self._known if (trial.kernel, trial.steps) == (network, steps))
        found = ((t.seconds, t.default_seconds, 0, t.load, t.reason) for t in known)
        return next((Contest(*each) for each in found), None)

    def keep_contest(self, network: str, decisions: Mapping[str, int], found: Contest) -> None:
        """Keep what came of a network with some decisions."""
        self._keep(network, _list_decisions(decisions), found, "[]")

    def _keep(self, name: str, steps: str, found: Contest, default_steps: str) -> Trial:
        trial = Trial(
            name,
            target_key(self.target),
            self.threads,
            "{}",
            steps,
            found.seconds,
            found.others,
            error="wrong" if found.difference else "",
            reason=found.difference,
            load=found.load,
            process=f"{socket.gethostname()}:{os.getpid()}:0",
            version=self.version,
            time=time.time(),
            default_steps=default_steps,
        )
        self.database.add(trial)
        self._known.append(trial)
        return trial


def name_network(program: Program) -> str:
    """What tells networks apart whose decisions are tried: by the kernels that the program calls."""
    names = " ".join(call.kernel for call in program.calls)
    return f"{PREFIX}network_{hashlib.sha256(names.encode()).hexdigest()[:8]}"


def _list_decisions(decisions: Mapping[str, int]) -> str:
    return json.dumps(sorted(decisions.items()))
