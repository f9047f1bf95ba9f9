"""The searches by name."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from ..spaces.space import Space
from .annealing import AnnealingSearch
from .evolution import EvolutionSearch
from .exhaustive import GridSearch, RandomSearch
from .genetic import GeneticSearch
from .pattern import PatternSearch
from .sampled import OptunaSearch
from .searcher import Searcher

SEARCHES: dict[str, Callable[[Space, int], Searcher]] = {
    "pattern": PatternSearch,
    "random": RandomSearch,
    "grid": GridSearch,
    "genetic": GeneticSearch,
    "annealing": AnnealingSearch,
    "evolution": EvolutionSearch,
    "tpe": partial(OptunaSearch, sampler="tpe"),
    "cmaes": partial(OptunaSearch, sampler="cmaes"),
}


def make_search(name: str, space: Space, seed: int) -> Searcher:
    """The search of a name in ``SEARCHES``."""
    return SEARCHES[name](space, seed)
