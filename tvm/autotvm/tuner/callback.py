"""What tuners call with each batch of results: logs, and the line of progress."""

from __future__ import annotations

import logging
import os
import sys
import time
from collections.abc import Sequence
from typing import IO, Any

from .. import record
from ..results import MeasureInput, MeasureResult
from .tuner import Callback, flops_of, logger, scale_flops


def log_to_file(file_out: str | os.PathLike[str] | IO[str], protocol: str = "json") -> Callback:
    """Append a line of JSON, as TVM has them, for each config, to a file or to an open one.

    A line is on the disk before the next batch begins.
    """
    record.check_protocol(protocol)

    def write_rows(tuner: Any, inputs: Sequence[MeasureInput], results: Sequence[MeasureResult]) -> None:
        rows = "".join(f"{record.encode(*pair)}\n" for pair in zip(inputs, results, strict=True))
        if isinstance(file_out, str | os.PathLike):
            record.append_rows(file_out, rows)
        else:
            file_out.write(rows)

    return write_rows


class Monitor:
    """Keeps the operations a second of all configs, 0 for those that failed, and when each was over."""

    def __init__(self) -> None:
        self.scores: list[float] = []
        self.timestamps: list[float] = []

    def __call__(self, tuner: Any, inputs: Sequence[MeasureInput], results: Sequence[MeasureResult]) -> None:
        self.scores += [flops_of(*pair) for pair in zip(inputs, results, strict=True)]
        self.timestamps += [result.timestamp for result in results]

    def reset(self) -> None:
        """Forget all."""
        self.scores, self.timestamps = [], []

    def trial_scores(self) -> list[float]:
        """Operations a second, in order."""
        return self.scores

    def trial_timestamps(self) -> list[float]:
        """Seconds of the epoch, in order."""
        return self.timestamps


class ProgressBar:
    """The line ``Current/Best: 30.61/ 30.61 GFLOPS | Progress: (4/4) | 4.62 s``, which each batch writes again."""

    def __init__(self, total: int, prefix: str, si_prefix: str) -> None:
        self._total, self._prefix, self._si_prefix = total, prefix, si_prefix
        self._begin, self._count, self._done = time.time(), 0, False
        self._show(0.0, 0.0)

    def __call__(self, tuner: Any, inputs: Sequence[MeasureInput], results: Sequence[MeasureResult]) -> None:
        self._count += len(inputs)
        measured = [flops_of(*pair) for pair in zip(inputs, results, strict=True) if not pair[1].error_no]
        self._show(measured[-1] if measured else 0.0, tuner.best_flops)

    def finish(self) -> None:
        """End the line."""
        if not self._done and not logger.isEnabledFor(logging.DEBUG):
            sys.stdout.write(" Done.\n")
            sys.stdout.flush()
        self._done = True

    def _show(self, current: float, best: float) -> None:
        if logger.isEnabledFor(logging.DEBUG):
            return  # the log tells each config
        now, ever = scale_flops(current, self._si_prefix), scale_flops(best, self._si_prefix)
        sys.stdout.write(
            f"\r{self._prefix} Current/Best: {now:7.2f}/{ever:7.2f} {self._si_prefix}FLOPS"
            f" | Progress: ({self._count}/{self._total}) | {time.time() - self._begin:.2f} s"
        )
        sys.stdout.flush()


def progress_bar(total: int, prefix: str = "", si_prefix: str = "G") -> ProgressBar:
    """A line of progress over ``total`` configs."""
    return ProgressBar(total, prefix, si_prefix)
