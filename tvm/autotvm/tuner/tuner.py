"""What all tuners have in common: measure configs in batches until there are enough."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from ....core.errors import InputError
from ..measuring import create_measure_batch
from ..results import MeasureInput, MeasureResult, mean_cost
from ..space import ConfigEntity
from ..templates import Task

logger = logging.getLogger("autotvm")
Callback = Callable[[Any, Sequence[MeasureInput], Sequence[MeasureResult]], Any]

_PREFIXES = {"k": 1e3, "m": 1e-3, "M": 1e6, "G": 1e9, "T": 1e12, "P": 1e15, "E": 1e18, " ": 1.0}


def scale_flops(flops: float, si_prefix: str) -> float:
    """Operations a second in units of a prefix ("G"). Raises InputError for what is none."""
    if si_prefix not in _PREFIXES:
        raise InputError(f"si_prefix is '{si_prefix}': choose from {', '.join(_PREFIXES)}")
    return flops / _PREFIXES[si_prefix]


def flops_of(given: MeasureInput, result: MeasureResult) -> float:
    """Operations a second; 0 where nothing was measured."""
    return given.task.flop / mean_cost(result) if not result.error_no else 0.0


class Tuner:
    """Tries configs of a task. ``best_config`` is the fastest so far, ``best_flops`` its operations a second."""

    def __init__(self, task: Task, **kwargs: Any) -> None:
        self.task, self.space, self.param = task, task.config_space, kwargs
        self.error_ct_threshold = 150
        self.n_trial: int | None = None
        self.early_stopping: float | None = None
        self.reset()

    def reset(self) -> None:
        """Forget the best config."""
        self.best_config: ConfigEntity | None = None
        self.best_flops = 0.0
        self.best_measure_pair: tuple[MeasureInput, MeasureResult] | None = None
        self.best_iter = 0

    def has_next(self) -> bool:
        """Return whether there is a config that was not tried."""
        raise NotImplementedError

    def next_batch(self, batch_size: int) -> list[ConfigEntity]:
        """The configs to try next, at most ``batch_size``."""
        raise NotImplementedError

    def update(self, inputs: Sequence[MeasureInput], results: Sequence[MeasureResult]) -> None:
        """Learn from what was measured."""

    def load_history(self, data_set: Iterable[tuple[MeasureInput, MeasureResult]], min_seed_records: int = 500) -> None:
        """Learn from records; tuners without a model have nothing to learn."""

    def set_error_threshold(self, threshold: int) -> None:
        """How many configs in a row may fail before the log tells each of them."""
        self.error_ct_threshold = threshold

    def tune(
        self,
        n_trial: int,
        measure_option: dict[str, Any],
        early_stopping: int | None = None,
        callbacks: Sequence[Callback] = (),
        si_prefix: str = "G",
    ) -> None:
        """Try ``n_trial`` configs, or until the best one has stayed the best for ``early_stopping``.

        ``callbacks`` are called with the tuner, the inputs and the results of each batch.
        """
        scale_flops(0, si_prefix)
        measure_batch = create_measure_batch(self.task, measure_option)
        batch = getattr(measure_batch, "n_parallel", 1)
        self.n_trial, self.early_stopping = n_trial, early_stopping or float("inf")
        level, tried, failed, reasons = logger.level, 0, 0, []
        try:
            while tried < n_trial and self.has_next():
                configs = self.next_batch(min(batch, n_trial - tried))
                if not configs:
                    break
                inputs = [MeasureInput(self.task.target, self.task, each) for each in configs]
                results = measure_batch(inputs)
                for given, result in zip(inputs, results, strict=True):
                    failed = failed + 1 if result.error_no else 0
                    if result.error_no:
                        reasons.append(": ".join(map(str, result.costs)))
                    self._note(tried, given, result, si_prefix)
                    tried += 1
                self.update(inputs, results)
                for callback in callbacks:
                    callback(self, inputs, results)
                if tried >= self.best_iter + self.early_stopping:
                    logger.debug("Early stopped. Best iter: %d.", self.best_iter)
                    break
                if failed > self.error_ct_threshold and logger.level != logging.DEBUG:
                    logger.warning("Too many errors happen in the tuning. Switching to debug mode.")
                    logger.setLevel(logging.DEBUG)
        finally:
            logger.setLevel(level)
            getattr(measure_batch, "close", lambda: None)()
            for callback in callbacks:
                getattr(callback, "finish", lambda: None)()
        if tried and len(reasons) == tried:
            logger.warning(
                "Could not find any valid schedule for task %s: all %d configs failed, the last one by %s",
                self.task,
                tried,
                reasons[-1],
            )

    def _note(self, number: int, given: MeasureInput, result: MeasureResult, si_prefix: str) -> None:
        """Keep the best config, and tell the log."""
        flops = flops_of(given, result)
        if flops > self.best_flops:
            self.best_flops, self.best_config = flops, given.config
            self.best_measure_pair, self.best_iter = (given, result), number
        logger.debug(
            "No: %d\t%sFLOPS: %.2f/%.2f\tresult: %s\t%s",
            number + 1,
            si_prefix,
            scale_flops(flops, si_prefix),
            scale_flops(self.best_flops, si_prefix),
            result,
            given.config,
        )
