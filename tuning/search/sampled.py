"""Samplers of optuna as searches: tree-structured Parzen estimators (TPE), and an evolution strategy (CMA-ES)."""

from __future__ import annotations

import importlib.util
import math
from typing import Any

from ...core.errors import InputError
from ..spaces.space import Point, Space
from .searcher import Chosen

_ASKED_FOR_ONE = 200  # of asking, before a sampler counts as having no more new points
_RATIO_OF_FAILURE = 16.0  # the ratio that stands for a failure


class OptunaSearch:
    """Points as one of optuna's samplers asks for them; ``sampler`` is "tpe" or "cmaes".

    InputError where optuna, or what the sampler needs, is not installed.
    """

    def __init__(self, space: Space, seed: int, sampler: str) -> None:
        for package in ("optuna", "cmaes") if sampler == "cmaes" else ("optuna",):
            if importlib.util.find_spec(package) is None:
                raise InputError(f"search '{sampler}' needs the package {package}: pip install {package}")
        import optuna

        optuna.logging.set_verbosity(optuna.logging.ERROR)
        made = {"tpe": optuna.samplers.TPESampler, "cmaes": optuna.samplers.CmaEsSampler}[sampler](seed=seed)
        self._space, self._chosen = space, Chosen(space)
        self._study = optuna.create_study(sampler=made)
        self._asked: dict[Point, Any] = {}

    def propose(self, count: int) -> list[Point]:
        """See ``Searcher``."""
        made: list[Point] = []
        for _ in range(_ASKED_FOR_ONE * count):
            if len(made) == count:
                break
            trial = self._study.ask()
            point = tuple(
                trial.suggest_int(str(number), 0, len(knob.options) - 1)
                for number, knob in enumerate(self._space.knobs)
            )
            if self._chosen.add(point):
                self._asked[point] = trial
                made.append(point)
            else:  # not legal, or known: the sampler has to look elsewhere
                self._study.tell(trial, math.log(_RATIO_OF_FAILURE))
        return made

    def tell(self, point: Point, ratio: float) -> None:
        """See ``Searcher``."""
        self._chosen.add(point)
        if (trial := self._asked.pop(point, None)) is not None:
            self._study.tell(trial, math.log(min(max(ratio, 1e-6), _RATIO_OF_FAILURE)))
