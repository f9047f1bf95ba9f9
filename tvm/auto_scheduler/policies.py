"""Which search a task has."""

from __future__ import annotations

import itertools
import os
from typing import Any

from ...core.errors import InputError
from ...records.trial import Trial
from ...tuning.search.searcher import Searcher
from ...tuning.search.table import SEARCHES, make_search
from ...tuning.spaces.space import Space
from .measure_record import load_records

# The search that each of TVM's policies stands for. "default" needs no other package.
_SEARCHES = {"default": "pattern", "sketch.xgb": "annealing", "sketch.random": "random"}


class RandomModel:
    """Knows nothing: schedules are tried at random."""

    search = "random"


class XGBModel:
    """Boosted trees that learn what is fast: simulated annealing asks them. InputError where xgboost is missing."""

    search = "annealing"

    def __init__(self, verbose_eval: int = 25, num_warmup_sample: int = 100, **others: Any) -> None:
        if others:
            raise InputError(f"the model has no {', '.join(others)} here: leave that out")
        self.known: list[Trial] = []

    def update_from_file(self, file_name: str | os.PathLike[str], n_lines: int | None = None) -> None:
        """Learn from the records of a log, or from its first lines; see ``load_records``."""
        self.known += itertools.islice(load_records(file_name), n_lines)

    def save(self, file_name: str | os.PathLike[str]) -> None:
        """Trees as a file: InputError, as they are made of records at each search."""
        raise InputError(f"trees are not written to '{file_name}': keep the log, update_from_file learns from it")

    def load(self, file_name: str | os.PathLike[str]) -> None:
        """As ``save``."""
        self.save(file_name)


class PreloadMeasuredStates:
    """What a search knows before it begins: the records of a log, which are not measured again."""

    def __init__(self, filename: str | os.PathLike[str]) -> None:
        self.known = list(load_records(filename))


class SketchPolicy:
    """The search of a task: by ``program_cost_model``, with ``seed``, and what ``init_search_callbacks`` know.

    ``params`` are those of sketches, which this engine does not have: its spaces are around the compiler's schedules.
    """

    def __init__(
        self,
        task: Any,
        program_cost_model: Any = None,
        params: Any = None,
        seed: int | None = None,
        verbose: int = 1,
        init_search_callbacks: Any = None,
    ) -> None:
        if params:
            raise InputError("there are no sketches here: leave params out")
        sources = (program_cost_model, *(init_search_callbacks or ()))
        self.known: list[Trial] = [trial for each in sources for trial in getattr(each, "known", ())]
        self.task, self.seed, self.verbose = task, seed or 0, verbose
        self.search = getattr(program_cost_model, "search", "pattern")


def make_policy_search(policy: Any, space: Space) -> Searcher:
    """The search of a policy, or of its name, TVM's or the engine's. Raises InputError for what is none."""
    known = {**dict(zip(SEARCHES, SEARCHES, strict=True)), **_SEARCHES}
    name = policy.search if isinstance(policy, SketchPolicy) else known.get("default" if policy is None else policy)
    if name is None:
        names = ", ".join((*_SEARCHES, *SEARCHES))
        raise InputError(f"search_policy is {policy!r}: choose from {names}, or give a SketchPolicy")
    seed = policy.seed if isinstance(policy, SketchPolicy) else 0
    return make_search(name, space, seed)
