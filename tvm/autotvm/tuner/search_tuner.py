"""Tuners that are searches of ``tuning/search`` over the configs of a task."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from ....core.errors import InputError
from ....tuning.search.annealing import AnnealingSearch
from ....tuning.search.boosted import BoostedRanking, describe_options, load_xgboost
from ....tuning.search.genetic import GeneticSearch
from ....tuning.search.pattern import PatternSearch
from ....tuning.search.searcher import Searcher
from ....tuning.spaces.space import Knob, Point
from .. import features
from ..kernels import KernelTask
from ..results import KernelResult, MeasureInput, MeasureResult, mean_cost
from ..space import ConfigEntity, ConfigSpace
from ..templates import Task
from .tuner import Tuner, logger


@dataclass(frozen=True)
class _Choice:
    """What searches take for a schedule: they compare its steps."""

    steps: Any

    def to_json(self) -> dict[str, Any]:
        """As a schedule's."""
        return {"steps": self.steps}


class Configs:
    """The configs of a task as a space of the engine's searches."""

    def __init__(self, space: ConfigSpace) -> None:
        self._space = space
        self.knobs: tuple[Knob, ...] = space.knobs
        self.default: Point = space.default

    def schedule(self, point: Point) -> Any:
        """What stands for the config of a point; None where there is none."""
        steps = self._space.steps(point)
        return None if steps is None else _Choice(steps)

    def find(self, schedule: Any) -> Point | None:
        """None: schedules of kernels are no configs of a template."""
        return None


class SearchTuner(Tuner):
    """Tries the first config, then what a search proposes."""

    def __init__(self, task: Task, search: Searcher) -> None:
        super().__init__(task)
        self.search = search
        default = self.space.knob2point(self.space.default)
        self._ahead: list[int] = [default] if self.space.is_index_valid(default) else []
        self._unit = math.nan  # seconds of the first config, which others are compared with
        self._waiting: list[tuple[Point, float]] = []  # what was measured before that is known

    def has_next(self) -> bool:
        """See ``Tuner``."""
        if not self._ahead:
            self._ahead = [self.space.knob2point(point) for point in self.search.propose(1)]
        return bool(self._ahead)

    def next_batch(self, batch_size: int) -> list[ConfigEntity]:
        """See ``Tuner``."""
        made: list[ConfigEntity] = []
        while len(made) < batch_size and self.has_next():
            made.append(self.space.get(self._ahead.pop(0)))
        return made

    def update(self, inputs: Sequence[MeasureInput], results: Sequence[MeasureResult]) -> None:
        """Tell the search."""
        for given, result in zip(inputs, results, strict=True):
            point = tuple(self.space.point2knob(given.config.index))
            self._waiting.append((point, _read_cost(result)))
        measured = [seconds for _, seconds in self._waiting if math.isfinite(seconds)]
        if math.isnan(self._unit) and not measured:
            return
        if math.isnan(self._unit):
            self._unit = measured[0]
        for point, seconds in self._waiting:
            self.search.tell(point, seconds / self._unit)
        self._waiting = []

    def load_history(self, data_set: Iterable[tuple[MeasureInput, MeasureResult]], min_seed_records: int = 500) -> None:
        """Tell the search of records of the same workload, which it does not try again; of others it learns nothing."""
        others = 0
        for given, result in data_set:
            if (index := self._find_index(given, result)) is None:
                others += 1
                continue
            self.update([given._replace(config=self.space.get(index))], [result])
        if others:
            logger.info("%d records are of other workloads, from which %s learns nothing", others, type(self).__name__)

    def _find_index(self, given: MeasureInput, result: MeasureResult) -> int | None:
        """The number of a record's config; None for what is of another workload, or of another space."""
        if isinstance(self.task, KernelTask) and isinstance(result, KernelResult):
            return self.task.find_index(result.trial)
        if given.task.workload != self.task.workload or given.config.index >= self.space.range_length:
            return None
        known = self.space.get(given.config.index)
        return known.index if repr(known) == repr(given.config) else None


def _read_cost(result: MeasureResult) -> float:
    """What is compared: of a kernel its ratio to the default's time, else seconds."""
    if result.error_no:
        return math.inf
    return result.trial.ratio if isinstance(result, KernelResult) else mean_cost(result)


class GATuner(SearchTuner):
    """A genetic search: ``pop_size`` configs a generation, of which ``elite_num`` stay."""

    def __init__(
        self, task: Task, pop_size: int = 100, elite_num: int = 3, mutation_prob: float = 0.1, seed: int = 0
    ) -> None:
        if not 0 < elite_num <= pop_size:
            raise InputError(f"elite_num is {elite_num} and pop_size {pop_size}: at least 1, and no more than pop_size")
        super().__init__(task, GeneticSearch(Configs(task.config_space), seed, pop_size, elite_num, mutation_prob))


class DropletTuner(SearchTuner):
    """The neighbours of the best configs, those that look good before others: the search of ``tilewright tune``."""

    def __init__(self, task: Task, seed: int = 0) -> None:
        super().__init__(task, PatternSearch(Configs(task.config_space), seed))


class XGBTuner(SearchTuner):
    """Simulated annealing on boosted trees, which learn again after each ``plan_size`` configs.

    ``feature_type`` is what they see: "itervar" (loops), "curve" (how tensors are used again; comparable between sizes)
    or "knob" (the entities alone, which is quicker). ``loss_type`` is "reg", "rank" or "rank-binary". InputError where
    the package xgboost is missing, and for an ``optimizer`` of a user's.
    """

    def __init__(
        self,
        task: Task,
        plan_size: int = 64,
        feature_type: str = "itervar",
        loss_type: str = "reg",
        num_threads: int | None = None,
        optimizer: Any = "sa",
        diversity_filter_ratio: float | None = None,
        log_interval: int = 50,
        seed: int = 0,
    ) -> None:
        if optimizer != "sa" or diversity_filter_ratio is not None:
            raise InputError("XGBTuner anneals, and takes the best: leave optimizer and diversity_filter_ratio out")
        if feature_type not in ("itervar", "knob", "curve"):
            raise InputError(f"feature_type is '{feature_type}': choose from itervar, knob and curve")
        load_xgboost()
        self.feature_type, self.loss_type = feature_type, loss_type
        loss: Any = loss_type
        model = BoostedRanking(Configs(task.config_space), loss, self.describe, num_threads or 1)
        super().__init__(task, AnnealingSearch(Configs(task.config_space), seed, model, plan_size))

    @property
    def correlation(self) -> float:
        """The rank correlation of what the trees predicted with what was measured; 0 as long as they have not."""
        assert isinstance(self.search, AnnealingSearch)
        return self.search.correlation

    def update(self, inputs: Sequence[MeasureInput], results: Sequence[MeasureResult]) -> None:
        """Tell the search, and the log how well the trees rank."""
        super().update(inputs, results)
        if self.correlation:
            logger.debug("rank correlation of the cost model: %.2f", self.correlation)

    def describe(self, point: Point) -> list[float]:
        """The features of a config; none of one that makes no schedule."""
        if self.feature_type == "knob":
            return describe_options(Configs(self.space), point)
        nests = self.task.read_nests(point)
        return features.describe_loops(nests) if self.feature_type == "itervar" else features.describe_curves(nests)
