"""Which search a task has."""

from __future__ import annotations

from typing import Any

from ...core.errors import InputError
from ...tuning.search.searcher import Searcher
from ...tuning.search.table import SEARCHES, make_search
from ...tuning.spaces.space import Space

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


class SketchPolicy:
    """The search of a task: by ``program_cost_model``, the seed in ``seed``. Other parameters are those of sketches,
    which this engine does not have: its spaces are around the compiler's own schedules."""

    def __init__(
        self,
        task: Any,
        program_cost_model: Any = None,
        params: Any = None,
        seed: int | None = None,
        verbose: int = 1,
        init_search_callbacks: Any = None,
    ) -> None:
        if params or init_search_callbacks:
            raise InputError("there are no sketches here: leave params and init_search_callbacks out")
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
